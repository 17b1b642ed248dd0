"""What ``emergence predict --model declared`` says: theory's numbers with their conditions, and what it does not know."""

import math
from typing import TYPE_CHECKING, Any

from emergence import known
from emergence.model import Document
from emergence.models.declared_problem import Resolved, stepping

if TYPE_CHECKING:
    import xarray as xr

    from theory.declared.known import Knowledge

#: Names in the data: of what there is for each direction, and once.
BY_DIRECTION = {
    "emergence, leading order": "time_leading",
    "emergence": "time_half",
    "half of its norm fitted": "time_loss",
    "emergence in steps": "steps_half",
    "squared norm at rest": "rest_norm",
    "emergence of SGD, mean": "sgd_mean",
    "emergence of SGD, spread": "sgd_spread",
    "share of SGD that turns to -e": "sgd_turned",
    "emergence of SGD at e, mean": "sgd_mean_at_e",
    "emergence of SGD at e, spread": "sgd_spread_at_e",
}
ONCE = {
    "information exponent of the link": "link_exponent",
    "information exponent of the activation": "activation_exponent",
    "first common degree": "common_degree",
    "generative exponent of the link": "generative_exponent",
    "leap": "leap",
    "flow time of the leap": "leap_time_power",
    "samples of the leap": "leap_sample_power",
    "growth rate of the plateau": "plateau_rate",
    "escape from the plateau": "escape_time",
    "effective step": "effective_step",
    "lag of the gradient": "lag",
    "loss at rest": "floor",
    "loss at rest of SGD": "sgd_floor",
    "loss that no estimator beats": "bayes_floor",
    "largest step size": "largest_step_size",
    "leading degree of the rule": "rule_degree",
    "leading degree at overlap d^-1/2": "rule_degree_at_start",
    "coefficient of the leading degree": "rule_coefficient",
    "noise over signal": "rule_noise",
    "samples of the rule": "rule_sample_power",
    "overlap to start above": "rule_barrier",
}
#: Of each direction: the interval of its emergence, and whether that is within its conditions.
_BESIDE = ("low", "high", "valid")
VARIABLES = (*BY_DIRECTION.values(), *_BESIDE, *ONCE.values())


def knowledge(resolved: Resolved) -> "Knowledge":
    """What theory knows of the problem."""
    from theory.declared.predict import predict

    with stepping(resolved.problem.rule):
        rule = resolved.model.rule
        return predict(resolved.model, resolved.start, rule.samples or resolved.steps * rule.batch)


def document(resolved: Resolved) -> Document:
    """Every number with unit, source and conditions; and what is not known, in one line each."""
    found = knowledge(resolved)
    below = "time: sum of the step sizes; low to high: what finite size moves it by; never: -"
    text = "\n".join([resolved.headline(), "", *known.lines(found), "", below])
    return Document({"problem": resolved.echo(), **known.entries(found)}, text)


def data(resolved: Resolved) -> "xr.Dataset":
    """The numbers, NaN where there is none."""
    import numpy as np
    import xarray as xr

    found, count = knowledge(resolved), resolved.model.target.count
    columns = {name: np.full(count, math.nan) for name in (*BY_DIRECTION.values(), *_BESIDE)}
    once: dict[str, Any] = dict.fromkeys(ONCE.values(), math.nan)
    for one in found.known:
        value = one.value if math.isfinite(one.value) else math.nan
        if one.quantity in BY_DIRECTION and one.place is not None:
            columns[BY_DIRECTION[one.quantity]][one.place - 1] = value
            if one.quantity == "emergence":
                for name, beside in zip(_BESIDE, (one.low, one.high, not one.reasons), strict=True):
                    columns[name][one.place - 1] = beside if math.isfinite(beside) else math.nan
        else:
            once[ONCE[one.quantity]] = value
    by_direction = {name: ("direction", values) for name, values in columns.items()}
    made = xr.Dataset({**by_direction, **once}, coords={"direction": np.arange(1, count + 1)})
    units = {one.quantity: one.unit for one in found.known}
    for quantity, name in (BY_DIRECTION | ONCE).items():
        made[name].attrs = {"long_name": f"predicted {quantity}", "units": units.get(quantity, "1")}
    return made
