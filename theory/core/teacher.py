r"""Teacher $f_*(x) = \sum_p a_p\,\sigma(\langle e_p, x\rangle)$ and the student's shape."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from theory.core.arguments import check_whole
from theory.core.errors import InputError


@dataclass(frozen=True)
class Teacher:
    r"""Second-layer weights $a_1,\dots,a_P > 0$ on orthonormal directions, taken as $e_1,\dots,e_P$ of $R^d$. (Signed ones
    are for even activations: no student is drawn to a negative one.)

    Attributes:
        weights: $a_p$, in the order given. $\sum a_p^2 = 1$ unless made with ``normalise=False``.
        dim: input dimension $d$.
        exponent: $\beta$ if the weights are the power law $a_p\propto p^{-\beta}$, else None.
    """

    weights: tuple[float, ...]
    dim: int
    exponent: float | None = None

    @classmethod
    def of(
        cls,
        weights: Sequence[float] | np.ndarray,
        dim: int,
        normalise: bool = True,
        exponent: float | None = None,
        signed: bool = False,
    ) -> "Teacher":
        """Check the weights, normalise them to unit sum of squares unless told not to.

        Raises `InputError` unless they are shape (P,), P ≤ d, positive (`signed`: not 0) and at most 1e100 in size.
        """
        try:
            array = np.asarray(weights, dtype=float)
        except (TypeError, ValueError):
            raise InputError(f"teacher weights {weights!r} must be a non-empty list of positive numbers") from None
        check_whole(dim=dim)
        if array.ndim != 1 or array.size == 0:
            raise InputError(f"teacher weights {weights!r} must be a non-empty list of positive numbers")
        if not np.all(np.isfinite(array)) or np.any((array == 0) if signed else (array <= 0)):
            raise InputError(f"teacher weights {_short(array)} must all be positive and finite: drop or fix the others")
        if np.abs(array).max() > 1e100:
            raise InputError(f"teacher weights {_short(array)} are too large for double precision: scale them down")
        if array.size > dim:
            raise InputError(f"teacher width {array.size} exceeds dim {dim}: orthonormal directions need P <= d")
        if normalise:
            array = array / np.abs(array).max()  # first, so that squares neither overflow nor vanish
            array = array / np.sqrt(np.sum(array**2))
            if np.any(array == 0):
                raise InputError(f"teacher weights {_short(array)} differ by more than double precision can hold")
        return cls(tuple(float(a) for a in array), int(dim), exponent)

    @classmethod
    def power_law(cls, width: int, exponent: float, dim: int, normalise: bool = True) -> "Teacher":
        r"""$a_p \propto p^{-\beta}$, $p = 1,\dots,P$.

        Raises `InputError` for a width below 1 or above d, and a negative exponent.
        """
        check_whole(**{"teacher width": width})
        if not np.isfinite(exponent) or exponent < 0:
            raise InputError(f"teacher exponent is {exponent!r}: give a finite number, 0 or more")
        return cls.of(np.arange(1, width + 1, dtype=float) ** -exponent, dim, normalise, float(exponent))

    @property
    def width(self) -> int:
        return len(self.weights)

    @property
    def a(self) -> np.ndarray:
        """The weights as an array, shape (P,)."""
        return np.asarray(self.weights)


@dataclass(frozen=True)
class Student:
    r"""2-homogeneous student $f(x) = \sum_k\|v_k\|^2\sigma(\langle\bar v_k, x\rangle)$, $v_k(0)\sim\sigma_0$·Unif(sphere).

    Attributes:
        width: $m$, the number of neurons.
        init_scale: $\sigma_0 = \|v_k(0)\|$ (not its square).

    Raises `InputError` for a width below 1, or a scale that is not positive and finite.
    """

    width: int
    init_scale: float = 0.03

    def __post_init__(self) -> None:
        check_whole(**{"student width": self.width})
        if not (np.isfinite(self.init_scale) and self.init_scale > 0):
            raise InputError(f"init scale is {self.init_scale!r}: give a positive finite number (σ₀, e.g. 0.03)")


def check_dimensions(teacher: Teacher, student: Student) -> None:
    """The overlap representation needs $d\\ge P+m$: teachers and students linearly independent. Raises `InputError` below."""
    least = teacher.width + student.width
    if teacher.dim < least:
        raise InputError(
            f"dim {teacher.dim} is below teacher width + student width = {least}: raise dim or lower a width"
        )


def _short(array: np.ndarray) -> str:
    shown = ", ".join(f"{value:g}" for value in array[:6])
    return f"[{shown}{', …' if array.size > 6 else ''}]"
