"""No page has a serious fault that axe-core finds: the explorer, the report, and pages of the site where it was built.

Run where Chromium and axe-core are: ``npm install axe-core`` in the checkout, or its file in AXE_CORE. The site is that of
``make docs``, or the folder in SITE.
"""

import os
from pathlib import Path

import pytest
import verdicts
from browser import CHROMIUM, Browser

from emergence.explorer import bands, page
from emergence.models.additive_problem import AdditiveProblem, resolve
from theory import Activation
from validation import Run, catalogue
from validation.report.page import write_report

ROOT = Path(__file__).resolve().parents[1]
AXE = Path(os.environ.get("AXE_CORE", ROOT / "node_modules" / "axe-core" / "axe.min.js"))
SITE = Path(os.environ.get("SITE", ROOT / "emergence-out" / "docs")) / "html"
#: Of each kind one: cards, code and figures, tables of verdicts with formulas.
PAGES = ("index.html", "docs/own_activation.html", "errata.html")
_FAULTS = """axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations
  .filter(x => ["serious", "critical"].includes(x.impact))
  .map(x => `${x.id}: ${x.nodes.slice(0, 3).map(y => y.target.join(" ")).join(", ")}`))"""
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: nothing can open a page"),
    pytest.mark.skipif(
        not AXE.is_file(), reason="axe-core is not installed (npm install axe-core): no page is checked"
    ),
]


def faults(file: Path) -> list[str]:
    """The serious and critical ones, with the first places of each."""
    with Browser() as browser:
        browser.open(file)
        browser.evaluate(AXE.read_text(encoding="utf-8") + ";0")
        return list(browser.evaluate(_FAULTS))


def test_the_explorer(tmp_path: Path) -> None:
    problem = AdditiveProblem(dim=200, teacher_width=2, student_width=4, activation="h3")
    activation = Activation.parse(problem.activation)
    file = tmp_path / "explorer.html"
    text = page.render(page.settings(problem, activation), activation, 0.01, bands.stored(), resolve(problem).validity)
    file.write_text(text, encoding="utf-8")
    assert faults(file) == []


def test_a_report_on_all_claims(tmp_path: Path) -> None:
    judged = [one for found in verdicts.read(catalogue()).values() for one in found.verdicts]
    run = Run(judged, {}, verdicts.PRESET, verdicts.SEED, "1.0", 0.0, "a machine")
    assert faults(write_report(tmp_path / "report.html", run)) == []


@pytest.mark.parametrize("name", PAGES)
def test_the_site(name: str) -> None:
    if not (SITE / name).is_file():
        pytest.skip(f"{SITE} has no {name}: make docs")
    assert faults(SITE / name) == []


def test_a_fault_is_found(tmp_path: Path) -> None:
    file = tmp_path / "bad.html"
    file.write_text(
        '<html lang="en"><title>x</title><main><h1>x</h1><img src="x.png"><p style="color:#ccc">pale</p></main>'
    )
    assert [one.partition(":")[0] for one in faults(file)] == ["color-contrast", "image-alt"]
