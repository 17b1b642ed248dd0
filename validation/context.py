"""What a claim's runner is given: preset, seed, and the theory under test."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import theory
from theory import Activation, SingleTask, System
from theory.committee import committee
from theory.largest_overlap import Overlap
from theory.occupation import Occupation
from theory.plateau import Plateau
from theory.power_law_loss import PowerLawLoss
from theory.riccati import overlap_system


def finite_step_with_noise(activation: Activation) -> System:
    """The finite-step system of one sample per step, with its covariance."""
    return theory.finite_step(activation, fluctuations=True)


@dataclass(frozen=True)
class TheoryUnderTest:
    """The entry points of `theory` that claims use. Replace one to test a conjecture, or a formula broken on purpose.

    Example:
        ``replace(TheoryUnderTest(), overlap_flow=mine)`` judges your own overlap flow by the built-in claims.
    """

    overlap_flow: Callable[[Activation], System] = theory.overlap_flow
    single_task: Callable[[Activation], SingleTask] = theory.SingleTask
    plateau: Callable[[Activation], Plateau] = theory.plateau
    riccati_flow: Callable[[], System] = overlap_system
    occupation: Callable[[np.ndarray, int, int], Occupation] = Occupation
    finite_step: Callable[[Activation], System] = finite_step_with_noise
    committee: Callable[[Activation, str], System] = committee
    loss_law: Callable[[float, float, Overlap], PowerLawLoss] = PowerLawLoss


@dataclass(frozen=True)
class Context:
    """Attributes: preset ``quick`` or ``full``; seed; theory; progress (called with a short text, may do nothing)."""

    preset: str = "quick"
    seed: int = 0
    theory: TheoryUnderTest = field(default_factory=TheoryUnderTest)
    progress: Callable[[str], None] = field(default=lambda text: None, compare=False)

    @property
    def full(self) -> bool:
        return self.preset == "full"

    def rng(self, *stream: int) -> np.random.Generator:
        """An independent generator for each stream of numbers."""
        return np.random.default_rng([self.seed, *stream])

    def pick(self, quick: int, full: int) -> int:
        """A size by preset."""
        return full if self.full else quick
