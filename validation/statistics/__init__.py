"""Standard errors, exponents, resampling."""
