"""Random problems: does the coupled flow do what a prediction states, or does the prediction say why not?

``python -m validation.random_problems [COUNT [SEED]]`` draws activations of every kind, weights, widths, dimensions, norms
and starts, and prints, for each kind and in all, how many directions are inside (conditions hold, an interval is stated) and
right, inside and wrong, and outside for which reason; and how many of those inside tell the theory from wrong ones.
"""

import sys
from collections import Counter
from dataclasses import dataclass

import numpy as np

from dynamics import gradient_flow
from dynamics.core.interrupted import IntegrationError
from theory import Activation, Student, Teacher, draw_initial_state, predict
from theory.core.streams import stream
from theory.prediction.validity import HORIZON, validity

#: By kind; coefficients and means of every sort, none of them from the paper.
ACTIVATIONS = {
    "even": ("h4", "h6", "0.8*h4+0.6*h6", "h4+0.3*h8"),
    "both signs": ("h4", "h4-0.3*h6", "cos(2*z)-exp(-2)+2*exp(-2)*(z**2-1)"),
    "odd": ("h3", "h5", "0.7*h3-0.7*h5"),
    "both parities": ("0.5*h4-0.7*h5", "h3+0.5*h4", "h4+0.1*h5"),
    "mean": ("h4-1", "h4+0.1", "h6-0.5", "cos(2*z)-cos(z)+(2*exp(-2)-exp(-1/2)/2)*(z**2-1)"),
    "no polynomial": ("sin(z)-z*exp(-1/2)", "cos(2*z)-exp(-2)+2*exp(-2)*(z**2-1)", "erf(z)-2*z/sqrt(3*pi)"),
    "exponent 1 or 2": ("relu", "erf", "h2+h4", "cos(z)"),
}
#: Students and directions: few shapes, so that compiled code is shared.
SHAPES = ((4, 2), (6, 3))
DIMS, SCALES = (48, 96, 192, 384), (0.003, 0.03, 0.1, 0.3)


@dataclass(frozen=True)
class Judged:
    """One direction of one problem.

    Attributes:
        kind: of the activation. time: of the coupled flow, inf if not learned by the end. low, high: as stated.
        reasons: names of the conditions that do not hold, empty if inside. exponent: of the activation.
    """

    kind: str
    problem: str
    time: float
    low: float
    high: float
    reasons: tuple[str, ...]
    exponent: int

    @property
    def inside(self) -> bool:
        return not self.reasons

    @property
    def right(self) -> bool:
        """Whether the flow is where the interval says: both inf if never."""
        return self.low <= self.time <= self.high

    def tells(self, factor: float) -> bool:
        """Whether the flow would have been outside the interval of a theory whose times are this factor of ours."""
        return not factor * self.low <= self.time <= factor * self.high


def judge_problem(kind: str, text: str, seed: int) -> list[Judged]:
    """Draw one problem and judge every direction; nothing if no direction is predicted to be learned."""
    rng = stream(seed, "random problem", text)
    students, width = SHAPES[int(rng.integers(len(SHAPES)))]
    dim, scale = int(rng.choice(DIMS)), float(rng.choice(SCALES))
    weights = rng.uniform(0.3, 1.0, width) * (rng.choice((-1, 1), width) if kind == "both signs" else 1)
    activation, teacher = Activation.parse(text), Teacher.of(weights, dim, signed=kind == "both signs")
    prediction = predict(activation, teacher, draw_initial_state(teacher, Student(students, scale), rng))
    if not prediction.learned.any():
        return []
    stated = validity(prediction)  # before the flow
    end = HORIZON * prediction.last_time
    stopped: tuple[str, ...] = ()
    times = np.full(width, np.nan)
    try:
        run = gradient_flow(
            activation, teacher, prediction.initial, t_end=end, times=np.array([end]), stop_when_learned=True
        )
        times = run.half_time
    except IntegrationError:  # nothing to judge by: counted, under its own name
        stopped = ("flow stopped",)
    exponent = activation.information_exponent
    name = f"{text}, m = {students}, P = {width}, d = {dim}, norm {scale}, seed {seed}"
    found = []
    for q, (own, time) in enumerate(zip(stated, times.tolist(), strict=True)):
        silent = ("no interval",) if own.no_interval else ()  # nothing is stated
        reasons = stopped or tuple(dict.fromkeys(x.name for x in own.broken)) or silent
        found.append(Judged(kind, f"{name}, direction {q + 1}", time, own.low, own.high, reasons, exponent))
    return found


def draw(count: int, seed: int = 0) -> list[Judged]:
    """Judge `count` problems, spread evenly over the activations."""
    names = [(kind, text) for kind, texts in ACTIVATIONS.items() for text in texts]
    found: list[Judged] = []
    for kind, text in names:  # one activation after the other, so that its code is compiled once
        place = names.index((kind, text))
        for own in range(len(range(place, count, len(names)))):
            found += judge_problem(kind, text, seed + own)
    return found


def table(judged: list[Judged]) -> str:
    """Directions by kind: inside and right, inside and wrong, outside by reason; and what those inside can tell."""
    lines = [f"{'kind':16} {'directions':>10} {'right':>6} {'wrong':>6} {'outside':>8}  reasons"]
    for kind in (*ACTIVATIONS, "all"):
        own = [x for x in judged if kind in (x.kind, "all")]
        inside = [x for x in own if x.inside]
        reasons = Counter(", ".join(x.reasons) for x in own if not x.inside)
        right = sum(x.right for x in inside)
        said = "; ".join(f"{name} {number}" for name, number in reasons.most_common())
        lines.append(f"{kind:16} {len(own):10} {right:6} {len(inside) - right:6} {len(own) - len(inside):8}  {said}")
    timed = [x for x in judged if x.inside and x.right and np.isfinite(x.time) and x.time > 0]
    for name, told in (
        ("half the time", [x.tells(0.5) for x in timed]),
        ("J − 1", [x.tells((x.exponent - 2) / (x.exponent - 1)) for x in timed]),
    ):
        lines.append(f"wrong theory {name}: rejected {sum(told)} of {len(told)}")
    return "\n".join(lines)


def wrong(judged: list[Judged]) -> list[str]:
    """The directions inside whose flow is not where it was stated to be."""
    return [
        f"{x.problem}: {x.time:.5g}, stated {x.low:.5g} to {x.high:.5g}" for x in judged if x.inside and not x.right
    ]


if __name__ == "__main__":
    drawn = draw(*(int(text) for text in sys.argv[1:] or ("500",)))
    print("\n".join([table(drawn), *wrong(drawn)]))
