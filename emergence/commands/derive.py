"""``emergence derive``: a derivation step by step, every step checked before it is shown."""

import argparse

import theory
from emergence import console, latex, models
from emergence.model import Derive
from emergence.models.additive_problem import truncated
from emergence.refusal import refuse
from emergence.result import Result
from theory.core import matrices


def derivation_of(name: str, model: object) -> Derive:
    """The derivation of a name: the model's own, else a built-in one's."""
    own = getattr(model, "derivations", {})
    return (
        own[name]
        if name in own
        else next(x.derivations[name] for x in models.built_in().values() if name in x.derivations)
    )


def run(arguments: argparse.Namespace) -> Result:
    """Derive, verify, print. The activation's own kernel φ stands among the equations as ``\\varphi(c)``
    (the linear network has none), and among the assumptions what it leaves out where it is a series. Refuses --latex with
    --json."""
    if arguments.latex and arguments.json:
        refuse("--latex is given with --json: drop one (the JSON document holds the LaTeX of every step)")
    make = derivation_of(arguments.name, arguments.model)
    activation = theory.Activation.parse(arguments.activation or make.activation)
    derivation = make(activation)
    checked = derivation.verify()
    definitions = len(derivation.steps) - checked
    verified = f"{checked} steps checked" + (
        f", {definitions} definition{'s' * (definitions > 1)}" if definitions else ""
    )
    if arguments.json and not arguments.quiet:
        console.note(verified)
    steps = [(step.title, step.latex()) for step in derivation.steps]
    kernel = {} if make.plain else {r"\varphi(c)": activation.dual}
    equations = {**kernel, **derivation.equations}
    series = [f"the kernel is a series: {truncated(activation)}"] if activation.is_series and not make.plain else []
    document = {
        "name": derivation.name,
        "activation": activation.name,
        "steps": [{"title": title, "latex": text} for title, text in steps],
        "equations": {name: matrices.latex(value) for name, value in equations.items()},
        "assumptions": [*map(str, derivation.assumptions), *series],
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
