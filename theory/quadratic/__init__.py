"""Quadratic networks: the Riccati flow, its laws, Stiefel SGD."""
