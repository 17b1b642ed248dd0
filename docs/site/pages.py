"""Pages of the site that are made from records: parts, commands, claims, errata, open questions, the index of the API."""

import re
from collections.abc import Iterable, Sequence
from importlib import import_module
from itertools import groupby
from pathlib import Path

from emergence import reference
from validation import Claim, catalogue
from validation.judge.catalogue import module_of

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
            *(f"docs/{name}" for name in ("finite_step", "sde", "simulator", "rules", "decay_momentum_muon")),
            *(f"docs/{name}" for name in ("structured_inputs", "linear_model", "fixed_data", "floor", "quadratic")),
            *(f"docs/{name}" for name in ("label_noise", "baselines")),
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
                "docs/statements",
            ),
            *("docs/conventions", "docs/architecture", "docs/false_alarms", "docs/broken", "docs/laws", "docs/faults"),
            *("CONTRIBUTING", "CHANGELOG"),
        ],
    ),
}
_SENTENCE = re.compile(r".+?(?<!eq)[.!?](?=\s|$)|.+", re.DOTALL)
_PARAGRAPH = re.compile(r"^(?!(?:[#>|!:-]|\* ))(?:.+\n)+", re.MULTILINE)
_IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]+\.png)\)")
_MARKUP = re.compile(r"([\\*_|<>\[\]`$#])")
#: What `import_module` finds of a record's own names.
_RECORDS = {
    "emergence.plot": ("dataset", "file", "paper", "save"),
    "emergence.model": ("Model", "Simulation", "Predictor", "Comparer", "Derive", "Run", "Document", "Resolved"),
}


def all_pages() -> dict[str, str]:
    """Path below the source folder → text."""
    claims = catalogue()
    rows = Rows()
    return {
        **{f"{name}.md": part(name) for name in PARTS},
        "reference/api.rst": api(),
        "reference/commands.md": reference.commands(),
        "reference/claims.md": catalogue_page(claims),
        **{f"reference/claims/{wing}.md": wing_page(wing, found, rows) for wing, found in by_wing(claims).items()},
        "errata.md": errata(claims, rows),
        "open-questions.md": open_questions(claims, rows),
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


# ------------------------------------------------------------------------------------------------------------ claims


class Rows:
    """Rows about claims on the pages that long runs make: verdicts over seeds, broken formulas, statements of the sources."""

    def __init__(self) -> None:
        page = (ROOT / "docs" / "false_alarms.md").read_text(encoding="utf-8").partition("## All quantities")[2]
        self.seeds = [_cells(line) for line in page.splitlines() if line.startswith("| ")]
        page = (ROOT / "docs" / "broken.md").read_text(encoding="utf-8").partition("## Result")[2]
        self.broken = [_cells(line) for line in page.splitlines() if line.startswith("| `")]
        page = (ROOT / "docs" / "statements.md").read_text(encoding="utf-8").replace("](", "](/docs/")
        self.stated = [cells for line in page.splitlines() if len(cells := _cells(line)) == 4]

    def verdicts(self, claim: Claim) -> list[str]:
        """The claim's rows of the page of false alarms, as a table; nothing if it has none."""
        head, *rows = self.seeds
        own = [row for row in rows if row[0].rstrip("*").partition(".")[0] == claim.id]
        return (
            ["Verdicts over seeds (what the columns say: {doc}`/docs/false_alarms`):", "", *_table(head, own), ""]
            if own
            else []
        )

    def noticed(self, claim: Claim) -> list[str]:
        """Entry points of `theory` that were broken, and this claim was the first not as expected."""
        named = re.compile(rf"{re.escape(claim.id)}(?![\w-])")
        return [row[0] for row in self.broken if any(map(named.match, row[1:]))]

    def statements(self, claim: Claim) -> list[list[str]]:
        """Statement, in short, claims, remark: of the sources' statements that name the claim."""
        return [row for row in self.stated if claim.id in re.split(r"[,\s]+", row[2])]


def by_wing(claims: Sequence[Claim]) -> dict[str, list[Claim]]:
    """Claims by the folder of `validation.claims` that they lie in."""
    ordered = sorted(claims, key=_wing)
    return {wing: list(found) for wing, found in groupby(ordered, key=_wing)}


def _wing(claim: Claim) -> str:
    return claim.runner.__module__.split(".")[2]


def _title(wing: str) -> str:
    return (import_module(f"validation.claims.{wing}").__doc__ or wing).strip().rstrip(".")


def catalogue_page(claims: Sequence[Claim]) -> str:
    """All claims in a table, each linked to what it says."""
    names = by_wing(claims)
    parts = [
        "# Catalogue of claims",
        "",
        f"{len(claims)} statements that `emergence validate` judges; [how](../docs/claims.md).",
        "",
    ]
    for wing, found in names.items():
        rows = [(_link(claim), plain(claim.title), plain(claim.source), claim.kind, claim.expected) for claim in found]
        parts += [f"## {_title(wing)}", "", *_table(("claim", "about", "source", "kind", "expected"), rows), ""]
    tree = ["```{toctree}", ":hidden:", "", *(f"claims/{wing}" for wing in names), "```", ""]
    return "\n".join([*parts, *tree])


def wing_page(wing: str, claims: Sequence[Claim], rows: Rows) -> str:
    """The claims of one wing, in full."""
    return "\n".join([f"# {_title(wing)}", "", *(section(claim, rows) for claim in claims)])


def section(claim: Claim, rows: Rows) -> str:
    """One claim: statement, formula, source, wrong theories, verdicts over seeds, how to judge it alone."""
    about = {
        "Source": plain(claim.source),
        "Kind": claim.kind,
        "Holds for": plain(claim.regime),
        "Expected": claim.expected,
        "Judged alone": f"`emergence validate {claim.id}`" + (f" (needs `{claim.requires}`)" if claim.requires else ""),
        "Measured in": f"`{module_of(claim).__name__}`",
    }
    return "\n".join(
        [
            f"(claim-{claim.id.lower()})=",
            f"## {claim.id}: {plain(claim.title)}",
            "",
            *formula(claim),
            *(f"* {name}: {text}" for name, text in about.items()),
            *_bullets("Statements", (f"{plain(row[0])}: {row[3]}" for row in rows.statements(claim))),
            *_bullets("Wrong theories that the data must reject", map(plain, claim.controls)),
            *_bullets("Formulas that were broken by 5 %, which it named first", rows.noticed(claim)),
            "",
            *rows.verdicts(claim),
        ]
    )


def _bullets(title: str, items: Iterable[str]) -> list[str]:
    lines = [f"  * {item}" for item in items]
    return [f"* {title}:", *lines] if lines else []


def formula(claim: Claim) -> list[str]:
    """The sentence and the formula of a claim."""
    return [plain(claim.statement), "", "$$", claim.latex, "$$", ""]


def errata(claims: Sequence[Claim], rows: Rows) -> str:
    """What the sources print wrongly, what is right, and what the data say: every claim expected to disagree."""
    known = {claim.id: claim for claim in claims}
    parts = [
        "# Errata of the sources",
        "",
        "What is printed is judged like any other claim, and expected to disagree. Other conventions are no errors: "
        "[what the sources print differently](docs/conventions.md#what-the-sources-print-differently).",
        "",
    ]
    wrong = [claim for claim in claims if claim.expected == "disagrees"]
    printed = [claim for claim in wrong if claim.source != "derived"]
    for claim in printed:
        parts += [*_erratum(claim, known.get(claim.id.removesuffix("-printed")), rows)]
    beyond = [claim for claim in wrong if claim not in printed]
    if beyond:
        parts += ["## Approximations of our own, where they end", ""]
        parts += [f"* {_link(claim)}: {plain(claim.statement)}" for claim in beyond]
    return "\n".join([*parts, ""])


def _erratum(claim: Claim, right: Claim | None, rows: Rows) -> list[str]:
    remarks = [f"* {plain(row[0])}: {row[3]}" for row in rows.statements(claim)]
    parts = [
        f"## {plain(claim.title)}",
        "",
        f"{_link(claim)} ({plain(claim.source)})",
        "",
        *formula(claim),
        *remarks,
        "",
    ]
    if right is not None:
        parts += [f"What agrees with the data instead, {_link(right)}:", "", *formula(right)]
    both = f"{claim.id} {right.id}" if right is not None else claim.id
    return [*parts, *rows.verdicts(claim), f"`emergence validate {both}` measures it, with figures.", ""]


def open_questions(claims: Sequence[Claim], rows: Rows) -> str:
    """Claims of kind open: an estimate with its interval, and no verdict."""
    parts = [
        "# Open questions",
        "",
        "Nobody knows what these should give. They report an estimate with its interval, and never count as failures.",
        "",
    ]
    for claim in claims:
        if claim.kind == "open":
            text = section(claim, rows).replace(f"(claim-{claim.id.lower()})=\n", "")
            parts += [text, f"Also in the {_link(claim, 'catalogue')}.", ""]
    return "\n".join(parts)


# -------------------------------------------------------------------------------------------------------------- words


def plain(text: str) -> str:
    """Words of a record as Markdown that shows them as they are."""
    return _MARKUP.sub(r"\\\1", text)


def _link(claim: Claim, text: str = "") -> str:
    return f"[{text or claim.id}](#claim-{claim.id.lower()})"


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
