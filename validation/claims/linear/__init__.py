"""Claims about the two-layer linear network."""
