"""Quadratic networks in time: Riccati flows, Stiefel SGD."""
