r"""Rules: how one step moves rows, buffers and the second layer, in vectors that know inner products only.

A rule turns with the axes (its result for turned rows and samples is the turned result) exactly if its new rows are
combinations of old rows, buffers and samples with coefficients that depend on inner products. So the vectors that a rule
gets offer just that: sums, products with numbers (one for each row), inner products, mixtures of rows. Coordinates do not
exist for it: a rule that needs them (sign descent, Adam) cannot be written, and says so. Then the Gram matrices of all
vectors, by eigenspace of the inputs, are a Markov chain, in which the dimension is a number of degrees of freedom.

A rule of one's own is a frozen dataclass that derives from `Rule` and has a method `step`.

Sources: momentum, Polyak 1964 and Nesterov 1983; clipping, Pascanu, Mikolov and Bengio 2013; a batch used again, Dandi et al.
2024 (arXiv:2402.03220); extragradient, Korpelevich 1976; SAM, Foret et al. 2021 (arXiv:2010.01412); Muon, Jordan et al. 2024;
Adam, Kingma and Ba 2015.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Protocol

import numpy as np

from theory.core.arguments import check_one_of, check_positive, check_whole
from theory.core.errors import InputError
from theory.declared.schedule import Schedule

#: Of batches of a data set: one after the other; at every step drawn, different samples or each from all of them.
ORDERS = ("cyclic", "random", "replacement")
#: Of noise on a label y: y + ςξ with a standard Gaussian or a fair sign ξ, or −y with probability ς.
NOISES = ("gaussian", "signs", "flips")
#: Passes of one step over its batch: each is compiled.
MOST_PASSES = 100


class Vectors(Protocol):
    """One vector for each of m rows. Numbers that multiply are plain, or (m,), one for each row."""

    def __add__(self, other: "Vectors") -> "Vectors": ...
    def __sub__(self, other: "Vectors") -> "Vectors": ...
    def __mul__(self, factor: Any) -> "Vectors": ...
    def __rmul__(self, factor: Any) -> "Vectors": ...
    def __truediv__(self, divisor: Any) -> "Vectors": ...
    def __neg__(self) -> "Vectors": ...

    def dot(self, other: "Vectors") -> Any:
        """Row by row, (m,)."""
        ...

    def gram(self, other: "Vectors") -> Any:
        """Of every row with every row, (m, m)."""
        ...

    def mixed(self, matrix: Any) -> "Vectors":
        """Rows mixed by (m, m): row k becomes Σ_l matrix_kl · row l."""
        ...

    def norms(self) -> Any:
        """Lengths (m,)."""
        ...

    def norm(self) -> Any:
        """Length of all rows together (Frobenius)."""
        ...

    def total(self, numbers: Any) -> Any:
        """Sum of `numbers`, one for each row, such as the second layer's."""
        ...

    def elementwise(self, function: Callable[..., Any], *others: "Vectors") -> "Vectors":
        """A function of coordinates: in R^d only, exact simulation refuses it."""
        ...

    def polar(self) -> "Vectors":
        r"""$(GG^\top)^{+1/2}G$: the nearest partial isometry, all singular values 1."""
        ...


@dataclass(frozen=True)
class Gradient:
    r"""Of the mean loss of the batch: `rows` $\nabla_{v_k}$, and `second` $\partial/\partial b_k$ (m,), zero if b is fixed."""

    rows: Any
    second: Any


@dataclass(frozen=True)
class Moved:
    """After a step: rows, second layer, and buffers by name."""

    rows: Any
    second: Any
    buffers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Here:
    """What a rule sees of a step.

    Attributes:
        rows: `Vectors`. second: $b$ (m,). buffers: by name, `Vectors`. step: its number n. step_size: $\\eta_n$.
        gradient: of the batch's loss at any rows and second layer, ``gradient(rows, second)``.
    """

    rows: Any
    second: Any
    buffers: Mapping[str, Any]
    step: Any
    step_size: Any
    gradient: Callable[[Any, Any], Gradient]


@dataclass(frozen=True)
class Rule:
    r"""What all rules have, and plain SGD: $v\leftarrow(1-\eta\kappa)v-\eta g$, $b\leftarrow b-\eta\,\partial_b$.

    Attributes:
        step_size: η, or a schedule. batch: samples of a step, averaged. noise: ς of noise on labels. decay: κ of weight
            decay, of rows.
        samples: of a fixed data set, which is drawn once; 0: every sample is fresh.
        order: of a data set's batches, one of `ORDERS`: ``cyclic`` goes through the set again and again; ``random`` draws b
            different samples for each step, ``replacement`` each of the b from all.
        renewed: whether noise is drawn anew whenever a sample of the data set is used (label noise), or with the sample.
        noise_law: one of `NOISES`. noise_period: noise is on for so many steps, off for as many, and so on; 0: always on.

    Raises `InputError` for a step size that is not positive, a negative noise or decay, a probability above 1, counts that are
    not whole, an unknown order or law, a batch larger than the data set, or a period of noise that is drawn with the samples.
    """

    step_size: float | Schedule
    batch: int = 1
    noise: float = 0.0
    decay: float = 0.0
    samples: int = 0
    order: str = "cyclic"
    renewed: bool = False
    noise_law: str = "gaussian"
    noise_period: int = 0
    #: Names of the vectors that a rule keeps beside the rows; they begin at zero.
    buffers: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if not callable(self.step_size):
            check_positive(step_size=self.step_size)
        check_whole(batch=self.batch)
        check_whole(0, samples=self.samples, noise_period=self.noise_period)
        check_one_of(ORDERS, order=self.order)
        check_one_of(NOISES, noise_law=self.noise_law)
        if 0 < self.samples < self.batch and self.order != "replacement":
            raise InputError(f"batch is {self.batch}, but the data set has {self.samples} samples: lower batch")
        for name in ("noise", "decay"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise InputError(f"{name} is {getattr(self, name)!r}: give a finite number, 0 or more")
        if self.noise_law == "flips" and self.noise > 1:
            raise InputError(f"noise is {self.noise!r}: labels flip with this probability; give 0 to 1")
        if self.noise_period and self.samples and not self.renewed:
            raise InputError(
                "noise_period is given, but noise is drawn with the data set: give renewed=True, or leave it out"
            )

    def noise_at(self, step: Any) -> Any:
        """ς at step n, a number or an array."""
        return self.noise * (step // self.noise_period % 2 == 0) if self.noise_period else self.noise

    @property
    def noise_deviation(self) -> float:
        """Standard deviation of noise that is the same at every step.

        Raises `InputError` for noise that comes and goes, and for flips, whose mean is not zero.
        """
        if self.noise and (self.noise_period or self.noise_law == "flips"):
            raise InputError(
                f"noise is of law {self.noise_law!r}, period {self.noise_period}: theory knows noise of mean zero at every "
                "step; simulate it, or give a law without flips and no period"
            )
        return self.noise

    @property
    def signal(self) -> float:
        r"""$E[y|x]/f_*$ over many steps: $1-2p$ of labels that flip ($1-p$ if they do so half of the time), else 1."""
        if self.noise_law != "flips":
            return 1.0
        return 1 - self.noise * (1 if self.noise_period else 2)

    def decayed(self, at: Here) -> Any:
        """The rows after weight decay."""
        return at.rows * (1 - at.step_size * self.decay) if self.decay else at.rows

    def along(self, at: Here, gradient: Gradient) -> Moved:
        """A step against `gradient`."""
        return Moved(self.decayed(at) - gradient.rows * at.step_size, at.second - at.step_size * gradient.second)

    def step(self, at: Here) -> Moved:
        """One step. Override it."""
        return self.along(at, at.gradient(at.rows, at.second))


SGD = Rule


@dataclass(frozen=True)
class Momentum(Rule):
    r"""$u\leftarrow\beta u-c\,g$, $v\leftarrow v+\eta u$: ``heavy`` (c = 1), ``average`` (c = 1 − β), or ``nesterov``, which
    steps along $\beta u'-g$ with the new $u'$.

    Raises `InputError` unless 0 ≤ β < 1, for another kind, and as `Rule` does.
    """

    beta: float = 0.9
    kind: str = "heavy"
    buffers: ClassVar[tuple[str, ...]] = ("velocity",)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_of(("heavy", "average", "nesterov"), kind=self.kind)
        if not 0 <= self.beta < 1:
            raise InputError(
                f"momentum is {self.beta!r}: the average of gradients has no end from 1 on; give 0 ≤ beta < 1"
            )

    def step(self, at: Here) -> Moved:
        """Decay stays out of the velocity; the second layer goes without one."""
        gradient = at.gradient(at.rows, at.second)
        share = 1 - self.beta if self.kind == "average" else 1.0
        velocity = at.buffers["velocity"] * self.beta - gradient.rows * share
        along = velocity * self.beta - gradient.rows if self.kind == "nesterov" else velocity
        second = at.second - at.step_size * gradient.second
        return Moved(self.decayed(at) + along * at.step_size, second, {"velocity": velocity})


@dataclass(frozen=True)
class Clipped(Rule):
    r"""The gradient no longer than `limit`: of each ``row``, or ``all`` rows together.

    Raises `InputError` for a limit that is not positive, another `each`, and as `Rule` does.
    """

    limit: float = 1.0
    each: str = "row"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(limit=self.limit)
        check_one_of(("row", "all"), each=self.each)

    def step(self, at: Here) -> Moved:
        """The second layer's gradient is not clipped."""
        gradient = at.gradient(at.rows, at.second)
        length = gradient.rows.norms() if self.each == "row" else gradient.rows.norm()
        return self.along(at, Gradient(gradient.rows * (self.limit / _divisor(length)).clip(max=1.0), gradient.second))


@dataclass(frozen=True)
class Normalised(Rule):
    r"""The gradient over its length: of each ``row``, or of ``all`` rows together.

    Raises `InputError` for another `each`, and as `Rule` does.
    """

    each: str = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_of(("row", "all"), each=self.each)

    def step(self, at: Here) -> Moved:
        """The second layer's gradient is left as it is."""
        gradient = at.gradient(at.rows, at.second)
        length = gradient.rows.norms() if self.each == "row" else gradient.rows.norm()
        return self.along(at, Gradient(gradient.rows / _divisor(length), gradient.second))


@dataclass(frozen=True)
class Reuse(Rule):
    r"""Each batch is used `passes` times, one step after the other on the same samples (their noise, too).

    Raises `InputError` unless `passes` is a whole number from 1 to `MOST_PASSES`, and as `Rule` does.
    """

    passes: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(passes=self.passes)
        if self.passes > MOST_PASSES:
            raise InputError(
                f"passes is {self.passes}: a step is compiled with all of them: give {MOST_PASSES} or less"
            )

    def step(self, at: Here) -> Moved:
        """As many gradients as passes; η and decay are those of the step in every pass, rows of a sphere return after all."""
        rows, second = at.rows, at.second
        for _ in range(self.passes):
            gradient = at.gradient(rows, second)
            rows = rows * (1 - at.step_size * self.decay) if self.decay else rows
            rows, second = rows - gradient.rows * at.step_size, second - at.step_size * gradient.second
        return Moved(rows, second)


@dataclass(frozen=True)
class Ahead(Rule):
    r"""The gradient is taken at $v-\text{ahead}\cdot g$: extragradient, or look-ahead on one batch; ahead < 0 climbs first."""

    ahead: float = 0.1

    def step(self, at: Here) -> Moved:
        first = at.gradient(at.rows, at.second)
        return self.along(at, at.gradient(at.rows - first.rows * self.ahead, at.second))


@dataclass(frozen=True)
class Alternating(Rule):
    r"""First the second layer with a step size of its own, then the rows on the same batch with the new one.

    Where the second layer is fixed it is plain SGD.
    Raises `InputError` unless `second_step` is positive, and as `Rule` does.
    """

    second_step: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(second_step=self.second_step)

    def step(self, at: Here) -> Moved:
        """Two gradients of one batch; η and decay are for the rows only."""
        second = at.second - self.second_step * at.gradient(at.rows, at.second).second
        gradient = at.gradient(at.rows, second)
        return Moved(self.decayed(at) - gradient.rows * at.step_size, second)


@dataclass(frozen=True)
class SAM(Rule):
    r"""Sharpness-aware: the gradient at $v+\rho\,g/\|g\|$, all rows together, on the same batch.

    `layers`: which climb, the ``first`` alone or ``both``, then with one length (arXiv:2603.10397, section 5).
    Raises `InputError` unless `radius` (ρ) is positive, for other `layers`, and as `Rule` does.
    """

    radius: float = 0.1
    layers: str = "first"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(radius=self.radius)
        check_one_of(("first", "both"), layers=self.layers)

    def step(self, at: Here) -> Moved:
        """Decay is that of plain SGD."""
        first = at.gradient(at.rows, at.second)
        if self.layers == "first":
            reach = self.radius / _divisor(first.rows.norm())
            return self.along(at, at.gradient(at.rows + first.rows * reach, at.second))
        length = (first.rows.norm() ** 2 + first.rows.total(first.second**2)) ** 0.5
        reach = self.radius / _divisor(length)
        return self.along(at, at.gradient(at.rows + first.rows * reach, at.second + reach * first.second))


@dataclass(frozen=True)
class Muon(Rule):
    r"""$u\leftarrow\beta u+(1-\beta)g$, $v\leftarrow v-\eta\,\mathrm{polar}(u)$ of the m × d matrix.

    Raises `InputError` unless 0 ≤ β < 1, and as `Rule` does.
    """

    beta: float = 0.0
    buffers: ClassVar[tuple[str, ...]] = ("average",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.beta < 1:
            raise InputError(
                f"momentum is {self.beta!r}: the average of gradients has no end from 1 on; give 0 ≤ beta < 1"
            )

    def step(self, at: Here) -> Moved:
        """The second layer goes by plain SGD."""
        gradient = at.gradient(at.rows, at.second)
        average = at.buffers["average"] * self.beta + gradient.rows * (1 - self.beta) if self.beta else gradient.rows
        moved = self.along(at, Gradient(average.polar(), gradient.second))
        return Moved(moved.rows, moved.second, {"average": average})


@dataclass(frozen=True)
class Adam(Rule):
    r"""$m\leftarrow\beta m+(1-\beta)g$, $s\leftarrow\beta_2s+(1-\beta_2)g^2$ by coordinates, $v\leftarrow v-\eta\hat m/
    (\sqrt{\hat s}+\epsilon)$ (Kingma and Ba 2015). It does not turn with the axes: it runs in R^d only. With both β = 0 it is
    sign descent.
    """

    beta: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    buffers: ClassVar[tuple[str, ...]] = ("mean", "square")

    def __post_init__(self) -> None:
        """Raises `InputError` for a β outside [0, 1), or an ε that is not positive."""
        super().__post_init__()
        check_positive(epsilon=self.epsilon)
        for name in ("beta", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)!r}: an average needs 0 ≤ {name} < 1")

    def step(self, at: Here) -> Moved:
        r"""With $\hat m=m/(1-\beta^{n+1})$ and ŝ likewise; decay stays out of both; the second layer goes by plain SGD."""
        gradient = at.gradient(at.rows, at.second)
        mean = at.buffers["mean"] * self.beta + gradient.rows * (1 - self.beta)
        square = at.buffers["square"] * self.beta2 + gradient.rows.elementwise(lambda g: g * g) * (1 - self.beta2)
        first, second = (1 / (1 - beta ** (at.step + 1.0)) for beta in (self.beta, self.beta2))
        along = (mean * first).elementwise(lambda m, s: m / ((second * s) ** 0.5 + self.epsilon), square)
        moved = self.along(at, Gradient(along, gradient.second))
        return Moved(moved.rows, moved.second, {"mean": mean, "square": square})


def _divisor(length: Any) -> Any:
    """A length, or 1 in place of 0: a gradient of zero stays so."""
    return length + (length == 0)


#: By the names of the command line.
RULES: dict[str, type[Rule]] = {
    "sgd": Rule,
    "momentum": Momentum,
    "clipped": Clipped,
    "normalised": Normalised,
    "reuse": Reuse,
    "ahead": Ahead,
    "alternating": Alternating,
    "sam": SAM,
    "muon": Muon,
    "adam": Adam,
}


def normal_form(rule: Rule) -> Rule:
    """Plain SGD in place of a rule of ours that is no other: without memory, with one pass, or not ahead."""
    name, value = _PLAIN.get(type(rule), ("", None))
    if not name or getattr(rule, name) != value:
        return rule
    return Rule(**{x.name: getattr(rule, x.name) for x in fields(Rule)})


#: Where a rule is plain SGD: a field and its value. (A rule of one's own that inherits may step otherwise.)
_PLAIN: dict[type[Rule], tuple[str, float]] = {Momentum: ("beta", 0), Reuse: ("passes", 1), Ahead: ("ahead", 0)}
