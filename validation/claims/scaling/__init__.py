"""Claims about many directions."""
