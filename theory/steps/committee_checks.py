r"""Independent checks of `theory.steps.committee`, integrals and mean step: quadrature over the input's coordinates.

Integrals are averaged over x in $R^4$, a step of two students and one teacher over x in $R^3$, by tensor Gauss–Hermite
rules, exact, for polynomials; for erf(bz) the first converge geometrically, and the second are trapezoidal ones of a
known error. The step is written in coordinates and its two first orders are read off by differentiation: nothing of the
closed forms, of Stein's lemma or of the split into radial and tangent parts is used.
"""

from collections.abc import Callable
from functools import lru_cache
from itertools import product

import numpy as np
import scipy
import sympy as sp
from sympy.printing.latex import LatexPrinter

from theory.core.activation import Activation
from theory.core.diagrams import d
from theory.core.errors import InputError
from theory.core.frame import eta
from theory.core.indexed import Sums, j, k, q
from theory.core.quadrature import gauss_hermite, product_rule
from theory.steps.slope_integrals import SlopeIntegrals, as_erf, covariance_symbol

#: Largest residual accepted: rounding of sums of about a million terms, and the rules' own error for erf.
TOLERANCE = 1e-10
_MODULES = [{"erf": scipy.special.erf}, "numpy"]
#: Directions of g_1 … g_4 and of two more Gaussians in R⁴; short, so that the rule converges fast.
_DIRECTIONS = np.array(
    [
        [0.4, 0.1, -0.1, 0.1],
        [0.1, 0.35, 0.2, 0.1],
        [0.3, -0.2, 0.5, 0.0],
        [-0.1, 0.4, 0.3, 0.4],
        [0.6, 0.2, 0.0, -0.5],
        [0.1, -0.3, 0.7, 0.2],
    ]
)
_GAUSSIANS = sp.symbols("g_1:7")
#: Points per coordinate for erf in R⁴, where the directions above are as short as b is large.
_NODES = 24
#: Trapezoidal rule in R³: half its range (a Gaussian's weight there is below 1e-15), and most points per coordinate.
_RANGE, _MOST = 8.5, 128
#: One teacher along the first axis, two students; weights a, b; step size.
_STUDENTS = np.array([[0.3, 0.5, 0.1], [-0.2, 0.2, 0.4]])
_TEACHER_WEIGHT, _WEIGHTS, _ETA = 0.8, np.array([0.7, -0.4]), 0.37


def numbered(x: sp.Symbol, y: sp.Symbol) -> sp.Expr:
    """Covariance of Gaussians named g_1, g_2, …, in the symbols of the integrals."""
    return covariance_symbol(*(int(str(name).split("_")[1]) - 1 for name in (x, y)))


def _nodes(activation: Activation) -> int:
    """Enough for the square of the residual, two slopes and two more factors."""
    return 2 * activation.degree + 4


@lru_cache(maxsize=4)
def _rule(nodes: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, dim) and weights (n,) of E f(x), x ~ N(0, I)."""
    return product_rule(*[gauss_hermite(nodes)] * dim)


def _steepness(activation: Activation) -> float:
    """|b| of erf(bz); 0 for a polynomial."""
    form = as_erf(activation)
    return 0.0 if form is None else abs(float(form[1]))


def _trapezoidal(activation: Activation) -> tuple[np.ndarray, np.ndarray]:
    r"""Points (n, 3) and weights (n,) of E f(x), x ~ N(0, I), for products of slopes of erf(bz).

    Two slopes, two values and the density make, along a unit vector, a function whose Fourier transform has at most the
    width $\sqrt{1+8b^2}$; the rule's error is then $2e^{-2\pi^2/((1+8b^2)h^2)}$, here 10⁻¹². Raises `InputError` if
    that takes too many points.
    """
    steepness = _steepness(activation)
    spacing = np.pi * np.sqrt(2 / np.log(2e12) / (1 + 8 * steepness**2))
    points = 2 * int(np.ceil(_RANGE / spacing)) + 1
    if points > _MOST:
        raise InputError(
            f"activation is {activation.name!r}, of slope {steepness:g}: the quadrature that checks a committee needs a "
            f"slope up to {_steepest():.2g}: lower it"
        )
    axis = np.linspace(-_RANGE, _RANGE, points)
    weights = np.exp(-axis * axis / 2)
    return product_rule(*[(axis, weights / weights.sum())] * 3)


def _steepest() -> float:
    """The largest slope that `_MOST` points can do."""
    return float(np.sqrt(((np.pi * (_MOST - 1) / 2 / _RANGE) ** 2 * 2 / np.log(2e12) - 1) / 8))


class Slope(sp.Function):
    r"""$\partial I_4/\partial C_{ab}$."""

    nargs = 2

    def _latex(self, printer: LatexPrinter) -> str:
        return rf"\partial_{{C_{{{''.join(map(printer._print, self.args))}}}}}I_{{4}}"


_C, _FOUR = sp.IndexedBase("C"), sp.Symbol("I_4")
_a, _b, _s, _t = sp.symbols("a b s t", integer=True)


def integral_equations(x: SlopeIntegrals) -> dict[str, sp.Expr]:
    """The right-hand sides that are shown: closed forms, and what follows from four points."""
    whole, twice = ((_a, 1, 4), (_b, 1, 4)), 1 + sp.KroneckerDelta(_a, _b)
    return {
        "two": x.two,
        "three": x.first_order(numbered, *_GAUSSIANS[:3]),
        "four": x.four,
        "norm": d * _FOUR + sp.Sum(twice * _C[_a, _b] * Slope(_a, _b), *whole),
        "pair": _C[_s, _t] * _FOUR + sp.Sum(twice * _C[_s, _a] * _C[_t, _b] * Slope(_a, _b), *whole),
    }


def _number(shown: sp.Expr, integrals: SlopeIntegrals, gram: np.ndarray) -> float:
    """What is shown, at the covariances of the check."""
    known = {covariance_symbol(i, h): sp.Float(gram[i, h], 17) for i in range(4) for h in range(i, 4)}
    places = {_s: 4, _t: 5} | {sp.Integer(n): n - 1 for n in range(1, 5)}
    pairs = list(product(range(1, 5), repeat=2))
    shown = shown.replace(
        lambda x: isinstance(x, sp.Sum), lambda x: sp.Add(*[x.function.subs({_a: i, _b: h}) for i, h in pairs])
    )
    shown = shown.replace(
        Slope, lambda i, h: sp.diff(integrals.four, covariance_symbol(int(i) - 1, int(h) - 1)).xreplace(known)
    )
    shown = shown.replace(
        lambda x: isinstance(x, sp.Indexed), lambda x: sp.Float(gram[tuple(places[i] for i in x.indices)], 17)
    )
    return float(shown.xreplace({_FOUR: integrals.four, d: sp.Integer(4)}).xreplace(known))


def integral_residual(name: str, activation: Activation, integrals: SlopeIntegrals, shown: sp.Expr) -> sp.Expr:
    """What is shown of an integral (see `integral_equations`), and the closed form in use, minus quadrature, over its size."""
    x, weights = _rule(_nodes(activation) if activation.is_polynomial else _NODES, 4)
    sigma, slope = activation.arrays(), activation.arrays(1)
    directions = _DIRECTIONS / max(1.0, _steepness(activation))
    g = (x @ directions.T).T
    gram = directions @ directions.T
    four = _GAUSSIANS[:4]

    def known(u: sp.Symbol, v: sp.Symbol) -> sp.Expr:
        return sp.Float(gram[_GAUSSIANS.index(u), _GAUSSIANS.index(v)], 17)

    if name == "two":
        sampled, closed = sigma(g[0]) * sigma(g[1]), integrals.product(known, *four[:2])
    elif name == "three":
        sampled, closed = slope(g[0]) * g[1] * sigma(g[2]), integrals.first_order(known, *four[:3])
    else:
        sampled = slope(g[0]) * slope(g[1]) * sigma(g[2]) * sigma(g[3])
        if name == "four":
            closed = integrals.second_order(known, *four)
        elif name == "norm":
            sampled = sampled * np.sum(x**2, axis=1)
            closed = integrals.with_norm(known, *four).subs(d, 4)
        else:
            sampled = sampled * g[4] * g[5]
            closed = integrals.with_pair(known, _GAUSSIANS[4], _GAUSSIANS[5], four)
    size = np.sqrt(weights @ sampled**2)
    gaps = [value - weights @ sampled for value in (float(closed), _number(shown, integrals, gram))]
    return sp.Float(max(gaps, key=abs) / size)


# ------------------------------------------------------------------------ the mean step


def mean_residual(name: str, sums: Sums, activation: Activation, rows: str) -> sp.Expr:
    """Largest difference between a derived mean (``T`` or ``Q``) and the step in coordinates, over the largest mean."""
    students = _STUDENTS
    if rows != "free":
        students = students / np.linalg.norm(students, axis=1, keepdims=True)
    known = evaluate(sums, order_parameters(students, np.array([_TEACHER_WEIGHT]), _WEIGHTS, _ETA))
    quadrature = _mean_step(activation, students, rows)[name]
    return sp.Float(np.abs(known - quadrature).max() / np.abs(quadrature).max())


def _mean_step(activation: Activation, students: np.ndarray, rows: str) -> dict[str, np.ndarray]:
    """First order plus η × second order of T (2, 1) and Q (2, 2) after one step."""
    x, weights = _rule(_nodes(activation), 3) if activation.is_polynomial else _trapezoidal(activation)
    sigma, slope = activation.arrays(), activation.arrays(1)
    fields = x @ students.T
    delta = sigma(fields) @ _WEIGHTS - _TEACHER_WEIGHT * sigma(x[:, 0])
    # (sample, student, coordinate)
    descent = -(delta[:, None] * slope(fields) * _WEIGHTS)[:, :, None] * x[:, None, :]
    if rows == "projected":
        descent = descent - np.sum(descent * students, axis=2, keepdims=True) * students
    found = {"T": np.zeros((2, 1)), "Q": np.zeros((2, 2))}
    for one in range(2):
        first, second = _orders(rows, "T")
        arguments = [students[one], descent[:, one], students[one], descent[:, one]]
        found["T"][one, 0] = weights @ (_call(first, arguments) + _ETA * _call(second, arguments))
        for other in range(2):
            first, second = _orders(rows, "Q")
            arguments = [students[one], descent[:, one], students[other], descent[:, other]]
            found["Q"][one, other] = weights @ (_call(first, arguments) + _ETA * _call(second, arguments))
    return found


def _call(function: Callable, arguments: list[np.ndarray]) -> np.ndarray:
    return np.asarray(function(*[x[..., i] for x in arguments for i in range(3)]))


@lru_cache(maxsize=8)
def _orders(rows: str, name: str) -> tuple[Callable, Callable]:
    """η- and η²-coefficient of a coordinate after the step, as functions of two rows and their displacements."""
    eta = sp.Symbol("eta")
    row, move, other, push = (sp.symbols(f"{letter}0:3") for letter in "vgwh")
    after = sp.Matrix(row) + eta * sp.Matrix(move)
    behind = sp.Matrix(other) + eta * sp.Matrix(push)
    if rows != "free":
        after, behind = after / sp.sqrt(after.dot(after)), behind / sp.sqrt(behind.dot(behind))
    coordinate = after[0] if name == "T" else after.dot(behind)
    orders = [sp.diff(coordinate, eta, n).subs(eta, 0) / n for n in (1, 2)]
    symbols = [*row, *move, *other, *push]
    compiled = [sp.lambdify(symbols, order, modules="numpy", cse=True) for order in orders]
    return compiled[0], compiled[1]


# ------------------------------------------------------------------------- evaluation


def order_parameters(students: np.ndarray, a: np.ndarray, b: np.ndarray, step_size: float) -> dict[str, np.ndarray]:
    """All arrays of the system for explicit students (m, d) and teachers along the first axes."""
    width = a.size
    frame = np.concatenate([np.eye(width, students.shape[1]), students])
    gram = frame @ frame.T
    return {
        "C": gram,
        "X": gram[width:],
        "Z": gram[:, :width],
        "T": gram[width:, :width],
        "Q": gram[width:, width:],
        "w": np.concatenate([-a, b]),
        "a": a,
        "b": b,
        "eta": np.asarray(step_size),
        "d": np.asarray(float(students.shape[1])),
    }


def evaluate(sums: Sums, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Slow reference: loops over all indices, each body compiled for single numbers. Free letters: k, then j or q.

    One axis per free letter: shape (m,), (m, m) or (m, P).
    """
    lengths = {
        index: length
        for term in sums
        for x in term.body.atoms(sp.Indexed)
        for index, length in zip(x.indices, arrays[str(x.base)].shape, strict=True)
    }
    free = [x for x in (k, j, q) if x in lengths]
    out = np.zeros([lengths[letter] for letter in free])
    for term in sums:
        atoms = sorted(term.body.atoms(sp.Indexed), key=str)
        scalars = [x for x in (eta, d) if term.body.has(x)]
        compiled = sp.lambdify([*atoms, *scalars], term.body, modules=_MODULES, cse=True)
        letters = (*free, *term.bound)
        for place in np.ndindex(*[lengths[letter] for letter in letters]):
            where = dict(zip(letters, place, strict=True))
            values = [arrays[str(x.base)][tuple(where[i] for i in x.indices)] for x in atoms]
            out[place[: len(free)]] += compiled(*values, *[float(arrays[str(x)]) for x in scalars])
    return out
