r"""The two-layer linear network as a problem: every option with its default, its check and its help.

Like `emergence.problem`, this imports neither SymPy nor JAX nor NumPy.
"""

from dataclasses import dataclass, fields
from typing import Any

from emergence.problem import _option, check_values
from emergence.refusal import refuse
from emergence.values import Choice, Kind, Number, Switch, Whole


class Share(Number):
    """A number from 0 to 1."""

    @property
    def remedy(self) -> str:
        return "give a number from 0 to 1"

    def accepts(self, value: Any) -> bool:
        return super().accepts(value) and value <= 1


@dataclass(frozen=True)
class LinearProblem:
    r"""A linear target, a two-layer linear network and an algorithm (arXiv:2603.10397).

    The defaults are the published synthetic experiment, with ‖θ*‖ = 1. Values are checked as those of
    `emergence.problem.Problem`. Raises `theory.InputError` naming the option, its value and the remedy.
    """

    model: str = _option("linear", Choice(("linear",)), "the two-layer linear network")
    dim: int = _option(20, Whole(), "input dimension d")
    student_width: int = _option(1000, Whole(), "student width m")
    target_norm: float = _option(1.0, Number(), "norm of the target theta*")
    train_size: int = _option(200, Whole(0), "training points n; 0: every sample is fresh")
    noise: float | None = _option(None, Number(zero=True), "label noise: +-sigma, sigma of (default 4)")
    label_flip: float = _option(0.0, Share(zero=True), "class labels; probability that a step sees the other class")
    noise_period: int | None = _option(None, Whole(), "steps with label noise, then as many without, and so on")
    sam_radius: float = _option(0.2, Number(), "perturbation radius rho of SAM")
    full_batch: bool = _option(False, Switch(), "SAM on the whole training set in every step")
    linearised: bool = _option(False, Switch(), "train the first-order expansion about the start (the lazy model)")
    step_size: float = _option(1e-3, Number(), "step size eta")
    batch: int = _option(1, Whole(), "samples in one step")
    steps: int | None = _option(None, Whole(), "steps (default: past the last predicted event)")
    replicas: int = _option(8, Whole(), "independent runs")
    seed: int = _option(0, Whole(0), "random seed")
    allow_unstable: bool = _option(False, Switch(), "run a step size or radius beyond its limit, with a warning")

    def __post_init__(self) -> None:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        for name, value in check_values(values, kinds=LINEAR_KINDS, optional=LINEAR_OPTIONAL).items():
            object.__setattr__(self, name, value)
        if self.label_flip and self.noise:
            refuse(f"noise is {self.noise:g} and label-flip is {self.label_flip:g}: give one of them")
        if self.full_batch and not self.train_size:
            refuse("full-batch is given with train-size 0: there is no training set, give train-size")

    @property
    def sigma(self) -> float:
        """σ, default included; 0 for class labels."""
        if self.noise is not None:
            return self.noise
        return 0.0 if self.label_flip else 4.0


LINEAR_KINDS: dict[str, Kind] = {f.name: f.metadata["kind"] for f in fields(LinearProblem)}
LINEAR_HELP: dict[str, str] = {f.name: f.metadata["help"] for f in fields(LinearProblem)}
LINEAR_OPTIONAL = frozenset(f.name for f in fields(LinearProblem) if f.default is None)
