"""Figures as a page holds them: the bytes of an SVG, or of a PNG where the SVG would be large."""

import base64
import io
import re
import struct
from dataclasses import dataclass
from typing import Any

import matplotlib
from markupsafe import Markup
from matplotlib.figure import Figure

from theory import InputError

#: A larger SVG (many points) is embedded as PNG instead.
_LARGEST_SVG = 200_000
_PNG_DPI = 150
_PNG = b"\x89PNG\r\n\x1a\n"
#: Pixels of a screen in a point.
_PER_POINT = 96 / 72
_SVG_SIZE = (
    re.compile(rb'<svg[^>]*?\swidth="([\d.]+)(?:pt)?"[^>]*?>', re.S),
    re.compile(rb'<svg[^>]*?\sheight="([\d.]+)(?:pt)?"[^>]*?>', re.S),
)


@dataclass(frozen=True)
class Picture:
    """A picture that was drawn: its address for a page (a data URI), and its size in pixels."""

    uri: Markup
    width: int
    height: int


def picture(figure: object) -> Picture:
    """A matplotlib figure, or the bytes of a picture that `rendered` made, for a page. Raises `InputError` for others."""
    data = rendered(figure) if isinstance(figure, Figure) else figure
    if not isinstance(data, bytes) or not (data.startswith(_PNG) or b"<svg" in data[:2000]):
        raise InputError(f"figures: {figure!r:.80} is not a matplotlib Figure: return one with its caption")
    if data.startswith(_PNG):
        kind, size = "png", tuple(side * 96 / _PNG_DPI for side in struct.unpack(">II", data[16:24]))
    else:
        kind, size = "svg+xml", tuple(_PER_POINT * _number(one.search(data)) for one in _SVG_SIZE)
    uri = Markup("data:image/{};base64,{}").format(kind, base64.b64encode(data).decode("ascii"))
    return Picture(uri, round(size[0]), round(size[1]))


def rendered(figure: Figure) -> bytes:
    """The bytes of an SVG, or of a PNG where the SVG would be large; the same for the same figure."""
    # Fixed ids and no date: the same run gives the same page.
    with matplotlib.rc_context({"svg.hashsalt": "emergence"}):
        data = _saved(figure, format="svg", metadata={"Date": None})
    return data if len(data) <= _LARGEST_SVG else _saved(figure, format="png", dpi=_PNG_DPI)


def _saved(figure: Figure, **options: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, **options)
    return buffer.getvalue()


def _number(match: re.Match[bytes] | None) -> float:
    return float(match[1]) if match else 0.0
