"""One self-contained page: what was printed, the scripts that integrate and draw it, and the problem that it opens with."""

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

import jinja2
import sympy as sp

from emergence.explorer.printing import DEGREES, printed, systems
from emergence.models.additive_problem import AdditiveProblem
from emergence.options import help_of, options
from emergence.refusal import refuse
from emergence.version import version
from theory import Activation, overlap_flow
from theory.core.indexed import Sums
from theory.linear.step import order_parameter_step
from theory.prediction.validity import Validity
from theory.quadratic.riccati import factor_system
from validation.report.formula import mathml

TITLE = "How shallow networks learn, one direction at a time"
#: The file that the page's conjecture is to be saved as.
CONJECTURE = "conjecture.toml"
#: Directions and neurons that a page holds, and the room in d that the start's draw needs beyond them.
MOST_DIRECTIONS, MOST_NEURONS, ROOM = 8, 32, 2
_CORE, _SHOWN = ("numerics.js", "model.js"), ("chart.js", "story.js", "app.js")


@dataclass(frozen=True)
class Slider:
    """A setting of the page.

    Attributes:
        key: its name in the scripts. option: the problem's option that it is. label: HTML. log: equal ratios, equal ways.
    """

    key: str
    option: str
    label: str
    min: float
    max: float
    step: float
    log: bool = False


SLIDERS = (
    Slider("P", "teacher_width", "directions <i>P</i>", 1, MOST_DIRECTIONS, 1),
    Slider("beta", "teacher_exponent", "decay <i>β</i> of the weights <i>p</i><sup>−β</sup>", 0, 2, 0.05),
    Slider("m", "student_width", "neurons <i>m</i>", 1, MOST_NEURONS, 1),
    Slider("d", "dim", "dimension <i>d</i>", 24, 1e6, 1, True),
    Slider("sigma0", "init_scale", "initial norm <i>σ</i><sub>0</sub>", 0.001, 0.3, 0.001, True),
    Slider("seed", "seed", "seed", 0, 99, 1),
)
_NOISE_SLIDERS = (
    Slider("d", "dim", "inputs <i>d</i>", 2, 8, 1),
    Slider("m", "student_width", "neurons <i>m</i>", 16, 256, 1, True),
    Slider("sigma", "noise", "label noise <i>σ</i>", 0.5, 4, 0.1),
    Slider("eta", "step_size", "step size <i>η</i>", 0.002, 0.012, 0.001, True),
)
_NOISE = {"d": 4, "m": 64, "sigma": 2.0, "eta": 0.004, "seed": 0}
#: Mixtures that are offered by name.
_OFFERED = ("h3", "h4", "h5", "h6", "0.8*h3 + 0.6*h4", "0.8*h4 + 0.6*h6")


def mixture(activation: Activation) -> dict[int, float] | None:
    """Hermite coefficients by degree, if the page's sliders can say the activation."""
    if not activation.is_polynomial or not set(activation.coefficients) <= set(DEGREES):
        return None
    return {j: float(value) for j, value in activation.coefficients.items()}


def settings(problem: AdditiveProblem, activation: Activation) -> dict[str, Any]:
    """The problem as the page has it.

    Raises `InputError` for what it cannot hold: more directions or neurons than it has room for, or an information
    exponent of 1.
    """
    for name, value, most in (
        ("teacher width", problem.width, MOST_DIRECTIONS),
        ("student-width", problem.student_width, MOST_NEURONS),
    ):
        if value > most:
            refuse(f"{name} is {value}: a page holds up to {most}, lower it")
    least = problem.width + problem.student_width + ROOM
    if problem.dim < least:
        refuse(f"dim is {problem.dim}: a page needs teacher width + student width + {ROOM} = {least}, raise it")
    if activation.information_exponent < min(DEGREES):
        refuse(
            f"activation {activation.name!r} has information exponent {activation.information_exponent}: the page shows "
            f"{min(DEGREES)} or more, use e.g. h4"
        )
    mixed = mixture(activation)
    known = {
        "P": problem.width,
        "beta": 1.0 if problem.exponent is None else problem.exponent,
        "m": problem.student_width,
        "d": problem.dim,
        "sigma0": problem.init_scale,
        "seed": problem.seed,
    }
    own = {"own": mixed is None, "mixture": {4: 1.0} if mixed is None else mixed}
    weights = None if problem.teacher_weights is None else list(problem.teacher_weights)
    return {**known, **own, "weights": weights, "normalise": problem.normalise, "time": problem.time}


def known(validity: Sequence[Validity]) -> list[dict[str, Any]]:
    """What ``emergence predict`` says of each direction, as the scripts take it: interval, what is broken, and why."""
    return [
        {
            "low": None if one.no_interval else one.low,
            "high": None if one.no_interval else one.high,
            "outside": ", ".join(condition.name for condition in one.broken),
            "why": "; ".join(one.reasons),
        }
        for one in validity
    ]


def _sliders(sliders: Sequence[Slider], at: Mapping[str, Any]) -> list[dict[str, Any]]:
    """As the scripts take them, each wide enough for its value, with the help of the option that it is."""
    found = []
    for one in sliders:
        text = help_of(AdditiveProblem, one.option) if one.option in options(AdditiveProblem) else ""
        low, high = min(one.min, at[one.key]), max(one.max, at[one.key])
        found.append({**asdict(one), "min": low, "max": high, "help": text})
    return found


def equations(activation: Activation) -> dict[str, list[str]]:
    """The drift of each system that the page integrates, and of what it steps the change over η, as MathML."""
    rate, change = r"\dot{{{}}}_{{{}}}", r"\Delta {}_{{{}}}/\eta"
    shown = ((overlap_flow(activation), rate), (factor_system(), rate), (order_parameter_step(), change))

    def line(component: sp.Indexed, sums: Sums, mark: str) -> str:
        left = mark.format(sp.latex(component.base.label), ",".join(map(str, component.indices)))
        return mathml(f"{left} = {sp.latex(sums.as_sympy())}")

    return {
        system.name.replace("-", " "): [
            *(line(component, sums, mark) for component, sums in system.drift.items()),
            *(line(symbol, sums, "{}_{{{}}}") for symbol, sums in system.definitions.items()),
        ]
        for system, mark in shown
    }


def core(own: Activation | None = None) -> str:
    """Printed systems and the scripts that give them numbers, without the page: what tests run, too."""
    return "\n".join([printed(own), *(_file(name) for name in _CORE)])


def render(
    chosen: Mapping[str, Any],
    activation: Activation,
    share: float,
    bands: Sequence[Mapping[str, Any]],
    validity: Sequence[Validity],
) -> str:
    """The page, opening with these settings, of which `validity` is, and with a step of this share of its bound; `bands`: SGD
    runs to show.
    """
    own = activation if chosen["own"] else None
    content = {
        "settings": {**chosen, "share": share},
        "sliders": _sliders(SLIDERS, chosen),
        "noiseSliders": _sliders(_NOISE_SLIDERS, _NOISE),
        "labelNoise": _NOISE,
        "activations": [{"name": name, "mixture": mixture(Activation.parse(name))} for name in _OFFERED],
        "bands": list(bands),
        "known": known(validity),
        "conjecture": CONJECTURE,
    }
    script = "\n".join([core(own), f"const page = {json.dumps(content)};", *(_file(name) for name in _SHOWN)])
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True)
    return environment.from_string(_file("template.html")).render(
        title=TITLE,
        panels=json.loads(_file("panels.json")),
        style=_file("style.css"),
        script=script.replace("</", "<\\/"),
        equations=equations(activation),
        conjecture=CONJECTURE,
        provenance=f"emergence {version()}, SymPy {sp.__version__}, Python {platform.python_version()}; equations printed "
        f"from the derived systems {', '.join(systems())}. This page asks the network for nothing.",
    )


def _file(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
