"""Many directions: selection on random overlaps, loss sums and their power laws."""
