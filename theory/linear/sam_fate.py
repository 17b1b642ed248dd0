r"""What becomes of the two-layer linear network under SAM: fitted, lost on the way, or collapsed.

Near 0 a step changes $|B|^2=\|W\|_F^2+\|a\|^2$ by $2\eta|\nabla\ell|(|B|-\rho)$ at most, so that what is smaller than ρ
shrinks; and until the labels are fitted, the perturbation takes from the layers that are to fit them. For small steps the
means of the algorithm are a flow, which closes in the span of θ* and of the rows of W; of many rows in the directions in which
they are largest, beside θ* and θ at the start, the rest of W isotropic. With $G=W^\top W$, θ and $e=\theta-\theta^*$ in that
span, w for G across it, $A=\|a\|^2$, $g=Se$ and
$S=\frac1b\sum xx^\top$, the gradient has the length D, $D^2=g^\top(G+A)g$, the error is perturbed to
$\tilde e=e+\frac\rho D(G+A)g+\frac{\rho^2}{D^2}\langle g,\theta\rangle g$, and with
$\tilde g=S\tilde e$, $p=E\tilde g$, $K=E\frac\rho Dg\tilde g^\top$ and $k=E\frac\rho D\langle g,\tilde g\rangle$
$$\dot G=-\theta p^\top-p\theta^\top-K^\top G-GK,\quad\dot\theta=-(G+A)p-K^\top\theta-k\theta,\quad
\dot A=-2\langle p,\theta\rangle-2kA,$$
time being step size × steps; w falls by the mean of K's diagonal across the span (derived; with seven neurons and fresh
samples nothing is left out).
"""

from dataclasses import dataclass

import numpy as np
import scipy

from theory.core.arguments import check_positive, check_whole
from theory.core.streams import stream

REFERENCE = "arXiv:2603.10397, section 5 (update rule); flow derived"
#: Labels are fitted once this share of the target is missed: from there on the error chatters. Nothing is, at the other.
_FITTED, _SMALL = 0.01, 0.1
#: Samples that means are over.
SAMPLES = 1000
#: Steps of the integration, and times 1/‖θ*‖, after which a start is undecided.
_STEPS, _LONGEST = 1000, 1000.0
#: Relative tolerance of the integration; what is no part of θ across θ*.
_TOLERANCE, _NONE = 1e-3, 1e-8
#: Directions in which W is followed one by one.
_MOST = 8


def share_left(radius: float, critical: float) -> float:
    r"""Share of the target that is left beyond the collapse radius: $(\rho/\rho_c-1)^2$, from $\rho_c$ to $2\rho_c$.

    Of whole batches and of one dimension: a balanced neuron, $w=\|a\|=u$, is perturbed to $u-\rho/\sqrt2$ and rests where
    that is $-\sqrt{\|\theta^*\|}$, the fit by the opposite signs (derived). Small batches, and neurons that are not balanced,
    leave less (measured in d = 2 to 60 with b = 1 to 64, up to $1.6\rho_c$); from $2\rho_c$ on all labels may be fitted again.
    """
    return (radius / critical - 1) ** 2


def lasting_radius(critical: float, step_size: float, target_norm: float, batch: int = 1) -> float:
    r"""Radius from which half of the networks that fit are lost in time 60/‖θ*‖: $\rho_c(1.01-2.2\sqrt{\eta\|\theta^*\|/b})$.

    Steps that are not small throw the aligned neuron out before the mean does. Measured, not derived: within .05 ρ_c up to
    η‖θ*‖ = .016 (d = 2 to 60 with b = 1, 5 and 20 with b = 2 to 16), up to .09 too large at .03; no more than ρ_c. Beyond
    η‖θ*‖/b = .05, where nothing was measured, half of ρ_c. Args: ρ_c, η, ‖θ*‖, b.
    """
    return critical * float(np.clip(1.01 - 2.2 * np.sqrt(step_size * target_norm / batch), 0.5, 1.0))


def fits(
    first: np.ndarray,
    second: np.ndarray,
    target: np.ndarray,
    radius: float,
    *,
    batch: int = 1,
    inputs: np.ndarray | None = None,
) -> bool | None:
    r"""True where small steps of SAM fit the labels, False where they take the layers to $|B|<\rho$, None where neither is.

    Below ρ_c (`theory.linear.sam.collapse_radius`) what is fitted stays. Of runs from random published starts (d = 1 to 40,
    m = 1 to 120, ‖θ*‖ = .3 to 20, steps of .03 of the stability limit), ρ the radius that decides for some of them, it has
    247 of 264 right with fresh samples (b = 1 to 32), and four are undecided; none a tenth off its own radius is wrong.
    Of whole sets of 2 to 20 points a dimension 115 of 120 are right, and two are wrong by more than a tenth. (Beyond .95 ρ_c
    what is fitted may be lost by steps that are not small, `lasting_radius`, and is not counted.) For single samples of such
    sets fresh ones stand in 100 of 115; wrong are sets of few points or neurons, within a third.
    Sets of n ≤ d points: give all in coordinates of their span.
    Args: W (m, d), a (m,), θ* (d,), ρ; samples b in a step, fresh ones, or a training set (n, d) of which each takes all.
    Raises `InputError` for a radius that is not positive or a batch below 1.
    """
    check_positive(radius=radius)
    check_whole(batch=batch)
    theta, size = second @ first, float(np.linalg.norm(target))
    plane = _seen(first, second, target)
    batches = _fresh(batch, *plane.shape) if inputs is None else _whole(inputs, plane)
    flow = _Flow(batches, inputs is None, plane.T @ target, radius, target.size - plane.shape[1])
    held = first @ plane
    across = (np.sum(first**2) - np.sum(held**2)) / max(flow.rest, 1)
    start = np.concatenate([(held.T @ held).ravel(), plane.T @ theta, [second @ second, across]])
    # (scipy's solve_ivp has no bound on the number of steps, of which a start that hardly moves takes any number)
    method = (
        scipy.integrate.RK23 if inputs is None else scipy.integrate.LSODA
    )  # (whole sets are stiff: their error chatters)
    run = method(flow.rates, 0.0, start, _LONGEST / size, rtol=_TOLERANCE, atol=_TOLERANCE / 1e4 * min(size, radius**2))
    for _ in range(_STEPS):
        if flow.missed(run.y) < _FITTED * size:
            return True
        if flow.norm2(run.y) < radius**2:
            return False
        if run.status != "running":
            break
        with np.errstate(over="ignore", invalid="ignore"):  # (a neuron that passes 0 may be lost by rounding: None)
            run.step()
    return None


def _seen(first: np.ndarray, second: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Orthonormal columns (d, s): θ*, θ across it, and the directions across both in which W is largest, `_MOST` in all."""
    found = target[:, None] / np.linalg.norm(target)
    for rows in ((second @ first)[None], first):
        rest = rows - rows @ found @ found.T
        _, sizes, ways = np.linalg.svd(rest, full_matrices=False)
        large = sizes > _NONE * np.linalg.norm(rows)
        found = np.column_stack([found, ways[large].T])[:, :_MOST]
    return found


def _fresh(batch: int, dim: int, seen: int) -> np.ndarray:
    """Batches (n, b, seen + …) of Gaussian inputs; what is across the plane, up to a rotation, in b coordinates at most."""
    rng, rest = stream(0, "samples of SAM"), dim - seen
    x = rng.standard_normal((int(SAMPLES / batch**0.5), batch, seen + min(batch, rest)))
    if batch < rest:  # (Bartlett's triangle has the same products)
        lower = np.tril(x[:, :, seen:], -1)
        lengths = np.sqrt(rng.chisquare(rest - np.arange(batch), (len(x), batch)))
        x[:, :, seen:] = lower + lengths[:, :, None] * np.eye(batch)
    return x


def _whole(inputs: np.ndarray, plane: np.ndarray) -> np.ndarray:
    """The training set as one batch (1, d or fewer, d) of the same covariance, in coordinates of the plane and across it."""
    x = np.linalg.qr(inputs, mode="r")
    seen = np.column_stack([plane, np.linalg.qr(plane, mode="complete")[0][:, plane.shape[1] :]])
    return np.asarray(np.sqrt(len(x) / len(inputs)) * x @ seen)[None]


def _frame(error: np.ndarray) -> np.ndarray:
    """Rows: the direction of −e, and where the rotation of the first axis, θ*, to it takes the other axes."""
    along, axes = -error / np.linalg.norm(error), np.eye(error.size)
    both = along + axes[0]
    turned = axes - np.outer(both, both) / max(both[0], _NONE) + 2 * np.outer(along, axes[0])
    return np.asarray(turned.T)


@dataclass(frozen=True, eq=False)
class _Flow:
    """Of G, θ (both in the plane), A and w: batches of inputs (n, b, …), θ* in the plane, ρ, and dimensions across it.

    Batches that turn are those in coordinates along e, so that no sample changes the side of e as that turns.
    """

    batches: np.ndarray
    turns: bool
    target: np.ndarray
    radius: float
    rest: int

    def _parts(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
        seen = self.target.size
        return state[: seen**2].reshape(seen, seen), state[seen**2 : -2], float(state[-2]), float(state[-1])

    def rates(self, _: float, state: np.ndarray) -> np.ndarray:
        """The time derivative."""
        G, theta, A, w = self._parts(state)
        x, seen, count = self.batches, theta.size, len(self.batches)
        error = theta - self.target
        if self.turns:
            x = np.concatenate([x[:, :, :seen] @ _frame(error), x[:, :, seen:]], axis=2)
        g = np.einsum("nb,nbi->ni", x[:, :, :seen] @ error, x) / x.shape[1]
        stiff = np.concatenate([g[:, :seen] @ G, w * g[:, seen:]], axis=1) + A * g
        reach = self.radius / np.sqrt(np.maximum(np.sum(g * stiff, axis=1), np.finfo(float).tiny))
        there = reach[:, None] * (stiff + (reach * (g[:, :seen] @ theta))[:, None] * g)
        there[:, :seen] += error
        steep = np.einsum("nb,nbi->ni", np.einsum("nbi,ni->nb", x, there), x) / (x.shape[1] * count)
        p, pushed = steep[:, :seen].sum(axis=0), reach[:, None] * g
        K, across = pushed[:, :seen].T @ steep[:, :seen], float(np.sum(pushed[:, seen:] * steep[:, seen:]))
        k, turned = np.trace(K) + across, np.outer(theta, p) + G @ K
        moved = -G @ p - A * p - K.T @ theta - k * theta
        ends = [-2 * p @ theta - 2 * k * A, -2 * w * across / max(self.rest, 1)]
        return np.concatenate([-(turned + turned.T).ravel(), moved, ends])

    def missed(self, state: np.ndarray) -> float:
        """|e|."""
        return float(np.linalg.norm(self._parts(state)[1] - self.target))

    def norm2(self, state: np.ndarray) -> float:
        """|B|², of whole batches that of what these see: W along e; they see the rest as soon as θ is any of it."""
        G, theta, A, w = self._parts(state)
        if self.turns:
            return float(np.trace(G) + self.rest * w + A)
        along = theta - self.target
        if np.linalg.norm(theta) > _SMALL * np.linalg.norm(self.target):
            return np.inf
        return float(along @ G @ along / (along @ along) + A)
