"""Declared models: inputs, target, student, loss and rule, each a small object that anyone can extend in one file."""
