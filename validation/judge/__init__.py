"""Claims, how they are run and judged, and what is kept of them."""
