r"""The two phases of label-noise SGD: residual variance, decay of the norm, escape from the lazy regime, alignment.

With $B=[W\ a]$ a step is $B\leftarrow B(I-\eta\mathsf M_g)$, $\mathsf M_g=\begin{psmallmatrix}0&g\\g^\top&0
\end{psmallmatrix}$: a boost, which leaves $D=WW^\top-aa^\top$ alone at first order, while $e=\theta-\theta^*$ relaxes
within $1/(\eta\Lambda)$ steps, $\Lambda=W^\top W+\|a\|^2$. So D is slow, and its exact drift $-\eta^2(WSW^\top-\mathrm{tr}S\,
aa^\top)$, $S=E\,gg^\top$, averaged over the stationary boosts, is a closed flow of $G=W^\top W$ and $A=\|a\|^2$ at $\theta=
\theta^*$:
$$\dot G=-\tfrac{\eta^2}2(RG+GR)+\theta^*q_W^\top+q_W\theta^{*\top},\quad\dot A=-\eta^2R_aA+2\langle\theta^*,q_a\rangle,\quad
q=\tfrac{\eta^2}2\Lambda^{-1}(R+R_a)\theta^*,$$
$R=S+\tfrac12(\beta S+S\beta)-\mathrm{tr}S\,\beta$, $R_a=\mathrm{tr}S(1+\mathrm{tr}\beta)-\mathrm{tr}(S\beta)$, with
$\beta=\Lambda^{-1}C\Lambda^{-1}$ the covariance of the boosts and $C=E\,ee^\top$ the least-squares error, which solves
$\Lambda\hat HC+C\hat H\Lambda=\eta\Lambda S\Lambda$. A boost b makes
$e=\Lambda b+\tfrac32b\langle b,\theta^*\rangle+\tfrac12|b|^2\theta^*$, and e pulls with $\eta\hat HEe=-q$ in the mean: boosts
have the mean μ, which adds $Wca^\top+ac^\top W^\top$ to the drift of D,
$$\mu=-\Lambda^{-1}\{\hat H^{-1}q/\eta+\tfrac32\beta\theta^*+\tfrac12\mathrm{tr}\beta\,\theta^*\},\quad
c=\eta^2(\mathrm{tr}S-S)\mu,\quad q_W=q+\Lambda^{-1}Gc,\quad q_a=q-A\Lambda^{-1}c.$$
D says of G all but how it is turned, and boosts in different directions compose to a rotation Ω, half the area that they
sweep. In the modes of $\hat H^{1/2}\Lambda\hat H^{1/2}=V\lambda V^\top$, where $\beta=TbT^\top$, $T=\hat H^{1/2}V$, it is
$T\tilde\Omega T^\top$ with $E\,\tilde\Omega_{ij}^2=2\eta b_ib_j\lambda_i\lambda_j/(\lambda_i+\lambda_j)$ a step. Across θ*
it mixes directions of large G with those of small: $\dot G$ gains
$E\{\Omega G\Omega^\top-\frac12(\Omega\Omega^\top G+G\,\Omega\Omega^\top)\}$.
A finite training set enters through $\hat H=X^\top X/n$ and one number:
$S=\sigma^2\hat H+\kappa\{\mathrm{tr}(\hat HC)\hat H+2\hat HC\hat H\}$, with κ the mean of
$(x^\top\hat H^{-1}x)^2$ over d(d + 2) (its mean over training sets is n/(n + 2)). The largest step size and the error at the
start are exact for the set (`theory.linear.training_set`); the start is that of fitted labels (`theory.linear.fitting`).
Derived for arXiv:2603.10397, section 4; time in steps.
"""

import itertools
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy
import sympy as sp

from theory.core.arguments import check_positive, check_whole
from theory.core.curves import located_crossing
from theory.core.errors import InputError
from theory.core.matrices import function
from theory.core.quadrature import gauss_legendre
from theory.declared.known import small
from theory.linear import law as shown
from theory.linear.fitting import Fitted, fitted
from theory.linear.label_noise import escape_bound
from theory.linear.phase_validity import Neglected
from theory.linear.task import LinearTask, lazy_fall
from theory.linear.training_set import Settled, affordable, largest_step, settled
from theory.prediction.validity import Condition

#: Alignment has set in when the mean absolute cosine has gone this share of the way from a random direction's to 1.
ONSET_SHARE = 0.25
#: What has phases.
NEEDED = (
    "real labels, the network itself and not its first-order expansion, more training points than dimensions and a stable "
    "step size"
)
_TOLERANCE = 1e-6
_NODES = 200
#: In units of the slowest direction's leading fall: so long is an onset looked for that is not there yet.
_PATIENCE = 64.0
#: Points of a leg of the flow at which an onset is looked for.
_LOOKS = 16
#: A flow that would change by less than this share in all its time so far has ended.
_ENDED = 1e-3
#: The times that pauses put off; share of the noise to which they are known, and by how much that may move them.
_PUT_OFF, _KNOWN_TO, _MOVED_BY_PAUSE = ("escape_steps", "onset_steps", "half_steps"), 0.05, 0.1
#: Evaluations of explicit steps of a leg, for each number of G and A, at most.
_EXPLICIT = 10
#: Inputs that are whitened together.
_BLOCK = 1 << 15


def random_alignment(dim: int) -> float:
    r"""Mean absolute cosine of a random direction: $\Gamma(d/2)/(\sqrt\pi\,\Gamma((d+1)/2))$."""
    return float(np.exp(scipy.special.gammaln(dim / 2) - scipy.special.gammaln((dim + 1) / 2)) / np.sqrt(np.pi))


def onset_level(dim: int) -> float:
    """Mean absolute cosine at which alignment has set in: a quarter of the way from chance to 1."""
    chance = random_alignment(dim)
    return chance + ONSET_SHARE * (1 - chance)


@dataclass(frozen=True)
class Geometry:
    r"""Input covariance and target, in as few coordinates as the symmetry allows.

    Attributes:
        covariance: $\hat H$, shape (D, D). target: θ*, shape (D,).
        multiplicity: (D,) how many identical, decoupled directions a coordinate stands for; Σ = d.
        fourth: κ, the kurtosis of the inputs over that of a Gaussian with their covariance; 1 for fresh samples.
        inputs: (n, d) the training set; None for fresh samples, and where its own fourth moments would take too long.
        points: n/d, inf for fresh samples.
    """

    covariance: np.ndarray
    target: np.ndarray
    multiplicity: np.ndarray
    fourth: float
    inputs: np.ndarray | None = None
    points: float = np.inf

    @staticmethod
    def of(task: LinearTask) -> "Geometry":
        """Raises `InputError` for class labels, and for a training set that does not determine θ*."""
        if task.classes:
            raise InputError(
                "classes is True: label-noise predictions are for real labels, give a task without classes"
            )
        norm = float(np.linalg.norm(task.target))
        if task.inputs is None:
            many = np.array([1.0, task.dim - 1.0])[: min(task.dim, 2)]
            return Geometry(np.eye(len(many)), np.array([norm, 0.0])[: len(many)], many, 1.0)
        count = len(task.inputs)
        if count <= task.dim:
            raise InputError(
                f"train_size is {count} in dimension {task.dim}: give more training points than dimensions"
            )
        covariance = task.inputs.T @ task.inputs / count
        parts = np.array_split(task.inputs, -(-count // _BLOCK))
        whitened = np.concatenate([np.einsum("ni,in->n", x, np.linalg.solve(covariance, x.T)) for x in parts])
        fourth = float(np.mean(whitened**2)) / (task.dim * (task.dim + 2))
        own = task.inputs if affordable(task.inputs) else None
        return Geometry(covariance, task.target, np.ones(task.dim), fourth, own, count / task.dim)

    @cached_property
    def root(self) -> np.ndarray:
        r"""$\hat H^{1/2}$."""
        values, vectors = np.linalg.eigh(self.covariance)
        return (vectors * np.sqrt(values)) @ vectors.T

    @cached_property
    def inverse_root(self) -> np.ndarray:
        r"""$\hat H^{-1/2}$."""
        return np.linalg.inv(self.root)

    @property
    def dim(self) -> float:
        return float(np.sum(self.multiplicity))

    def trace(self, matrix: np.ndarray) -> float:
        return float(self.multiplicity @ np.diagonal(matrix))


class Rotations(NamedTuple):
    r"""Ω = TΩ̃Tᵀ of the inputs, with independent planes of modes.

    Attributes:
        frame: T = $\hat H^{1/2}V$, (D, D). squares: $E\,\tilde\Omega_{ij}^2$, (D, D). many: (D,) directions of a mode.
    """

    frame: np.ndarray
    squares: np.ndarray
    many: np.ndarray

    def mean(self, matrix: np.ndarray) -> np.ndarray:
        r"""$E\,\Omega X\Omega^\top$ of a symmetric X (D, D)."""
        inside = self.frame.T @ matrix @ self.frame
        found = np.diag(self.squares @ (self.many * np.diagonal(inside))) - self.squares * inside
        return np.asarray(self.frame @ found @ self.frame.T)


@dataclass(frozen=True)
class Residual:
    r"""Stationary least-squares error at fixed weights.

    Attributes:
        error: $C=E\,ee^\top$, $e=\theta-\theta^*$ (without the part that is due to drift). second: $S=E\,gg^\top$.
        boost: β = Λ⁻¹CΛ⁻¹. gain: share of the error that the error itself causes; 1 is the stability limit.
        rotations: to which boosts in different directions compose in a step.
    """

    error: np.ndarray
    second: np.ndarray
    boost: np.ndarray
    gain: float
    rotations: Rotations


def _modes(geometry: Geometry, gram: np.ndarray, norm2: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Eigenvalues λ of $\hat H^{1/2}\Lambda\hat H^{1/2}$, its eigenvectors and their multiplicities."""
    root = geometry.root
    values, vectors = np.linalg.eigh(root @ (gram + norm2 * np.eye(len(gram))) @ root)
    return values, vectors, vectors.T**2 @ geometry.multiplicity


def _error_shape(values: np.ndarray, step_size: float, own: float) -> np.ndarray:
    r"""$\eta\lambda/(2-\mathrm{own}\,\eta\lambda)$, inf beyond the pole."""
    slope = 2 - own * step_size * values
    return np.where(slope > 0, step_size * values / np.where(slope > 0, slope, 1.0), np.inf)


def _own(geometry: Geometry, batch: int) -> float:
    return 2 * geometry.fourth / batch + 1 - 1 / batch


def residual(
    geometry: Geometry, gram: np.ndarray, norm2: float, step_size: float, noise: float, batch: int
) -> Residual:
    r"""Solve $\Lambda\hat HC+C\hat H\Lambda=\eta\Lambda S(C)\Lambda$. ``gain`` ≥ 1: none exists (nan). `gram`: G (D, D).

    For $C'=\hat H^{1/2}C\hat H^{1/2}$ and $S=\hat H^{1/2}(\tau+\mathrm{own}\,C')\hat H^{1/2}$ everything is a function
    of $\hat H^{1/2}\Lambda\hat H^{1/2}$: with its eigenvalues λ, $c'=\tau\eta\lambda/(2-\mathrm{own}\,\eta\lambda)$, and
    $\tau=(\sigma^2+\kappa\,\mathrm{tr}C')/\mathrm{batch}$ closes it.
    """
    values, vectors, many = _modes(geometry, gram, norm2)
    own, turned, flat = _own(geometry, batch), geometry.root @ vectors, geometry.inverse_root @ vectors
    shape = _error_shape(values, step_size, own)
    gain = geometry.fourth / batch * float(many @ shape)
    scale = noise**2 / batch / (1 - gain) if gain < 1 else np.nan
    scaled = scale * np.where(np.isfinite(shape), shape, 0.0)
    second = scale * geometry.covariance + own * (turned * scaled) @ turned.T
    # (Λ⁻¹ is root V λ⁻¹ Vᵀ root.)
    boost = scaled / values**2
    swept = _swept_by()(step_size, boost[:, None], boost, values[:, None], values)
    return Residual((flat * scaled) @ flat.T, second, (turned * boost) @ turned.T, gain, Rotations(turned, swept, many))


@cache
def _swept_by() -> Callable:
    return sp.lambdify((shown.eta, shown.boost_i, shown.boost_j, shown.pace_i, shown.pace_j), shown.SWEPT, "numpy")


def relaxing(
    geometry: Geometry, gram: np.ndarray, norm2: float, step_size: float, batch: int, error: np.ndarray
) -> np.ndarray:
    r"""Sum of S over the steps in which the error C (D, D) relaxes without noise, (D, D).

    In the eigenvectors of `residual` a step maps $c'\leftarrow c'-2\eta\lambda c'+\eta^2\lambda^2(\mathrm{own}\,c'+\tau)$,
    $\tau=\frac\kappa{\mathrm{batch}}\mathrm{tr}C'$: sums X and T of both obey
    $\eta\lambda(2-\mathrm{own}\,\eta\lambda)X=c'+\eta^2\lambda^2T$. For a gain below 1.
    """
    values, vectors, many = _modes(geometry, gram, norm2)
    own, turned = _own(geometry, batch), geometry.root @ vectors
    shape = _error_shape(values, step_size, own)
    steps = shape / (step_size * values) ** 2  # 1/(ηλ(2 − own ηλ))
    began = np.diagonal(turned.T @ error @ turned)
    share = geometry.fourth / batch * many
    total = float(share @ (steps * began)) / (1 - float(share @ shape))
    summed = steps * began + shape * total
    return np.asarray(total * geometry.covariance + own * (turned * summed) @ turned.T)


def stability_limit(geometry: Geometry, gram: np.ndarray, norm2: float, batch: int = 1) -> float:
    r"""Largest step size with a stationary least-squares error; $\frac2{(d+2)\Lambda}$ for isotropic weights, batch 1.

    Fresh samples: the root of $\frac\kappa{\mathrm{batch}}\sum_j\eta\lambda_j/(2-\mathrm{own}\,\eta\lambda_j)=1$; a training
    set: with its own fourth moments (`theory.linear.training_set`), κ if it has no `inputs`. `gram`: G (D, D).
    """
    if geometry.inputs is not None:
        return largest_step(geometry.inputs, gram + norm2 * np.eye(len(gram)), batch)
    values, _, many = _modes(geometry, gram, norm2)
    own = _own(geometry, batch)
    pole = 2 / (own * float(np.max(values)))

    def excess(share: float) -> float:
        return geometry.fourth / batch * float(many @ _error_shape(values, share * pole, own)) - 1

    last = 1 - 1e-12
    if excess(last) <= 0:  # batches so large that the gain is below 1 up to the pole
        return pole
    return float(scipy.optimize.brentq(excess, 0.0, last, xtol=1e-14)) * pole


class State(NamedTuple):
    r"""What `Law` moves, in the mean over the boosts.

    Attributes:
        gram: G, (D, D). norm2: A. moved: T − I, (D + 1, D + 1), with $[W\ a]\leftarrow[W\ a]T$ since the start.
        turned: (D, D) mean square of the rotations of W.
    """

    gram: np.ndarray
    norm2: float
    moved: np.ndarray
    turned: np.ndarray

    @property
    def packed(self) -> np.ndarray:
        """One after the other."""
        return np.concatenate([np.ravel(x) for x in self])

    @staticmethod
    def of(packed: np.ndarray, size: int) -> "State":
        """Of what is `packed`, for D = `size`."""
        gram, norm2, moved, turned = np.split(packed, np.cumsum([size**2, 1, (size + 1) ** 2]))
        square = size, size
        return State(gram.reshape(square), norm2[0], moved.reshape(size + 1, -1), turned.reshape(square))


class Forces(NamedTuple):
    r"""What holds θ = θ*, (D, 1) each.

    Attributes:
        mean: μ of the boosts. lean: c, what it adds to the drift of D: $Wca^\top+ac^\top W^\top$.
        first: $q_W$, by which W moves along a. other: $q_a$, by which a moves along W.
    """

    mean: np.ndarray
    lean: np.ndarray
    first: np.ndarray
    other: np.ndarray


@dataclass(frozen=True)
class Law:
    r"""The averaged flow of a packed `State`. `gram`: G, (D, D). `error`: C, (D, D). R, β, rotations: (D, D).

    G and A belong to $[W\ a]\leftarrow[W\ a]T$ with $\dot T=T\begin{psmallmatrix}-\eta^2R/2&q_a\\q_W^\top&-\eta^2R_a/2
    \end{psmallmatrix}$: what is taken from the layers, and the forces that hold θ = θ*.
    """

    geometry: Geometry
    step_size: float
    noise: float
    batch: int

    def residual(self, gram: np.ndarray, norm2: float) -> Residual:
        return residual(self.geometry, gram, norm2, self.step_size, self.noise, self.batch)

    def observed(self, gram: np.ndarray, norm2: float) -> tuple[np.ndarray, float, Residual]:
        """Mean G and A over the boosts, and the residual that goes with them.

        Raises `InputError` where `relaxed` does.
        """
        now = self.relaxed(gram, norm2)
        mean = self.forces(gram, norm2, now).mean
        seen, size = (f(gram, norm2, now.boost, mean, self._goal) for f in self._means)
        return seen, float(size), now

    def relaxed(self, gram: np.ndarray, norm2: float) -> Residual:
        """The residual at the weights that boosts about 0 make of G and A.

        Raises `InputError` where the least-squares error has no stationary value (its gain reaches 1).
        """
        now = self.residual(gram, norm2)
        for _ in range(2):
            if not now.gain < 1:
                break
            now = self.residual(*(f(gram, norm2, now.boost, 0 * self._goal, self._goal) for f in self._means))
        if not now.gain < 1:
            raise self._unsettled()
        return now

    def variance(self, error: np.ndarray) -> float:
        r"""ϱ² at the least-squares error C."""
        return self.noise**2 + self.geometry.trace(self.geometry.covariance @ error)

    def limit(self, start: Fitted) -> float:
        """Largest step size with a stationary least-squares error once the labels are fitted."""
        return stability_limit(self.geometry, start.gram, start.norm2, self.batch)

    def settled(self, start: Fitted) -> Settled:
        """The error once the labels are fitted: exact for a training set of which the geometry has the inputs."""
        if not self.step_size < self.limit(start):
            raise self._unsettled()
        if self.geometry.inputs is not None:
            stiffness = start.gram + start.norm2 * np.eye(len(start.gram))
            return settled(self.geometry.inputs, stiffness, self.step_size, self.noise, self.batch)
        error = self.residual(start.gram, start.norm2).error
        return Settled(error, self.variance(error))

    def _unsettled(self) -> InputError:
        return InputError(
            f"step_size is {self.step_size:g} with noise {self.noise:g}: weights as large as noise and target make "
            "them have no stationary least-squares error: lower the step size, the noise or the target's norm"
        )

    def rates(self, now: Residual) -> tuple[np.ndarray, float]:
        """R and R_a."""
        first, other = (f(now.second, now.boost) for f in self._rates)
        return first, other

    def forces(self, gram: np.ndarray, norm2: float, now: Residual) -> "Forces":
        """Mean of the boosts and forces at the slow weights of G and A."""
        stiffness = gram + norm2 * np.eye(len(gram))
        of_force, of_mean, of_lean, on_first, on_other = self._forces
        force = of_force(stiffness, *self.rates(now), self._goal, self.step_size)
        mean = of_mean(stiffness, self.geometry.covariance, force, now.boost, self._goal, self.step_size)
        lean = of_lean(now.second, mean, self.step_size)
        return Forces(mean, lean, on_first(stiffness, gram, force, lean), on_other(stiffness, norm2, force, lean))

    def switched(self, gram: np.ndarray, norm2: float) -> float:
        r"""By how much $\ln E\|W\|_F^2$ falls once noise stops, at the slow weights of G and A.

        The boosts go, and while the error relaxes it kicks. When noise is back, as much is made up.
        """
        seen, size, now = self.observed(gram, norm2)
        kicks = relaxing(self.geometry, seen, size, self.step_size, self.batch, now.error)
        last = replace(now, second=kicks, boost=np.zeros_like(gram))
        first, second = self.rates(last)
        of_force, trace = self._forces[0], self.geometry.trace
        force = of_force(gram + norm2 * np.eye(len(gram)), first, second, self._goal, self.step_size)
        fall = -trace(self._gram_rate(gram, first, self._goal, force, self.step_size))
        return float(np.log(trace(seen) / trace(gram)) + fall / trace(gram))

    def cancelled(self, gram: np.ndarray, norm2: float) -> float:
        r"""$\mathrm{tr}S\,\beta$ over S, the two that make R, averaged over G across θ*; tr β if both are isotropic.

        It is of first order in β in a direction of much data, but not in one of little, where S is small.
        """
        now, trace = self.relaxed(gram, norm2), self.geometry.trace
        rest = self._across @ gram @ self._across
        if len(gram) == 1:
            return trace(now.boost)
        return trace(rest @ np.linalg.solve(now.second, now.boost)) * trace(now.second) / trace(rest)

    def mixing(self, gram: np.ndarray, now: Residual) -> np.ndarray:
        r"""$E\{\Omega G\Omega^\top-\frac12(\Omega\Omega^\top G+G\,\Omega\Omega^\top)\}$ per step, (D, D).

        What rotations Ω across θ* take from directions of large G and give to others (derived); towards θ* they are left out.
        """
        across = self._across
        squares = across @ now.rotations.mean(across) @ across
        return across @ now.rotations.mean(across @ gram @ across) @ across - (squares @ gram + gram @ squares) / 2

    def __call__(self, _: float, packed: np.ndarray) -> np.ndarray:
        state = State.of(packed, len(self.geometry.target))
        now = self.relaxed(state.gram, state.norm2)
        first, second = self.rates(now)
        eta, forces = self.step_size, self.forces(state.gram, state.norm2, now)
        layers = self._layers(state.gram, state.norm2, now, forces)
        pace = np.block([[-(eta**2) / 2 * first, forces.other], [forces.first.T, -(eta**2) / 2 * np.array([[second]])]])
        moved = pace + state.moved @ pace
        return State(*layers, moved, now.rotations.mean(np.eye(len(moved) - 1))).packed

    def layers(self, gram: np.ndarray, norm2: float) -> tuple[np.ndarray, float]:
        """Rates of G and A alone, which need nothing else."""
        now = self.relaxed(gram, norm2)
        return self._layers(gram, norm2, now, self.forces(gram, norm2, now))

    def _layers(self, gram: np.ndarray, norm2: float, now: Residual, forces: Forces) -> tuple[np.ndarray, float]:
        first, second = self.rates(now)
        gram_rate = self._gram_rate(gram, first, self._goal, forces.first, self.step_size) + self.mixing(gram, now)
        return gram_rate, float(self._norm_rate(norm2, second, self._goal, forces.other, self.step_size))

    # The shown equations, compiled; a coordinate counts as often as the directions that it stands for in the first five.

    @cached_property
    def _means(self) -> tuple[Callable, ...]:
        symbols = (shown.G, shown.A, shown.boost, shown.mean, shown.target)
        return tuple(function(x, symbols, self.geometry.trace) for x in (shown.SEEN_GRAM, shown.SEEN_NORM))

    @cached_property
    def _rates(self) -> tuple[Callable, ...]:
        return tuple(function(x, (shown.S, shown.boost), self.geometry.trace) for x in (shown.RATE, shown.OTHER_RATE))

    @property
    def _goal(self) -> np.ndarray:
        return self.geometry.target[:, None]

    @cached_property
    def _across(self) -> np.ndarray:
        along = self._goal / np.linalg.norm(self._goal)
        return np.eye(len(along)) - along @ along.T

    @cached_property
    def _forces(self) -> tuple[Callable, ...]:
        q, boost, goal, eta = shown.q, shown.boost, shown.target, shown.eta
        parts = (
            (shown.FORCE, (shown.Lambda, shown.R, shown.R_a, goal, eta)),
            (shown.MEAN, (shown.Lambda, shown.inputs, q, boost, goal, eta)),
            (shown.LEAN, (shown.S, shown.mean, eta)),
            (shown.FIRST_FORCE, (shown.Lambda, shown.G, q, shown.lean)),
            (shown.OTHER_FORCE, (shown.Lambda, shown.A, q, shown.lean)),
        )
        return tuple(function(equation, symbols, self.geometry.trace) for equation, symbols in parts)

    @cached_property
    def _gram_rate(self) -> Callable:
        return function(shown.GRAM_RATE, (shown.G, shown.R, shown.target, shown.q_W, shown.eta))

    @cached_property
    def _norm_rate(self) -> Callable:
        return function(shown.NORM_RATE, (shown.A, shown.R_a, shown.target, shown.q_a, shown.eta))


@dataclass(frozen=True)
class Phases:
    r"""What label-noise SGD is predicted to do; times in steps, inf where something never happens.

    Attributes:
        residual_variance: $\varrho^2=\sigma^2+E|\langle e,x\rangle|^2$ per sample, at the start (after relaxation).
        lms_error: $E\|\theta-\theta^*\|^2$ likewise.
        stability_limit: largest step size with a stationary least-squares error at the initial weights.
        decay_rate: $-\frac d{dt}\ln\|W\|_F^2$ at the start.
        escape_steps: when the median neuron has moved by $1/\sqrt m$ (the lazy regime ends; definition 4.1).
        escape_bound: $T_1=384\sqrt{\ln m}/(\sigma^2\eta^2\sqrt m)$ of theorem 4.2, as printed, with σ²/b for batches of b.
        boost: (T,) tr β.
        left_out: (T,) relative size of what the rates leave out, $(\mathrm{tr}\beta)^2+\frac2d\mathrm{tr}\beta$: the second
            order in β, and that S at the error that makes a boost is not its mean. (Rotations of the slow weights towards θ*
            are left out of G, too: at the published size they move it along θ* by less than tr β/20.)
        onset_steps: when the mean absolute cosine with θ*, over neurons and runs, passes `onset_level`; 0 if fitting the
            labels has done so.
        half_steps: when $\|W\|_F^2$ is half of what it was when the labels were fitted.
        times: (T,) steps at which the curves are given.
        frobenius2, second_norm2: (T,) mean $\|W\|_F^2$ and $\|a\|^2$. alignment: (T,) mean absolute cosine.
        top_share: (T,) mean $s_1/\|W\|_F$.
        switched: (T,) by how much $\ln E\|W\|_F^2$ falls if noise stops then, as the boosts and the error relax.
        neglected: the sizes of what is left out.
        period: steps with noise, and without, in turn; 0: it is always on.
    """

    residual_variance: float
    lms_error: float
    stability_limit: float
    decay_rate: float
    escape_steps: float
    escape_bound: float
    onset_steps: float
    half_steps: float
    times: np.ndarray
    frobenius2: np.ndarray
    second_norm2: np.ndarray
    alignment: np.ndarray
    boost: np.ndarray
    left_out: np.ndarray
    top_share: np.ndarray
    switched: np.ndarray
    neglected: Neglected
    period: float = 0.0

    @property
    def conditions(self) -> Mapping[str, tuple[Condition, ...]]:
        """What must hold for each number, by its name."""
        found = self.neglected.conditions
        return {**found, **{name: (*found[name], *self._between_pauses(getattr(self, name))) for name in _PUT_OFF}}

    def _between_pauses(self, steps: float) -> tuple[Condition, ...]:
        """A time is known to a few per cent of the steps with noise; where a pause comes next, it is moved by all of that."""
        if not (self.period and 0 < steps < np.inf):
            return ()
        noisy = steps - self.period * np.floor(steps / (2 * self.period))
        moved = float(np.max(np.abs(_put_off(noisy * (1 + _KNOWN_TO * np.array([-1, 1])), self.period) / steps - 1)))
        sentence = f"pauses: {_KNOWN_TO:.0%} of the noise decide whether one comes first, and move it by {{:.0%}}: "
        return (small("pauses", moved, _MOVED_BY_PAUSE, sentence + "give another period"),)

    @property
    def last_event(self) -> float:
        """Steps until the last thing that is predicted to happen: the onset, or the end of the curves; the end, too, if
        fitting the labels has aligned the layers at once."""
        return self.onset_steps if 0 < self.onset_steps < np.inf else float(self.times[-1])

    def paused(self, period: int) -> "Phases":
        r"""The same with noise for `period` steps, none for as many, and so on: $n\mapsto n+p\lfloor n/p\rfloor$.

        Without noise nothing moves that noise moves, once the error of θ has relaxed: for periods much longer than that, and
        curves stay those with noise: `switched` says what a pause takes. The decay rate is that with noise on. Raises
        `InputError` for a period that is no whole number, 1 or more.
        """
        check_whole(period=period)

        late: dict[str, Any] = {name: float(_put_off(getattr(self, name), period)) for name in _PUT_OFF}
        return replace(self, **late, times=_put_off(self.times, period), period=period)

    @cached_property
    def norm_at(self) -> Callable[[np.ndarray], np.ndarray]:
        r"""$\|W\|_F^2$ at any steps, interpolated in its logarithm."""
        return lambda steps: np.exp(np.interp(steps, self.times, np.log(self.frobenius2)))


def _put_off(steps: Any, period: float) -> Any:
    """Steps by which noise, on and off for `period` each, has been on for so many."""
    return np.where(np.isfinite(steps), steps + period * np.floor(steps / period), steps)


def left_out(boost: Any, dim: float) -> Any:
    r"""$(\mathrm{tr}\beta)^2+\frac2d\mathrm{tr}\beta$, shape of `boost`, tr β: see `Phases.left_out` (derived)."""
    return boost**2 + 2 / dim * boost


def mean_alignment(geometry: Geometry, gram: np.ndarray) -> float:
    r"""$E|\langle\hat\theta,w\rangle|/|w|$ for $w\sim N(0,G)$, by $|w|^{-1}=\frac2{\sqrt\pi}\int_0^\infty e^{-s^2|w|^2}ds$.

    Neurons drawn from a Gaussian stay Gaussian, given the run: every step maps them by the same matrix. `gram`: G (D, D).
    """
    direction = geometry.target / np.linalg.norm(geometry.target)
    values, vectors = np.linalg.eigh(gram)
    values = np.clip(values, 0.0, None)
    share = (vectors.T @ direction) ** 2
    many = vectors.T**2 @ geometry.multiplicity
    x, weights = gauss_legendre(0.0, 1.0, _NODES)
    scale = 1 / np.sqrt(geometry.trace(gram))
    s, jacobian = scale * x / (1 - x), scale / (1 - x) ** 2
    growth = 1 + 2 * s[:, None] ** 2 * values
    density = np.exp(-0.5 * np.log(growth) @ many) * np.sqrt((values / growth) @ share)
    return float(2 / np.sqrt(np.pi) * np.sqrt(2 / np.pi) * np.sum(weights * jacobian * density))


def _median_displacement(law: Law, start: Fitted, state: "State", boost: np.ndarray, width: int) -> float:
    r"""Median of $|w_i(t)-w_i(0)|^2$ over neurons $w_i(0)\sim N(0,I/d)$, $a_i(0)\sim N(0,1/m)$.

    With T the mean map of [W a], the fit of the labels first, V the rotations' mean square and β that of the boosts,
    $$w_i(t)-w_i(0)=(T_{ww}-I)^\top w_i+T_{aw}^\top a_i+\Omega w_i+(T_{wa}^\top w_i+T_{aa}a_i)\,b,$$
    and θ(0) is unlearned. The law of its square is replaced by the gamma law with the same mean and variance.
    """
    dim, size, trace = law.geometry.dim, len(boost), law.geometry.trace
    scale = np.append(np.full(size, dim**-0.5), width**-0.5)
    moved = scale[:, None] * state.moved[:, :size]
    seen = scale * (state.moved[:, size] + np.eye(size + 1)[size])
    form = moved @ moved.T + trace(boost) * np.outer(seen, seen)
    form[:size, :size] += state.turned / dim
    form[size, size] += start.unlearned / width
    many = np.append(law.geometry.multiplicity, 1.0)
    mean, variance = many @ np.diagonal(form), 2 * many @ np.diagonal(form @ form)
    return float(scipy.special.gammaincinv(mean**2 / variance, 0.5) * variance / mean)


def predict_phases(
    task: LinearTask,
    *,
    width: int,
    step_size: float,
    noise: float,
    batch: int = 1,
    horizon: float | None = None,
    points: int = 100,
) -> Phases:
    r"""Both phases from the averaged flow, for the initialisation $w_{ij}\sim N(0,1/d)$, $a_i\sim N(0,1/m)$.

    Args:
        task: target and training set (its covariance is the finite-n correction), or fresh samples.
        width: m. step_size: η. noise: σ. batch: samples per step.
        horizon: steps to integrate (default: twice the leading onset time, or more to where the onset is).
        points: equal intervals at whose ends the curves are given.

    Valid for m ≫ d and times that are long against the error's relaxation; `Phases.conditions` has the sizes. Raises
    `InputError` for σ < 0, class labels, n ≤ d and a step size beyond the least-squares stability limit, which is named; it
    is that of the weights as noise and target make them, too.
    """
    if not (np.isfinite(noise) and noise >= 0):
        raise InputError(f"noise is {noise!r}: give a finite number, 0 or more")
    check_positive(step_size=step_size, **({} if horizon is None else {"horizon": horizon}))
    geometry = Geometry.of(task)
    norm, gram = float(np.linalg.norm(geometry.target)), width / geometry.dim * np.eye(len(geometry.target))
    limit = stability_limit(geometry, gram, 1.0, batch)
    if step_size >= limit:
        raise InputError(
            f"step_size is {step_size:g}, beyond the least-squares stability limit {limit:.3g} of the initial weights: "
            "give a smaller step size or width, or a larger batch"
        )
    made = fitted(geometry.target, geometry.dim, width)
    law = Law(geometry, step_size, noise, batch)
    began = law.settled(made)
    known = {
        "residual_variance": began.residual_variance,
        "lms_error": geometry.trace(began.error),
        "stability_limit": limit,
        "escape_bound": escape_bound(width, step_size, noise, batch),
    }
    sizes = _sizes(law, made, began.residual_variance, width)
    kick = (step_size * noise) ** 2
    leading = lazy_fall(width, geometry.dim, norm) * batch / kick if kick >= np.finfo(float).tiny else np.inf
    if not np.isfinite(2 * leading):  # no noise, or so little that a number cannot count the steps
        return _resting(known, made, geometry, np.inf if horizon is None else horizon, sizes)
    rate = -geometry.trace(State.of(law(0.0, _first(made)), len(gram)).gram) / geometry.trace(made.gram)

    course = _Course(law, made, width)

    def until(end: float) -> Phases:
        if end > course.ends[-1]:
            course.go_on(end)
        times = np.linspace(0.0, end, points + 1)
        return _moving(known | {"decay_rate": rate}, course, times, geometry, sizes)

    found = until(2 * leading if horizon is None else horizon)
    if horizon is not None or np.isfinite(found.onset_steps):
        return found
    # (The error of least squares, a finite set and a small target put the onset off, by more than the leading one knows.)
    slowest = leading / float(np.min(np.linalg.eigvalsh(geometry.covariance)))
    return until(course.risen(onset_level(round(geometry.dim)), _PATIENCE * slowest))


#: What is neglected, from the steps to the escape, `Law.cancelled` at the onset, the mean absolute cosine once labels are
#: fitted, and whether the onset may be to come.
_Sizes = Callable[[float, float, float, bool], Neglected]


def _sizes(law: Law, start: Fitted, variance: float, width: int) -> _Sizes:
    r"""The error relaxes within $1/(2\eta\bar\Lambda(1-\eta/\eta_c))$ steps, $\bar\Lambda=\mathrm{tr}(\hat H\Lambda)/d$;
    along its slowest direction with the least eigenvalue of $\hat H\Lambda$ in place of $\bar\Lambda$.
    """
    geometry, size = law.geometry, len(start.gram)
    values, _, many = _modes(geometry, start.gram, start.norm2)
    paces = np.array([many @ values / geometry.dim, np.min(values)])
    relaxation = 1 / (2 * law.step_size * paces * (1 - law.step_size / law.limit(start)))
    moved = _median_displacement(law, start, State.of(_first(start), size), np.zeros((size, size)), width)
    simple = law.variance(law.residual(start.gram, start.norm2).error)
    own = geometry.inputs is not None or not np.isfinite(geometry.points)
    moments = (abs(simple / variance - 1) if variance > 0 else 0.0) if own else None

    def sized(escape: float, late: float, alignment: float, awaited: bool) -> Neglected:
        waited, slowest = relaxation / escape if escape > 0 else (0.0, 0.0)
        return Neglected(
            geometry.dim / width,
            float(np.sqrt(moved * width)),
            start.boosted,
            float(waited),
            float(slowest),
            late / geometry.dim**0.5,
            alignment >= onset_level(round(geometry.dim)),
            awaited,
            moments,
            geometry.points,
            law.batch,
        )

    return sized


def _first(start: Fitted) -> np.ndarray:
    """The packed state before noise has moved anything."""
    return State(start.gram, start.norm2, start.moved, np.zeros_like(start.gram)).packed


def _resting(known: dict[str, float], start: Fitted, geometry: Geometry, end: float, sizes: _Sizes) -> Phases:
    """Without noise nothing moves once the labels are fitted."""
    keep, alignment = np.ones(2), mean_alignment(geometry, start.gram)
    neglected = sizes(np.inf, 0.0, alignment, False)
    return Phases(
        **known,
        decay_rate=0.0,
        escape_steps=np.inf if neglected.fitted < 1 else 0.0,
        onset_steps=0.0 if neglected.aligned else np.inf,
        half_steps=np.inf,
        times=np.array([0.0, end]),
        frobenius2=geometry.trace(start.gram) * keep,
        second_norm2=start.norm2 * keep,
        alignment=alignment * keep,
        boost=0 * keep,
        left_out=0 * keep,
        top_share=_top_share(start.gram, np.zeros_like(start.gram), geometry) * keep,
        switched=0 * keep,
        neglected=neglected,
    )


def _top_share(gram: np.ndarray, boost: np.ndarray, geometry: Geometry) -> float:
    r"""Mean $s_1/\|W\|_F$ from the mean G, which a boost b moves by $\theta^*b^\top+b\theta^{*\top}$.

    Between the top eigenvector and another one this has the mean square $\gamma_i^2$, and the top eigenvalue x of the moved
    G is, to its second order, that of $x-\lambda_1=\sum_i\gamma_i^2/(x-\lambda_i)$: of a matrix with only these entries.
    """
    values, vectors = np.linalg.eigh(gram)
    along, spread = vectors.T @ geometry.target, vectors.T @ boost @ vectors
    squares = along**2 * spread[-1, -1] + along[-1] ** 2 * np.diagonal(spread) + 2 * along[-1] * along * spread[-1]
    arrow = np.diag(values)
    arrow[-1, :-1] = arrow[:-1, -1] = np.sqrt((vectors.T**2 @ geometry.multiplicity * squares)[:-1])
    return float(np.sqrt(np.linalg.eigvalsh(arrow)[-1] / geometry.trace(gram)))


class _Moment(NamedTuple):
    """What is seen at one time: mean G and A, tr β, s₁/‖W‖, `Law.switched`, mean absolute cosine, median displacement²."""

    gram: np.ndarray
    norm2: float
    boost: float
    top_share: float
    switched: float
    alignment: float
    moved: float


class _Enough(Exception):
    """So many evaluations were not enough."""


class _Course:
    """The averaged flow from fitted labels, as far as it was asked to go.

    Once the median neuron has left the lazy regime only G and A go on, which are few and may be stiff: what a direction of
    little data takes is long against what the others do.
    """

    def __init__(self, law: Law, start: Fitted, width: int) -> None:
        self.law, self.start, self.width = law, start, width
        self.ends, self.last, self.step, self.moved = [0.0], _first(start), 0.0, 0.0
        self.legs: list[Callable[[float], np.ndarray]] = []
        self._upper = np.triu_indices(len(start.gram))

    def go_on(self, end: float) -> None:
        """In units of what is to come, as squares of rates per step may be below any number."""
        begun, late = self.ends[-1], self._late
        if late and len(self.last) > self._size:
            self.moved, self.last = self.seen(begun).moved, self._slow(*self._layers(self.last))
        long = end - begun
        # (Implicit steps need Jacobians, each an evaluation for every number: they wait until explicit ones cost as much.)
        leg = self._leg(end, "DOP853", _EXPLICIT * self._size if late else np.inf) or self._leg(end, "LSODA", np.inf)
        assert leg is not None
        self.step = long * float(np.max(np.diff(leg.t)[-2:]))  # (the very last one is what was left)
        self.ends.append(end)
        self.legs.append(leg.sol)
        self.last = leg.y[:, -1]

    def _leg(self, end: float, method: str, most: float) -> Any:
        """From where it was left, within so many evaluations; None if they are not enough."""
        begun, rates, count = (
            self.ends[-1],
            self.law if len(self.last) > self._size else self._slow_rates,
            itertools.count(1),
        )
        long = end - begun

        def rate(share: float, packed: np.ndarray) -> np.ndarray:
            if next(count) > most:
                raise _Enough
            return long * rates(share, packed)  # (none knows the time)

        try:
            return scipy.integrate.solve_ivp(
                rate,
                (0.0, 1.0),
                self.last,
                method,
                dense_output=True,
                first_step=min(self.step / long, 1.0)
                if begun
                else None,  # (what SciPy would try first may be far too long)
                rtol=_TOLERANCE,
                atol=1e-9,
            )
        except (_Enough, InputError):  # (a trial step that is too long may be where there is no least-squares error)
            if most < np.inf:
                return None
            raise

    def risen(self, level: float, patience: float) -> float:
        """A time by which the mean absolute cosine has passed `level` or is none any more, at most about `patience`."""
        while (begun := self.ends[-1]) < patience:
            self.go_on(2 * begun)
            looks = begun * (1 + np.arange(1, _LOOKS + 1) / _LOOKS)
            if not all(self.seen(x).alignment < level for x in looks):  # (or where there is none any more)
                break
        return self.ends[-1]

    @property
    def moving(self) -> bool:
        """Whether the flow has not ended where it was left."""
        gram, norm2 = self._layers(self.last)
        rate, other = self.law.layers(gram, norm2)
        share = np.linalg.norm(rate) / np.linalg.norm(gram), abs(other) / norm2
        return self.ends[-1] * max(float(x) for x in share) > _ENDED

    def seen(self, time: float) -> _Moment:
        law, packed = self.law, self._at(time)
        slow, (gram, norm2, now) = self._layers(packed), self._observed(time)
        full = len(packed) > self._size
        state = State.of(packed, len(self.start.gram)) if full else None
        moved = _median_displacement(law, self.start, state, now.boost, self.width) if state else self.moved
        total = law.geometry.trace(now.boost)
        if not law.geometry.trace(gram) > 0:  # (boosts so large that their means to the first orders are none)
            return _Moment(np.nan * gram, norm2, total, np.nan, np.nan, np.nan, moved)
        top, aligned = _top_share(gram, now.boost, law.geometry), mean_alignment(law.geometry, gram)
        return _Moment(gram, norm2, total, top, law.switched(*slow), aligned, moved)

    def cancelled(self, time: float) -> float:
        """`Law.cancelled` then."""
        return self.law.cancelled(*self._layers(self._at(time)))

    @property
    def _late(self) -> bool:
        """Whether the median neuron has moved by 1/√m."""
        return self.moved > 0 or bool(self.legs and self.seen(self.ends[-1]).moved >= 1 / self.width)

    def _at(self, time: float) -> np.ndarray:
        leg = max(bisect_left(self.ends, time) - 1, 0)
        begun, end = self.ends[leg : leg + 2]
        return self.legs[leg]((time - begun) / (end - begun))

    def _observed(self, time: float) -> tuple[np.ndarray, float, Residual]:
        return self.law.observed(*self._layers(self._at(time)))

    @property
    def _size(self) -> int:
        return len(self._upper[0]) + 1

    def _slow(self, gram: np.ndarray, norm2: float) -> np.ndarray:
        """G and A one after the other, what is symmetric once."""
        return np.append(gram[self._upper], norm2)

    def _layers(self, packed: np.ndarray) -> tuple[np.ndarray, float]:
        """G and A of either kind."""
        size = len(self.start.gram)
        if len(packed) > self._size:
            return State.of(packed, size)[:2]
        gram = np.zeros((size, size))
        gram[self._upper] = packed[:-1]
        return gram + np.triu(gram, 1).T, float(packed[-1])

    def _slow_rates(self, _: float, packed: np.ndarray) -> np.ndarray:
        return self._slow(*self.law.layers(*self._layers(packed)))


def _moving(
    known: dict[str, float],
    course: _Course,
    times: np.ndarray,
    geometry: Geometry,
    sizes: _Sizes,
) -> Phases:
    """The curves at `times`, and where they pass their levels."""
    seen = course.seen
    gram, norm2, boost, top_share, switched, alignment, moved = map(np.array, zip(*map(seen, times), strict=True))
    alignment[np.logical_or.accumulate(np.isnan(alignment))] = np.nan  # (what comes after is not to be trusted, either)
    frobenius2, level = np.array([geometry.trace(x) for x in gram]), onset_level(round(geometry.dim))
    escape = located_crossing(times, moved, 1 / course.width, lambda time: seen(time).moved, rtol=1e-8)
    onset = located_crossing(times, alignment, level, lambda time: seen(time).alignment, rtol=1e-8)
    half = located_crossing(
        times, -frobenius2, -frobenius2[0] / 2, lambda time: -geometry.trace(seen(time).gram), rtol=1e-8
    )
    awaited = not np.isfinite(onset) and course.moving
    return Phases(
        **known,
        escape_steps=escape,
        onset_steps=onset,
        half_steps=half,
        times=times,
        frobenius2=frobenius2,
        second_norm2=norm2,
        alignment=alignment,
        boost=boost,
        left_out=left_out(boost, geometry.dim),
        top_share=top_share,
        switched=switched,
        neglected=sizes(escape, course.cancelled(min(onset, times[-1])), alignment[0], awaited),
    )
