"""Samples until |u| passes a level, over rules, links and dimensions: exact chains, at a share of the largest step size."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np

from dynamics.core.keys import replica_keys
from dynamics.core.precision import double_precision
from dynamics.declared.engine import Exact
from dynamics.declared.lanes import until_ended
from theory import Activation
from theory.core import streams
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.loss import Correlation
from theory.declared.model import DeclaredModel
from theory.declared.one_direction import Drift, drift
from theory.declared.passage import allowed_step, passage_steps
from theory.declared.rule import SAM, Clipped, Normalised, Rule
from theory.declared.start import Start
from theory.declared.student import Student, committee
from theory.declared.target import Additive, Target
from validation.experiments.links import Again, Anew, binary, even_valued, three_valued

#: Overlap at the start in units of d^{-1/2}; where it counts as found; share of the largest step size.
START, LEVEL, SHARE = 2.0, 0.4, 0.25
#: Runs end after this many times the predicted steps.
_PATIENCE = 8.0
#: |x|² where it stands beside its own component along the direction up to three times: E q²|x|⁶ = (d + 2)(d + 4)(d + 6).
_MORE = 6


@dataclass(frozen=True)
class FirstPassage:
    """A watch: the number of the step after which |u| has first passed `level`; 0 before."""

    level: float

    def __call__(self, seen: jnp.ndarray, overlap: jnp.ndarray, size: jnp.ndarray, step: jnp.ndarray) -> jnp.ndarray:
        """Of one replica, a scalar."""
        return jnp.where((seen == 0) & (jnp.abs(overlap[0, 0]) >= self.level), step, seen)


@double_precision
def passages(model: DeclaredModel, overlap: float, level: float, steps: int, replicas: int, seed: int) -> np.ndarray:
    """Steps until |u| passes `level`, (replicas,); inf where it does not within `steps`."""
    start = Start((np.array([[overlap, np.sqrt(1 - overlap**2)]]),))
    engine = Exact(model, start, 1)
    keys = replica_keys(seed, replicas, "passages")
    watch, seen = FirstPassage(level), np.zeros((), dtype=int)
    found = until_ended(engine, keys, watch, seen, lambda seen: seen > 0, steps=steps, what="passages")
    return np.where((found > 0) & (found <= steps), found, np.inf)


@dataclass(frozen=True)
class Case:
    """A rule on a link.

    Attributes:
        rule: of a dimension, its step size not yet the right one (a `ratio` is to a step size of 1).
    """

    target: Target
    student: Student
    rule: Callable[[float], Rule]

    def drift(self, dim: int, more: int = 0) -> Drift:
        """Of its rule in this dimension, with d + `more` for |x|²."""
        return drift(self.student, self.target, Correlation(), self.rule(dim), dim + more)

    def step_size(self, dim: int) -> float:
        """`SHARE` of the largest; d times it in three digits, so that rules with a ratio are one code."""
        most = allowed_step(self.drift(dim), dim, START / np.sqrt(dim), LEVEL, SHARE)
        return float(f"{most * dim:.3g}") / dim

    def model(self, dim: int, step_size: float) -> DeclaredModel:
        """At a step size."""
        directions = Directions.orthonormal(Inputs.isotropic(dim), 1)
        rule = replace(self.rule(dim), step_size=step_size)
        if isinstance(rule, Again | Anew):
            rule = replace(rule, ratio=float(f"{rule.ratio / step_size:.9g}"))
        return DeclaredModel(directions, self.target, self.student, rule, Correlation())


@dataclass(frozen=True, eq=False)
class Passages:
    """Over a quantity x, such as the dimension: (n,); steps until found (n, replicas); predicted ones by terms (n, 3)."""

    x: np.ndarray
    steps: np.ndarray
    predicted: np.ndarray

    @property
    def found(self) -> float:
        """Share of runs that ended."""
        return float(np.mean(np.isfinite(self.steps)))

    def medians(self) -> tuple[np.ndarray, np.ndarray]:
        """ln n and its standard error, (n,): half the distance of the order statistics one standard deviation apart."""
        logs, count = np.log(np.sort(self.steps, axis=1)), self.steps.shape[1]
        ranks = np.round(count / 2 + np.sqrt(count) / 2 * np.array([-1, 1])).astype(int) - 1
        low, high = logs[:, ranks].T
        return np.median(logs, axis=1), (high - low) / 2

    def slope(self) -> tuple[float, float]:
        """Of the median's logarithm on ln x by least squares, and its standard error."""
        (values, errors), weights = self.medians(), _weights(self.x)
        return float(weights @ values), float(np.sqrt(weights**2 @ errors**2))

    def mean_slope(self) -> tuple[float, float]:
        """Of the mean of ln n, and its standard error, sharper than `slope`; of the median where runs have missed.

        A median's error is then that of a Gaussian with the same quartiles.
        """
        logs, weights = np.log(self.steps), _weights(self.x)
        if self.found == 1:
            values, spread = logs.mean(axis=1), logs.std(axis=1, ddof=1)
        else:
            low, values, high = np.quantile(logs, (0.25, 0.5, 0.75), axis=1)
            spread = np.sqrt(np.pi / 2) * (high - low) / 1.349
        return float(weights @ values), float(np.sqrt(weights**2 @ spread**2 / logs.shape[1]))

    def theory(self, terms: int = 2) -> float:
        """The same slope of the predicted steps, of the first order only (1), both, or with |x|² too (3)."""
        return float(_weights(self.x) @ np.log(self.predicted[:, :terms].sum(axis=1)))

    def left_out(self) -> float:
        """What `theory` may be wrong by: as much as its second order in the step size does, and what a larger |x|² does."""
        return abs(self.theory(2) - self.theory(1)) + abs(self.theory(3) - self.theory(2))


def _weights(x: np.ndarray) -> np.ndarray:
    """Of the values in a slope on ln x by least squares."""
    centred = np.log(x) - np.log(x).mean()
    return np.asarray(centred / (centred @ centred))


def predicted_steps(case: Case, dim: int, step_size: float) -> tuple[float, float, float]:
    """From `START` to `LEVEL`: γ → 0, the next order, and what d + `_MORE` in place of d for |x|² adds."""
    ends = START / np.sqrt(dim), LEVEL
    first, second = passage_steps(case.drift(dim), dim, step_size, *ends)
    return first, second, sum(passage_steps(case.drift(dim, _MORE), dim, step_size, *ends)) - first - second


def run_points(x: Sequence[float], points: Sequence[tuple[Case, int, float]], replicas: int, seed: int) -> Passages:
    """Cases, dimensions and step sizes, one for each x, with samples of its own: slopes take the points as independent."""
    rows, predicted = [], []
    for place, (case, dim, size) in enumerate(points):
        terms = predicted_steps(case, dim, size)
        steps = int(_PATIENCE * sum(terms))
        own = streams.integer_seed(seed, "passages", place)
        rows.append(passages(case.model(dim, size), START / np.sqrt(dim), LEVEL, steps, replicas, own))
        predicted.append(terms)
    return Passages(np.array(x, dtype=float), np.stack(rows), np.array(predicted))


def run_case(case: Case, dims: Sequence[int], replicas: int, seed: int) -> Passages:
    """A case over dimensions, each at its step size."""
    return run_points(dims, [(case, dim, case.step_size(dim)) for dim in dims], replicas, seed)


def theory_slope(case: Case, dims: Sequence[int]) -> float:
    """What theory predicts for a case, without a run."""
    predicted = np.array([predicted_steps(case, dim, case.step_size(dim)) for dim in dims])
    return Passages(np.array(dims, dtype=float), predicted, predicted).theory()


# ----------------------------------------------------------------------- the cases themselves


#: Where a rule makes the first ν_i negative, i odd: the second layer's sign turns it.
_TURNED = {("reuse", "binary")}
#: Links, and the student that learns each.
LINKS: dict[str, tuple[Target, str]] = {
    "three-valued": (three_valued(), "sin(z/sqrt(2))"),
    "even": (even_valued(), "cos(z/sqrt(2))"),
    "binary": (binary(), "sin(sqrt(2)*z)"),
    "h3": (Additive(Activation.parse("h3"), (1.0,)), "h3"),
    "h4": (Additive(Activation.parse("h4"), (1.0,)), "h4"),
}
#: Rules of a dimension: look-ahead of 2/d, radius ½ d^{-1/2}, second layer's step 1, clipped at 0.3 √d.
RULES: dict[str, Callable[[float], Rule]] = {
    "sgd": lambda dim: Rule(1.0),
    "alternating": lambda dim: Anew(1.0, ratio=1.0),
    "reuse": lambda dim: Again(1.0, ratio=2 / dim),
    "normalised": lambda dim: Normalised(1.0),
    "clipped": lambda dim: Clipped(1.0, limit=0.3 * dim**0.5),
    "sam": lambda dim: SAM(1.0, radius=0.5 / dim**0.5),
}


def case_of(rule: str, link: str) -> Case:
    """By the names of `RULES` and `LINKS`."""
    (target, activation), second = LINKS[link], -1.0 if (rule, link) in _TURNED else 1.0
    student = committee(Activation.parse(activation), 1, second, rule == "alternating", "sphere")
    return Case(target, student, RULES[rule])
