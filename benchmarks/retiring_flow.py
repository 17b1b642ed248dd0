"""Hundreds of directions: the flow that retires learned pairs against fixed-step gradient descent, and against itself in d."""

import time

import numpy as np

from benchmarks.row import Row
from dynamics import gradient_descent, retiring_flow
from theory import Activation, Student, Teacher, draw_initial_state, predict

NAME = "retiring-flow"
#: Flops of gradient descent (matrix products only) over those of the retiring flow (all), and solver steps at any dimension.
LEAST_SAVING, MOST_STEPS = 10.0, 5000
#: Both loss curves must agree to this share of the loss at equal times. On the side of a stair that asks for a descent whose
#: own O(η) delay is far smaller, so the gap that remains after a shift by at most this share of the time is shown beside it.
ACCURACY = 0.01
_STEP_SIZES = (0.4, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.004, 0.0025)


def _descent_flops(steps: int, m: int, width: int) -> float:
    """Two m³ and three m²P products in a step."""
    return 2.0 * steps * (2 * m**3 + 3 * m * m * width)


def against_descent(width: int, dim: int, share: float) -> list[Row]:
    """h4, β = 0.8, m = P. The descent's step size is one of a few whose curve is right up to `share` of the run.

    Its error is of first order, so a step size that is too large says which one to try next. Beyond `share` of the run the
    number of steps is known without taking them.
    """
    activation, teacher = Activation.parse("h4"), Teacher.power_law(width, 0.8, dim)
    start = draw_initial_state(teacher, Student(width, 0.003), 0)
    end = 1.05 * float(np.median(predict(activation, teacher, start).time_half)) * 10
    marks = _STEP_SIZES[0] * np.unique(np.rint(np.geomspace(1.0, share * end, 100) / _STEP_SIZES[0]))[1:]
    times = np.unique(np.concatenate([x * marks for x in (1 - ACCURACY, 1.0, 1 + ACCURACY)]))
    begun = time.perf_counter()
    flow = retiring_flow(activation, teacher, start, t_end=end, times=times, rtol=1e-4, atol=1e-7)
    seconds = time.perf_counter() - begun
    before, same, after = (flow.loss[np.searchsorted(flow.times, x * marks)] for x in (1 - ACCURACY, 1.0, 1 + ACCURACY))
    tried = iter(_STEP_SIZES)
    eta = next(tried)
    while True:
        saves = np.rint(marks / eta).astype(int)
        run = gradient_descent(activation, teacher, start, step_size=eta, steps=int(saves[-1]), saves=saves)
        error = shifted = np.inf
        if not run.diverged:
            error = float(np.max(np.abs(run.loss / same - 1)))
            shifted = float(np.max(np.maximum(np.maximum(run.loss - before, after - run.loss), 0.0) / run.loss))
        if error <= ACCURACY or eta == _STEP_SIZES[-1]:
            break
        wanted = eta * ACCURACY / min(error, 1.0)
        eta = next((size for size in tried if size <= wanted), _STEP_SIZES[-1])
    title = f"P=m={width}, h4, d={dim}, β=0.8, to time {end:.0f}"
    saving = _descent_flops(int(end / eta), width, width) / flow.flops
    return [
        Row(NAME, f"{title}: retiring flow, compilation included", seconds, "s"),
        Row(NAME, "its solver steps", flow.steps, "steps"),
        Row(NAME, "its flops", flow.flops / 1e9, "Gflop"),
        Row(NAME, f"gradient descent, η={eta:g}: steps to the same time", int(end / eta), "steps"),
        Row(NAME, f"loss curves differ by (first {share:.0%} of the run)", error, "", ACCURACY),
        Row(NAME, f"loss curves differ by, beyond a shift of {ACCURACY:.0%} of time", shifted, ""),
        Row(NAME, "flops of gradient descent over flops of the retiring flow", saving, "x"),
        Row(NAME, "the same as a share of the aim", LEAST_SAVING / saving, "", 1.0),
    ]


def in_dimension(dims: tuple[int, ...]) -> list[Row]:
    """P = 8, m = 32: steps to 1.2 times the last emergence."""
    activation, rows = Activation.parse("h4"), []
    for dim in dims:
        teacher = Teacher.power_law(8, 1.0, dim)
        start = draw_initial_state(teacher, Student(32, 0.03), 0)
        prediction = predict(activation, teacher, start)
        flow = retiring_flow(activation, teacher, start, t_end=1.2 * prediction.last_time)
        off = float(np.max(np.abs(flow.half_time / prediction.time_half - 1)))
        rows.append(Row(NAME, f"P=8, m=32, d={dim:g}: solver steps", flow.steps, "steps", MOST_STEPS))
        rows.append(Row(NAME, f"P=8, m=32, d={dim:g}: half times off the prediction by at most", off, ""))
    return rows


def run(width: int = 256, dim: int = 1024, share: float = 0.02, dims: tuple[int, ...] = (10**4, 10**6)) -> list[Row]:
    """Rows against gradient descent and over dimensions."""
    return against_descent(width, dim, share) + in_dimension(dims)
