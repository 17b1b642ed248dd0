"""Docstrings are Markdown with Google's sections, autodoc reads reStructuredText: what stands between them."""

import re
from importlib import import_module
from pydoc import locate
from typing import TYPE_CHECKING, Any

from _emergence import PACKAGES

if TYPE_CHECKING:
    from docutils.nodes import Element
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

#: Public name → the package whose page it has.
PUBLIC = {name: package for package in PACKAGES[:3] for name in import_module(package).__all__}
_OURS = re.compile(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)`")
_SECTION = re.compile(r"^([ ]*)(?:Args|Attributes):\n((?:\1[ ]+\S.*\n|[ ]*\n)+)", re.MULTILINE)
#: A second name on the line of another: ``step_size: η. steps: SGD steps.``
_ENTRY = re.compile(r"(?<=[.;]) (?=(?:[a-z]\w*)(?:, [a-z]\w*)*: )")
_TOKEN = re.compile(
    r"(?P<block>\$\$(?P<formula>.+?)\$\$(?P<stop>[.,:;]?))|\$(?P<math>[^$]+)\$|``(?P<double>.+?)``|`(?P<code>[^`]+)`"
    r"|(?P<bold>\*\*[^*\n]+\*\*)|(?P<bullet>^[ ]*\* )|(?P<special>[*|\\]|(?<=\w)_(?!\w))",
    re.DOTALL | re.MULTILINE,
)


def process(app: "Sphinx", what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Rewrite a docstring in place; warns of a dotted name of ours that nothing has."""
    from sphinx.util import logging

    text = "\n".join(lines)
    for unknown in missing(text):
        logging.getLogger(__name__).warning("docstring of %s names %s, which does not exist", name, unknown)
    lines[:] = restructured(text).split("\n")


def missing(text: str) -> list[str]:
    """Dotted names of our packages that lead to nothing."""
    return [name for name in _OURS.findall(text) if locate(name) is None]


def restructured(text: str) -> str:
    """Markdown's formulas, code and plain text as reStructuredText; sections and lists are left as they are."""
    text = re.sub(r"(^[ ]*(?!\* )\S.*\n)(?=[ ]*\* )", r"\1\n", text, flags=re.MULTILINE)  # a list needs an empty line
    return _TOKEN.sub(_token, _SECTION.sub(_entries, text + "\n"))


def _entries(section: re.Match[str]) -> str:
    """A section with one name a line."""
    margin = " " * (len(section[2]) - len(section[2].lstrip()))
    return f"{section[1]}{section[0].strip().partition(chr(10))[0]}\n{_ENTRY.sub(chr(10) + margin, section[2])}"


def _token(found: re.Match[str]) -> str:
    if found["block"]:
        line = found.string[found.string.rfind("\n", 0, found.start()) + 1 : found.start()]
        margin = "\n" + " " * (len(line) - len(line.lstrip()))
        formula = " ".join((found["formula"] + found["stop"]).split())
        return f"\n{margin}.. math::\n{margin}    {formula}\n{margin}"
    if found["math"]:
        return rf"\ :math:`{found['math']}`\ "
    if found["double"] or found["code"]:
        return rf"\ {_code(found['double'] or found['code'])}\ "
    return found["bold"] or found["bullet"] or "\\" + found["special"]


def _code(text: str) -> str:
    """A name as a link to its page, if it has one."""
    name = text.rpartition(".")[2]
    return f":py:obj:`~{PUBLIC[name]}.{name}`" if name in PUBLIC else f"``{text}``"


def resolve(app: "Sphinx", env: "BuildEnvironment", node: "Element", shown: "Element") -> "Element | None":
    """A type under the name of the module that defines it, as a link to its public name."""
    name = str(node.get("reftarget", "")).rpartition(".")[2]
    if node.get("refdomain") != "py" or name not in PUBLIC:
        return None
    target = f"{PUBLIC[name]}.{name}"
    return env.domains.python_domain.resolve_xref(env, str(node["refdoc"]), app.builder, "obj", target, node, shown)
