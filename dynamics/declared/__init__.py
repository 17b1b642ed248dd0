"""Declared models in time: the flow, SGD exact in law, and SGD in coordinates."""
