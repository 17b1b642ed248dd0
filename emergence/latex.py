"""A derivation as a LaTeX document that every engine compiles: plain ASCII, two standard packages."""

from collections.abc import Mapping
from typing import Any

#: Characters of titles and references, in text mode. A combining hat follows its letter.
_MATH = {
    "½": r"\tfrac12", "²": "^2", "₀": "_0", "₁": "_1", "₂": "_2", "₃": "_3", "₄": "_4", "′": "'",
    "·": r"\cdot", "−": "-", "→": r"\to", "≥": r"\ge", "≤": r"\le",
    "√": r"\surd", "≪": r"\ll", "≫": r"\gg", "≈": r"\approx", "∝": r"\propto", "∈": r"\in", "∞": r"\infty", "∑": r"\sum",
    "α": r"\alpha", "β": r"\beta", "γ": r"\gamma", "δ": r"\delta", "ε": r"\epsilon", "η": r"\eta", "κ": r"\kappa",
    "θ": r"\theta", "ρ": r"\rho", "ϱ": r"\varrho", "ℓ": r"\ell", "Λ": r"\Lambda", "Φ": r"\Phi", "∫": r"\int",
    "λ": r"\lambda", "μ": r"\mu", "ν": r"\nu", "π": r"\pi", "σ": r"\sigma", "τ": r"\tau", "φ": r"\varphi",
    "Δ": r"\Delta", "Σ": r"\Sigma", "σ̂": r"\hat\sigma", "∂": r"\partial", "∇": r"\nabla", "‖": r"\|", "×": r"\times",
    "ᵀ": r"^\top", "Θ": r"\Theta", "Π": r"\Pi", "≽": r"\succeq", "Ã": r"\tilde A",
}  # fmt: skip
_TEXT = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "–": "--", "—": "---", "…": r"\dots{}", "’": "'",
    "*": r"{*}", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip
_COMBINING_HAT = "\u0302"


def document(derivation: Mapping[str, Any], verified: str) -> str:
    """The document of ``derive --json`` as a complete LaTeX file; `verified` becomes a comment at its top."""
    head = [
        f"% {escape(verified)}",
        r"\documentclass{article}",
        r"\usepackage{amsmath,amssymb}",
        rf"\title{{{escape(derivation['name'])} for activation {escape(derivation['activation'])}}}",
        r"\date{}",
        r"\begin{document}",
        r"\maketitle",
    ]
    steps = [_display(f"{n}. {s['title']}", s["latex"]) for n, s in enumerate(derivation["steps"], start=1)]
    results = [_display("", f"{name} = {value}") for name, value in derivation["equations"].items()]
    assumptions = "; ".join(escape(text) for text in derivation["assumptions"])
    tail = [
        r"\section*{Assumptions}",
        assumptions,
        r"\section*{Reference}",
        escape(derivation["reference"]),
        r"\end{document}",
    ]
    return "\n".join([*head, r"\section*{Steps}", *steps, r"\section*{Result}", *results, *tail])


def _display(title: str, equation: str) -> str:
    paragraph = rf"\paragraph{{{escape(title)}}}" + "\n" if title else ""
    return f"{paragraph}\\[ {equation} \\]"


def escape(text: str) -> str:
    """Plain text with Unicode mathematics as LaTeX text. Characters without a LaTeX name become a question mark."""
    pieces, rest = [], text
    while rest:
        size = 2 if rest[1:2] == _COMBINING_HAT else 1
        head, rest = rest[:size], rest[size:]
        if head in _MATH:
            pieces.append(rf"\({_MATH[head]}\)")
        else:
            pieces.append(_TEXT.get(head, head if head.isascii() else "?"))
    return "".join(pieces)
