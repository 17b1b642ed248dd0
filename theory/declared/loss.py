r"""Losses of one sample, $\ell(f,y)$. One's own is an object with `slope`, and with `trained`, like these."""

from dataclasses import dataclass
from typing import Any, Protocol


class Loss(Protocol):
    r"""`slope(f, y)`: $\partial\ell/\partial f$, elementwise on arrays."""

    def slope(self, output: Any, label: Any) -> Any: ...


@dataclass(frozen=True)
class Square:
    r"""$\tfrac12(f-y)^2$."""

    def slope(self, output: Any, label: Any) -> Any:
        return output - label


@dataclass(frozen=True)
class Correlation:
    r"""$-yf$: each row moves alone."""

    def slope(self, output: Any, label: Any) -> Any:
        return -label + 0 * output


#: By the names of the command line.
LOSSES = {"square": Square(), "correlation": Correlation()}
