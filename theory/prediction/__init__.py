"""Who learns what, and when; and where that holds."""
