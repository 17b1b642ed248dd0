"""What a claim's runner is given: preset, seed, and the theory under test."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

import theory
from theory import Activation, SingleTask, System
from theory.core.streams import Word, integer_seed, stream
from theory.one_task.plateau import Plateau
from theory.quadratic.occupation import Occupation
from theory.quadratic.riccati import overlap_system
from theory.scaling.largest_overlap import Overlap
from theory.scaling.power_law_loss import PowerLawLoss
from theory.steps.committee import committee


def finite_step_with_noise(activation: Activation) -> System:
    """The finite-step system of one sample per step, with its covariance."""
    return theory.finite_step(activation, fluctuations=True)


_once = lru_cache(maxsize=64)
#: The built-in derivations, each made once: claims and seeds then share one object, and the code compiled for it.
_overlap_flow, _single_task, _plateau = _once(theory.overlap_flow), _once(theory.SingleTask), _once(theory.plateau)
_riccati_flow, _finite_step, _committee = _once(overlap_system), _once(finite_step_with_noise), _once(committee)


@dataclass(frozen=True)
class TheoryUnderTest:
    """The entry points of `theory` that claims use. Replace one to test a conjecture, or a formula broken on purpose.

    The built-in ones derive once per process. Wrap yours in `functools.lru_cache` if you judge it under several seeds.

    Example:
        ``replace(TheoryUnderTest(), overlap_flow=mine)`` judges your own overlap flow by the built-in claims.
    """

    overlap_flow: Callable[[Activation], System] = _overlap_flow
    single_task: Callable[[Activation], SingleTask] = _single_task
    plateau: Callable[[Activation], Plateau] = _plateau
    riccati_flow: Callable[[], System] = _riccati_flow
    occupation: Callable[[np.ndarray, int, int], Occupation] = Occupation
    finite_step: Callable[[Activation], System] = _finite_step
    committee: Callable[[Activation, str], System] = _committee
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

    def rng(self, *words: Word) -> np.random.Generator:
        """The generator of a name: the claims or the simulation it is for, then its purpose, as in ``("E14", "gaps")``."""
        return stream(self.seed, "claims", *words)

    def seed_for(self, *words: Word) -> int:
        """As `rng`, for what takes an integer: a simulator's ``seed``."""
        return integer_seed(self.seed, "claims", *words)

    def within(self, label: str = "") -> Callable[[float, str], None]:
        """The ``progress`` of a simulator, told under a label."""
        return lambda _, text: self.progress(f"{label}: {text}" if label else text)

    def pick(self, quick: int, full: int) -> int:
        """A size by preset."""
        return full if self.full else quick
