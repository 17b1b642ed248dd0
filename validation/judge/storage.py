"""What a claim leaves on disk: how it was judged, the data of its figures, and its own dataset if it has one."""

import json
from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from theory import InputError
from validation.figures.data import figure_data
from validation.judge.claim import Claim, Outcome, Verdict

_NUMBERS = ("predicted", "estimate", "stderr", "allowance")
_DIMS = ("quantity", "control")
_MEANING = {
    "description": "what was measured, with its unit",
    "predicted": "what theory says",
    "estimate": "what was measured",
    "stderr": "standard error from independent replicas; 0 where nothing is random",
    "allowance": "error computed from theory or a numerical tolerance",
    "used": "|estimate - predicted| / (allowance + 4 stderr)",
    "z": "standard errors outside the allowance; NaN without a standard error",
    "details": "anything else, as JSON",
    "control": "a wrong theory",
    "control_of": "the quantity that it is a wrong theory of",
    "control_predicted": "what the wrong theory says",
    "control_rejected": "whether the data tell it from the right one",
}


def claim_tree(
    claim: Claim, outcome: Outcome, verdicts: Sequence[Verdict], provenance: Mapping[str, str | int | float]
) -> xr.DataTree:
    """Everything that a claim leaves, as a netCDF file holds it.

    Args:
        verdicts: one per measurement of `outcome`. provenance: how it was made, see `dynamics.core.provenance`.

    Returns:
        At the root the verdicts, see `verdict_table`; the groups ``figure1``, ``figure2`` … with what is drawn, see
        `validation.figures.data`; the group ``data`` with the runner's own dataset, if it returned one.

    Raises: `InputError` if the runner's dataset has a dimension of the verdicts.
    """
    about = {
        "claim": claim.id,
        "title": claim.title,
        "statement": claim.statement,
        "latex": claim.latex,
        "source": claim.source,
        "regime": claim.regime,
        "kind": claim.kind,
        "rule": "agrees when used = |estimate - predicted| / (allowance + 4 stderr) is at most 1",
        "figures": len(outcome.figures),
        "seconds": max((verdict.seconds for verdict in verdicts), default=0.0),
    }
    groups: dict[str, xr.Dataset] = {"/": verdict_table(verdicts).assign_attrs({**about, **provenance})}
    if outcome.dataset is not None:
        groups["data"] = _own(claim, outcome.dataset)
    groups |= {group_of(number): data for number, data in figures_data(outcome).items()}
    return xr.DataTree.from_dict(groups)


def figures_data(outcome: Outcome) -> dict[int, xr.Dataset]:
    """What each figure shows, by its number from 1."""
    if outcome.shown is not None:
        return dict(enumerate(outcome.shown, start=1))
    return {
        number: figure_data(figure, caption, reserved=_DIMS)
        for number, (caption, figure) in enumerate(outcome.figures, start=1)
        if isinstance(figure, Figure)  # the report refuses anything else, by its name
    }


def group_of(number: int) -> str:
    """The group that holds the data of a claim's figure, counted from 1."""
    return f"figure{number}"


def verdict_table(verdicts: Sequence[Verdict]) -> xr.Dataset:
    """Verdicts as labelled variables.

    Returns:
        Along ``quantity`` (ids): ``description``, ``predicted``, ``estimate``, ``stderr``, ``allowance``,
        ``allowance_from``, ``used`` (share of the tolerance), ``z`` (NaN without a standard error), ``verdict``,
        ``expected``, ``details`` (JSON). Along ``control`` (names of the wrong theories): ``control_of`` (the quantity's
        id), ``control_predicted``, ``control_used``, ``control_z``, ``control_rejected``.
    """
    pairs = [(verdict.id, control) for verdict in verdicts for control in verdict.controls]
    measured = [verdict.measurement for verdict in verdicts]
    rows: dict[str, list[object]] = {
        "description": [x.quantity for x in measured],
        **{name: [getattr(x, name) for x in measured] for name in _NUMBERS},
        "allowance_from": [x.allowance_from for x in measured],
        "used": [verdict.used for verdict in verdicts],
        "z": [verdict.z for verdict in verdicts],
        "verdict": [verdict.verdict for verdict in verdicts],
        "expected": [verdict.claim.expected if verdict.claim.kind != "open" else "" for verdict in verdicts],
        "details": [json.dumps(x.details, default=str) for x in measured],
    }
    controls: dict[str, list[object]] = {
        "control_of": [name for name, _ in pairs],
        "control_predicted": [control.predicted for _, control in pairs],
        "control_used": [control.used for _, control in pairs],
        "control_z": [control.z for _, control in pairs],
        "control_rejected": [control.rejected for _, control in pairs],
    }
    table = xr.Dataset(
        {name: ("quantity", _column(values)) for name, values in rows.items()}
        | {name: ("control", _column(values)) for name, values in controls.items()},
        coords={
            "quantity": _column([verdict.id for verdict in verdicts]),
            "control": _column([control.name for _, control in pairs]),
        },
    )
    for name, meaning in _MEANING.items():
        table[name].attrs["long_name"] = meaning
    return table


def _column(values: Sequence[object]) -> np.ndarray:
    """Texts as objects (strings of any length), truth values as they are, the rest as double precision."""
    if all(isinstance(value, bool | np.bool_) for value in values) and values:
        return np.array(values, dtype=bool)
    return np.array(values, dtype=object if any(isinstance(value, str) for value in values) else float)


def _own(claim: Claim, dataset: xr.Dataset) -> xr.Dataset:
    taken = [name for name in _DIMS if name in dataset.dims]
    if taken:
        raise InputError(f"claim {claim.id}: its dataset has the dimension {taken[0]!r} of the verdicts: rename it")
    return dataset
