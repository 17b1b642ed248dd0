"""``python -m emergence.reference``: the page docs/models.md, made from the models' records and never edited by hand."""

from collections.abc import Iterable, Sequence

from emergence.model import Model, Simulation
from emergence.models import built_in
from emergence.options import default, options, written
from emergence.values import MANY

_HEAD = """# Models

What the command line knows of each system, made from its record by `python -m emergence.reference`. A system of your own
is a Python file with such a record: `--model path/to/my_model.py` (see [examples](../examples/README.md)).

`emergence COMMAND --model NAME --help` shows the options of one model. Options that are given on the command line and
would change nothing are refused; a TOML file (`--config`) may say more of a problem than one command uses, and names its
model by the key `model`.
"""


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join([_HEAD, *(section(model) for model in built_in().values())])


def section(model: Model) -> str:
    """One model: what it can do, and its options."""
    parts = [f"## {model.name}", "", f"{model.help[0].upper()}{model.help[1:]}.", ""]
    parts += _table(("simulation", "what it is", "variables"), map(_simulation, model.simulations))
    for what, one in (("predict", model.predict), ("compare", model.compare)):
        if one is not None:
            parts += ["", f"`emergence {what}{model.flag}` knows it."]
    if model.derivations:
        parts += ["", f"Derivations: {', '.join(f'`{name}`' for name in model.derivations)}."]
    parts += [
        "",
        *_table(("option", "default", "meaning", "used by"), (_option(model, x) for x in options(model.problem))),
    ]
    return "\n".join([*parts, ""])


def _simulation(one: Simulation) -> tuple[str, ...]:
    return f"`{one.name}`", one.help, ", ".join(f"`{name}`" for name in one.variables)


def _option(model: Model, name: str) -> tuple[str, ...]:
    value, one = default(model.problem, name), options(model.problem)[name]
    users = [user.replace(model.flag, "") if model.flag else user for user in model.users(name)]
    everywhere = len(users) == len(model.simulations) + (model.predict is not None) + (model.compare is not None)
    shown = "" if value is None else " ".join(map(str, value)) if isinstance(one.metadata["kind"], MANY) else str(value)
    return f"`{written(name)}`", shown, one.metadata["help"], "all" if everywhere else ", ".join(users)


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [headers, ["---"] * len(headers), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]


if __name__ == "__main__":
    print(page(), end="")
