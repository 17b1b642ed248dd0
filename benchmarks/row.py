"""One measured figure with its target."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Row:
    """A figure of one benchmark.

    Attributes:
        benchmark: name of the benchmark.
        quantity: what was measured, in words.
        value: the measured number, in `unit`.
        target: the largest value that passes; None for a figure that is only reported.
    """

    benchmark: str
    quantity: str
    value: float
    unit: str
    target: float | None = None

    @property
    def verdict(self) -> str:
        """``PASS``, ``over`` (also for a value that is not a number), or nothing without a target."""
        if self.target is None:
            return ""
        return "PASS" if self.value <= self.target else "over"

    def document(self) -> dict[str, object]:
        """The row as plain data for JSON."""
        return {**asdict(self), "verdict": self.verdict}
