"""Conjectures of one's own: from a file to claims that are judged as those of the catalogue are."""
