"""One direction alone under SGD."""
