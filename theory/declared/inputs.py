r"""Gaussian inputs $x\sim N(0,\Lambda)$ by the blocks of equal eigenvalue of $\Lambda$.

All that a rule that turns with the axes can see of $\Lambda$ are its distinct eigenvalues $\lambda_i$ and their
multiplicities $d_i$, $\sum_id_i=d$ (derivation: rotations within an eigenspace leave the law of x as it is). Few eigenvalues
apart from an identity are the spiked covariance of Johnstone 2001.
"""

from dataclasses import dataclass

import numpy as np

from theory.core.arguments import check_positive, check_whole, is_whole
from theory.core.errors import InputError

#: Share of a number up to which two that are given are one, written with so many digits.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Inputs:
    r"""$x\sim N(0,\Lambda)$ with $L$ eigenvalues, the largest first.

    Attributes:
        eigenvalues: $\lambda_i>0$, (L,). multiplicities: $d_i$, (L,).
        spread: of a binned spectrum, the standard deviation of $\lambda$ within each bin over its mean, (L,): the error of
            binning is of second order in it. Empty unless binned.

    Raises `InputError` unless there is a multiplicity, a whole number from 1, for each eigenvalue, positive and finite.
    """

    eigenvalues: tuple[float, ...]
    multiplicities: tuple[int, ...]
    spread: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.eigenvalues or len(self.eigenvalues) != len(self.multiplicities):
            raise InputError(
                f"inputs have {len(self.eigenvalues)} eigenvalues and {len(self.multiplicities)} multiplicities: "
                "give one of each for every block"
            )
        for value in self.eigenvalues:
            if not (np.isfinite(value) and value > 0):
                raise InputError(
                    f"eigenvalue is {value!r}: a covariance has positive finite ones; leave directions without variance out"
                )
        for count in self.multiplicities:
            check_whole(multiplicity=count)

    @classmethod
    def isotropic(cls, dim: int, variance: float = 1.0) -> "Inputs":
        r"""$N(0,\text{variance}\,I_d)$. Raises `InputError` unless `dim` is whole and `variance` positive and finite."""
        check_whole(dim=dim)
        return cls((float(variance),), (int(dim),))

    @classmethod
    def blocks(cls, *pairs: tuple[float, int]) -> "Inputs":
        """From pairs (eigenvalue, multiplicity), in any order; equal eigenvalues are one block.

        Raises `InputError` for a multiplicity that is no whole number from 1, or an eigenvalue that is not positive.
        """
        found: dict[float, int] = {}
        for value, count in pairs:
            check_whole(multiplicity=count)
            found[float(value)] = found.get(float(value), 0) + int(count)
        ordered = sorted(found.items(), reverse=True)
        return cls(tuple(value for value, _ in ordered), tuple(count for _, count in ordered))

    @classmethod
    def spiked(cls, dim: int, *spikes: float) -> "Inputs":
        r"""Identity but for some eigenvalues: $\Lambda=I+\sum_s(\lambda_s-1)u_su_s^\top$.

        Raises `InputError` for no spike, for d or more (`blocks` takes those), or one that is not positive.
        """
        check_whole(dim=dim)
        if not spikes:
            raise InputError(f"spiked({dim}) has no spike: write spiked({dim}, 8), or isotropic({dim})")
        if len(spikes) >= dim:
            raise InputError(f"dim is {dim}, with {len(spikes)} spikes: give fewer spikes, or raise dim")
        return cls.blocks(*((value, 1) for value in spikes), (1.0, dim - len(spikes)))

    @classmethod
    def power_law(cls, dim: int, exponent: float, bins: int = 8) -> "Inputs":
        r"""$\lambda_j=j^{-\alpha}$, $j=1\dots d$, in `bins` bins per factor e of λ; a bin's eigenvalue is its mean.

        What a bin loses is of second order in its width: `spread` says how wide they are, and runs at `bins` and 2·`bins`
        what that does. Raises `InputError` unless `exponent` is positive, `dim` and `bins` whole numbers from 1.
        """
        check_whole(dim=dim, bins=bins)
        check_positive(**{"exponent of the power law of inputs": exponent})
        values = np.arange(1, dim + 1, dtype=float) ** -exponent
        number = np.floor(-np.log(values) * bins).astype(int)
        groups = [values[number == one] for one in np.unique(number)]
        spread = tuple(float(group.std() / group.mean()) for group in groups)
        return cls(tuple(float(group.mean()) for group in groups), tuple(group.size for group in groups), spread)

    @property
    def dim(self) -> int:
        """d."""
        return sum(self.multiplicities)

    @property
    def trace(self) -> float:
        """Tr Λ = E|x|²."""
        return float(np.dot(self.eigenvalues, self.multiplicities))

    @property
    def is_isotropic(self) -> bool:
        """Whether all eigenvalues are 1, but for `ROUNDING`."""
        return bool(np.abs(np.array(self.eigenvalues) - 1).max() <= ROUNDING)

    def block_of(self, place: int) -> int:
        """The block of the `place`-th eigenvector (from 0), largest eigenvalue first. Raises `InputError` beyond d."""
        if not is_whole(place) or not 0 <= place < self.dim:
            raise InputError(f"eigenvector is {place!r}: the inputs have {self.dim}, counted from 0")
        return int(np.searchsorted(np.cumsum(self.multiplicities), place, side="right"))
