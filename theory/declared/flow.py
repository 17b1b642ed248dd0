r"""The population flow of a declared model, closed in overlaps by eigenspace of the inputs.

Samples enter $\dot v_k=-E\nabla_{v_k}\ell$ through the population loss, a function of the fields' covariance
$C_{AB}=\sum_i\lambda_i\langle v_A^i,v_B^i\rangle$ and of $\rho_k=\|v_k\|^2$. By the chain rule

$$\dot v_k=-\Lambda\sum_A\mathcal L_{kA}v_A-2\frac{\partial\mathcal L}{\partial\rho_k}v_k-\kappa v_k,\qquad
\mathcal L_{kA}=\frac{\partial\mathcal L}{\partial C_{kA}}\ (A\ne k),\quad
\mathcal L_{kk}=2\frac{\partial\mathcal L}{\partial C_{kk}},$$

A over directions and rows (each pair counted once; of a whitened student $\rho_k=C_{kk}$, and the term in ρ is in
$\mathcal L_{kk}$), and the products $T^i_{kq}=\langle v_k^i,w_q^i\rangle$,
$Q^i_{kj}=\langle v_k^i,v_j^i\rangle$ close. On a sphere what is radial, weight decay too, is taken off.

Square and correlation loss know of the labels' noise only their mean: of labels that flip, $(1-2p)f_*$ stands for $f_*$ in
every force (`theory.declared.rule.Rule.signal`).

One eigenvalue, orthonormal directions and the same link: the committee's equations for step size 0 (Saad and Solla 1995,
Phys. Rev. E 52, 4225) and the overlap flow (arXiv:2504.19983, Lemma B.1); several eigenvalues: Yoshida and Okada 2019 for erf.
"""

from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
import sympy as sp

from theory.core import logistic
from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.errors import InputError
from theory.core.indexed import Index, Sums, Term, collect, j, k, l, p, q, reads
from theory.core.system import System, component_steps
from theory.declared import flow_checks as checks
from theory.declared import population
from theory.declared.loss import Correlation, Loss, Square
from theory.declared.model import DeclaredModel
from theory.declared.population import Integrals, check_target
from theory.declared.rule import Momentum, Rule
from theory.declared.series import SERIES, SLOPES, SeriesIntegrals, known_integrals
from theory.declared.student import Student
from theory.declared.target import Additive, Polynomial

REFERENCE = "chain rule through the fields' covariance; Saad and Solla 1995, Phys. Rev. E 52, 4225 for one eigenvalue"

#: Eigenspaces.
i = Index("i", sp.Symbol("L", integer=True, positive=True))
T, Q, b = sp.IndexedBase("T"), sp.IndexedBase("Q"), sp.IndexedBase("b")
#: Eigenvalues, and Gram matrices of the directions by eigenspace.
lam, Z = sp.IndexedBase("lambda"), sp.IndexedBase("Z")
#: Covariances of the fields of rows with directions and with rows, and squared norms.
X, C, rho = sp.IndexedBase("X"), sp.IndexedBase("C"), sp.IndexedBase("rho")
#: The integrals of `theory.declared.population`.
K, K1, K2, Kr = (sp.IndexedBase(name) for name in ("K", "K1", "K2", "Kr"))
M, M1, Mt, Mr = (sp.IndexedBase(name) for name in ("M", "M1", "Mt", "Mr"))
#: Speed of the rows in units of the sum of step sizes; weight decay; E f*².
nu, kappa, square = sp.Symbol("nu"), sp.Symbol("kappa"), sp.Symbol("S")


def gradients_unit(model: DeclaredModel) -> float:
    r"""What gradients are measured in, 1 if a normalised student learns a normalised target: $\max|b|\sqrt{E\sigma^2}$ times
    the target's size $\sqrt{Ef_*^2}$ (of an additive one, of its largest part), or the student's own if that is larger, the
    loss quadratic, and its size not in its norms.

    Of $c f_*$ and $c\sigma$ gradients are c² times as large, and steps $\eta/c^2$ take the same way (derived).
    """
    student, target, size = model.student, model.target, 1.0
    own = float(np.max(np.abs(student.second))) * float(np.sqrt(float(student.activation.second_moment)))
    if isinstance(target, Additive):
        size = float(np.max(np.abs(target.weights))) * float(np.sqrt(float(target.link.second_moment)))
    elif isinstance(target, Polynomial):
        size = float(np.sqrt(population.square(target, model.directions)))
    held = is_quadratic(model.loss) and not student.homogeneous
    return own * (max(size, own) if held else size) or 1.0


def speed(rule: Rule) -> float:
    r"""Flow speed of the rows, in the sum of the step sizes as time: 1 for SGD, $1/(1-\beta)$ for heavy-ball and Nesterov
    momentum (1 if averaged).

    Raises `InputError` for other rules.
    """
    if type(rule) is Rule:
        return 1.0
    if type(rule) is Momentum:
        return 1.0 if rule.kind == "average" else 1 / (1 - rule.beta)
    raise InputError(
        f"rule is {type(rule).__name__}: its mean step is not a multiple of the population gradient, so it has no flow "
        "here; simulate it, or use plain SGD or momentum"
    )


# ------------------------------------------------------------------------ loss and drift


def loss_sums(quadratic: bool) -> Sums:
    r"""$\mathcal L$ from the integrals; $-E f_*f$ unless `quadratic`."""
    terms: list[sp.Expr | tuple] = [(-b[k] * M[k], k)]
    if quadratic:
        terms += [square / 2, (b[k] * b[l] * K[k, l] / 2, k, l)]
    return Sums.of(*terms)


def _descent(direction: sp.Expr, row: sp.Expr, own: sp.Expr, quadratic: bool) -> Sums:
    r"""$-\sum_A\mathcal L_{kA}\langle v_A,\cdot\rangle$: products with direction p, row l and row k itself."""
    terms: list[sp.Expr | tuple] = [(b[k] * Mt[k, p] * direction, p), 2 * b[k] * M1[k] * own]
    if quadratic:
        terms += [(-b[k] * b[l] * K2[k, l] * row, l), (-2 * b[k] * b[l] * K1[k, l] * own, l)]
    return Sums.of(*terms)


def _along_self(student: Student, quadratic: bool) -> Sums:
    r"""The coefficient of $v_k$ in its velocity, beside the descent."""
    if student.rows != "free":
        radial = _descent(X[k, p], C[k, l], C[k, k], quadratic)
        return radial.scaled(-nu / rho[k])
    terms: list[sp.Expr | tuple] = [-kappa]
    if student.homogeneous and not student.whitened:
        terms.append(2 * nu * b[k] * Mr[k])
        if quadratic:
            terms.append((-2 * nu * b[k] * b[l] * Kr[k, l], l))
    return Sums.of(*terms)


def drift_sums(student: Student, quadratic: bool) -> dict[sp.Indexed, Sums]:
    """The flow of T, Q and, if trained, b."""
    own = _along_self(student, quadratic)

    def moved(direction: sp.Expr, row: sp.Expr, component: sp.Expr) -> Sums:
        return _descent(direction, row, component, quadratic).scaled(nu * lam[i]) + own.scaled(component)

    half = moved(T[i, j, p], Q[i, l, j], Q[i, k, j])
    other = half.renamed({k: j, j: k})
    # (Written with Q_kj itself throughout: it is one component with its mirror image.)
    other = Sums(Term(term.body.xreplace({Q[i, j, k]: Q[i, k, j]}), term.bound) for term in other)
    drift = {T[i, k, q]: moved(Z[i, p, q], T[i, l, q], T[i, k, q]), Q[i, k, j]: collect([*half, *other])}
    if student.trained:
        terms: list[sp.Expr | tuple] = [M[k], *([(-b[l] * K[k, l], l)] if quadratic else [])]
        drift[b[k]] = Sums.of(*terms)
    return drift


# --------------------------------------------------------------------------- the system


def is_quadratic(loss: Loss) -> bool:
    """Whether a loss is the square, rather than correlation. Raises `InputError` for others."""
    if not isinstance(loss, Square | Correlation):
        raise InputError(
            f"loss is {type(loss).__name__}: its population value is not known; use square or correlation, or simulate it"
        )
    return isinstance(loss, Square)


def population_flow(model: DeclaredModel) -> System:
    r"""The flow of a declared model, $\eta\to0$ at a fixed sum of step sizes; see `population_system`.

    Raises `InputError` as that, and for rules without a flow (see `speed`).
    """
    speed(model.rule)
    return population_system(model)


def population_system(model: DeclaredModel) -> System:
    r"""Population loss, and its gradient flow, of a declared model, whatever its rule.

    Shapes: T (L, m, P), Q (L, m, m), b (m,) if trained. Parameters: lambda (L,), Z (L, P, P), nu, kappa, S, b if fixed, and
    what follows from the state: X (m, P), C (m, m), rho (m,) and the integrals (see `theory.declared.population`).

    Raises `InputError` for an activation, link or target without closed integrals, and for other losses than square and
    correlation.
    """
    return system_of(*shown(model))


def shown(model: DeclaredModel) -> tuple[Student, Integrals, bool]:
    """What the equations show of a model, for which a system is made once: weights and width are numbers of the state.

    Raises `InputError` as `population_system`.
    """
    return replace(model.student, width=1, second=(1.0,)), integrals_of(model), is_quadratic(model.loss)


def integrals_of(model: DeclaredModel) -> Integrals:
    """The integrals of a model, closed or in series. Raises `InputError` where they are not known."""
    student, target = model.student, check_target(model.target)
    widest = 1.0 if student.whitened else max(model.inputs.eigenvalues)
    if isinstance(target, Additive):
        widest = max(widest, float(np.diag(model.directions.covariance).max()))
    return known_integrals(
        student.activation, target, student.homogeneous, student.whitened, _has_unit_fields(model), widest
    )


def _has_unit_fields(model: DeclaredModel) -> bool:
    """Whether activations are asked at fields of variance 1 alone, whatever the rows."""
    held = model.student.homogeneous or model.student.rows != "free"
    return model.student.whitened or (held and model.inputs.eigenvalues == (1.0,))


@lru_cache(maxsize=32)
def system_of(student: Student, known: Integrals, quadratic: bool) -> System:
    """`population_system` of what is `shown`."""
    drift, loss = drift_sums(student, quadratic), loss_sums(quadratic)
    point = checks.Point(student, known, quadratic)
    steps, equations = component_steps(drift, "Flow of {}", partial(checks.drift_residual, point), point.tolerance)
    shown_loss = Step(
        "Population loss",
        equation(r"\mathcal{L}", loss.as_sympy()),
        reads(partial(checks.loss_residual, point)),
        point.tolerance,
    )
    assumptions = [
        Assumption("x ~ N(0, Λ), fresh samples"),
        Assumption("step size → 0 at a fixed sum of step sizes"),
        Assumption("variances of all fields positive"),
    ]
    if isinstance(known, SeriesIntegrals):
        assumptions.append(Assumption(known.left_out))
    if point.unit:
        assumptions.append(Assumption("fields of rows and directions of unit length have variance 1"))
    if student.rows != "free":
        assumptions.append(Assumption("rows of unit norm"))
    steps = (*_covariance_steps(), *_integral_steps(point), shown_loss, *steps)
    parameters = ("lambda", "Z", "nu", "kappa", "S", "X", "C", "rho", "M", "M1", "Mt", "Mr", "K", "K1", "K2", "Kr")
    name = "declared-flow" if student.homogeneous else "declared-committee"
    return System(
        name=name,
        activation=student.activation,
        drift=drift,
        observables={"loss": loss},
        parameters=parameters if student.trained else (*parameters, "b"),
        derivation=Derivation(name, steps, equations, tuple(assumptions), REFERENCE),
        time_unit="sum of the step sizes",
        limit="step size → 0; exact in the dimensions of all eigenspaces",
    )


def _covariance_steps() -> list[Step]:
    sums = {X[k, p]: (lam[i] * T[i, k, p], i), C[k, l]: (lam[i] * Q[i, k, l], i), rho[k]: (Q[i, k, k], i)}
    return [Step("Fields of the rows", equation(left, Sums.of(term).as_sympy())) for left, term in sums.items()]


def _integral_steps(point: checks.Point) -> list[Step]:
    """Each integral in closed form, checked by quadrature."""
    additive = isinstance(point.target, Additive)
    meanings = {"K": r"E\,F_{k}F_{l}", "M": r"N_{kp}=E\,F_{k}\sigma_{*}(g_{p}), M_{k}=\sum_{p}a_{p}N_{kp}"}
    if not additive:
        meanings["M"] = r"E\,f_{*}F_{k}"
    over = ", a mean over β" if any(point.integrals.mixed) else ""
    found = [logistic.step()] if over else []
    if isinstance(point.integrals, SeriesIntegrals):
        found = [Step(title, one) for title, (own, of_link) in SERIES.items() for one in (own, of_link)[: 1 + additive]]
        found += [Step("Means of slopes", SLOPES)] * (not additive)
    for table in (point.integrals.pair, point.integrals.cross):
        for name, expression in table.items():
            if expression == 0:
                continue
            shown = "N" if additive and name[0] == "M" else name[0]
            title = f"Integral {meanings[name]}{over}" if len(name) == 1 else f"Its derivative {name[:2]}{over}"
            left = shown if len(name) == 1 else rf"\partial {shown}/\partial {_variable(name)}"
            residual = partial(checks.integral_residual, point, name)
            found.append(Step(title, equation(left, expression), residual, point.tolerance))
    return found


def _variable(name: str) -> str:
    """By what an integral of this name is derived."""
    if len(name) > 2:
        return rf"t_{{{int(name[2:]) + 1}}}"
    return {"1": r"q_{11}", "2": r"q_{12}", "r": r"\rho_{1}", "t": r"q_{12}"}[name[1]]
