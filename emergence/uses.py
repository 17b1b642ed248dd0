"""Which options of a problem each command uses.

A flag that would change nothing is refused; a configuration file describes a problem, and may say more of it than one
command uses. Importing this module imports nothing heavy.
"""

from collections.abc import Iterable

from emergence.baseline_problem import BASELINES, SHARED
from emergence.baseline_problem import NEW as BASELINE_OPTIONS
from emergence.linear_problem import LINEAR_KINDS
from emergence.network_problem import EXPERIMENTS
from emergence.network_problem import OPTIONS as NETWORK_OPTIONS
from emergence.problem import KINDS
from emergence.refusal import refuse

_TEACHER = ("activation", "dim", "teacher_width", "teacher_exponent", "teacher_weights", "normalise")
_LENGTH = ("step_size", "steps", "time")
_ADDITIVE = frozenset({*_TEACHER, "student_width", "init_scale", "seed", "step_size", "allow_unstable"})
_RUN = _ADDITIVE | {"steps", "time"}
_RICCATI = frozenset({*_TEACHER, "student_width", "speed_factor", "seed", *_LENGTH})
_LINEAR = frozenset({"dim", "student_width", "target_norm", "train_size", "step_size", "seed"})
_NOISE = _LINEAR | {"noise", "label_flip", "linearised", "batch", "allow_unstable"}
_SIMULATED = {
    "gradient-flow": _RUN,
    "finite-step": _RUN | {"batch"},
    "online-sgd": _RUN | {"batch", "replicas", "method"},
    "sde": _RUN | {"batch", "replicas"},
    "riccati": _RICCATI | {"replicas"},
    "stiefel-sgd": _RICCATI | {"replicas", "batch", "method", "allow_unstable"},
}
_PREDICT = _ADDITIVE | {"batch"}
_PREDICT_QUADRATIC = _RICCATI | {"init_scale"}

#: Command (and what it computes) → the options that can change what it computes.
USES: dict[str, frozenset[str]] = {
    "predict": _PREDICT,
    "predict of quadratic": _PREDICT_QUADRATIC,
    "predict --model linear": _NOISE,
    "compare": _SIMULATED["online-sgd"],
    "compare --model linear": _NOISE | {"noise_period", "steps", "replicas"},
    **{f"simulate {what}": used for what, used in _SIMULATED.items()},
    "simulate label-noise": _NOISE | {"noise_period", "steps", "replicas"},
    "simulate oscillation": _LINEAR | {"steps", "replicas"},
    "simulate sam": _LINEAR
    | {"sam_radius", "full_batch", "linearised", "batch", "allow_unstable", "steps", "replicas"},
    **{
        f"simulate {what}": frozenset(SHARED[what])
        | {name for name, option in BASELINE_OPTIONS.items() if what in option.defaults}
        for what in BASELINES
    },
    **{
        f"simulate {what}": frozenset(name for name, option in NETWORK_OPTIONS.items() if what in option.defaults)
        for what in EXPERIMENTS
    },
    "sweep predict": _PREDICT | _PREDICT_QUADRATIC,
    **{f"sweep {what}": used for what, used in _SIMULATED.items()},
    "sweep retiring-flow": _ADDITIVE - {"step_size", "allow_unstable"} | {"time"},
    "sweep gradient-descent": _RUN,
}
#: Every option that some command uses.
OPTIONS = frozenset({*KINDS, *LINEAR_KINDS, *BASELINE_OPTIONS, *NETWORK_OPTIONS} - {"model"})
#: So many other commands are named.
_NAMED = 4


def check(command: str, given: Iterable[str], prefix: str = "--") -> None:
    """Refuse an option, among those `given` by hand, that `command` does not use: a line that names those that do."""
    for name in given:
        if name in OPTIONS and name not in USES[command]:
            others = [other for other, used in USES.items() if name in used and not other.startswith("sweep")]
            more = ", …" if len(others) > _NAMED else ""
            refuse(
                f"{prefix}{name.replace('_', '-')} is given, but {command} does not use it "
                f"({', '.join(others[:_NAMED])}{more} {'does' if len(others) == 1 else 'do'}): leave it out"
            )
