"""The page that integrates the derived equations where it is read: ``emergence explore``."""
