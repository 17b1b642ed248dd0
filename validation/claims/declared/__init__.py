"""Claims about declared models, and what they stand on."""
