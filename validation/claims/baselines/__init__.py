"""Claims about the baselines."""
