r"""Finite step size: the terms of second order in η that one SGD step adds to the gradient flow.

A student moves by $\eta\|v_k\|(\rho_k\bar v_k+\mathbf a_k)$, radially and at right angles to itself
(`theory.steps.moments`). Normalising to second order,

$$\bar v_k'=\bar v_k+\eta\,\mathbf a_k-\eta^2\big(\rho_k\mathbf a_k+\tfrac12|\mathbf a_k|^2\bar v_k\big),\qquad
r_k'=r_k\big\{1+2\eta\rho_k+\eta^2(\rho_k^2+|\mathbf a_k|^2)\big\},$$

the second exactly. Expectations over a fresh sample (or batch) give, beside the gradient flow of `theory.additive.flow`,

$$\begin{aligned}
t_{kq}&:\quad-E\rho_k\,\mathbf a_k\cdot e_q-\tfrac12t_{kq}E|\mathbf a_k|^2,\\
c_{kj}&:\quad E\,\mathbf a_k\cdot\mathbf a_j-E\rho_k\,\mathbf a_k\cdot\bar v_j-E\rho_j\,\mathbf a_j\cdot\bar v_k
-\tfrac12c_{kj}(E|\mathbf a_k|^2+E|\mathbf a_j|^2),\\
r_k&:\quad r_k(E\rho_k^2+E|\mathbf a_k|^2),
\end{aligned}$$

all polynomials in the correlations and in d, derived for any polynomial activation. The raw overlaps $v_k\cdot e_q$ and
$v_k\cdot v_j$ stop at second order, so that theirs is the exact conditional mean of one step (`one_step`).
"""

from functools import lru_cache, partial

import sympy as sp

from theory.additive import flow as additive
from theory.core.activation import Activation
from theory.core.arguments import check_whole
from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.diagrams import Table, add, scale
from theory.core.frame import eta, noise, over_pairs, without_pairs
from theory.core.indexed import Sums, Term, c, collect, e, j, k, q, r, reads, symmetric_overlap, t, v
from theory.core.system import System, component_equations
from theory.steps import checks as step_checks
from theory.steps.moments import Moments, exchanged, label_noise, of_batch, require_polynomial
from theory.steps.noise import step_covariance

#: Raw overlaps: coordinates on the teachers, and Gram matrix of the students.
T, Q = sp.IndexedBase("T"), sp.IndexedBase("Q")

REFERENCE = (
    "second-order expansion of one SGD step of arXiv:2504.19983, section 2.2; derived for every polynomial activation"
)
SAMPLES = Assumption("fresh samples x ~ N(0, I_d) in every step")
_HALF = sp.Rational(1, 2)
_CORRELATION = (0, 0, 0, 0, 0, 1)
_MINUS, _ONE = sp.Integer(-1), sp.Integer(1)


def correction_tables(moments: Moments) -> dict[str, Table]:
    """Second-order terms of t_kq (l is the direction q), c_kj (l is j) and r_k (over r_k), as tables."""
    x = moments
    shrinkage = scale(x.tangent_square, -_HALF, _CORRELATION)
    overlap = add(scale(x.radial_tangent, _MINUS), shrinkage)
    return {
        "t": overlap,
        "c": add(x.tangent_product, overlap, exchanged(overlap)),
        "r": add(x.radial_square, x.tangent_square),
    }


def raw_table(moments: Moments) -> Table:
    r"""Second order of $v_k\cdot v_l$ over its norms: $E(\mathbf a_k+\rho_k\bar v_k)\cdot(\mathbf a_l+\rho_l\bar v_l)$."""
    x = moments
    mixed = x.tangent_radial
    return add(x.tangent_product, mixed, exchanged(mixed), scale(x.radial_product, _ONE, _CORRELATION))


def _correction(tables: dict[str, Table], noisy: dict[str, Table] | None, factor: sp.Expr) -> dict[sp.Indexed, Sums]:
    """Second-order drift of each component."""
    # (component, name of l, correlation of k and l, factor)
    rows = {"t": (t[k, q], q, t[k, q], factor), "c": (c[k, j], j, c[k, j], factor), "r": (r[k], j, _ONE, factor * r[k])}
    found = {}
    for name, (component, second, correlation, scaled) in rows.items():
        terms = over_pairs(tables[name], (k, second), scaled, correlation)
        if noisy is not None:
            terms += collect(without_pairs(noisy[name], (k, second), noise * scaled, correlation))
        found[component] = Sums(terms)
    return found


@lru_cache(maxsize=16)
def finite_step(
    activation: Activation, batch: int = 1, noisy_labels: bool = False, fluctuations: bool = False
) -> System:
    r"""Drift of $(t,c,r)$ in gradient-flow time with all terms of first order in η: mean of one step over η.

    Shapes: t (m, P), c (m, m), r (m,), a (P,); scalars ``eta`` (step size), ``d`` (dimension) and, with `noisy_labels`,
    ``varsigma`` (variance of the label noise). The frame's weights $w=(-a,r)$ and correlations C follow from the state.
    Valid for any state with $d\ge P+m$, while $\eta^2E|\mathbf a_k|^2\ll1$; exact in d. The mean of a step of `batch`
    samples is $y+\eta\cdot$drift, up to $O(\eta^3)$. With `fluctuations` the system carries the covariance of the noise
    (`theory.steps.noise`).

    Raises: `InputError` for an activation that is no polynomial (or of degree above 12), or a bad batch.
    """
    require_polynomial(activation)
    check_whole(batch=batch)
    flow = additive.overlap_flow(activation)
    tables = correction_tables(of_batch(activation, batch))
    noisy = correction_tables(_shared(label_noise(activation), batch)) if noisy_labels else None
    correction = _correction(tables, noisy, eta)
    drift = {component: Sums([*sums, *correction[component]]) for component, sums in flow.drift.items()}
    steps = [*flow.derivation.steps, *_frame_steps(), *_steps(activation, batch, correction)]
    equations = component_equations(drift)
    assumptions = (*flow.assumptions, SAMPLES, Assumption("step size small: terms of third order left out"))
    return System(
        name="finite-step",
        activation=activation,
        drift=drift,
        observables=flow.observables,
        parameters=("a", "eta", "d", *(("varsigma",) if noisy_labels else ())),
        derivation=Derivation("finite-step", tuple(steps), equations, assumptions, REFERENCE),
        time_unit=flow.time_unit,
        limit="second order in the step size; exact in d",
        covariance=step_covariance(activation, batch, noisy_labels) if fluctuations else {},
    )


def _shared(moments: Moments, batch: int) -> Moments:
    """Independent noise on each of `batch` samples: only a sample's own product survives."""
    return moments.combined(sp.Rational(1, batch), moments, sp.Integer(0))


@lru_cache(maxsize=16)
def one_step(activation: Activation, batch: int = 1, noisy_labels: bool = False) -> dict[sp.Indexed, Sums]:
    r"""Exact conditional mean of one step: $E[T'-T]$ and $E[Q'-Q]$, $T_{kq}=v_k\cdot e_q$, $Q_{kj}=v_k\cdot v_j$.

    Expressed in t, c, r (so $T=\sqrt rt$), with the step size as symbol ``eta``: T is linear in η, Q quadratic. Raises
    `InputError` for an activation that is no polynomial of moderate degree, or a batch below 1.
    """
    require_polynomial(activation)
    check_whole(batch=batch)
    velocity = additive.symbolic_velocity()
    first = velocity.dot(e(q)).scaled(eta)
    half = velocity.dot(v(j).scaled(sp.sqrt(r[j])))
    second = (half + half.renamed({k: j, j: k})).scaled(eta)
    second = Sums(Term(term.body.xreplace({symmetric_overlap(j, k): c[k, j]}), term.bound) for term in second)
    size = eta**2 * sp.sqrt(r[k]) * sp.sqrt(r[j])
    quadratic = over_pairs(raw_table(of_batch(activation, batch)), (k, j), size, c[k, j])
    if noisy_labels:
        table = raw_table(_shared(label_noise(activation), batch))
        quadratic += collect(without_pairs(table, (k, j), noise * size, c[k, j]))
    return {T[k, q]: first, Q[k, j]: Sums([*second, *quadratic])}


# --------------------------------------------------------------------------- the derivation


def _frame_steps() -> list[Step]:
    """Definitions: the frame, and a step split into a radial and a tangent part."""
    symbol = sp.Symbol
    return [
        Step("Frame of teachers and students: weights", equation("w", symbol(r"(-a_1,\dots,-a_P,r_1,\dots,r_m)"))),
        Step("Frame: correlations", equation("C", symbol(r"\begin{pmatrix}I&t^\top\\t&c\end{pmatrix}"))),
        Step(
            "One step of a neuron, over its norm: radial part",
            equation(r"\rho_k", symbol(r"-2\delta\sigma(z_k),\ \delta=\sum_{A}w_{A}\sigma(g_{A})")),
        ),
        Step(
            "One step of a neuron, over its norm: tangent part",
            equation(r"\mathbf a_k", symbol(r"-\delta\sigma'(z_k)(x-z_k\bar v_k)")),
        ),
        Step(
            "Expectation of a product of Hermite polynomials",
            equation(
                r"E\prod_{i}h_{a_i}(g_i)",
                symbol(r"\prod_{i}\sqrt{a_i!}\sum_{n}\prod_{i<j}\frac{C_{ij}^{n_{ij}}}{n_{ij}!}"),
            ),
        ),
        Step(
            "Pairs counted for the degrees 3, 2, 2, 1",
            equation(r"E\,h_3(g_1)h_2(g_2)h_2(g_3)h_1(g_4)", step_checks.four_legs()),
            step_checks.diagram_residual,
        ),
    ]


def _steps(activation: Activation, batch: int, correction: dict[sp.Indexed, Sums]) -> list[Step]:
    """The second-order terms, each checked against one step expanded in ambient coordinates."""
    titles = {"t": "overlap with a direction", "c": "overlap of two students", "r": "squared norm"}
    return [
        Step(
            f"Second order in the step size: {titles[str(component.base)]}",
            equation(rf"\Delta_2 {sp.latex(component)}", sums.as_sympy()),
            reads(partial(step_checks.second_order_residual, str(component.base), activation=activation, batch=batch)),
            activation.check_tolerance,
        )
        for component, sums in correction.items()
    ]
