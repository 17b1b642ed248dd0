r"""The additive model: population loss, gradient, and the closed overlap flow, for any activation.

Teacher $f_* = \sum_p a_p\sigma(\langle e_p,x\rangle)$, student $f = \sum_k\|v_k\|^2\sigma(\langle\bar v_k,x\rangle)$,
$x\sim N(0,I_d)$, loss $\tfrac12 E(f_*-f)^2$ (arXiv:2504.19983, section 2 and Lemma B.1). In the coordinates
$t_{kp}=\langle\bar v_k,e_p\rangle$, $c_{kl}=\langle\bar v_k,\bar v_l\rangle$, $r_k=\|v_k\|^2$ the gradient flow
$\dot v_k = -\nabla_{v_k}\mathcal L$ closes, and $d$ enters only through the initial condition.
"""

from functools import cache, partial

import sympy as sp

from theory.additive import exact_points as points
from theory.additive.exact_points import HAT, E, Square, Tensor, V
from theory.core.activation import Activation
from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.indexed import (
    Dual,
    Index,
    Sums,
    Term,
    Vector,
    a,
    c,
    collect,
    differentiate,
    e,
    j,
    k,
    l,
    m,
    p,
    q,
    r,
    reads,
    s,
    symmetric_overlap,
    t,
    v,
)
from theory.core.system import System, component_steps

REFERENCE = "arXiv:2504.19983, sections 2.1–2.2 and Lemma B.1 (cross terms kept; closed in overlaps for any kernel)"
GAUSSIAN = Assumption("x ~ N(0, I_d), independent samples")
ORTHONORMAL = Assumption("teacher directions orthonormal")
TIME_UNIT = "gradient-flow time of ½E(f*−f)²; one SGD step of size η advances it by η"


def summed(body: sp.Expr, *bound: sp.Symbol) -> Sums:
    """`body` summed over the `bound` indices, as collected terms."""
    return collect([Term(body, bound)])


def population_loss() -> Sums:
    r"""$\mathcal L=\tfrac12\big[\sum_{pq}a_pa_q\varphi(\delta_{pq})-2\sum_{kp}a_pr_k\varphi(t_{kp})+\sum_{kl}r_kr_l
    \varphi(c_{kl})\big]$.

    Expanded from $\tfrac12E(f_*-f)^2$ by $E\,\sigma(\langle u,x\rangle)\sigma(\langle w,x\rangle)=\varphi(\langle u,w
    \rangle)$; $\sum_{pq}a_pa_q\varphi(\delta_{pq}) = (\varphi(1)-\varphi(0))\sum_pa_p^2+\varphi(0)\sum_{pq}a_pa_q$.
    """
    half = sp.Rational(1, 2)
    phi0, phi1 = Dual(sp.Integer(0), 0), Dual(sp.Integer(1), 0)
    teacher = summed(half * (phi1 - phi0) * a[p] ** 2, p) + summed(half * phi0 * a[p] * a[s], p, s)
    cross = summed(-a[p] * r[k] * Dual(t[k, p], 0), k, p)
    student = summed(half * r[k] * r[l] * Dual(c[k, l], 0), k, l)
    return teacher + cross + student


def frame_gradients(neuron: sp.Symbol) -> dict[sp.Indexed, Vector]:
    r"""Gradients by $v_k$ of the coordinates that move with it.

    $\nabla r_k = 2\sqrt{r_k}\,\bar v_k$, $\nabla t_{kp} = (e_p-t_{kp}\bar v_k)/\sqrt{r_k}$,
    $\nabla c_{kl} = (\bar v_l-c_{kl}\bar v_k)/\sqrt{r_k}$.
    """
    size = sp.sqrt(r[neuron])
    return {
        r[neuron]: v(neuron).scaled(2 * size),
        t[neuron, p]: (e(p) + v(neuron).scaled(-t[neuron, p])).scaled(1 / size),
        c[neuron, l]: (v(l) + v(neuron).scaled(-symmetric_overlap(neuron, l))).scaled(1 / size),
    }


def velocity(loss: Sums) -> Vector:
    r"""$\dot v_k = -\nabla_{v_k}\mathcal L$ as a combination of $e_p$, $\bar v_l$ and $\bar v_k$, by the chain rule."""
    renamed = Sums(term.renamed({k: j, p: s, l: q}) if term.bound else term for term in bound_neutral(loss))
    total = Vector(())
    for coordinate, frame in frame_gradients(k).items():
        partial = differentiate(renamed, coordinate)
        if coordinate.base == c:  # c_kl and c_lk are one coordinate
            partial = partial + differentiate(renamed, c[l, k])
        outer = tuple(i for i in coordinate.indices if i != k)
        for term in normal_form(partial):
            total = total + frame.scaled(-term.body, (*term.bound, *outer))
    return total


def bound_neutral(loss: Sums) -> Sums:
    """Rename the loss's own bound indices so that they cannot clash with the coordinate's."""
    return loss.renamed({index: Index(f"{index}1", index.length) for index in (k, l, p, s)})


def normal_form(sums: Sums) -> Sums:
    """Bring bound indices back to l (neurons) and p (directions), and order the indices of c."""
    result = []
    for term in sums:
        names = {i: (l if i.length == m else p) for i in term.bound}
        body = term.renamed(names).body
        body = body.replace(
            lambda x: isinstance(x, sp.Indexed) and x.base == c, lambda x: symmetric_overlap(*x.indices)
        )
        result.append(Term(body, tuple(names.values())))
    return collect(result)


@cache
def symbolic_velocity() -> Vector:
    """The `velocity` of the `population_loss`."""
    return velocity(population_loss())


def radial_component() -> Sums:
    r"""$\langle\dot v_k,\bar v_k\rangle=2\sqrt{r_k}\big(\sum_pa_p\varphi(t_{kp})-\sum_lr_l\varphi(c_{kl})\big)$."""
    return symbolic_velocity().dot(v(k))


def direction_component() -> Sums:
    r"""$\langle\dot v_k,(I-\bar v_k\bar v_k^\top)e_q\rangle$, the tangent part of the velocity along $e_q$."""
    return symbolic_velocity().dot(e(q)) + symbolic_velocity().dot(v(k).scaled(-t[k, q]))


@cache
def overlap_drift() -> dict[sp.Indexed, Sums]:
    r"""$\dot t_{kq}$, $\dot c_{kj}$, $\dot r_k$ by the chain rule from the velocity."""
    velocity_k = symbolic_velocity()
    t_dot = direction_component().scaled(1 / sp.sqrt(r[k]))
    half = velocity_k.dot((v(j) + v(k).scaled(-symmetric_overlap(k, j))).scaled(1 / sp.sqrt(r[k])))
    c_dot = normal_form(half + half.renamed({k: j, j: k}))
    # Written with c_kj itself, not its mirror image c_jk: then rounding asymmetries of students that grow decay.
    c_dot = Sums(Term(term.body.xreplace({c[j, k]: c[k, j]}), term.bound) for term in c_dot)
    r_dot = radial_component().scaled(2 * sp.sqrt(r[k]))
    return {t[k, q]: t_dot, c[k, j]: c_dot, r[k]: r_dot}


# --------------------------------------------------------------------------- derivations


def _activation_steps(activation: Activation) -> list[Step]:
    sigma = sp.Function(r"\sigma")
    i = sp.Symbol("i", integer=True)
    kernel = equation(Dual(sp.Symbol("c"), 0), sp.Sum(HAT[i] ** 2 * sp.Symbol("c") ** i, (i, 0, sp.oo)))
    expectation = sp.Function("E")(sigma(sp.Symbol(r"\langle u,x\rangle")) * sigma(sp.Symbol(r"\langle w,x\rangle")))
    return [
        Step("Dual kernel of the activation", kernel),
        Step(
            "Gaussian expectation of a product of two neurons",
            equation(expectation, Dual(sp.Symbol(r"\langle u,w\rangle"), 0)),
            lambda shown: points.kernel_residual(activation, shown),
            activation.check_tolerance,
        ),
    ]


def _loss_residual(activation: Activation, loss: Sums) -> sp.Expr:
    """For this activation, and for one with a mean, to which the terms in φ(0) matter."""
    return max((points.loss_residual(loss, x) for x in (activation, points.WITH_MEAN)), key=abs)


def loss_derivation(activation: Activation) -> Derivation:
    """The population loss as a function of overlaps, and as a tensor loss."""
    loss = population_loss()
    symbol = sp.Symbol(r"\mathcal{L}")
    f_star, f = sp.Symbol("f_*"), sp.Symbol("f")
    steps = [
        Step("Loss", equation(symbol, sp.Function("E")((f_star - f) ** 2) / 2)),
        *_activation_steps(activation),
        Step(
            "Expand the square; every expectation is the kernel at an overlap",
            equation(symbol, loss.as_sympy()),
            reads(partial(_loss_residual, activation)),
            activation.check_tolerance,
        ),
        Step(
            "The same as a sum of tensor losses, one for every Hermite degree",
            equation(symbol, _tensor_form()),
            lambda shown: points.tensor_residual(shown, loss),
        ),
    ]
    rhs = loss.as_sympy().replace(Dual, activation.kernel_at)
    return Derivation("loss", tuple(steps), {r"\mathcal{L}": rhs}, (GAUSSIAN, ORTHONORMAL), REFERENCE)


def _tensor_form() -> sp.Expr:
    i = sp.Symbol("i", integer=True)
    target = Term(a[p] * Tensor(E[p], i), (p,)).as_sympy()
    inside = Square(target - Term(r[k] * Tensor(V[k], i), (k,)).as_sympy())
    return sp.Rational(1, 2) * sp.Sum(HAT[i] ** 2 * inside, (i, 0, sp.oo))


def gradient_derivation(activation: Activation) -> Derivation:
    """Lemma B.1 of arXiv:2504.19983: radial and tangent parts of the population gradient, all cross terms kept."""
    frames = frame_gradients(k)
    radial, tangent = radial_component(), direction_component()
    radial_name = sp.Symbol(r"\langle-\nabla_{v_k}\mathcal{L},\bar v_k\rangle")
    tangent_name = sp.Symbol(r"\langle-(I-\bar v_k\bar v_k^\top)\nabla_{v_k}\mathcal{L},e_q\rangle")
    steps = [
        Step(
            "Population loss in overlaps",
            equation(r"\mathcal{L}", population_loss().as_sympy()),
            reads(partial(_loss_residual, activation)),
            activation.check_tolerance,
        ),
        *[
            Step(
                f"How {coordinate} moves with the neuron",
                equation(rf"\nabla_{{v_k}}{sp.latex(coordinate)}", shown_vector(frame)),
                partial(points.frame_residual, coordinate),
            )
            for coordinate, frame in frames.items()
        ],
        Step(
            "Radial component",
            equation(radial_name, radial.as_sympy()),
            reads(lambda sums: points.radial_residual(sums, activation)),
            activation.check_tolerance,
        ),
        Step(
            "Tangent component along a teacher direction",
            equation(tangent_name, tangent.as_sympy()),
            reads(lambda sums: points.tangent_residual(sums, activation)),
            activation.check_tolerance,
        ),
    ]
    equations = {str(radial_name): radial.as_sympy(), str(tangent_name): tangent.as_sympy()}
    return Derivation("gradient", tuple(steps), equations, (GAUSSIAN, ORTHONORMAL), REFERENCE)


def shown_vector(vector: Vector) -> sp.Expr:
    """A `Vector` without sums, as it is written."""
    names = {"e": E, "v": V}
    return sp.Add(*[coefficient * names[kind][index] for coefficient, kind, index, _ in vector.terms])


def overlap_flow(activation: Activation) -> System:
    r"""The closed gradient flow of $(t, c, r)$, derived for any kernel and attached to `activation`.

    Shapes: t (m, P), c (m, m), r (m,), a (P,). Time: gradient-flow time of ½E(f*−f)².
    Valid at any $d\ge P+m$, any norms, any overlaps; the population limit ($\eta\to0$) is the only one taken.
    """
    drift = overlap_drift()
    check = partial(points.flow_residual, activation=activation)
    steps, equations = component_steps(drift, "Chain rule for {}", check, activation.check_tolerance)
    steps = gradient_derivation(activation).steps + steps
    derivation = Derivation("overlap-flow", steps, equations, (GAUSSIAN, ORTHONORMAL), REFERENCE)
    return System(
        name="overlap-flow",
        activation=activation,
        drift=drift,
        observables={"loss": population_loss()},
        parameters=("a",),
        derivation=derivation,
        time_unit=TIME_UNIT,
        limit="step size to 0 (population gradient flow); exact in d",
    )
