"""The staircase as a loop for talks: overlaps and loss as time goes on, by matplotlib's writers."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import animation
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import dynamics
from dynamics.core.storage import write_atomically
from emergence.model import Progress
from emergence.models.additive_problem import Resolved
from emergence.refusal import refuse
from validation.figures.plot import INK, colours

#: Pictures, of which so many at the end stand still, and how many a second.
FRAMES, HELD, RATE = 100, 20, 20
_INCHES, _DPI = (9.6, 5.4), 100
#: Writers by the file's ending; an SVG is written frame by frame.
WRITERS = {".mp4": "ffmpeg", ".gif": "pillow", ".svg": None}


def check(name: str) -> Path:
    """The file of a loop. Raises `InputError` for another ending, or a writer that is not installed."""
    path = Path(name)
    if path.suffix not in WRITERS:
        refuse(f"--loop is {name!r}: give a file that ends in {', '.join(WRITERS)}")
    writer = WRITERS[path.suffix]
    if writer is not None and not animation.writers.is_available(writer):
        refuse(
            f"--loop is {name!r}: matplotlib's writer {writer} is not installed: install {writer}, or give a .gif or .svg"
        )
    return path


def write(path: Path, resolved: Resolved, progress: Progress) -> tuple[Path, ...]:
    """Integrate, draw and write; the files, one for each frame of an SVG. Nothing is left of a loop that is stopped."""
    figure, draw = _drawing(resolved, progress)
    with matplotlib.rc_context({"svg.hashsalt": "staircase"}):
        if path.suffix == ".svg":
            return tuple(_frames(path, figure, draw, progress))
        writer: Any = animation.writers[str(WRITERS[path.suffix])](fps=RATE)

        def save(temporary: str) -> None:
            with writer.saving(figure, temporary, _DPI):
                for frame in range(FRAMES + HELD):
                    draw(min(1.0, (frame + 1) / FRAMES))
                    writer.grab_frame()
                    progress(frame / (FRAMES + HELD), "drawing")

        return (write_atomically(path, save),)


def _frames(path: Path, figure: Figure, draw: Callable[[float], list[Artist]], progress: Progress) -> Iterator[Path]:
    """NAME-000.svg and so on."""
    for frame in range(FRAMES):
        draw((frame + 1) / FRAMES)
        progress(frame / FRAMES, "drawing")
        name = path.with_name(f"{path.stem}-{frame:03d}.svg")
        yield write_atomically(name, lambda temporary: figure.savefig(temporary, format="svg", metadata={"Date": None}))


def _drawing(resolved: Resolved, progress: Progress) -> tuple[Figure, Callable[[float], list[Artist]]]:
    """The figure, and what draws a share of the time."""
    prediction, (_, time, _) = resolved.prediction, resolved.run_length(counted=False)
    flow = dynamics.gradient_flow(
        *resolved.parts, t_end=time, times=np.linspace(0, time, 4 * FRAMES + 1), progress=progress
    )
    data = flow.dataset
    times, loss = data["time"].values, data["loss"].values
    squares = data["overlap"].transpose("time", "neuron", "direction").values ** 2
    best = squares[-1].argmax(axis=0)
    figure = Figure(figsize=_INCHES, dpi=_DPI, layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    top.set(xlim=(0, time), ylim=(-0.03, 1.08), ylabel="squared overlap")
    bottom.set(ylim=(0, 1.08 * float(loss.max())), xlabel="gradient-flow time", ylabel="population loss")
    for axes in (top, bottom):
        axes.spines[["top", "right"]].set_visible(False)
    shown = colours(len(best))
    for p, colour in enumerate(shown):
        if np.isfinite(prediction.time_half[p]):
            top.axvline(prediction.time_half[p], color=colour, ls="--", lw=1, alpha=0.6)
    bottom.plot(times, prediction.loss(times), color=INK, ls="--", lw=1, alpha=0.7, drawstyle="steps-post")
    lines = [top.plot([], [], color=colour, lw=2.2)[0] for colour in shown]
    (fall,) = bottom.plot([], [], color=INK, lw=2.4)

    FigureCanvasAgg(figure).draw()
    figure.set_layout_engine("none")  # laid out once

    def draw(share: float) -> list[Artist]:
        count = max(2, int(np.searchsorted(times, share * time, side="right")))
        for p, (line, neuron) in enumerate(zip(lines, best, strict=True)):
            line.set_data(times[:count], squares[:count, neuron, p])
        fall.set_data(times[:count], loss[:count])
        return [*lines, fall]

    return figure, draw
