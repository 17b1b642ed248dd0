r"""The correlation-loss baseline: fixed second layer, neurons on the sphere, no deflation; the tensor power argument.

Neurons of unit norm climb the correlation of their output with the target (Li, Ma and Zhang 2020; Oko, Song, Suzuki and Wu
2024, arXiv:2406.11828; slides of arXiv:2504.19983): with the loss $-\sum_kE\,f_*\sigma(\langle\bar v_k,x\rangle)=-\sum_{kp}
a_p\varphi(t_{kp})$ (activations without mean) on the sphere,
$$\dot t_{kq}=\sum_pa_p\varphi'(t_{kp})(\delta_{pq}-t_{kp}t_{kq}).$$
No neuron sees another. For one Hermite degree $J\ge3$ the common contraction only changes the clock: $t_{kq}=\rho_ky_{kq}$
with $y_{kq}^{2-J}(\tau)=y_{kq}^{2-J}(0)-J(J-2)\hat\sigma_J^2a_q\tau$, so that at any dimension, without any approximation, a
neuron ends at the direction whose $y$ blows up first, $\arg\max_qa_q|t_{kq}(0)|^{J-2}$. That is the tensor power method,
and why large weights attract nearly all neurons. The second layer is then the (ridge) least-squares fit.

One noisy step of the sphere, $w\leftarrow w+\eta f_*(x)\sigma'(z)(x-zw)$ and normalised, moves an overlap u by
$\eta a\varphi'(u)(1-u^2)-\eta^2K(u)$ with variance $\eta^2N(u)$: `spherical_plateau` derives K and N.
"""

from functools import cache, lru_cache, partial

import numpy as np
import sympy as sp

from theory.additive import flow as additive
from theory.additive.exact_points import precise_kernel
from theory.additive.flow import GAUSSIAN, ORTHONORMAL, normal_form, summed
from theory.baselines.winner import winning_probabilities
from theory.core.activation import Activation
from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.errors import InputError
from theory.core.hermite import z
from theory.core.indexed import Dual, Sums, Term, a, c, collect, differentiate, e, evaluate, j, k, p, q, r, s, t, v
from theory.core.initial import InitialState
from theory.core.system import System, component_steps
from theory.core.teacher import Teacher
from theory.one_task.plateau import Plateau, TargetMoments, signal
from theory.one_task.plateau import u as overlap
from theory.one_task.single_task import SingleTask
from theory.prediction.greedy import exact_scores, scores
from theory.scaling.competition import Competition

REFERENCE = "arXiv:2406.11828; Li, Ma, Zhang (COLT 2020); slides of arXiv:2504.19983; clock and winner derived"
_DIGITS = 50


def correlation_loss() -> Sums:
    r"""$-\sum_{kp}a_p\varphi(t_{kp})$: minus the correlation of target and neurons, for an activation without mean."""
    return summed(-a[p] * Dual(t[k, p], 0), k, p)


@cache
def correlation_drift() -> dict[sp.Indexed, Sums]:
    r"""$\dot t_{kq}$, $\dot c_{kj}$ on the sphere by the chain rule; the second layer $r_k$ does not move."""
    velocity = additive.velocity(correlation_loss())

    def unit(sums: Sums) -> Sums:
        return collect(Term(term.body.subs(r[k], 1), term.bound) for term in sums)

    half = unit(velocity.dot(v(j)))
    c_dot = normal_form(half + half.renamed({k: j, j: k}))
    c_dot = Sums(Term(term.body.xreplace({c[j, k]: c[k, j]}), term.bound) for term in c_dot)
    return {t[k, q]: unit(velocity.dot(e(q))), c[k, j]: c_dot, r[k]: Sums()}


def second_layer_condition() -> Sums:
    r"""$\partial\mathcal L/\partial r_k=-\sum_pa_p\varphi(t_{kp})+\sum_lr_l\varphi(c_{kl})$: zero at the least-squares fit."""
    renamed = additive.bound_neutral(additive.population_loss())
    return normal_form(differentiate(renamed, r[k]))


@lru_cache(maxsize=32)
def correlation_flow(activation: Activation) -> System:
    r"""Flow of the correlation loss on the sphere, closed in (t, c); r (m,) is the fixed second layer.

    Shapes and parameters as `overlap_flow`; observable ``loss``: population loss ½E(f*−f)² with second layer r. Time: that of
    the correlation loss with unit second layer; one SGD step of size η advances it by η.
    Raises `InputError` for an activation with a mean (subtract it).
    """
    if 0 in activation.coefficients:
        raise InputError(f"activation {activation.name!r} has a mean, which every neuron correlates with: subtract it")
    return System(
        name="correlation-flow",
        activation=activation,
        drift=correlation_drift(),
        observables={"loss": additive.population_loss()},
        parameters=("a",),
        derivation=derivation(activation),
        time_unit="time of the correlation loss with unit second layer; one SGD step of size η advances it by η",
        limit="step size to 0 (population flow); exact in d",
    )


# -------------------------------------------------------------------- tensor power argument


def win_probabilities(weights: np.ndarray, exponent: int) -> np.ndarray:
    r"""(P,) probability that a random neuron ends at each direction: $\Pr(p=\arg\max_qa_q|g_q|^{J-2})$, g Gaussian.

    The integral of `theory.baselines.winner`; exact for neurons uniform on the sphere in any dimension, since the rule
    does not see their common scale. For odd J only positive overlaps grow (half of each factor),
    and with probability $2^{-P}$ none. Raises `InputError` for J < 3 (no tensor power argument).
    """
    if exponent < 3:
        raise InputError(
            f"exponent is {exponent}: the tensor power argument needs an information exponent of 3 or more"
        )
    return winning_probabilities(Competition.of(weights, 1, exponent))


def expected_cover(weights: np.ndarray, exponent: int, width: int) -> float:
    r"""Expected number of directions that some of m random neurons ends at: $\sum_p1-(1-\pi_p)^m$. `weights`: (P,)."""
    return float(np.sum(-np.expm1(width * np.log1p(-win_probabilities(weights, exponent)))))


def undeflated_winners(
    activation: Activation, teacher: Teacher, initial: InitialState
) -> tuple[np.ndarray, np.ndarray]:
    """For each direction the fastest neuron that the tensor power rule sends there, −1 if none, and its flow time to
    squared overlap ½, inf if none; both of shape (P,).

    Every neuron climbs alone. Of one Hermite degree it goes to the direction of its largest leading score (`theory.scores`),
    exactly; of several to that which it would find first by itself (`exact_scores`), where no other is nearly as fast.

    Raises `InputError` for an information exponent below 3 in a teacher of more than one direction: at 2 every neuron ends at
    the largest weight, however it starts, at 1 between all of them, and no plateau keeps directions apart on the way.
    """
    if teacher.width > 1:
        activation.require_exponent(3, "which direction a neuron takes")
    alone = exact_scores(initial.overlap, teacher, activation)
    pure = len(activation.coefficients) == 1
    rule = scores(initial.overlap, teacher, activation.information_exponent) if pure else alone
    goes = np.argmax(rule, axis=1)[:, None] == np.arange(teacher.width)
    return _fastest(activation, teacher, initial, np.where(goes, alone, 0.0))


def alone_winners(activation: Activation, teacher: Teacher, initial: InitialState) -> tuple[np.ndarray, np.ndarray]:
    """As `undeflated_winners`, both (P,), if each direction were the only one: how long a run must be for all of them, at any
    exponent.
    """
    return _fastest(activation, teacher, initial, exact_scores(initial.overlap, teacher, activation))


def _fastest(
    activation: Activation, teacher: Teacher, initial: InitialState, score: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """For each direction the neuron of the largest positive score (m, P), and its time alone."""
    neuron = np.where(score.max(axis=0) > 0, np.argmax(score, axis=0), -1)
    task, time = SingleTask(activation), np.full(teacher.width, np.inf)
    for at in np.flatnonzero(neuron >= 0):
        time[at] = task.half_time(float(teacher.a[at]), float(initial.overlap[neuron[at], at]))
    return neuron, time


# ------------------------------------------------------------------------ one noisy step


@lru_cache(maxsize=32)
def spherical_plateau(activation: Activation) -> Plateau:
    r"""K and N of one normalised correlation step, exact in d, any overlap u with one teacher (0 with the others).

    $K=\tfrac u2E\,f_*^2\sigma'(z)^2(|x|^2-z^2)$, $N=E\,f_*^2\sigma'(z)^2(x_p-uz)^2-(a\varphi'(u)(1-u^2))^2$, by Mehler's
    formula; for polynomials without mean. A batch divides both (K up to a term of relative order 1/d). Raises `InputError`.
    """
    if not activation.is_polynomial or 0 in activation.coefficients:
        raise InputError(
            f"activation {activation.name!r}: the noise of a step needs a polynomial without mean, e.g. h4"
        )
    f2 = TargetMoments(activation.function)
    slope2 = sp.expand(sp.diff(activation.function, z) ** 2)
    # x_p² + ζ² = (x_p² + z² − 2u x_p z)/(1 − u²), ζ the neuron's own other coordinate; z² is taken off.
    inside = f2.of(2, slope2) + f2.of(0, slope2 * z**2) - 2 * overlap * f2.of(1, slope2 * z)
    across = sp.cancel(inside / (1 - overlap**2)) - f2.of(0, slope2 * z**2) + f2.with_rest(slope2)
    square = f2.of(2, slope2) - 2 * overlap * f2.of(1, slope2 * z) + overlap**2 * f2.of(0, slope2 * z**2)
    return Plateau(activation, sp.expand(overlap * across / 2), sp.expand(square - signal(activation) ** 2))


def settled_loss(
    activation: Activation, weights: np.ndarray, step_size: float, dim: int, total: float | None = None
) -> float:
    r"""Population loss at which SGD settles, one neuron at each direction of `weights` (n,), second layer by least squares.

    Near $u=1$ the drift balances at $1-u^2=\eta K(1)/(a\varphi'(1))$, and a neuron explains $\varphi(u)^2/\varphi(1)$ of its
    direction, so that the loss is $\tfrac12\sum_pa_p^2\varphi'(1)(1-u_p^2)=\tfrac\eta2\sum_pa_pK_p(1)$ to first order in η.
    `total`: Σa² of the whole teacher, where `weights` are some of its directions (the others add $\tfrac12a_p^2\varphi(1)$).

    Raises `InputError` as `spherical_plateau`, and for an information exponent below 3 in a teacher of more than one
    direction, where a neuron does not stay at its own: the others pull at it to first order.
    """
    own = float(np.sum(np.asarray(weights) ** 2))
    mass_ = own if total is None else total
    if len(weights) > 1 or mass_ > own * (1 + 1e-12):
        activation.require_exponent(3, "where neurons settle beside other directions")
    laws = [spherical_plateau(activation).laws(float(x), mass_, dim)[0] for x in weights]
    return float(step_size / 2 * sum(x * float(law(1.0)) for x, law in zip(weights, laws, strict=True)))


# ---------------------------------------------------------------------------- derivation


def derivation(activation: Activation) -> Derivation:
    """``derive correlation``: the flow without deflation, the tensor power argument, and the second layer."""
    drift, tolerance = dict(correlation_drift()), activation.check_tolerance
    drift.pop(r[k])  # which does not move
    check = partial(_flow_residual, activation=activation)
    chain, equations = component_steps(drift, "Chain rule on the sphere for {}", check, tolerance)
    steps = [Step("Correlation loss on the sphere", equation("C", correlation_loss().as_sympy())), *chain]
    assumptions = [
        GAUSSIAN,
        ORTHONORMAL,
        Assumption("neurons of unit norm, second layer fixed"),
        Assumption("activation without mean", 0 not in activation.coefficients),
    ]
    if activation.information_exponent >= 3:
        steps += _tensor_power_steps(activation)
        equations["q^*"] = _winner(activation.information_exponent)
        assumptions.append(Assumption("winner: one Hermite degree", len(activation.coefficients) == 1))
    condition = second_layer_condition()
    equations[r"\partial_{r_k}\mathcal{L}"] = condition.as_sympy()
    steps.append(
        Step(
            "Second layer: the loss is stationary in the weights r where this vanishes",
            equation(r"\partial_{r_k}\mathcal{L}", condition.as_sympy()),
            lambda shown: _second_layer_residual(activation, shown),
            tolerance,
        )
    )
    return Derivation("correlation", tuple(steps), equations, tuple(assumptions), REFERENCE)


def _winner(exponent: int) -> sp.Expr:
    return sp.Function(r"\arg\max_{q}")(a[q] * sp.Abs(t[k, q]) ** (exponent - 2))


def _tensor_power_steps(activation: Activation) -> list[Step]:
    """The ratio of two overlaps, the common clock, and the first blow-up; leading Hermite degree."""
    J, leading, tau = activation.information_exponent, activation.leading, sp.Symbol("tau", positive=True)
    first, start, a_q = sp.symbols("y y_0 a_q", positive=True)
    ratio = sp.Symbol(r"\frac{d}{dt}\ln(t_{kq}/t_{ks})")
    gap = J * leading * (a[q] * t[k, q] ** (J - 2) - a[s] * t[k, s] ** (J - 2))
    closed = (start ** (2 - J) - J * (J - 2) * leading * a_q * tau) ** sp.Rational(-1, J - 2)
    rate = J * leading * a_q * first ** (J - 1)
    blow_up = sp.solve(closed ** (2 - J), tau)[0]
    point = {start: sp.Rational(2, 9), a_q: sp.Rational(3, 5), tau: sp.Rational(1, 50)}
    return [
        Step(
            "Leading degree: in the ratio of two overlaps the common contraction drops out",
            equation(ratio, gap),
            lambda shown: _ratio_residual(activation, shown),
            activation.check_tolerance,
        ),
        Step(
            "Overlaps as a common factor times y, in the clock that the factor sets",
            equation("y", closed),
            lambda shown: (
                sp.N((sp.diff(shown, tau) - rate.subs(first, shown)).subs(point), _DIGITS)
                + abs(sp.N((shown.subs(tau, 0) - start).subs(point), _DIGITS))
            ),
            activation.check_tolerance,
        ),
        Step(
            "The first blow-up wins: at the largest a|t|^(J−2)",
            equation(r"\tau_q", blow_up),
            lambda shown: sp.N((1 / closed.subs(tau, shown)).subs(point), _DIGITS),
            activation.check_tolerance,
        ),
    ]


#: Two unit vectors of R⁴ with rational coordinates; teachers are the first two axes.
_UNITS = (
    (sp.Rational(1, 3), sp.Rational(-2, 3), sp.Rational(2, 3), 0),
    (sp.Rational(2, 5), sp.Rational(1, 5), sp.Rational(-2, 5), sp.Rational(4, 5)),
)
_WEIGHTS = (sp.Rational(4, 5), sp.Rational(3, 5))


def _arrays() -> dict[str, np.ndarray]:
    units = np.array(_UNITS, dtype=object)
    return {
        "t": units[:, :2],
        "c": units @ units.T,
        "r": np.array([sp.Rational(1, 3), sp.Rational(2, 7)], dtype=object),
        "a": np.array(_WEIGHTS, dtype=object),
    }


def _climb(activation: Activation) -> np.ndarray:
    """Velocity of both neurons in R⁴: the gradient of their correlation as functions of v/|v|, by plain differentiation."""
    rows = []
    for unit in _UNITS:
        place = sp.symbols("v0:4", real=True)
        size = sp.sqrt(sum(x**2 for x in place))
        height = sum(w * activation.kernel_at(place[i] / size) for i, w in enumerate(_WEIGHTS))
        at = dict(zip(place, unit, strict=True))
        rows.append([sp.N(sp.diff(height, x).subs(at), _DIGITS) for x in place])
    return np.array(rows, dtype=object)


def _flow_residual(component: sp.Indexed, sums: Sums, activation: Activation) -> sp.Expr:
    """The derived velocity of t or c against explicit vectors."""
    climb, units = _climb(activation), np.array(_UNITS, dtype=object)
    half = climb @ units.T
    expected = climb[:, :2] if component.base == t else half + half.T
    derived = evaluate(sums, component.indices, _arrays(), precise_kernel(activation))
    off = [(0, 0), (0, 1), (1, 0), (1, 1)] if component.base == t else [(0, 1), (1, 0)]
    return max(abs(sp.N(derived[place] - expected[place], _DIGITS)) for place in off)


def _ratio_residual(activation: Activation, shown: sp.Expr) -> sp.Expr:
    """Logarithmic velocities of two overlaps of one neuron, from explicit vectors and the leading degree."""
    J = activation.information_exponent
    pure = Activation.from_coefficients({J: activation.coefficients[J]})
    velocity, unit = _climb(pure)[0], _UNITS[0]
    found = velocity[0] / unit[0] - velocity[1] / unit[1]
    at = {a[q]: _WEIGHTS[0], a[s]: _WEIGHTS[1], t[k, q]: unit[0], t[k, s]: unit[1]}
    return sp.N(found - shown.xreplace(at), _DIGITS)


def _second_layer_residual(activation: Activation, shown: sp.Expr) -> sp.Expr:
    """The condition against central differences of the loss, which is quadratic in r."""
    arrays, kernel = _arrays(), precise_kernel(activation)
    derived = evaluate(Sums.read(shown), (k,), arrays, kernel)
    worst = sp.Integer(0)
    for neuron in range(2):
        ends = []
        for sign in (1, -1):
            moved = dict(arrays, r=arrays["r"] + sign * np.array([int(neuron == i) for i in range(2)], dtype=object))
            ends.append(evaluate(additive.population_loss(), (), moved, kernel)[()])
        worst = max(worst, abs(sp.N((ends[0] - ends[1]) / 2 - derived[neuron], _DIGITS)))
    return worst
