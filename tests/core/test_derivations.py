"""Every derivation holds for every kind of activation, and a broken one is caught."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import sympy as sp

from theory import (
    Activation,
    Derivation,
    DerivationError,
    InputError,
    SingleTask,
    Step,
    finite_step,
    gradient_derivation,
    loss_derivation,
    overlap_flow,
    plateau,
)
from theory.additive import exact_points
from theory.additive import flow as additive
from theory.core.hermite import hermite
from theory.core.indexed import Sums, Term, collect, k, l, q, r, reads, t
from theory.one_task import single_task as single
from theory.scaling import ideal_loss

TEXTS = ["h3", "h4", "h6", "0.8*h4+0.6*h6", "h3+h4", "h4+1", "quadratic", "h1", "erf", "relu", "relu**2", "tanh"]
MAKERS: dict[str, Callable[[Activation], Derivation]] = {
    "loss": loss_derivation,
    "gradient": gradient_derivation,
    "overlap-flow": lambda activation: overlap_flow(activation).derivation,
    "single-task": lambda activation: SingleTask(activation).derivation(),
    "norm": lambda activation: SingleTask(activation).norm_derivation(),
}
#: With a mean and low degrees, so that no term of the loss vanishes by accident.
GENERAL = Activation.from_coefficients({0: sp.Rational(1, 3), 1: sp.Rational(1, 2), 3: sp.Rational(2, 3)})


@pytest.mark.slow_for("overlap-flow-relu**2", "overlap-flow-tanh", "gradient-relu**2", "gradient-tanh")
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", MAKERS)
def test_every_step_holds(name: str, text: str) -> None:
    derivation = MAKERS[name](Activation.parse(text))
    assert derivation.name == name
    assert derivation.verify() >= 3
    assert derivation.equations
    assert derivation.reference
    assert all(step.title in derivation.latex() for step in derivation.steps)


@pytest.mark.parametrize("name", MAKERS)
def test_opaque_functions_and_floating_coefficients_derive_too(name: str) -> None:
    opaque = Activation.from_function(lambda x: x**4 / 5 - x**2 / 2, "a Python function")
    decimal = Activation.from_coefficients({4: 0.8, 6: 0.6})
    assert MAKERS[name](opaque).verify() >= 3
    assert MAKERS[name](decimal).verify() >= 3


@pytest.mark.parametrize("text", ["h4", "h6", "0.8*h4+0.6*h6"])
def test_ideal_loss_holds(text: str) -> None:
    assert ideal_loss.derivation(Activation.parse(text)).verify() >= 5


@pytest.mark.parametrize("text", ["h3", "erf", "relu", "quadratic", "h3+h4"])
def test_ideal_loss_refuses_what_its_theorem_does_not_cover(text: str) -> None:
    with pytest.raises(InputError, match=r"Theorem 2\.1"):
        ideal_loss.derivation(Activation.parse(text))


@pytest.mark.slow_for("0.8*h4+0.6*h6", "h3+h4")
@pytest.mark.parametrize("text", ["h3", "h4", "h5", "0.8*h4+0.6*h6", "h3+h4", "2*h4"])
def test_plateau_holds(text: str) -> None:
    assert plateau(Activation.parse(text)).derivation().verify() >= 2


# ------------------------------------------------------------------------- mutations


def without(sums: Sums, index: int) -> Sums:
    return Sums(term for i, term in enumerate(sums) if i != index)


def scaled_term(sums: Sums, index: int, factor: sp.Expr) -> Sums:
    return Sums(Term(term.body * factor, term.bound) if i == index else term for i, term in enumerate(sums))


def mutants(sums: Sums) -> list[Sums]:
    """Each term dropped, with its sign changed, and 1 % too large."""
    places = range(len(sums))
    dropped = [without(sums, i) for i in places]
    flipped = [scaled_term(sums, i, sp.Integer(-1)) for i in places]
    return dropped + flipped + [scaled_term(sums, i, sp.Rational(101, 100)) for i in places]


def assert_caught(residual: Callable[[], sp.Expr]) -> None:
    with pytest.raises(DerivationError, match="does not hold"):
        Step("mutant", sp.true, lambda _: residual()).verify()


def test_unbroken_formulas_pass_the_very_checks_that_catch_the_mutants() -> None:
    Step("loss", sp.true, lambda _: exact_points.loss_residual(additive.population_loss(), GENERAL)).verify()
    for component, sums in additive.overlap_drift().items():
        Step(
            "flow", sums.as_sympy(), reads(partial(exact_points.flow_residual, component, activation=GENERAL))
        ).verify()


def test_every_mutant_of_the_loss_is_caught() -> None:
    for mutant in mutants(additive.population_loss()):
        assert_caught(partial(exact_points.loss_residual, mutant, GENERAL))


def test_every_mutant_of_the_gradient_is_caught() -> None:
    for mutant in mutants(additive.radial_component()):
        assert_caught(partial(exact_points.radial_residual, mutant, GENERAL))
    for mutant in mutants(additive.direction_component()):
        assert_caught(partial(exact_points.tangent_residual, mutant, GENERAL))


@pytest.mark.parametrize("component", list(additive.overlap_drift()), ids=str)
def test_every_mutant_of_the_flow_is_caught(component: sp.Indexed) -> None:
    """A dropped cross term between students among them."""
    broken = mutants(additive.overlap_drift()[component])
    assert len(broken) >= 6
    assert any(l in term.bound for term in additive.overlap_drift()[component])
    for mutant in broken:
        assert_caught(partial(exact_points.flow_residual, component, mutant, GENERAL))


def test_every_mutant_of_a_frame_is_caught() -> None:
    for coordinate, frame in additive.frame_gradients(k).items():
        for factor in (sp.Integer(-1), sp.Rational(101, 100)):
            wrong = additive.shown_vector(frame.scaled(factor))
            assert_caught(partial(exact_points.frame_residual, coordinate, wrong))


def test_whole_derivations_notice_a_broken_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """½E(f*−f)² without its ½, and with a cross term 2 % off: `derive loss` and `derive gradient` both say so."""
    right = additive.population_loss()
    cross = next(i for i, term in enumerate(right) if term.body.has(t.label))
    for wrong in (right.scaled(sp.Integer(2)), scaled_term(right, cross, sp.Rational(51, 50))):
        monkeypatch.setattr(additive, "population_loss", lambda wrong=wrong: wrong)
        with pytest.raises(DerivationError):
            loss_derivation(Activation.parse("h4")).verify()
        with pytest.raises(DerivationError):
            gradient_derivation(Activation.parse("h4")).verify()


@pytest.mark.parametrize("text", ["h3", "h4", "erf"])
def test_whole_derivations_notice_a_broken_flow(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    activation, right = Activation.parse(text), additive.overlap_drift()
    wrong = {component: sums.scaled(sp.Rational(21, 20)) for component, sums in right.items()}
    monkeypatch.setattr(additive, "overlap_drift", lambda: wrong)
    for broken in (overlap_flow(activation).derivation, SingleTask(activation).derivation()):
        with pytest.raises(DerivationError):
            broken.verify()
    with pytest.raises(DerivationError):
        SingleTask(activation).norm_derivation().verify()


def test_a_student_cross_term_missing_from_the_flow_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = additive.overlap_drift()
    cross = next(i for i, term in enumerate(right[t[k, q]]) if l in term.bound and term.body.has(r.label))
    monkeypatch.setattr(additive, "overlap_drift", lambda: right | {t[k, q]: without(right[t[k, q]], cross)})
    with pytest.raises(DerivationError):
        overlap_flow(Activation.parse("h4")).derivation.verify()


def test_a_broken_time_course_is_noticed() -> None:
    """M(t) run 5 % too fast, and its blow-up time with it."""
    task = SingleTask(Activation.parse("h4"))
    task.__dict__["pre_recovery"] = task.pre_recovery.subs(single.time, single.time * sp.Rational(21, 20))
    with pytest.raises(DerivationError):
        task.derivation().verify()


@pytest.mark.parametrize("name", ["emergence_time", "implicit_antiderivative", "leading_squared_rate"])
def test_a_broken_closed_form_is_noticed(name: str) -> None:
    task = SingleTask(Activation.parse("h4"))
    task.__dict__[name] = getattr(task, name) * sp.Rational(20, 21)
    with pytest.raises(DerivationError):
        task.derivation().verify()


@pytest.mark.parametrize("name", ["norm_rate", "norm_lag"])
def test_a_broken_norm_law_is_noticed(name: str) -> None:
    task = SingleTask(Activation.parse("0.8*h4+0.6*h6"))
    task.__dict__[name] = getattr(task, name) * sp.Rational(20, 21)
    with pytest.raises(DerivationError):
        task.norm_derivation().verify()


@pytest.mark.parametrize("text", ["h3", "h4"])
@pytest.mark.parametrize("name", ["shrinkage_law", "variance_law"])
def test_a_broken_plateau_law_is_noticed(text: str, name: str) -> None:
    right = plateau(Activation.parse(text))
    wrong = replace(right, **{name: getattr(right, name) * sp.Rational(101, 100)})
    with pytest.raises(DerivationError):
        wrong.derivation().verify()


@pytest.mark.parametrize("name", ["shrinkage", "variance"])
def test_a_broken_plateau_constant_is_noticed(name: str) -> None:
    right = plateau(Activation.parse("h4"))
    wrong = replace(right)
    wrong.__dict__[name] = getattr(right, name) * sp.Rational(101, 100)
    with pytest.raises(DerivationError):
        wrong.derivation().verify()


@pytest.mark.parametrize("name", ["time", "width", "samples_unstable", "compute"])
def test_a_broken_exponent_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    right = ideal_loss.scaling_exponents()
    monkeypatch.setattr(ideal_loss, "scaling_exponents", lambda: right | {name: right[name] * sp.Rational(21, 20)})
    with pytest.raises(DerivationError):
        ideal_loss.derivation(Activation.parse("h4")).verify()


def test_a_broken_tail_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = ideal_loss.tail() * sp.Rational(21, 20)
    monkeypatch.setattr(ideal_loss, "tail", lambda: wrong)
    with pytest.raises(DerivationError):
        ideal_loss.derivation(Activation.parse("h4")).verify()


def test_a_kernel_that_is_not_the_activations_own_is_noticed() -> None:
    """Coefficients that belong to another function, and a closed form 5 % off."""
    with pytest.raises(DerivationError):
        loss_derivation(Activation("wrong", {4: sp.Integer(1)}, hermite(4) * sp.Rational(21, 20))).verify()
    erf = Activation.parse("erf")
    assert erf.closed_dual is not None
    with pytest.raises(DerivationError):
        loss_derivation(replace(erf, closed_dual=erf.closed_dual * sp.Rational(21, 20))).verify()


# ------------------------------------------------------------------------- the parts


def test_steps_without_a_check_are_not_counted() -> None:
    definition, checked = Step("a", sp.true), Step("b", sp.true, lambda _: sp.Integer(0))
    assert Derivation("x", (definition, checked), {}, (), "").verify() == 1


@pytest.mark.parametrize(("residual", "holds"), [(sp.Float("1e-31"), True), (sp.Float("1e-29"), False), (-1, False)])
def test_residuals_are_judged_by_size(residual: sp.Expr, holds: bool) -> None:
    step = Step("size", sp.true, lambda _: sp.sympify(residual))
    if holds:
        step.verify()
    else:
        with pytest.raises(DerivationError, match="'size'"):
            step.verify()


def test_a_residual_with_a_free_symbol_or_no_value_does_not_pass() -> None:
    for residual in (sp.Symbol("x"), sp.nan, sp.zoo, sp.I):
        assert_caught(partial(sp.sympify, residual))


def test_collect_adds_and_cancels_like_terms() -> None:
    term = Term(r[l], (l,))
    assert collect([term, Term(-r[l], (l,))]) == ()
    assert collect([term, term]) == (Term(2 * r[l], (l,)),)


def test_single_task_is_the_flow_with_everything_else_removed() -> None:
    """aφ'(u)(1−u²), read off the derived system rather than typed into the class."""
    rate = SingleTask(Activation.parse("h3+h4")).rate
    assert sp.expand(rate - single.a * (3 * single.u**2 + 4 * single.u**3) * (1 - single.u**2)) == 0


# ------------------------------------------------------------------------- systems whose parts were replaced


def test_a_system_whose_drift_was_replaced_is_not_derived() -> None:
    system = overlap_flow(Activation.parse("h4"))
    right = system.derivation
    wrong = replace(system, drift={x: sums.scaled(sp.Rational(21, 20)) for x, sums in system.drift.items()})
    assert (right.replaced, wrong.derivation.replaced) == ((), ("drift",))
    assert system.derivation.verify() == 9
    with pytest.raises(DerivationError, match="drift replaced: not derived"):
        wrong.derivation.verify()
    assert wrong.derivation.latex().startswith("% drift replaced: not derived")
    # Handed to a new system, the derivation does not vouch for it either; put back, it does.
    with pytest.raises(DerivationError, match="not derived"):
        replace(wrong, limit="another").derivation.verify()
    assert replace(wrong, drift=dict(system.drift)).derivation.replaced == ()


def test_every_part_that_was_replaced_is_named() -> None:
    system = finite_step(Activation.parse("h3"), fluctuations=True)
    wrong = replace(system, observables={}, covariance={}, activation=Activation.parse("h4"))
    assert wrong.derivation.replaced == ("activation", "observables", "covariance")
    own = replace(wrong, derivation=Derivation("mine", (), {}, (), ""))
    assert own.derivation.replaced == ()
