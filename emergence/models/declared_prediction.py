"""What ``emergence predict --model declared`` says: theory's numbers with their conditions, and what it does not know."""

import math
from typing import TYPE_CHECKING, Any

from emergence import conditions
from emergence.model import Document
from emergence.models.declared_problem import Resolved, stepping

if TYPE_CHECKING:
    import xarray as xr

    from theory.declared.known import Knowledge, Known

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
    content = {
        "problem": resolved.echo(),
        "known": [_entry(one) for one in found.known],
        "unknown": [{"quantity": one.quantity, "reason": one.sentence} for one in found.unknown],
    }
    return Document(content, _text(resolved, found))


def _entry(one: "Known") -> dict[str, object]:
    """`valid`: True, or the reasons in words; `conditions`: name, holds, value and limit of each."""
    return {
        "quantity": one.quantity,
        "direction": one.place,
        "value": one.value,
        "low": one.low,
        "high": one.high,
        "unit": one.unit,
        "source": one.source,
        "valid": one.reasons or True,
        "conditions": conditions.listed(one.conditions),
    }


def _text(resolved: Resolved, found: "Knowledge") -> str:
    from emergence import table

    rows = [
        (one.quantity, one.place, one.value, one.low, one.high, one.unit, conditions.mark(one.conditions))
        for one in found.known
    ]
    named = [(x.quantity if x.place is None else f"{x.quantity} {x.place}", x.conditions) for x in found.known]
    return "\n".join(
        [
            resolved.headline(),
            "",
            table.render(("quantity", "direction", "predicted", "low", "high", "unit", "valid"), rows),
            *conditions.explained(named),
            *(["", "not known"] if found.unknown else []),
            *(f"   {one.quantity}: {one.sentence}" for one in found.unknown),
            "",
            "time: sum of the step sizes; low to high: what finite size moves it by; never: -",
        ]
    )


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
