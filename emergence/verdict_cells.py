"""Cells of judged claims: one claim under one seed, with everything that its verdicts, its report and its data rest on.

A claim under one seed is two files of a store: ``validate-…`` holds what was measured, ``shown-…`` the pictures of its
figures, what they show, and the runner's own dataset. Both are named by the same configuration but for the kind of file.
"""

import inspect
import io
import json
import sys
import warnings
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from emergence.refusal import refuse
from emergence.store import code_digest
from emergence.store import folder as store
from emergence.store.code_digest import Code
from emergence.version import version

if TYPE_CHECKING:
    import xarray as xr

    from validation.judge.claim import Claim, Measurement, Outcome

WHAT, SHOWN = "validate", "shown"
#: Raised whenever the variables below change their names or meaning.
SCHEMA = 3
#: Libraries that write what was computed.
_WRITERS = ("xarray", "h5netcdf")
_ROOT = Path(__file__).resolve().parents[1]
#: What draws and stores the figures of every claim: its code counts as the claim's own does.
DRAWN = "validation/judge/kept.py"
#: The claims' file of the last cell: compiled code is kept only as long as its cells follow one another.
_last_group = ""

# ------------------------------------------------------------------------------ names


def group(claim: "Claim") -> str:
    """The module a claim is written in. Claims of one module share simulations, so compute them seed by seed."""
    return claim.runner.__module__


def files_of(claim: "Claim") -> tuple[Path, ...]:
    """The files a claim is written in: that of its runner, and the one it was loaded from.

    Empty if it was typed, or its runner is an object and neither its text nor a file says what that holds.
    """
    runner = inspect.unwrap(claim.runner)
    module = getattr(runner, "__globals__", None)
    if module is None and (claim.text or claim.origin):  # an object: what it holds was written somewhere
        module = vars(sys.modules[group(claim)])
    if not module or "__file__" not in module or module.get("__name__") == "__main__":
        return ()
    return tuple(dict.fromkeys(Path(one).resolve() for one in (module["__file__"], claim.origin) if one))


def configure(claim: "Claim", seed: int, preset: str = "quick") -> dict[str, Any]:
    """Everything that names a cell: a claim is run anew if it, or anything that can change its verdicts, has changed.

    ``code`` is a digest of all the project's code that the claim's module can reach by imports, theory, simulators, figures
    and the rule of judgement included; comments and docstrings do not count. ``libraries`` are versions of those that
    compute and draw. ``text`` is the text of a claim that is made of one.

    Raises `InputError` for a claim that was typed.
    """
    files = files_of(claim)
    if not files:
        refuse(
            f"claim {claim.id} was typed, not read from a file: nothing tells one version of it from another: save it"
        )
    content = {
        "what": WHAT,
        "schema": SCHEMA,
        "version": version(),
        "claim": claim.id,
        "code": _code(files)[0],
        "libraries": _libraries(claim.requires),
        "preset": preset,
        "seed": seed,
    } | ({"text": claim.text} if claim.text else {})
    return dict(json.loads(store.canonical(content)))


def unchanged(claim: "Claim") -> bool:
    """Whether the files of the claim's code are still those that `configure` has read."""
    return all(_stamp(path) == stamp for path, stamp in _code(files_of(claim))[1].items())


@lru_cache(maxsize=256)
def _code(files: tuple[Path, ...]) -> tuple[str, dict[Path, tuple[int, int]]]:
    """The digest of the code of a claim's files, and when each file of that code was written last."""
    code, starts = Code(_ROOT), (*files, _ROOT / DRAWN)
    stamps = {path: _stamp(path) for path in code.reached(*starts)}
    return code.digest(*starts), stamps


def forget() -> None:
    """Read all code anew when it is asked for again."""
    _code.cache_clear()
    code_digest.forget()


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=8)
def _libraries(more: str) -> dict[str, str]:
    """Versions of the libraries that compute and draw, and of what a claim needs beyond them."""
    from importlib.metadata import PackageNotFoundError, version

    from dynamics.core.provenance import libraries

    found = {name: number for name, number in libraries().items() if name not in _WRITERS}
    try:
        return found | ({more: version(more)} if more else {})
    except PackageNotFoundError:
        return found


# ------------------------------------------------------------------------------ cells


def compute(claim: "Claim", configuration: Mapping[str, Any]) -> bytes:
    """Run the claim and seal what it measured.

    Raises whatever the claim's runner raises, and `InputError` if this process has other code than the one named.
    """
    from validation.judge.context import Context

    if dict(configuration) != configure(claim, configuration["seed"], configuration["preset"]):
        refuse(f"claim {claim.id}: this worker has other code than the sweep: install the same everywhere")
    _forget_other_groups(group(claim))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = claim.run(Context(configuration["preset"], configuration["seed"]))
    if outcome.figures:  # matplotlib keeps every figure that was made through pyplot until it is closed
        from matplotlib import pyplot

        pyplot.close("all")
    return seal(outcome, configuration)


def _forget_other_groups(name: str) -> None:
    """Drop compiled code when another module's claims begin, or a worker would hold that of the whole catalogue."""
    global _last_group
    if _last_group not in ("", name):
        import jax

        jax.clear_caches()
    _last_group = name


def seal(outcome: "Outcome", configuration: Mapping[str, Any]) -> bytes:
    """The cell of what was measured."""
    text = f"[{', '.join(map(as_json, outcome.measurements))}]"
    return store.seal(as_bytes({"measurements": text}), configuration)


def seal_shown(outcome: "Outcome", configuration: Mapping[str, Any]) -> bytes:
    """The cell of what is shown, of an outcome whose figures are pictures. `configuration`: that of what was measured.

    Raises `InputError` for a figure that is none.
    """
    import xarray as xr

    columns: dict[str, str | bytes] = {"captions": json.dumps([caption for caption, _ in outcome.figures])}
    for number, (caption, picture) in enumerate(outcome.figures, start=1):
        if not isinstance(picture, bytes):
            refuse(
                f"claim {configuration['claim']}: figure {caption!r} is {picture!r:.80}, no matplotlib Figure: return one"
            )
        columns[f"picture{number}"] = picture
    groups = {f"figure{number}": data for number, data in enumerate(outcome.shown or (), start=1)}
    if outcome.dataset is not None:
        groups["data"] = outcome.dataset
    if groups:
        columns["tree"] = bytes(xr.DataTree.from_dict(groups).to_netcdf(engine="h5netcdf"))
    return store.seal(as_bytes(columns), {**configuration, "what": SHOWN})


def measurements(content: bytes) -> "list[Measurement]":
    """What was measured, of a sealed cell."""
    return [of_json(one) for one in json.loads(_read(content)["measurements"])]


def outcome(content: bytes, shown: bytes) -> "Outcome":
    """What the claim left, its figures as pictures, of its two sealed cells."""
    import xarray as xr

    from validation.judge.claim import Outcome

    columns = _read(shown)
    captions = json.loads(columns["captions"])
    groups: dict[str, xr.Dataset] = {}
    if "tree" in columns:
        with xr.open_datatree(io.BytesIO(columns["tree"]), engine="h5netcdf") as tree:
            groups = {name: node.to_dataset().load().drop_encoding() for name, node in tree.children.items()}
    numbers = range(1, len(captions) + 1)
    return Outcome(
        measurements(content),
        groups.get("data"),
        [(captions[number - 1], columns[f"picture{number}"]) for number in numbers],
        [groups[f"figure{number}"] for number in numbers],
    )


def as_json(x: "Measurement") -> str:
    """A measurement as JSON; of a control its four numbers, null where they are the quantity's."""
    from validation.judge.claim import Control

    controls = {
        name: [one.predicted, one.estimate, one.stderr, one.allowance] if isinstance(one, Control) else [one]
        for name, one in x.controls.items()
    }
    return json.dumps({**vars(x), "controls": controls, "details": dict(x.details)}, default=_number)


def of_json(one: Mapping[str, Any]) -> "Measurement":
    """The measurement of an object that `as_json` wrote."""
    from validation.judge.claim import Control, Measurement

    controls = {name: Control(*numbers) for name, numbers in one["controls"].items()}
    return Measurement(**{**one, "controls": controls})


def _number(value: Any) -> Any:
    """Numbers and arrays of any library as plain Python; anything else as its text."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return float(value) if getattr(value, "is_number", False) is True else str(value)


def as_bytes(texts: Mapping[str, str | bytes]) -> "xr.Dataset":
    """Texts and files as variables of bytes, each along a dimension of its own."""
    import xarray as xr

    contents = {name: text.encode() if isinstance(text, str) else text for name, text in texts.items()}
    return xr.Dataset({name: (f"{name}_byte", np.frombuffer(one, np.int8)) for name, one in contents.items()})


def _read(content: bytes) -> dict[str, bytes]:
    from scipy.io import netcdf_file

    with netcdf_file(io.BytesIO(content), mmap=False) as file:
        return {name: variable.data.tobytes() for name, variable in file.variables.items()}
