"""M2, M19: which rules close in inner products, and Muon among them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.core.precision import double_precision
from dynamics.declared.rows import Rows
from dynamics.declared.span import Frame, dense, symmetric
from dynamics.declared.step import Parts, take
from theory import Activation
from theory.declared.loss import Square
from theory.declared.rule import (
    SAM,
    Adam,
    Ahead,
    Alternating,
    Clipped,
    Gradient,
    Here,
    Momentum,
    Moved,
    Muon,
    Normalised,
    Reuse,
    Rule,
)
from theory.declared.student import committee
from validation.judge.claim import Control, Controls, Measurement, Part, claim
from validation.judge.context import Context

COST = 15

_WIDTH, _DIM, _STEPS = 3, 12, 6
_EPS = float(np.finfo(float).eps)
#: Rounding of sums of a dozen products over six steps, 100 times over for safety; a wrong rule is off by a tenth or more.
_ROUNDING = 100 * _DIM * _STEPS * _EPS


def _rules(batch: int) -> dict[str, Rule]:
    return {
        "sgd": Rule(0.2, batch=batch, decay=0.1),
        "heavy ball": Momentum(0.1, batch=batch, beta=0.5),
        "nesterov": Momentum(0.1, batch=batch, beta=0.5, kind="nesterov"),
        "clipped": Clipped(0.2, batch=batch, limit=0.5),
        "normalised": Normalised(0.2, batch=batch, each="row"),
        "reuse": Reuse(0.1, batch=batch),
        "look-ahead": Ahead(0.1, batch=batch, ahead=0.2),
        "alternating": Alternating(0.1, batch=batch, second_step=0.2),
        "sam": SAM(0.1, batch=batch, radius=0.3),
        "muon": Muon(0.1, batch=batch, beta=0.5),
    }


class _Data(NamedTuple):
    """Rows (m, d), samples (steps, b, d) and labels (steps, b)."""

    rows: jax.Array
    samples: jax.Array
    labels: jax.Array


class _Path(NamedTuple):
    """All vectors after each step, (steps, K, m, d)."""

    vectors: np.ndarray

    @property
    def rows(self) -> np.ndarray:
        return self.vectors[:, 0]


def _data(context: Context, name: str, batch: int) -> _Data:
    rng = context.rng(name, "vectors", batch)
    samples = rng.standard_normal((_STEPS, batch, _DIM))
    labels = np.tanh(2 * samples @ rng.standard_normal(_DIM) / np.sqrt(_DIM))
    rows = rng.standard_normal((_WIDTH, _DIM)) / np.sqrt(_DIM)
    return _Data(*(jnp.asarray(x) for x in (rows, samples, labels)))


def _parts(rule: Rule) -> Parts:
    trained = isinstance(rule, Alternating)
    return Parts(committee(Activation.parse("erf"), _WIDTH, (1.0, -0.6, 0.8), trained=trained), Square(), rule)


@double_precision
def _explicit(rule: Rule, data: _Data) -> _Path:
    """Steps on explicit vectors."""
    parts = _parts(rule)

    def step(state: tuple, given: tuple) -> tuple:
        (vectors, second), (samples, labels, number) = state, given
        buffers = {name: Rows(vectors[i + 1], samples) for i, name in enumerate(rule.buffers)}
        moved = take(parts, Rows(vectors[0], samples), second, buffers, labels, number, jnp.asarray(rule.step_size))
        after = jnp.stack([x.array for x in (moved.rows, *(moved.buffers[name] for name in rule.buffers))])
        return (after, moved.second), after

    return _run(step, rule, data)


@double_precision
def _by_products(rule: Rule, data: _Data) -> _Path:
    """The same from inner products alone: coefficients, put on the vectors afterwards."""
    parts = _parts(rule)

    def step(state: tuple, given: tuple) -> tuple:
        (vectors, second), (samples, labels, number) = state, given
        norms = symmetric(len(vectors), lambda i, j: vectors[i] @ vectors[j].T)
        frame = Frame(vectors @ samples.T, norms, lambda: samples @ samples.T)
        buffers = {name: frame.kind(i + 1) for i, name in enumerate(rule.buffers)}
        moved = take(parts, frame.kind(0), second, buffers, labels, number, jnp.asarray(rule.step_size))
        found = dense([moved.rows, *(moved.buffers[name] for name in rule.buffers)], frame)
        after = jnp.einsum("kmln,lnd->kmd", found.own, vectors) + found.tail @ samples
        return (after, moved.second), after

    return _run(step, rule, data)


def _run(step: Callable[[tuple, tuple], tuple], rule: Rule, data: _Data) -> _Path:
    vectors = jnp.concatenate([data.rows[None], jnp.zeros((len(rule.buffers), *data.rows.shape))])
    second = jnp.asarray(_parts(rule).student.second)
    numbers = jnp.arange(len(data.labels))
    found = jax.jit(lambda *x: jax.lax.scan(step, (x[0], second), x[1:])[1])(
        vectors, data.samples, data.labels, numbers
    )
    return _Path(np.asarray(found))


def _gap(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).max() / np.abs(other).max())


# ------------------------------------------------------------------------------- M2


@claim(
    id="M2",
    title="Which rules close",
    statement="Turned vectors and samples give turned steps for every listed rule; sign descent sees the axes.",
    latex=r"\mathcal R(OV,OX)=O\,\mathcal R(V,X);\quad\langle\mathrm{sign}(w^*),w^*\rangle=\|w^*\|_1",
    source="derived",
    kind="exact",
    regime="rules that use inner products only",
    controls=("sign descent counted as closing",),
)
def run_closure(context: Context) -> Iterator[Part]:
    """Paths turned before and after, ten rules; then one step at 0 for two aligned targets with one Gram matrix."""
    data = _data(context, "M2", 2)
    turn = jnp.asarray(np.linalg.qr(context.rng("M2", "rotation").standard_normal((_DIM, _DIM)))[0])
    turned = _Data(data.rows @ turn, data.samples @ turn, data.labels)

    def gap(rule: Rule) -> float:
        return _gap(_explicit(rule, turned).rows, _explicit(rule, data).rows @ np.asarray(turn))

    sign = Adam(0.1, batch=2, beta=0.0, beta2=0.0, epsilon=1e-12)
    gaps = {name: gap(rule) for name, rule in _rules(2).items()}
    controls: Controls = {"sign descent": Control(0.0, gap(sign))}
    text = f"largest relative deviation of turned paths, {_STEPS} steps, ten rules"
    allowance = _conditioned(_explicit(_rules(2)["muon"], data)) + _ROUNDING
    details = {"by rule": str({name: f"{value:.1g}" for name, value in gaps.items()})}
    source = "rounding, and Muon's smallest singular value"
    yield Measurement(
        text, 0.0, float(np.max([*gaps.values()])), 0.0, allowance, controls, source, key="turned", details=details
    )
    yield from _aligned(sign)


def _aligned(sign: Rule) -> Iterator[Part]:
    """Moves of ⟨w, w*⟩ from 0 along the population gradient of the linear model, w* all ones against one axis."""
    dim, source = 400, "rounding"
    root = float(np.sqrt(dim))
    ratios = {name: _ratio(rule, dim) for name, rule in _rules(1).items() if name != "alternating"}
    farthest = max(ratios.values(), key=lambda x: abs(x - 1) if np.isfinite(x) else np.inf)
    wrong: Controls = {"sign descent": Control(1.0, _ratio(sign, dim))}
    text = "move towards (1, …, 1)/√d over the move towards e₁, first step from 0, d = 400"
    yield Measurement(f"{text}: listed rules", 1.0, farthest, 0.0, dim * _ROUNDING, wrong, source, key="rules")
    # ε of the sign's denominator is 1e-12 of an entry 1/√d.
    text, allowance = f"{text}: sign descent", root * (1e-12 * root + dim * _EPS)
    yield Measurement(text, root, _ratio(sign, dim), 0.0, allowance, {"sign descent": 1.0}, source, key="sign")


@double_precision
def _ratio(rule: Rule, dim: int) -> float:
    def move(target: np.ndarray) -> float:
        goal = jnp.asarray(target[None])
        still = Rows(jnp.zeros((1, dim)), goal)

        def gradient(rows: Any, second: Any) -> Gradient:
            return Gradient(rows - Rows(goal, goal), jnp.zeros(1))

        buffers = dict.fromkeys(rule.buffers, still)
        moved: Moved = rule.step(Here(still, jnp.ones(1), buffers, jnp.asarray(0), rule.step_size, gradient))
        return float(jnp.sum(moved.rows.array * goal))

    return move(np.ones(dim) / np.sqrt(dim)) / move(np.eye(dim)[0])


# ------------------------------------------------------------------------------- M19


@dataclass(frozen=True)
class _Wrong(Rule):
    """Muon without momentum, its polar factor made wrongly: all singular vectors, or a triangular root transposed."""

    how: str = "all"

    def step(self, at: Here) -> Moved:
        gradient = at.gradient(at.rows, at.second)
        G = gradient.rows.array
        if self.how == "all":
            left, _, right = jnp.linalg.svd(G, full_matrices=False)
            polar = left @ right
        else:
            polar = jnp.linalg.solve(jnp.linalg.cholesky(G @ G.T).T, G)
        return self.along(at, Gradient(gradient.rows._new(polar), gradient.second))


def _conditioned(path: _Path) -> float:
    """Rounding of a root taken from a Gram matrix: ε times the square of the smallest kept singular value's share."""
    values = np.linalg.svd(path.vectors[:, 1], compute_uv=False)
    share = np.where(values > 1e-7 * values[:, :1], values / values[:, :1], 1.0).min()
    return 100 * _STEPS * _EPS / share**2


@claim(
    id="M19",
    title="Muon closes",
    statement="Muon's step follows from inner products; at batch 1 it is SGD with its gradient's Frobenius norm divided out.",
    latex=r"(GG^\top)^{+1/2}G;\quad b=1:\ G/\|G\|_F",
    source="derived",
    kind="exact",
    regime="exact polar factor, pseudo-inverse root",
    controls=("all singular vectors", "triangular root transposed", "each row normalised"),
)
def run_muon(context: Context) -> Iterator[Part]:
    """Paths of explicit vectors by SVD: against normalised SGD at batch 1, and against inner products alone."""
    single = _data(context, "M19", 1)
    right = _explicit(Normalised(0.1), single).rows

    def gap(rule: Rule) -> float:
        return _gap(_explicit(rule, single).rows, right)

    controls: Controls = {
        "all singular vectors": Control(0.0, gap(_Wrong(0.1))),
        "each row normalised": Control(0.0, gap(Normalised(0.1, each="row"))),
    }
    text = f"largest relative deviation of Muon from normalised SGD, batch 1, {_STEPS} steps"
    yield Measurement(text, 0.0, gap(Muon(0.1)), 0.0, _ROUNDING, controls, "rounding", key="batch1")
    for batch, beta, key in ((5, 0.0, "whole"), (2, 0.0, "deficient"), (2, 0.5, "average")):
        yield _closes(_data(context, "M19", batch), Muon(0.1, batch=batch, beta=beta), key)


def _closes(data: _Data, rule: Muon, key: str) -> Part:
    path = _explicit(rule, data)
    wrong = {"whole": ("triangular root transposed", "root"), "deficient": ("all singular vectors", "all")}
    controls: Controls = {"each row normalised": Control(0.0, _gap(_path_of_rows(rule, data), path.rows))}
    if key in wrong:
        name, how = wrong[key]
        other = _explicit(_Wrong(0.1, batch=rule.batch, how=how), data)
        # (After one step: a wrong path may overflow later, and what is no number rejects nothing.)
        controls[name] = Control(0.0, _gap(other.rows[:1], path.rows[:1]))
    text = f"largest relative deviation of a path from inner products, batch {rule.batch}, average β = {rule.beta:g}"
    estimate = _gap(_by_products(rule, data).rows, path.rows)
    source = "rounding, and the smallest singular value"
    return Measurement(text, 0.0, estimate, 0.0, _conditioned(path) + _ROUNDING, controls, source, key=key)


def _path_of_rows(rule: Muon, data: _Data) -> np.ndarray:
    return _explicit(Normalised(0.1, batch=rule.batch, each="row"), data).rows
