"""``emergence predict``: predictions with their conditions; nothing coupled is integrated, and no JAX."""

import argparse

from emergence import pictures
from emergence.commands.setup import announce, check_uses, problem_of
from emergence.result import Result


def run(arguments: argparse.Namespace) -> Result:
    """What the model predicts for the problem. Refuses options that the prediction does not use."""
    model, picture = arguments.model, pictures.asked(arguments.figure)
    check_uses(arguments, f"predict{model.flag}", model.predict.uses)
    resolved = model.resolve(problem_of(arguments), None)
    announce(resolved)
    found = model.predict.document(resolved)
    drawn = pictures.of_data(picture, lambda: model.predict.data(resolved))
    return Result({**found.content, **drawn}, "\n".join([found.text, *pictures.told(drawn)]))
