"""What the systems are held against: correlation loss, kernels, toy losses."""
