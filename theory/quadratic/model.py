r"""Quadratic networks: the model, its time units, its risks and its emergence times (arXiv:2508.03688).

Teacher $f_*(x)=\sum_ja_j\sigma(\langle e_j,x\rangle)$, student $f(x)=\gamma\sum_{k\le N}\|w_k\|^2\sigma(\langle\bar w_k,
x\rangle)$ with $\sigma=z^2-1$ (or any multiple of it, e.g. $h_2$), that is $f=\gamma(x^\top WW^\top x-\mathrm{tr}\,WW^
\top)$ for $W\in R^{d\times N}$. This is the additive model with information exponent 2: directions do not decouple, and
gradient flow is a matrix Riccati equation. Derivation: `theory.quadratic.riccati`.

Two clocks. *Common time* t is that of the whole toolkit, gradient flow of ½E(f*−f)². *Riccati time* τ is the one in which
$\dot W=(\tilde M-WW^\top)W$ with $\|\tilde M\|_F=1$. They differ by a factor that is computed in one place,
`QuadraticModel.riccati_rate`. Functions of arrays below use Riccati time and the normalised spectrum $\tilde a=a/\|a\|$.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from theory.core.activation import Activation
from theory.core.arguments import check_whole
from theory.core.errors import InputError
from theory.core.teacher import Teacher

#: φ(1) = E σ² of σ = z² − 1; its risk at f = 0 with unit weights.
SECOND_MOMENT = 2.0


@dataclass(frozen=True)
class QuadraticModel:
    r"""A quadratic teacher, the student's width and the speed factor of its parametrisation.

    Attributes:
        teacher: weights $a_j>0$ and dimension d.
        width: N, the student's width (rank of $WW^\top$), 1 ≤ N ≤ d. N below the teacher's width is allowed.
        speed_factor: γ, by which $f=\gamma(\dots)$ scales the student: 1, or $N^{-1/2}$ for unit output variance on the
            Stiefel manifold. It multiplies every speed and does nothing else.
        second_moment: φ(1): 2 for $z^2-1$, 1 for $h_2$.

    Raises `InputError` unless 1 ≤ N ≤ d and the speed factor is positive and finite.
    """

    teacher: Teacher
    width: int
    speed_factor: float = 1.0
    second_moment: float = SECOND_MOMENT

    def __post_init__(self) -> None:
        check_width(self.width, self.teacher.dim)
        if not (np.isfinite(self.speed_factor) and self.speed_factor > 0):
            raise InputError(f"speed factor is {self.speed_factor!r}: give a positive finite number (1, or N**-0.5)")

    @classmethod
    def of(cls, activation: Activation, teacher: Teacher, width: int, speed_factor: float = 1.0) -> "QuadraticModel":
        """The model of an activation that is a multiple of z² − 1. Raises `InputError` for any other."""
        return cls(teacher, width, speed_factor, quadratic_moment(activation))

    @property
    def spectrum(self) -> np.ndarray:
        r"""$\tilde a=a/\|a\|$, shape (M*,), in the order of the teacher's weights."""
        return self.teacher.a / self.norm

    @property
    def norm(self) -> float:
        r"""$\|A\|_F=\|a\|$."""
        return float(np.linalg.norm(self.teacher.a))

    @property
    def riccati_rate(self) -> float:
        r"""Riccati time per common time: $\tau=2\varphi(1)\|a\|\gamma\,t$; 4γt for $\sigma=z^2-1$ and unit weights."""
        return 2 * self.second_moment * self.norm * self.speed_factor

    def riccati_time(self, time: ArrayLike) -> np.ndarray:
        """Riccati time τ of common times t. Elementwise."""
        return np.asarray(time, dtype=float) * self.riccati_rate

    def common_time(self, riccati_time: ArrayLike) -> np.ndarray:
        """Common time t (of ½E(f*−f)²) of Riccati times τ. Elementwise."""
        return np.asarray(riccati_time, dtype=float) / self.riccati_rate

    def loss(self, risk: ArrayLike) -> np.ndarray:
        r"""½E(f*−f)² from a risk R in units where it is 2 at f = 0: $\tfrac14\varphi(1)\|a\|^2R$. Elementwise."""
        return np.asarray(risk, dtype=float) * (self.second_moment * self.norm**2 / 4)

    @property
    def emergence_time(self) -> np.ndarray:
        """$T_j$ in common time, shape (M*,), in the order of the weights; see `emergence_times`."""
        return self.common_time(emergence_times(self.spectrum, self.teacher.dim, self.width))


def quadratic_moment(activation: Activation) -> float:
    """φ(1) of a multiple of z² − 1. Raises `InputError` for any other activation."""
    if not activation.is_quadratic:
        raise InputError(f"activation is {activation.name!r}: the Riccati flow is that of quadratic (z**2-1) or h2")
    return float(activation.second_moment)


def check_width(width: int, dim: int) -> None:
    """Raises `InputError` unless 1 ≤ N ≤ d."""
    check_whole(**{"student width": width})
    if width > dim:
        raise InputError(f"student width {width} exceeds dim {dim}: a subspace of R^d has dimension N <= d")


# ------------------------------------------------------------------------------- risks


def optimal_risk(spectrum: ArrayLike, factor: ArrayLike) -> np.ndarray:
    r"""$R_{opt}=2\big(1-\|Z^\top\tilde AZ\|_F^2\big)$: the risk with the best radial part, given the subspace.

    Args:
        spectrum: $\tilde a$, shape (M*,), unit norm.
        factor: Z with $G=ZZ^\top$, shape (..., M*, N).

    Equals $2(1-\mathrm{tr}(AGAG)/\|A\|^2)$ at cost M*N², without forming G. σ = z² − 1 and unit weights; other scales by
    `QuadraticModel.loss`. Shape (...).
    """
    a, z = np.asarray(spectrum, dtype=float), np.asarray(factor, dtype=float)
    middle = np.swapaxes(z, -1, -2) @ (a[:, None] * z)
    return 2 * (np.sum(a**2) - np.sum(middle**2, axis=(-2, -1)))


def flow_risk(spectrum: ArrayLike, on_teachers: ArrayLike, rest: ArrayLike) -> np.ndarray:
    r"""$R_{GF}=2\|\tilde M-S\|_F^2$ of $S=FF^\top$, $F=[\text{on\_teachers};\text{rest}]$.

    Args:
        spectrum: $\tilde a$, shape (M*,).
        on_teachers: rows of F on the teacher directions, shape (..., M*, N).
        rest: rows of F in any orthonormal basis of the complement, shape (..., r, N).

    $\|\tilde M\|^2-2\,\mathrm{tr}(\tilde AF_\theta F_\theta^\top)+\|F^\top F\|_F^2$, cost (M*+r)N².
    """
    a, top, low = (np.asarray(x, dtype=float) for x in (spectrum, on_teachers, rest))
    gram = np.swapaxes(top, -1, -2) @ top + np.swapaxes(low, -1, -2) @ low
    aligned = np.sum(a[:, None] * top**2, axis=(-2, -1))
    return 2 * (np.sum(a**2) - 2 * aligned + np.sum(gram**2, axis=(-2, -1)))


def floor(spectrum: ArrayLike, width: int) -> float:
    r"""Late limit of both risks: $R\to2\sum_{j>N}\tilde a_j^2$ (weights (M*,) in decreasing order), the best rank-N fit."""
    a = np.sort(np.asarray(spectrum, dtype=float))[::-1]
    return float(2 * np.sum(a[width:] ** 2))


# ----------------------------------------------------------------------- emergence times


def emergence_times(spectrum: ArrayLike, dim: int, width: int) -> np.ndarray:
    r"""$T_j=\frac{\|A\|_F}{2a_j}\log\frac dN$ in Riccati time with γ = 1, shape (M*,): leading order as $d\to\infty$.

    From $G_{jj}(0)\approx N/d$ and $\dot G_{jj}\approx2\tilde a_jG_{jj}$.
    """
    return np.log(dim / width) / (2 * np.asarray(spectrum, dtype=float))


def half_times(spectrum: ArrayLike, dim: int, width: int) -> np.ndarray:
    r"""Time at which the decoupled $G_{jj}$ is ½: $\log(d/N-1)/(2\tilde a_j)$ (M*,), 0 if it starts there; Riccati time."""
    start = np.log(max(dim / width - 1, 1.0))
    return start / (2 * np.asarray(spectrum, dtype=float))


def decoupled_overlaps(spectrum: ArrayLike, dim: int, width: int, times: ArrayLike) -> np.ndarray:
    r"""Decoupled (logistic) $G_{jj}(\tau)=[1+(\tfrac dN-1)e^{-2\tau\tilde a_j}]^{-1}$, shape (times, M*).

    Good to some per cent for $j\lesssim N/3$; blind to the width's limit N and to close weights mixing. The
    self-consistent law of `theory.quadratic.occupation` is not.
    """
    a, tau = np.asarray(spectrum, dtype=float), np.asarray(times, dtype=float)
    return 1 / (1 + (dim / width - 1) * np.exp(-2 * tau[:, None] * a[None, :]))


def decoupled_risk(spectrum: ArrayLike, dim: int, width: int, times: ArrayLike) -> np.ndarray:
    r"""$2(1-\sum_j\tilde a_j^2G_{jj}^2)$ with the decoupled $G_{jj}$, shape (times,)."""
    a = np.asarray(spectrum, dtype=float)
    return 2 * (np.sum(a**2) - np.sum(a**2 * decoupled_overlaps(a, dim, width, times) ** 2, axis=1))
