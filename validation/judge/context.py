"""What a claim's runner is given: preset, seed, and the theory under test."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from theory.core.streams import Word, integer_seed, stream
from validation.judge.under_test import TheoryUnderTest


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
