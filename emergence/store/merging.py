"""One labelled dataset from the cells of a store."""

import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from emergence.reading import read
from emergence.refusal import refuse
from emergence.store import grid
from emergence.store.folder import DamagedError, canonical, cell_name, digest, inspect, understood

if TYPE_CHECKING:
    import xarray as xr

PLAN = "sweep-"

Plan = dict[str, Any]


def plan(configuration: Mapping[str, Any], axes: grid.Axes, refused: Iterable[Mapping[str, Any]] = ()) -> Plan:
    """What a sweep is about to compute: a cell's configuration with the swept options taken out, and their values.

    `refused`: swept values of cells that cannot be, which nobody is to miss.
    """
    fixed = {name: value for name, value in configuration["problem"].items() if name not in axes}
    over = [[name, list(values)] for name, values in axes.items()]
    without = [[point[name] for name in axes] for point in refused]
    return {**configuration, "problem": fixed, "over": over} | ({"without": without} if without else {})


def plan_name(plan: Plan) -> str:
    """The file of a plan, named by its content."""
    return f"{PLAN}{digest(plan)}.json"


@dataclass(frozen=True)
class Experiment:
    """All sweeps of a store that differ only in the values they go through, taken together.

    Attributes:
        fixed: configuration shared by the cells. axes: swept options with all their values, ascending.
        planned: cells that were asked for: file name → values.
    """

    fixed: Plan
    axes: dict[str, list[Any]]
    planned: dict[str, dict[str, Any]]

    @property
    def name(self) -> str:
        """File name of the merged dataset, by the cells that were asked for: a wider sweep takes no other's place."""
        return f"{self.fixed['what']}-{digest(sorted(self.planned))[:12]}.nc"


@dataclass(frozen=True)
class Merged:
    """A dataset with the cells that are not in it: planned ones that are missing, and damaged ones with the reason."""

    data: "xr.Dataset | None"
    missing: list[dict[str, Any]]
    damaged: list[tuple[dict[str, Any], str]]


def experiments(records: Iterable[tuple[str, bytes]]) -> tuple[list[Experiment], list[str]]:
    """The experiments of a store from the plans recorded in it, and the names of plans that are damaged.

    Raises nothing over a plan, whoever wrote it.
    """
    groups: dict[str, list[Plan]] = {}
    damaged = []
    for name, content in records:
        try:
            with understood():
                found = _checked(name, json.loads(content))
                kinds = sorted([axis, _is_text(values[0])] for axis, values in found["over"])
                key = canonical([_without_values(found), kinds])
        except DamagedError:
            damaged.append(name)
        else:
            groups.setdefault(key, []).append(found)
    return [_experiment(group) for _, group in sorted(groups.items())], damaged


def _checked(name: str, found: Plan) -> Plan:
    """A plan that is one: its parts, its name, and a grid of moderate size of numbers or texts. Raises `DamagedError`."""
    axes = dict(found["over"])
    kinds = [{_is_text(value) for value in values} for values in axes.values()]
    texts = all(isinstance(x, str) for x in (found["what"], found["version"], *axes))
    if not (texts and isinstance(found["problem"], dict) and len(axes) == len(found["over"]) > 0):
        raise DamagedError("it is no plan")
    if plan_name(found) != name or Path(found["what"]).name != found["what"]:
        raise DamagedError("it is a plan of another name, or leads elsewhere")
    if any(len([_is_text(value) for value in values]) != len(axes) for values in found.get("without", ())):
        raise DamagedError("what it leaves out are no cells of it")
    if any(len(kind) != 1 for kind in kinds) or grid.size(axes) > grid.LARGEST_GRID:
        raise DamagedError("its values are of several kinds, or too many")
    return found


def _is_text(value: object) -> bool:
    """Raises `DamagedError` for what is neither a text nor a number."""
    if not isinstance(value, str | bool | int | float):
        raise DamagedError("its values are no numbers or texts")
    return isinstance(value, str)


def _without_values(found: Plan) -> Plan:
    return {key: value for key, value in found.items() if key not in ("over", "without")}


def _points(found: Plan) -> Iterable[dict[str, Any]]:
    """The values of the cells of a plan."""
    without = {tuple(values) for values in found.get("without", ())}
    return (point for point in grid.points(dict(found["over"])) if tuple(point.values()) not in without)


def _experiment(plans: list[Plan]) -> Experiment:
    fixed = _without_values(plans[0])
    names = [name for name, _ in plans[0]["over"]]
    axes = {name: sorted({v for p in plans for v in dict(p["over"])[name]}) for name in names}
    planned = {}
    for found in plans:
        for values in _points(found):
            ordered = {name: values[name] for name in names}
            configuration = {**fixed, "problem": fixed["problem"] | ordered}
            planned[cell_name(configuration)] = ordered
    return Experiment(fixed, axes, planned)


def of_plan(folder: Path, recorded: Plan) -> "xr.Dataset":
    """The cells of one sweep in one dataset, see `merge`. Raises `InputError` where none is there."""
    (experiment,), _ = experiments([(plan_name(recorded), canonical(recorded).encode())])
    data = merge(folder, experiment).data
    if data is None:
        refuse(f"store is {str(folder)!r}: no finished run is in it: run it again")
    return data


def merge(folder: Path, experiment: Experiment) -> Merged:
    """All finished cells in one dataset; its leading dimensions are the swept options, the others those of a cell.

    Cells of different sizes fill the beginning of the common ones. What no cell has is NaN, also in points of the grid
    that no sweep asked for. Nothing in the store is changed. Raises nothing over a cell, whoever wrote it.
    """
    cells: list[tuple[dict[str, Any], xr.Dataset]] = []
    first: dict[str, tuple[Any, ...]] = {}
    missing: list[dict[str, Any]] = []
    damaged: list[tuple[dict[str, Any], str]] = []
    for name, values in experiment.planned.items():
        try:
            data = _load(folder / name)
            _check_like(first, data)
        except DamagedError as damage:
            damaged.append((values, str(damage)))
            continue
        if data is None:
            missing.append(values)
        else:
            cells.append((values, data))
    return Merged(_joined(experiment, cells) if cells else None, missing, damaged)


def _load(path: Path) -> "xr.Dataset | None":
    import xarray as xr

    try:
        content = read(path)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise DamagedError(str(problem.strerror)) from problem
    inspect(content, path.name)
    with understood():
        return xr.load_dataset(io.BytesIO(content), engine="scipy")


def _check_like(first: dict[str, tuple[Any, ...]], data: "xr.Dataset | None") -> None:
    """Whether variables have the dimensions and the kind of value that they have in cells before. Raises `DamagedError`."""
    variables = {} if data is None else data.variables
    own = {str(name): (one.dims, one.dtype.kind in "fiub") for name, one in variables.items()}
    if any(first.get(name, found) != found for name, found in own.items()):
        raise DamagedError("a variable has other dimensions than in cells before")
    first.update(own)


@dataclass(frozen=True)
class _Dimension:
    """A dimension of the merged cells: its labels, ascending; positions if `counted`, or where there are none."""

    labels: np.ndarray
    counted: bool
    attributes: dict[Any, Any]


def _joined(experiment: Experiment, cells: "list[tuple[dict[str, Any], xr.Dataset]]") -> "xr.Dataset":
    import xarray as xr

    places = {name: {value: i for i, value in enumerate(values)} for name, values in experiment.axes.items()}
    dims = _dimensions([data for _, data in cells])
    taken = {str(name) for _, data in cells for name in [*data.variables, *data.dims]}
    # An option may be called like a variable: sweeping `time` must not hide the recording times.
    axes = {name: f"{name}_option" if name in taken else name for name in places}
    leading = tuple(len(values) for values in experiment.axes.values())
    first: dict[str, xr.Variable] = {}
    arrays: dict[str, np.ndarray] = {}
    for values, data in cells:
        corner: tuple[Any, ...] = tuple(places[name][values[name]] for name in places)
        for key, variable in data.variables.items():
            name = str(key)
            if name in dims and not dims[name].counted:
                continue
            if name not in arrays:
                first[name] = variable
                arrays[name] = _empty((*leading, *(len(dims[str(dim)].labels) for dim in variable.dims)), variable)
            where = [_places(data, str(dim), dims[str(dim)]) for dim in variable.dims]
            arrays[name][corner + np.ix_(*where)] = variable.values
    everything = {name: ((*axes.values(), *first[name].dims), arrays[name], first[name].attrs) for name in arrays}
    beside = {str(name) for _, data in cells for name in data.coords}
    coordinates: dict[str, Any] = {axes[name]: _coordinate(values) for name, values in experiment.axes.items()}
    coordinates |= {
        dim: (dim, own.labels, own.attributes) for dim, own in dims.items() if dim in beside and not own.counted
    }
    coordinates |= {name: value for name, value in everything.items() if name in beside}
    variables = {name: value for name, value in everything.items() if name not in beside}
    return xr.Dataset(variables, coords=coordinates, attrs=_attributes(experiment))


def _dimensions(cells: "list[xr.Dataset]") -> dict[str, _Dimension]:
    """Every dimension over all cells. Recording times that differ from cell to cell are counted: each cell keeps its own."""
    names = dict.fromkeys(str(dim) for data in cells for dim in data.dims)
    return {name: _dimension(name, [data for data in cells if name in data.dims]) for name in names}


def _dimension(name: str, cells: "list[xr.Dataset]") -> _Dimension:
    own = [_label(data, name) for data in cells]
    counted = own[0].dtype.kind == "f" and not all(np.array_equal(own[0], other) for other in own[1:])
    labels = np.arange(max(map(len, own))) if counted else np.unique(np.concatenate(own))
    return _Dimension(labels, counted, dict(cells[0][name].attrs) if name in cells[0].coords else {})


def _places(data: "xr.Dataset", name: str, dimension: _Dimension) -> np.ndarray:
    """Where a cell's entries go along a dimension."""
    if dimension.counted:
        return np.arange(data.sizes[name])
    return np.searchsorted(dimension.labels, _label(data, name))


def _label(data: "xr.Dataset", dim: str) -> np.ndarray:
    return np.asarray(data[dim].values) if dim in data.coords else np.arange(data.sizes[dim])


def _empty(shape: tuple[int, ...], variable: "xr.Variable") -> np.ndarray:
    """Room for all cells, NaN (or an empty text) where none will be."""
    return np.full(shape, np.nan) if variable.dtype.kind in "fiub" else np.full(shape, "", dtype=object)


def _coordinate(values: list[Any]) -> np.ndarray:
    return np.array(values, dtype=object if isinstance(values[0], str) else None)


def _attributes(experiment: Experiment) -> dict[str, Any]:
    return {
        "what": experiment.fixed["what"],
        "emergence_version": experiment.fixed["version"],
        "problem": canonical(experiment.fixed["problem"]),
        "swept": " ".join(experiment.axes),
    }
