"""The baselines in time."""
