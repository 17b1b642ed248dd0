"""The report: one self-contained HTML page, written in one go so that a reader never meets half of it."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

from _emergence import __version__
from dynamics.core.provenance import command as command_line
from dynamics.core.provenance import commit, libraries, machine
from dynamics.core.storage import write_atomically
from theory import InputError
from validation.judge.claim import SIGMAS, Claim, Verdict
from validation.report import numerals
from validation.report.contents import STATUSES, Section, command, headline, status, systems, word_status
from validation.report.formula import mathml, prose, sourced
from validation.report.picture import picture
from validation.report.strip import strip

if TYPE_CHECKING:
    from validation.judge.run import Run

_TEMPLATES = Path(__file__).parent / "templates"


def write_report(path: Path, run: "Run") -> Path:
    """Write the report of a validation run.

    Args:
        path: the HTML file; its folder is made if absent.
        run: verdicts, outcomes by claim id, and how they were obtained.

    Returns:
        `path`.

    Raises:
        InputError: `path` is a folder, there is no verdict, or a figure is neither a matplotlib Figure nor a picture's bytes.
    """
    if not run.verdicts:
        raise InputError("verdicts: the run has none, so there is nothing to report: run at least one claim")
    found = systems(run)
    sections = [section for system in found for section in system.sections]
    verdicts = [verdict for section in sections for verdict in section.verdicts]
    names = [status(verdict).name for verdict in verdicts]
    sources = [paper for section in sections for paper in section.papers]
    return _write(
        path,
        "report.html.j2",
        title="Theory against simulation",
        run=run,
        headline=headline(verdicts),
        attention=[v for v in verdicts if not v.as_expected],
        systems=found,
        claims=len(sections),
        kinds=[(kind, names.count(kind.name)) for kind in STATUSES if kind.name in names],
        sources=sorted((-sources.count(paper), paper) for paper in set(sources)),
        drawn=_drawn(run).get("Seeds", f"preset {run.preset} · seed {run.seed}"),
        provenance=_provenance(run, [section.claim.id for section in sections]),
        sigmas=f"{SIGMAS:g}",
    )


#: A command line with more ids than these says less than the patterns that were given.
_MOST_IDS = 30


def _provenance(run: "Run", ids: Sequence[str]) -> dict[str, str]:
    """How the page was made, in words; no path, no host."""
    return {
        "Version": _version(run.version),
        **_drawn(run),
        "Libraries": _libraries(),
        "Machine": f"{run.machine}; {numerals.duration(run.seconds)}",
        **_again(run, ids),
    }


def _version(version: str) -> str:
    return f"emergence {version}" + (f", commit {commit()}" if commit() else "")


def _libraries() -> str:
    return ", ".join(f"{name} {version}" for name, version in libraries().items())


def _made(problem: Mapping[str, object]) -> dict[str, str]:
    """How the page of a comparison was made, in words."""
    seed = problem.get("--seed", problem.get("seed"))
    return {
        "Version": _version(__version__),
        **({} if seed is None else {"Seed": str(seed)}),
        "Command": command_line(),
        "Libraries": _libraries(),
        "Machine": machine(),
    }


def _drawn(run: "Run") -> dict[str, str]:
    """Size and seed of a run, or the seeds of its claims where all have their own, and one size."""
    own = dict.fromkeys(verdict.claim.seeds for verdict in run.verdicts)
    return {"Preset, seed": f"{run.preset}, {run.seed}"} if "" in own else {"Seeds": "; ".join(own)}


def _again(run: "Run", ids: Sequence[str]) -> dict[str, str]:
    """The command that makes the page again; nothing where it rests on a file that is not known here."""
    told = dict.fromkeys(verdict.claim.again for verdict in run.verdicts)
    if "" not in told:
        return {"Again": " && ".join(told)}
    own = any(not verdict.claim.runner.__module__.startswith("validation.") for verdict in run.verdicts)
    return {} if own or ".own" in run.mark else {"Again": command(run, [] if len(ids) > _MOST_IDS else ids)}


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
    rule: str = "",
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
        caption: of the table. rule: what "agrees" means in it.

    Returns:
        `path`.

    Raises:
        InputError: `path` is a folder, a row lacks an entry, or a figure is neither a matplotlib Figure nor a picture's bytes.
    """
    for index, row in enumerate(rows, start=1):
        lacking = set(columns) - set(row)
        if lacking:
            raise InputError(f"rows: row {index} lacks {', '.join(sorted(lacking))}: give None where nothing is known")
    names = {"title": title, "problem": problem, "unit": unit, "rows": rows, "notes": notes, "caption": caption}
    names |= {"rule": rule, "provenance": _made(problem)}
    shown = [name for name in columns if not name.endswith("_stderr")]
    pictures = [(text or f"Figure of {title}", picture(figure)) for text, figure in figures]
    return _write(path, "comparison.html.j2", columns=shown, figures=pictures, **names)


def quantities(claim: Claim, verdicts: Sequence[Verdict]) -> str:
    """The report's table of a claim's quantities as HTML, for another page that has `styles`."""
    section = Section(claim, tuple(verdicts), (), None, {}, True)
    return str(_module("claim.html.j2").quantities(section))


def styles(light: str, dark: str) -> str:
    """How `quantities` looks, as CSS; `light` and `dark`: the selectors of a page in these colours."""
    colours, rules = _module("colours.css.j2"), _environment().get_template("verdicts.css.j2").render()
    return f"{light} {{{colours.light()}}}\n{dark} {{{colours.dark()}}}\n{rules}\n"


def _module(template: str) -> Any:
    """The macros of a template."""
    return _environment().get_template(template).module


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
        percent=numerals.percent,
        duration=numerals.duration,
        free=numerals.free,
        mathml=mathml,
        prose=prose,
        sourced=sourced,
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
