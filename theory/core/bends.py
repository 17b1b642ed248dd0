r"""Where an activation bends: places a at which its slope jumps, by κ (derived).

$\sigma-\sum_j\kappa_j\max(z-a_j,0)$ then has a continuous slope, and what a bend does to a Gaussian integral is closed.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import combinations

import numpy as np
import scipy
import sympy as sp

from theory.core.activation import Activation
from theory.core.errors import InputError
from theory.core.hermite import CELLS, z
from theory.core.lowered import lower_numpy

#: How far to look, and off a grid that would meet round numbers; the most places, beyond which none is taken.
_FAR, _OFF, _MOST = 14.0, 0.000317, 8
#: What is beside a place, in units of it; a difference of slopes there that is none; and a place that is 0.
_BESIDE, _NONE, _ZERO = 1e-9, 1e-6, 1e-12
#: Bends: places and jumps of the slope.
Bends = tuple[tuple[float, float], ...]


@lru_cache(maxsize=64)
def bends(activation: Activation) -> Bends:
    """(a, κ) of each; none of an activation that jumps, or of one with too many to be told from a smooth one."""
    with suppress(InputError):
        slope = activation.arrays(1)
        places = sorted({place for inner in _switches(activation.function) for place in _roots(inner)})
        beside = [_BESIDE * max(1.0, abs(place)) for place in places]
        jumps = [float(slope(np.array(a + e)) - slope(np.array(a - e))) for a, e in zip(places, beside, strict=True)]
        found = tuple((a, jump) for a, jump in zip(places, jumps, strict=True) if abs(jump) > _NONE)
        return found if len(found) <= _MOST else ()
    return ()


def _switches(expression: sp.Expr) -> Iterator[sp.Expr]:
    """Expressions at whose zeros another branch begins."""
    for one in expression.atoms(sp.Abs, sp.sign, sp.Heaviside):
        yield one.args[0]
    for one in expression.atoms(sp.Max, sp.Min):
        yield from (first - second for first, second in combinations(one.args, 2))
    for one in expression.atoms(sp.Piecewise):
        yield from (x.lhs - x.rhs for _, when in one.args for x in when.atoms(sp.core.relational.Relational))


def _roots(inner: sp.Expr) -> Iterator[float]:
    """Where it changes its sign."""
    function, points = lower_numpy(inner, (z,)), np.linspace(-_FAR, _FAR, CELLS + 1) + _OFF
    signs = np.sign(function(points))
    for k in np.flatnonzero(signs[:-1] * signs[1:] < 0):
        root = scipy.optimize.brentq(function, points[k], points[k + 1], xtol=1e-15)
        yield 0.0 if abs(root) < _ZERO else float(root)
