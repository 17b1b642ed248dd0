"""Pages of the site that are made from records: parts, commands, the index of the API, and those of `claims`."""

import re
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import claims  # beside this file

from emergence import reference

ROOT = Path(__file__).resolve().parents[2]
#: Where the pages lie. Those of `docs` that no part names belong to the second.
PARTS = {
    "start": (
        "Start",
        "From nothing to a figure of your own.",
        ["docs/start", "docs/own_activation", "docs/elsewhere", "notebooks/*"],
    ),
    "how-to": (
        "How-to",
        "One task a page.",
        [
            *(
                "docs/claims",
                "docs/plots",
                "docs/step_size",
                "docs/cluster",
                "docs/sweeps",
                "docs/add_model",
                "docs/declared",
            ),
            *("examples/README", "docs/reproduce", "docs/networks"),
        ],
    ),
    "explanation": (
        "Explanation",
        "What is derived, what it predicts, and what was measured.",
        [
            *(f"docs/{name}" for name in ("theory", "validity", "selection", "scaling", "exponents", "staircases")),
            *(f"docs/{name}" for name in ("finite_step", "sde", "real_steps", "simulator", "rules")),
            *(f"docs/{name}" for name in ("decay_momentum_muon", "structured_inputs", "linear_model")),
            *(f"docs/{name}" for name in ("random_features", "schedules", "fixed_data", "floor", "quadratic")),
            *(f"docs/{name}" for name in ("label_noise", "baselines", "published")),
        ],
    ),
    "reference": (
        "Reference",
        "Every name, option and claim, made from the code.",
        [
            *(
                "docs/map",
                "reference/api",
                "docs/command_line",
                "reference/commands",
                "docs/models",
                "reference/claims",
                "docs/judging",
                "docs/statements",
                *(f"docs/statements_{name}" for name in ("paper", "slides", "talk", "label_noise")),
            ),
            *("docs/conventions", "docs/architecture", "docs/false_alarms", "docs/broken", "docs/mutants"),
            *("docs/laws", "docs/faults", "CONTRIBUTING", "CHANGELOG"),
        ],
    ),
}
_SENTENCE = re.compile(r".+?(?<!eq)[.!?](?=\s|$)|.+", re.DOTALL)
_PARAGRAPH = re.compile(r"^(?!(?:[#>|!:-]|\* ))(?:.+\n)+", re.MULTILINE)
_IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]+\.png)\)")
#: What `import_module` finds of a record's own names.
_RECORDS = {
    "emergence.plot": ("dataset", "file", "paper", "save"),
    "emergence.model": ("Model", "Simulation", "Predictor", "Comparer", "Derive", "Run", "Document", "Resolved"),
}


def all_pages() -> dict[str, str]:
    """Path below the source folder → text."""
    return {
        **{f"{name}.md": part(name) for name in PARTS},
        "reference/api.rst": api(),
        "reference/commands.md": reference.commands(),
        **claims.all_pages(),
    }


# ------------------------------------------------------------------------------------------------------------- parts


def members(name: str) -> list[str]:
    """Documents of a part, in order."""
    named = [one for _, _, listed in PARTS.values() for one in listed]
    found = [
        str(path.relative_to(ROOT).with_suffix("")) if "*" in one else one
        for one in PARTS[name][2]
        for path in (sorted(ROOT.glob(f"{one}.ipynb")) if "*" in one else [ROOT / one])
    ]
    others = sorted(f"docs/{path.stem}" for path in (ROOT / "docs").glob("*.md")) if name == "how-to" else []
    return [*found, *(one for one in others if one not in named)]


def part(name: str) -> str:
    """The page of a part: a card for each of its documents, with the sentence that it opens with."""
    title, text, _ = PARTS[name]
    cards = [card(one) for one in members(name)]
    tree = ["```{toctree}", ":hidden:", "", *members(name), "```"]
    return "\n".join(
        [f"# {title}", "", text, "", "::::{grid} 1 2 2 3", ":gutter: 3", "", *cards, "::::", "", *tree, ""]
    )


def card(document: str) -> str:
    """Title, first picture and first sentence of a page, linked to it."""
    path = ROOT / f"{document}.md"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    prose = re.sub(r"^```.*?^```", "", text.partition("\n")[2], flags=re.DOTALL | re.MULTILINE)
    paragraph = _PARAGRAPH.search(prose)
    sentence = _SENTENCE.match(paragraph[0]) if paragraph else None
    words = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", " ".join(sentence[0].split())).strip("*") if sentence else ""
    image = _IMAGE.search(text)
    lines = [f":::{{grid-item-card}} {{doc}}`/{document}`"]
    if image:
        lines += [f":img-top: /{Path(document).parent / image[2]}", f":img-alt: {image[1]}"]
    return "\n".join([*lines, "", words, ":::", ""])


# --------------------------------------------------------------------------------------------------------------- API


def api() -> str:
    """Every public name, with a page of its own."""
    parts = [_heading("API", "="), "Everything below can be imported from ``emergence``, too.", ""]
    for package in ("theory", "dynamics", "validation"):
        module = import_module(package)
        parts += [*_summary(package, (module.__doc__ or "").splitlines()[0], module.__all__)]
    for module_name, names in _RECORDS.items():
        first = (import_module(module_name).__doc__ or "").splitlines()[0]
        parts += _summary(module_name, first, names)
    return "\n".join(parts)


def _summary(module: str, text: str, names: Iterable[str]) -> list[str]:
    table = [".. autosummary::", "   :toctree: api", "", *(f"   {name}" for name in sorted(names)), ""]
    return [_heading(module, "-"), text, "", f".. currentmodule:: {module}", "", *table]


def _heading(text: str, line: str) -> str:
    return f"{text}\n{line * len(text)}\n"
