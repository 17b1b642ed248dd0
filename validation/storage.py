"""Datasets on disk: complete or absent, never half-written."""

import json
import os
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr

from validation.claim import Claim, Outcome, judge


def write_atomically(data: xr.Dataset, path: Path) -> Path:
    """Write netCDF-4 under a temporary name in the same folder, then rename."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".tmp-", suffix=".nc")
    os.close(handle)
    try:
        data.to_netcdf(name, engine="h5netcdf")
        os.replace(name, path)
    finally:
        if os.path.exists(name):
            os.unlink(name)
    return path


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
