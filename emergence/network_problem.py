r"""Options of the experiments with networks on images: what each takes, its default, its check and its help.

Importing this module imports neither NumPy nor JAX.
"""

from dataclasses import dataclass
from typing import Any

from emergence.problem import HELP as PROBLEM_HELP
from emergence.problem import KINDS as PROBLEM_KINDS
from emergence.refusal import refuse
from emergence.values import Choice, Kind, Numbers, Switch, Text, Whole

LAZY_RICH, LABEL_NOISE_NETWORK, PRUNING = "lazy-rich", "label-noise-network", "pruning"
EXPERIMENTS = (LAZY_RICH, LABEL_NOISE_NETWORK, PRUNING)


#: Channels of a stage, at most: the array library ends the process over sizes that overflow.
LARGEST_WIDTH = 2**16


@dataclass(frozen=True)
class Option:
    """One option: its kind, its help, and its default in each experiment that takes it, small and published (``--full``)."""

    kind: Kind
    help: str
    defaults: dict[str, tuple[Any, Any]]


def _everywhere(small: Any, full: Any) -> dict[str, tuple[Any, Any]]:
    return dict.fromkeys(EXPERIMENTS, (small, full))


def _trained(small: Any, full: Any) -> dict[str, tuple[Any, Any]]:
    return dict.fromkeys((LABEL_NOISE_NETWORK, PRUNING), (small, full))


def _lazy(small: Any, full: Any) -> dict[str, tuple[Any, Any]]:
    return {LAZY_RICH: (small, full)}


OPTIONS: dict[str, Option] = {
    "data": Option(
        Text("digits"),
        "digits (scikit-learn), or the folder of CIFAR-10's Python batches",
        _everywhere("digits", "digits"),
    ),
    "full": Option(Switch(), "the published configuration instead of a small one", _everywhere(False, True)),
    "resume": Option(Switch(), "continue from the checkpoints in DIR/checkpoints", _everywhere(False, False)),
    "images": Option(Whole(), "lazy-rich: training images, and as many for testing", _lazy(32, 64)),
    "hidden": Option(Whole(), "lazy-rich: neurons of the hidden layer", _lazy(256, 512)),
    "flip_probability": Option(
        Numbers(),
        "probabilities of a flipped label, one run of label noise for each (lazy-rich: one number)",
        _lazy((0.5,), (0.5,)) | _trained((0.1,), (0.05, 0.1, 0.2)),
    ),
    "replacement": Option(
        Choice(("any", "other")), "lazy-rich: flipped labels become any class, or another class", _lazy("any", "any")
    ),
    "radius": Option(
        Numbers(), "radii of SAM, one run for each (lazy-rich: one number)", _lazy((), ()) | _trained((0.05,), (0.05,))
    ),
    "epochs": Option(Whole(), "passes over the training images", _trained(8, 160)),
    "widths": Option(
        Numbers(), "channels of each stage of the residual network", _trained((8, 16), (64, 128, 256, 512))
    ),
    "blocks": Option(Whole(), "blocks in each stage", _trained(1, 2)),
    "step_size": Option(PROBLEM_KINDS["step_size"], "", _lazy(0.05, 1e-3) | _trained(0.1, 0.1)),
    "steps": Option(PROBLEM_KINDS["steps"], "", _lazy(1500, 10_000)),
    "batch": Option(PROBLEM_KINDS["batch"], "", _trained(32, 128)),
    "replicas": Option(PROBLEM_KINDS["replicas"], "", _lazy(4, 4) | _trained(3, 3)),
    "seed": Option(PROBLEM_KINDS["seed"], "", _everywhere(0, 0)),
}
#: Options that no other simulation has: the command line adds a flag for each.
NEW = {name: option for name, option in OPTIONS.items() if name not in PROBLEM_KINDS}
assert all(name in PROBLEM_HELP for name in OPTIONS if name not in NEW)


def resolve(experiment: str, given: dict[str, Any], prefix: str = "--") -> dict[str, Any]:
    """All options of an experiment, defaults filled in.

    Raises: `InputError` for an option that the experiment does not take, or a value of the wrong kind.
    """
    checked = {}
    for name, value in given.items():
        flag = prefix + name.replace("_", "-")
        option = OPTIONS.get(name)
        if option is None or experiment not in option.defaults:
            refuse(f"{flag} is given, but {experiment} does not take it: leave it out")
        checked[name] = option.kind.check(flag, value)
    full = int(checked.get("full", False))
    values = {
        name: option.defaults[experiment][full] for name, option in OPTIONS.items() if experiment in option.defaults
    }
    values |= checked
    if experiment == LAZY_RICH:
        for name in ("flip_probability", "radius"):
            if len(values[name]) > 1:
                refuse(f"--{name.replace('_', '-')} has {len(values[name])} numbers: lazy-rich takes one")
    if "widths" in values:
        if max(values["widths"]) > LARGEST_WIDTH:
            refuse(f"--widths holds {max(values['widths']):g}: give whole numbers up to {LARGEST_WIDTH}")
        values["widths"] = tuple(Whole().check("--widths", int(x) if x == int(x) else x) for x in values["widths"])
    return values
