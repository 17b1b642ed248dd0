"""``emergence predict``: predictions with their conditions; nothing coupled is integrated, and no JAX."""

import argparse
import math
from collections.abc import Sequence

import numpy as np

import theory
from emergence import config, quadratic, table, uses
from emergence.arguments import problem_flags
from emergence.commands import linear
from emergence.commands.setup import announce, headline
from emergence.resolve import Resolved, resolve, truncated
from emergence.result import Result
from theory.one_task.lone_path import one_sided
from theory.prediction.validity import Validity, staircase_reasons
from theory.scaling import ideal_loss, scaling_laws
from theory.scaling.selection import selection_probability

#: Numbers of a direction; the table also says `valid`.
COLUMNS = (
    *("direction", "weight", "neuron", "overlap2", "lead", "time_leading"),
    *("time_half", "low", "high", "time_loss", "steps_half"),
)


def run(arguments: argparse.Namespace) -> Result:
    """Who learns what and when, the staircase loss and its exponents."""
    if config.model(arguments.model, arguments.config) == "linear":
        return linear.predict(arguments)
    problem = config.build(problem_flags(arguments), arguments.config)
    if theory.Activation.parse(problem.activation).is_quadratic:
        uses.check("predict of quadratic", vars(arguments))
        return quadratic.predict(problem)
    uses.check("predict", vars(arguments))
    resolved = resolve(problem)
    announce(resolved)
    times, values = staircase(resolved)
    document = {
        "problem": resolved.echo(),
        "directions": directions(resolved, resolved.validity),
        "exponents": ideal_loss.exponent_values(resolved.teacher.exponent, resolved.activation),
        "window": scaling_laws.window_exponents(
            resolved.teacher.exponent, resolved.teacher.width, resolved.student.width, resolved.activation
        ),
        "loss": {
            "time": times,
            "value": values,
            "valid": staircase_reasons(resolved.prediction, resolved.validity) or True,
        },
        "no_interval": resolved.validity[0].no_interval or None,
    }
    return Result(document, _text(resolved, document))


def directions(resolved: Resolved, validities: Sequence[Validity]) -> list[dict[str, object]]:
    """One entry per direction, counted from 1 in the order of the weights; None where it is not learned.

    ``valid`` is True, or the reasons in words why the time is outside the theory; ``low`` and ``high`` bound time_half.
    """
    prediction = resolved.prediction
    chance = _chance(resolved)
    return [
        {
            "direction": p + 1,
            "weight": float(resolved.teacher.a[p]),
            "neuron": int(prediction.neuron[p]) if prediction.neuron[p] >= 0 else None,
            "overlap2": _finite(prediction.overlap[p] ** 2),
            "lead": _finite(prediction.lead[p]),
            "time_leading": _finite(prediction.time_leading[p]),
            "time_half": _finite(prediction.time_half[p]),
            "time_loss": _finite(prediction.time_loss[p]),
            "steps_half": None if resolved.step_size is None else _finite(prediction.time_half[p] / resolved.step_size),
            "low": _finite(validities[p].low),
            "high": _finite(validities[p].high),
            "selection_probability": chance[p],
            "valid": validities[p].reasons or True,
        }
        for p in range(resolved.teacher.width)
    ]


def _chance(resolved: Resolved) -> list[float | None]:
    """Per direction, how likely random initial overlaps give it a neuron at this width; None without a greedy score."""
    exponent = resolved.activation.information_exponent
    if exponent < 2:
        return [None] * resolved.teacher.width
    return selection_probability(
        resolved.teacher, resolved.student.width, exponent, one_sided(resolved.activation)
    ).tolist()


def staircase(resolved: Resolved) -> tuple[list[float], list[float]]:
    """Times 0 and every jump, and the idealised loss just after each."""
    jumps = resolved.prediction.time_loss
    times = np.unique(np.concatenate([[0.0], jumps[np.isfinite(jumps)]]))
    return times.tolist(), resolved.prediction.loss(times).tolist()


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def marks(validities: Sequence[Validity]) -> list[str]:
    """``yes``, or the names of the conditions that do not hold, for a column ``valid``."""
    return [", ".join(dict.fromkeys(x.name for x in own.broken)) or "yes" for own in validities]


def explained(validities: Sequence[Validity]) -> list[str]:
    """One line for every reason, with the directions that it puts outside."""
    found: dict[str, list[str]] = {}
    for place, own in enumerate(validities, start=1):
        for reason in own.reasons:
            found.setdefault(reason, []).append(str(place))
    return [f"outside, direction {', '.join(places)}: {reason}" for reason, places in found.items()]


def _stairs(resolved: Resolved, loss: dict) -> list[str]:
    """The staircase as text; below information exponent 3 there is none."""
    if resolved.activation.information_exponent < 3:
        return ["no staircase of the loss: directions do not emerge one after the other"]
    outside = [] if loss["valid"] is True else [f"outside: {reason}" for reason in loss["valid"]]
    return [
        "loss just after each jump",
        *outside,
        table.render(("time", "loss"), list(zip(loss["time"], loss["value"], strict=True))),
    ]


def _text(resolved: Resolved, document: dict) -> str:
    valid = marks(resolved.validity)
    rows = [[*(entry[name] for name in COLUMNS), own] for entry, own in zip(document["directions"], valid, strict=True)]
    exponents = ", ".join(f"{name} {table.cell(value)}" for name, value in document["exponents"].items())
    loss, window = document["loss"], document["window"]
    finite = []
    if window is not None:
        slopes = ", ".join(f"{name} {table.cell(value)}" for name, value in window.items() if name != "directions")
        finite = [f"at this size, directions {window['directions'][0]:g} to {window['directions'][1]:g}: {slopes}"]
    return "\n".join(
        [
            headline(resolved),
            "",
            table.render((*COLUMNS, "valid"), rows),
            *explained(resolved.validity),
            *([f"no interval: {document['no_interval']}"] if document["no_interval"] else []),
            "",
            *_stairs(resolved, loss),
            "",
            f"exponents of the loss in: {exponents}",
            *finite,
            *([f"kernel: {truncated(resolved.activation)}"] if resolved.activation.drift_truncation_error else []),
            "times are gradient-flow times of ½E(f*−f)²; steps = time / step size; low to high: time_half with what finite",
            "size moves it by; lead: by which factor the pair is clear of a tie",
        ]
    )
