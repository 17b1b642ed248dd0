"""The catalogue of claims, the errata of the sources and the open questions, as pages."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from itertools import groupby
from pathlib import Path

import errata  # beside this file
import verdicts

from validation import Claim, catalogue
from validation.judge.catalogue import module_of
from validation.report.numerals import percent
from validation.report.page import quantities

ROOT = Path(__file__).resolve().parents[2]
_MARKUP = re.compile(r"([\\*_|<>\[\]`$#])")
_NUMBER = re.compile(r"[\d.]+")


def all_pages() -> dict[str, str]:
    """Path below the source folder → text."""
    known = Known(catalogue())
    return {
        "reference/claims.md": catalogue_page(known),
        **{f"reference/claims/{wing}.md": wing_page(wing, found, known) for wing, found in by_wing(known).items()},
        "errata.md": errata_page(known),
        "open-questions.md": open_questions(known),
    }


# ---------------------------------------------------------------------------------------------------- what is known


class Known:
    """Claims, and what is known of them: verdicts, and their rows on the pages that long runs make.

    Raises `ValueError` where one of these pages has no table of the kind.
    """

    def __init__(self, claims: Sequence[Claim]) -> None:
        self.claims = claims
        self.by_id = {claim.id: claim for claim in claims}
        self.judged = verdicts.read(claims)
        page = self._page("false_alarms", "## All quantities")
        self.seeds = rows([line for line in page.splitlines() if line.startswith("| ")], "quantity", "seeds", "false")
        self.fixed = set(re.split(r"[,\s.†]+", self._page("false_alarms", "## Nothing random").split("\n## ")[0]))
        self._broken = [_cells(line) for line in self._page("broken", "## Result").splitlines() if line[:3] == "| `"]
        tables = [self._page(path.stem, "\n") for path in sorted((ROOT / "docs").glob("statements_*.md"))]
        self._stated = [cells for line in "\n".join(tables).splitlines() if len(cells := _cells(line)) == 4]

    def _page(self, name: str, after: str) -> str:
        text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
        if after not in text:
            raise ValueError(f"docs/{name}.md has no {after!r}: make it anew")
        return text.partition(after)[2].replace("](", "](/docs/")

    def over_seeds(self, claim: Claim) -> list[dict[str, str]]:
        """The claim's rows of the page of false alarms."""
        return [row for row in self.seeds if row["quantity"].rstrip("*†").partition(".")[0] == claim.id]

    def false_alarms(self, claim: Claim) -> str:
        """The quantity's that cried wolf most often, in short."""
        shares = [row["false"] for row in self.over_seeds(claim) if row["false"]]
        if not shares:
            return "nothing random" if claim.id in self.fixed else ""
        worst = max(shares, key=lambda text: float(found[0]) if (found := _NUMBER.match(text)) else 0.0)
        share, _, interval = worst.replace(" ", "\N{NO-BREAK SPACE}").partition("\N{NO-BREAK SPACE}[")
        earlier = " (earlier version)" * self.over_seeds(claim)[0]["quantity"].endswith("†")
        return f"{share} of {self.over_seeds(claim)[0]['seeds']} [{interval}{earlier}"

    def noticed(self, claim: Claim) -> list[str]:
        """Entry points of `theory` that were broken, and this claim was the first not as expected."""
        named = re.compile(rf"{re.escape(claim.id)}(?![\w-])")
        return [row[0] for row in self._broken if any(map(named.match, row[1:]))]

    def statements(self, claim: Claim) -> list[list[str]]:
        """Statement, in short, claims, remark: of the sources' statements that name the claim."""
        return [row for row in self._stated if claim.id in _ids(row[2])]

    def corrected(self, claim: Claim) -> Claim | None:
        """What stands in place of a statement that is printed wrongly: the claim of its name, or one that a row names."""
        names = [claim.id.removesuffix("-printed"), *(name for row in self.statements(claim) for name in _ids(row[2]))]
        return next((self.by_id[name] for name in names if name in self.by_id and name != claim.id), None)

    @cached_property
    def measured(self) -> str:
        """Under which seed, when and by which code the verdicts were reached."""
        days = sorted({one.date for one in self.judged.values()})
        commits = sorted({f"`{one.commit[:10]}`" for one in self.judged.values()})
        return (
            f"preset {verdicts.PRESET}, seed {verdicts.SEED}, {' to '.join(dict.fromkeys((days[0], days[-1])))}, "
            f"commit{'s' if len(commits) > 1 else ''} {', '.join(commits)}"
        )


def rows(lines: Sequence[str], *needed: str) -> list[dict[str, str]]:
    """The rows of a Markdown table by its head. Raises `ValueError` unless it has the columns that are `needed`."""
    head, *body = [_cells(line) for line in lines] or [[]]
    if not set(needed) <= set(head):
        raise ValueError(f"a table has the columns {', '.join(head) or 'of none'}, and needs {', '.join(needed)}")
    return [dict(zip(head, cells, strict=True)) for cells in body if not set(cells[0]) <= set("-:")]


def _ids(cell: str) -> list[str]:
    return re.split(r"[,\s]+", cell)


def by_wing(known: Known) -> dict[str, list[Claim]]:
    """Claims by the folder of `validation.claims` that they lie in."""
    ordered = sorted(known.claims, key=_wing)
    return {wing: list(found) for wing, found in groupby(ordered, key=_wing)}


def _wing(claim: Claim) -> str:
    return claim.runner.__module__.split(".")[2]


def _title(wing: str) -> str:
    return (import_module(f"validation.claims.{wing}").__doc__ or wing).strip().rstrip(".")


# ------------------------------------------------------------------------------------------------------- catalogue


def catalogue_page(known: Known) -> str:
    """All claims in a table, each linked to what it says."""
    names = by_wing(known)
    parts = [
        "# Catalogue of claims",
        "",
        f"{len(known.claims)} statements that `emergence validate` judges; [how](../docs/claims.md). *Sees*: the smallest "
        "error of its prediction that every quantity of the claim would have noticed (a dash where all predict 0), from "
        f"{known.measured}. *False alarms*: share of the seeds, of the worst quantity, with its interval "
        "([counted](../docs/false_alarms.md)).",
        "",
    ]
    head = ("claim", "about", "source", "kind", "sees", "false alarms")
    for wing, found in names.items():
        parts += [f"## {_title(wing)}", "", *table(head, (_row(claim, known) for claim in found)), ""]
    tree = ["```{toctree}", ":hidden:", "", *(f"claims/{wing}" for wing in names), "```", ""]
    return "\n".join([*parts, *tree])


def _row(claim: Claim, known: Known) -> tuple[str, ...]:
    found = known.judged.get(claim.id)
    sees = "not judged yet" if found is None else percent(found.weakest).replace(" ", "\N{NO-BREAK SPACE}")
    kind = claim.kind + (", expected to disagree" if claim.expected == "disagrees" else "")
    return link(claim), plain(claim.title), plain(claim.source), kind, sees, known.false_alarms(claim)


def wing_page(wing: str, claims: Sequence[Claim], known: Known) -> str:
    """The claims of one wing, in full."""
    return "\n".join([f"# {_title(wing)}", "", *(section(claim, known) for claim in claims)])


def section(claim: Claim, known: Known) -> str:
    """One claim: statement, formula, source, wrong theories, verdicts, verdicts over seeds, how to judge it alone."""
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
            *_bullets("Statements", (f"{plain(row[0])}: {row[3]}" for row in known.statements(claim))),
            *_bullets("Wrong theories that the data must reject", map(plain, claim.controls)),
            *_bullets("Formulas that were broken by 5 %, which it named first", known.noticed(claim)),
            "",
            *judged(claim, known),
        ]
    )


def judged(claim: Claim, known: Known) -> list[str]:
    """The verdicts on a claim as the report shows them, and those over seeds, folded."""
    parts: list[str] = []
    if (found := known.judged.get(claim.id)) is not None:
        html = "\n".join(line for line in quantities(claim, found.verdicts).splitlines() if line)
        parts += ["```{raw} html", f'<div class="verdicts" id="{claim.id}">{html}</div>', "```", ""]
    if own := known.over_seeds(claim):
        parts += [f":::{{dropdown}} Verdicts over {own[0]['seeds']} seeds", "What the columns say: "]
        parts[-1] += "{doc}`/docs/false_alarms`."
        parts += ["", *table(list(own[0]), (list(row.values()) for row in own)), "", ":::", ""]
    return parts


def _bullets(title: str, items: Iterable[str]) -> list[str]:
    lines = [f"  * {item}" for item in items]
    return [f"* {title}:", *lines] if lines else []


def formula(claim: Claim) -> list[str]:
    """The sentence and the formula of a claim."""
    return [plain(claim.statement), "", "$$", claim.latex, "$$", ""]


def open_questions(known: Known) -> str:
    """Claims of kind open: an estimate with its interval, and no verdict."""
    parts = [
        "# Open questions",
        "",
        "Nobody knows what these should give. They report an estimate with its interval, and never count as failures. "
        f"Estimates: {known.measured}.",
        "",
    ]
    for claim in known.claims:
        if claim.kind == "open":
            text = section(claim, known).replace(f"(claim-{claim.id.lower()})=\n", "")
            parts += [text, f"Also in the {link(claim, 'catalogue')}.", ""]
    return "\n".join(parts)


# ---------------------------------------------------------------------------------------------------------- errata


def errata_page(known: Known) -> str:
    """What the sources print wrongly, what is right, and what the data say: every claim expected to disagree."""
    parts = [
        "# Errata of the sources",
        "",
        "What is printed is judged like any other claim, and expected to disagree. Other conventions are no errors: "
        "[what the sources print differently](docs/conventions.md#what-the-sources-print-differently). Each picture was "
        f"made by the lines below it when this site was built; the verdicts: {known.measured}.",
        "",
    ]
    wrong = [claim for claim in known.claims if claim.expected == "disagrees"]
    scripts = errata.scripts()
    printed = [claim for claim in wrong if claim.source != "derived"]
    for claim in printed:
        parts += erratum(claim, known, scripts)
    beyond = [claim for claim in wrong if claim not in printed]
    if beyond:
        parts += ["## Approximations of our own, where they end", ""]
        parts += [f"* {link(claim)}: {plain(claim.statement)}" for claim in beyond]
    return "\n".join([*parts, ""])


def erratum(claim: Claim, known: Known, scripts: Mapping[str, errata.Script]) -> list[str]:
    """One statement that is printed wrongly: picture, what is printed, what is right, the verdicts on both."""
    right, picture = known.corrected(claim), scripts.get(claim.id)
    parts = [f"## {plain(claim.title)}", ""]
    if picture is not None:
        parts += picture.figure
    parts += [f"Printed ({link(claim)}, {plain(claim.source)}): ", *formula(claim)]
    parts += [f"* {plain(row[0])}: {row[3]}" for row in known.statements(claim)]
    parts += ["", *judged(claim, known)]
    if right is not None:
        parts += [f"What agrees with the data instead, {link(right)}: ", *formula(right)]
        parts += ["::::{dropdown} Verdicts on it", *judged(right, known), "::::", ""]
    both = f"{claim.id} {right.id}" if right is not None else claim.id
    return [*parts, f"`emergence validate {both}` measures it again.", ""]


# ----------------------------------------------------------------------------------------------------------- words


def plain(text: str) -> str:
    """Words of a record as Markdown that shows them as they are."""
    return _MARKUP.sub(r"\\\1", text)


def link(claim: Claim, text: str = "") -> str:
    """A link to what the catalogue says of a claim."""
    return f"[{text or claim.id}](#claim-{claim.id.lower()})"


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    """A table in Markdown."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *body)]
