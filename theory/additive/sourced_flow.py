r"""The overlap flow in coordinates, with the forces of a chosen few students.

A student acts on the others in proportion to its mass $r_l$, so the many that are still light hardly act at all, and the
$m\times m$ overlaps of the closed flow are more than is needed. Here every student carries its coordinates: $t_{kp}$ on
the teachers, $u_{ki}$ on an orthonormal basis of the rest. The sums over students run over *sources* o only,

$$ x_{ko}=\sum_pt_{kp}t_{op}+\sum_iu_{ki}u_{oi},\qquad
   \dot u_{ki}=-u_{ki}\sum_pa_p\varphi'(t_{kp})t_{kp}-\sum_or_o\varphi'(x_{ko})(u_{oi}-x_{ko}u_{ki}), $$

and alike for t; a student that is no source still feels its own mass. With every student a source this is the overlap
flow of `theory.additive.flow`, exactly; otherwise it leaves out the forces of light students. Cost: of the order of m·S·(P +
rank) for S sources.
"""

from functools import cache, partial

import sympy as sp

from theory.additive import exact_points as points
from theory.additive.flow import GAUSSIAN, ORTHONORMAL, REFERENCE, TIME_UNIT, overlap_drift, symbolic_velocity
from theory.core.activation import Activation
from theory.core.derivation import Assumption, Derivation
from theory.core.indexed import Index, Sums, Term, collect, i, k, l, p, q, r, t, v
from theory.core.indexed import c as overlap
from theory.core.system import System, component_steps

#: Sources, and coordinates of what lies outside the teachers' span.
o = Index("o", sp.Symbol("S", integer=True, positive=True))
u, x = sp.IndexedBase("u"), sp.IndexedBase("x")
source_t, source_u, source_r = (sp.IndexedBase(f"source_{name}") for name in ("t", "u", "r"))
#: 1 for a student that is no source, else 0.
light = sp.IndexedBase("light")
_LIGHT = Assumption("students that are no sources have masses far below every weight that is still unlearned")


def _from_sources(sums: Sums) -> Sums:
    """Sums over all students l as sums over the sources."""
    return collect(_from_source(term) if l in term.bound else term for term in sums)


def _from_source(term: Term) -> Term:
    moved = {r[l]: source_r[o], overlap[k, l]: x[k, o], t[l, q]: source_t[o, q], u[l, i]: source_u[o, i]}
    body = term.body.xreplace(moved)
    if l in body.free_symbols:
        raise ValueError(f"{term.body}: a sum over students that has no counterpart over sources")
    return Term(body, tuple(o if index == l else index for index in term.bound))


def _own(sums: Sums) -> Sums:
    """The terms l = k of the sums over students, where student k is no source."""
    own = [term for term in sums if l in term.bound]
    alone = {r[l]: r[k], overlap[k, l]: sp.Integer(1), t[l, q]: t[k, q], u[l, i]: u[k, i]}
    bodies = [Term(light[k] * term.body.xreplace(alone), tuple(b for b in term.bound if b != l)) for term in own]
    return collect(bodies)


def _residual_drift() -> Sums:
    r"""$\dot u_{ki}$: the tangent part of the velocity along a basis vector that is orthogonal to all teachers."""
    along = [Term(x * u[n, i], bound) for x, kind, n, bound in symbolic_velocity().terms if kind == "v"]
    radial = [Term(-term.body * u[k, i], term.bound) for term in symbolic_velocity().dot(v(k))]
    return collect([*along, *radial]).scaled(1 / sp.sqrt(r[k]))


@cache
def _drift() -> dict[sp.Indexed, Sums]:
    whole = {t[k, q]: overlap_drift()[t[k, q]], u[k, i]: _residual_drift(), r[k]: overlap_drift()[r[k]]}
    return {component: _from_sources(sums) + _own(sums) for component, sums in whole.items()}


@cache
def _definitions() -> dict[sp.Indexed, Sums]:
    return {x[k, o]: Sums.of((t[k, p] * source_t[o, p], p), (u[k, i] * source_u[o, i], i))}


@cache
def sourced_flow(activation: Activation) -> System:
    r"""The gradient flow of $(t, u, r)$ with forces from sources only, derived for any kernel.

    Shapes: t (m, P), u (m, rank), r (m,), a (P,), source_t (S, P), source_u (S, rank), source_r (S,), light (m,).
    Time: gradient-flow time of ½E(f*−f)². Valid at any d ≥ P + m.
    """
    definitions, drift = _definitions(), _drift()
    title = "Coordinates {0.base}, forces of the sources and of the student's own mass"
    check = partial(points.coordinate_residual, definitions=definitions, activation=activation)
    steps, equations = component_steps(drift, title, check, activation.check_tolerance)
    return System(
        name="sourced-flow",
        activation=activation,
        drift=drift,
        observables={},
        parameters=("a", "light", "source_t", "source_u", "source_r"),
        derivation=Derivation("sourced-flow", steps, equations, (GAUSSIAN, ORTHONORMAL, _LIGHT), REFERENCE),
        time_unit=TIME_UNIT,
        limit="step size to 0 (population gradient flow); exact in d; forces of students that are no sources left out",
        definitions=definitions,
    )
