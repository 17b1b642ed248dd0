"""The report says what was judged: sentences, numbers, pictures, and nothing from elsewhere."""

import base64
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import xarray as xr
from markupsafe import Markup
from matplotlib.figure import Figure

from dynamics.core import storage
from theory import InputError
from theory.core.typeset import typeset
from validation.judge.claim import Claim, Control, Measurement, Outcome
from validation.judge.runner import Run, select_claims
from validation.judge.selection import natural
from validation.report import numerals
from validation.report import page as report
from validation.report.contents import OWN, headline, status, system_of, systems
from validation.report.formula import mathml, papers, prose, sourced
from validation.report.picture import picture, rendered
from validation.report.strip import axis, strip

VOID = {"meta", "img", "br", "link", "input", "hr"}


class _Page(HTMLParser):
    """Collects tags and text, and fails on tags that are not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.text = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.text.append(data)

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


def _claim(name, **changes):
    settings = {
        "title": f"Title of {name}",
        "statement": "It holds for $d$ > 3 & more.",
        "latex": r"\frac{a}{b}<1",
        "source": "arXiv:2504.19983, (5)",
        "kind": "exact",
        "regime": r"$P\ll d$",
        "controls": ("missing factor", "near", "far", "low", "own", "c"),
        "runner": lambda context: Outcome([]),
    }
    return Claim(id=name, **(settings | changes))


def _verdict(name, estimate=1.001, control=2.0, key="", stderr=0.002, allowance=0.01, seconds=1.5, **changes):
    controls = {} if control is None else {"missing factor": control}
    measurement = Measurement("ratio of times", 1.0, estimate, stderr, allowance, controls, "the step size", key)
    return _claim(name, **changes).judge(measurement, seconds)


def _verdicts():
    return [
        _verdict("E10", key="beta"),
        _verdict("E2", estimate=1.5),
        _verdict("E1", control=1.001, expected="disagrees"),
        _verdict("Q3", estimate=1.5, expected="disagrees"),
        _verdict("L4", control=None, kind="open", controls=()),
        _verdict("S1", expected="disagrees"),
    ]


def _run(verdicts, outcomes=None):
    return Run(
        verdicts=verdicts,
        outcomes=outcomes or {},
        preset="quick",
        seed=7,
        version="9.8.7",
        seconds=125.0,
        machine="two cores",
        mark="",
    )


def _figure(points=3):
    figure = Figure()
    figure.add_subplot().plot(np.arange(points), np.random.default_rng(0).normal(size=points), "o")
    return figure


@pytest.fixture
def page(tmp_path):
    outcomes = {"E2": Outcome([], xr.Dataset({"x": ("t", [1.0])}), [("A <caption> with $x$", _figure())])}
    path = report.write_report(tmp_path / "new" / "report.html", _run(_verdicts(), outcomes))
    return path.read_text(encoding="utf-8")


def test_each_verdict_falls_in_one_class():
    names = [status(verdict).name for verdict in _verdicts()]
    assert names == ["agrees", "unexpected", "inconclusive", "refuted", "open", "unexpected"]


def test_the_top_sentence_counts_every_quantity_once(page):
    sentence = "Of 6 quantities, 1 agrees, 1 disagrees as expected, 1 open, 1 inconclusive, 2 unexpected."
    assert headline(_verdicts()) == sentence
    assert sentence in _Page(page).words
    assert sum(map(int, re.findall(r" (\d+) ", sentence)[1:])) == 6


def test_what_is_not_as_expected_is_named_at_the_top(page):
    words = _Page(page).words
    alert = words[words.index("Not as expected:") : words.index("Contents:")]
    named = "Not as expected: E1 (inconclusive), E2 (unexpected: disagrees), S1 (unexpected: agrees)."
    assert alert.replace(" ,", ",").strip() == named


def test_nothing_is_named_at_the_top_where_all_is_as_expected(tmp_path):
    path = report.write_report(tmp_path / "r.html", _run([_verdict("E1")]))
    assert "Not as expected" not in path.read_text()


def test_claims_stand_in_natural_order(page):
    order = ["E1", "E2", "E10", "L4", "Q3", "S1"]
    assert re.findall(r'<a class="tile [^>]*href="#(\w+)"', page) == order
    assert re.findall(r'<div class="body" id="(\w+)"', page) == order
    assert sorted(["E17.beta", "E2", "E17", "E10", "E9a"], key=natural) == [
        "E2",
        "E9a",
        "E10",
        "E17",
        "E17.beta",
    ]


def test_every_claim_has_its_section_and_links_reach_something(page):
    parsed = _Page(page)
    anchors = [attrs["id"] for _, attrs in parsed.tags if "id" in attrs]
    assert len(anchors) == len(set(anchors))
    for link in parsed.all("a"):
        target = link["href"]
        papers = "https://arxiv.org/abs/2504.19983"
        assert target[1:] in anchors if target.startswith("#") else target in {"E2.nc", papers}
    assert {"E1", "E2", "E10", "E10.beta", "L4", "Q3", "S1"} <= set(anchors)
    for expected in (
        "9.8.7",
        "preset quick",
        "seed 7",
        "2 min 5 s",
        "two cores",
        "the step size",
        "missing factor",
        "jax ",
    ):
        assert expected in parsed.words


def test_the_page_is_well_formed_accessible_and_needs_nothing_from_elsewhere(page):
    parsed = _Page(page)
    assert parsed.open == []
    loads = [(tag, attrs) for tag, attrs in parsed.tags if {"src", "srcset", "data", "action"} & set(attrs)]
    assert all(tag == "img" and attrs["src"].startswith("data:image/") for tag, attrs in loads)
    addresses = set(re.findall(r"https?://[^\"' <)]+", page))
    # The name of MathML, and a link that nothing is loaded from.
    assert addresses == {"http://www.w3.org/1998/Math/MathML", "https://arxiv.org/abs/2504.19983"}
    assert not {"link", "iframe", "object"} & {tag for tag, _ in parsed.tags}
    assert "url(" not in page
    assert "@import" not in page
    assert all(image["alt"] for image in parsed.all("img"))
    assert all(header.get("scope") in {"row", "col", "rowgroup"} for header in parsed.all("th"))
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in parsed.all("svg"))
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_text_of_claims_is_escaped_and_formulas_are_mathml(page):
    assert "A <caption>" not in page
    assert "A &lt;caption&gt; with" in page
    assert "&gt; 3 &amp; more." in page
    assert page.count("<mfrac>") == 6


def test_a_surviving_control_stands_out(page):
    section = page[page.index('<div class="body" id="E1"') : page.index('<div class="body" id="E2"')]
    assert "✗ no" in section
    assert '<details class="fold" open><summary>Controls: 0 of 1 rejected' in section
    assert 'class="control survived"' in section
    rest = page.replace(section, "")
    assert "✗ no" not in rest
    assert '<details class="fold"><summary>Controls: 1 of 1 rejected' in rest


def test_numbers_of_a_quantity_in_the_table(page):
    section = page[page.index('<div class="body" id="E2"') :]
    cells = re.findall(r'<td class="num">(.*?)</td>', section)[:5]
    # Would see: (0.01 + 4·0.002)/1.
    assert cells == ["1.500 ± 0.002<br>1", "0.5<br>0.01", "28", "245.0", "1.8 %"]


def test_the_smallest_error_is_the_tolerance_as_a_share_of_the_prediction():
    one = _verdict("E1").measurement
    assert one.smallest_error == pytest.approx(0.018)
    at_edge = _verdict("E1", estimate=1.0 + 0.99 * one.smallest_error)
    beyond = _verdict("E1", estimate=1.0 + 1.01 * one.smallest_error)
    assert [at_edge.verdict, beyond.verdict] == ["agrees", "disagrees"]
    assert math.isinf(Measurement("q", 0.0, 0.0, 0.1, 0.0, {}, "").smallest_error)
    assert math.isnan(Measurement("q", 1.0, 0.0, math.nan, 0.0, {}, "").smallest_error)
    statistic = Measurement("mean square of z", 1.0, 1.1, 0.3, 0.0, {}, "", seen=0.02)
    assert statistic.smallest_error == 0.02
    assert statistic.title == statistic.quantity


def test_claims_are_listed_by_the_system_that_they_are_about():
    names = {claim.id: system_of(claim) for claim in select_claims(["E1", "Q1", "L1", "M1"])}
    assert names == {
        "E1": "The additive model",
        "L1": "The two-layer linear network",
        "M1": "Declared models",
        "Q1": "Quadratic networks",
    }
    assert [system.name for system in systems(_run([_verdict("E1")]))] == [OWN]
    (catalogued,) = select_claims(["Q1"])
    measured = Measurement("q", 1.0, 1.0, 0.1, 0.0, {}, "")
    mixed = systems(_run([_verdict("A1"), catalogued.judge(measured)]))
    assert [system.name for system in mixed] == ["Quadratic networks", OWN]


def test_each_claim_says_how_to_judge_it_alone():
    (claim,) = select_claims(["Q1"])
    run = _run([claim.judge(Measurement("q", 1.0, 1.0, 0.1, 0.0, {}, "")), _verdict("E1")])

    def told():
        return [section.facts for system in systems(run) for section in system.sections]

    assert told() == [
        {"Alone": "emergence validate Q1 --seed 7"},
        {"Alone": "emergence validate test_report.py --seed 7"},
    ]
    run.facts = {"E1": {"Alone": "emergence judge X.toml", "Lock": "locked"}}
    assert told()[1] == run.facts["E1"]
    run.mark = ".own-theory"
    assert told()[0] == {}


def test_a_long_page_folds_what_is_as_expected(tmp_path):
    verdicts = [_verdict(f"E{number}") for number in range(1, 20)] + [_verdict("E20", estimate=9.0)]
    page = report.write_report(tmp_path / "r.html", _run(verdicts)).read_text()
    assert page.count("<details>") == 19
    assert page.count("<details open>") == 1
    few = report.write_report(tmp_path / "few.html", _run(verdicts[:3])).read_text()
    assert few.count("<details open>") == 3


def test_the_filter_knows_every_verdict_and_source(page):
    parsed = _Page(page)
    boxes = [attrs["value"] for attrs in parsed.all("input") if attrs.get("name") == "verdict"]
    assert boxes == ["agrees", "refuted", "open", "inconclusive", "unexpected"]
    sources = {attrs["value"] for attrs in parsed.all("option")} - {""}
    sections = parsed.all("section")
    assert sources == {paper for attrs in sections for paper in attrs["data-sources"].split("|")}
    assert {word for attrs in sections for word in attrs["data-verdicts"].split()} == set(boxes)
    assert "hidden" in parsed.all("form")[0]  # until the script that it needs is there


def test_sources_link_to_their_papers():
    assert papers("slides of arXiv:2504.19983; arXiv:2403.08938") == ("arXiv:2504.19983", "arXiv:2403.08938")
    assert papers("derived; Polyak 1964") == ("derived",)
    assert str(sourced("talk on arXiv:2504.19983, (5)")).startswith(
        'talk on <a href="https://arxiv.org/abs/2504.19983">'
    )


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("d = 1e+04, 2.5e-7", "d = $10^{4}$, $2.5×10^{-7}$"),
        ("1.1e+04 to 1.2e+04. No 1e4.5", "$1.1×10^{4}$ to $1.2×10^{4}$. No 1e4.5"),
        ("η d^1.5 = 2", "η $d^{1.5}$ = 2"),
        ("T ∝ d^{J/2−1}", "T ∝ $d^{J/2-1}$"),
        ("κ^(2/(J−2)), d^max", "$κ^{2/(J-2)}$, d^max"),
        ("t_p g_p²", "$t_p$ $g_p^2$"),
        ("|v|^{J−2}", "|v|${}^{J-2}$"),
        ("x: -0.5 [-1.174, -0.6]", "x: −0.5 [−1.174, −0.6]"),
        ("$d^2$ and ``1e+04`` stay", "$d^2$ and ``1e+04`` stay"),
        ("theory.one_task.h3 of h4", "theory.one_task.h3 of h4"),
    ],
)
def test_numbers_and_powers_are_set_as_formulas(text, formula):
    assert typeset(text) == formula


def test_a_figure_is_svg_unless_it_is_large_and_always_the_same():
    small, large = rendered(_figure()), rendered(_figure(20_000))
    assert b"<svg" in small
    assert large.startswith(b"\x89PNG")
    assert small == rendered(_figure())
    shown = picture(_figure())
    assert base64.b64decode(shown.uri.partition(",")[2]) == small
    assert (shown.width, shown.height) == (614, 461)
    assert picture(small) == shown  # a page takes what was drawn before
    assert (picture(large).width, picture(large).height) == (614, 461)
    for wrong in ("plot", b"text"):
        with pytest.raises(InputError, match="is not a matplotlib Figure"):
            picture(wrong)


def test_writing_is_all_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    report.write_report(path, _run([_verdict("E1")]))
    before = path.read_text()
    with pytest.raises(InputError, match="not a matplotlib Figure"):
        report.write_report(path, _run([_verdict("E2")], {"E2": Outcome([], None, [("c", object())])}))

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(storage.os, "replace", fail)
    with pytest.raises(InputError, match="disk full"):
        report.write_report(path, _run([_verdict("E2")]))
    assert path.read_text() == before
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_bad_input_is_refused(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        report.write_report(tmp_path, _run([_verdict("E1")]))
    with pytest.raises(InputError, match="run at least one claim"):
        report.write_report(tmp_path / "r.html", _run([]))
    row = {"direction": 1, "predicted": 1.0, "sgd_mean": None, "sgd_stderr": None}
    with pytest.raises(InputError, match="row 1 lacks flow, verdict"):
        report.write_comparison(tmp_path / "c.html", "t", {}, "directions", _COLUMNS, [row], [], (), "Times.")


def test_a_measurement_without_finite_value_is_reported_not_dropped(tmp_path):
    path = report.write_report(tmp_path / "r.html", _run([_verdict("E1", estimate=math.nan)]))
    words = _Page(path.read_text()).words
    assert "no finite value" in words
    assert "1 unexpected" in words


_COLUMNS = ("direction", "predicted", "flow", "sgd_mean", "sgd_stderr", "verdict")


def test_a_comparison_says_how_it_was_made(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/somewhere/bin/emergence", "compare", "--dim", "64"])
    path = report.write_comparison(tmp_path / "c.html", "t", {"--seed": 7}, "directions", (), [], [], (), "Times.")
    facts = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", path.read_text(), re.S))
    assert facts["Command"] == "<code>emergence compare --dim 64</code>"
    assert facts["Seed"] == "7"
    assert facts["Version"].startswith("emergence ")
    assert {"Libraries", "Machine"} <= facts.keys()


def test_comparison_page(tmp_path):
    rows = [
        {"direction": 1, "predicted": 123.4, "flow": 125.0, "sgd_mean": 130.0, "sgd_stderr": 3.0, "verdict": "agrees"},
        {"direction": 2, "predicted": None, "flow": None, "sgd_mean": None, "sgd_stderr": None, "verdict": None},
        {"direction": 3, "predicted": 1.0, "flow": 1.0, "sgd_mean": 9.0, "sgd_stderr": 0.1, "verdict": "disagrees"},
    ]
    problem = {"activation": "<h4>", "teacher_weights": [1.0, 0.5], "normalise": True}
    figures = [("fig", _figure())]
    path = report.write_comparison(
        tmp_path / "c.html",
        "My $h_4$",
        problem,
        "directions",
        _COLUMNS,
        rows,
        figures,
        ["A note."],
        "Times.",
        "The rule.",
    )
    page = path.read_text()
    parsed = _Page(page)
    body = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', page, re.S)
    assert [key for key, _ in body] == ["1", "2", "3", "activation", "teacher_weights", "normalise"]
    assert re.findall(r'<td class="num">(.*?)</td>', body[0][1]) == ["123.4", "125", "130 ± 3"]
    assert re.findall(r'<td class="num">(.*?)</td>', body[1][1]) == ["–", "–", "–"]
    assert 'class="chip agrees"' in body[0][1]
    assert 'class="chip unexpected"' in body[2][1]
    assert "as expected" not in body[2][1]
    assert "A note." in parsed.words
    assert "The rule." in parsed.words
    assert "&lt;h4&gt;" in page
    assert "<title>My h_4</title>" in page
    assert len(parsed.all("img")) == 1


def _marks(verdict):
    svg = str(strip(verdict))
    number = r"(-?[\d.]+)"
    band = re.search(rf'class="band" x="{number}" y="7" width="{number}"', svg)
    return {
        "band": (float(band[1]), float(band[1]) + float(band[2])),
        "bar": tuple(map(float, re.search(rf'class="bar" x1="{number}" x2="{number}" y1="17"', svg).groups())),
        "estimate": float(re.search(rf'cx="{number}"', svg)[1]),
        "predicted": float(re.search(rf'class="predicted" x1="{number}"', svg)[1]),
        "controls": [
            [tuple(map(float, p.split(","))) for p in points.split()]
            for points in re.findall(r'class="control" points="([^"]+)"', svg)
        ],
    }


@pytest.mark.parametrize("offset", [0.0, 0.5, 0.99, 1.01, 2.0, -0.99, -1.01])
def test_in_the_picture_bar_and_band_meet_exactly_when_the_rule_says_agree(offset):
    verdict = _verdict("E1", estimate=1.0 + offset * (0.4 + 4 * 0.1), stderr=0.1, allowance=0.4, control=5.0)
    marks = _marks(verdict)
    (left, right), (low, high) = marks["band"], marks["bar"]
    assert (low <= right and high >= left) == (verdict.verdict == "agrees")
    assert marks["predicted"] == 120
    assert low < marks["estimate"] < high


def test_picture_shows_near_controls_as_diamonds_and_far_ones_as_arrows():
    controls = {"near": 1.05, "far": 80.0, "low": -80.0, "own": Control(1.0, estimate=0.9)}
    measurement = Measurement("q", 1.0, 1.001, 0.002, 0.03, controls, "")
    near, far, low, own = _marks(_claim("E1").judge(measurement))["controls"]
    assert [len(points) for points in (near, far, low, own)] == [4, 3, 3, 4]
    assert near[0][0] > 120 > own[0][0]  # a control with its own data stands at its estimate
    assert far[1][0] > 220
    assert low[1][0] < 20
    exact = _claim("E1").judge(Measurement("q", 0.0, 0.0, 0.0, 0.0, {"c": 1.0}, ""))
    assert _marks(exact)["estimate"] == 120  # nothing to scale by, and still drawn


def test_axis_holds_everything_the_rule_looks_at():
    scale = axis(10.0, 13.0, 1.0, [25.0, 1000.0])
    assert scale.holds(14.0)
    assert scale.holds(25.0)
    assert not scale.holds(1000.0)
    assert scale.x(1000.0) == scale.x(scale.centre + scale.half)


@pytest.mark.parametrize(
    ("value", "stderr", "text"),
    [
        (1.00487, 0.00031, "1.0049 ± 0.0003"),
        (1.00487, 0.00014, "1.00487 ± 0.00014"),
        (181500.0, 4200.0, "181500 ± 4200"),
        (-0.3402, 0.0021, "−0.340 ± 0.002"),
        (9.96, 0.0996, "9.96 ± 0.10"),
        (2.0e-7, 3.0e-9, "(2.00 ± 0.03)×10⁻⁷"),
        (1.0e-9, 0.02, "0.00 ± 0.02"),
        (3.1e-14, 0.0, "3.1×10⁻¹⁴"),
        (math.nan, 0.1, "–"),
        (math.inf, 0.1, "∞"),
    ],
)
def test_value_with_error(value, stderr, text):
    assert numerals.with_error(value, stderr) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(math.inf, "∞"), (-0.01, "0.0"), (-3.42, "−3.4"), (8.4e11, "8.4×10¹¹"), (math.nan, "–")],
)
def test_score(value, text):
    assert numerals.score(value) == text


@pytest.mark.parametrize(
    ("used", "text"),
    [
        (0.0, "0.00"),
        (0.9999, "1.00"),
        (1.0, "1.00"),
        (1.0001, "1.01"),
        (312.4, "312"),
        (math.inf, "≫"),
        (math.nan, "–"),
    ],
)
def test_share(used, text):
    """What disagrees never reads as 1.00."""
    assert numerals.share(used) == text


def test_details_are_shortened():
    assert numerals.free(np.arange(30) / 2).endswith("5.5, … (30 in all)")
    assert numerals.free({"a": np.float64(0.25), "b": (1, True, None)}) == "a: 0.25, b: 1, yes, –"
    assert numerals.free("plain $x$") == "plain $x$"


def test_duration():
    assert [numerals.duration(s) for s in (0.25, 59.7, 7440.0)] == ["0.2 s", "1 min 0 s", "2 h 4 min"]


def test_formula_falls_back_to_its_source():
    assert str(mathml(r"\nosuchcommand{x}")) == r'<code class="tex">\nosuchcommand{x}</code>'
    assert str(mathml(r"\text{<script>}")) == r'<code class="tex">\text{&lt;script&gt;}</code>'
    assert "href" not in re.sub(r"<code.*?</code>", "", mathml(r"\href{javascript:1}{x}"))
    aligned = mathml(r"\begin{aligned}a&=\mathbb E b\\c&=\Big\|d\Big\|\end{aligned}")
    assert "𝔼" in aligned
    assert aligned.count("<mtr>") == 2
    assert aligned.count("‖") == 2


def test_every_claim_s_formula_is_drawn():
    texts = {
        claim.id: Markup().join([mathml(claim.latex), *map(prose, (claim.statement, claim.title, claim.regime))])
        for claim in select_claims(None)
    }
    assert [name for name, text in texts.items() if 'class="tex"' in text] == []


def test_prose_mixes_text_formula_and_code():
    assert re.sub(r"<math.*?</math>", "M", prose("a<b, $x^2$ and ``c<d``")) == "a&lt;b, M and <code>c&lt;d</code>"
