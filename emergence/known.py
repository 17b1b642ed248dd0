"""Numbers that theory knows with their conditions, and what it does not, as a table and as entries of a document."""

from typing import TYPE_CHECKING

from emergence import conditions, table

if TYPE_CHECKING:
    from theory.declared.known import Knowledge, Known, Unknown


def entries(found: "Knowledge") -> dict[str, list[dict[str, object]]]:
    """`known` and `unknown` of a document."""
    return {"known": [_entry(one) for one in found.known], "unknown": [_missing(one) for one in found.unknown]}


def lines(found: "Knowledge") -> list[str]:
    """The table, reasons below it, and what is not known."""
    rows = [
        (one.quantity, one.place, one.value, one.low, one.high, one.unit, conditions.mark(one.conditions))
        for one in found.known
    ]
    named = [((x.quantity, x.place), x.conditions) for x in found.known]
    missing = dict[str, list[conditions.Name]]()
    for one in found.unknown:
        missing.setdefault(one.sentence, []).append((one.quantity, one.place))
    return [
        table.render(("quantity", "direction", "predicted", "low", "high", "unit", "valid"), rows),
        *conditions.explained(named),
        *(["", "not known"] if missing else []),
        *(f"   {conditions.together(names)}: {sentence}" for sentence, names in missing.items()),
    ]


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


def _missing(one: "Unknown") -> dict[str, object]:
    return {"quantity": one.quantity, "direction": one.place, "reason": one.sentence}
