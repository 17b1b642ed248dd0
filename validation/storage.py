"""What a claim leaves on disk: its judged quantities, and its own dataset if it has one."""

import json

import numpy as np
import xarray as xr

from validation.claim import Claim, Outcome, judge


def measurements_dataset(claim: Claim, outcome: Outcome) -> xr.Dataset:
    """A claim's quantities (and its own dataset, if it has one) with everything that was judged."""
    verdicts = [judge(claim, x) for x in outcome.measurements]
    columns = {
        name: ("quantity", np.array([float(getattr(x, name)) for x in outcome.measurements]))
        for name in ("predicted", "estimate", "stderr", "allowance")
    }
    table = xr.Dataset(
        columns | {"verdict": ("quantity", [v.verdict for v in verdicts])},
        coords={"quantity": [x.quantity for x in outcome.measurements]},
        attrs={"claim": claim.id, "statement": claim.statement, "source": claim.source, "rule": "4 stderr + allowance"},
    )
    table.attrs["details"] = json.dumps([x.details for x in outcome.measurements], default=str)
    if outcome.dataset is None:
        return table
    return xr.merge([table, outcome.dataset], combine_attrs="drop_conflicts").assign_attrs(table.attrs)
