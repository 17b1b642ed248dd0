r"""Gradient descent on the population loss with a fixed step, as an exact map of raw overlaps.

With $T_{kp}=\langle v_k,e_p\rangle$, $Q_{kl}=\langle v_k,v_l\rangle$ and the velocity $u_k=-\nabla_{v_k}\mathcal L=
\sum_pA_{kp}e_p+\sum_lB_{kl}v_l$ of the derived gradient, $v_k\leftarrow v_k+\eta u_k$ is

$$ T\leftarrow T+\eta\,U,\qquad Q\leftarrow Q+\eta(R+R^\top)+\eta^2\,(AU^\top+BR^\top),\qquad U=A+BT,\; R=AT^\top+BQ, $$

in any dimension: no vector of length d is needed. The system's drift is the change of one step divided by η.
"""

from functools import cache, partial

import sympy as sp

from theory.additive import exact_points as points
from theory.additive.flow import GAUSSIAN, ORTHONORMAL, REFERENCE, TIME_UNIT, population_loss, symbolic_velocity
from theory.core.activation import Activation
from theory.core.derivation import Derivation
from theory.core.indexed import Sums, Term, c, collect, j, k, l, p, q, r, t
from theory.core.system import System, component_steps

T, Q = sp.IndexedBase("T"), sp.IndexedBase("Q")
A, B = sp.IndexedBase("onto_teachers"), sp.IndexedBase("onto_students")
U, R = sp.IndexedBase("velocity_on_teachers"), sp.IndexedBase("velocity_on_students")
eta = sp.Symbol("eta", positive=True)


@cache
def _definitions() -> dict[sp.Indexed, Sums]:
    """Normalised overlaps, the velocity's coefficients, and its overlaps, each from those before it."""
    size, other = sp.sqrt(r[k]), sp.sqrt(r[l])
    onto_teachers, onto_students, onto_self = [], [], []
    for coefficient, kind, index, bound in symbolic_velocity().terms:
        if kind == "e":
            onto_teachers.append(Term(coefficient, tuple(i for i in bound if i != index)))
        elif index == k:
            onto_self.append(Term(coefficient / size, bound))
        else:
            onto_students.append(Term(coefficient / other, tuple(i for i in bound if i != index)))
    own = sp.IndexedBase("onto_self")
    return {
        r[k]: Sums.of(Q[k, k]),
        t[k, p]: Sums.of(T[k, p] / size),
        c[k, l]: Sums.of(Q[k, l] / size / other),
        A[k, p]: collect(onto_teachers),
        B[k, l]: collect(onto_students),
        own[k]: collect(onto_self),
        U[k, p]: Sums.of(A[k, p], own[k] * T[k, p], (B[k, l] * T[l, p], l)),
        R[k, j]: Sums.of((A[k, p] * T[j, p], p), own[k] * Q[k, j], (B[k, l] * Q[l, j], l)),
    }


@cache
def _drift() -> dict[sp.Indexed, Sums]:
    own = sp.IndexedBase("onto_self")
    second = [Term(A[k, p] * U[j, p], (p,)), Term(own[k] * R[j, k]), Term(B[k, l] * R[j, l], (l,))]
    first = [Term(R[k, j]), Term(R[j, k])]
    return {T[k, q]: Sums.of(U[k, q]), Q[k, j]: Sums([*first, *(Term(eta * x.body, x.bound) for x in second)])}


@cache
def descent_map(activation: Activation) -> System:
    r"""The exact map of (T, Q) by one step of population gradient descent, derived for any kernel.

    Shapes: T (m, P), Q (m, m), a (P,), eta a number. One step adds η·drift. Observable ``loss``. The same population
    gradient as `overlap_flow`, to all orders in the step size; no sampling noise. Cost of a step: 2m³ + 3m²P.
    """
    definitions, drift = _definitions(), _drift()
    check = partial(points.step_residual, definitions=definitions, activation=activation)
    steps, equations = component_steps(
        drift, "One step of {0.base}", check, activation.check_tolerance, r"\Delta {}/\eta"
    )
    return System(
        name="gradient-descent",
        activation=activation,
        drift=drift,
        observables={"loss": population_loss()},
        parameters=("a", "eta"),
        derivation=Derivation("gradient-descent", steps, equations, (GAUSSIAN, ORTHONORMAL), REFERENCE),
        time_unit=TIME_UNIT,
        limit="population loss (no sampling noise); exact in the step size and in d",
        definitions=definitions,
    )
