"""``python -m emergence.reference``: the page docs/models.md, made from the models' records and never edited by hand.

`commands` makes the page on the commands, which the site shows.
"""

import argparse
from collections.abc import Iterable, Sequence

from emergence.arguments import EXIT_CODES, PROBLEM, Parser, parser
from emergence.model import Model, Simulation
from emergence.models import built_in
from emergence.options import default, options, written
from emergence.values import MANY

_HEAD = """# Models

What the command line knows of each system, made from its record by `python -m emergence.reference`. A system of your own
is a Python file with such a record: `--model path/to/my_model.py` (see [examples](../examples/README.md)).

`emergence COMMAND --model NAME --help` shows the options of one model that the command uses. Options that are given on the
command line and would change nothing are refused; a TOML file (`--config`) may say more of a problem than one command uses,
and names its model by the key `model`.
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


def commands() -> str:
    """The page on the commands as Markdown: what each does and takes, read off the parser."""
    main = parser()
    parts = ["# Commands", "", f"{main.description} Options of a problem: [models](../docs/models.md).", ""]
    about = main.summaries()
    parts += [text for name, one in main.commands().items() for text in _command(name, one, about[name])]
    return "\n".join([*parts, "## Exit status", "", "```text", EXIT_CODES, "```", ""])


def _command(name: str, command: Parser, about: str) -> list[str]:
    parts = [f"## emergence {name}", "", f"{about[0].upper()}{about[1:]}.".replace("?.", "?"), ""]
    rows = [
        (_written(action), (action.help or "").replace("%%", "%"))
        for group in command._action_groups
        if not str(group.title).startswith(PROBLEM)
        for action in group._group_actions
        if not isinstance(action, argparse._HelpAction)
    ]
    parts += [*_table(("argument", "meaning"), rows), ""]
    if command.epilog:
        parts += ["```text", command.epilog, "```", ""]
    if any(str(group.title).startswith(PROBLEM) for group in command._action_groups):
        parts += ["Besides, the options of the problem of its [model](../docs/models.md).", ""]
    return parts


def _written(action: argparse.Action) -> str:
    """An argument as it stands on the command line."""
    values = action.metavar if isinstance(action.metavar, str) else "|".join(map(str, action.choices or ()))
    if not action.option_strings:
        return f"`{values}{' …' if action.nargs in ('*', '+') else ''}`"
    return ", ".join(
        f"`{flag}{f' {values}' if values and action.nargs != 0 else ''}`" for flag in action.option_strings
    )


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [headers, ["---"] * len(headers), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]


if __name__ == "__main__":
    print(page(), end="")
