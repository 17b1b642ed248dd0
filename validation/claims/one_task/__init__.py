"""Claims about one direction alone."""
