"""Declared models as text: targets, and parts by name with their own arguments."""

import pytest
import sympy as sp

from theory import InputError
from theory.core.hermite import hermite, z
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.rule import RULES, Momentum, Muon, Reuse, Rule
from theory.declared.schedule import Linear, Power
from theory.declared.target import Classes, Polynomial, monomials
from theory.declared.target_text import parse_target
from theory.declared.text import (
    COMMON,
    construct,
    parse_directions,
    parse_inputs,
    parse_rule,
    parse_step_size,
    read_target,
)

z1, z2, z3 = (sp.Symbol(f"z{p}", real=True) for p in (1, 2, 3))


@pytest.mark.parametrize(
    ("text", "expression", "count"),
    [
        ("z1 + z1*z2 + z1*z2*z3", z1 + z1 * z2 + z1 * z2 * z3, 3),
        ("h2(z1) + h2(z1)*h1(z2)", (z1**2 - 1) / sp.sqrt(2) * (1 + z2), 2),
        ("0.1*z3", z3 / 10, 3),
        ("h3(z1)/sqrt(6) + sqrt(6)*pi*z2", hermite(3).subs(z, z1) / sp.sqrt(6) + sp.sqrt(6) * sp.pi * z2, 2),
        ("max(2, exp(1))*z1", sp.E * z1, 1),
        ("h3(2*z1 - z2)", hermite(3).subs(z, 2 * z1 - z2), 2),
    ],
)
def test_a_target_is_its_expression(text: str, expression: sp.Expr, count: int) -> None:
    found, directions = parse_target(text)
    assert (sp.expand(found - expression), directions) == (0, count)


def test_a_target_has_the_hermite_coefficients_that_it_is_written_with() -> None:
    assert monomials(Polynomial.parse("0.5*h2(z1) - 2*h2(z1)*h1(z2)")) == {(2, 0): sp.Rational(1, 2), (2, 1): -2}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("z", "unknown name 'z'): did you mean z"),
        ("sin(z1)", "sin is of numbers only"),
        ("sqrt(z1**2)", "sqrt is of numbers only"),
        ("sqr(6)*z1", "unknown function 'sqr'): did you mean sqrt"),
        ("sqrt(-6)*z1", "not finite and real"),
        ("(-1)**(1/3)*z1", "a coefficient is not real"),
        ("log(0)*z1", "log has no value there"),
        ("exp(60)*exp(60)*z1", "a coefficient is not real and below 1e+30"),
        ("3", "no field"),
        ("z1 - z1", "no field"),
        ("z1/z2", "no polynomial"),
        ("z1**0.5", "no polynomial"),
        ("z100", "unknown name"),
        ("h50(z1)", "degree exceeds 40"),
        ("h9(z1**5)", "degree exceeds 40"),
        ("(z1*z2)**30", "degree exceeds 40"),
        ("(z1 + z2 + z3 + z4 + z5 + z6)**39", "more than 5000 terms"),
        ("h2(z1, z2)", "h2 takes 1 argument"),
        ("__import__('os')", "not allowed"),
        ("z1 if z2 else z3", "IfExp is not allowed"),
        ("z1 +", "not an expression"),
        ("(2 + h2(1))**-2*z1**0.1", "no polynomial"),
    ],
)
def test_a_target_that_is_none_costs_one_line(text: str, said: str) -> None:
    with pytest.raises(InputError, match=r"^target ") as refusal:
        parse_target(text)
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        ("512", Inputs.isotropic(512)),
        ("isotropic(8, 2)", Inputs.isotropic(8, 2.0)),
        ("blocks(1x14, 3x6, 0.4x40)", Inputs.blocks((3.0, 6), (1.0, 14), (0.4, 40))),
        ("spiked(64, 5, 3)", Inputs.spiked(64, 5.0, 3.0)),
        ("power-law(100, 1.2, bins=2)", Inputs.power_law(100, 1.2, 2)),
        (" Power_Law( 100 , exponent = 1.2 ) ", Inputs.power_law(100, 1.2)),
    ],
)
def test_inputs_by_name(text: str, inputs: Inputs) -> None:
    assert parse_inputs(text) == inputs


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("sgd", Rule(0.1, batch=2)),
        ("momentum(0.5, kind=nesterov)", Momentum(0.1, batch=2, beta=0.5, kind="nesterov")),
        ("reuse(3)", Reuse(0.1, batch=2, passes=3)),
        ("Muon", Muon(0.1, batch=2)),
    ],
)
def test_rules_by_name(text: str, rule: Rule) -> None:
    assert parse_rule(text, step_size=0.1, batch=2) == rule


def test_a_target_is_a_polynomial_or_its_classes() -> None:
    polynomial = Polynomial.parse("z1 + z1*z2")
    assert read_target("z1 + z1*z2") == polynomial
    assert read_target(" sign(z1 + z1*z2)") == Classes(polynomial)


@pytest.mark.parametrize("name", RULES)
def test_every_rule_is_read_with_its_defaults(name: str) -> None:
    assert parse_rule(name, step_size=0.1) == RULES[name](0.1)
    assert {"step_size", "batch", "noise", "decay"} < COMMON


def test_an_exponent_of_inputs_is_told_from_the_teachers() -> None:
    with pytest.raises(InputError, match=r"exponent of the power law of inputs is 0\.0"):
        parse_inputs("power-law(30, 0)")


def test_schedules_and_directions_by_name() -> None:
    assert parse_step_size("0.5") == 0.5
    assert parse_step_size("power(0.1, 0.5)") == Power(0.1, 0.5)
    assert parse_step_size("linear(0.1, 0, 1000)") == Linear(0.1, 0.0, 1000)
    inputs = Inputs.blocks((3.0, 2), (1.0, 4))
    assert (
        parse_directions("eigenvectors(0, 3)", inputs, 2).grams.tolist()
        == Directions.eigenvectors(inputs, (0, 3)).grams.tolist()
    )
    assert parse_directions("random(2)", inputs, 2, 5).covariance.diagonal() == pytest.approx([2.0, 2.0])


def test_a_new_name_needs_no_parser() -> None:
    def made(first: int, *rest: float, word: str = "x") -> tuple:
        return first, rest, word

    assert construct("thing", "new(3, 0.5, 1, word=y)", {"new": made}) == (3, (0.5, 1.0), "y")


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (parse_inputs, "spikd(3)", "did you mean spiked?"),
        (parse_inputs, "spiked(32)", "write spiked(32, 8), or isotropic(32)"),
        (parse_inputs, "blocks(3, 4)", "'3' is no pair such as 3x6: use blocks(3x6, …)"),
        (parse_inputs, "blocks(3x6, -1x4)", "eigenvalue is -1.0"),
        (parse_inputs, "blocks()", "0 eigenvalues"),
        (parse_inputs, "isotropic(1.5)", "dim is '1.5', not a whole number"),
        (parse_inputs, "isotropic(4, dim=3)", "dim is given twice"),
        (parse_inputs, "spiked", "dim is missing"),
        (parse_inputs, "(", "use isotropic(dim, variance=1.0)"),
        (parse_rule, "momentum(1)", "momentum is 1.0"),
        (parse_rule, "momentum(0.9, batch=3)", "it takes no 'batch': use momentum(beta=0.9, kind=heavy)"),
        (parse_rule, "sgd(3)", "'3' is one argument too many"),
        (parse_rule, "clipped(x)", "limit is 'x', not a number"),
        (parse_step_size, "cosine(3)", "use a number, or power("),
        (parse_step_size, "linear(0.1)", "last is missing"),
    ],
)
def test_a_part_that_is_none_costs_one_line(read, text: str, said: str) -> None:
    with pytest.raises(InputError) as refusal:
        read(text, step_size=0.1) if read is parse_rule else read(text)
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_directions_that_do_not_fit() -> None:
    inputs = Inputs.isotropic(4)
    for text, said in (
        ("eigenvectors(0, 9)", "have 4"),
        ("random(-1)", "variance is -1.0"),
        ("nowhere", "use orthonormal"),
    ):
        with pytest.raises(InputError) as refusal:
            parse_directions(text, inputs, 2)
        assert said in str(refusal.value)
