r"""Linear regression for the two-layer linear network $\hat y = a^\top Wx$, and the network's start.

Inputs are $N(0, I_d)$, labels $y=\langle\theta^*,x\rangle$ with $\theta^*=\|\theta^*\|e_1$ without loss of generality
(arXiv:2603.10397, section 4.1). A training set of n inputs is drawn once, or every sample is fresh.
"""

from dataclasses import dataclass

import numpy as np

from theory.core.arguments import check_positive, check_whole
from theory.core.streams import generator


@dataclass(frozen=True, eq=False)
class LinearTask:
    r"""The data.

    Attributes:
        target: θ*, shape (d,).
        inputs: the training set, shape (n, d); None if every sample is fresh.
        classes: labels are the classes sign⟨θ*, x⟩ instead of ⟨θ*, x⟩.
    """

    target: np.ndarray
    inputs: np.ndarray | None = None
    classes: bool = False

    @property
    def dim(self) -> int:
        return self.target.size

    @property
    def train_size(self) -> int | None:
        return None if self.inputs is None else len(self.inputs)

    def labels(self, inputs: np.ndarray) -> np.ndarray:
        """Clean labels of inputs (…, d)."""
        values = inputs @ self.target
        return np.sign(values) if self.classes else values

    @property
    def population(self) -> tuple[np.ndarray, np.ndarray, float]:
        r"""$(\Sigma, b, c)$ with population loss $\tfrac12(\theta^\top\Sigma\theta-2b^\top\theta+c)$."""
        norm = np.linalg.norm(self.target)
        if self.classes:  # E x sign⟨θ*, x⟩ = √(2/π) θ*/‖θ*‖
            return np.eye(self.dim), np.sqrt(2 / np.pi) * self.target / norm, 1.0
        return np.eye(self.dim), self.target, float(norm**2)

    @property
    def moments(self) -> tuple[np.ndarray, np.ndarray, float]:
        r"""The same with means over the training set: $\Sigma=X^\top X/n$, $b=X^\top y/n$, $c=\|y\|^2/n$."""
        if self.inputs is None:
            return self.population
        labels = self.labels(self.inputs)
        count = len(self.inputs)
        return self.inputs.T @ self.inputs / count, self.inputs.T @ labels / count, float(np.mean(labels**2))


@dataclass(frozen=True, eq=False)
class LinearStart:
    """Initial weights.

    Attributes:
        first: W, shape (m, d), or (replica, m, d) if every replica has its own.
        second: a, shape (m,) or (replica, m).
    """

    first: np.ndarray
    second: np.ndarray

    @property
    def width(self) -> int:
        return self.first.shape[-2]


def lazy_fall(width: int, dim: float, target_norm: float) -> float:
    r"""$\ln\frac m{d\|\theta^*\|}$, at least 1: by which $\ln\|W\|_F^2$ falls from its start, m, before labels hold it up."""
    return float(np.log(max(width / (dim * target_norm), np.e)))


def draw_linear_task(
    dim: int, target_norm: float, train_size: int | None, seed: int | np.random.Generator, classes: bool = False
) -> LinearTask:
    """A training set of `train_size` Gaussian inputs, or fresh samples if None. Raises `InputError`."""
    check_whole(dim=dim)
    check_positive(target_norm=target_norm)
    target = np.zeros(dim)
    target[0] = target_norm
    if train_size is None:
        return LinearTask(target, None, classes)
    check_whole(train_size=train_size)
    rng = generator(seed, "linear task")
    return LinearTask(target, rng.standard_normal((train_size, dim)), classes)


def draw_linear_start(
    width: int, dim: int, seed: int | np.random.Generator, replicas: int | None = None, scale: float = 1.0
) -> LinearStart:
    r"""$w_{ij}\sim N(0,1/d)$, $a_i\sim N(0,1/m)$ (arXiv:2603.10397, eq. 5), both times `scale`.

    Raises `InputError` for a width below 1.
    """
    check_whole(width=width)
    rng = generator(seed, "linear start")
    # Replica after replica: one does not depend on how many follow it.
    drawn = rng.standard_normal((1 if replicas is None else replicas, width, dim + 1))
    first, second = scale * drawn[..., 1:] / np.sqrt(dim), scale * drawn[..., 0] / np.sqrt(width)
    return LinearStart(first[0], second[0]) if replicas is None else LinearStart(first, second)
