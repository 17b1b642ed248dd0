r"""Independent checks of `theory.declared.flow`: SGD's mean step in explicit coordinates, by quadrature in the plane.

Two rows and the directions are vectors of $R^2$ with two eigenspaces of one dimension each. Expectations over
$x=\sqrt\Lambda u$ are taken in polar coordinates of u, the angle cut wherever a field changes sign, so that relu too is
integrated to rounding. Gradients are those of single samples: nothing of covariances, kernels or Price's theorem is used.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
import sympy as sp

from theory.core.bends import bends
from theory.core.hermite import z
from theory.core.indexed import Index, Sums, evaluate
from theory.core.quadrature import gauss_legendre
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.population import Integrals, constants, numeric
from theory.declared.series import SeriesIntegrals
from theory.declared.student import Student
from theory.declared.target import Additive, Polynomial, symbols

#: Largest residual accepted, relative: rounding of sums of 10⁵ terms.
TOLERANCE = 1e-10
#: The same of means over slopes with a polynomial target (4e-10, measured), and of series at any variance.
_OF_MEANS = 1e-9
#: Radius, and points along it and in each cut of the angle, that leave rounding for polynomials of degree 24.
_RADIUS, _RADIAL, _ANGULAR = 16.0, 160, 32
#: Along the radius between bends, and in their cuts of the angle.
_BETWEEN, _FINER = 32, 64
_EIGENVALUES = np.array([1.7, 0.6])
_UNIT = np.ones(2)
_ROWS, _SECOND = np.array([[0.7, 0.4], [-0.3, 0.9]]), np.array([0.7, -0.4])
_SPEED, _DECAY = 1.3, 0.31
_MODULES = ["scipy", {"Heaviside": np.heaviside}, "numpy"]


@dataclass(frozen=True)
class Point:
    """A student and the integrals at which a derivation is checked; `quadratic`: the loss is the square."""

    student: Student
    integrals: Integrals
    quadratic: bool

    @property
    def target(self) -> Additive | Polynomial:
        """Of which the integrals are."""
        return self.integrals.target

    @property
    def unit(self) -> bool:
        """Whether inputs are isotropic, and directions of unit length."""
        return isinstance(self.integrals, SeriesIntegrals) and self.integrals.unit

    @property
    def tolerance(self) -> float:
        """Largest residual accepted: a few times the share of its derivative by q12 that a series leaves out."""
        if isinstance(self.integrals, SeriesIntegrals):
            return max(TOLERANCE if self.unit else _OF_MEANS, 4 * self.integrals.error)
        means = any(self.integrals.mixed) and isinstance(self.target, Polynomial)
        return _OF_MEANS if means else TOLERANCE

    @property
    def eigenvalues(self) -> np.ndarray:
        """Of the inputs, (2,)."""
        return _UNIT if self.unit else _EIGENVALUES

    @cached_property
    def rows(self) -> np.ndarray:
        """v, shape (2, 2)."""
        return _ROWS if self.student.rows == "free" else _ROWS / np.linalg.norm(_ROWS, axis=1, keepdims=True)

    @property
    def metric(self) -> np.ndarray:
        """Half the gradient of ρ: v, or Λv of a whitened student; shape (2, 2)."""
        return self.rows * self.eigenvalues if self.student.whitened else self.rows

    @cached_property
    def directions(self) -> np.ndarray:
        """w, shape (P, 2), no two alike."""
        angles = 0.4 + 2.4 * np.arange(self.target.count)
        lengths = np.ones_like(angles) if self.unit else 0.8 + 0.3 * np.cos(angles)
        return lengths[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)

    @cached_property
    def constants(self) -> dict:
        """The target's numbers with these directions."""
        gram = np.einsum("pi,qi->ipq", self.directions, self.directions)
        return constants(self.integrals, Directions(Inputs(tuple(self.eigenvalues), (1, 1)), gram))

    @property
    def steepness(self) -> float:
        """The largest b of an erf(bz) or its like, at least 1."""
        functions = [self.student.activation.function]
        if isinstance(self.target, Additive):
            functions.append(self.target.link.function)
        slopes = [sp.diff(x.args[0], z) for f in functions for x in f.atoms(sp.erf, sp.tanh, sp.exp)]
        return max([1.0, *(abs(float(x)) for x in slopes if x.is_number)])

    @property
    def sample(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs x (n, 2) and weights (n,) of E."""
        crossed = np.concatenate([self.rows, self.directions]) * np.sqrt(self.eigenvalues)
        cuts = np.arctan2(crossed[:, 0], -crossed[:, 1])
        finer = 4.0 ** -np.arange(1, 1 + np.ceil(np.log2(self.steepness) / 2))
        near = np.concatenate([[0.0], finer, -finer])
        cuts = np.concatenate([cuts, cuts + np.pi])[:, None] + near
        lines, places = self.lines
        radial, angular = (_BETWEEN, _FINER) if places.size else (_RADIAL, _ANGULAR)
        cuts = np.concatenate([[0.0], cuts.ravel(), _meetings(np.append(lines, crossed, axis=0), places)])
        cuts = np.unique(np.mod(cuts, 2 * np.pi))
        angle, share = (x.ravel() for x in gauss_legendre(cuts, np.append(cuts[1:], 2 * np.pi), angular))
        towards = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        rings = _RADIUS * np.concatenate([[0.0], finer[::-1], [1.0] if not places.size else [0.25, 1.0]])
        with np.errstate(divide="ignore"):
            reached = places / (towards @ lines.T)
        reached = np.where((reached > 0) & (reached < _RADIUS), reached, _RADIUS)
        ends = np.sort(np.append(reached, np.broadcast_to(rings, (angle.size, rings.size)), axis=1), axis=1)
        radius, along = (x.reshape(angle.size, -1) for x in gauss_legendre(ends[:, :-1], ends[:, 1:], radial))
        u = radius[:, :, None] * towards[:, None, :]
        weights = along * radius * np.exp(-(radius**2) / 2) * share[:, None] / (2 * np.pi)
        return u.reshape(-1, 2) * np.sqrt(self.eigenvalues), weights.ravel()

    @property
    def lines(self) -> tuple[np.ndarray, np.ndarray]:
        """On which a field is where its function bends, beside 0: vectors (n, 2) of u, and places (n,)."""
        long = np.sqrt(np.sum(self.rows * self.metric, axis=1)) if self.student.homogeneous else np.ones(2)
        both = [(self.rows / long[:, None], self.student.activation)]
        if isinstance(self.target, Additive):
            both.append((self.directions, self.target.link))
        found = [(one, a) for vectors, function in both for one in vectors for a, _ in bends(function) if a]
        vectors, places = zip(*found, strict=True) if found else (np.empty((0, 2)), ())
        return np.array(vectors) * np.sqrt(self.eigenvalues), np.array(places)

    def neurons(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """F, 2F_ρ and F_h of the rows at inputs (n, 2), (n, 2) each."""
        rho, fields = np.sum(self.rows * self.metric, axis=1), x @ self.rows.T
        sigma = self.student.activation.function
        at = fields / np.sqrt(rho) if self.student.homogeneous else fields
        value, slope = (_function(f, (z,))(at) for f in (sigma, sp.diff(sigma, z)))
        if not self.student.homogeneous:
            return value, 0 * value, slope
        return rho * value, 2 * value - at * slope, np.sqrt(rho) * slope

    def label(self, x: np.ndarray, p: int | None = None) -> np.ndarray:
        """f* at inputs (n, 2), or its slope by field p; (n,)."""
        fields = x @ self.directions.T
        if isinstance(self.target, Polynomial):
            names = symbols(self.target.count)
            f = self.target.expression if p is None else sp.diff(self.target.expression, names[p])
            return _function(f, names)(*fields.T)
        if p is None:
            return _function(self.target.link.function, (z,))(fields) @ np.asarray(self.target.weights)
        return self.target.weights[p] * _function(sp.diff(self.target.link.function, z), (z,))(fields[:, p])

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays of the system by name, of the shapes that its indices say: T (2, 2, P), Q (2, 2, 2) …"""
        T = np.einsum("ki,qi->ikq", self.rows, self.directions)
        Q = np.einsum("ki,li->ikl", self.rows, self.rows)
        Z = np.einsum("pi,qi->ipq", self.directions, self.directions)
        X, C = np.einsum("i,ikq->kq", self.eigenvalues, T), np.einsum("i,ikl->kl", self.eigenvalues, Q)
        rho = np.einsum("ikk->k", Q)
        known = self.integrals.at(numeric, X, C, rho, self.constants)
        numbers = {"nu": _SPEED, "kappa": _DECAY, "S": self.constants["square"]}
        scalars = {name: np.asarray(value) for name, value in numbers.items()}
        given = {"T": T, "Q": Q, "Z": Z, "X": X, "C": C, "rho": rho, "b": _SECOND, "lambda": self.eigenvalues}
        return {**given, **known, **scalars}

    @cached_property
    def velocity(self) -> dict[str, np.ndarray]:
        """Velocities of T (2, 2, P), Q (2, 2, 2) and b (2,) from the mean of single samples' gradients."""
        seen = _seen(self)
        output = seen.output
        delta = seen.weights * ((output @ _SECOND if self.quadratic else 0.0) - seen.label)
        along_self, along_input = (delta @ seen.along_self)[:, None], _mean(delta, seen.along_input, seen.x)
        gradient = _SECOND[:, None] * (along_self * self.metric + along_input)
        moves = -_SPEED * gradient - _DECAY * self.rows
        if self.student.rows != "free":
            moves = moves - np.sum(moves * self.rows, axis=1, keepdims=True) * self.rows
        half = np.einsum("ki,ji->ikj", moves, self.rows)
        on = np.einsum("ki,qi->ikq", moves, self.directions)
        return {"T": on, "Q": half + half.transpose(0, 2, 1), "b": -delta @ output}


class _Seen(NamedTuple):
    """At a point's sample: inputs x (n, 2) and weights (n,) of E; of the rows F, 2F_ρ and F_h, (n, 2) each; f* (n,) and its
    slopes by the fields (n, P).
    """

    x: np.ndarray
    weights: np.ndarray
    output: np.ndarray
    along_self: np.ndarray
    along_input: np.ndarray
    label: np.ndarray
    slopes: np.ndarray


@lru_cache(maxsize=1)  # (steps of one derivation are checked one after the other; a steep one's arrays are large)
def _seen(point: Point) -> _Seen:
    x, weights = point.sample
    slopes = np.stack([point.label(x, p) for p in range(point.target.count)], axis=-1)
    return _Seen(x, weights, *point.neurons(x), point.label(x), slopes)


def _mean(weights: np.ndarray, one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Of products of each (n, k) with each (n, l): (k, l)."""
    return (weights[:, None] * one).T @ two


def _meetings(lines: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Angles at which lines (n, 2) meet, the last ones through 0."""
    places = np.pad(places, (0, len(lines) - places.size))
    pairs = [
        (a, b) for a, b in combinations(range(len(lines)), 2) if places[a] and abs(np.linalg.det(lines[[a, b]])) > 1e-9
    ]
    meet = [np.linalg.solve(lines[[a, b]], places[[a, b]]) for a, b in pairs]
    return np.array([np.arctan2(y, x) for x, y in meet])


def _function(expression: sp.Expr, names: tuple[sp.Symbol, ...]) -> Callable[..., np.ndarray]:
    compiled = sp.lambdify(names, expression, modules=_MODULES)
    return lambda *x: compiled(*x) + np.zeros_like(x[0])


def _numbers(sums: Sums, free: tuple[Index, ...], point: Point) -> np.ndarray:
    """Sums at the point, one axis for each free index."""
    arrays = {name: np.vectorize(sp.Float, otypes=[object])(value) for name, value in point.arrays.items()}
    return np.asarray(evaluate(sums, free, arrays, sp.Function("none")), dtype=float)


def drift_residual(point: Point, component: sp.Indexed, sums: Sums) -> sp.Expr:
    """Largest difference of a derived drift from explicit coordinates, over the largest velocity."""
    found = _numbers(sums, component.indices, point)
    known = point.velocity[str(component.base)]
    return sp.Float(np.abs(found - known).max() / np.abs(known).max())


def loss_residual(point: Point, sums: Sums) -> sp.Expr:
    """Relative difference of the derived loss from its quadrature."""
    seen = _seen(point)
    output, label, weights = seen.output @ _SECOND, seen.label, seen.weights
    loss = (output - label) ** 2 / 2 if point.quadratic else -output * label
    found = float(_numbers(sums, (), point))
    return sp.Float((found - weights @ loss) / (weights @ abs(loss)))


def integral_residual(point: Point, name: str, shown: sp.Expr) -> sp.Expr:
    r"""Largest relative difference of an integral as shown from quadrature.

    Derivatives are those of single samples: $\partial_{q_{12}}E\,FG=E\,F'G'$ by Price's theorem, the one by $q_{11}$ from
    $E\,F'hG=2q_{11}\partial_{q_{11}}+q_{12}E\,F'G'$ (Stein), the one by $\rho$ of the neuron itself.
    """
    arrays, found = point.arrays, _shown(point, name, shown)
    x, weights, output, along_self, along_input, label, slopes = _seen(point)
    if name[0] == "K":
        value, covariance = output, arrays["C"][:, :, None]
        mixed = _mean(weights, along_input, along_input)[:, :, None]
    else:
        value, covariance = label[:, None], arrays["X"][:, None, :]
        mixed = _mean(weights, along_input, slopes)[:, None, :]
    which = name[1:2]
    if which in ("2", "t"):
        known = mixed[..., 0] if which == "2" else mixed[:, 0, :]
    elif which == "1":
        whole = _mean(weights, along_input * (x @ point.rows.T), value)
        if point.student.whitened or point.unit:  # (ρ is this variance, too.)
            whole = whole + np.diag(arrays["C"])[:, None] * _mean(weights, along_self, value)
        known = (whole - np.sum(covariance * mixed, axis=-1)) / (2 * np.diag(arrays["C"])[:, None])
    else:
        known = _mean(weights, along_self / 2 if which == "r" else output, value)
    if name.startswith("Mt") and len(name) > 2:
        known = known[:, int(name[2:])]
    known = known.reshape(found.shape)
    if isinstance(point.integrals, SeriesIntegrals):  # (of an even row and an odd target all are 0)
        output, value = abs(output), abs(value)
    whole = _mean(weights, output, value)  # (of z² and its like the one by ρ is 0)
    return sp.Float(np.abs(found - known).max() / max(np.abs(known).max(), np.abs(whole).max()))


def _shown(point: Point, name: str, shown: sp.Expr) -> np.ndarray:
    """What is shown of one integral in numbers, all else as derived."""
    table = "pair" if name[0] == "K" else "cross"
    own = {**getattr(point.integrals, table), name: shown}
    pair, cross = (own, point.integrals.cross) if table == "pair" else (point.integrals.pair, own)
    arrays = point.arrays
    integrals = replace(point.integrals, pair=pair, cross=cross)
    changed = integrals.at(numeric, arrays["X"], arrays["C"], arrays["rho"], point.constants)
    return changed["Mt"][:, int(name[2:])] if name.startswith("Mt") and len(name) > 2 else changed[name]
