"""Claims about declared models."""
