"""What the built-in models have compared: cases of `validation.comparison`."""
