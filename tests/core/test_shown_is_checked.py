"""What a derivation shows is what it checks: an equation with one summand changed does not pass its own check."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
import sympy as sp

from emergence.models import built_in
from theory import Activation, Derivation, DerivationError, Step, System
from theory.additive.gradient_descent import descent_map
from theory.additive.sourced_flow import sourced_flow
from theory.core.matrices import latex
from theory.declared.directions import Directions
from theory.declared.flow import population_flow
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.rule import Rule
from theory.declared.student import committee as committee_student
from theory.declared.target import Additive
from theory.linear.label_flips import derivation as label_flips
from theory.linear.sde import order_parameter_sde, weight_sde
from theory.linear.step import order_parameter_step
from theory.one_task.spherical_step import spherical_step
from theory.quadratic.riccati import factor_system, overlap_system, product_system, weight_system
from theory.steps.committee import committee

#: Residuals beyond this tolerance are those of numbers, which see a sign, not a twentieth.
COARSE = 1e-6
#: Summands changed in each equation.
SAMPLE = 1
#: Every name of ``derive``.
DERIVATIONS = {name: make for model in built_in().values() for name, make in model.derivations.items()}
#: (name, activation): every name of ``derive``, and activations of several kinds where they lead to other equations.
OFFERED = [(name, make.activation) for name, make in DERIVATIONS.items()] + [
    ("loss", "erf"), ("overlap-flow", "h4+1"), ("single-task", "h3"), ("single-task", "relu"), ("norm", "0.8*h4+0.6*h6"),
    ("ideal-loss", "0.8*h4+0.6*h6"), ("loss-sum", "h6"), ("plateau", "h3"), ("committee", "h3"), ("correlation", "h1+h2"),
    ("toy", "h4"), ("retirement", "h3+h4"), ("finite-step", "h2"),
]  # fmt: skip


def declared(text: str, link: str) -> System:
    """The population flow of a committee with a trained second layer, and teachers with a link of their own."""
    directions = Directions.orthonormal(Inputs.isotropic(9), 2)
    target = Additive(Activation.parse(link), (0.8, 0.6))
    student = committee_student(Activation.parse(text), 2, 1.0, trained=True)
    return population_flow(DeclaredModel(directions, target, student, Rule(0.1, decay=0.2)))


#: Systems that no name offers.
OTHERS = {
    "sourced flow": lambda: sourced_flow(Activation.parse("h4+1")),
    "descent map": lambda: descent_map(Activation.parse("h4+1")),
    "spherical rows": lambda: committee(Activation.parse("h2"), "sphere"),
    "weight diffusion": weight_sde,
    "order-parameter diffusion": lambda: order_parameter_sde("second"),
    "order-parameter step": order_parameter_step,
    "riccati": overlap_system,
    "riccati factor": factor_system,
    "quadratic product": product_system,
    "quadratic weights": weight_system,
    "declared flow": lambda: declared("erf", "h3"),
}

Path = tuple[int, ...]


def summands(x: sp.Basic, path: Path = ()) -> Iterator[Path]:
    """Where the terms of all sums inside `x` stand; entries of tuples and explicit matrices count as terms."""
    terms = isinstance(x, (sp.Add, sp.MatAdd, sp.Tuple))
    for place, part in enumerate(parts(x)):
        if terms:
            yield (*path, place)
        yield from summands(part, (*path, place))


def parts(x: sp.Basic) -> tuple[sp.Basic, ...]:
    """What may be changed inside `x`: not the range of a sum or integral, an array's letters, a size, a symbol's name."""
    if isinstance(x, (sp.Indexed, sp.MatrixSymbol, sp.Symbol, sp.Identity, sp.ZeroMatrix)):
        return ()
    return x.args[:1] if isinstance(x, (sp.Sum, sp.Integral)) else x.args


def changed(x: sp.Basic, path: Path, factor: sp.Expr) -> sp.Basic:
    """`x` with what stands at `path` times a factor (0 becomes the factor)."""
    if not path:
        return x * factor if x != 0 else factor
    arguments = list(x.args)
    arguments[path[0]] = changed(arguments[path[0]], path[1:], factor)
    return x.func(*arguments)


def mutants(step: Step) -> Iterator[tuple[Path, Step]]:
    """The step with one summand of its claim, or the whole claim if that has none, 5 % too large or of the other sign."""
    claim = step.claim
    if isinstance(claim, sp.MatrixBase):
        claim = sp.ImmutableMatrix(claim)
    factor = sp.Integer(-1) if step.tolerance > COARSE else sp.Rational(21, 20)
    for path in list(summands(claim)) or [()]:
        mutant = changed(claim, path, factor)
        if mutant != claim:
            left = step.equation.lhs if isinstance(step.equation, sp.Equality) else None
            yield path, replace(step, equation=mutant if left is None else sp.Eq(left, mutant, evaluate=False))


def survivors(derivation: Derivation, most: int | None = SAMPLE) -> list[str]:
    """Checked steps that still hold once their equation is changed, or that have nothing that could be changed."""
    found = []
    for step in derivation.steps:
        if step.is_definition:
            continue
        all_mutants = list(mutants(step))
        chosen = (
            all_mutants if most is None else random.Random(step.title).sample(all_mutants, min(most, len(all_mutants)))
        )
        found += [] if chosen else [step.title]
        for path, mutant in chosen:
            try:
                mutant.verify()
            except DerivationError:
                continue
            found.append(f"{step.title}: {mutant.latex()} {path}")
    return found


@pytest.mark.slow_for(
    "declared-step-whitened-h1+h3", "committee-h3", "finite-step-h2", "committee-erf", "label-noise-h1"
)
@pytest.mark.parametrize(("name", "text"), OFFERED)
def test_an_equation_that_is_changed_fails_its_own_check(name: str, text: str) -> None:
    assert survivors(DERIVATIONS[name](Activation.parse(text))) == []


@pytest.mark.slow_for("spherical rows")
@pytest.mark.parametrize("name", OTHERS)
def test_so_does_one_of_a_system_that_no_name_offers(name: str) -> None:
    """It holds as it is, too: of the others ``derive`` asks that."""
    derivation = OTHERS[name]().derivation
    assert derivation.verify() > 0
    assert survivors(derivation) == []


@pytest.mark.parametrize("text", ["h3", "h2"])
def test_so_does_one_of_a_spherical_step(text: str) -> None:
    assert survivors(spherical_step(Activation.parse(text)).derivation()) == []


@pytest.mark.parametrize("replacement", ["other", "any"])
def test_so_does_one_of_label_flips(replacement: str) -> None:
    assert survivors(label_flips(replacement)) == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "text"), OFFERED)
def test_every_summand_matters_to_the_check(name: str, text: str) -> None:
    assert survivors(DERIVATIONS[name](Activation.parse(text)), None) == []


def test_names_that_are_latex_are_printed_as_they_are() -> None:
    """SymPy alone makes E\\,h_{3(g 1)} of the first and a double superscript of the transpose."""
    names = [r"E\,h_3(g_1)", r"\Pi_q(k,l)", r"\mathbf a_k", "K(u)"]
    assert [latex(sp.Symbol(name)) for name in names] == names
    theta = sp.MatrixSymbol(r"\theta^{*}", 2, 1)
    assert latex(theta - theta * theta.T * theta / 2) == (
        r"\theta^{*} - \frac{1}{2} \theta^{*} {\theta^{*}}^{\top} \theta^{*}"
    )


def test_a_check_of_another_formula_than_the_shown_one_is_found() -> None:
    """An opaque name whose residual is of something typed beside it, as it must not be."""
    opaque = Step("opaque", sp.Eq(sp.Symbol("A"), sp.Symbol(r"{W^\top W}"), evaluate=False), lambda _: sp.Integer(0))
    assert survivors(Derivation("x", (opaque,), {}, (), ""))
