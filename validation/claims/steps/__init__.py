"""Claims about finite step size."""
