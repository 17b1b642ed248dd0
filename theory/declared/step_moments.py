r"""Mean and covariance of one SGD step of a committee by eigenspace of the inputs, second order in the step size included.

$f(x)=\sum_kb_k\sigma(\langle v_k,x\rangle)$ with free rows learns $y=\sum_pa_p\sigma_*(\langle w_p,x\rangle)+\varsigma\xi$ on
$x\sim N(0,\Lambda)$, from a batch of b fresh samples, loss ½(f − y)². Teachers and rows together are the frame, with weights
$\omega=(-a,b)$, residual $\delta=\sum_A\omega_A\tau_A(g_A)$, and inner products $V^i_{AB}$ in eigenspace i, of eigenvalue
$\lambda_i$ and dimension $n_i$. With $\Psi_{kl}=(\delta^2+\varsigma^2)\sigma'(g_k)\sigma'(g_l)$, Stein's lemma once and twice
gives what a step needs,

$$E\,\delta\sigma'(g_k)x=\Lambda\sum_AG_{kA}v_A,\qquad
E\,\Psi_{kl}xx^\top=\Phi_{kl}\Lambda+\Lambda\Big(\sum_{AB}H_{klAB}v_Av_B^\top\Big)\Lambda,$$

where H sums $E\,\partial_a\partial_b\Psi$ over *ordered* pairs of Gaussians. As rows are free, V is a polynomial of degree two
in η and the mean of a step is exact; the covariance is that of the displacements of first order. Under the correlation loss
$\delta=-y$: ω of the rows is 0. A polynomial target is additive over more directions (`theory.declared.powers`). One
eigenvalue, orthonormal teachers and the student's own link: `theory.steps.committee` (Saad and Solla 1995, Phys. Rev. E 52,
4225; blocks derived).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
import sympy as sp

from theory.core.activation import Activation
from theory.core.arguments import check_positive, check_whole
from theory.core.errors import InputError
from theory.core.frame import A, B, N, eta, noise, w
from theory.core.indexed import Index, Sums, Term, collect, k, l, q
from theory.core.numeric_sums import NumericSums
from theory.declared.flow import kappa
from theory.declared.inputs import Inputs
from theory.declared.step_integrals import FOUR, TWO, Table, of_outputs, of_slopes, of_two

#: Eigenspaces, and ends of displacements (any vector of the frame).
L = sp.Symbol("L", integer=True, positive=True)
i, h = Index("i", L), Index("h", L)
U, W = Index("U", N), Index("W", N)
batch = sp.Symbol("b_s", positive=True)

lam, n, V, b = (sp.IndexedBase(name) for name in ("lambda", "n", "V", "b"))
#: The frame's inner products with teachers and with rows, (L, N, P) and (L, N, m); one eigenspace or row with itself.
Z, Y, same, itself = sp.IndexedBase("Z"), sp.IndexedBase("Y"), sp.IndexedBase("delta"), sp.IndexedBase("I")
G, Phi, H = sp.IndexedBase("G"), sp.IndexedBase("Phi"), sp.IndexedBase("H")
#: Eσ(g_k)τ(g_A), Eσ''(g_k)τ(g_A) and Eσ'(g_k)τ'(g_A); row k as vector A of the frame, 1 or 0.
output, own, cross, place = (sp.IndexedBase(name) for name in ("O", "K", "M", "E"))
#: Covariance of the displacements of free rows without weight decay: what "halves" is in `MoreMoments`.
spread = sp.IndexedBase("Gamma")
_VERTICES = (k, l, A, B)


def bend(first: int, second: int) -> sp.IndexedBase:
    r"""$E\,\partial_a\partial_b\,\sigma'(g_k)\sigma'(g_l)\tau_A(g_A)\tau_B(g_B)$, of vertices k, l, A, B; (m, m, N, N)."""
    return sp.IndexedBase(f"F_{min(first, second) + 1}{max(first, second) + 1}")


F, F_0 = sp.IndexedBase("F"), sp.IndexedBase("F^0")


def flat_bend(first: int, second: int) -> sp.IndexedBase:
    r"""The same of $\sigma'(g_k)\sigma'(g_l)$ alone, (m, m)."""
    return sp.IndexedBase(f"F^0_{min(first, second) + 1}{max(first, second) + 1}")


#: $E\sigma\sigma\tau\tau'$ of vertices k, l, A, B, and $E\sigma\sigma$; (m, m, N, N) and (m, m).
outputs, flat_outputs = sp.IndexedBase("F^v"), sp.IndexedBase("F^{0v}")


def slope_at(vertex: int) -> sp.IndexedBase:
    r"""Mean slope of $\sigma\sigma'\tau\tau'$ at one of the vertices k, l, A, B; (m, m, N, N)."""
    return sp.IndexedBase(f"F^s_{vertex + 1}")


def flat_slope_at(vertex: int) -> sp.IndexedBase:
    r"""The same of $\sigma\sigma'$ alone, (m, m)."""
    return sp.IndexedBase(f"F^{{0s}}_{vertex + 1}")


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
    r"""$E\,\Delta V^i_{kq}$, exact: $-\eta b_k\lambda_i\sum_AG_{kA}V^i_{Aq}-\eta\kappa V^i_{kq}$."""
    return Sums.of((-eta * b[k] * lam[i] * G[k, A] * Z[i, A, q], A), (-eta * kappa * place[k, A] * Z[i, A, q], A))


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
    r"""$E\,\Delta V^i_{kl}$, exact: both halves of first order, $\eta^2$ × `square_mean`, and weight decay."""
    halves = Sums.of((-eta * b[k] * lam[i] * G[k, A] * Y[i, A, l], A), (-eta * b[l] * lam[i] * G[l, A] * Y[i, A, k], A))
    decayed = Term(((1 - eta * kappa) ** 2 - 1) * place[l, A] * Y[i, A, k], (A,))
    return collect([*halves.scaled(1 - eta * kappa), *square_mean().scaled(eta**2), decayed])


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
Equations = dict[str, tuple[str, Sums, tuple[sp.Symbol, ...]]]

EQUATIONS: Equations = {
    "G": ("G_{kA}", gradient(), (k, A)),
    "Phi": (r"\Phi_{kl}", product_mean(), (k, l)),
    "H": ("H_{klUW}", hessian(), (k, l, U, W)),
    "T": (r"E\,\Delta V^{i}_{kq}", teacher_mean(), (i, k, q)),
    "Q": (r"E\,\Delta V^{i}_{kl}", row_mean(), (i, k, l)),
    "halves": (r"\mathrm{Cov}", half_covariance(), (i, k, U, h, l, W)),
}


# ------------------------------------------------------------------------------ numbers


@dataclass(frozen=True)
class SecondLayer:
    """Of one step of a trained second layer b.

    Attributes:
        mean: of Δb, (m,). covariance: (m, m). with_rows: covariance with displacements of rows along the frame's vectors,
            (m, L, m, N).
    """

    mean: np.ndarray
    covariance: np.ndarray
    with_rows: np.ndarray


@dataclass(frozen=True)
class Moments:
    """Of one step.

    Attributes:
        teachers, rows: means of ΔV's entries, (L, m, P) and (L, m, m). halves: covariance of displacements of rows along the
            frame's vectors, (L, m, N, L, m, N). second: of b, if it is trained.
    """

    teachers: np.ndarray
    rows: np.ndarray
    halves: np.ndarray
    second: SecondLayer | None = None

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
    r"""Moments of a step of free rows for an activation and a link, from `EQUATIONS`, or from others put in the place of some.

    Attributes:
        activation: σ. link: $\sigma_*$, or one for each direction. equations: name → terms, where they are not those derived.
        coupled: whether students see each other, as under the square loss; not under correlation.
    """

    activation: Activation
    link: Activation | tuple[Activation, ...]
    equations: tuple[tuple[str, Sums], ...] = ()
    coupled: bool = True

    @cached_property
    def _sums(self) -> dict[str, NumericSums]:
        terms = {name: sums for name, (_, sums, _) in EQUATIONS.items()} | dict(self.equations)
        return {name: NumericSums(terms[name], free, self.activation) for name, (_, _, free) in EQUATIONS.items()}

    @property
    def links(self) -> tuple[Activation, ...]:
        """Those that are different."""
        return tuple(dict.fromkeys(self.link)) if isinstance(self.link, tuple) else (self.link,)

    def arrays(self, grams: np.ndarray, inputs: Inputs, a: np.ndarray, second: np.ndarray) -> dict[str, np.ndarray]:
        r"""What the equations are about, by name. `grams`: $V^i$, (L, N, N), teachers first; a (P,); second: b (m,)."""
        P, m = a.size, second.size
        values = np.asarray(inputs.eigenvalues)
        C = np.einsum("i,iAB->AB", values, grams)
        counts = np.asarray(inputs.multiplicities, dtype=float)
        found = {"lambda": values, "n": counts, "V": grams, "Z": grams[:, :, :P], "Y": grams[:, :, P:]}
        found |= {"w": np.concatenate([-a, second * self.coupled]), "b": second}
        found |= {"delta": np.eye(values.size), "I": np.eye(P + m), "E": np.eye(P + m)[P:]}
        return found | self._pairs(C, P) | self.fours(C, P, of_slopes, [F.name, *[bend(*pair).name for pair in FOUR]])

    def kinds(self, P: int, size: int) -> list[tuple[Activation, np.ndarray]]:
        """The different functions of the frame's fields, and which fields they are of.

        Raises `InputError` if links are given, but not one for each direction.
        """
        each = self.link if isinstance(self.link, tuple) else (self.link,) * P
        if len(each) != P:
            raise InputError(f"{len(each)} links are given for {P} directions: give one for all, or one for each")
        found = [(link, np.array([p for p in range(P) if each[p] == link])) for link in self.links]
        return [*found, (self.activation, np.arange(P, size))]

    def _pairs(self, C: np.ndarray, P: int) -> dict[str, np.ndarray]:
        size, rows = len(C), np.arange(P, len(C))
        found = np.empty((3, rows.size, size))
        for tau, where in self.kinds(P, size):
            found[:, :, where] = of_two(self.activation, tau)(*_covariances(C, rows, where))[:3]
        flat = of_two(self.activation, self.activation)(*_covariances(C, rows, rows))
        names = [output.name, own.name, cross.name]
        flats = [F_0.name, *[flat_bend(*pair).name for pair in TWO]]
        return dict(zip(names, found, strict=True)) | dict(zip(flats, flat[2:], strict=True))

    def fours(self, C: np.ndarray, P: int, table: Callable[..., Table], names: list[str]) -> dict[str, np.ndarray]:
        """Integrals of four fields, two rows and two of the frame, (m, m, N, N), by these names."""
        size, rows = len(C), np.arange(P, len(C))
        found = np.empty((len(names), rows.size, rows.size, size, size))
        for (one, first), (other, second) in product(self.kinds(P, size), repeat=2):
            values = table(self.activation, one, other)(*_covariances(C, rows, rows, first, second))
            found[:, :, :, first[:, None], second[None, :]] = np.stack(values)
        return dict(zip(names, found, strict=True))

    def solved(
        self,
        arrays: Mapping[str, np.ndarray],
        /,
        step_size: float,
        batch_size: float = 1,
        noise_size: float = 0.0,
        decay: float = 0.0,
    ) -> dict[str, np.ndarray]:
        """`arrays` with G, Φ and H, and then the moments, by the names of `EQUATIONS`; axes are their free letters: of shape
        (m, N), (m, m), (m, m, N, N), (L, m, P), (L, m, m) and (L, m, N, L, m, N).

        Raises `InputError` for a step size, batch, noise or decay out of range.
        """
        check_positive(step_size=step_size)
        check_whole(batch=batch_size)
        for name, value in (("noise", noise_size), ("decay", decay)):
            if not (np.isfinite(value) and value >= 0):
                raise InputError(f"{name} is {value!r}: give a finite number, 0 or more")
        numbers = {eta.name: step_size, batch.name: batch_size, noise.name: noise_size, kappa.name: decay}
        found = {**arrays, **{name: np.asarray(float(value)) for name, value in numbers.items()}}
        for name, sums in self._sums.items():
            found[name] = sums(found)
        return found

    def at(self, grams: np.ndarray, inputs: Inputs, a: np.ndarray, second: np.ndarray, /, **numbers: float) -> Moments:
        r"""Mean and leading covariance of a step from $V^i$ = `grams` (L, N, N), teachers first; a (P,); second: b (m,).

        The mean is exact for any step size; the covariance is that of the terms of first order in it.

        Args:
            numbers: `step_size`, `batch_size`, `noise_size` and `decay` of `solved`.

        Raises `InputError` for activations without closed integrals, and as `solved`.
        """
        found = self.solved(self.arrays(grams, inputs, a, second), **numbers)
        return Moments(found["T"], found["Q"], found["halves"])


@dataclass(frozen=True)
class MoreMoments:
    """Moments that follow from those of free rows by further equations, solved one after the other.

    Attributes:
        free: of free rows. replaced: name → terms, where they are not those derived.
    """

    free: StepMoments
    replaced: tuple[tuple[str, Sums], ...] = ()

    @property
    def equations(self) -> Equations:
        """Those derived. Raises `NotImplementedError`: of a kind of rows."""
        raise NotImplementedError

    @cached_property
    def _sums(self) -> dict[str, NumericSums]:
        given = dict(self.replaced)
        found = self.equations.items()
        return {name: NumericSums(given.get(name, sums), free, self.free.activation) for name, (_, sums, free) in found}

    def arrays(self, grams: np.ndarray, inputs: Inputs, a: np.ndarray, second: np.ndarray) -> dict[str, np.ndarray]:
        r"""What the equations are about, by name: those of free rows, or more. $V^i$ (L, N, N), a (P,), b (m,)."""
        return self.free.arrays(grams, inputs, a, second)

    def with_outputs(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """`arrays` of free rows with the integrals in which neurons' outputs matter beside their slopes: those of four fields
        (m, m, N, N), of rows alone (m, m).

        Raises `InputError` for what is no polynomial up to degree 6.
        """
        P, C = arrays["Z"].shape[2], np.einsum("i,iAB->AB", arrays["lambda"], arrays["V"])
        names = [outputs.name, *[slope_at(vertex).name for vertex in range(4)]]
        flat = {flat_outputs: arrays[output.name][:, P:], flat_slope_at(0): arrays[cross.name][:, P:]}
        flat[flat_slope_at(1)] = arrays[own.name][:, P:].T
        found = {**arrays, **self.free.fours(C, P, of_outputs, names)}
        return found | {base.name: value for base, value in flat.items()}

    def solved(self, arrays: Mapping[str, np.ndarray], /, **numbers: float) -> dict[str, np.ndarray]:
        """What `equations` are about, by name; axes are their free letters, of length L (i, h), m (k, l) and N (U, W).

        Raises `InputError` as `StepMoments.solved`.
        """
        found = self.free.solved(arrays, **numbers)
        found[spread.name] = found["halves"]
        for name, sums in self._sums.items():
            found[name] = sums(found)
        return found


def _covariances(C: np.ndarray, *vertices: np.ndarray) -> list[np.ndarray]:
    """C between vertices that run over these numbers, one axis for each vertex; pairs a ≤ b."""
    grid = np.meshgrid(*vertices, indexing="ij")
    return [C[grid[x], grid[y]] for x in range(len(grid)) for y in range(x, len(grid))]
