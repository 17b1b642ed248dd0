"""The Riccati flow (`dynamics.quadratic.riccati`) from random subspaces as a labelled dataset, in common time."""

from typing import TYPE_CHECKING

import numpy as np

from dynamics.core.interrupted import Interrupted, Progress
from dynamics.core.trajectory import dataset, variable
from dynamics.quadratic.riccati import DIAGONAL, checked_times, riccati_flow
from theory import QuadraticModel
from theory.quadratic.model import optimal_risk
from theory.quadratic.subspace import draw_subspaces

if TYPE_CHECKING:
    import xarray as xr


def riccati_dataset(
    model: QuadraticModel,
    times: np.ndarray,
    *,
    replicas: int,
    seed: int,
    step_size: float | None = None,
    frame: bool = True,
    progress: Progress | None = None,
) -> "xr.Dataset":
    """Independent uniformly distributed starts, moved to common `times`.

    Variables: ``overlap`` (replica, time, neuron, direction), the coordinates Zᵀ of an orthonormal frame of the subspace
    (left out if not `frame`); ``norm2``, 1 on the Stiefel manifold; ``loss`` ½E(f*−f)² with the best radial part;
    ``diagonal`` (replica, time, direction), G_jj; ``risk``, the same loss in units of its start times 2. Raises
    `InputError` for times that are negative or not finite; `Interrupted` on Ctrl-C, with the starts that were finished.
    """
    grid, teachers = checked_times(times), model.spectrum.size
    overlap = np.zeros((replicas, grid.size, model.width, teachers if frame else 0))
    diagonal, risk = np.empty((replicas, grid.size, teachers)), np.empty((replicas, grid.size))
    starts, done = draw_subspaces(teachers, model.width, model.teacher.dim, seed, replicas), 0
    try:
        for i, start in enumerate(starts):
            flow = riccati_flow(model.spectrum, start)
            for j, moment in enumerate(model.riccati_time(grid)):
                z = flow.factor([moment])[0]
                diagonal[i, j], risk[i, j] = np.sum(z**2, axis=1), optimal_risk(model.spectrum, z)
                if frame:
                    overlap[i, j, : z.shape[1]] = z.T
            done = i + 1
            if progress is not None:
                progress(done / replicas, f"Riccati flow: start {done} of {replicas}")
    except KeyboardInterrupt as stop:
        kept = _labelled(model, grid, overlap[:done], diagonal[:done], risk[:done], step_size)
        raise Interrupted(kept, f"after {done} of {replicas} starts") from stop
    return _labelled(model, grid, overlap, diagonal, risk, step_size)


def _labelled(
    model: QuadraticModel,
    grid: np.ndarray,
    overlap: np.ndarray,
    diagonal: np.ndarray,
    risk: np.ndarray,
    step_size: float | None,
) -> "xr.Dataset":
    """The arrays with their names; an overlap without directions is left out."""
    import xarray as xr

    attributes: dict[str, str | float | int] = {
        "what": "riccati",
        "dim": model.teacher.dim,
        "speed_factor": model.speed_factor,
        "riccati_rate": model.riccati_rate,
        "precision": "float64",
    }
    norms, loss = np.ones((len(risk), grid.size, model.width)), model.loss(risk)
    data = dataset(grid, overlap, norms, loss, step_size=step_size, attributes=attributes)
    data["loss"].attrs["long_name"] += ", best radial part"
    if overlap.shape[-1] == 0:
        data = data.drop_vars("overlap").drop_dims("direction")
    extra = {
        "diagonal": variable(("replica", "time", "direction"), diagonal, DIAGONAL),
        "risk": variable(("replica", "time"), risk, "risk with the best radial part, 2 at f = 0"),
    }
    return data.assign(xr.Dataset(extra)).assign_coords(direction=np.arange(1, model.spectrum.size + 1))
