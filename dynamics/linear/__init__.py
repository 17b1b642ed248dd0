"""The two-layer linear network in time."""
