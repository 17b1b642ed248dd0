"""``emergence new``: a commented file to start from, which runs as it stands."""

import argparse
import re
from pathlib import Path

from emergence import models, output
from emergence.conjecture.conjecture import FALSE_ALARMS, POWER
from emergence.options import default, help_of, options, written
from emergence.refusal import refuse
from emergence.result import Result
from emergence.values import MANY

_TEMPLATES = Path(__file__).resolve().parents[1] / "templates"
#: Kind → template, ending of the file, what to do with it.
KINDS = {
    "claim": ("claim.toml", ".toml", "emergence judge {file}"),
    "claim-python": ("claim.py.txt", ".py", "emergence judge {file}"),
    "model": ("model.py.txt", ".py", "emergence simulate {name} --model {file}"),
    "activation": ("activation.py.txt", ".py", "python {file}"),
}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")


def run(arguments: argparse.Namespace) -> Result:
    """Write the file into the folder of ``--out`` (default: here). Refuses a name that is none, and one that is taken."""
    from dynamics.core.storage import write_atomically

    name = arguments.name
    if not _NAME.fullmatch(name):
        refuse(f"name is {name!r}: use at most 40 letters, digits, - and _, a letter first")
    template, ending, how = KINDS[arguments.kind]
    folder = output.check("." if arguments.out is None else arguments.out)
    path = folder / f"{name}{ending}"
    if path.exists():
        refuse(f"name is {name!r}: {str(path)!r} is there already: give another name")
    text = _filled((_TEMPLATES / template).read_text(encoding="utf-8"), name)
    write_atomically(
        output.make(folder) / path.name, lambda temporary: Path(temporary).write_text(text, encoding="utf-8")
    )
    told = how.format(file=path, name=name)
    return Result({"file": str(path), "run": told}, f"{path}: try {told}")


def _filled(text: str, name: str) -> str:
    problem = "\n".join(_options(text))
    filled = {"NAME": name, "PROBLEM": problem, "FALSE_ALARMS": str(FALSE_ALARMS), "POWER": str(POWER)}
    return re.sub(r"@([A-Z_]+)@", lambda found: filled[found[1]], text)


def _options(text: str) -> list[str]:
    """The simulation's other options as comments, with their defaults and help, from the model's record."""
    model = models.default()
    simulation = model.simulation("gradient-flow")
    lines = []
    for name in options(model.problem):
        if name not in simulation.uses or name == "seed" or re.search(rf"^{written(name)} =", text, re.MULTILINE):
            continue
        value = default(model.problem, name)
        several = isinstance(options(model.problem)[name].metadata["kind"], MANY)
        shown = (
            "…"
            if value is None
            else str(value).lower()
            if isinstance(value, bool)
            else f'"{value}"'
            if isinstance(value, str)
            else str(value)
        )
        shown = f"[{shown}]" if several else shown
        lines.append(f"# {f'{written(name)} = {shown}':<29} # {help_of(model.problem, name)}")
    return lines
