"""Finite step size: maps, equations, diffusions; the committee."""
