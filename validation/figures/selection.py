"""Figures of greedy selection: predicted curves with measured points on them."""

from collections.abc import Mapping

from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from theory import InputError
from validation.figures.common import _INK, _SMALL, PALETTE, _axes, _floats

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
    figure, ax = _axes(xlabel, ylabel)
    names = [*predicted, *(name for name in measured if name not in predicted)]
    colours = {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(names)}
    for name, (x, y) in predicted.items():
        label = f"{'_' * (name in measured)}theory, {name}"
        ax.plot(_floats(x), _floats(y), color=colours[name], ls="--", lw=1.5, label=label)
    for name, (x, y, error) in measured.items():
        ax.errorbar(
            _floats(x), _floats(y), yerr=_floats(error), fmt="o", ms=5, color=colours[name], elinewidth=1.2, capsize=3,
            label=name,
        )  # fmt: skip
    for place, (name, (x, y)) in enumerate((rivals or {}).items()):
        ax.plot(_floats(x), _floats(y), color=_INK, ls=(0, (1, 1 + place)), lw=1.3, label=name)
    ax.set_xscale("log" if "x" in log else "linear")
    ax.set_yscale("log" if "y" in log else "linear")
    ax.legend(frameon=False, fontsize=_SMALL)
    return figure
