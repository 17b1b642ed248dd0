"""What every derivation rests on: symbols, sums, activations, checks."""
