r"""The stationary state of Stiefel SGD on a quadratic network, N ≥ P: mean of whole steps, fluctuations, kicks.

A step averages the tangents of b samples and then retracts. In the notation of `theory.quadratic.stiefel`, with ε the Riccati
time of a step, $Z=\Theta^\top W$, $G=ZZ^\top$, the mean tangent $\bar\delta=\epsilon(I-G)\tilde AZ$ and $\kappa$ the mean
square of tangents, $E\tilde W^\top\tilde W=I+\kappa$, many samples take G to (derived)
$$F_\infty(G)=(Z+\bar\delta)(I+\kappa)^{-1}(Z+\bar\delta)^\top+\tfrac{\epsilon^2}{4b}\,\mathrm{gain}-\tfrac1b\bar\delta\bar\delta^\top,
\quad Z\kappa Z^\top=\tfrac{\epsilon^2}{4b}\,\mathrm{loss}+\big(1-\tfrac1b\big)\epsilon^2G\tilde A(I-G)\tilde AG,$$
gain and loss those of `step_drift`. Of what is beyond second order pairs of samples have the share 1 − 1/b, so that F is
$F_\infty$ less 1/b of that: for b = 1 `step_drift`, for many samples the retracted mean. Exactly, one moves the projector by
$$D=\frac{\tfrac{\epsilon_1}2q\,(uv^\top+vu^\top)+\tfrac{\epsilon_1^2}4q^2(|u|^2vv^\top-|v|^2uu^\top)}{1+\tau^2},\qquad
\tau=\tfrac{\epsilon_1}2q|u||v|,\quad\epsilon_1=\epsilon/b.$$
At the fixed point $G^*=F(G^*)$, with $A=F'(G^*)$, the covariance of G solves $C=ACA^\top+b\,\mathrm{Cov}D$ (Lyapunov), and
$$E\,G=F(E\,G)+\tfrac12F'':C+b\,E\,k(E\,G),\qquad E\,R=R(E\,G)+\tfrac12\mathrm{tr}\,R''C,$$
where $k=-\tau^2D$ is what a sample's whole angle moves beyond second order. Kicks are those at the mean that they move: near
the largest step 1 − A is small, and taken at $G^*$ they move it by up to a half less (one direction on three columns, d = 120,
.9 of that step: risk 1.663; here 1.626, SGD 1.627(1)). At fixed ηd/b all three corrections are O(1/d).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from theory.core.errors import InputError
from theory.quadratic.model import QuadraticModel
from theory.quadratic.stiefel import projected_risk, second_order, step_drift

#: log2 of the points of the quasi-Monte Carlo rule, and P up to which it is kept: six dimensions at P = 3 are known to 1 %.
_POINTS, _LARGEST = 15, 8
#: Relaxation times of the smallest weight after which the mean is near its fixed point.
_SETTLED = 100
#: Rounds in which the mean is found, and what the last one moves it by.
_ROUNDS, _CLOSE = 60, 1e-6
#: By which share of itself rounding moves a weight.
_ROUNDING = 1e-12
#: Steps of central differences: of a derivative, and of a second one.
_FIRST, _SECOND = 1e-5, 1e-3


@dataclass(frozen=True)
class Stationary:
    r"""Late G and risk of Stiefel SGD, in the parts they are made of.

    Attributes:
        fixed_point: $G^*$ of the mean map, (P, P). mean: E G. covariance: C in `coordinates` (n, n), n = P(P + 1)/2.
        drift: $R(G^*)$. fluctuation: what C moves of the risk, by its curvature and that of the mean map. kicks: what whole
            angles do.
        rate: λ in Riccati time, at which the slowest deviation decays.
    """

    fixed_point: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    drift: float
    fluctuation: float
    kicks: float
    rate: float

    @property
    def risk(self) -> float:
        """E R."""
        return self.drift + self.fluctuation + self.kicks

    def next_order(self, gap: float) -> float:
        """One number: the size of what is left out, if it is to the corrections as they are to the gap."""
        return (abs(self.fluctuation) + abs(self.kicks)) ** 2 / gap

    def swing(self, of: Callable[[np.ndarray], np.ndarray]) -> float:
        r"""Standard deviation of a function of G (P, P) at one late step, to first order: $\sqrt{f'Cf'}$."""
        basis = coordinates(len(self.fixed_point))
        slope = _slope(
            lambda x: of(np.einsum("c,cij->ij", x, basis))[None], np.einsum("ij,cij->c", self.fixed_point, basis)
        )
        return float(np.sqrt(slope[0] @ self.covariance @ slope[0]))


def coordinates(count: int) -> np.ndarray:
    """Orthonormal basis of the symmetric matrices, (n, P, P), n = P(P + 1)/2."""
    rows, columns = np.triu_indices(count)
    basis = np.zeros((rows.size, count, count))
    basis[np.arange(rows.size), rows, columns] = np.where(rows == columns, 1.0, 0.5**0.5)
    basis[np.arange(rows.size), columns, rows] = basis[np.arange(rows.size), rows, columns]
    return basis


def mean_map(G: np.ndarray, model: QuadraticModel, step_size: float, batch: int = 1) -> np.ndarray:
    """F(G), (P, P), of an invertible G, for one step of `step_size` (of ½E(f*−f)²) with `batch` samples; N ≥ P."""
    pairs, speed = 1 - 1 / batch, model.speed_factor / model.norm
    a, epsilon, one = np.diag(model.spectrum), model.riccati_rate * step_size, np.eye(model.teacher.width)
    gain, loss = second_order(G, model.spectrum, model.width, model.teacher.dim, speed)
    taken = epsilon**2 * G @ a @ (one - G) @ a @ G
    moved, shrink = one + epsilon * (one - G) @ a, epsilon**2 / (4 * batch) * loss + pairs * taken
    whole = moved @ G @ np.linalg.solve(G + shrink, G) @ moved.T + epsilon**2 / (4 * batch) * gain
    drift = step_drift(G, model.spectrum, model.width, model.teacher.dim, speed, epsilon / batch)
    # (F∞ less δ̄δ̄ᵀ/b, and what its second order has of that cancels.)
    return pairs * whole + (G + epsilon * drift - pairs * taken) / batch


def sample_moments(G: np.ndarray, model: QuadraticModel, step_size: float) -> tuple[np.ndarray, np.ndarray]:
    r"""Cov D (n, n) and E k (n,) of one sample in `coordinates`, by quasi-Monte Carlo over u, v and what their lengths hold.

    Valid for N ≥ P, d ≥ N + P.
    The points are those of normals of variance $1+\sqrt{3/P}$, weighted: the moments are of degree 12 and more.
    """
    count, epsilon = model.teacher.width, model.riccati_rate * step_size
    speed, basis = model.speed_factor / model.norm, coordinates(count)
    points = scipy.stats.qmc.Sobol(2 * count + 2, seed=0).random_base2(_POINTS)
    variance = 1 + (3 / count) ** 0.5
    z = variance**0.5 * scipy.special.ndtri(points[:, :-2])
    weight = variance**count * np.exp((1 / variance - 1) / 2 * np.sum(z**2, axis=1)) / len(z)
    u, v = z[:, :count] @ _root(G), z[:, count:] @ _root(np.eye(count) - G)
    inside, outside = np.sum(z[:, :count] ** 2, axis=1), np.sum(z[:, count:] ** 2, axis=1)
    if model.width > count:
        inside = inside + scipy.stats.chi2.ppf(points[:, -2], model.width - count)
    if model.teacher.dim > model.width + count:
        outside = outside + scipy.stats.chi2.ppf(points[:, -1], model.teacher.dim - model.width - count)
    push = epsilon / 2 * (((u + v) ** 2 - 1) @ model.spectrum - speed * (inside - model.width))
    tilt2 = push**2 * inside * outside

    def form(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.einsum("ni,cij,nj->nc", x, basis, y, optimize=True)

    turn = push[:, None] * 2 * form(u, v)
    second = (push**2)[:, None] * (inside[:, None] * form(v, v) - outside[:, None] * form(u, u))
    moved = (turn + second) / (1 + tilt2)[:, None]
    mean = weight @ moved
    return (moved.T * weight) @ moved - np.outer(mean, mean), -(weight * tilt2) @ moved


def _root(X: np.ndarray) -> np.ndarray:
    """The symmetric root of 0 ≼ X, of which rounding may have made more."""
    values, vectors = np.linalg.eigh(X)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def stationary(model: QuadraticModel, step_size: float, batch: int = 1) -> Stationary:
    r"""Late mean of G and of the risk, with all that is of order 1/d at fixed ηd/b.

    Left out: the next order (`Stationary.next_order`), and with batches what pairs of samples add to the kicks, relative b/d,
    and whole steps to the covariance, relative ε. (P = N = 3, d = 128, ηd = 0.2 of the paper's loss, b = 128: measured risk
    .0953(2), here .0953, `mean_flow` .0915.)

    Args: step_size: η of ½(f*−f)², of the whole step. batch: its samples.
    Raises `InputError` for N < P, d < N + P or P > 8, and where no stable fixed point is found: the step is too large.
    """
    count = model.teacher.width
    if model.width < count:
        raise InputError(
            f"student width is {model.width}, below {count} teacher directions: the mean drift forgets rank there"
        )
    if model.width + count > model.teacher.dim:
        raise InputError(
            f"dim is {model.teacher.dim}: {model.width} of the student hold some of {count} teacher directions always"
        )
    if count > _LARGEST:
        raise InputError(f"{count} directions: the moments of a step are known for {_LARGEST} at most")
    basis = coordinates(count)

    def to(x: np.ndarray) -> np.ndarray:
        return np.einsum("c,cij->ij", x, basis)

    def back(G: np.ndarray) -> np.ndarray:
        return np.einsum("cij,ij->c", basis, G)

    def step(x: np.ndarray) -> np.ndarray:
        return back(mean_map(to(x), model, step_size, batch))

    def risk(x: np.ndarray) -> np.ndarray:
        return projected_risk(model.spectrum, to(x))[None]

    # A student that can be its teacher has no noise there, and all of it is held, exactly.
    equal = np.allclose(model.spectrum, model.speed_factor / model.norm, rtol=_ROUNDING, atol=0)
    still, whole = equal and model.width == count, back(np.eye(count))
    end = _SETTLED / model.spectrum.min()
    x = whole if still else _fixed_point(step, whole, model.riccati_rate * step_size, end)
    A = _slope(step, x)
    held = np.linalg.eigvalsh(to(x))
    slowest = float(np.max(np.abs(np.linalg.eigvals(A))))
    if not (slowest < 1 and held[0] > 0 and held[-1] <= 1):
        raise InputError(f"step_size is {step_size:g}: no stable state of {count} directions is found; lower it")
    still_moments = np.zeros_like(A), np.zeros_like(x)

    def moments(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return still_moments if still else sample_moments(to(at), model, step_size / batch)

    noise, kick = moments(x)
    C = scipy.linalg.solve_discrete_lyapunov(A, batch * noise)
    back_to_rest, bend = np.linalg.inv(np.eye(x.size) - A), _bend(step, x, C)
    bent = back_to_rest @ bend
    mean = x + bent + batch * back_to_rest @ kick
    for _ in range(_ROUNDS):
        change = back_to_rest @ (step(mean) + bend + batch * moments(mean)[1] - mean)
        mean = mean + change
        if float(np.abs(change).max()) < _CLOSE:
            break
    else:
        raise InputError(f"step_size is {step_size:g}: kicks move the late state on and on; lower it")
    drift, fluctuation = float(risk(x)[0]), float(_slope(risk, x)[0] @ bent + _bend(risk, x, C)[0])
    return Stationary(
        fixed_point=to(x),
        mean=to(mean),
        covariance=C,
        drift=drift,
        fluctuation=fluctuation,
        kicks=float(risk(mean)[0] + _bend(risk, x, C)[0]) - drift - fluctuation,
        rate=-float(np.log(slowest)) / (model.riccati_rate * step_size),
    )


_Map = Callable[[np.ndarray], np.ndarray]


def _fixed_point(step: _Map, whole: np.ndarray, epsilon: float, end: float) -> np.ndarray:
    """Of F, in the coordinates of `whole` (G = 1), from after Riccati time `end` of steps `epsilon`."""

    def rate(_: float, x: np.ndarray) -> np.ndarray:
        return (step(x) - x) / epsilon

    # From all that can be held: a start of little may not grow at a step at which much is kept.
    settled = scipy.integrate.solve_ivp(rate, (0.0, end), 0.999 * whole, "LSODA", rtol=1e-6, atol=1e-9).y[:, -1]
    return np.asarray(scipy.optimize.root(lambda x: step(x) - x, settled, tol=1e-13).x)


def _slope(f: _Map, x: np.ndarray) -> np.ndarray:
    """f'(x), (outputs, inputs)."""
    return np.stack([(f(x + e) - f(x - e)) / (2 * _FIRST) for e in _FIRST * np.eye(x.size)], axis=1)


def _bend(f: _Map, x: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """½ f'' : C, by the principal directions of C."""
    values, vectors = np.linalg.eigh(covariance)
    along = [f(x + e) + f(x - e) - 2 * f(x) for e in _SECOND * vectors.T]
    return values @ np.stack(along) / (2 * _SECOND**2)
