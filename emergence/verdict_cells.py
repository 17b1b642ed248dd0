"""Cells of judged claims: one claim under one seed, with everything that its verdicts rest on."""

import io
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from emergence.refusal import refuse
from emergence.store import folder as store
from emergence.store.code_digest import Code
from emergence.version import version

if TYPE_CHECKING:
    import xarray as xr

    from validation.judge.claim import Claim, Verdict

WHAT = "validate"
#: Raised whenever the variables below change their names or meaning.
SCHEMA = 2
#: Libraries that draw and write what was computed.
_WRITERS = ("xarray", "h5netcdf", "matplotlib")
#: The claims' file of the last cell: compiled code is kept only as long as its cells follow one another.
_last_group = ""


def group(claim: "Claim") -> str:
    """The module a claim is written in. Claims of one module share simulations, so compute them seed by seed."""
    from validation.judge.catalogue import module_of

    return module_of(claim).__name__


def configure(claim: "Claim", seed: int, preset: str = "quick") -> dict[str, Any]:
    """Everything that names a cell: a claim is run anew if it, or anything that can change its verdicts, has changed.

    ``code`` is a digest of all the project's code that the claim's module can reach by imports, theory, simulators and the
    rule of judgement included; comments and docstrings do not count. ``libraries`` are versions of those that compute.
    """
    from validation.judge.catalogue import module_of

    content = {
        "what": WHAT,
        "schema": SCHEMA,
        "version": version(),
        "claim": claim.id,
        "code": _code(str(module_of(claim).__file__)),
        "libraries": _libraries(claim.requires),
        "preset": preset,
        "seed": seed,
    }
    return dict(json.loads(store.canonical(content)))


@lru_cache(maxsize=64)
def _code(file: str) -> str:
    return Code(Path(__file__).resolve().parents[1]).digest(Path(file).resolve())


@lru_cache(maxsize=8)
def _libraries(more: str) -> dict[str, str]:
    """Versions of the libraries that compute, and of what a claim needs beyond them."""
    from importlib.metadata import PackageNotFoundError, version

    from dynamics.core.provenance import libraries

    found = {name: number for name, number in libraries().items() if name not in _WRITERS}
    try:
        return found | ({more: version(more)} if more else {})
    except PackageNotFoundError:
        return found


def compute(configuration: Mapping[str, Any]) -> bytes:
    """Run the claim and seal its verdicts.

    Raises whatever the claim's runner raises, and `InputError` if this process has other code than the one named.
    """
    from validation.judge.context import Context
    from validation.judge.runner import select_claims

    claim = select_claims([configuration["claim"]])[0]
    if dict(configuration) != configure(claim, configuration["seed"], configuration["preset"]):
        refuse(f"claim {claim.id}: this worker has other code than the sweep: install the same everywhere")
    _forget_other_groups(group(claim))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = claim.run(Context(configuration["preset"], configuration["seed"]))
    _close_figures(outcome.figures)
    return store.seal(dataset([claim.judge(x) for x in outcome.measurements]), configuration)


def _forget_other_groups(name: str) -> None:
    """Drop compiled code when another module's claims begin, or a worker would hold that of the whole catalogue."""
    global _last_group
    if _last_group not in ("", name):
        import jax

        jax.clear_caches()
    _last_group = name


def _close_figures(figures: Sequence[tuple[str, object]]) -> None:
    """Matplotlib keeps every figure that was made through pyplot until it is closed."""
    if figures:
        from matplotlib import pyplot

        pyplot.close("all")


# ------------------------------------------------------------------------------ layout


def dataset(verdicts: "Sequence[Verdict]") -> "xr.Dataset":
    """One row per quantity along ``quantity``, one per control along ``control`` (``control_of``: its quantity's row)."""
    import xarray as xr

    rows: dict[str, Any] = {
        "id": [verdict.id for verdict in verdicts],
        "name": [verdict.measurement.quantity for verdict in verdicts],
        "verdict": [verdict.verdict for verdict in verdicts],
        **{
            key: np.array([getattr(verdict.measurement, key) for verdict in verdicts], dtype=float)
            for key in ("predicted", "estimate", "stderr", "allowance")
        },
    }
    pairs = [(place, control) for place, verdict in enumerate(verdicts) for control in verdict.controls]
    controls: dict[str, Any] = {
        "control_of": np.array([place for place, _ in pairs], dtype=float),
        "control_name": [control.name for _, control in pairs],
        "control_used": np.array([control.used for _, control in pairs], dtype=float),
        "control_rejected": np.array([control.rejected for _, control in pairs], dtype=float),
    }
    data = xr.Dataset({key: ("quantity", value) for key, value in rows.items()})
    return data.assign({key: ("control", value) for key, value in controls.items()}) if pairs else data


@dataclass(frozen=True)
class Judged:
    """A quantity of one cell, as it was stored.

    `controls`: names, and whether each was rejected; `scores`: the share of the tolerance that each used.
    """

    id: str
    name: str
    verdict: str
    predicted: float
    estimate: float
    stderr: float
    allowance: float
    controls: tuple[tuple[str, bool], ...]
    scores: tuple[float, ...] = ()

    @property
    def numbers(self) -> tuple[float, ...]:
        """What another seed changes if anything is random: a share may be 1 for both, its allowance and controls differ."""
        return self.predicted, self.estimate, self.stderr, self.allowance, *self.scores


def read(content: bytes) -> list[Judged]:
    """The quantities of a sealed cell."""
    import xarray as xr

    with xr.open_dataset(io.BytesIO(content), engine="scipy") as data:
        columns = {str(name): data[name].values for name in data.data_vars}
    texts = {key: [_text(value) for value in columns[key]] for key in ("id", "name", "verdict")}
    controls: list[list[tuple[str, bool]]] = [[] for _ in texts["id"]]
    scores: list[list[float]] = [[] for _ in texts["id"]]
    for place, control in enumerate(columns.get("control_of", ())):
        name, rejected = columns["control_name"][place], columns["control_rejected"][place]
        controls[int(control)].append((_text(name), bool(rejected)))
        scores[int(control)].append(float(columns["control_used"][place]))
    numbers = zip(*(columns[key].tolist() for key in ("predicted", "estimate", "stderr", "allowance")), strict=True)
    rows = zip(texts["id"], texts["name"], texts["verdict"], numbers, controls, scores, strict=True)
    return [
        Judged(own, name, verdict, p, x, s, a, tuple(judged), tuple(used))
        for own, name, verdict, (p, x, s, a), judged, used in rows
    ]


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
