"""E21-map: which directions of a power-law teacher one step size lets spherical SGD learn (stability map, Corollary 2.3)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dynamics.one_task.spherical_sgd import spherical_sgd
from theory import Activation, SingleTask, Teacher
from theory.one_task.diffusion import Diffusion
from theory.one_task.hitting_distribution import hitting_distribution
from theory.one_task.spherical_step import WholeSphericalStep, spherical_step
from theory.one_task.whole_step import noise_of_others
from validation.claims.one_task.sample_complexity import HORIZON, LEVEL
from validation.figures.exponents import learned_shares
from validation.judge.claim import Measurement, Part, claim, computed_by
from validation.judge.context import Context
from validation.statistics.exponents import slope_weights
from validation.statistics.standard_errors import share_error

_ACTIVATION = Activation.parse("h3")
_POWER = 1.5
_DECAY, _WIDTH = 1.0, 24
#: Cells of the law's grid.
_CELLS = 80
_CONTROLS = (
    "gradient flow (everything is learned)",
    "boundary of the drift (no fluctuations)",
    "noise amplitude halved",
)


@dataclass(frozen=True)
class Plan:
    """One dimension, a few step sizes c·d^(−3/2), some directions p of the teacher; every start has overlap √(start/d).

    Attributes:
        replicas: per step size. judged: pairs (c, p) whose shares are judged one by one, chosen by the law alone: where
            its share is far from those of all controls.
    """

    dim: int
    start: float
    scaled: tuple[float, ...]
    directions: tuple[int, ...]
    replicas: tuple[int, ...]
    judged: tuple[tuple[float, int], ...]

    @property
    def weights(self) -> np.ndarray:
        """(n,) a_p of the directions, decreasing; Σa² = 1 over the teacher."""
        return Teacher.power_law(_WIDTH, _DECAY, self.dim).a[np.array(self.directions) - 1]

    @property
    def overlap(self) -> float:
        return float(np.sqrt(self.start / self.dim))

    def step_size(self, scaled: float) -> float:
        return scaled / self.dim**_POWER

    def replicas_at(self, step_size: float) -> int:
        return dict(zip(map(self.step_size, self.scaled), self.replicas, strict=True))[step_size]

    def horizon(self, weight: float) -> float:
        """Gradient-flow time at which a run is given up: `HORIZON` recovery times of gradient flow."""
        return HORIZON * SingleTask(_ACTIVATION).half_time(weight, self.overlap, LEVEL**2)

    def shares(self, share: Callable[["Plan", float, float], float]) -> np.ndarray:
        """(step sizes, directions) of a function of weight and step size."""
        return np.array([[share(self, float(a), self.step_size(c)) for a in self.weights] for c in self.scaled])


#: Light directions of a wide teacher: there K and N depend on Σa² alone, and the boundary is proportional to the weight.
_JUDGED = ((0.2, 16), (0.4, 4), (0.4, 6), (0.4, 8))
QUICK = Plan(32, 6.0, (0.1, 0.2, 0.4), (4, 6, 8, 12, 16, 24), (32, 128, 192), _JUDGED)
FULL = replace(QUICK, replicas=(256, 512, 512))


def _in_time(plan: Plan, diffusion: Diffusion, cells: int = _CELLS) -> float:
    """P(T ≤ horizon)."""
    law = hitting_distribution(diffusion, plan.overlap, LEVEL**2, cells)
    return float(law.cdf(np.array([plan.horizon(diffusion.weight)]))[0])


def _diffusion(plan: Plan, weight: float, step_size: float) -> WholeSphericalStep:
    return spherical_step(_ACTIVATION).among_others(weight, step_size, plan.dim)


def predicted_share(plan: Plan, weight: float, step_size: float) -> float:
    """The law of whole steps."""
    return _in_time(plan, _diffusion(plan, weight, step_size))


def _coarse(plan: Plan, weight: float, step_size: float) -> float:
    return _in_time(plan, _diffusion(plan, weight, step_size), _CELLS // 2)


def _quiet(plan: Plan, weight: float, step_size: float) -> float:
    """Half the noise amplitude."""
    return _in_time(plan, replace(_diffusion(plan, weight, step_size), amplitude=0.5))


def _drift_only(plan: Plan, weight: float, step_size: float) -> float:
    """1 if the mean motion of whole steps arrives within the horizon, 0 if not."""
    nodes = np.linspace(plan.overlap, LEVEL, _CELLS // 2 + 1)
    drift, _ = _diffusion(plan, weight, step_size).coefficients((nodes[1:] + nodes[:-1]) / 2)
    return float(np.all(drift > 0) and np.sum(np.diff(nodes) / drift) <= plan.horizon(weight))


@lru_cache(maxsize=4)
def measured_shares(context: Context, plan: Plan) -> np.ndarray:
    """(step sizes, directions) shares of exact SGD runs that learn the direction within the horizon."""

    def share(plan: Plan, weight: float, step_size: float) -> float:
        context.progress(f"weight {weight:.2g}, step size {step_size * plan.dim**_POWER:.2g} d^-{_POWER:g}")
        runs = spherical_sgd(
            _ACTIVATION,
            plan.dim,
            plan.overlap,
            step_size=step_size,
            level=LEVEL,
            weight=weight,
            noise=noise_of_others(_ACTIVATION, weight, 1.0),
            steps=int(plan.horizon(weight) / step_size),
            replicas=plan.replicas_at(step_size),
            seed=context.seed_for("E21-map", f"{weight:.6g}", f"{step_size:.6g}"),
        )
        return float(np.isfinite(runs.hitting_steps).mean())

    return plan.shares(share)


def boundary_weights(plan: Plan) -> np.ndarray:
    r"""(n,) w with $\ln a_c=\ln a_1-\sum_pw_ps_p$, from the shares $s_p$ at one step size.

    The boundary is the mean of the distribution of which the shares are the lower part (Spearman's estimator, as for the
    critical step size of S2): $\int s\,d\ln a$ by the trapezoidal rule over the directions of the plan.
    """
    logs = -np.log(plan.weights)
    return np.concatenate([[logs[1] - logs[0]], logs[2:] - logs[:-2], [logs[-1] - logs[-2]]]) / 2


@claim(
    id="E21-map",
    title="Which directions one step size learns",
    statement="At a given step size the directions of a power-law teacher above a weight proportional to it are "
    "learned in time.",
    latex=r"a_c(\eta)\propto\eta\,d^{J/2},\quad P(T_p\le3T_p^{flow})\text{ by the law of whole steps}",
    source="arXiv:2504.19983, Corollary 2.3; probabilities derived",
    kind="asymptotic",
    regime="spherical SGD, one direction at a time, the others as Gaussian noise of their variance; compared with the law of "
    "whole steps on the same directions",
    controls=(*_CONTROLS, "a boundary that does not move (gradient flow)", "a ∝ η²", "a ∝ √η"),
)
def run_map(context: Context) -> Iterator[Part]:
    """Shares of single directions, number of directions learned at the largest step size, exponent of the boundary."""
    plan = FULL if context.full else QUICK
    fine, rough, quiet, still = (plan.shares(f) for f in (predicted_share, _coarse, _quiet, _drift_only))
    measured = measured_shares(context, plan)
    errors = np.array([[share_error(p, n) for p in row] for row, n in zip(fine, plan.replicas, strict=True)])
    wrong = dict(zip(_CONTROLS, (np.ones_like(fine), still, quiet), strict=True))
    yield from (_judge_direction(plan, c, p, fine, rough, measured, errors, wrong) for c, p in plan.judged)
    yield _judge_number(plan, len(plan.scaled) - 1, fine, rough, measured, errors, wrong)
    yield _judge_exponent(plan, fine, rough, measured, errors)
    names = [f"η = {c:g} d^(−3/2), {n} runs each" for c, n in zip(plan.scaled, plan.replicas, strict=True)]
    caption = (
        f"Share of exact SGD runs that learn a direction within {HORIZON:g} gradient-flow times, against its weight "
        f"(h3, d = {plan.dim}; bars: ± two standard errors); dashed: the law of whole steps."
    )
    yield caption, learned_shares(plan.weights, measured, fine, 2 * errors, names)


_REASON = computed_by(_in_time, "the grid of the backward equation")


def _judge_direction(
    plan: Plan,
    scaled: float,
    p: int,
    fine: np.ndarray,
    rough: np.ndarray,
    measured: np.ndarray,
    errors: np.ndarray,
    wrong: dict[str, np.ndarray],
) -> Measurement:
    row, place = plan.scaled.index(scaled), plan.directions.index(p)
    weight = plan.weights[place]
    estimate = measured[row, place]
    allowed = abs(fine[row, place] - rough[row, place])
    text = f"share of runs that learn direction {p} (a = {weight:.3f}), h3, d = {plan.dim}, η d^(3/2) = {scaled:g}"
    controls = {name: float(shares[row, place]) for name, shares in wrong.items()}
    return Measurement(
        text, fine[row, place], estimate, errors[row, place], allowed, controls, _REASON, key=f"c{scaled:g}.p{p}"
    )


def _judge_number(
    plan: Plan,
    row: int,
    fine: np.ndarray,
    rough: np.ndarray,
    measured: np.ndarray,
    errors: np.ndarray,
    wrong: dict[str, np.ndarray],
) -> Measurement:
    names = ", ".join(map(str, plan.directions))
    predicted = float(fine[row].sum())
    estimate = float(measured[row].sum())
    stderr = float(np.sqrt(np.sum(errors[row] ** 2)))
    allowed = float(np.sum(np.abs(fine[row] - rough[row])))
    text = (
        f"how many of the directions p = {names} one run of each learns, h3, d = {plan.dim}, "
        f"η d^(3/2) = {plan.scaled[row]:g}"
    )
    controls = {name: float(shares[row].sum()) for name, shares in wrong.items()}
    details = {
        "weights": plan.weights.tolist(),
        "shares": measured[row].tolist(),
        "predicted shares": fine[row].tolist(),
    }
    return Measurement(text, predicted, estimate, stderr, allowed, controls, _REASON, f"c{plan.scaled[row]:g}", details)


def _judge_exponent(
    plan: Plan, fine: np.ndarray, rough: np.ndarray, measured: np.ndarray, errors: np.ndarray
) -> Measurement:
    weights = -slope_weights(np.array(plan.scaled))[:, None] * boundary_weights(plan)
    predicted, estimate = (float(np.sum(weights * shares)) for shares in (fine, measured))
    stderr = float(np.sqrt(np.sum((weights * errors) ** 2)))
    allowed = float(np.sum(np.abs(weights * (fine - rough))))
    text = (
        f"exponent in η of the smallest weight that is learned, h3, d = {plan.dim}, "
        f"η d^(3/2) = {', '.join(f'{c:g}' for c in plan.scaled)}"
    )
    controls = {"a boundary that does not move (gradient flow)": 0.0, "a ∝ η²": 2.0, "a ∝ √η": 0.5}
    details = {
        "asymptotic": 1.0,
        "boundary weights": np.exp(np.log(plan.weights[0]) - measured @ boundary_weights(plan)).tolist(),
        "predicted boundary weights": np.exp(np.log(plan.weights[0]) - fine @ boundary_weights(plan)).tolist(),
    }
    return Measurement(text, predicted, estimate, stderr, allowed, controls, _REASON, key="eta", details=details)
