"""M4: mean and covariance of one step by eigenspace, against real steps."""

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np

from dynamics.declared.simulate import declared_sgd
from theory import Activation
from theory.core.frame import noise
from theory.core.indexed import Sums, Term
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.rule import Rule
from theory.declared.start import Start, draw_start
from theory.declared.step_moments import EQUATIONS, G, H, Moments, Y, i, lam, step_moments
from theory.declared.student import committee
from theory.declared.target import Additive
from validation.judge.claim import Controls, Measurement, Part, claim
from validation.judge.context import Context
from validation.statistics.standard_errors import mean_and_error

COST = 8

#: Groups of replicas for the standard error of a covariance.
_GROUPS = 100
#: Seed of the vectors.
_VECTORS = 0


def _model() -> tuple[DeclaredModel, Start]:
    """Vectors fixed before any run: what is random are the samples, so that wrong theories are as far off at every seed."""
    directions = Directions.random(Inputs.blocks((2.0, 2), (0.5, 3)), 2, 1.0, seed=_VECTORS)
    target = Additive(Activation.parse("erf(2*z)"), (1.0, -0.6))
    student = committee(Activation.parse("erf"), 2, (1.2, 0.8))
    start = draw_start(directions, 2, 1.0, seed=_VECTORS)
    return DeclaredModel(directions, target, student, Rule(1.0, batch=3, noise=1.0)), start


@lru_cache(maxsize=2)
def _steps(context: Context) -> tuple[np.ndarray, np.ndarray]:
    """ΔV of rows with teachers (R, L, m, P) and with rows (R, L, m, m) of real steps in R⁵."""
    replicas, seed = context.pick(400_000, 4_000_000), context.seed_for("M4", "steps")
    run = declared_sgd(*_model(), steps=1, replicas=replicas, seed=seed, saves=1, method="ambient").dataset
    overlap, gram = ((run[name][:, -1] - run[name][:, 0]).values for name in ("overlap", "gram"))
    return overlap, gram


def _changed(name: str, change: Callable[[Term], Term | None]) -> dict[str, Sums]:
    """One derived equation with its terms changed, or left out."""
    return {name: Sums(term for term in map(change, EQUATIONS[name][1]) if term is not None)}


def _once(term: Term) -> Term:
    """Half of what stands for two different Gaussians: each pair once."""
    names = [str(x.base) for x in term.body.atoms(type(H[0, 0, 0, 0])) if str(x.base).startswith("F")]
    return Term(term.body / 2, term.bound) if names[0][-1] != names[0][-2] else term


def _wrong() -> dict[str, dict[str, Sums]]:
    def flat(term: Term) -> Term:
        return Term(term.body / lam[i], term.bound) if term.body.has(H.label) else term

    return {
        "λ in place of λ²": _changed("Q", flat),
        "mean gradient's square left out": _changed(
            "Q", lambda x: None if x.body.has(G.label) and not x.body.has(Y.label) else x
        ),
        "label noise without its Hessian": _changed("H", lambda x: None if x.body.has(noise) else x),
        "unordered pairs": _changed("H", _once),
    }


@claim(
    id="M4",
    title="One step by eigenspace",
    statement="Mean and leading covariance of a committee's step close in the Gram matrices of each eigenspace.",
    latex=r"E\,\Delta V^i_{kl}=-\eta\lambda_i(b_kG_kV^i_l+b_lG_lV^i_k)+\eta^2b_kb_l\{\tfrac1{b_s}[\lambda_in_i\Phi_{kl}+"
    r"\lambda_i^2\,\mathrm{tr}V^iH_{kl}]+(1-\tfrac1{b_s})\lambda_i^2G_k^\top V^iG_l\}",
    source="Saad and Solla 1995 (one eigenvalue); blocks derived",
    kind="exact",
    regime="free rows; covariance to first order of the displacements, exact for rows with teachers",
    controls=(
        "λ in place of λ² in the second term",
        "mean gradient's square left out of a batch",
        "label noise without its Hessian",
        "unordered pairs",
        "blocks uncorrelated",
    ),
)
def run_step_moments(context: Context) -> Iterator[Part]:
    """Means and covariances of 4·10⁵ real steps in R⁵: two eigenvalues, own link, batch 3, label noise."""
    overlap, gram = _steps(context)
    model, start = _model()
    predicted = step_moments(model, start)
    wrong = {name: step_moments(model, start, equations) for name, equations in _wrong().items()}
    for key, block in (("top", 0), ("rest", 1)):

        def mean(moments: Moments, block: int = block) -> float:
            return float(np.trace(moments.rows[block]))

        estimate, stderr = mean_and_error(np.einsum("rkk->r", gram[:, block]))
        controls: Controls = {name: mean(moments) for name, moments in wrong.items()}
        text = f"mean change of the rows' squared norms in eigenspace {block + 1}, η = 1, batch 3"
        yield Measurement(text, mean(predicted), estimate, stderr, 0.0, controls, "exact", key=f"mean-{key}")
    yield _across(overlap, predicted, wrong)


def _across(overlap: np.ndarray, predicted: Moments, wrong: dict[str, Moments]) -> Part:
    """Covariance of one row's overlaps with one teacher in the two eigenspaces; groups of replicas."""

    def value(moments: Moments) -> float:
        return float(moments.teacher_covariance[0, 0, 0, 1, 0, 0])

    first, second = (overlap[:, block, 0, 0].reshape(_GROUPS, -1) for block in (0, 1))
    size = first.shape[1]
    centred = (first - first.mean(1, keepdims=True)) * (second - second.mean(1, keepdims=True))
    estimate, stderr = mean_and_error(centred.sum(1) / (size - 1))
    names = ("label noise without its Hessian", "unordered pairs")
    controls: Controls = {"blocks uncorrelated": 0.0, **{name: value(wrong[name]) for name in names}}
    text = "covariance of a row's overlaps with a teacher in two eigenspaces"
    return Measurement(text, value(predicted), estimate, stderr, 0.0, controls, "exact", key="covariance")
