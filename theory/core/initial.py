r"""Initial states, drawn exactly without ever forming a vector of $R^d$.

Students $v_k(0)$ are independent and uniform on the sphere of radius $\sigma_0$. Their coordinates on the $P$ teacher
directions are a Gaussian block; the residuals enter only through their Gram matrix, a Wishart matrix with $d-P$ degrees
of freedom, drawn by its Bartlett factor (Bartlett 1933). Cost and memory do not depend on $d$.
"""

from dataclasses import dataclass

import numpy as np

from theory.core.streams import generator
from theory.core.teacher import Student, Teacher, check_dimensions


@dataclass(frozen=True)
class InitialState:
    r"""Coordinates of the students.

    Attributes:
        on_teachers: $T$, shape (m, P): $\langle v_k, e_p\rangle$.
        residual: $R$, shape (m, m), lower triangular: coordinates of the residuals in some orthonormal basis, so that
            $VV^\top = TT^\top + RR^\top$.
    """

    on_teachers: np.ndarray
    residual: np.ndarray

    @property
    def norm2(self) -> np.ndarray:
        r"""$\|v_k\|^2$, shape (m,)."""
        return np.sum(self.on_teachers**2, axis=1) + np.sum(self.residual**2, axis=1)

    @property
    def overlap(self) -> np.ndarray:
        r"""$t_{kp}=\langle\bar v_k,e_p\rangle$, shape (m, P)."""
        return self.on_teachers / np.sqrt(self.norm2)[:, None]

    @property
    def student_overlap(self) -> np.ndarray:
        r"""$c_{kl}=\langle\bar v_k,\bar v_l\rangle$, shape (m, m), with an exact unit diagonal."""
        gram = self.on_teachers @ self.on_teachers.T + self.residual @ self.residual.T
        size = np.sqrt(self.norm2)
        cosines = gram / np.outer(size, size)
        np.fill_diagonal(cosines, 1.0)
        return cosines


def bartlett(rng: np.random.Generator, width: int, freedom: int) -> np.ndarray:
    r"""Lower triangular $A$ with $AA^\top\sim$ Wishart$_{width}$(freedom), shape (width, width).

    $A_{ii}=\chi_{freedom-i+1}$, the others N(0, 1) (Bartlett 1933).
    """
    factor = np.tril(rng.standard_normal((width, width)), k=-1)
    np.fill_diagonal(factor, np.sqrt(rng.chisquare(freedom - np.arange(width))))
    return factor


def draw_initial_state(teacher: Teacher, student: Student, seed: int | np.random.Generator) -> InitialState:
    """Students uniform on the sphere of radius σ₀ in R^d. Raises `InputError` unless d ≥ P + m."""
    check_dimensions(teacher, student)
    rng = generator(seed)  # the empty name is this function's own
    on_teachers = rng.standard_normal((student.width, teacher.width))
    residual = bartlett(rng, student.width, teacher.dim - teacher.width)
    size = np.sqrt(np.sum(on_teachers**2, axis=1) + np.sum(residual**2, axis=1))[:, None]
    return InitialState(student.init_scale * on_teachers / size, student.init_scale * residual / size)
