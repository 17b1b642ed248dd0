"""``emergence predict``: predictions with their conditions; nothing coupled is integrated, and no JAX."""

import argparse

from emergence import config, console, pictures
from emergence.answers import Answer, answered
from emergence.arguments import problem_flags
from emergence.commands.setup import check_uses, problem_of, told
from emergence.model import Document, made
from emergence.result import Result


def run(arguments: argparse.Namespace) -> Result:
    """What the model predicts for the problem. Refuses options that the prediction does not use.

    The answer for a model of ours is kept (`emergence.answers`): the same problem is not predicted twice.
    """
    model, picture = arguments.model, pictures.asked(arguments.figure)
    check_uses(arguments, f"predict{model.flag}", model.predict.uses)

    def answer() -> Answer:
        problem = problem_of(arguments)
        resolved = model.resolve(problem, None)
        found = made(model.predict.document(resolved), Document, f"predict of model {model.name}")
        drawn = pictures.of_data(picture, lambda: model.predict.data(resolved))
        return Answer(
            {**told(problem, found.content), **drawn}, "\n".join([found.text, *pictures.told(drawn)]), resolved.warnings
        )

    if picture is not None or model.origin:
        found = answer()
    else:
        values = config.values(model, problem_flags(arguments), arguments.config)
        found = answered({"predict": model.name, **values}, answer)
    for text in found.warnings:
        console.warn(text)
    return Result(found.document, found.text)
