"""Figures: matplotlib objects, and the data drawn on them."""
