"""Pages of the site that are made from records: parts, commands, the index of the API, and those of `claims`."""

import re
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import claims  # beside this file
import yaml

from emergence import reference

ROOT = Path(__file__).resolve().parents[2]
#: Where the pages lie. Those of `docs` that no part names belong to the second.
PARTS = {
    "start": (
        "Start",
        "From nothing to a figure of your own.",
        ["docs/start", "docs/own_activation", "docs/elsewhere", "cite", "notebooks/*"],
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
                "docs/json",
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
#: What a card says where the first sentence of its page is made, or is of no help outside it.
SENTENCES = {
    "docs/elsewhere": "Linux, macOS, Windows, notebooks, a cluster: how to install, and what to expect there.",
    "cite": "The toolkit, and the papers whose claims it judges.",
    "notebooks/01_single_neuron_to_staircase": "One neuron finds one direction; many make a staircase.",
    "notebooks/02_quadratic_networks": "A closed form of the flow, with SGD beside it.",
    "notebooks/03_label_noise": "How label noise leads a network out of the lazy regime.",
    "notebooks/04_scaling_laws": "Sudden steps that add up to a power law.",
    "notebooks/05_which_rule_sees_which_exponent": "Why reading a sample twice finds what reading it once does not.",
    "notebooks/06_inputs_with_structure": "What a covariance of the inputs changes, and what it does not.",
    "notebooks/07_a_conjecture_nobody_has_judged": "From an idea to a verdict, step by step.",
    "notebooks/08_your_own_activation": "What is known of an activation that you bring.",
    "notebooks/09_your_own_system": "A system declared by its parts, predicted and simulated.",
    "notebooks/10_sweep_to_figure": "A grid of runs, one dataset, one figure.",
    "notebooks/11_finite_step_size": "What a step that is not small does to the time of emergence.",
    "notebooks/12_committee": "Rows and a second layer that learn together.",
    "docs/sweeps": "A grid of problems, one file per finished cell: killed, resumed, merged into one dataset.",
    "docs/cluster": "A job array that needs no coordination, from the first look to the figure.",
    "docs/reproduce": "Two figures of arXiv:2504.19983 with theory beside experiment.",
    "docs/declared": "Inputs, target, student, loss and rule: five parts make a model.",
    "examples/README": "Model files of systems that are not built in, to start from.",
    "reference/api": "Every public function and class, with its equation, units and conditions.",
    "reference/commands": "Every command with its arguments, read off the parser.",
    "reference/claims": "The catalogue: every statement that is judged, its verdict and its wrong theories.",
    "docs/statements_paper": "Every numbered statement of the paper on emergence and scaling laws.",
    "docs/statements_slides": "What the slides say beyond the paper.",
    "docs/statements_talk": "The talk, and the paper on quadratic networks.",
    "docs/statements_label_noise": "Every numbered statement on label-noise SGD.",
    "docs/false_alarms": "How often true claims are rejected, counted over many seeds.",
    "docs/broken": "Each formula is broken on purpose: which claims notice.",
    "docs/mutants": "Each formula is broken in a copy of the tree: which tests notice.",
    "CONTRIBUTING": "How to set up, test and change the toolkit.",
    "CHANGELOG": "What changed, the newest first.",
}
#: Words that people look for, by the page that answers; they need not stand in it, and lead the search there.
LOOKED_FOR = {
    "cite": ("cite", "citation", "BibTeX"),
    "docs/start": ("install", "first command"),
    "docs/step_size": ("step size", "learning rate", "artefact", "artifact", "artefact of the step size"),
    "docs/validity": ("outside", "valid", "tie", "interval"),
    "docs/json": ("json", "keys of a document"),
    "docs/sweeps": ("killed", "resume", "grid of problems"),
    "docs/cluster": ("Slurm", "job array"),
    "docs/structured_inputs": ("covariance", "spiked", "anisotropic"),
    "docs/decay_momentum_muon": ("optimiser", "optimizer", "Muon", "momentum", "weight decay"),
    "docs/networks": ("MNIST", "CIFAR", "digits", "images"),
    "docs/plots": ("figure", "plot"),
    "docs/claims": ("conjecture", "own claim"),
    "docs/label_noise": ("label noise",),
}
_SENTENCE = re.compile(r".+?(?<!eq)[.!?](?=\s|$)|.+", re.DOTALL)
_PARAGRAPH = re.compile(r"^(?!(?:[#>|!:-]|\* ))(?:.+\n)+", re.MULTILINE)
_ARXIV = re.compile(r"\b\d{4}\.\d{5}\b")
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
        "cite.md": cite(),
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
    """Title, first picture and a sentence of a page, linked to it."""
    path = ROOT / f"{document}.md"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    prose = re.sub(r"^```.*?^```", "", text.partition("\n")[2], flags=re.DOTALL | re.MULTILINE)
    paragraph = _PARAGRAPH.search(prose)
    sentence = _SENTENCE.match(paragraph[0]) if paragraph else None
    own = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", " ".join(sentence[0].split())).strip("*") if sentence else ""
    words = SENTENCES.get(document, own)
    image = _IMAGE.search(text)
    lines = [f":::{{grid-item-card}} {{doc}}`/{document}`"]
    if image:
        lines += [f":img-top: /{Path(document).parent / image[2]}", f":img-alt: {image[1]}"]
    return "\n".join([*lines, "", words, ":::", ""])


# -------------------------------------------------------------------------------------------------- cite, search


def cite() -> str:
    """How to cite, from CITATION.cff, and the papers that the README names."""
    about = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    people = " and ".join(f"{{{one['name']}}}" for one in about["authors"])
    readme = (ROOT / "README.md").read_text(encoding="utf-8") + (ROOT / "docs/statements.md").read_text(
        encoding="utf-8"
    )
    papers = dict.fromkeys(_ARXIV.findall(readme))
    entry = (
        f"@software{{emergence,\n  title = {{{{{about['title']}}}}},\n  author = {{{people}}},\n"
        f"  version = {{{about['version']}}},\n  license = {{{about['license']}}},\n}}"
    )
    links = [f"* [arXiv:{paper}](https://arxiv.org/abs/{paper})" for paper in papers]
    return "\n".join(
        [
            *("# Cite", "", about["message"], "", "```bibtex", entry, "```", "", "The papers:", "", *links, ""),
            "What of each paper is judged stands in [statements of the sources](docs/statements.md). The same as a file for",
            "reference managers: [CITATION.cff](CITATION.cff).",
            "",
        ]
    )


def findable(text: str, words: Iterable[str]) -> str:
    """A page in Markdown with words that lead the search to it, below its title."""
    title, _, rest = text.partition("\n")
    entries = [f"```{{index}} ! single: {word}\n```" for word in words]
    return "\n".join([title, "", *entries, rest])


def notebook(text: str) -> str:
    """A notebook whose title says what it is, so that no two pages of the site share one."""
    return text.replace('"# ', '"# Notebook: ', 1)


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
