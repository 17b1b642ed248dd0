r"""Mean and covariance of one SGD step of a committee by eigenspace of the inputs, second order in the step size included.

$f(x)=\sum_kb_k\sigma(\langle v_k,x\rangle)$ with free rows learns $y=\sum_pa_p\sigma_*(\langle w_p,x\rangle)+\varsigma\xi$ on
$x\sim N(0,\Lambda)$, from a batch of b fresh samples, loss ½(f − y)². Teachers and rows together are the frame, with weights
$\omega=(-a,b)$, residual $\delta=\sum_A\omega_A\tau_A(g_A)$, and inner products $V^i_{AB}$ in eigenspace i, of eigenvalue
$\lambda_i$ and dimension $n_i$. With $\Psi_{kl}=(\delta^2+\varsigma^2)\sigma'(g_k)\sigma'(g_l)$, Stein's lemma once and twice
gives what a step needs,

$$E\,\delta\sigma'(g_k)x=\Lambda\sum_AG_{kA}v_A,\qquad
E\,\Psi_{kl}xx^\top=\Phi_{kl}\Lambda+\Lambda\Big(\sum_{AB}H_{klAB}v_Av_B^\top\Big)\Lambda,$$

where H sums $E\,\partial_a\partial_b\Psi$ over *ordered* pairs of Gaussians. As rows are free, V is a polynomial of degree two
in η and the mean of a step is exact; the covariance is that of the displacements of first order. One eigenvalue, orthonormal
teachers and the student's own link: `theory.steps.committee` (Saad and Solla 1995, Phys. Rev. E 52, 4225; blocks derived).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

import numpy as np
import sympy as sp

from theory.core.activation import Activation
from theory.core.arguments import check_positive, check_whole
from theory.core.errors import InputError
from theory.core.frame import A, B, N, eta, noise, w
from theory.core.hermite import z
from theory.core.indexed import Index, Sums, Term, collect, k, l, q
from theory.core.numeric_sums import NumericSums
from theory.declared.inputs import Inputs
from theory.declared.loss import Square
from theory.declared.model import DeclaredModel
from theory.declared.rule import Rule
from theory.declared.start import Start
from theory.declared.target import Additive
from theory.steps.slope_integrals import MAX_DEGREE, as_erf, covariance_symbol, erf_four, erf_two, wick_expectation

#: Eigenspaces, and ends of displacements (any vector of the frame).
L = sp.Symbol("L", integer=True, positive=True)
i, h = Index("i", L), Index("h", L)
U, W = Index("U", N), Index("W", N)
batch = sp.Symbol("b_s", positive=True)

lam, n, V, b = (sp.IndexedBase(name) for name in ("lambda", "n", "V", "b"))
#: The frame's inner products with teachers and with rows, (L, N, P) and (L, N, m); one eigenspace or row with itself.
Z, Y, same, itself = sp.IndexedBase("Z"), sp.IndexedBase("Y"), sp.IndexedBase("delta"), sp.IndexedBase("I")
G, Phi, H = sp.IndexedBase("G"), sp.IndexedBase("Phi"), sp.IndexedBase("H")
#: Eσ''(g_k)τ(g_A) and Eσ'(g_k)τ'(g_A); row k as vector A of the frame, 1 or 0.
own, cross, place = sp.IndexedBase("K"), sp.IndexedBase("M"), sp.IndexedBase("E")
_VERTICES = (k, l, A, B)


def bend(first: int, second: int) -> sp.IndexedBase:
    r"""$E\,\partial_a\partial_b\,\sigma'(g_k)\sigma'(g_l)\tau_A(g_A)\tau_B(g_B)$, of vertices k, l, A, B; (m, m, N, N)."""
    return sp.IndexedBase(f"F_{min(first, second) + 1}{max(first, second) + 1}")


F, F_0 = sp.IndexedBase("F"), sp.IndexedBase("F^0")


def flat_bend(first: int, second: int) -> sp.IndexedBase:
    r"""The same of $\sigma'(g_k)\sigma'(g_l)$ alone, (m, m)."""
    return sp.IndexedBase(f"F^0_{min(first, second) + 1}{max(first, second) + 1}")


# -------------------------------------------------------------------- what is derived


def gradient() -> Sums:
    r"""$G_{kA}$: Stein's lemma on $E\,\delta\sigma'(g_k)x$."""
    return Sums.of(w[A] * cross[k, A], (place[k, A] * w[B] * own[k, B], B))


def product_mean() -> Sums:
    r"""$\Phi_{kl}=E\,\Psi_{kl}$."""
    return Sums.of((w[A] * w[B] * F[k, l, A, B], A, B), noise**2 * F_0[k, l])


def hessian() -> Sums:
    r"""$H_{klUW}$: $E\,\partial_a\partial_b$ of each term over the ordered pairs of its Gaussians, put where they stand."""

    def at(vertex: sp.Symbol, end: sp.Symbol) -> sp.Expr:
        return place[vertex, end] if vertex in (k, l) else itself[vertex, end]

    terms = []
    for (x, one), (y, other) in product(enumerate(_VERTICES), repeat=2):
        terms.append(Term(w[A] * w[B] * bend(x, y)[_VERTICES] * at(one, U) * at(other, W), (A, B)))
        if max(x, y) < 2:
            terms.append(Term(noise**2 * flat_bend(x, y)[k, l] * at(one, U) * at(other, W)))
    return collect(terms)


def teacher_mean() -> Sums:
    r"""$E\,\Delta V^i_{kq}$, exact: $-\eta b_k\lambda_i\sum_AG_{kA}V^i_{Aq}$."""
    return Sums.of((-eta * b[k] * lam[i] * G[k, A] * Z[i, A, q], A))


def square_mean() -> Sums:
    r"""$E\langle u_k,u_l\rangle^i$ of a batch's descents $u_k=-b_k\delta\sigma'(g_k)x$: a sample's square, and the mean's."""
    pair, sample = b[k] * b[l], 1 / batch
    terms = [
        Term(pair * sample * lam[i] * n[i] * Phi[k, l]),
        Term(pair * sample * lam[i] ** 2 * V[i, A, B] * H[k, l, A, B], (A, B)),
        Term(pair * (1 - sample) * lam[i] ** 2 * G[k, A] * V[i, A, B] * G[l, B], (A, B)),
    ]
    return collect(terms)


def row_mean() -> Sums:
    r"""$E\,\Delta V^i_{kl}$, exact: both halves of first order, and $\eta^2$ × `square_mean`."""
    terms = [
        Term(-eta * b[k] * lam[i] * G[k, A] * Y[i, A, l], (A,)),
        Term(-eta * b[l] * lam[i] * G[l, A] * Y[i, A, k], (A,)),
    ]
    return collect([*terms, *square_mean().scaled(eta**2)])


def half_covariance() -> Sums:
    r"""Covariance of the displacements $-\eta\,b_k\delta\sigma'(g_k)g^i_U$ and the same of l, h, W, averaged over a batch."""
    outside = eta**2 * b[k] * b[l] / batch
    terms = [
        Term(outside * same[i, h] * lam[i] * V[i, U, W] * Phi[k, l]),
        Term(outside * lam[i] * lam[h] * V[i, U, A] * H[k, l, A, B] * V[h, B, W], (A, B)),
        Term(-outside * lam[i] * lam[h] * G[k, A] * V[i, A, U] * G[l, B] * V[h, B, W], (A, B)),
    ]
    return collect(terms)


#: Name → equation's left side, terms, and free letters.
EQUATIONS: dict[str, tuple[str, Sums, tuple[sp.Symbol, ...]]] = {
    "G": ("G_{kA}", gradient(), (k, A)),
    "Phi": (r"\Phi_{kl}", product_mean(), (k, l)),
    "H": ("H_{klUW}", hessian(), (k, l, U, W)),
    "T": (r"E\,\Delta V^{i}_{kq}", teacher_mean(), (i, k, q)),
    "Q": (r"E\,\Delta V^{i}_{kl}", row_mean(), (i, k, l)),
    "halves": (r"\mathrm{Cov}", half_covariance(), (i, k, U, h, l, W)),
}


# ----------------------------------------------------------------------- the integrals


@dataclass(frozen=True)
class Integrals:
    """Closed forms for a student's activation and two functions of the frame, in `covariance_symbol`s.

    Attributes:
        two: E σ(g₁)τ(g₂). four: E σ'(g₁)σ'(g₂)τ(g₃)τ'(g₄).
    """

    two: sp.Expr
    four: sp.Expr

    def bend(self, first: int, second: int) -> sp.Expr:
        """E ∂∂ of four points, vertices from 0."""
        return sp.diff(self.four, covariance_symbol(first, second)) * (2 if first == second else 1)


@lru_cache(maxsize=32)
def integrals(activation: Activation, one: Activation, other: Activation) -> Integrals:
    r"""Of polynomials, or of $s\,\mathrm{erf}(bz)$ with scales of their own. Raises `InputError` for any other."""
    functions = (activation, activation, one, other)
    erfs = [form for x in functions if (form := as_erf(x)) is not None]
    if len(erfs) == 4:
        steep = [sp.sqrt(2) * slope for _, slope in erfs]
        size = sp.Mul(*[scale for scale, _ in erfs])

        def stretched(x: sp.Expr, ends: tuple[int, ...]) -> sp.Expr:
            pairs = [(c, d) for c in range(len(ends)) for d in range(c, len(ends))]
            known = {
                covariance_symbol(c, d): steep[ends[c]] * steep[ends[d]] * covariance_symbol(c, d) for c, d in pairs
            }
            return x.subs(known, simultaneous=True)

        pair = erfs[0][0] * erfs[2][0] * stretched(erf_two(), (0, 2))
        return Integrals(pair, size * steep[0] * steep[1] * stretched(erf_four(), (0, 1, 2, 3)))
    if erfs or not all(x.is_polynomial and x.degree <= MAX_DEGREE for x in functions):
        names = ", ".join(sorted({x.name for x in functions}))
        raise InputError(
            f"moments of a step are closed for polynomials up to degree {MAX_DEGREE}, or for erf's alone, not for {names}: "
            "use such an activation and link, or simulate the step"
        )
    values = [sp.expand(x.function) for x in functions]
    slopes = [sp.diff(values[0], z)] * 2
    return Integrals(wick_expectation([values[0], values[2]]), wick_expectation([*slopes, *values[2:]]))


@lru_cache(maxsize=64)
def _compiled(activation: Activation, one: Activation, other: Activation) -> Callable[..., list[np.ndarray]]:
    """F and its bends (a ≤ b), as a function of the ten covariances."""
    found = integrals(activation, one, other)
    return _function([found.four, *[found.bend(*pair) for pair in _PAIRS]], _PAIRS)


@lru_cache(maxsize=32)
def _compiled_pair(activation: Activation, link: Activation) -> Callable[..., list[np.ndarray]]:
    """Eσ''τ, Eσ'τ', and bends of Eσ'τ' (a ≤ b) of two Gaussians, as a function of three covariances."""
    two = integrals(activation, link, link).two
    slopes = sp.diff(two, covariance_symbol(0, 1))
    bends = [sp.diff(slopes, covariance_symbol(*pair)) * (2 if pair[0] == pair[1] else 1) for pair in _FLAT]
    return _function([2 * sp.diff(two, covariance_symbol(0, 0)), slopes, *bends], _FLAT)


_PAIRS = [(x, y) for x in range(4) for y in range(x, 4)]
_FLAT = [(0, 0), (0, 1), (1, 1)]


def _function(expressions: list[sp.Expr], pairs: list[tuple[int, int]]) -> Callable[..., list[np.ndarray]]:
    names = [covariance_symbol(*pair) for pair in pairs]
    compiled = sp.lambdify(names, [sp.N(x, 17) for x in expressions], modules="numpy", cse=True)
    return lambda *values: [x + 0.0 * sum(values) for x in compiled(*values)]


# ------------------------------------------------------------------------------ numbers


@dataclass(frozen=True)
class Moments:
    """Of one step.

    Attributes:
        teachers, rows: means of ΔV's entries, (L, m, P) and (L, m, m). halves: covariance of displacements of rows along the
            frame's vectors, (L, m, N, L, m, N).
    """

    teachers: np.ndarray
    rows: np.ndarray
    halves: np.ndarray

    @property
    def teacher_covariance(self) -> np.ndarray:
        """Of ΔV_kp, (L, m, P, L, m, P)."""
        width = self.teachers.shape[2]
        return self.halves[:, :, :width, :, :, :width]

    @property
    def row_covariance(self) -> np.ndarray:
        """Of ΔV_kl, both halves together, (L, m, m, L, m, m)."""
        width = self.teachers.shape[2]
        found = self.halves[:, :, width:, :, :, width:]
        found = found + np.swapaxes(found, 1, 2)
        return found + np.swapaxes(found, 4, 5)


@dataclass(frozen=True)
class StepMoments:
    r"""Moments of a step for an activation and a link, from `EQUATIONS`, or from others put in the place of some.

    Attributes:
        activation: σ. link: $\sigma_*$. equations: name → terms, where they are not those derived.
    """

    activation: Activation
    link: Activation
    equations: tuple[tuple[str, Sums], ...] = ()

    @cached_property
    def _sums(self) -> dict[str, NumericSums]:
        terms = {name: sums for name, (_, sums, _) in EQUATIONS.items()} | dict(self.equations)
        return {name: NumericSums(terms[name], free, self.activation) for name, (_, _, free) in EQUATIONS.items()}

    def arrays(self, grams: np.ndarray, inputs: Inputs, a: np.ndarray, second: np.ndarray) -> dict[str, np.ndarray]:
        r"""What the equations are about, by name. `grams`: $V^i$, (L, N, N), teachers first; a (P,); second: b (m,)."""
        P, m = a.size, second.size
        values = np.asarray(inputs.eigenvalues)
        C = np.einsum("i,iAB->AB", values, grams)
        counts = np.asarray(inputs.multiplicities, dtype=float)
        found = {"lambda": values, "n": counts, "V": grams, "Z": grams[:, :, :P], "Y": grams[:, :, P:]}
        found |= {"w": np.concatenate([-a, second]), "b": second, "delta": np.eye(values.size), "I": np.eye(P + m)}
        return found | {"E": np.eye(P + m)[P:]} | self._pairs(C, P) | self._fours(C, P)

    def _kinds(self, P: int, size: int) -> list[tuple[Activation, np.ndarray]]:
        return [(self.link, np.arange(P)), (self.activation, np.arange(P, size))]

    def _pairs(self, C: np.ndarray, P: int) -> dict[str, np.ndarray]:
        rows = np.arange(P, len(C))
        found: dict[str, list[np.ndarray]] = {"K": [], "M": []}
        for tau, where in self._kinds(P, len(C)):
            values = _compiled_pair(self.activation, tau)(*_covariances(C, rows, where))
            found["K"].append(values[0])
            found["M"].append(values[1])
        flat = _compiled_pair(self.activation, self.activation)(*_covariances(C, rows, rows))
        bends = {flat_bend(*pair).name: x for pair, x in zip(_FLAT, flat[2:], strict=True)}
        return {name: np.concatenate(parts, axis=1) for name, parts in found.items()} | {"F^0": flat[1]} | bends

    def _fours(self, C: np.ndarray, P: int) -> dict[str, np.ndarray]:
        size, rows = len(C), np.arange(P, len(C))
        found = np.empty((len(_PAIRS) + 1, rows.size, rows.size, size, size))
        for (one, first), (other, second) in product(self._kinds(P, size), repeat=2):
            values = _compiled(self.activation, one, other)(*_covariances(C, rows, rows, first, second))
            found[:, :, :, first[:, None], second[None, :]] = np.stack(values)
        names = [F.name, *[bend(*pair).name for pair in _PAIRS]]
        return dict(zip(names, found, strict=True))

    def solved(
        self, arrays: Mapping[str, np.ndarray], step_size: float, batch_size: int = 1, noise_size: float = 0.0
    ) -> dict[str, np.ndarray]:
        """`arrays` with G, Φ and H, and then the moments, by the names of `EQUATIONS`; axes are their free letters: of shape
        (m, N), (m, m), (m, m, N, N), (L, m, P), (L, m, m) and (L, m, N, L, m, N).

        Raises `InputError` for a step size, batch or noise out of range.
        """
        check_positive(step_size=step_size)
        check_whole(batch=batch_size)
        if not (np.isfinite(noise_size) and noise_size >= 0):
            raise InputError(f"noise is {noise_size!r}: give a finite number, 0 or more")
        numbers = {eta.name: step_size, batch.name: batch_size, noise.name: noise_size}
        found = {**arrays, **{name: np.asarray(float(value)) for name, value in numbers.items()}}
        for name, sums in self._sums.items():
            found[name] = sums(found)
        return found

    def at(
        self,
        grams: np.ndarray,
        inputs: Inputs,
        a: np.ndarray,
        second: np.ndarray,
        *,
        step_size: float,
        batch_size: int = 1,
        noise_size: float = 0.0,
    ) -> Moments:
        r"""Mean and leading covariance of a step from $V^i$ = `grams` (L, N, N), teachers first; a (P,); second: b (m,).

        The mean is exact for any step size; the covariance is that of the terms of first order in it. Raises `InputError` for
        activations without closed integrals, and for a step size, batch or noise out of range.
        """
        found = self.solved(self.arrays(grams, inputs, a, second), step_size, batch_size, noise_size)
        return Moments(found["T"], found["Q"], found["halves"])


def step_moments(model: DeclaredModel, start: Start, equations: Mapping[str, Sums] | None = None) -> Moments:
    """Of the first step of a declared model from `start`. `equations`: in the place of those derived, by name.

    Raises `InputError` for what is no committee with free rows and fixed second layer, additive target, square loss and plain
    SGD without decay, and for activations without closed integrals. Rows of unit length: `theory.declared.unit_rows`.
    """
    if model.student.rows != "free":
        raise InputError(f"rows are {model.student.rows!r}: use unit_step_moments of theory.declared.unit_rows")
    free, where, numbers = described(model, start, equations)
    return free.at(*where, **numbers)


#: V^i, inputs, teachers' weights and second layer: what `StepMoments.at` takes by place.
Where = tuple[np.ndarray, Inputs, np.ndarray, np.ndarray]


def described(
    model: DeclaredModel, start: Start, equations: Mapping[str, Sums] | None = None
) -> tuple[StepMoments, Where, dict[str, Any]]:
    """What moments of a step take from a model, whatever its rows: by place, and by name. Raises as `step_moments`."""
    student, target, rule = model.student, model.target, model.rule
    plain = type(rule) is Rule and not (rule.decay or rule.samples) and isinstance(model.loss, Square)
    if student.homogeneous or student.trained or not plain or not isinstance(target, Additive):
        raise InputError(
            "moments of a step are known for a committee with a fixed second layer, an additive target, the "
            "square loss and plain SGD without decay on fresh samples: declare these, or simulate the step"
        )
    start.check(model.directions)
    size = rule.step_size(0) if callable(rule.step_size) else rule.step_size
    overlaps = start.overlaps(model.directions)
    upper = np.concatenate([model.directions.grams, np.swapaxes(overlaps, 1, 2)], axis=2)
    grams = np.concatenate([upper, np.concatenate([overlaps, start.grams], axis=2)], axis=1)
    where = grams, model.inputs, np.asarray(target.weights), np.asarray(student.second)
    numbers = {"step_size": float(size), "batch_size": rule.batch, "noise_size": rule.noise_deviation}
    return StepMoments(student.activation, target.link, tuple((equations or {}).items())), where, numbers


def _covariances(C: np.ndarray, *vertices: np.ndarray) -> list[np.ndarray]:
    """C between vertices that run over these numbers, one axis for each vertex; pairs a ≤ b."""
    grid = np.meshgrid(*vertices, indexing="ij")
    return [C[grid[x], grid[y]] for x in range(len(grid)) for y in range(x, len(grid))]
