"""Claims about networks on images."""
