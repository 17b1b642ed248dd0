"""Where a command's figures go: checked before anything is computed, written once it is there."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from emergence import console, output
from emergence.refusal import is_refusal, refuse

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


def asked(file: str | None, label: str = "--figure") -> Path | None:
    """The file of an option, checked; None if it was not given. Raises `InputError` for one that could not be written."""
    if file is None:
        return None
    path = Path(file)
    if path.suffix.lower().removeprefix(".") not in output.PICTURES:
        refuse(f"{label} is {file!r}: end the name with {', '.join(f'.{name}' for name in output.PICTURES)}")
    output.check(str(path.parent), path.name, label=f"folder of {label}")
    return path


def of_data(
    path: Path | None, data: "Callable[[], xr.Dataset]", over: "Callable[[xr.Dataset], str]" = lambda data: ""
) -> dict[str, object]:
    """The dataset as a figure in a paper's width, if one was asked for: ``figure``, its file, for the JSON document.

    Where there is nothing to draw a warning says so: what was computed is no worse for it.
    """
    if path is None:
        return {}
    from emergence import plot

    try:
        found = data()
        drawn = plot.dataset(found, over=over(found))
    except Exception as error:
        if not is_refusal(error):
            raise
        console.warn(f"no figure is drawn: {error}")
        return {}
    return of_figures(path, [drawn])


def of_figures(path: Path | None, figures: "Sequence[object]") -> dict[str, object]:
    """As `of_data`; several figures are several files, and ``figure`` their list."""
    if path is None or not figures:
        return {}
    from emergence import plot

    names = write(path, [plot.paper(one) for one in figures if isinstance(one, plot.Figure)])
    return {"figure": names[0] if len(names) == 1 else names}


def told(document: Mapping[str, object]) -> list[str]:
    """The line that says where the figure is, if there is one."""
    found = document.get("figure")
    names = [str(name) for name in found] if isinstance(found, list) else [str(found)] if found else []
    return [f"figure: {', '.join(names)}"] if names else []


def write(path: Path, figures: "Sequence[Figure]") -> list[str]:
    """One file for each figure: the first under the name, the others numbered from 2. Returns their names."""
    from emergence import plot

    output.make(path.parent, "folder of the figure")
    names = [path, *(path.with_stem(f"{path.stem}-{number}") for number in range(2, len(figures) + 1))]
    return [str(plot.save(figure, name)) for figure, name in zip(figures, names, strict=False)]
