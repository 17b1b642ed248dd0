"""The two-layer linear network under label noise, SAM and the oscillation chain."""
