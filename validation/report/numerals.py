"""Numbers as people read them: as many digits as the error bar deserves."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
#: Powers of ten between which a number is written out in full.
_SMALLEST, _LARGEST = -4, 6
#: More digits than these say nothing in double precision.
_MOST_DIGITS = 15
_LONGEST_LIST = 12
#: A standard error below this share of the allowance decides no digits: rounding, not statistics.
_NEGLIGIBLE = 1e-3


def plain(value: float | None, digits: int = 4) -> str:
    """A number to `digits` significant digits.

    Example:
        >>> plain(0.000012345), plain(12.0), plain(float("inf")), plain(None)
        ('1.234×10⁻⁵', '12', '∞', '–')
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    power = int(exponent)
    if _SMALLEST <= power < _LARGEST:
        return _trim(f"{value:.{max(digits - 1 - power, 0)}f}")
    return _trim(mantissa) + _times_ten(power)


def with_error(value: float, stderr: float, resolution: float = 0.0) -> str:
    """Value ± standard error, both to the digits of the error (two if it begins with 1, else one).

    Args:
        value: the estimate.
        stderr: its standard error; 0 for a deterministic quantity, which is then written to `resolution`.
        resolution: the smallest difference that matters (an allowance).

    Example:
        >>> with_error(1.00487, 0.00031), with_error(123456789.0, 4.2e5), with_error(0.21505, 4e-15, 2.5e-9)
        ('1.0049 ± 0.0003', '(1.235 ± 0.004)×10⁸', '0.21505 ± 4×10⁻¹⁵')
    """
    if not math.isfinite(value) or not math.isfinite(stderr) or stderr <= 0:
        return to_resolution(value, resolution)
    if stderr < resolution * _NEGLIGIBLE:
        return f"{to_resolution(value, resolution)} ± {plain(stderr, 1)}"
    step = _last_digit(stderr)
    power = _power_shown(value if abs(value) > stderr else stderr)
    places = min(max(power - step, 0), _MOST_DIGITS)
    body = f"{_fixed(value / 10**power, places)} ± {_fixed(stderr / 10**power, places)}"
    return body if power == 0 else f"({body}){_times_ten(power)}"


def to_resolution(value: float | None, resolution: float) -> str:
    """A number to one digit beyond `resolution`, so that a difference of that size shows.

    Example:
        >>> to_resolution(1.0048612345, 0.0003), to_resolution(0.5, 0.0)
        ('1.00486', '0.5')
    """
    if value is None or not math.isfinite(value) or value == 0 or not 0 < resolution < math.inf:
        return plain(value, 6)
    wanted = math.floor(math.log10(abs(value))) - math.floor(math.log10(resolution)) + 2
    return plain(value, min(max(wanted, 3), 10))


def score(z: float | None) -> str:
    """A z-score: one decimal."""
    if z is None or math.isnan(z):
        return "–"
    # The conversion keeps −0.04 from appearing as −0.0.
    return (f"{z:.1f}" if abs(z) >= 0.05 else "0.0").replace("-", "−") if abs(z) < 1000 else plain(z, 2)


def share(used: float) -> str:
    """A share of the tolerance: two decimals, ≫ where nothing is tolerated and it misses."""
    if math.isnan(used):
        return "–"
    if math.isinf(used):
        return "≫"
    if used > 10:
        return plain(used, 2)
    return f"{math.ceil(100 * used) / 100 if used > 1 else used:.2f}"  # 1.003 must not read as 1.00, which agrees


def percent(part: float) -> str:
    """A share as per cent to two digits; where it is tiny, as a number.

    Example:
        >>> percent(0.0123), percent(4e-9), percent(math.inf), percent(0.0)
        ('1.2 %', '4×10⁻⁹', '–', '0')
    """
    if not math.isfinite(part):
        return "–"
    return f"{plain(100 * part, 2)} %" if abs(part) >= 1e-5 else plain(part, 2)


def duration(seconds: float) -> str:
    """Seconds in words: ``0.3 s``, ``12 s``, ``3 min 5 s``, ``2 h 4 min``; a dash where nobody knows them."""
    if not math.isfinite(seconds):
        return "–"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def free(value: object) -> str:
    """Anything a claim keeps among its details: numbers shortened, long lists cut with their length told."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if value is None or isinstance(value, float):
        return plain(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {free(item)}" for key, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        shown = ", ".join(free(item) for item in value[:_LONGEST_LIST])
        return shown if len(value) <= _LONGEST_LIST else f"{shown}, … ({len(value)} in all)"
    return str(value)


def _trim(text: str) -> str:
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", "−")


def _fixed(value: float, places: int) -> str:
    return f"{value:.{places}f}".replace("-", "−")


def _times_ten(power: int) -> str:
    return "×10" + str(power).translate(_SUPERSCRIPT)


def _last_digit(stderr: float) -> int:
    """Power of ten of the last digit worth writing."""
    leading, exponent = f"{stderr:.1e}".split("e")
    return int(exponent) - (leading[0] == "1")


def _power_shown(value: float) -> int:
    power = math.floor(math.log10(abs(value)))
    return 0 if _SMALLEST < power < _LARGEST else power
