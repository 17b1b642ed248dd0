"""Claims about the additive model."""
