"""``emergence predict``: closed-form predictions, no integration and no JAX."""

import argparse
import math

import numpy as np

import theory
from emergence import config, quadratic, table, uses
from emergence.arguments import problem_flags
from emergence.commands import linear
from emergence.commands.setup import announce, headline
from emergence.resolve import Resolved, resolve, truncated
from emergence.result import Result
from theory import ideal_loss, scaling_laws
from theory.lone_path import one_sided
from theory.selection import selection_probability

HEADERS = ("direction", "weight", "neuron", "overlap2", "time_leading", "time_half", "time_loss", "steps_half")


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
        "directions": directions(resolved),
        "exponents": ideal_loss.exponent_values(resolved.teacher.exponent, resolved.activation),
        "window": scaling_laws.window_exponents(
            resolved.teacher.exponent, resolved.teacher.width, resolved.student.width, resolved.activation
        ),
        "loss": {"time": times, "value": values},
    }
    return Result(document, _text(resolved, document))


def directions(resolved: Resolved) -> list[dict[str, object]]:
    """One entry per direction, counted from 1 in the order of the weights; None where it is not learned."""
    prediction = resolved.prediction
    chance = _chance(resolved)
    return [
        {
            "direction": p + 1,
            "weight": float(resolved.teacher.a[p]),
            "neuron": int(prediction.neuron[p]) if prediction.neuron[p] >= 0 else None,
            "overlap2": _finite(prediction.overlap[p] ** 2),
            "time_leading": _finite(prediction.time_leading[p]),
            "time_half": _finite(prediction.time_half[p]),
            "time_loss": _finite(prediction.time_loss[p]),
            "steps_half": None if resolved.step_size is None else _finite(prediction.time_half[p] / resolved.step_size),
            "selection_probability": chance[p],
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


def _text(resolved: Resolved, document: dict) -> str:
    rows = [[entry[name] for name in HEADERS] for entry in document["directions"]]
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
            table.render(HEADERS, rows),
            "",
            "loss just after each jump",
            table.render(("time", "loss"), list(zip(loss["time"], loss["value"], strict=True))),
            "",
            f"exponents of the loss in: {exponents}",
            *finite,
            *([f"kernel: {truncated(resolved.activation)}"] if resolved.activation.drift_truncation_error else []),
            "times are gradient-flow times of ½E(f*−f)²; steps = time / step size",
        ]
    )
