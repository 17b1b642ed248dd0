r"""Losses of one sample, $\ell(f,y)$; gradients follow by differentiation. One's own is an object with `value`, like these.

The square loss is that of arXiv:2504.19983, section 2; for the correlation loss see `theory.baselines.correlation`.
"""

from dataclasses import dataclass
from typing import Any, Protocol


class Loss(Protocol):
    r"""`value(f, y)`: $\ell$, of numbers or arrays."""

    def value(self, output: Any, label: Any) -> Any: ...


@dataclass(frozen=True)
class Square:
    r"""$\tfrac12(f-y)^2$."""

    def value(self, output: Any, label: Any) -> Any:
        return 0.5 * (output - label) ** 2


@dataclass(frozen=True)
class Correlation:
    r"""$-yf$: each row moves alone."""

    def value(self, output: Any, label: Any) -> Any:
        return -label * output


#: By the names of the command line.
LOSSES: dict[str, Loss] = {"square": Square(), "correlation": Correlation()}
