"""Benchmarks: what each part costs, beside the floor that the machine sets. Run with ``python -m benchmarks``."""
