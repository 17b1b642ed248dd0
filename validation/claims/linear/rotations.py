"""L28: boosts in different directions compose to rotations, which mix the directions of a small training set."""

from collections.abc import Iterator

import numpy as np
import scipy

from theory import LinearTask, draw_linear_start, draw_linear_task
from theory.linear.fitting import Fitted, fitted
from theory.linear.phases import Geometry, Law, left_out, stability_limit
from validation.judge.claim import Measurement, Part, claim
from validation.judge.context import Context
from validation.statistics.standard_errors import mean_and_error

COST = 5

_DIM, _POINTS, _WIDTH, _NOISE, _STEPS, _SHARE = 10, 22, 200, 8.0, 19_000, 0.2


@claim(
    id="L28",
    title="Rotations",
    statement="Boosts sweep areas, each of their modes at its own pace, and so turn the inputs: in a small training "
    "set the direction of most data keeps what rotations bring to it from those of little data, up to what the averaged flow "
    "leaves out.",
    latex=r"\Delta E\,\tilde\Omega_{ij}^2=2\eta b_ib_j\frac{\lambda_i\lambda_j}{\lambda_i+\lambda_j}",
    source="derived",
    kind="asymptotic",
    regime=f"{_POINTS} points, d = {_DIM}, m = {_WIDTH}, σ = {_NOISE:g}, a fifth of the largest step size, {_STEPS} steps",
    controls=("no rotations", "rotations twice as fast"),
)
def run_rotations(context: Context) -> Iterator[Part]:
    """Mean ‖Wu‖² along the direction u of most data, over the predicted one."""
    task = draw_linear_task(_DIM, 1.0, _POINTS, 1)
    geometry, begin = Geometry.of(task), fitted(task.target, _DIM, _WIDTH)
    step_size = _SHARE * stability_limit(geometry, begin.gram, begin.norm2)
    law, along = Law(geometry, step_size, _NOISE, 1), np.linalg.eigh(geometry.covariance)[1][:, -1]
    predicted, boost = _along(law, begin, along, 1.0)
    wrong = {"no rotations": 0.0, "rotations twice as fast": 2.0}
    controls = {text: _along(law, begin, along, speed)[0] / predicted for text, speed in wrong.items()}
    gram = _grams(context, task, step_size)
    estimate, stderr = mean_and_error(np.einsum("i,rij,j->r", along, gram, along) / predicted)
    text = "‖Wu‖² along the direction of most data, measured / predicted"
    allowed, source = (
        left_out(boost, _DIM),
        "(tr β)² + 2 tr β/d: the second order in β, and that S varies with a boost",
    )
    yield Measurement(text, 1.0, estimate, stderr, allowed, controls, source, "", {"predicted": predicted})


def _along(law: Law, begin: Fitted, along: np.ndarray, speed: float) -> tuple[float, float]:
    """Mean ‖Wu‖² at the end, if rotations are as many times as fast; and tr β."""
    dim = len(along)

    def rate(_: float, packed: np.ndarray) -> np.ndarray:
        gram, norm2 = packed[:-1].reshape(dim, dim), float(packed[-1])
        moving, other = law.layers(gram, norm2)
        return np.append(moving + (speed - 1) * law.mixing(gram, law.relaxed(gram, norm2)), other)

    first = np.append(begin.gram, begin.norm2)
    end = scipy.integrate.solve_ivp(rate, (0, _STEPS), first, "LSODA", rtol=1e-7, atol=1e-9).y[:, -1]
    gram, _, now = law.observed(end[:-1].reshape(dim, dim), float(end[-1]))
    return float(along @ gram @ along), float(np.trace(now.boost))


def _grams(context: Context, task: LinearTask, step_size: float) -> np.ndarray:
    """WᵀW after SGD, (replica, d, d): the Gram matrix of [W a] is a chain by itself, of products of boosts."""
    assert task.inputs is not None
    rng, replicas = context.rng("L28", "samples"), context.pick(96, 384)
    start = draw_linear_start(_WIDTH, _DIM, context.rng("L28", "start"), replicas)
    joint = np.concatenate([start.first, start.second[..., None]], axis=2)
    gram, boost = np.swapaxes(joint, 1, 2) @ joint, np.tile(np.eye(_DIM + 1), (replicas, 1, 1))
    for _ in range(_STEPS):
        x = task.inputs[rng.integers(_POINTS, size=replicas)]
        error = np.sum((gram[:, :-1, -1] - task.target) * x, axis=1) - _NOISE * rng.choice([-1, 1], replicas)
        boost[:, :-1, -1] = boost[:, -1, :-1] = -step_size * error[:, None] * x
        gram = boost @ gram @ boost
    return gram[:, :-1, :-1]
