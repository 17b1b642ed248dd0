r"""Emergence under a polar (Muon) step with the population's gradient: all directions at once.

$\dot W=\hat G$, the polar factor of $-\nabla_W\mathcal L$: all its singular values are 1, however small the gradient is. A row
of length $\sigma_0$ that is alone with a direction moves at unit speed in the plane of both,

$$\dot v=-\nabla\mathcal L/\|\nabla\mathcal L\|,\qquad\mathcal L=\tfrac12a^2\varphi(1)-ar\varphi(t)+\tfrac12r^2\varphi(1),$$

so that its time to squared overlap ½ is $\sigma_0$ times a number that knows weight and dimension only by
$\sigma_0^2/(a\varphi'(t_0))$. Light rows ($\sigma_0^2\ll at_0^{J-1}$): $C_J\sigma_0$, $C_3=0.899$, $C_4=0.860$,
$C_6=0.828$. Heavy ones first shrink, at unit speed too: at most $\sigma_0$. Derived here; the polar step: Jordan et al. 2024.
Several pairs move as lone ones as far as their gradients have separate singular vectors, which is measured, not derived.
"""

from functools import lru_cache, partial

import numpy as np
import scipy
import sympy as sp

from theory.core.activation import Activation
from theory.core.arguments import check_positive
from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.errors import InputError
from theory.declared.anisotropic_emergence import a, lone_loss, one, phi, r, t

REFERENCE = "derived; polar steps: Jordan et al. 2024 (Muon)"

#: Coordinates of the row: along the direction, and off it.
x, y = sp.symbols("x y", positive=True)


@lru_cache(maxsize=1)
def descent() -> tuple[sp.Expr, sp.Expr]:
    r"""$-\partial_x\mathcal L$ and $-\partial_y\mathcal L$ with $r=x^2+y^2$, $t=x/\sqrt r$, in x, y and t."""
    size = x**2 + y**2
    cosine = x / sp.sqrt(size)
    along, off = (
        -(sp.diff(lone_loss(), t) * sp.diff(cosine, name) + sp.diff(lone_loss(), r) * sp.diff(size, name))
        for name in (x, y)
    )
    return sp.simplify(along.subs(r, size)), sp.simplify(off.subs(r, size))


@lru_cache(maxsize=32)
def _direction(activation: Activation, light: bool) -> np.ufunc:
    """(x, y, a) ↦ the descent, (2,); light: without the row's own repulsion."""
    known = {one: sp.Integer(0) if light else activation.second_moment}
    found = [rate.subs(known).replace(phi, activation.kernel_at).doit() for rate in descent()]
    return sp.lambdify((x, y, a), [sp.N(z.subs(t, x / sp.sqrt(x**2 + y**2)), 17) for z in found], ["scipy", "numpy"])


def half_time(activation: Activation, weight: float, overlap: float, scale: float, light: bool = False) -> float:
    r"""Time at unit speed to $t^2=\tfrac12$ of a lone row of length `scale` with cosine `overlap`; `light`: the limit σ₀ → 0.

    inf where it does not come there within ten times its length. Raises `InputError` for an information exponent below 3, a
    weight or scale that is not positive, and unless 0 < overlap² < ½ with overlap > 0.
    """
    activation.require_exponent(3, "small overlaps that decide")
    check_positive(weight=weight, scale=scale, overlap=overlap)
    if overlap**2 >= 0.5:
        raise InputError(f"overlap is {overlap!r}: give one with overlap² < ½")
    descent_at = _direction(activation, light)

    def velocity(_: float, row: np.ndarray) -> np.ndarray:
        found = np.array(descent_at(*(scale * row), weight), dtype=float)
        return found / np.hypot(*found)

    def found(_: float, row: np.ndarray) -> float:
        return float(row[0] - row[1])

    found.terminal = True  # type: ignore[attr-defined]
    start = [overlap, np.sqrt(1 - overlap**2)]
    run = scipy.integrate.solve_ivp(velocity, (0.0, 10.0), start, rtol=1e-8, atol=1e-11, events=found)
    return scale * float(run.t_events[0][0]) if run.t_events[0].size else float("inf")


# ---------------------------------------------------------------------- the derivation


def _residual(which: int, claim: sp.Basic) -> sp.Expr:
    """The loss in x and y differentiated as a polynomial, for φ = t⁴."""
    size = x**2 + y**2
    loss = sp.expand(a**2 * one / 2 - a * x**4 / size + size**2 * one / 2)
    known = -sp.diff(loss, (x, y)[which])
    shown = claim.replace(phi, lambda z: z**4).doit().subs(t, x / sp.sqrt(size))
    return sp.simplify(shown - known)


def derivation() -> Derivation:
    """The plane's gradient."""
    names = (r"-\partial_{x}L", r"-\partial_{y}L")
    shown = dict(zip(names, descent(), strict=True))
    steps = tuple(
        Step(title, equation(name, shown[name]), partial(_residual, i))
        for i, (name, title) in enumerate(zip(names, ("Along the direction", "Off it"), strict=True))
    )
    assumptions = (
        Assumption("isotropic inputs, one row and one direction, or pairs that do not share singular vectors"),
        Assumption("the population's gradient, step size ≪ σ₀"),
    )
    return Derivation("polar-emergence", steps, shown, assumptions, REFERENCE)
