"""Makes the figures of the README with the toolkit itself: ``make figures`` writes ``docs/img/*.png``."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from dynamics import FlowResult, gradient_flow
from theory import Activation, Prediction, Student, Teacher, draw_initial_state, predict
from validation.figures.common import overlap_curves, staircase

IMAGES = Path(__file__).resolve().parent / "img"
DIM, WIDTH, STUDENTS, SEED = 10_000, 8, 32, 0


def run() -> tuple[Prediction, FlowResult]:
    """h4, weights p⁻¹, d = 10⁴: prediction and coupled gradient flow from one random start."""
    activation, teacher = Activation.parse("h4"), Teacher.power_law(WIDTH, 1.0, DIM)
    initial = draw_initial_state(teacher, Student(STUDENTS, 0.03), SEED)
    prediction = predict(activation, teacher, initial)
    end = 1.15 * prediction.last_time
    times = np.geomspace(0.5 * float(prediction.time_half.min()), end, 500)
    return prediction, gradient_flow(activation, teacher, initial, t_end=end, times=times)


def overlaps(prediction: Prediction, flow: FlowResult) -> Figure:
    """Overlap curves, predicted times dashed, in the order of learning."""
    order = prediction.selection.directions
    squares = flow.dataset.overlap.values[:, prediction.neuron[order], order] ** 2
    labels = [f"direction {p + 1}" for p in order]
    time = flow.dataset.time.values
    return overlap_curves(time, squares, prediction.time_half[order], labels, flow.half_time[order], log_time=True)


def loss(prediction: Prediction, flow: FlowResult) -> Figure:
    """Loss beside the idealised staircase."""
    jumps = np.concatenate([[0.0], np.sort(prediction.time_loss)])
    time, value = flow.dataset.time.values, flow.dataset.loss.values
    figure = staircase(time, value, jumps, prediction.loss(jumps), log=False)
    figure.axes[0].set_xscale("log")
    return figure


def main() -> None:
    """Write both figures."""
    prediction, flow = run()
    IMAGES.mkdir(exist_ok=True)
    for name, figure in (("overlaps", overlaps(prediction, flow)), ("staircase", loss(prediction, flow))):
        figure.savefig(IMAGES / f"{name}.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
