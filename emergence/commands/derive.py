"""``emergence derive``: a derivation step by step, every step checked before it is shown."""

import argparse
from collections.abc import Callable
from functools import partial

import theory
from emergence import console, latex
from emergence.refusal import refuse
from emergence.result import Result
from theory.additive import retirement
from theory.baselines import correlation, toy
from theory.core import matrices
from theory.linear import alignment, oscillation, sam
from theory.linear import averaging as label_noise_averaging
from theory.quadratic import model as quadratic
from theory.quadratic import riccati
from theory.scaling import ideal_loss, scaling_laws
from theory.steps.committee import committee

#: Derivations of the linear network, whose neurons have no other activation than the identity.
LINEAR: dict[str, Callable[[], theory.Derivation]] = {
    "label-noise": label_noise_averaging.derivation,
    "oscillation": oscillation.derivation,
    "alignment": alignment.derivation,
    "sam": sam.derivation,
}


def _linear(make: Callable[[], theory.Derivation], activation: theory.Activation) -> theory.Derivation:
    if activation.coefficients != {1: 1}:
        raise theory.InputError(
            f"activation is {activation.name!r}, the network of this derivation is linear: use h1, or leave it out"
        )
    return make()


DERIVATIONS: dict[str, Callable[[theory.Activation], theory.Derivation]] = {
    "loss": theory.loss_derivation,
    "gradient": theory.gradient_derivation,
    "overlap-flow": lambda activation: theory.overlap_flow(activation).derivation,
    "single-task": lambda activation: theory.SingleTask(activation).derivation(),
    "norm": lambda activation: theory.SingleTask(activation).norm_derivation(),
    "ideal-loss": ideal_loss.derivation,
    "loss-sum": scaling_laws.derivation,
    "retirement": retirement.derivation,
    "plateau": lambda activation: theory.plateau(activation).derivation(),
    **{name: partial(_linear, make) for name, make in LINEAR.items()},
    "riccati": lambda activation: _riccati(activation),
    "finite-step": lambda activation: theory.finite_step(activation).derivation,
    "committee": lambda activation: committee(activation).derivation,
    "correlation": correlation.derivation,
    "toy": toy.derivation,
}

#: The activation where none is given.
DEFAULT = "h4"
DEFAULTS = {"riccati": "quadratic", "committee": "erf", "toy": "h3"} | dict.fromkeys(LINEAR, "h1")


def _riccati(activation: theory.Activation) -> theory.Derivation:
    quadratic.quadratic_moment(activation)  # refuses any other activation
    return riccati.derivation()


def run(arguments: argparse.Namespace) -> Result:
    """Derive, verify, print. The activation's own kernel φ stands among the equations as ``\\varphi(c)``
    (the linear network has none)."""
    if arguments.latex and arguments.json:
        refuse("--latex is given with --json: drop one (the JSON document holds the LaTeX of every step)")
    activation = theory.Activation.parse(arguments.activation or DEFAULTS.get(arguments.name, DEFAULT))
    derivation = DERIVATIONS[arguments.name](activation)
    checked = derivation.verify()
    definitions = len(derivation.steps) - checked
    verified = f"{checked} steps checked" + (
        f", {definitions} definition{'s' * (definitions > 1)}" if definitions else ""
    )
    if arguments.json and not arguments.quiet:
        console.note(verified)
    steps = [(step.title, step.latex()) for step in derivation.steps]
    kernel = {} if arguments.name in (*LINEAR, "toy") else {r"\varphi(c)": activation.dual}
    equations = {**kernel, **derivation.equations}
    document = {
        "name": derivation.name,
        "activation": activation.name,
        "steps": [{"title": title, "latex": text} for title, text in steps],
        "equations": {name: matrices.latex(value) for name, value in equations.items()},
        "assumptions": [str(assumption) for assumption in derivation.assumptions],
        "reference": derivation.reference,
    }
    text = latex.document(document, verified) if arguments.latex else _text(document, derivation, verified)
    return Result(document, text)


def _text(document: dict, derivation: theory.Derivation, verified: str) -> str:
    lines = [f"{document['name']} for activation {document['activation']}: {verified}", ""]
    for number, (step, shown) in enumerate(zip(derivation.steps, document["steps"], strict=True), start=1):
        mark = "definition" if step.is_definition else "checked"
        lines += [f"{number}. {shown['title']} [{mark}]", f"   {shown['latex']}", ""]
    lines += ["Result", *(f"   {name} = {value}" for name, value in document["equations"].items()), ""]
    lines += ["Assumptions", *(f"   {text}" for text in document["assumptions"]), ""]
    return "\n".join([*lines, f"Reference: {document['reference']}"])
