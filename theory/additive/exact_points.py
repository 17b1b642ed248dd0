r"""Independent checks of the additive model's formulas at explicit points, to 40 digits.

Everything here is computed in ambient coordinates, from explicit vectors, by plain differentiation: it shares no code
with the derivation that it checks. Two students, two teachers, $d = 4$.
"""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache

import numpy as np
import sympy as sp
from sympy.printing.latex import LatexPrinter

from theory.core.activation import Activation
from theory.core.activation import c as kernel_variable
from theory.core.gaussian import expectation
from theory.core.hermite import z
from theory.core.indexed import Sums, evaluate, k, l, p, q, specialise

#: The vectors and coefficients in which equations are written.
E, V, HAT = sp.IndexedBase("e"), sp.IndexedBase(r"\bar v"), sp.IndexedBase(r"\hat\sigma")
WITH_MEAN = Activation.from_coefficients({0: sp.Rational(1, 3), 1: sp.Rational(1, 2), 3: sp.Rational(2, 3)})
_DIM, _STUDENTS, _TEACHERS = 4, 2, 2
_WEIGHTS = np.array([sp.Rational(4, 5), sp.Rational(3, 5)], dtype=object)
_STUDENT_POINT = ((1, -2, 3, 2), (2, 1, -1, 3))
_SCALE = sp.Rational(1, 5)
_DIGITS = 50


class Tensor(sp.Function):
    r"""$v^{\otimes i}$."""

    nargs = 2

    def _latex(self, printer: LatexPrinter) -> str:
        vector, power = (printer._print(x) for x in self.args)
        return rf"{{{vector}}}^{{\otimes {power}}}"


class Square(sp.Function):
    r"""$\|\cdot\|_F^2$ of a tensor."""

    nargs = 1

    def _latex(self, printer: LatexPrinter) -> str:
        return rf"\Big\|{printer._print(self.args[0])}\Big\|_F^2"


@cache
def _coordinates() -> tuple[tuple[sp.Symbol, ...], ...]:
    return tuple(sp.symbols(f"v{i}_0:{_DIM}", real=True) for i in range(_STUDENTS))


@cache
def _values() -> dict[sp.Symbol, sp.Expr]:
    flat = [symbol for row in _coordinates() for symbol in row]
    numbers = [value * _SCALE for row in _STUDENT_POINT for value in row]
    return dict(zip(flat, numbers, strict=True))


def _symbolic_overlaps() -> dict[str, np.ndarray]:
    """t, c, r as functions of the ambient coordinates."""
    rows = _coordinates()
    squares = [sum(x**2 for x in row) for row in rows]
    t_array = np.array([[row[i] / sp.sqrt(n) for i in range(_TEACHERS)] for row, n in zip(rows, squares, strict=True)])
    c_array = np.array(
        [
            [
                sp.Integer(1)
                if i == h
                else sum(x * y for x, y in zip(rows[i], rows[h], strict=True)) / sp.sqrt(squares[i] * squares[h])
                for h in range(_STUDENTS)
            ]
            for i in range(_STUDENTS)
        ],
        dtype=object,
    )
    return {"t": t_array, "c": c_array, "r": np.array(squares, dtype=object), "a": _WEIGHTS}


@cache
def _numeric_overlaps() -> dict[str, np.ndarray]:
    number = np.vectorize(lambda x: sp.N(sp.sympify(x).xreplace(_values()), _DIGITS), otypes=[object])
    return {name: number(array) for name, array in _symbolic_overlaps().items()}


def precise_kernel(activation: Activation) -> Callable[[sp.Expr, int], sp.Expr]:
    """The dual kernel and its derivatives, (cosine, order) → 50 digits."""
    return lambda x, order: sp.N(activation.kernel_at(x, order), _DIGITS)


def _evaluate(sums: Sums, free: tuple[sp.Symbol, ...], activation: Activation) -> np.ndarray:
    return evaluate(sums, free, _numeric_overlaps(), precise_kernel(activation))


def _ambient_loss(activation: Activation) -> sp.Expr:
    """½E(f*−f)² from explicit vectors and the kernel alone."""
    arrays = _symbolic_overlaps()
    units = [([sp.Integer(int(i == h)) for h in range(_DIM)], -weight) for i, weight in enumerate(_WEIGHTS)]
    for row, size in zip(_coordinates(), arrays["r"], strict=True):
        units.append(([x / sp.sqrt(size) for x in row], size))
    total = sp.Integer(0)
    for i, (u, x) in enumerate(units):
        for h, (w, y) in enumerate(units):
            inner = sp.Integer(1) if i == h else sum(f * g for f, g in zip(u, w, strict=True))
            total += x * y * activation.kernel_at(inner)
    return total / 2


def _largest(differences: list[sp.Expr]) -> sp.Expr:
    return max((abs(sp.N(x, _DIGITS)) for x in differences), default=sp.Integer(0))


def kernel_residual(activation: Activation, shown: sp.Expr) -> sp.Expr:
    """E σ(g)σ(h) − φ(c), as it is `shown`, for jointly Gaussian g, h of covariance c, by Isserlis' theorem (symbolic in c).

    For an activation that is no polynomial, its three lowest Hermite degrees stand in for it, and a kernel in closed
    form is compared with the Hermite series at c = 1/2 (where the degrees beyond 40 weigh less than 1e-12).
    """
    if activation.closed_dual is not None:
        half = sp.Rational(1, 2)
        series = sum(x**2 * half**i for i, x in activation.coefficients.items())
        mismatch = sp.N(activation.closed_dual.subs(kernel_variable, half) - series, _DIGITS)
        if abs(mismatch) > activation.check_tolerance:
            return mismatch
    lowest = sorted(activation.coefficients)[:3]
    sigma = sum(activation.coefficients[i] * sp.hermite_prob(i, z) / sp.sqrt(sp.factorial(i)) for i in lowest)
    if activation.is_polynomial and activation.degree <= 10:
        lowest, sigma = sorted(activation.coefficients), activation.function
    g, h = sp.symbols("g h", real=True)
    covariance = sp.Matrix([[1, kernel_variable], [kernel_variable, 1]])
    moment = expectation(sp.expand(sigma.subs(z, g) * sigma.subs(z, h)), (g, h), covariance)
    dual = sum(activation.coefficients[i] ** 2 * kernel_variable**i for i in lowest)
    (overlap,) = shown.free_symbols
    claimed = specialise(shown.subs(overlap, kernel_variable), dual, kernel_variable)
    difference = sp.Poly(sp.expand(moment - claimed), kernel_variable)
    return (
        _largest(difference.coeffs())
        if any(x.has(sp.Float) for x in difference.coeffs())
        else sp.expand(difference.as_expr())
    )


def loss_residual(loss: Sums, activation: Activation) -> sp.Expr:
    """The loss formula against the double sum over all (teacher and student) neurons."""
    return sp.N(_ambient_loss(activation).xreplace(_values()), _DIGITS) - _evaluate(loss, (), activation)[()]


def tensor_residual(shown: sp.Expr, loss: Sums) -> sp.Expr:
    """The shown sum over degrees, as explicit tensors, against the loss formula: a stand-in with degrees 1, 2 and 3."""
    stand_in = Activation.from_coefficients({1: sp.Rational(1, 2), 2: sp.Rational(2, 3), 3: sp.Rational(-1, 3)})
    arrays = _numeric_overlaps()
    point = np.array([[sp.N(x * _SCALE, _DIGITS) for x in row] for row in _STUDENT_POINT], dtype=object)
    units = point / np.array([[sp.sqrt(x)] for x in arrays["r"]], dtype=object)
    vectors = {E: np.array([[int(i == h) for h in range(_DIM)] for i in range(_TEACHERS)], dtype=object), V: units}

    def square(inside: sp.Expr) -> sp.Expr:
        """‖·‖² of a combination of tensor powers of one degree."""
        tensor = 0
        for term in Sums.read(inside):
            (power,) = term.body.atoms(Tensor)
            weight = term.body.xreplace({power: sp.Integer(1)})
            for place, vector in enumerate(vectors[power.args[0].base]):
                number = weight.replace(lambda x: isinstance(x, sp.Indexed), lambda x, n=place: arrays[str(x.base)][n])
                tensor = tensor + number * _power(vector, int(power.args[1]))
        return np.sum(tensor**2)

    (sum_over_degrees,) = shown.atoms(sp.Sum) - {x for y in shown.atoms(Square) for x in y.atoms(sp.Sum)}
    total = sp.Integer(0)
    for degree, coefficient in stand_in.coefficients.items():
        term = sum_over_degrees.function.subs(sum_over_degrees.variables[0], degree)
        total += term.xreplace({HAT[degree]: coefficient}).replace(Square, square)
    return shown.xreplace({sum_over_degrees: total}) - _evaluate(loss, (), stand_in)[()]


def _power(vector: np.ndarray, degree: int) -> np.ndarray:
    tensor = vector
    for _ in range(degree - 1):
        tensor = np.multiply.outer(tensor, vector)
    return tensor


def frame_residual(coordinate: sp.Indexed, shown: sp.Expr) -> sp.Expr:
    """∇_{v_0} of t, c or r by differentiation in coordinates, against the derived combination of vectors."""
    place = {k: 0, p: 1, l: 1}
    symbolic = _symbolic_overlaps()[str(coordinate.base)][tuple(place[i] for i in coordinate.indices)]
    direct = [sp.N(sp.diff(symbolic, x).xreplace(_values()), _DIGITS) for x in _coordinates()[0]]
    return _largest([x - y for x, y in zip(direct, _explicit(shown, place), strict=True)])


def _explicit(shown: sp.Expr, place: dict[sp.Symbol, int]) -> list[sp.Expr]:
    """Coordinates of a combination of e_p and v̄_k."""
    arrays = _numeric_overlaps()
    units = (
        np.array(_STUDENT_POINT, dtype=object) * _SCALE / np.array([[sp.sqrt(x)] for x in arrays["r"]], dtype=object)
    )

    def number(x: sp.Indexed, coordinate: int) -> sp.Expr:
        where = tuple(place[i] for i in x.indices)
        if x.base == E:
            return sp.Integer(int(coordinate == where[0]))
        return units[where[0]][coordinate] if x.base == V else arrays[str(x.base)][where]

    return [
        sp.N(shown.replace(lambda x: isinstance(x, sp.Indexed), lambda x, h=h: number(x, h)), _DIGITS)
        for h in range(_DIM)
    ]


@lru_cache(maxsize=32)
def _velocities(activation: Activation) -> tuple[tuple[sp.Expr, ...], ...]:
    """−∇_{v_k}L at the point, by differentiating the ambient loss."""
    loss = _ambient_loss(activation)
    return tuple(tuple(-sp.N(sp.diff(loss, x).xreplace(_values()), _DIGITS) for x in row) for row in _coordinates())


def radial_residual(radial: Sums, activation: Activation) -> sp.Expr:
    """⟨−∇L, v̄⟩ in coordinates against the derived radial component."""
    sizes = _numeric_overlaps()["r"]
    derived = _evaluate(radial, (k,), activation)
    differences = []
    for i, velocity in enumerate(_velocities(activation)):
        direct = sum(x * y * _SCALE for x, y in zip(velocity, _STUDENT_POINT[i], strict=True)) / sp.sqrt(sizes[i])
        differences.append(direct - derived[i])
    return _largest(differences)


def tangent_residual(tangent: Sums, activation: Activation) -> sp.Expr:
    """⟨−(I−v̄v̄ᵀ)∇L, e_q⟩ in coordinates against the derived tangent component."""
    arrays = _numeric_overlaps()
    derived = _evaluate(tangent, (k, q), activation)
    differences = []
    for i, velocity in enumerate(_velocities(activation)):
        along = sum(x * y * _SCALE for x, y in zip(velocity, _STUDENT_POINT[i], strict=True)) / sp.sqrt(arrays["r"][i])
        differences += [velocity[h] - along * arrays["t"][i, h] - derived[i, h] for h in range(_TEACHERS)]
    return _largest(differences)


def flow_residual(component: sp.Indexed, sums: Sums, activation: Activation) -> sp.Expr:
    """d/dt of an overlap along the ambient gradient flow against the derived drift."""
    derived = _evaluate(sums, component.indices, activation)
    symbolic = _symbolic_overlaps()[str(component.base)]
    differences = []
    for place in np.ndindex(*derived.shape):
        direct = sum(
            sp.diff(symbolic[place], x).xreplace(_values()) * speed
            for row, velocity in zip(_coordinates(), _velocities(activation), strict=True)
            for x, speed in zip(row, velocity, strict=True)
        )
        differences.append(direct - derived[place])
    return _largest(differences)


def step_residual(
    component: sp.Indexed, sums: Sums, definitions: Mapping[sp.Indexed, Sums], activation: Activation
) -> sp.Expr:
    """(y(v + ηu) − y(v))/η of a raw overlap y, u the ambient velocity, against the derived change, at η = 1/7."""
    eta = sp.Rational(1, 7)
    arrays = dict(_numeric_overlaps())
    start = np.array(_STUDENT_POINT, dtype=object) * _SCALE
    after = start + eta * np.array(_velocities(activation), dtype=object)
    raw = [{"T": v[:, :_TEACHERS], "Q": v @ v.T} for v in (start, after)]
    arrays = {"a": arrays["a"], "eta": np.array(eta, dtype=object), **raw[0]}
    for symbol, definition in definitions.items():
        arrays[str(symbol.base)] = evaluate(definition, tuple(symbol.indices), arrays, precise_kernel(activation))
    derived = evaluate(sums, tuple(component.indices), arrays, precise_kernel(activation))
    direct = (raw[1][str(component.base)] - raw[0][str(component.base)]) / eta
    return _largest(list((direct - derived).ravel()))


def coordinate_residual(
    component: sp.Indexed, sums: Sums, definitions: Mapping[sp.Indexed, Sums], activation: Activation
) -> sp.Expr:
    """d/dt of a student's coordinates along the ambient gradient flow, the other students being its sources."""
    sizes = _numeric_overlaps()["r"]
    unit = np.array(_STUDENT_POINT, dtype=object) * _SCALE / np.array([[sp.sqrt(x)] for x in sizes], dtype=object)
    differences = []
    for own, velocity in enumerate(np.array(_velocities(activation), dtype=object)):
        others = [place for place in range(_STUDENTS) if place != own]
        state = {"t": unit[:, :_TEACHERS], "u": unit[:, _TEACHERS:], "r": sizes}
        arrays = state | {f"source_{name}": array[others] for name, array in state.items()}
        arrays |= {
            "a": _WEIGHTS,
            "light": np.array([sp.Integer(int(i == own)) for i in range(_STUDENTS)], dtype=object),
        }
        for symbol, definition in definitions.items():
            arrays[str(symbol.base)] = evaluate(definition, tuple(symbol.indices), arrays, precise_kernel(activation))
        derived = evaluate(sums, tuple(component.indices), arrays, precise_kernel(activation))[own]
        along = velocity @ unit[own]
        turned = (velocity - along * unit[own]) / sp.sqrt(sizes[own])
        direct = {"t": turned[:_TEACHERS], "u": turned[_TEACHERS:], "r": 2 * sp.sqrt(sizes[own]) * along}
        differences += list(np.ravel(direct[str(component.base)] - derived))
    return _largest(differences)
