"""The built-in catalogue of claims, one module per group."""
