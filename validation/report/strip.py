"""One quantity as a small picture: estimate with its error bar, prediction, allowance band, controls."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from validation.judge.claim import JudgedControl, Verdict
from validation.report.numerals import plain, to_resolution, with_error

_WIDTH, _HEIGHT, _MARGIN = 240, 34, 14
_MIDDLE = _HEIGHT / 2
#: A control within this many half-widths of what has to be shown widens the axis; one beyond becomes an arrow.
_REACH = 4.0


@dataclass(frozen=True)
class Axis:
    """Maps values around `centre` to pixels; `half` is the value at the edge."""

    centre: float
    half: float

    def x(self, value: float) -> float:
        """Pixel of a value, held within the margins."""
        share = (value - self.centre) / self.half
        return _WIDTH / 2 + min(max(share, -1.0), 1.0) * (_WIDTH / 2 - _MARGIN)

    def holds(self, value: float) -> bool:
        """Whether the value lies on the axis."""
        return abs(value - self.centre) <= self.half


def position(control: JudgedControl) -> float:
    """Where a control's mark goes: what the wrong theory gives (its own estimate if it has data of its own)."""
    return control.predicted if control.estimate is None else control.estimate


def axis(predicted: float, estimate: float, reach: float, controls: Sequence[float]) -> Axis:
    """The row's scale: prediction in the middle, everything the rule looks at, and the controls that are near.

    Args:
        predicted: centre.
        estimate: measured value.
        reach: allowance + 4·stderr.
        controls: positions of the controls.
    """
    needed = max(abs(estimate - predicted) + reach, 1e-12 * abs(predicted), 1e-300)
    near = [abs(c - predicted) for c in controls if abs(c - predicted) <= _REACH * needed]
    return Axis(predicted, 1.1 * max([needed, *near]))


def strip(verdict: Verdict) -> Markup:
    """Inline SVG of a verdict. The rule in pictures: it agrees when the error bar (4 stderr) reaches the band."""
    m = verdict.measurement
    if not (math.isfinite(m.estimate) and math.isfinite(m.predicted)):
        return Markup('<span class="none">no finite value</span>')
    marks = [(control, position(control)) for control in verdict.controls]
    near = [x for _, x in marks if math.isfinite(x)]
    scale = axis(m.predicted, m.estimate, m.allowance + m.sigmas * m.stderr, near)
    body = [
        _band(scale, m.predicted, m.allowance),
        _line(scale.x(m.predicted), 4, _HEIGHT - 4, "predicted"),
        _estimate(scale, m.estimate, m.sigmas * m.stderr),
        # Last, so that a control on top of the estimate shows as a ring around it.
        *[_control(scale, control, value) for control, value in marks if not math.isnan(value)],
    ]
    return Markup(
        '<svg class="strip {}" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}">'
        '<line class="axis" x1="2" x2="{}" y1="{}" y2="{}"/>{}</svg>'
    ).format(
        "ok" if verdict.as_expected else "bad",
        *(_WIDTH, _HEIGHT, _WIDTH, _HEIGHT, _in_words(verdict), _WIDTH - 2, _MIDDLE, _MIDDLE),
        Markup().join(body),
    )


def _in_words(verdict: Verdict) -> str:
    m = verdict.measurement
    error = max(m.stderr, m.allowance)
    rejected = sum(control.rejected for control in verdict.controls)
    return (
        f"{verdict.id}: estimate {with_error(m.estimate, m.stderr, error)}, "
        f"predicted {to_resolution(m.predicted, error)}, allowance {plain(m.allowance, 2)}, "
        f"{rejected} of {len(verdict.controls)} controls rejected"
    )


def _band(scale: Axis, predicted: float, allowance: float) -> Markup:
    left, right = scale.x(predicted - allowance), scale.x(predicted + allowance)
    return Markup('<rect class="band" x="{:.1f}" y="7" width="{:.1f}" height="20"/>').format(left, max(right - left, 1))


def _line(x: float, top: float, bottom: float, name: str) -> Markup:
    return Markup('<line class="{}" x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}"/>').format(name, x, x, top, bottom)


def _estimate(scale: Axis, estimate: float, bar: float) -> Markup:
    left, right, x = scale.x(estimate - bar), scale.x(estimate + bar), scale.x(estimate)
    caps = _line(left, 12, 22, "bar") + _line(right, 12, 22, "bar") if right - left > 1 else Markup()
    whisker = Markup('<line class="bar" x1="{:.1f}" x2="{:.1f}" y1="17" y2="17"/>').format(left, right)
    return whisker + caps + Markup('<circle class="estimate" cx="{:.1f}" cy="17" r="3.5"/>').format(x)


def _control(scale: Axis, control: JudgedControl, value: float) -> Markup:
    """A hollow diamond, or an arrow at the edge for a control beyond it; filled where it was not rejected."""
    shape: tuple[tuple[int, int], ...]
    if scale.holds(value):
        x, shape = scale.x(value), ((0, -7), (7, 0), (0, 7), (-7, 0))
    else:
        side = 1 if value > scale.centre else -1
        x, shape = _WIDTH / 2 + side * (_WIDTH / 2 - 9), ((0, -5), (7 * side, 0), (0, 5))
    points = " ".join(f"{x + dx:.1f},{_MIDDLE + dy:.1f}" for dx, dy in shape)
    kind = "control" if control.rejected else "control survived"
    told = f"{control.name}: {plain(value)}, {'rejected' if control.rejected else 'not rejected'}"
    return Markup('<polygon class="{}" points="{}"><title>{}</title></polygon>').format(kind, points, told)
