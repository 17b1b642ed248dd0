r"""SGD of a declared model, many replicas: exact in law (any d, at a cost free of it), or in coordinates of $R^d$.

The law and where it is from: `dynamics.declared.chain`; the engines: `dynamics.declared.engine`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dynamics.core.checks import check_run
from dynamics.core.interrupted import Progress
from dynamics.core.keys import replica_keys
from dynamics.core.outside import NO_MISTAKES, Mistakes
from dynamics.core.precision import double_precision
from dynamics.core.replicas import Told, Track, drive, for_good, stretches
from dynamics.core.trajectory import Plotted, time_axis, variable
from dynamics.declared.engine import block_length, engine_of
from dynamics.declared.population import declared_loss, lowered_population
from theory import InputError
from theory.core.arguments import check_whole
from theory.declared.model import DeclaredModel
from theory.declared.schedule import check_length
from theory.declared.start import Start

if TYPE_CHECKING:
    import xarray as xr

#: A replica one of whose squared norms is so many times the natural one has diverged.
BLOW_UP = 1e6


@dataclass(frozen=True)
class DeclaredRun(Plotted):
    """Replicas of SGD.

    Attributes:
        dataset: `overlap` (replica, time, eigenspace, neuron, direction), `gram` (replica, time, eigenspace, neuron, other),
            `second` (replica, time, neuron); coordinate ``step``. diverged: (replica,) whether a squared norm was above 10⁶
            times `natural_size` when it was looked at, or anything not finite; NaN from there on.
    """

    dataset: "xr.Dataset"
    diverged: np.ndarray


@double_precision
def declared_sgd(
    model: DeclaredModel,
    start: Start,
    *,
    steps: int,
    replicas: int = 32,
    seed: int = 0,
    method: str = "exact",
    saves: int = 200,
    block_steps: int | None = None,
    loss: bool = False,
    data: np.ndarray | None = None,
    mistakes: Mistakes = NO_MISTAKES,
    until: Callable[[np.ndarray, np.ndarray], bool] | None = None,
    progress: Progress | None = None,
) -> DeclaredRun:
    r"""SGD of a declared model from `start`; replicas differ in their samples.

    Args:
        method: ``exact`` (in law, any d) or ``ambient`` (explicit vectors of R^d, which runs any rule: orthonormal directions
            and eigenvectors lie on coordinate axes, the rest of the rows in coordinates that are drawn from `seed`).
        block_steps: steps that share a draw of samples' Gram matrix (default: 8 to 32 samples, and every save ends a
            block); the law is the same.
        loss: record the population loss, too (`declared_loss`), of models that have it in closed form.
        data: the fixed data set itself (n, d), of all replicas, in the coordinates of `start`; with ``ambient`` only.
        mistakes: built-in errors, as controls of law tests.
        until: asked at every save with the overlaps (replica, eigenspace, neuron, direction) and Gram matrices (replica,
            eigenspace, neuron, other); the run ends with the first at which it says so. What came before is the same.

    Raises:
        InputError: a number out of range; a rule that does not turn with the axes with method ``exact``; a run longer than
            its schedule.
        Interrupted: on Ctrl-C, with the result so far.
    """
    rule = model.rule
    check_run(1.0, seed, method, steps=steps, replicas=replicas, saves=saves)
    check_whole(block_steps=1 if block_steps is None else block_steps)
    check_length(rule.step_size, steps)
    start.check(model.directions)
    if start.width != model.student.width:
        raise InputError(f"start has {start.width} rows, the student {model.student.width}: draw one for this student")
    block = block_length(rule, start.width, steps, block_steps, saves)
    engine = engine_of(model, start, method, block, mistakes, data, scatter=seed if data is None else None)
    keys = replica_keys(seed, replicas, "declared SGD", method)
    told = Told("SGD", steps, progress, f", {replicas} replicas")
    if loss:
        lowered_population(model)  # refuses what has none
    result = partial(_result, model, BLOW_UP * natural_size(model, start), method, seed, loss)
    parts = stretches(steps, saves, block)

    def done(track: Track[Any]) -> bool:
        return until is not None and until(*track.seen[-1][:2])

    return drive(
        engine.begin(keys), parts, engine.advance(keys), lambda run: engine.look(run.vectors), result, told, done=done
    )


def natural_size(model: DeclaredModel, start: Start) -> float:
    """The largest squared norm of a row at the start, or of one that fits: a direction's, of 2-homogeneous rows times the norm
    of the weights.
    """
    weights = getattr(model.target, "weights", (1.0,)) if model.student.homogeneous else (1.0,)
    fits = np.linalg.norm(weights) * np.max(np.einsum("ipp->p", model.directions.grams))
    return float(max(np.max(np.einsum("ikk->k", start.grams)), fits))


def _result(model: DeclaredModel, limit: float, method: str, seed: int, loss: bool, track: Track[Any]) -> DeclaredRun:
    import xarray as xr

    overlap, gram, second, *fitted = track.columns()
    size = np.einsum("rtikk->rtk", gram)
    with np.errstate(invalid="ignore"):
        lost = ~np.isfinite(size).all(axis=2) | ~np.isfinite(second).all(axis=2) | (size.max(axis=2) > limit)
    lost = for_good(lost)
    for values in (overlap, gram, second, *fitted):
        values[lost] = np.nan
    steps = np.array(track.at)
    leading = ("replica", "time")
    heights = {}
    if fitted:
        heights["train_loss"] = variable(leading, fitted[0], "mean loss over the replica's data set")
    if loss:
        found = declared_loss(model, overlap, gram, second)
        heights["loss"] = variable(leading, found, "population loss, label noise left out")
    data = xr.Dataset(
        {
            "overlap": variable(
                (*leading, "eigenspace", "neuron", "direction"), overlap, "inner product with a direction"
            ),
            "gram": variable((*leading, "eigenspace", "neuron", "other"), gram, "inner product of two rows"),
            "second": variable((*leading, "neuron"), second, "second layer"),
            **heights,
            "diverged": variable("replica", lost.any(axis=1), "whether the run blew up: NaN from there on"),
        },
        coords={
            **time_axis(step_times(model, steps), steps),
            "eigenvalue": variable("eigenspace", model.inputs.eigenvalues, "variance of the inputs"),
            "multiplicity": variable("eigenspace", model.inputs.multiplicities, "dimensions of the eigenspace"),
            "direction": np.arange(1, model.target.count + 1),
        },
        attrs={"what": "declared-sgd", "dim": model.inputs.dim, "method": method, "seed": seed, "precision": "float64"},
    )
    return DeclaredRun(data, lost.any(axis=1))


def step_times(model: DeclaredModel, steps: np.ndarray) -> np.ndarray:
    """Σ of the step sizes before each of these steps (n,), their numbers as in a run's ``step``; shape (n,)."""
    given = model.rule.step_size
    if not callable(given):
        return steps * float(given)
    numbers = np.arange(steps[-1])
    return np.concatenate([[0.0], np.cumsum(np.broadcast_to(given(numbers), numbers.shape))])[steps]
