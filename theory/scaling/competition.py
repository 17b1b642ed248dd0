"""A width-m student's neurons compete for P directions: the law of their scores (arXiv:2504.19983, eq. (5))."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from theory.core.errors import InputError
from theory.scaling.extreme_overlaps import GAUSSIAN, OverlapLaw

#: Expected number of pairs above the threshold at which an integration starts.
START = 1e-7
#: It ends, at the latest, when every threshold on the reach is below this.
_LEAST_REACH = 1e-6
#: No reach is beyond this; its square is a double.
FARTHEST = 1e100


@dataclass(frozen=True)
class Competition:
    """m neurons compete for P directions.

    Attributes:
        weights: (P,) $a_q$, positive. width: m. power: $n=J-2$, the power of the reach in the score.
        law: of one reach.

    Raises `InputError` for weights that are not positive, a width below 1 or a power that is not positive.
    """

    weights: tuple[float, ...]
    width: int
    power: float = 2.0
    law: OverlapLaw = GAUSSIAN

    def __post_init__(self) -> None:
        if len(self.weights) == 0 or not all(np.isfinite(a) and a > 0 for a in self.weights):
            raise InputError("weights: greedy selection needs one or more positive finite weights: drop the others")
        if not self.width >= 1:
            raise InputError(f"width is {self.width!r}: give a whole number, 1 or more")
        if not self.power > 0:
            raise InputError(f"power is {self.power!r}: scores grow with the overlap, give a positive number")

    @classmethod
    def of(cls, weights: ArrayLike, width: int, information_exponent: int, dim: float = np.inf) -> "Competition":
        """The competition of an activation with this information exponent. Raises `InputError` for exponents below 3, at which
        emergence times are no powers of the overlap (`TimedCompetition` has them at 2).
        """
        if information_exponent < 3:
            raise InputError(
                f"information exponent is {information_exponent}: selection by powers of the overlap needs 3 or more; "
                "at 2 take a TimedCompetition"
            )
        law = OverlapLaw(dim, signed=information_exponent % 2 == 1)
        return cls(tuple(np.ravel(weights).tolist()), int(width), float(information_exponent - 2), law)

    @property
    def a(self) -> np.ndarray:
        """Weights, shape (P,)."""
        return np.asarray(self.weights)

    def threshold(self, score: ArrayLike) -> np.ndarray:
        r"""The reach $(s/a_q)^{1/n}$ that a score asks of each direction, shape (..., P)."""
        with np.errstate(over="ignore"):
            return np.minimum((np.asarray(score, dtype=float)[..., None] / self.a) ** (1 / self.power), FARTHEST)

    def growth(self, score: ArrayLike) -> np.ndarray:
        r"""$d\ln F_q/d\ln s$, shape (..., P)."""
        return self.law.growth(self.threshold(score)) / self.power

    def log_cdf(self, score: ArrayLike) -> np.ndarray:
        r"""$\ln F_q(s)$, shape (..., P)."""
        return self.law.log_cdf(self.threshold(score))

    @property
    def interval(self) -> tuple[float, float]:
        """From −ln s where hardly any pair is above s, to where every threshold on the reach is negligible."""
        highest = self.law.from_tail(START / (self.width * len(self.weights)))
        return -float(np.log(self.a.max() * highest**self.power)), -float(
            np.log(self.a.min() * _LEAST_REACH**self.power)
        )
