"""Figures of greedy selection: predicted curves with measured points on them."""

from collections.abc import Mapping

from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from theory import InputError
from validation.figures.plot import INK, PALETTE, Plot

#: A curve (x, y), and points (x, y, standard errors of y).
Curve = tuple[ArrayLike, ArrayLike]
Points = tuple[ArrayLike, ArrayLike, ArrayLike]


def predicted_and_measured(
    predicted: Mapping[str, Curve],
    measured: Mapping[str, Points],
    xlabel: str,
    ylabel: str,
    *,
    rivals: Mapping[str, Curve] | None = None,
    log: str = "",
) -> Figure:
    """Dashed curves of theory, points with ± 1 stderr in the same colour, dotted grey curves of wrong theories.

    Args:
        predicted: name → (x, y). measured: name → (x, y, stderr); a name that is also predicted takes its colour.
        rivals: name → (x, y). log: axes that are logarithmic, some of "xy".

    Raises: `InputError` where nothing is given.
    """
    if not predicted and not measured:
        raise InputError("predicted, measured: nothing to draw: give a curve or points")
    plot = Plot(xlabel, ylabel, log)
    names = [*predicted, *(name for name in measured if name not in predicted)]
    colour = {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(names)}
    for name, curve in predicted.items():
        plot.theory(*curve, f"{'_' * (name in measured)}theory, {name}", colour[name])
    for name, (x, y, error) in measured.items():
        plot.points(x, y, name, colour[name], error)
    for place, (name, curve) in enumerate((rivals or {}).items()):
        plot.limit(*curve, name, INK, ls=(0, (1, 1 + place)))
    return plot.done()
