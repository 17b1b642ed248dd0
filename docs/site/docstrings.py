"""Docstrings are Markdown with Google's sections, autodoc reads reStructuredText: what stands between them."""

import re
from importlib import import_module
from pydoc import locate
from typing import Any

from docutils.nodes import Element
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

from _emergence import PACKAGES

#: Public name → the package whose page it has.
PUBLIC = {name: package for package in PACKAGES[:3] for name in import_module(package).__all__}
_OURS = re.compile(rf"(?:{'|'.join(PACKAGES)})(?:\.\w+)+")
_TOKEN = re.compile(
    r"(?P<block>\$\$(?P<formula>.+?)\$\$(?P<stop>[.,:;]?))|\$(?P<math>[^$]+)\$|``(?P<double>.+?)``|`(?P<code>[^`]+)`"
    r"|(?P<bold>\*\*[^*\n]+\*\*)|(?P<bullet>^[ ]*\* )|(?P<special>[*|\\]|(?<=\w)_(?!\w))",
    re.DOTALL | re.MULTILINE,
)
_log = logging.getLogger(__name__)


def process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Rewrite a docstring in place; warns of a dotted name of ours that nothing has."""
    lines[:] = restructured("\n".join(lines), name).split("\n")


def restructured(text: str, where: str = "") -> str:
    """Markdown's formulas, code and plain text as reStructuredText; sections and lists are left as they are."""
    text = re.sub(r"(^[ ]*(?!\* )\S.*\n)(?=[ ]*\* )", r"\1\n", text, flags=re.MULTILINE)  # a list needs an empty line
    return _TOKEN.sub(lambda found: _token(found, where), text)


def _token(found: re.Match[str], where: str) -> str:
    if found["block"]:
        line = found.string[found.string.rfind("\n", 0, found.start()) + 1 : found.start()]
        margin = "\n" + " " * (len(line) - len(line.lstrip()))
        formula = " ".join((found["formula"] + found["stop"]).split())
        return f"\n{margin}.. math::\n{margin}    {formula}\n{margin}"
    if found["math"]:
        return rf"\ :math:`{found['math']}`\ "
    if found["double"] or found["code"]:
        return rf"\ {_code(found['double'] or found['code'], where)}\ "
    return found["bold"] or found["bullet"] or "\\" + found["special"]


def _code(text: str, where: str) -> str:
    """A name as a link to its page, if it has one."""
    if _OURS.fullmatch(text) and locate(text) is None:
        _log.warning("docstring names %s, which does not exist", text, location=where)
    package = PUBLIC.get(text.rpartition(".")[2])
    return f":py:obj:`~{package}.{text.rpartition('.')[2]}`" if package else f"``{text}``"


def resolve(app: Sphinx, env: BuildEnvironment, node: Element, shown: Element) -> Element | None:
    """A type under the name of the module that defines it, as a link to its public name."""
    name = str(node.get("reftarget", "")).rpartition(".")[2]
    if node.get("refdomain") != "py" or name not in PUBLIC:
        return None
    target = f"{PUBLIC[name]}.{name}"
    return env.domains.python_domain.resolve_xref(
        env, str(node["refdoc"]), app.builder, "obj", target, node, shown
    )
