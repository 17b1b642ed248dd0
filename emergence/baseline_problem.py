r"""Options of the baselines' simulations: what each takes, its default, its check and its help.

Importing this module imports neither NumPy nor JAX.
"""

from typing import Any

from emergence.network_problem import Option
from emergence.problem import KINDS as PROBLEM_KINDS
from emergence.refusal import refuse
from emergence.values import Number, Numbers, Text

LAYER_WISE, KERNEL_RIDGE, TOY = "layer-wise", "kernel-ridge", "toy"
BASELINES = (LAYER_WISE, KERNEL_RIDGE, TOY)
_TEACHER = (
    "activation",
    "dim",
    "teacher_width",
    "teacher_exponent",
    "teacher_weights",
    "normalise",
    "replicas",
    "seed",
)
#: Options of the additive model's problem that each simulation takes.
SHARED = {
    LAYER_WISE: (*_TEACHER, "student_width", "step_size", "batch", "steps", "time", "method", "allow_unstable"),
    KERNEL_RIDGE: _TEACHER,
    TOY: (),
}
#: Defaults of shared options that differ from the additive model's.
CHANGED: dict[str, dict[str, Any]] = {
    LAYER_WISE: {"activation": "h3", "dim": 32, "teacher_width": 2, "student_width": 8, "replicas": 16},
    KERNEL_RIDGE: {"activation": "h3", "dim": 12, "teacher_width": 2, "replicas": 8},
    TOY: {},
}


def _one(name: str, default: Any) -> dict[str, tuple[Any, Any]]:
    return {name: (default, default)}


#: Options of their own; a default of None is decided by the problem.
NEW: dict[str, Option] = {
    "kernel": Option(
        Text("exp"), "kernel of the inner product: exp, or an activation (its dual kernel)", _one(KERNEL_RIDGE, "exp")
    ),
    "ridge": Option(
        Number(),
        "ridge of the kernel regression, or of the second layer's fit",
        _one(KERNEL_RIDGE, 1e-3) | _one(LAYER_WISE, 1e-6),
    ),
    "samples": Option(
        Numbers(),
        "kernel-ridge: numbers of training samples; layer-wise: fresh samples of the second layer (default: population fit)",
        _one(KERNEL_RIDGE, None) | _one(LAYER_WISE, None),
    ),
    "exponents": Option(
        Numbers(), "toy: exponents k of (w* - w^k)^2, and of products of k factors", _one(TOY, (1, 2, 3, 4))
    ),
    "starts": Option(Numbers(), "toy: starts of w", _one(TOY, (0.01, 0.001))),
    "goal": Option(Number(), "toy: w*", _one(TOY, 1.0)),
}


def resolve(what: str, given: dict[str, Any], prefix: str = "--") -> tuple[dict[str, Any], dict[str, Any]]:
    """(shared options given, own options with defaults). Raises `InputError` for one that `what` does not take."""
    shared, own = {}, {name: option.defaults[what][0] for name, option in NEW.items() if what in option.defaults}
    for name, value in given.items():
        flag = prefix + name.replace("_", "-")
        if name in own:
            own[name] = NEW[name].kind.check(flag, value)
        elif name in SHARED[what]:
            shared[name] = PROBLEM_KINDS[name].check(flag, value)
        else:
            refuse(f"{flag} is given, but {what} does not take it: leave it out")
    return shared, own


def kinds(what: str) -> dict[str, Any]:
    """Kind of every option, own or shared, as configuration files know them."""
    return {name: PROBLEM_KINDS[name] for name in SHARED[what]} | {
        name: option.kind for name, option in NEW.items() if what in option.defaults
    }
