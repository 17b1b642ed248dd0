"""The report: one self-contained HTML page, written in one go so that a reader never meets half of it."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import matplotlib
from markupsafe import Markup
from matplotlib.figure import Figure

from dynamics.core.storage import write_atomically
from theory import InputError
from validation.judge.claim import SIGMAS, Claim, Outcome, Verdict
from validation.judge.file_names import dataset_name
from validation.judge.selection import natural
from validation.report import numerals
from validation.report.formula import mathml, prose
from validation.report.strip import strip

if TYPE_CHECKING:
    from validation.judge.run import Run

#: A larger SVG (many points) is embedded as PNG instead.
_LARGEST_SVG = 200_000
_PNG_DPI = 150
_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Status:
    """How a verdict is shown: class name, sign, word, and its words in the top sentence."""

    name: str
    sign: str
    word: str
    phrase: str


AGREES = Status("agrees", "✓", "agrees", "agree{s}")
REFUTED = Status("refuted", "≠", "disagrees, as expected", "disagree{s} as expected")
OPEN = Status("open", "○", "open", "open")
INCONCLUSIVE = Status("inconclusive", "?", "inconclusive", "inconclusive")
UNEXPECTED = Status("unexpected", "✗", "unexpected", "unexpected")
STATUSES = (AGREES, REFUTED, OPEN, INCONCLUSIVE, UNEXPECTED)
#: A user's own problem has no printed claim to refute: there a disagreement is never expected.
_WORDS = {
    "agrees": AGREES,
    "disagrees": replace(UNEXPECTED, word="disagrees"),
    "inconclusive": INCONCLUSIVE,
    "open": OPEN,
}


@dataclass(frozen=True)
class Section:
    """One claim of the page: its verdicts, and what its runner left (None if it left nothing)."""

    claim: Claim
    verdicts: tuple[Verdict, ...]
    figures: tuple[tuple[str, Markup], ...]
    dataset: str | None

    @property
    def seconds(self) -> float:
        """Run time of the claim; its quantities come from one run and carry the same number."""
        return max(verdict.seconds for verdict in self.verdicts)


def status(verdict: Verdict) -> Status:
    """The one of the five classes that a verdict falls in."""
    if verdict.claim.kind == "open":
        return OPEN
    if verdict.verdict == "inconclusive":
        return INCONCLUSIVE
    if not verdict.as_expected:
        return replace(UNEXPECTED, word=f"unexpected: {verdict.verdict}")
    return AGREES if verdict.verdict == "agrees" else REFUTED


def word_status(word: object) -> Status | None:
    """The chip for the verdict of a comparison's row; None for any other word."""
    return _WORDS.get(str(word))


def headline(verdicts: Sequence[Verdict]) -> str:
    """The run in one sentence; the five numbers add up to the number of quantities."""
    found = [status(verdict).name for verdict in verdicts]
    counts = ", ".join(
        f"{count} {kind.phrase.format(s='s' if count == 1 else '')}"
        for kind in STATUSES
        for count in [found.count(kind.name)]
    )
    return f"Of {len(found)} {'quantity' if len(found) == 1 else 'quantities'}, {counts}."


def write_report(path: Path, run: "Run") -> Path:
    """Write the report of a validation run.

    Args:
        path: the HTML file; its folder is made if absent.
        run: verdicts, outcomes by claim id, and how they were obtained.

    Returns:
        `path`.

    Raises:
        InputError: `path` is a folder, there is no verdict, or a figure is not a matplotlib Figure.
    """
    if not run.verdicts:
        raise InputError("verdicts: the run has none, so there is nothing to report: run at least one claim")
    sections = _sections(run)
    verdicts = [verdict for section in sections for verdict in section.verdicts]
    return _write(
        path,
        "report.html.j2",
        title="Theory against simulation",
        run=run,
        headline=headline(verdicts),
        attention=[v for v in verdicts if not v.as_expected],
        sections=sections,
        verdicts=verdicts,
        claims=len(sections),
        sigmas=f"{SIGMAS:g}",
    )


#: What the table of a comparison shows, unless said otherwise.


def write_comparison(
    path: Path,
    title: str,
    problem: Mapping[str, object],
    unit: str,
    columns: Sequence[str],
    rows: Sequence[Mapping[str, object]],
    figures: Sequence[tuple[str, object]],
    notes: Sequence[str],
    caption: str,
) -> Path:
    """Write the page that compares prediction and simulations for one problem.

    Args:
        path: the HTML file; its folder is made if absent.
        title: heading of the page.
        problem: every setting of the problem, defaults included.
        unit: what a row is about, in the plural.
        columns: entries shown of a row, the first naming it; ``X_mean`` and ``X_stderr`` make one column; ``verdict`` is a
            word. rows: None where nothing is known.
        figures: captions and matplotlib figures.
        notes: sentences below the table; ``$…$`` is a formula.
        caption: of the table.

    Returns:
        `path`.

    Raises:
        InputError: `path` is a folder, a row lacks an entry, or a figure is not a matplotlib Figure.
    """
    for index, row in enumerate(rows, start=1):
        lacking = set(columns) - set(row)
        if lacking:
            raise InputError(f"rows: row {index} lacks {', '.join(sorted(lacking))}: give None where nothing is known")
    names = {"title": title, "problem": problem, "unit": unit, "rows": rows, "notes": notes, "caption": caption}
    shown = [name for name in columns if not name.endswith("_stderr")]
    return _write(path, "comparison.html.j2", columns=shown, figures=_embed_all(title, figures), **names)


def embed(figure: object) -> Markup:
    """A figure as the data URI of an SVG, or of a PNG where the SVG would be large.

    Raises `InputError` for anything but a matplotlib figure.
    """
    if not isinstance(figure, Figure):
        raise InputError(f"figures: {figure!r} is not a matplotlib Figure: return one with its caption")
    # Fixed ids and no date: the same run gives the same page.
    with matplotlib.rc_context({"svg.hashsalt": "emergence"}):
        data = _rendered(figure, format="svg", metadata={"Date": None})
    kind = "svg+xml"
    if len(data) > _LARGEST_SVG:
        data, kind = _rendered(figure, format="png", dpi=_PNG_DPI), "png"
    return Markup("data:image/{};base64,{}").format(kind, base64.b64encode(data).decode("ascii"))


def _rendered(figure: Figure, **options: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, **options)
    return buffer.getvalue()


def _embed_all(name: str, figures: Sequence[tuple[str, object]]) -> tuple[tuple[str, Markup], ...]:
    return tuple((caption or f"Figure of {name}", embed(figure)) for caption, figure in figures)


def _sections(run: "Run") -> list[Section]:
    found: dict[str, list[Verdict]] = {}
    for verdict in sorted(run.verdicts, key=lambda v: natural(v.id)):
        found.setdefault(verdict.claim.id, []).append(verdict)
    sections = []
    for name in sorted(found, key=natural):
        outcome = run.outcomes.get(name, Outcome([]))
        dataset = dataset_name(name, run.mark) if name in run.outcomes else None
        sections.append(Section(found[name][0].claim, tuple(found[name]), _embed_all(name, outcome.figures), dataset))
    return sections


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        plain=numerals.plain,
        score=numerals.score,
        share=numerals.share,
        duration=numerals.duration,
        free=numerals.free,
        mathml=mathml,
        prose=prose,
        strip=strip,
        status=status,
        word_status=word_status,
    )
    environment.globals.update(
        with_error=numerals.with_error, to_resolution=numerals.to_resolution, statuses=STATUSES, max=max
    )
    return environment


def _write(path: Path, template: str, **names: object) -> Path:
    page, path = _environment().get_template(template).render(**names), Path(path)
    if path.is_dir():
        raise InputError(f"path: {str(path)!r} is a folder: give the name of an HTML file")
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_atomically(path, lambda temporary: Path(temporary).write_text(page, encoding="utf-8"))
