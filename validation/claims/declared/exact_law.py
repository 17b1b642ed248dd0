"""M1: SGD by eigenspace is exact in law: against coordinates, and its tail's Gram matrix."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.core.keys import replica_keys
from dynamics.core.outside import NO_MISTAKES, Mistakes, outside_columns
from dynamics.core.precision import double_precision
from dynamics.declared.simulate import declared_sgd
from theory import Activation
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.rule import Momentum
from theory.declared.start import draw_start
from theory.declared.student import committee
from theory.declared.target import Additive
from validation.judge.claim import Control, Controls, Measurement, Part, claim
from validation.judge.context import Context
from validation.statistics.standard_errors import mean_and_error

COST = 14

_STEPS = 8
#: Of the eigenspaces that are large enough to be reduced.
_LARGE, _OTHER = 1, 2
_KNOWN, _SCALE = "degrees of freedom d for d − r", "√λ forgotten on the new column"
_SHARED = "one χ for all eigenspaces"


def _model() -> DeclaredModel:
    """A small eigenspace kept in coordinates, two large ones reduced; momentum, batch 2, label noise, a link of its own."""
    directions = Directions.random(Inputs.blocks((1.5, 3), (0.6, 20), (1.0, 12)), 1, 1.0)
    student = committee(Activation.parse("erf"), 2, (1.0, -0.7))
    rule = Momentum(0.3, batch=2, beta=0.5, noise=0.3)
    return DeclaredModel(directions, Additive(Activation.parse("erf(2*z)"), (1.0,)), student, rule)


def _drawn(replicas: int, seed: int, method: str, mistakes: Mistakes = NO_MISTAKES) -> dict[str, np.ndarray]:
    """Numbers of each replica after the steps: see `_TEXTS`."""
    model = _model()
    start = draw_start(model.directions, 2)
    settings = {"steps": _STEPS, "replicas": replicas, "seed": seed, "saves": 1, "block_steps": 2, "method": method}
    last = declared_sgd(model, start, mistakes=mistakes, **settings).dataset.isel(time=-1)  # type: ignore[arg-type]
    gram, overlap = last["gram"].values, last["overlap"].values
    norm = gram[:, _LARGE, 0, 0]
    return {
        "norm": norm,
        "square": norm**2,
        "pair": gram[:, _LARGE, 0, 1],
        "across": norm * gram[:, 0, 0, 0],
        "between": _centred(np.log(norm)) * _centred(np.log(gram[:, _OTHER, 0, 0])),
        "overlap": norm * overlap[:, _LARGE, 0, 0] ** 2,
    }


def _centred(values: np.ndarray) -> np.ndarray:
    return values - values.mean()


_TEXTS = {
    "norm": "mean squared norm of a row in a large eigenspace",
    "square": "mean of its square",
    "pair": "mean product of two rows there",
    "across": "mean of the norm's square times that in the small eigenspace",
    "between": "covariance of the logarithms of a row's squared norms in the two large eigenspaces",
    "overlap": "mean of the norm's square times the overlap's",
}


@claim(
    id="M1",
    title="Exact law by eigenspace",
    statement="The chain of Gram matrices by eigenspace has the law of SGD in coordinates; d enters as degrees of freedom.",
    latex=r"X_\perp X_\perp^\top\sim W(d_i-r_i),\quad E\,gAA^\top g^\top=D_i\,gg^\top",
    source="Bartlett 1933; derived",
    kind="exact",
    regime="rules that turn with the axes",
    controls=(_KNOWN, _SHARED, f"{_SCALE} (full)", "factor transposed"),
)
def run_law(context: Context) -> Iterator[Part]:
    """Moments after 8 steps, chain against coordinates; the appended columns' Gram matrix at fixed unequal gradients."""
    replicas = context.pick(64_000, 400_000)
    wrong = {_KNOWN: Mistakes(forget_known=True), _SHARED: Mistakes(share_outside=True)}
    if context.full:
        wrong[_SCALE] = Mistakes(forget_scale=True)
    runs = {"right": NO_MISTAKES, **wrong}
    drawn = {name: _drawn(replicas, context.seed_for("M1", name), "exact", x) for name, x in runs.items()}
    plain = _drawn(replicas, context.seed_for("M1", "coordinates"), "ambient")
    for key, text in _TEXTS.items():
        found = {name: mean_and_error(values[key]) for name, values in drawn.items()}
        predicted, error = mean_and_error(plain[key])
        both = {name: float(np.hypot(stderr, error)) for name, (_, stderr) in found.items()}
        controls: Controls = {
            name: Control(predicted, found[name][0], both[name]) for name in wrong if _shows(name, key)
        }
        text = f"{text}, {_STEPS} steps"
        yield Measurement(text, predicted, found["right"][0], both["right"], 0.0, controls, "two samples", key=key)
    yield _tail(context)


def _shows(mistake: str, key: str) -> bool:
    """One χ for all leaves the law of each eigenspace as it is, a forgotten √λ that of one row within its error."""
    return key == "between" or mistake == _KNOWN or (mistake == _SCALE and key == "pair")


@double_precision
def _columns(gradients: np.ndarray, freedom: int, keys: jax.Array, transpose: bool) -> np.ndarray:
    """Gram matrices of the appended columns, (replica, m, m)."""
    draw = jax.vmap(lambda key: outside_columns(key, jnp.asarray(gradients), freedom, transpose))
    found = np.asarray(jax.jit(draw)(keys))
    return found @ np.swapaxes(found, 1, 2)


def _tail(context: Context) -> Part:
    """One row's own entry: its gradients by two samples differ, so that a factor and its transpose do."""
    gradients, freedom = np.array([[1.0, 0.2], [0.3, -0.8]]), 6
    keys = replica_keys(context.seed_for("M1", "tail"), context.pick(40_000, 400_000), "columns")
    right, wrong = (_columns(gradients, freedom, keys, transpose)[:, 0, 0] for transpose in (False, True))
    predicted = freedom * float(gradients[0] @ gradients[0])
    (estimate, stderr), (other, spread) = mean_and_error(right), mean_and_error(wrong)
    controls: Controls = {
        "factor transposed": Control(predicted, other, spread),
        "degrees of freedom": predicted * (freedom + 2) / freedom,
    }
    text = "mean of gAAᵀgᵀ at fixed g = (1, 0.2), D = 6"
    return Measurement(text, predicted, estimate, stderr, 0.0, controls, "exact", key="tail")
