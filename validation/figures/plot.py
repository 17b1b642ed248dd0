"""The vocabulary of figures, for those of the claims. It lives below, where results draw themselves."""

from dynamics.core.plot import INK, PALETTE, SMALL, TEXT, Plot, checked, colour_bar, colours, shades

__all__ = ["INK", "PALETTE", "SMALL", "TEXT", "Plot", "checked", "colour_bar", "colours", "shades"]
