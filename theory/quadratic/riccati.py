r"""The Riccati flow of quadratic networks, derived from the population loss (arXiv:2508.03688).

With $\sigma=z^2-1$ teacher and student are quadratic forms of $\mathsf M=\Theta\tilde A\Theta^\top$ and $\gamma WW^\top$,
and ½E(f*−f)² is $\|\mathsf M-\gamma WW^\top\|_F^2$. In Riccati time (`QuadraticModel.riccati_rate` converts) gradient flow
is $\dot W=(\mathsf M-WW^\top)W$; the projector on the column space of W moves by a Riccati equation that knows neither the
norm of W nor the dimension.
"""

from collections.abc import Callable, Mapping
from functools import cache

import sympy as sp

from theory.core import words
from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.indexed import Sums, Term, a, collect, k, l, p, q, s
from theory.core.system import System
from theory.quadratic import riccati_checks as checks

REFERENCE = "arXiv:2508.03688 (the equation of G); closed forms for any rank and risks derived here"
TIME_UNIT = "Riccati time: 2φ(1)‖a‖γ times gradient-flow time of ½E(f*−f)²; 4γt for z²−1 and unit weights"
_LIMIT = "step size to 0 (population gradient flow); exact in d and in the norm of W"


def _matrix(name: str) -> sp.Symbol:
    return sp.Symbol(name, commutative=False)


#: M = ΘÃΘᵀ, W and its transpose, Q = WᵀW, its inverse, Π = WQ⁻¹Wᵀ, and the same seen on the teacher: Ã, G = ΘᵀΠΘ.
M, W, Wt = _matrix(r"\mathsf{M}"), _matrix("W"), _matrix(r"W^\top")
Q, Qi, Pi = _matrix("Q"), _matrix("Q^{-1}"), _matrix(r"\Pi")
A, G, S = _matrix(r"\tilde{A}"), _matrix("G"), _matrix("S")
Theta, Theta_t = _matrix(r"\Theta"), _matrix(r"\Theta^\top")
_B, _I, _T, _tct = _matrix("B"), _matrix("I"), _matrix("T"), _matrix(r"(t^\top c^{-1}t)")
#: A factor of G = ZZᵀ.
Z, Zt = _matrix("Z"), _matrix(r"Z^\top")
_trace = sp.Function(r"\mathrm{tr}")
#: The state arrays of the systems below.
w, overlap, product, z = (sp.IndexedBase(name) for name in "wGSz")


@cache
def weight_rate() -> sp.Expr:
    r"""$\dot W=(\mathsf M-WW^\top)W$, minus the gradient of $\tfrac14\|\mathsf M-WW^\top\|_F^2$.

    $d\,\tfrac14\mathrm{tr}\,R^2=\tfrac12\mathrm{tr}\,R\,dR$ with $R=\mathsf M-WW^\top$ and
    $dR=-(dW\,W^\top+W\,dW^\top)$; both halves are equal because R is symmetric.
    """
    residual = M - W * Wt
    return sp.expand(residual * W)


@cache
def _rates() -> dict[sp.Symbol, sp.Expr]:
    """Rates of W, Wᵀ and (WᵀW)⁻¹ along the flow."""
    transposed = sp.expand(Wt * (M - W * Wt))
    gram = words.rate(Wt * W, {W: weight_rate(), Wt: transposed})
    return {W: weight_rate(), Wt: transposed, Qi: sp.expand(-Qi * gram * Qi)}


@cache
def projector_rate() -> sp.Expr:
    r"""$\dot\Pi=\mathsf M\Pi+\Pi\mathsf M-2\Pi\mathsf M\Pi$ by the product rule on $WQ^{-1}W^\top$; $WW^\top$ cancels."""
    rules = [((Wt, W), (Q,)), ((Q, Qi), ()), ((Qi, Q), ()), ((W, Qi, Wt), (Pi,))]
    return words.reduce(words.rate(W * Qi * Wt, _rates()), rules)


@cache
def overlap_rate() -> sp.Expr:
    r"""$\dot G=\tilde AG+G\tilde A-2G\tilde AG$: Θᵀ·Θ around that of Π, $\mathsf M=\Theta\tilde A\Theta^\top$."""
    inside = projector_rate().subs(M, Theta * A * Theta_t)
    rules = [((Theta_t, Theta), ()), ((Theta_t, Pi, Theta), (G,))]
    return words.reduce(Theta_t * inside * Theta, rules)


@cache
def factor_rate() -> sp.Expr:
    r"""$\dot Z=\tilde AZ-G\tilde AZ$ of a factor $G=ZZ^\top$: rounding cannot raise the rank of that, nor make it negative.

    Half of $\dot G$ is $(\dot Z)Z^\top$, the other half its transpose.
    """
    return sp.expand((1 - G) * A * Z)


@cache
def product_rate() -> sp.Expr:
    r"""$\dot S=\mathsf MS+S\mathsf M-2S^2$ for $S=WW^\top$."""
    return words.reduce(words.rate(W * Wt, _rates()), [((W, Wt), (S,))])


# ------------------------------------------------------------------------- closed forms

_E, _Phi, _Z, _Zt = _matrix(r"e^{t\tilde A}"), _matrix(r"\Phi_t"), _matrix("Z_0"), _matrix(r"Z_0^\top")
_EM, _W0, _W0t = _matrix(r"e^{t\mathsf{M}}"), _matrix("W_0"), _matrix(r"W_0^\top")
_G0 = _matrix("G_0")


def closed_overlap() -> sp.Expr:
    r"""$G(t)=e^{t\tilde A}Z_0\big(I+Z_0^\top(e^{2t\tilde A}-I)Z_0\big)^{-1}Z_0^\top e^{t\tilde A}$, $G_0=Z_0Z_0^\top$."""
    return _E * _Z * (1 + _Zt * (_E**2 - 1) * _Z) ** -1 * _Zt * _E


def closed_overlap_of_start() -> sp.Expr:
    r"""The same from $G_0$ alone: $e^{t\tilde A}G_0\big(I+(e^{2t\tilde A}-I)G_0\big)^{-1}e^{t\tilde A}$, any rank."""
    return _E * _G0 * (1 + (_E**2 - 1) * _G0) ** -1 * _E


def closed_overlap_invertible() -> sp.Expr:
    r"""$\big(I+e^{-t\tilde A}(G_0^{-1}-I)e^{-t\tilde A}\big)^{-1}$ where $G_0$ is invertible: monotone in $G_0$."""
    return (1 + _E**-1 * (_G0**-1 - 1) * _E**-1) ** -1


def closed_product() -> sp.Expr:
    r"""$S(t)=e^{t\mathsf M}W_0(I+W_0^\top\Phi_tW_0)^{-1}W_0^\top e^{t\mathsf M}$, $\Phi_t=2\int_0^te^{2s\mathsf M}ds$."""
    return _EM * _W0 * (1 + _W0t * _Phi * _W0) ** -1 * _W0t * _EM


def as_function(expression: sp.Expr, *symbols: sp.Symbol) -> Callable[..., sp.Matrix]:
    """A noncommutative expression as a function of explicit SymPy matrices; numbers stand for multiples of the identity."""

    def value(x: sp.Expr, where: dict[sp.Symbol, sp.Matrix]) -> sp.Matrix | sp.Expr:
        if x in where:
            return where[x]
        if x == _I:
            return sp.Integer(1)
        if isinstance(x, _trace):
            return value(x.args[0], where).trace()
        if x.is_Add:
            parts = [value(y, where) for y in x.args]
            if not any(isinstance(y, sp.MatrixBase) for y in parts):
                return sum(parts)
            size = next(y.shape[0] for y in parts if isinstance(y, sp.MatrixBase))
            whole = [y if isinstance(y, sp.MatrixBase) else y * sp.eye(size) for y in parts]
            return sum(whole[1:], whole[0])
        if x.is_Mul:
            result: sp.Matrix | sp.Expr = sp.Integer(1)
            for y in x.args:
                result = result * value(y, where)
            return result
        if x.is_Pow:
            base = value(x.base, where)
            return base.inv() if x.exp == -1 else base ** int(x.exp)
        return x

    return lambda *matrices: value(expression, dict(zip(symbols, matrices, strict=True)))


def shown(expression: sp.Expr) -> sp.Expr:
    """With the identity matrix written I wherever a number is added to a matrix."""
    if expression.is_Add:
        parts = [shown(x) * _I if x.is_number else shown(x) for x in expression.args]
        return sp.Add(*sorted(parts, key=lambda x: x.args_cnc()[1] != [_I]), evaluate=False)
    if expression.args:
        return expression.func(*[shown(x) for x in expression.args])
    return expression


# --------------------------------------------------------------------- in components


@cache
def drift_of_overlap() -> Sums:
    r"""$\dot G_{pq}=(\tilde a_p+\tilde a_q)G_{pq}-2\sum_sG_{ps}\tilde a_sG_{sq}$."""
    return words.in_components(overlap_rate(), p, q, {G: overlap}, {G: (s,)}, diagonal={A: a})


@cache
def drift_of_product() -> Sums:
    r"""$\dot S_{pq}=(\tilde a_p+\tilde a_q)S_{pq}-2\sum_sS_{ps}S_{sq}$; ã = 0 on the complement of the teacher."""
    return words.in_components(product_rate(), p, q, {S: product}, {S: (s,)}, diagonal={M: a})


@cache
def drift_of_weights() -> Sums:
    r"""$\dot w_{pk}=\tilde a_pw_{pk}-\sum_{sl}w_{pl}w_{sl}w_{sk}$, in coordinates in which $\mathsf M$ is diagonal."""
    spare = {W: (l,), Wt: (s,)}
    return words.in_components(weight_rate(), p, k, {W: w}, spare, {Wt: w}, {M: a})


@cache
def drift_of_factor() -> Sums:
    r"""$\dot z_{pk}=\tilde a_pz_{pk}-\sum_sG_{ps}\tilde a_sz_{sk}$."""
    return words.in_components(factor_rate(), p, k, {Z: z, G: overlap}, {G: (s,)}, diagonal={A: a})


def _risk_of_overlap() -> Sums:
    r"""$R_{opt}=2\big(\sum_p\tilde a_p^2-\sum_{pq}\tilde a_pG_{pq}\tilde a_qG_{qp}\big)$."""
    return collect([Term(2 * a[p] ** 2, (p,)), Term(-2 * a[p] * overlap[p, q] * a[q] * overlap[q, p], (p, q))])


def _risk_of_product() -> Sums:
    r"""$R_{GF}=2\|\mathsf M-S\|_F^2$."""
    return collect(
        [Term(2 * a[p] ** 2, (p,)), Term(-4 * a[p] * product[p, p], (p,)), Term(2 * product[p, q] ** 2, (p, q))]
    )


# ------------------------------------------------------------------------ derivation


def _dot(name: str) -> sp.Symbol:
    return sp.Symbol(rf"\dot{{{name}}}", commutative=False)


def _loss_steps() -> list[Step]:
    loss = sp.Symbol(r"{\tfrac12E(f_*-f)^2}")
    quadratic = sp.Symbol(r"E(x^\top Bx-\mathrm{tr}B)^2")
    moment = 2 * _trace(_B * _B)
    clock = equation(r"\tau", sp.Symbol(r"2\varphi(1)\,\|a\|\,\gamma\,t"))
    return [
        Step(
            "Second moment of a centred quadratic form, B symmetric",
            equation(quadratic, moment),
            lambda shown: checks.risk_residual(as_function(shown, _B)),
        ),
        Step(
            "Population loss of z² − 1: B = M − γWWᵀ", equation(loss, sp.Symbol(r"{\|\mathsf{M}-\gamma WW^\top\|_F^2}"))
        ),
        Step("Riccati time τ, in which γ, φ(1) and the teacher's norm are gone (W rescaled by γ)", clock),
    ]


def _flow_steps() -> list[Step]:
    return [
        Step(
            "Gradient flow of W",
            equation(_dot("W"), (M - W * Wt) * W),
            lambda shown: checks.velocity_residual(_of_weights(shown)),
        ),
        Step(
            "Product rule for the projector Π on the columns of W: the radial part WWᵀ cancels",
            equation(_dot(r"\Pi"), projector_rate()),
            lambda shown: checks.projector_residual(as_function(shown, M, Pi)),
        ),
        Step(
            "The same on the teacher directions, G = ΘᵀΠΘ, M = ΘÃΘᵀ: the Riccati flow",
            equation(_dot("G"), overlap_rate()),
            lambda shown: checks.block_residual(as_function(shown, A, G)),
        ),
        Step(
            "A factor of it, G = ZZᵀ, keeps its rank",
            equation(_dot("Z"), factor_rate()),
            lambda shown: checks.factor_residual(as_function(shown, A, G, Z), as_function(overlap_rate(), A, G)),
        ),
        Step(
            "It is the image of the additive model's overlap flow with φ = c²",
            equation(_dot(r"(t^\top c^{-1}t)"), overlap_rate().subs(G, _tct)),
            lambda shown: checks.overlap_residual(as_function(shown, A, _tct)),
        ),
        Step(
            "S = WWᵀ, direction and norm together",
            equation(_dot("S"), product_rate()),
            lambda shown: checks.product_residual(as_function(shown, M, S)),
        ),
    ]


def _of_weights(rate: sp.Expr) -> Callable[[sp.Matrix, sp.Matrix], sp.Matrix]:
    """A rate of W as a function of M and W."""
    compiled = as_function(rate.subs(Wt, _T), M, W, _T)
    return lambda matrix, x: compiled(matrix, x, x.T)


def _product_form(expression: sp.Expr) -> Callable[[sp.Matrix, sp.Matrix, sp.Matrix], sp.Matrix]:
    form = as_function(expression, _EM, _Phi, _W0, _W0t)
    return lambda exponential, double, start: form(exponential, double, start, start.T)


def _solution_steps() -> list[Step]:
    rate_of_overlap = as_function(overlap_rate(), A, G)

    def of_factor(expression: sp.Expr) -> Callable[[sp.Matrix, sp.Matrix], sp.Matrix]:
        low_rank = as_function(expression, _E, _Z, _Zt)

        def form(exponential: sp.Matrix, start: sp.Matrix) -> sp.Matrix:
            factor = sp.Matrix.hstack(*[vector * sp.sqrt(size) for size, _, (vector,) in _eigenpairs(start)])
            return low_rank(exponential, factor, factor.T)

        return form

    return [
        Step(
            "Solution of any rank, N < M* included",
            equation(G, shown(closed_overlap())),
            lambda claim: checks.closed_residual(of_factor(claim), rate_of_overlap),
        ),
        Step(
            "The same from G₀ alone",
            equation(G, shown(closed_overlap_of_start())),
            lambda claim: checks.closed_residual(as_function(claim, _E, _G0), rate_of_overlap),
        ),
        Step(
            "Solution from an invertible start",
            equation(G, shown(closed_overlap_invertible())),
            lambda claim: checks.invertible_residual(as_function(claim, _E, _G0), rate_of_overlap),
        ),
        Step(
            "Solution of the full flow",
            equation(S, shown(closed_product())),
            lambda claim: checks.symmetric_residual(_product_form(claim), as_function(product_rate(), M, S)),
        ),
    ]


def _eigenpairs(start: sp.Matrix) -> list[tuple[sp.Expr, int, list[sp.Matrix]]]:
    """Orthonormal eigenpairs of a positive semidefinite matrix with eigenvalue not zero, to 60 digits."""
    pairs = []
    values, vectors = sp.Matrix(start).evalf(60), []
    from mpmath import eigsy, matrix, mp

    with mp.workdps(60):
        found, columns = eigsy(matrix(values.tolist()))
        for i in range(len(found)):
            if abs(found[i]) > mp.mpf(10) ** -50:
                vectors = [sp.Float(str(x), 60) for x in columns[:, i]]
                pairs.append((sp.Float(str(found[i]), 60), 1, [sp.Matrix(vectors)]))
    return pairs


def _risk_steps() -> list[Step]:
    best = sp.Symbol(r"{\min_K2\|\mathsf{M}-UKU^\top\|_F^2}")
    return [
        Step(
            "Risk with the best radial part, K = UᵀMU ≽ 0",
            equation(best, 2 * (1 - _trace(A * G * A * G))),
            lambda shown: checks.radial_residual(as_function(shown, A, G)),
        ),
        *_time_steps(),
    ]


_rate, _ratio = sp.symbols(r"\tilde{a}_j \tfrac{d}{N}", positive=True)
#: Riccati time at which a direction is half learned.
_HALF_TIME = sp.log(_ratio - 1) / (2 * _rate)


def _time_steps() -> list[Step]:
    rate, ratio, half = _rate, _ratio, _HALF_TIME
    time, start = sp.symbols(r"\tau g_0", positive=True)
    logistic = 1 / (1 + (1 / start - 1) * sp.exp(-2 * rate * time))
    return [
        Step(
            "Decoupled approximation: off-diagonal entries left out, G_jj is logistic",
            equation(overlap[sp.Symbol("j"), sp.Symbol("j")], logistic),
            lambda shown: (
                sp.simplify(sp.diff(shown, time) - 2 * rate * shown * (1 - shown))
                + sp.simplify(shown.subs(time, 0) - start)
            ),
        ),
        Step(
            "From G_jj(0) = N/d it is ½ at",
            equation("T_j", half),
            lambda shown: sp.simplify(logistic.subs({time: shown, start: 1 / ratio}) - sp.Rational(1, 2)),
        ),
    ]


@cache
def derivation() -> Derivation:
    """``derive riccati``: from the population loss to the Riccati flow, its solutions, risks and emergence times."""
    steps = [*_loss_steps(), *_flow_steps(), *_solution_steps(), *_risk_steps()]
    equations = {
        r"\dot G": overlap_rate(),
        "G(t)": shown(closed_overlap()),
        r"\dot S": product_rate(),
        "S(t)": shown(closed_product()),
        "T_j": _HALF_TIME,
    }
    assumptions = (
        Assumption("x ~ N(0, I_d), independent samples"),
        Assumption("teacher directions orthonormal, weights positive"),
        Assumption("activation a multiple of z² − 1"),
        Assumption("T_j, in Riccati time: off-diagonal entries of G left out"),
    )
    return Derivation("riccati", tuple(steps), equations, assumptions, REFERENCE)


def _system(
    name: str,
    component: sp.Indexed,
    sums: Sums,
    rate: Callable[..., sp.Matrix],
    risk: Sums | None,
    closed: sp.Expr | None,
    definitions: Mapping[sp.Indexed, Sums] | None = None,
) -> System:
    steps = (
        *_flow_steps(),
        Step(
            "In components",
            equation(rf"\dot {component.base}_{{{''.join(map(str, component.indices))}}}", sums.as_sympy()),
            lambda shown: checks.component_residual(Sums.read(shown), (str(component.base),), rate),
        ),
    )
    equations = {sp.latex(component): sums.as_sympy()}
    return System(
        name=name,
        activation=None,
        drift={component: sums},
        observables={} if risk is None else {"risk": risk},
        parameters=("a",),
        derivation=Derivation(name, steps, equations, derivation().assumptions, REFERENCE),
        time_unit=TIME_UNIT,
        limit=_LIMIT,
        closed_form={} if closed is None else {str(component.base): closed},
        definitions=definitions or {},
    )


@cache
def overlap_system() -> System:
    r"""The Riccati flow of $G$, shape (M*, M*); parameter a: $\tilde a$, shape (M*,); observable ``risk``: R_opt."""
    rate = as_function(overlap_rate(), A, G)
    return _system("riccati", overlap[p, q], drift_of_overlap(), rate, _risk_of_overlap(), closed_overlap())


@cache
def factor_system() -> System:
    r"""The Riccati flow of a factor $G=ZZ^\top$, shape (M*, N), for integrators: of any rank, N < M* included (derived).

    Parameter a: $\tilde a$, shape (M*,); observable ``risk``: R_opt. Integrated as G, a rank below M* is raised by rounding,
    which grows as $e^{2\tau\tilde a}$. Time: Riccati time.
    """
    rate = as_function(factor_rate(), A, G, Z)
    gram = collect([Term(z[p, l] * z[q, l], (l,))])
    return _system("riccati-factor", z[p, k], drift_of_factor(), rate, _risk_of_overlap(), None, {overlap[p, q]: gram})


@cache
def product_system() -> System:
    r"""The flow of $S=WW^\top$, shape (n, n); a: $\tilde a$ followed by zeros on the complement, shape (n,)."""
    rate = as_function(product_rate(), M, S)
    return _system("quadratic-product", product[p, q], drift_of_product(), rate, _risk_of_product(), closed_product())


@cache
def weight_system() -> System:
    r"""Gradient flow of $W$, shape (n, N), in the eigenbasis of $\mathsf M$; a: $\tilde a$ and zeros, shape (n,)."""
    return _system("quadratic-flow", w[p, k], drift_of_weights(), _of_weights(weight_rate()), None, None)
