"""Numbers and powers in plain words, as texts of claims and names of curves have them, set as formulas."""

import re

#: What is a formula already, or code: left alone.
_SET = re.compile(r"(\$[^$]*\$|``[^`]*``)")
#: 1e+04, 2.5e-7, 1e9; not a part of a word.
_FLOAT = r"(?<![\w.])(?P<mantissa>\d+(?:\.\d+)?)e(?P<sign>[+-]?)0*(?P<ten>\d+)(?!\w|\.\d)"
#: A letter, with its index or star, a number, or what comes before in brackets.
_BASE = r"(?<![A-Za-z_^.])(?P<base>[A-Za-zα-ωΑ-Ω](?:_\w|_\{[^{}]+\})?\*?|(?<!\w)\d+|(?<=[\])|\u0304]))"
_EXPONENT = (
    r"\{(?P<braced>[^{}]+)\}|\((?P<round>(?:[^()]|\([^()]*\))+)\)|(?P<bare>[-−+]?(?:\d+(?:\.\d+)?|½|[A-Za-zα-ω]\b))"
)
_SUPERSCRIPTS = "²³⁴⁵⁶"
#: t_p, G_jj, g_p²: a letter with its index, and perhaps a power.
_INDEXED = (
    r"(?<![A-Za-z_^.\\])(?P<letter>[A-Za-zα-ωΑ-Ω])_(?P<index>[A-Za-z0-9]{1,2})"
    rf"(?P<power>[{_SUPERSCRIPTS}]?)(?![A-Za-z0-9_{{^])"
)
_FROBENIUS = r"‖(?P<frobenius>\w+)‖²_F"
#: -0.3, with a hyphen for the sign.
_NEGATIVE = r"(?<![^\s(\[=])-(?P<negative>\d)"
#: All: d^1.5, p^−0.8, d^(−3/2), T^{J/2−1}, M*^β, 10^4.
_FOUND = re.compile(rf"{_FLOAT}|{_BASE}\^(?:{_EXPONENT})(?![\w^])|{_INDEXED}|{_FROBENIUS}|{_NEGATIVE}")


def typeset(text: str) -> str:
    """Words with their powers and floating-point numbers between dollar signs.

    Example:
        >>> typeset("slope at d = 1e+04, η d^(3/2) = 2.5e-7")
        'slope at d = $10^{4}$, η $d^{3/2}$ = $2.5×10^{-7}$'
        >>> typeset("samples ``1e+04`` over $d^2$")
        'samples ``1e+04`` over $d^2$'
    """
    parts = _SET.split(text)
    parts[0::2] = [_FOUND.sub(_formula, part) for part in parts[0::2]]
    return "".join(parts)


def _formula(match: re.Match[str]) -> str:
    if (mantissa := match["mantissa"]) is not None:
        front = "" if float(mantissa) == 1 else f"{mantissa}×"
        return f"${front}10^{{{'-' if match['sign'] == '-' else ''}{match['ten']}}}$"
    if match["negative"] is not None:
        return f"−{match['negative']}"
    if match["frobenius"] is not None:
        return rf"$\|{match['frobenius']}\|_F^2$"
    if match["letter"] is not None:
        power = f"^{_SUPERSCRIPTS.index(match['power']) + 2}" if match["power"] else ""
        index = match["index"] if len(match["index"]) == 1 else f"{{{match['index']}}}"
        return f"${match['letter']}_{index}{power}$"
    exponent = match["braced"] or match["round"] or match["bare"]
    exponent = exponent.replace("−", "-").replace("max", r"\max")
    return f"${match['base'] or '{}'}^{{{exponent}}}$"
