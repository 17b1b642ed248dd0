"""LaTeX as MathML, so that a page shows formulas without any script or font from elsewhere."""

import re
from xml.etree import ElementTree

from latex2mathml.converter import convert
from markupsafe import Markup, escape

from theory.core.typeset import typeset

#: Browsers draw MathML Core, where only ``mathvariant="normal"`` exists: other alphabets need their own characters.
_ALPHABETS = {"double-struck": (0x1D538, 0x1D552, 0x1D7D8), "bold": (0x1D400, 0x1D41A, 0x1D7CE)}
#: Double-struck capitals that Unicode keeps among the letter-like symbols.
_LETTERLIKE = dict(zip("CHNPQRZ", "ℂℍℕℙℚℝℤ", strict=True))
_STYLED = re.compile(r'<m([in]) mathvariant="(double-struck|bold)">([A-Za-z0-9])</m[in]>')
#: What a formula may consist of; the converter passes on HTML inside \text, and links.
_ELEMENTS = frozenset(
    re.findall(
        r"\w+",
        "math menclose mfrac mi mmultiscripts mn mo mover mpadded mphantom mroot mrow mspace msqrt mstyle msub msubsup msup "
        "mtable mtd mtext mtr munder munderover",
    )
)
_ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})\b")
_REFUSED_ATTRIBUTES = frozenset({"href", "style", "class", "id"})


def mathml(latex: str, *, block: bool = True) -> Markup:
    r"""MathML of a formula; its source as code where the converter does not understand it.

    Args:
        latex: the formula without dollar signs.
        block: set on its own line, else in the text.

    Example:
        >>> "<mfrac>" in mathml(r"\frac{a}{b}")
        True
        >>> print(mathml(r"\nosuchcommand"))
        <code class="tex">\nosuchcommand</code>
    """
    # The converter knows `align*`, which differs from `aligned` only in where it may stand.
    source = re.sub(r"\\(begin|end)\{(?:aligned|split)\}", r"\\\1{align*}", latex)
    source = re.sub(r"\\arg\b", r"\\operatorname{arg}", source)  # which it does not know
    try:
        markup = convert(source, display="block" if block else "inline")
        # Braces and double bars after \big come out with their backslash.
        markup = re.sub(r">\\([{}])<", r">\1<", markup).replace(r">\|<", ">‖<")
        markup = _STYLED.sub(_letter, markup)
        understood = _is_formula(markup)
    except Exception:  # the converter raises IndexError and its own errors; the parser ParseError
        understood = False
    return Markup(markup) if understood else Markup('<code class="tex">{}</code>').format(latex)


def prose(text: str) -> Markup:
    """Escaped text with its ``$…$`` parts and its plain powers as formulas, and what is between double backquotes as code."""
    parts = re.split(r"\$([^$]+)\$|``([^`]+)``", typeset(text))
    out = Markup()
    for plain, latex, code in zip(parts[0::3], [*parts[1::3], None], [*parts[2::3], None], strict=True):
        out += escape(plain)
        if latex:
            out += mathml(latex, block=False)
        if code:
            out += Markup("<code>{}</code>").format(code)
    return out


def sourced(text: str) -> Markup:
    """`prose` of a source, its arXiv numbers linked to the papers."""
    return Markup(_ARXIV.sub(r'<a href="https://arxiv.org/abs/\1">arXiv:\1</a>', str(prose(text))))


def papers(source: str) -> tuple[str, ...]:
    """The papers that a source names, by arXiv number; without one its first words.

    Example:
        >>> papers("slides of arXiv:2504.19983; arXiv:2403.08938"), papers("derived; Polyak 1964")
        (('arXiv:2504.19983', 'arXiv:2403.08938'), ('derived',))
    """
    found = tuple(dict.fromkeys(f"arXiv:{number}" for number in _ARXIV.findall(source)))
    return found or (re.split(r"[,;]", source, maxsplit=1)[0].strip(),)


def _is_formula(markup: str) -> bool:
    """Well-formed, nothing but formula in it, and no command left unread (a backslash, or an alignment mark)."""
    root = ElementTree.fromstring(markup)
    known = all(node.tag.rpartition("}")[2] in _ELEMENTS for node in root.iter())
    bare = not any(_REFUSED_ATTRIBUTES & node.attrib.keys() for node in root.iter())
    return known and bare and "\\" not in "".join(root.itertext())


def _letter(match: re.Match[str]) -> str:
    tag, alphabet, letter = match.groups()
    upper, lower, digit = _ALPHABETS[alphabet]
    if alphabet == "double-struck" and letter in _LETTERLIKE:
        styled = _LETTERLIKE[letter]
    elif letter.isdigit():
        styled = chr(digit + int(letter))
    else:
        styled = chr(upper + ord(letter) - ord("A") if letter.isupper() else lower + ord(letter) - ord("a"))
    return f'<m{tag} mathvariant="normal">{styled}</m{tag}>'
