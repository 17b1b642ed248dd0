r"""One direction under any rule: the drift of the overlap as a sum over Hermite degrees.

A unit row w, batch 1, isotropic inputs in $R^d$, label $y=f_*(\langle\theta,x\rangle)$, $u=\langle\theta,w\rangle$. A rule
moves w by $\gamma\rho w+\gamma\psi(x-zw)$, ψ a function of y, of $z=\langle w,x\rangle$ and of $|x|^2$, and puts it back on
the sphere: ρ = ψz where it moves along x, 0 for projected rows, and of a light 2-homogeneous row, whose length cancels,
ρ = 2yσ(z). With $\langle\theta,x\rangle=uz+\sqrt{1-u^2}\,q$, z and q standard normal,

$$u'=\frac{(1+\gamma\rho)u+\gamma\psi\sqrt{1-u^2}\,q}{\sqrt{(1+\gamma\rho)^2+\gamma^2\psi^2(q^2+\chi^2_{d-2})}},\qquad
E\,\Delta u=\gamma(1-u^2)\sum_{i\ge1}\nu_iu^{i-1}-\gamma^2K+O(\gamma^3),$$

$$\nu_i=\frac{E\,\psi(f_*(a),b)\,He_i(a)\,He_{i-1}(b)}{(i-1)!},\quad a,b\text{ independent},\qquad
K=\tfrac12uE\psi^2(q^2+d-2)+(1-u^2)E\,\partial_a\rho\psi,$$

by Stein's lemma and Mehler's formula (derived here; plain SGD: arXiv:2003.10409). For $|x|^2$ stands d, which costs O(1/d),
more for a ψ of high degree in it; `first_step` is the mean step without that, and at any step size. The second part of K does
not grow with d, and yet may be as large as the first: 1.1 times for h4 by the correlation loss, d = 64, u = 0.19.

The first i with $\nu_i\ne0$ decides the samples needed, $\nu_i^{-2}d^{(i-1)\vee1}$ and a logarithm at i = 2: rules that use
a sample twice, or normalise, change ψ and so i (arXiv:2402.03220).

ψ is read off the rule itself, run on vectors of the plane of w and x. Momentum is linear in the gradients: a row that hardly
moves while it remembers is moved by each sample in the end by $\sum_j\kappa_j$ times what plain SGD does
(`theory.declared.modified_equation`), and ψ is that. (ρ, too; but a row that is put back on the sphere between two of a
sample's parts loses what the first has added to its length: ρψ is $\tfrac12(1+\sum_j\kappa_j^2/(\sum_j\kappa_j)^2)$
times their product.) Any other rule that keeps something of earlier samples has no ψ.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import factorial
from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from theory.core import gaussian
from theory.core.arguments import check_positive, check_whole
from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.errors import InputError
from theory.core.hermite import z
from theory.core.lowered import lower_numpy
from theory.core.quadrature import chi_squared, gauss_legendre
from theory.declared.model import DeclaredModel
from theory.declared.modified_equation import memory
from theory.declared.rule import Gradient, Here, Momentum, Moved, Rule
from theory.declared.student import Student
from theory.declared.target import Target
from theory.steps import neuron

REFERENCE = "derived; arXiv:2003.10409 (plain SGD), arXiv:2402.03220 (reuse)"

#: Panels reach so far, further only if more than this share of Eψ² comes from the last unit (a Gaussian has 1e-15 there).
_REACHES, _OUTER = (9.0, 15.0), 1e-6
#: Panels no wider than this, with this many points; places of a unit between which a sign is looked at.
_PANEL, _POINTS, _PLACES = 0.25, 8, 200
#: An error is taken for so many times what panels twice as wide change, and this share of the terms without their signs.
_SAFETY, _ROUNDING = 10.0, 1e-10
#: Rounding of a row's length.
_ROUNDED = 4 * float(np.finfo(float).eps)
#: Points of |x|², beside its parts along w and the direction.
_LENGTHS = 5
#: Own part and tail of what a buffer may hold: a rule that does not notice it has no memory.
_KEPT = (0.7, 0.3)
#: Degrees of the sum, twice as many and so on as long as it is off by so much of the integral where |u| is that of a
#: direction that is found, up to a last.
DEGREES, _MOST_DEGREES, _LEFT_OUT, _FARTHEST = 20, 160, 1e-3, 0.5**0.5


class Plane:
    """own · w + tail · x on many samples at once: what `theory.declared.rule.Vectors` has, for one row.

    Attributes: own, tail: one number for each sample. z, square: ⟨w, x⟩ and |x|², of each sample or one for all.
    """

    def __init__(self, own: Any, tail: Any, z: np.ndarray, square: Any) -> None:
        self.own, self.tail, self.z, self.square = own, tail, z, square

    def _new(self, own: Any, tail: Any) -> "Plane":
        return Plane(own, tail, self.z, self.square)

    def __add__(self, other: "Plane") -> "Plane":
        return self._new(self.own + other.own, self.tail + other.tail)

    def __sub__(self, other: "Plane") -> "Plane":
        return self + other * -1.0

    def __neg__(self) -> "Plane":
        return self * -1.0

    def __mul__(self, factor: Any) -> "Plane":
        return self._new(factor * self.own, factor * self.tail)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> "Plane":
        return self * (1 / divisor)

    def elementwise(self, function: Any, *others: "Plane") -> "Plane":
        """Refused: coordinates do not exist. Raises `InputError`."""
        raise InputError("the rule works on coordinates, so that it does not turn with the axes: it has no ψ(y, z)")

    def combination(self, coefficients: Any) -> "Plane":
        """Of x alone: a coefficient for each sample."""
        return self._new(0.0, coefficients)

    def fields(self) -> Any:
        """With x, one for each sample."""
        return self.own * self.z + self.tail * self.square

    def dot(self, other: "Plane") -> Any:
        """One number for each sample."""
        return self.own * (other.own + other.tail * self.z) + self.tail * other.fields()

    def norms(self) -> Any:
        """Lengths, one for each sample."""
        return np.sqrt(np.maximum(self.dot(self), 0.0))

    norm, gram = norms, dot

    def mixed(self, matrix: Any) -> "Plane":
        """One row: a factor, one for each sample."""
        return self * matrix

    def total(self, numbers: Any) -> Any:
        """One row: its own, one for each sample."""
        return numbers

    def polar(self) -> "Plane":
        """One row over its length; a row of zero stays so."""
        length = self.norms()
        return self / (length + (length == 0))


def psi(student: Student, loss: Any, rule: Rule, labels: ArrayLike, z: ArrayLike, square: ArrayLike) -> np.ndarray:
    r"""ψ at labels y and fields z (same shape), $|x|^2=$ `square`: the coefficient of x in the step, over the step size.

    Of momentum in all steps that the sample has a part in. `loss`: hashable, with a `value` that SymPy can differentiate
    (`theory.declared.loss`).

    Raises `InputError` unless the student is one row on the sphere, not 2-homogeneous, and the rule's batch is 1; and for a
    rule other than momentum whose step depends on what it kept of earlier ones.
    """
    return psi_and_rho(student, loss, rule, labels, z, square)[0]


def psi_and_rho(
    student: Student, loss: Any, rule: Rule, labels: ArrayLike, z: ArrayLike, square: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """ψ and ρ, each in the shape of the labels: of momentum without what is lost between a sample's parts.

    Raises `InputError` as `psi`.
    """
    moved = _moved(student, loss, rule, labels, z, square)
    return np.asarray(moved.tail / _size(rule)), _stretched(moved) / _size(rule)


def _size(rule: Rule) -> float:
    """η, of a schedule the first."""
    return float(rule.step_size(0)) if callable(rule.step_size) else float(rule.step_size)


def _moved(student: Student, loss: Any, rule: Rule, labels: ArrayLike, z: ArrayLike, square: ArrayLike) -> Plane:
    """The row after a step, not yet back on the sphere; arguments and refusals as of `psi`."""
    if student.width != 1 or student.homogeneous or student.rows == "free" or rule.batch != 1:
        raise InputError(
            "ψ is that of one row on the sphere and batch 1: declare a committee of width 1, rows = sphere"
        )
    check_positive(square=np.min(square))
    size = _size(rule)
    if type(rule) is Momentum:
        whole = memory(replace(rule, decay=0.0, samples=0)).total
        return _moved(student, loss, Rule(whole * size), labels, z, square)
    y, fields = np.broadcast_arrays(np.asarray(labels, dtype=float), np.asarray(z, dtype=float))
    (sigma, slope), loss_slope = _functions(student), _slope_of(loss)

    def gradient(rows: Plane, second: Any) -> Gradient:
        h = rows.fields()
        delta = loss_slope(second * sigma(h), y)
        found = student.tangent(rows.combination(delta * second * slope(h)), rows)
        return Gradient(found, delta * sigma(h) if student.trained else 0.0)

    def after(kept: Plane) -> Plane:
        start = Plane(1.0, 0.0, fields, square)
        found: Moved = rule.step(Here(start, student.second[0], dict.fromkeys(rule.buffers, kept), 0, size, gradient))
        return found.rows + Plane(0.0, 0.0 * y, fields, square)

    first = after(Plane(0.0, 0.0, fields, square))
    if rule.buffers and not np.array_equal(first.tail, after(Plane(*_KEPT, fields, square)).tail, equal_nan=True):
        raise InputError(
            f"rule is {type(rule).__name__}: its step depends on what it kept of earlier ones ({', '.join(rule.buffers)}), so "
            "that its first step is not that of a run; simulate it, or use momentum, or the rule without memory"
        )
    return first


@lru_cache(maxsize=16)
def _functions(student: Student) -> tuple[Any, ...]:
    """F and F_h of a row at fields."""
    sigma = student.activation.function
    known, row = {neuron.value: sigma, neuron.slope: sp.diff(sigma, z)}, student.neuron
    value, slope = (x.subs(known) for x in (row.output, row.along_input))
    # (Powers of arrays are slow.)
    return tuple(lower_numpy(sp.horner(x, z) if x.is_polynomial(z) else x, (z,)) for x in (value, slope))


@lru_cache(maxsize=16)
def _slope_of(loss: Any) -> Any:
    """∂ℓ/∂f as a function of arrays f and y."""
    output, label = sp.symbols("f y", real=True)
    return lower_numpy(sp.diff(loss.value(output, label), output), (output, label))


def _turns(function: Any, rows: int, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows and places at which `function(row, x)`, |x| ≤ reach, changes its sign, jumps included, or is 0."""
    places = np.linspace(-reach, reach, int(2 * reach * _PLACES) + 1)
    with np.errstate(all="ignore"):  # (a link may be 0/0 at a place, which is no turn)
        signs = np.sign(function(np.arange(rows)[:, None], places[None, :]))
    row, left = np.nonzero(signs[:, 1:] * signs[:, :-1] < 0)
    low, high, sign = places[left], places[left + 1], signs[row, left]
    for _ in range(50):
        middle = (low + high) / 2
        before = np.sign(function(row, middle)) == sign
        low, high = np.where(before, middle, low), np.where(before, high, middle)
    zeros = signs == 0
    zeros[zeros.sum(axis=1) >= 20] = False  # (a stretch on which it vanishes)
    at, place = np.nonzero(zeros)
    return np.concatenate([row, at]), np.concatenate([(low + high) / 2, places[place]])


def _panels(
    rows: np.ndarray, places: np.ndarray, count: int, reach: float, panel: float
) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights (count, n) of E f(x), x ~ N(0, 1), panels of each row split at its places."""
    order = np.argsort(rows, kind="stable")
    rows, places = rows[order], places[order]
    rank = np.arange(rows.size) - np.searchsorted(rows, rows)
    even = np.arange(-reach, reach + panel / 2, panel)
    edges = np.full((count, even.size + (int(rank.max()) + 1 if rank.size else 0)), reach)
    edges[:, : even.size] = even
    edges[rows, even.size + rank] = places
    edges.sort(axis=1)  # (panels of no width at the end, with weight 0)
    points, weights = (x.reshape(count, -1) for x in gauss_legendre(edges[:, :-1], edges[:, 1:], _POINTS))
    return points, weights * np.exp(-(points**2) / 2) / np.sqrt(2 * np.pi)


@dataclass(frozen=True, eq=False)
class Drift:
    r"""$\nu_1,\nu_2,\dots$ of a rule, (degrees,), and means of ψ² (for the noise of a step), all as series in u.

    Attributes:
        coefficients: $\nu_i$. squares: of $E\psi^2$. bends: of $E\partial_a^2\psi^2$, a the direction's coordinate.
        errors: of the coefficients, by their quadrature, (degrees,) or one for all; what is not above counts as 0.
        stretches: of $E\partial_a\rho\psi$. lengthening: of Eρ.
    """

    coefficients: np.ndarray
    squares: np.ndarray
    bends: np.ndarray
    errors: np.ndarray | float = 0.0
    stretches: np.ndarray | float = 0.0
    lengthening: np.ndarray | float = 0.0

    def at(self, u: ArrayLike) -> np.ndarray:
        r"""$E\,\Delta u/\gamma$, same shape as u."""
        given = np.asarray(u, dtype=float)
        return (1 - given**2) * np.polynomial.polynomial.polyval(given, self.coefficients)

    @property
    def seen(self) -> np.ndarray:
        r"""$\nu_i$, or 0 where it is not above its error, shape (degrees,)."""
        return np.where(np.abs(self.coefficients) > self.errors, self.coefficients, 0.0)

    @property
    def square(self) -> float:
        r"""$E\psi^2$ at u = 0."""
        return float(self.squares[0])

    def squares_at(self, u: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        r"""$E\psi^2$ and $E\psi^2q^2=E\psi^2+(1-u^2)E\partial_a^2\psi^2$ (Stein's lemma), both in the shape of u."""
        given = np.asarray(u, dtype=float)
        mean, bend = (np.polynomial.polynomial.polyval(given, x) for x in (self.squares, self.bends))
        return mean, mean + (1 - given**2) * bend

    def second_order(self, dim: float, u: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        r"""K and $N=(1-u^2)E\psi^2q^2-f^2$, f = `at(u)`: over γ², the mean's shrinkage and the variance, in the shape of u."""
        given = np.asarray(u, dtype=float)
        square, along = self.squares_at(given)
        tangent = 1 - given**2
        stretch = np.polynomial.polynomial.polyval(given, np.atleast_1d(self.stretches))
        shrinkage = given * (along + (dim - 2) * square) / 2 + tangent * stretch
        return shrinkage, tangent * along - self.at(given) ** 2

    def exponent(self, least: float = 0.0) -> int:
        r"""The first i with $|\nu_i|$ above `least` and its error; 0 if there is none."""
        found = np.flatnonzero(np.abs(self.seen) > least)
        return int(found[0]) + 1 if found.size else 0

    def barrier(self) -> float | None:
        r"""The least 0 < u < 1 at which the drift turns from negative to positive; None if it never does."""
        roots = np.polynomial.polynomial.polyroots(np.trim_zeros(self.seen, "b"))
        places = np.sort(roots.real[(np.abs(roots.imag) < 1e-9) & (roots.real > 1e-9) & (roots.real < 1)])
        slopes = np.polynomial.polynomial.polyval(places, np.polynomial.polynomial.polyder(self.seen))
        return next((float(u) for u, slope in zip(places, slopes, strict=True) if slope > 0), None)


def drift(
    student: Student, target: Target, loss: Any, rule: Rule, dim: float, degrees: int | None = None, light: bool = False
) -> Drift:
    r"""$\nu_i$ by Gauss–Legendre panels in a and b, split where label, σ' and ∂ℓ/∂f change sign.

    Args:
        target: of one direction. dim: d, in the place of $|x|^2$. degrees: of the series; by default as many as drift and
            $E\psi^2$ take up to $|u|=\sqrt{1/2}$, where they are right to a thousandth (of sin(5z) 20 had .65 of the drift
            there), or 160. light: of a light 2-homogeneous row of the student's
            activation, which turns as one on the sphere by the correlation loss and plain SGD or momentum; its ρ is 2yσ(z).

    Raises `InputError` for a target of more directions, label noise, a fixed data set, what has no ψ (see `psi`), and a ψ so
    large far out that Eψ² is not found.
    """
    check_whole(degrees=DEGREES if degrees is None else degrees)
    if target.count != 1 or rule.noise or rule.samples:
        raise InputError(
            f"target has {target.count} directions, noise is {rule.noise:g}, data set {rule.samples}: the drift is that of "
            "one direction on fresh samples without label noise"
        )
    points, moved = _within_reach(student, target, loss, rule, dim, degrees or DEGREES)
    values = moved.tail / _size(rule)
    while degrees is None and not _reaches(points, values) and points.degrees < _MOST_DEGREES:
        points = replace(points, degrees=2 * points.degrees)
    coarse = grid(student, target, loss, points.degrees, points.reach, 2 * _PANEL)
    other = _series(coarse.table(psi(student, loss, rule, coarse.labels, coarse.fields, dim)), 1)
    found = _series(points.table(values), 1)
    errors = _SAFETY * np.abs(found - other) + _ROUNDING * _series(points.sizes(np.abs(values)), 1)
    squares, bends = (_series(points.table(values**2), by) for by in (0, 2))
    stretched = _stretched(moved) / _size(rule)
    if light:
        stretched = 2 * memory(rule).total * points.labels * _functions(student)[0](points.fields)
    kept = (1 + memory(rule).square) / 2 if type(rule) is Momentum and not light else 1.0
    stretches, lengthening = points.table(kept * stretched * values), points.table(stretched)
    return Drift(found, squares, bends, errors, _series(stretches, 1), _series(lengthening, 0))


def _reaches(points: "Grid", values: np.ndarray) -> bool:
    """Whether the degrees have drift and Eψ² of the integral over the correlated pair, where |u| is largest."""
    square = points.table(values**2)
    series = Drift(_series(points.table(values), 1), _series(square, 0), _series(square, 2))
    rest, places, fields = np.sqrt(1 - _FARTHEST**2), points.places, points.fields
    found, known = list[float](), list[float]()
    for u in (-_FARTHEST, _FARTHEST):
        q = (places - u * fields) / rest
        weighted = values * np.exp((places**2 - q**2) / 2) / rest
        known += [points.mean(weighted * rest * q), *(points.mean(weighted * values * x) for x in (1.0, q**2))]
        found += [float(series.at(u)), *(float(x) for x in series.squares_at(u))]
    # (The drift beside the size of what it is the mean of, where it all but cancels.)
    least = _ROUNDING * np.array([np.sqrt(series.square), 0.0, 0.0] * 2)
    return bool(np.all(np.abs(np.subtract(found, known)) <= _LEFT_OUT * np.abs(known) + least))


def _stretched(moved: Plane) -> np.ndarray:
    """γρ, by how much the row is longer along itself; 0 where that is the rounding of a length of 1."""
    along = moved.tail * moved.z
    found = moved.own - 1 + along
    return np.where(np.abs(found) <= _ROUNDED * (1 + np.abs(along)), 0.0, found)


def _series(table: np.ndarray, by: int) -> np.ndarray:
    r"""Coefficients in u of $E\partial_a^{by}f$ at correlation u, by Mehler's formula, from $E f\,He_i(a)He_j(b)$."""
    return np.array([table[i + by, i] / factorial(i) for i in range(len(table) - by)])


@dataclass(frozen=True, eq=False)
class Grid:
    """Points of independent a and b in panels: a and its label (A, 1), fields b (A or 1, B), and their weights.

    Attributes: places: a. outer, inner: weights, of the shapes of a and b. reach: of the panels. degrees: of `table`.
    """

    places: np.ndarray
    labels: np.ndarray
    fields: np.ndarray
    outer: np.ndarray
    inner: np.ndarray
    reach: float
    degrees: int

    def table(self, values: np.ndarray) -> np.ndarray:
        r"""$E f\,He_i(a)He_j(b)$ of values (A, B), (degrees + 1, degrees + 1)."""
        return self._sums(values, *self._polynomials)

    def sizes(self, values: np.ndarray) -> np.ndarray:
        r"""$E f\,|He_i(a)He_j(b)|$ of values (A, B), (degrees + 1, degrees + 1)."""
        return self._sums(values, *map(np.abs, self._polynomials))

    def mean(self, values: np.ndarray) -> float:
        """E f of values (A, B)."""
        return float(np.sum(self.outer * self.inner * values))

    @cached_property
    def _polynomials(self) -> tuple[np.ndarray, np.ndarray]:
        """Times the weights, (degrees + 1, A) and (degrees + 1, A or 1, B)."""
        by_label, by_field = (
            np.moveaxis(np.polynomial.hermite_e.hermevander(x, self.degrees), -1, 0) for x in (self.places, self.fields)
        )
        return (by_label * self.outer)[:, :, 0], by_field * self.inner

    def _sums(self, values: np.ndarray, by_label: np.ndarray, by_field: np.ndarray) -> np.ndarray:
        if len(self.fields) == 1:
            return np.asarray(by_label @ values @ by_field[:, 0].T)
        return np.asarray(by_label @ np.einsum("ab,jab->aj", values, by_field))


def grid(
    student: Student, target: Target, loss: Any, degrees: int, reach: float = _REACHES[0], panel: float = _PANEL
) -> Grid:
    """Of a target of one direction: panels split where a gradient may jump, which is where it is 0, or the label jumps.

    In b where σ' or, at the point's label, ∂ℓ/∂f change sign; in a where the label does, and where two such b merge.
    """
    (sigma, slope), loss_slope, second = _functions(student), _slope_of(loss), student.second[0]

    def label(a: np.ndarray) -> np.ndarray:
        return np.asarray(target.value(a[..., None], lower_numpy))

    _, flat = _turns(lambda _, b: slope(b), 1, reach)
    heights = np.unique(np.round(second * sigma(flat), 12))

    def merged(row: np.ndarray, a: np.ndarray) -> np.ndarray:
        y = label(a)
        return np.where(row == heights.size, y, loss_slope(np.append(heights, 0.0)[row] + 0.0 * y, y))

    _, splits = _turns(merged, heights.size + 1, reach)
    splits = np.unique(splits)
    a, outer = _panels(np.zeros(splits.size, dtype=int), splits, 1, reach, panel)
    a, outer = a.T, outer.T
    y = label(a[:, 0])
    rows, places = _turns(lambda row, b: loss_slope(second * sigma(b), y[row]), y.size, reach)
    count = y.size if rows.size else 1  # (without such places all labels have the same panels)
    rows = np.append(rows, np.repeat(np.arange(count), flat.size))
    b, inner = _panels(rows, np.append(places, np.tile(flat, count)), count, reach, panel)
    return Grid(a, y[:, None], b, outer, inner, reach, degrees)


def _within_reach(
    student: Student, target: Target, loss: Any, rule: Rule, dim: float, degrees: int
) -> tuple[Grid, Plane]:
    """Points that hold Eψ², and the row after a step at them."""
    for reach in _REACHES:
        points = grid(student, target, loss, degrees, reach)
        with np.errstate(over="ignore", invalid="ignore"):
            moved = _moved(student, loss, rule, points.labels, points.fields, dim)
            values = moved.tail / _size(rule)
            outside = np.maximum(np.abs(points.places), np.abs(points.fields)) > reach - 1
            if points.mean(values**2 * outside) <= _OUTER * points.mean(values**2):
                return points, moved
    raise InputError(
        f"Eψ² comes from labels or fields beyond {_REACHES[-1]:g} standard deviations, which no run sees: lower the step "
        "size, the passes or the degree of link and activation"
    )


class FirstStep(NamedTuple):
    r"""$E\Delta u/\gamma$ to first order in γ, `whole` at the rule's; `square`: $E\psi^2$, `moved`: $E\Delta u^2/\gamma^2$."""

    first: float
    whole: float
    square: float
    moved: float


def first_step(student: Student, target: Target, loss: Any, rule: Rule, dim: float, u: float) -> FirstStep:
    r"""Means over a step at overlap u, |u| < 1, with the law of $|x|^2=z^2+q^2+\chi^2_{d-2}$ (no last term for d up to 2).

    By quadrature; of momentum the step is one of all that a sample moves. Arguments as of `drift`.

    Raises `InputError` for u out of range, and as `drift`.
    """
    if not abs(u) < 1:
        raise InputError(f"overlap is {u!r}: give one between -1 and 1")
    points, _ = _within_reach(student, target, loss, rule, dim, 0)
    a, b, rest, size = points.places, points.fields, np.sqrt(1 - u * u), _size(rule)
    q = (a - u * b) / rest
    # (Density of the correlated pair over that of the independent one.)
    density = np.exp((a**2 - q**2) / 2) / rest
    total = np.zeros(4)
    for beside, weight in zip(*chi_squared(max(dim - 2, 0.0), _LENGTHS), strict=True):
        after = _moved(student, loss, rule, points.labels, b, b**2 + q**2 + beside)
        along, side = after.own + after.tail * b, after.tail * np.sqrt(q**2 + beside)
        length, climb = np.hypot(along, side), rest * after.tail * q
        short = np.where(along > 0, side * (side / (length + np.abs(along))), length - along)
        whole = (climb - u * short) / length / size
        parts = climb / size, whole, (after.tail / size) ** 2, whole**2
        total += [weight * points.mean(density * x) for x in parts]
    return FirstStep(*total.tolist())


def drift_of(model: DeclaredModel) -> Drift:
    """Of a declared model with unit-variance isotropic inputs. Raises `InputError` for any other, and as `drift` does."""
    if not model.inputs.is_isotropic or not np.allclose(model.directions.grams, 1.0):
        raise InputError("the drift is that of isotropic inputs of variance 1 and one unit direction: declare these")
    return drift(model.student, model.target, model.loss, model.rule, float(model.inputs.dim))


# ----------------------------------------------------------------------- the derivation

u, step, value, stretch, q, rest = sp.symbols(r"u gamma psi rho q \chi^2_{d-2}", real=True)
_a, _b, _y = sp.symbols("a b y", real=True)
nu, _i = sp.IndexedBase("nu"), sp.Symbol("i", integer=True)


def moved() -> sp.Expr:
    r"""$u'$ after a step."""
    along = 1 + step * stretch
    return (along * u + step * value * sp.sqrt(1 - u**2) * q) / sp.sqrt(along**2 + step**2 * value**2 * (q**2 + rest))


def first_order() -> sp.Expr:
    r"""$E\,\Delta u/\gamma$."""
    return (1 - u**2) * sp.Sum(nu[_i] * u ** (_i - 1), (_i, 1, sp.oo))


#: A ψ(y, z) and a label of the check.
_PSI, _LABEL = _y * _b**2 - _y**2 * _b + 3 * _y, _a**3 - 2 * _a**2 + _a / 2


def _moved_residual(claim: sp.Basic) -> sp.Expr:
    """The step in R³, its overlap and length written out."""
    cosine = sp.Rational(3, 5)
    w, theta = sp.Matrix([1, 0, 0]), sp.Matrix([cosine, sp.Rational(4, 5), 0])
    x, size = sp.Matrix([sp.Rational(1, 2), -2, sp.Rational(3, 4)]), sp.Rational(1, 7) * sp.Rational(5, 3)
    longer = sp.Rational(2, 9)
    after = (1 + longer / 7) * w + size * (x - w.dot(x) * w)
    known = {u: cosine, step: sp.Rational(1, 7), value: sp.Rational(5, 3), stretch: longer, q: x[1], rest: x[2] ** 2}
    return sp.simplify(claim.subs(known) - theta.dot(after) / sp.sqrt(after.dot(after)))


def _drift_residual(claim: sp.Basic) -> sp.Expr:
    r"""E ψ√(1 − u²)q by pairings of Gaussians, at u = 3/5, against the sum that is shown."""
    cosine = {u: sp.Rational(3, 5)}
    along = sp.diff(moved(), step).subs(step, 0).subs(value, _PSI.subs({_y: _LABEL})).subs(cosine)
    whole = gaussian.standard_expectation(sp.expand(along.subs(_a, cosine[u] * _b + sp.Rational(4, 5) * q)), _b, q)

    def coefficient(i: int) -> sp.Expr:
        hermite = [
            sp.expand(2 ** sp.Rational(-n, 2) * sp.hermite(n, x / sp.sqrt(2))) for n, x in ((i, _a), (i - 1, _b))
        ]
        product = sp.expand(_PSI.subs(_y, _LABEL) * hermite[0] * hermite[1])
        return gaussian.standard_expectation(product, _a, _b) / factorial(i - 1)

    sums = claim.replace(sp.Sum, lambda body, limits: sp.Add(*[body.subs(_i, i) for i in range(1, 9)]))
    return sp.nsimplify(
        sums.subs(cosine).replace(lambda x: isinstance(x, sp.Indexed), lambda x: coefficient(x.indices[0])) - whole
    )


def derivation() -> Derivation:
    """The step and its mean of first order."""
    steps = (
        Step("A step's overlap", equation("u'", moved()), _moved_residual),
        Step("Mean of first order: Stein's lemma", equation(r"E\,\Delta u/\gamma", first_order()), _drift_residual),
    )
    assumptions = (Assumption("isotropic inputs, unit row, batch 1"), Assumption("first order in γ; |x|² = d"))
    shown = {"u'": moved(), r"E\,\Delta u/\gamma": first_order()}
    return Derivation("one-direction", steps, shown, assumptions, REFERENCE)
