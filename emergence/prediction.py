"""What ``emergence predict`` says of the additive model, and tables of directions beside their conditions."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from emergence import conditions, table
from emergence.model import Document
from theory.one_task.lone_path import one_sided
from theory.prediction.rivals import in_steps
from theory.prediction.validity import Validity, staircase_reasons
from theory.scaling import ideal_loss, scaling_laws
from theory.scaling.selection import selection_probability

if TYPE_CHECKING:
    import xarray as xr

    from emergence.models.additive_problem import Resolved
    from theory.declared.additive_times import AdditiveTimes
    from theory.declared.whole_flow import Way

#: Numbers of a direction; the table also says `valid`.
COLUMNS = (
    *("direction", "weight", "neuron", "overlap2", "lead", "time_leading"),
    *("time_half", "low", "high", "time_loss", "steps_half"),
)

#: Of a direction's steps under SGD: mean over runs, what it is known to, spread of the runs. The table says `valid`, too.
_OF_SGD = ("sgd_mean", "sgd_low", "sgd_high", "sgd_spread")
_TIME = "gradient-flow time"
_BY_FLOW = "by the flow of all neurons, not of one task"
_UNSTABLE = (
    "samples_unstable: in samples n, the step size re-tuned to each n: the largest that all survive which n can learn"
)
#: Long names and units of what a file holds along ``direction``.
_MEANING = {
    "weight": ("weight of the direction", "1"),
    "overlap2": ("initial squared overlap of its neuron", "1"),
    "time_leading": ("predicted time, leading order", _TIME),
    "time_half": ("predicted time to squared overlap ½", _TIME),
    "time_loss": ("predicted time at which the loss falls", _TIME),
    "steps_half": ("predicted steps to squared overlap ½", "steps"),
}


def document(resolved: "Resolved") -> Document:
    """Who learns what and when, the staircase loss and its exponents."""
    problem = resolved.echo()  # (first, as it refuses runs that are too long)
    times, values = staircase(resolved)
    teacher, width = resolved.teacher, resolved.student.width
    steps = sgd_steps(resolved)
    content = {
        "problem": problem,
        "directions": [
            entry | {"steps_valid": own} | of_sgd
            for entry, own, of_sgd in zip(
                directions(resolved, resolved.times), steps, steps_of_sgd(resolved), strict=True
            )
        ],
        "exponents": ideal_loss.exponent_values(teacher.exponent, resolved.activation),
        "window": scaling_laws.window_exponents(teacher.exponent, teacher.width, width, resolved.activation),
        "loss": {
            "time": times,
            "value": values,
            "valid": staircase_reasons(resolved.prediction, resolved.times.validities, resolved.times.falls) or True,
        },
        "no_interval": next((own.no_interval for own in resolved.times.validities if own.no_interval), None),
    }
    return Document(content, _text(resolved, content))


def directions(resolved: "Resolved", times: "AdditiveTimes") -> list[dict[str, object]]:
    """One entry per direction, counted from 1 in the order of the weights; None where it is not learned.

    ``valid`` is True, or the reasons in words why the time is outside the theory; ``low`` and ``high`` bound time_half;
    ``by_flow`` is None, or the reasons why time_half and time_loss are those of the flow of all neurons.
    """
    prediction = resolved.prediction
    chance = _chance(resolved)
    return [
        {
            "direction": p + 1,
            "weight": float(resolved.teacher.a[p]),
            "neuron": int(times.neuron[p]) if times.neuron[p] >= 0 else None,
            "overlap2": float(_overlap(resolved, times, p) ** 2),
            "lead": float(prediction.lead[p]),
            "time_leading": float(prediction.time_leading[p]),
            "time_half": float(times.half[p]),
            "time_loss": float(times.loss[p]),
            "steps_half": _steps_half(resolved, times, p),
            "low": float(times.validities[p].low),
            "high": float(times.validities[p].high),
            "selection_probability": chance[p],
            "valid": times.validities[p].reasons or True,
            "by_flow": list(times.alone[p]) if p in times.alone else None,
        }
        for p in range(resolved.teacher.width)
    ]


def _steps_half(resolved: "Resolved", times: "AdditiveTimes", p: int) -> float | None:
    size = resolved.step_size
    return None if size is None else resolved.prediction.steps_half(p, float(times.half[p]), size)


def _overlap(resolved: "Resolved", times: "AdditiveTimes", p: int) -> float:
    """At the start, of who finds it."""
    return float(resolved.initial.overlap[times.neuron[p], p] if p in times.alone else resolved.prediction.overlap[p])


def sgd_steps(resolved: "Resolved") -> list[list[str] | bool | None]:
    """By direction, True or the reasons why SGD of the step size does not take `steps_half`; None where no law says. Of times
    by the flow, and where no other law is known, what the flow's kicks are, and whether runs go another way.
    """
    size, batch = resolved.step_size, resolved.problem.batch
    if size is None:
        return [None] * resolved.teacher.width
    found, ways = in_steps(resolved.prediction, resolved.others, size), _ways(resolved)
    found = [(*ways[p].of_sgd(p, size / batch, batch), *own[1:]) if p in ways else own for p, own in enumerate(found)]
    return [[x.sentence for x in own if not x.holds] or True if own else None for own in found]


def _ways(resolved: "Resolved") -> "dict[int, Way]":
    """Of directions whose times are those of the flow of all, and of others that no law of one task knows."""
    alone = resolved.prediction.has_sgd_law
    return ({} if alone else dict(resolved.brief.ways)) | dict(resolved.times.ways)


def steps_of_sgd(resolved: "Resolved") -> list[dict[str, Any]]:
    """By direction, the mean over runs of SGD's steps to squared overlap ½, what it is known to, and the spread of the runs;
    None where no law says. `sgd_valid`: True, or the reasons why SGD may not be as the law says.
    """
    from theory.declared.emergence import MEAN_STEPS, SPREAD_STEPS, means_of_sgd
    from theory.declared.known import Unknown
    from theory.declared.rule import Rule

    found = [dict[str, Any].fromkeys((*_OF_SGD, "sgd_valid")) for _ in range(resolved.teacher.width)]
    if resolved.step_size is None:
        return found
    rule = Rule(resolved.step_size, batch=resolved.problem.batch)
    for known in means_of_sgd(resolved.prediction, resolved.others, rule, resolved.times.validities, _ways(resolved)):
        own = found[(known.place or 1) - 1]
        if isinstance(known, Unknown):
            continue
        if known.quantity == MEAN_STEPS:
            mean = known.value, known.low, known.high
            own |= dict(zip(_OF_SGD, mean, strict=False)) | {"sgd_valid": known.reasons or True}
        elif known.quantity == SPREAD_STEPS:
            own["sgd_spread"] = known.value
    return found


def sgd_means(resolved: "Resolved") -> dict[str, list[float | None]]:
    """A column: mean steps of SGD, None of directions of which it is not known; {} if it is of none."""
    means = [own["sgd_mean"] if own["sgd_valid"] is True else None for own in steps_of_sgd(resolved)]
    return {"mean predicted": means} if any(means) else {}


def _chance(resolved: "Resolved") -> list[float | None]:
    """Per direction, how likely random initial overlaps give it a neuron at this width; None without a greedy score."""
    if resolved.activation.information_exponent < 2:
        return [None] * resolved.teacher.width
    return selection_probability(resolved.teacher, resolved.student.width, resolved.activation).tolist()


def staircase(resolved: "Resolved") -> tuple[list[float], list[float]]:
    """Times 0 and every jump, and the idealised loss just after each."""
    jumps = resolved.times.falls
    times = np.unique(np.concatenate([[0.0], jumps[np.isfinite(jumps)]]))
    return times.tolist(), replace(resolved.prediction, time_loss=jumps).loss(times).tolist()


def marks(validities: Sequence[Validity]) -> list[str]:
    """``yes``, or the names of the conditions that do not hold, for a column ``valid``."""
    return [conditions.mark(own.conditions) for own in validities]


def explained(reasons: Iterable[Iterable[str]], what: str = "outside") -> list[str]:
    """One line for every reason, with the directions that it puts outside."""
    found: dict[str, list[int]] = {}
    for place, own in enumerate(reasons, start=1):
        for reason in own:
            found.setdefault(reason, []).append(place)
    return [f"{what}, direction {conditions.in_runs(places)}: {reason}" for reason, places in found.items()]


def late(reasons: Iterable[list[str] | bool | None]) -> list[str]:
    """`sgd_steps` as lines."""
    return explained((own if isinstance(own, list) else [] for own in reasons), "steps_half is not SGD's")


def _of_sgd(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Means and spreads of SGD as a table, and why they are outside where `late` does not say it."""
    known = [entry for entry in entries if entry["sgd_mean"] is not None]
    if not known:
        return []
    said = {reason for entry in entries if isinstance(entry["steps_valid"], list) for reason in entry["steps_valid"]}
    outside = [entry["sgd_valid"] if isinstance(entry["sgd_valid"], list) else [] for entry in entries]
    rows = [[entry["direction"], *(entry[name] for name in _OF_SGD), _names(entry["sgd_valid"])] for entry in known]
    return [
        "",
        "steps of SGD to squared overlap ½: mean over runs (low to high: what it is known to), and their spread",
        table.render(("direction", *(name.removeprefix("sgd_") for name in _OF_SGD), "valid"), rows),
        *explained([x for x in own if x not in said] for own in outside),
    ]


def _names(valid: list[str] | bool) -> str:
    return ", ".join(reason.split(":")[0] for reason in valid) if isinstance(valid, list) else "yes"


def _stairs(resolved: "Resolved", loss: dict) -> list[str]:
    """The staircase as text; below information exponent 3 there is none."""
    if resolved.activation.information_exponent < 3:
        return ["no staircase of the loss: directions do not emerge one after the other"]
    outside = [] if loss["valid"] is True else [f"outside: {reason}" for reason in loss["valid"]]
    return [
        "loss just after each jump",
        *outside,
        table.render(("time", "loss"), list(zip(loss["time"], loss["value"], strict=True))),
    ]


def _never(resolved: "Resolved") -> list[str]:
    """Why directions have no neuron and no time."""
    lost = [str(place) for place, neuron in enumerate(resolved.prediction.neuron, start=1) if neuron < 0]
    if not lost:
        return []
    wrong = ", and one whose overlap has the wrong sign finds none" if one_sided(resolved.activation) else ""
    count = resolved.student.width
    several = "s" if len(lost) > 1 else ""
    return [
        f"-, direction{several} {', '.join(lost)}: no neuron is left of {count} that leans towards it: never found (a neuron "
        f"finds one direction{wrong})"
    ]


def _text(resolved: "Resolved", document: dict) -> str:
    valid = marks(resolved.times.validities)
    rows = [[*(entry[name] for name in COLUMNS), own] for entry, own in zip(document["directions"], valid, strict=True)]
    exponents = ", ".join(f"{name} {table.cell(value)}" for name, value in document["exponents"].items())
    loss, window = document["loss"], document["window"]
    finite = []
    if window is not None:
        slopes = ", ".join(f"{name} {table.cell(value)}" for name, value in window.items() if name != "directions")
        finite = [f"at this size, directions {window['directions'][0]:g} to {window['directions'][1]:g}: {slopes}"]
    return "\n".join(
        [
            resolved.headline(),
            "",
            table.render((*COLUMNS, "valid"), rows),
            *explained(own.reasons for own in resolved.times.validities),
            *explained((resolved.times.alone.get(p, ()) for p in range(len(rows))), _BY_FLOW),
            *late(entry["steps_valid"] for entry in document["directions"]),
            *_never(resolved),
            *([f"no interval: {document['no_interval']}"] if document["no_interval"] else []),
            *_of_sgd(document["directions"]),
            "",
            *_stairs(resolved, loss),
            "",
            f"exponents of the loss in: {exponents}",
            *([_UNSTABLE] if document["exponents"]["samples_unstable"] is not None else []),
            *finite,
            *([f"kernel: {resolved.truncated()}"] if resolved.activation.drift_truncation_error else []),
            "times are gradient-flow times of ½E(f*−f)²; steps = time / step size, and what whole ones are behind it;",
            "low to high: time_half with what finite size moves it by; lead: by which factor the pair is clear of a tie",
        ]
    )


def columns(
    entries: Sequence[Mapping[str, Any]], exponents: Mapping[str, float | None], step_size: float | None
) -> "xr.Dataset":
    """Entries of directions as variables along ``direction``, and exponents; NaN where there is none."""
    import xarray as xr

    numbers = [name for name in COLUMNS[1:] if name not in ("low", "high")]
    found: dict[str, tuple[Any, ...]] = {
        name: ("direction", [_number(entry.get(name)) for entry in entries]) for name in numbers
    }
    found["valid"] = ("direction", [float(entry.get("valid", True) is True) for entry in entries])
    for name, (text, unit) in _MEANING.items():
        if name in found:
            found[name] = (*found[name], {"long_name": text, "units": unit})
    scalars = {f"exponent_{name}": _number(value) for name, value in exponents.items()}
    return xr.Dataset(
        {**found, **scalars, "step_size": _number(step_size)}, coords={"direction": np.arange(1, len(entries) + 1)}
    )


def _number(value: Any) -> float:
    return math.nan if value is None or not math.isfinite(value) else float(value)


def beside(
    validities: Sequence[Validity], found: Mapping[str, Iterable[Any]], notes: Sequence[str] = ()
) -> table.Table:
    """A table, one row per direction, that says which predictions are outside their conditions, and why; then `notes`."""
    rows = [
        (p, *(_plain(x) for x in row), mark)
        for p, (*row, mark) in enumerate(zip(*found.values(), marks(validities), strict=True), start=1)
    ]
    below = [*explained(own.reasons for own in validities), *notes]
    return table.Table(("direction", *found, "predicted valid"), rows, below=below)


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, np.floating) else value


def over_replicas(times: np.ndarray, lost: np.ndarray | None = None, spread: bool = False) -> dict[str, list[Any]]:
    """Number of the replicas that got there, their mean and standard error, per direction; `lost` ones never do.

    None where too few did. `spread`: their standard deviation, too.
    """
    columns: dict[str, list[Any]] = {
        name: [] for name in ("reached it", "their mean", "±", *(("spread",) if spread else ()))
    }
    kept = times if lost is None else np.where(np.asarray(lost)[:, None], np.inf, times)
    for own in kept.T:
        reached = own[np.isfinite(own)]
        deviation = float(reached.std(ddof=1)) if reached.size > 1 else None
        columns["their mean"].append(float(reached.mean()) if reached.size else None)
        columns["±"].append(None if deviation is None else deviation / math.sqrt(reached.size))
        if spread:
            columns["spread"].append(deviation)
        columns["reached it"].append(f"{reached.size} of {own.size}")
    return columns
