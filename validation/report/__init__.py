"""The page that people read."""
