"""M4: mean and covariance of one step by eigenspace, against real steps."""

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np

from dynamics.declared.simulate import declared_sgd
from theory import Activation
from theory.core.frame import noise
from theory.core.indexed import Sums, Term
from theory.declared.directions import Directions
from theory.declared.flow import kappa
from theory.declared.homogeneous_rows import EQUATIONS as HOMOGENEOUS
from theory.declared.homogeneous_rows import error
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.one_step import step_moments
from theory.declared.rule import Rule
from theory.declared.start import Start, draw_start
from theory.declared.step_moments import EQUATIONS, Equations, G, H, Moments, Y, i, lam, slope_at
from theory.declared.student import committee, two_homogeneous
from theory.declared.target import Additive, Polynomial
from validation.judge.claim import Controls, Measurement, Part, claim
from validation.judge.context import Context
from validation.statistics.standard_errors import mean_and_error

COST = 12

#: Groups of replicas for the standard error of a covariance.
_GROUPS = 100
#: Seed of the vectors.
_VECTORS = 0


@lru_cache(maxsize=2)
def _model(homogeneous: bool) -> tuple[DeclaredModel, Start]:
    """Vectors fixed before any run: what is random are the samples, so that wrong theories are as far off at every seed."""
    directions = Directions.random(Inputs.blocks((2.0, 2), (0.5, 3)), 2, 1.0, seed=_VECTORS)
    start = draw_start(directions, 2, 0.5 if homogeneous else 1.0, seed=_VECTORS)
    if homogeneous:
        # (A batch whose mean is nearly normal: a product's single samples have no error bar that could be trusted.)
        product, rule = Polynomial.parse("h2(z1) + h1(z1)*h1(z2)"), Rule(0.5, batch=16, noise=1.0, decay=1.2)
        return DeclaredModel(directions, product, two_homogeneous(Activation.parse("h2+h1"), 2), rule), start
    target = Additive(Activation.parse("erf(2*z)"), (1.0, -0.6))
    student = committee(Activation.parse("erf"), 2, (1.2, 0.8))
    return DeclaredModel(directions, target, student, Rule(1.0, batch=3, noise=1.0)), start


@lru_cache(maxsize=4)
def _steps(context: Context, homogeneous: bool) -> tuple[np.ndarray, np.ndarray]:
    """ΔV of rows with teachers (R, L, m, P) and with rows (R, L, m, m) of real steps in R⁵."""
    name = "homogeneous" if homogeneous else "steps"
    replicas = context.pick(*((300_000, 3_000_000) if homogeneous else (400_000, 4_000_000)))
    seed = context.seed_for("M4", name)
    run = declared_sgd(*_model(homogeneous), steps=1, replicas=replicas, seed=seed, saves=1, method="ambient").dataset
    overlap, gram = ((run[name][:, -1] - run[name][:, 0]).values for name in ("overlap", "gram"))
    return overlap, gram


def _changed(name: str, change: Callable[[Term], Term | None], equations: Equations = EQUATIONS) -> dict[str, Sums]:
    """One derived equation with its terms changed, or left out."""
    return {name: Sums(term for term in map(change, equations[name][1]) if term is not None)}


def _once(term: Term) -> Term:
    """Half of what stands for two different Gaussians: each pair once."""
    names = [str(x.base) for x in term.body.atoms(type(H[0, 0, 0, 0])) if str(x.base).startswith("F")]
    return Term(term.body / 2, term.bound) if names[0][-1] != names[0][-2] else term


def _noiseless(term: Term) -> Term | None:
    return None if term.body.has(noise) else term


def _wrong() -> dict[str, dict[str, Sums]]:
    def flat(term: Term) -> Term:
        return Term(term.body / lam[i], term.bound) if term.body.has(H.label) else term

    return {
        "λ in place of λ²": _changed("Q", flat),
        "mean gradient's square left out": _changed(
            "Q", lambda x: None if x.body.has(G.label) and not x.body.has(Y.label) else x
        ),
        "label noise without its Hessian": _changed("H", _noiseless),
        "unordered pairs": _changed("H", _once),
    }


def _wrong_growth() -> dict[str, dict[str, Sums]]:
    def silent(term: Term) -> Term | None:
        return None if term.body.has(error.label) else term

    def shut(term: Term) -> Term | None:
        return None if any(term.body.has(slope_at(vertex).label) for vertex in (2, 3)) else term

    return {
        "growth of norms left out": _changed("c", silent, HOMOGENEOUS),
        "outputs that do not see the target turn": _changed("J", shut, HOMOGENEOUS),
        "label noise that does not grow norms": _changed("N", _noiseless, HOMOGENEOUS)
        | _changed("J", _noiseless, HOMOGENEOUS),
        "weight decay twice": _changed(
            "Q", lambda x: Term(2 * x.body, x.bound) if x.body.has(kappa) else x, HOMOGENEOUS
        ),
    }


@claim(
    id="M4",
    title="One step by eigenspace",
    statement="Mean and leading covariance of a step of a committee or a 2-homogeneous student close in the Gram matrices "
    "of each eigenspace, for additive and polynomial targets.",
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
        "growth of norms left out",
        "outputs that do not see the target turn",
        "label noise that does not grow norms",
        "weight decay twice",
        "blocks uncorrelated",
    ),
)
def run_step_moments(context: Context) -> Iterator[Part]:
    """Real steps in R⁵: two eigenvalues, label noise; 4·10⁵ of batch 3, own link; 3·10⁵ of batch 16, norms and a product."""
    yield from _judged(context, False, _wrong())
    yield from _judged(context, True, _wrong_growth())


def _judged(context: Context, homogeneous: bool, equations: dict[str, dict[str, Sums]]) -> Iterator[Part]:
    overlap, gram = _steps(context, homogeneous)
    model, start = _model(homogeneous)
    predicted = step_moments(model, start)
    wrong = {name: step_moments(model, start, changed) for name, changed in equations.items()}
    before, of = ("homogeneous-", " of a 2-homogeneous student") if homogeneous else ("", "")
    kept = slice(1) if homogeneous else slice(None)  # (of two rows that grow and shrink the sum would see little)
    rows = "a row's squared norm" if homogeneous else "the rows' squared norms"
    for key, block in (("top", 0), ("rest", 1)):

        def mean(moments: Moments, block: int = block) -> float:
            return float(np.trace(moments.rows[block, kept, kept]))

        estimate, stderr = mean_and_error(np.einsum("rkk->r", gram[:, block, kept, kept]))
        controls: Controls = {name: mean(moments) for name, moments in wrong.items()}
        text = f"mean change of {rows}{of} in eigenspace {block + 1}, {_rule(model)}"
        key = f"{before}mean-{key}"
        yield Measurement(text, mean(predicted), estimate, stderr, 0.0, controls, "exact", key=key)
    yield _across(overlap, predicted, wrong, before, of)


def _rule(model: DeclaredModel) -> str:
    return f"η = {model.rule.step_size:g}, batch {model.rule.batch}"


def _across(overlap: np.ndarray, predicted: Moments, wrong: dict[str, Moments], before: str, of: str) -> Part:
    """Covariance of one row's overlaps with one teacher in the two eigenspaces; groups of replicas."""

    def value(moments: Moments) -> float:
        return float(moments.teacher_covariance[0, 0, 0, 1, 0, 0])

    first, second = (overlap[:, block, 0, 0].reshape(_GROUPS, -1) for block in (0, 1))
    size = first.shape[1]
    centred = (first - first.mean(1, keepdims=True)) * (second - second.mean(1, keepdims=True))
    estimate, stderr = mean_and_error(centred.sum(1) / (size - 1))
    # (What only a step's mean knows is no control of the covariance.)
    told = {name: value(moments) for name, moments in wrong.items() if value(moments) != value(predicted)}
    controls: Controls = {"blocks uncorrelated": 0.0, **told}
    text = f"covariance of a row's overlaps with a teacher in two eigenspaces{of}"
    return Measurement(text, value(predicted), estimate, stderr, 0.0, controls, "exact", key=f"{before}covariance")
