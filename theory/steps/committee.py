r"""The committee machine with a fixed second layer: mean of one SGD step, the second order in the step size included.

$f(x)=\sum_kb_k\sigma(\langle w_k,x\rangle)$ learns $f_*(x)=\sum_pa_p\sigma(\langle e_p,x\rangle)$ on
$x\sim N(0,I_d)$, one fresh sample a step, loss $\tfrac12(f_*-f)^2$. With $z_k=\langle w_k,x\rangle$ and the residual
$\delta=f-f_*=\sum_Aw_A\sigma(g_A)$ over the frame of teachers ($w_p=-a_p$) and students ($w_k=b_k$), the gradient step is
$w_k'=w_k-\eta b_k\delta\,\sigma'(z_k)\,x$. Order parameters $T_{kq}=\langle w_k,e_q\rangle$,
$Q_{kj}=\langle w_k,w_j\rangle$. Three rules for the rows:

* ``free``: the step as it is (Saad and Solla 1995; Biehl and Schwarze 1995). T and Q are polynomials of degree one and
  two in η, so that the mean of a step is exact.
* ``sphere``: $w_k'/\|w_k'\|$ after the step. With $\rho_k=-b_k\delta\sigma'(z_k)z_k$ and
  $\mathbf a_k=-b_k\delta\sigma'(z_k)(x-z_kw_k)$,
  $w_k'=w_k+\eta\mathbf a_k-\eta^2(\rho_k\mathbf a_k+\tfrac12|\mathbf a_k|^2w_k)+O(\eta^3)$.
* ``projected``: the step along $\mathbf a_k$ only, then normalised: the same without $\rho_k\mathbf a_k$.
"""

from functools import lru_cache, partial
from itertools import combinations_with_replacement
from typing import Protocol

import sympy as sp

from theory.core.activation import Activation
from theory.core.arguments import check_one_of
from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.frame import A, B, eta, gram, w
from theory.core.indexed import Sums, Term, j, k, q
from theory.core.system import System, component_equations
from theory.steps import committee_checks
from theory.steps.slope_integrals import SlopeIntegrals, slope_integrals

ROWS = ("free", "sphere", "projected")
REFERENCE = "Saad and Solla 1995, Phys. Rev. E 52, 4225 (free rows); second order on the sphere derived"

T, Q, b = sp.IndexedBase("T"), sp.IndexedBase("Q"), sp.IndexedBase("b")
#: Students' overlaps with the frame, (m, N); the frame's with the teachers, (N, P).
reach, teachers = sp.IndexedBase("X"), sp.IndexedBase("Z")


_NORM = r"I_{4}^{|x|^2}"


def _pair_name(first: sp.Symbol, second: sp.Symbol) -> str:
    return rf"I_{{4}}^{{{''.join(f'g_{{{name}}}' for name in sorted((str(first), str(second))))}}}"


#: What the pairs' names stand for.
_PAIRS = {_pair_name(*ends): ends for ends in combinations_with_replacement((j, k, q), 2)}


class Expectations(Protocol):
    """The integrals of labelled Gaussians that a step needs; see `theory.steps.slope_integrals`."""

    def cov(self, x: sp.Symbol, y: sp.Symbol) -> sp.Expr: ...
    def two(self, u: sp.Symbol, w: sp.Symbol) -> sp.Expr: ...
    def three(self, u: sp.Symbol, v: sp.Symbol, w: sp.Symbol) -> sp.Expr: ...
    def norm(self, u: sp.Symbol, v: sp.Symbol) -> sp.Expr: ...
    def pair(self, u: sp.Symbol, v: sp.Symbol, s: sp.Symbol, t: sp.Symbol) -> sp.Expr: ...


class _Labelled:
    """Covariances in the order parameters; on the sphere a row's own is 1."""

    def __init__(self, rows: str) -> None:
        self._unit = rows != "free"

    def cov(self, x: sp.Symbol, y: sp.Symbol) -> sp.Expr:
        first, second = sorted((x, y), key=(k, j, A, B, q).index)
        if second in (k, j):
            return sp.Integer(1) if self._unit and first == second else Q[first, second]
        if second == q:
            return T[first, q] if first in (k, j) else teachers[first, q]
        return reach[first, second] if first in (k, j) else gram[first, second]


class _Closed(_Labelled):
    """Expectations in closed form."""

    def __init__(self, integrals: SlopeIntegrals, rows: str) -> None:
        super().__init__(rows)
        self._integrals = integrals

    def two(self, u: sp.Symbol, w: sp.Symbol) -> sp.Expr:
        return self._integrals.product(self.cov, u, w)

    def three(self, u: sp.Symbol, v: sp.Symbol, w: sp.Symbol) -> sp.Expr:
        return self._integrals.first_order(self.cov, u, v, w)

    def norm(self, u: sp.Symbol, v: sp.Symbol) -> sp.Expr:
        return self._integrals.with_norm(self.cov, u, v, A, B)

    def pair(self, u: sp.Symbol, v: sp.Symbol, s: sp.Symbol, t: sp.Symbol) -> sp.Expr:
        return self._integrals.with_pair(self.cov, s, t, (u, v, A, B))


class _Named(_Labelled):
    """Expectations by name, to be read."""

    def two(self, u: sp.Symbol, w: sp.Symbol) -> sp.Expr:
        return sp.Function("I_2")(u, w)

    def three(self, u: sp.Symbol, v: sp.Symbol, w: sp.Symbol) -> sp.Expr:
        return sp.Function("I_3")(u, v, w)

    def norm(self, u: sp.Symbol, v: sp.Symbol) -> sp.Expr:
        return sp.Function(_NORM)(u, v, A, B)

    def pair(self, u: sp.Symbol, v: sp.Symbol, s: sp.Symbol, t: sp.Symbol) -> sp.Expr:
        return sp.Function(_pair_name(s, t))(u, v, A, B)


# ------------------------------------------------------------------------ mean of a step


def _first_order(x: Expectations, rows: str) -> dict[sp.Indexed, Sums]:
    r"""$E$ of the displacement over η: $-b_kE\,\delta\sigma'(z_k)g$, on the sphere with its radial part taken off."""

    def along(one: sp.Symbol, other: sp.Symbol) -> sp.Expr:
        radial = 0 if rows == "free" else x.cov(one, other) * x.three(one, one, A)
        return -b[one] * w[A] * (x.three(one, other, A) - radial)

    return {T[k, q]: Sums.of((along(k, q), A)), Q[k, j]: Sums.of((along(k, j), A), (along(j, k), A))}


def _second_order(x: Expectations, rows: str) -> dict[sp.Indexed, Sums]:
    """The η² terms over η, without the weights of the frame's pairs."""

    def size(one: sp.Symbol) -> sp.Expr:
        """E|𝐚|²."""
        return b[one] ** 2 * (x.norm(one, one) - x.pair(one, one, one, one))

    def mixed(one: sp.Symbol, other: sp.Symbol) -> sp.Expr:
        """E ρ 𝐚·g, where the rule lets the radial part act."""
        if rows == "projected":
            return sp.Integer(0)
        return b[one] ** 2 * (x.pair(one, one, one, other) - x.cov(one, other) * x.pair(one, one, one, one))

    if rows == "free":
        bodies = {T[k, q]: [], Q[k, j]: [b[k] * b[j] * x.norm(k, j)]}
    else:
        inner = x.norm(k, j) - x.pair(k, j, k, k) - x.pair(k, j, j, j) + Q[k, j] * x.pair(k, j, k, j)
        bodies = {
            T[k, q]: [-mixed(k, q), -T[k, q] * size(k) / 2],
            Q[k, j]: [b[k] * b[j] * inner, -mixed(k, j), -mixed(j, k), -Q[k, j] * (size(k) + size(j)) / 2],
        }
    return {
        component: Sums([Term(eta * w[A] * w[B] * sp.Add(*found), (A, B))] if found else [])
        for component, found in bodies.items()
    }


@lru_cache(maxsize=16)
def committee(activation: Activation, rows: str = "free") -> System:
    r"""Mean of one SGD step of the committee machine over η, in gradient-flow time.

    Shapes: T (m, P), Q (m, m); parameters a (P,) teacher weights, b (m,) student weights, eta (step size), d (dimension).
    Frame arrays follow from these: $w=(-a,b)$, $C=\begin{pmatrix}I&T^\top\\T&Q\end{pmatrix}$, X and Z its last m rows and
    first P columns. For ``free`` rows the mean of a step is exactly $y+\eta\cdot$drift; on the sphere up to $O(\eta^3)$,
    while $\eta^2E|\mathbf a_k|^2\ll1$. Exact in d ≥ P + m. Soft committee: $b_k=1$; mean field: $b_k=1/m$.

    Raises: `InputError` for an activation that is neither a polynomial of degree up to 6 nor erf, or an unknown rule.
    """
    check_one_of(ROWS, rows=rows)
    integrals = slope_integrals(activation)
    closed, named = _Closed(integrals, rows), _Named(rows)
    drift = _sum(_first_order(closed, rows), _second_order(closed, rows))
    shown = _sum(_first_order(named, rows), _second_order(named, rows))
    equations = component_equations(shown)
    steps = [*_integral_steps(activation, integrals), *_mean_steps(activation, rows, drift, equations)]
    assumptions = [
        Assumption("Gaussian input, N(0, I_d), one fresh sample each step"),
        Assumption("orthonormal teacher directions, d ≥ P + m"),
        Assumption("second layer fixed"),
    ]
    if rows != "free":
        assumptions.append(Assumption("rows of unit norm; step size small: terms of third order left out"))
    return System(
        name=f"committee-{rows}",
        activation=activation,
        drift=drift,
        observables={"loss": Sums.of((w[A] * w[B] * closed.two(A, B) / 2, A, B))},
        parameters=("a", "b", "eta", "d"),
        derivation=Derivation("committee", tuple(steps), equations, tuple(assumptions), REFERENCE),
        time_unit="gradient-flow time of ½E(f*−f)², t = η·steps",
        limit="exact mean of a step" if rows == "free" else "second order in the step size; exact in d",
    )


def _sum(first: dict[sp.Indexed, Sums], second: dict[sp.Indexed, Sums]) -> dict[sp.Indexed, Sums]:
    return {component: Sums([*sums, *second[component]]) for component, sums in first.items()}


# --------------------------------------------------------------------------- the derivation


def _equation(left: str, right: sp.Expr) -> sp.Eq:
    return equation(left, right)


def _integral_steps(activation: Activation, x: SlopeIntegrals) -> list[Step]:
    """Each integral in closed form, checked by quadrature in coordinates."""
    titles = {
        "two": ("Two points, E σ(g₁)σ(g₂)", "I_2"),
        "three": ("Three points, E σ′(g₁)g₂σ(g₃), by Stein's lemma", "I_3"),
        "four": ("Four points, E σ′(g₁)σ′(g₂)σ(g₃)σ(g₄)", "I_4"),
        "norm": ("With the squared norm of the input", r"I_{4}^{|x|^2}"),
        "pair": ("With two more Gaussians", r"I_{4}^{g_sg_t}"),
    }
    return [
        Step(
            "Residual on one sample, over the frame of teachers and students",
            _equation(r"\delta", sp.Symbol(r"\sum_{A}w_{A}\sigma(g_{A}),\ w=(-a,b)")),
        ),
        Step("Step of a student", _equation(r"w_{k}'-w_{k}", sp.Symbol(r"-\eta b_{k}\delta\sigma'(z_{k})x"))),
        *[
            Step(
                titles[name][0],
                _equation(titles[name][1], shown),
                partial(committee_checks.integral_residual, name, activation, x),
                committee_checks.TOLERANCE,
            )
            for name, shown in committee_checks.integral_equations(x).items()
        ],
    ]


def _mean_residual(name: str, sums: Sums, activation: Activation, rows: str, shown: sp.Expr) -> sp.Expr:
    """The shown mean with its integrals in closed form, and the drift itself."""
    closed = _Closed(slope_integrals(activation), rows)
    named = {"I_2": closed.two, "I_3": closed.three, _NORM: lambda u, v, *_: closed.norm(u, v)} | {
        pair: lambda u, v, *_, ends=ends: closed.pair(u, v, *ends) for pair, ends in _PAIRS.items()
    }
    for symbol, value in named.items():
        shown = shown.replace(sp.Function(symbol), value)
    found = [committee_checks.mean_residual(name, x, activation, rows) for x in (Sums.read(shown), sums)]
    return max(found)


def _mean_steps(
    activation: Activation, rows: str, drift: dict[sp.Indexed, Sums], shown: dict[str, sp.Expr]
) -> list[Step]:
    """The mean of one step, against the step written out in coordinates."""
    return [
        Step(
            f"Mean of a step over η, rows {rows}: {component.base}",
            _equation(name, equation),
            partial(_mean_residual, str(component.base), sums, activation, rows),
            committee_checks.TOLERANCE,
        )
        for (component, sums), (name, equation) in zip(drift.items(), shown.items(), strict=True)
    ]
