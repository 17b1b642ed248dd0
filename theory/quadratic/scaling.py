r"""Scaling laws of quadratic networks (arXiv:2508.03688, time-complexity theorem), constants and speed factor explicit.

Weights $a_j=j^{-\beta}$, j ≤ M*, width N, $\tilde a=a/\|a\|$. With $T_j=\|a\|j^\beta\log(d/N)/(2\gamma)$ the number of
directions learned by Riccati time τ is $p\propto\tau^{1/\beta}$.

* β > ½: $\|a\|^2\to\zeta(2\beta)$; what p directions leave is $\propto p^{1-2\beta}$: $R\sim\tau^{(1-2\beta)/\beta}\vee
  N^{1-2\beta}$.
* β < ½: $\|a\|^2\simeq M_*^{1-2\beta}/(1-2\beta)$, so with $j=xM_*$ the time is $\tau=\sqrt{M_*}\,\log(d/N)\,\cdot\,
  x^\beta/(2\gamma\sqrt{1-2\beta})$ and $\tfrac12R=1-\min(x,\varphi,1)^{1-2\beta}$, $\varphi=N/M_*$.

The unit of time for β < ½ is thus $\sqrt{M_*}\log(d/N)/\gamma$: $M_*\log(d/N)$, as in the theorem, for a student normalised
by $\gamma=N^{-1/2}\asymp M_*^{-1/2}$. Corrections are of relative order $1/\log(d/N)$.
"""

from functools import cache

import numpy as np
import scipy
import sympy as sp
from numpy.typing import ArrayLike

from theory.core.errors import InputError

beta, power = sp.symbols("beta nu", positive=True)
_learned, _cost = sp.symbols("p C", positive=True)


@cache
def exponents() -> dict[str, sp.Expr]:
    r"""Exponents of the risk for β > ½ in time, width and compute N·t, with $\gamma=N^{-\nu}$ (`power`).

    By algebra from the tail $p^{1-2\beta}$: time $\propto p^\beta/\gamma$, and at the frontier N ∝ p. ``time``
    (1−2β)/β, ``width`` 1−2β, ``compute`` (1−2β)/(1+β+ν).
    """
    tail = _learned ** (1 - 2 * beta)

    def exponent(grows: sp.Expr) -> sp.Expr:
        inverse = _cost ** (1 / sp.simplify(_learned * sp.diff(sp.log(grows), _learned)))
        loss = tail.subs(_learned, inverse)
        return sp.factor(sp.simplify(_cost * sp.diff(sp.expand_log(sp.log(loss), force=True), _cost)))

    return {
        "time": exponent(_learned**beta),
        "width": exponent(_learned),
        "compute": exponent(_learned * _learned**beta * _learned**power),
    }


def _number(name: str, decay: float, nu: float = 0.0) -> float:
    return float(exponents()[name].subs({beta: sp.Rational(str(decay)), power: sp.Rational(str(nu))}))


def time_exponent(decay: float) -> float:
    """(1 − 2β)/β, the law of the risk for β > ½ only."""
    return _number("time", decay)


def compute_exponent(decay: float, nu: float = 0.0) -> float:
    """(1 − 2β)/(1 + β + ν) at γ = N^(−ν): ν = 0 or ½. The law of the risk for β > ½ only."""
    return _number("compute", decay, nu)


def exponent_values(decay: float | None) -> dict[str, float | None]:
    """Exponents as numbers for γ fixed, None where they do not apply (no power law, or β ≤ ½)."""
    applies = decay is not None and decay > 0.5
    return {name: _number(name, decay) if applies and decay is not None else None for name in exponents()}


def partial_norm2(decay: float, teachers: int) -> float:
    r"""$\sum_{j\le M_*}j^{-2\beta}=\|A\|_F^2$."""
    return float(np.sum(np.arange(1, teachers + 1, dtype=float) ** (-2 * decay)))


def tail_beyond(decay: float, count: int) -> float:
    r"""$\sum_{j>n}j^{-2\beta}$, the Hurwitz zeta function. Raises `InputError` for β ≤ ½."""
    _require(decay, above=True)
    return float(scipy.special.zeta(2 * decay, count + 1))


def floor_integral(decay: float, width: int) -> float:
    r"""Leading form of the floor for M* → ∞: $2N^{1-2\beta}/((2\beta-1)\zeta(2\beta))$.

    Raises `InputError` for β ≤ ½.
    """
    _require(decay, above=True)
    return float(2 * width ** (1 - 2 * decay) / ((2 * decay - 1) * scipy.special.zeta(2 * decay)))


def heavy_unit(teachers: int, dim: int, width: int) -> float:
    r"""$\sqrt{M_*}\log(d/N)$: the time unit for β < ½, in Riccati time (γ = 1)."""
    return float(np.sqrt(teachers) * np.log(dim / width))


def heavy_time(decay: float, share: ArrayLike) -> np.ndarray:
    r"""$x^\beta/(2\sqrt{1-2\beta})$: when direction $xM_*$ emerges, in that unit; shape of `share`.

    Raises `InputError` for β outside (0, ½).
    """
    _require(decay, above=False)
    return np.asarray(share, dtype=float) ** decay / (2 * np.sqrt(1 - 2 * decay))


def heavy_risk(decay: float, time: ArrayLike, ratio: float) -> np.ndarray:
    r"""$\tfrac12R=1-\min(x,\varphi,1)^{1-2\beta}$ at times in that unit, $\varphi=N/M_*$ = `ratio`; shape of `time`.

    Raises `InputError` for β outside (0, ½).
    """
    _require(decay, above=False)
    reached = (2 * np.sqrt(1 - 2 * decay) * np.asarray(time, dtype=float)) ** (1 / decay)
    return 1 - np.minimum(np.minimum(reached, ratio), 1.0) ** (1 - 2 * decay)


def _require(decay: float, above: bool) -> None:
    if (above and not decay > 0.5) or (not above and not 0 < decay < 0.5):
        raise InputError(f"decay is {decay:g}: this law needs beta {'above' if above else 'in (0, ½), below'} one half")
