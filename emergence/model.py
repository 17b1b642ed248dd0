"""What a system is to the command line: one record, from which every command serves it.

A module with a `MODEL` in `emergence.models`, or in a file of the user's own (``--model path/to/my_model.py``), is all
that a system needs: its options, simulations, predictions, comparison, derivations and figures come from there. Importing
such a module must stay light: what is heavy is imported inside its functions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from emergence.options import Problem, options
from emergence.refusal import refuse
from emergence.resources import Cost
from emergence.table import Table

if TYPE_CHECKING:
    import xarray as xr

    from emergence.reproduction import Figure
    from theory import Activation, Derivation
    from validation.comparison import Case

#: The model of commands that name none.
DEFAULT = "additive"
Made = TypeVar("Made")
#: Called with the fraction done and a text, or None.
Progress = Callable[[float, str], None]


class Resolved(Protocol):
    """A problem with its objects and the defaults that they decide. `warnings`: lines for the user."""

    @property
    def warnings(self) -> tuple[str, ...]: ...

    def echo(self) -> dict[str, Any]:
        """The full problem, defaults included: it names the file, and stands in every JSON document."""
        ...

    def headline(self) -> str:
        """The problem in one line."""
        ...


@dataclass(frozen=True)
class Run:
    """What a simulation hands back.

    Attributes:
        data: labelled. diverged: how many replicas did. result: whatever `Simulation.table` wants to see of it.
        more: goes into the JSON document.

    Raises `InputError` for data that are no dataset.
    """

    data: "xr.Dataset"
    diverged: int = 0
    result: Any = None
    more: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not hasattr(self.data, "data_vars"):
            refuse(f"data of a Run is of type {type(self.data).__name__}: give a labelled xarray.Dataset")


@dataclass(frozen=True)
class Document:
    """A prediction: the JSON document, and the same for people."""

    content: Mapping[str, object]
    text: str


def made(found: Any, kind: type[Made], by: str) -> Made:
    """What a function of a model returned. Raises `InputError` where it is something else."""
    if not isinstance(found, kind):
        refuse(f"{by} returns a {type(found).__name__}: return a {kind.__name__}")
    return found


def _anything(resolved: Any) -> None:
    """Any problem will do."""


def _as_it_is(resolved: Any, run: Run) -> Run:
    return run


def _silent(resolved: Any) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True)
class Simulation:
    """What ``simulate NAME`` runs, and a sweep's cell: one thing.

    Attributes:
        name: on the command line. help: a few words.
        uses: options of the problem that can change the result; the others are refused.
        run: the simulation; called with the resolved problem, progress (or None), and a folder for checkpoints (or None).
        table: what people see of it. shown: the run with what the table says of it, for the file of `simulate`.
        variables: names in the data, for ``sweep --keep``, of some problems not all of them. curves: those along a time, as
            far as it is declared.
        requires: refuses, before anything is made, a problem that cannot be run.
        warn: lines for the user before it begins.
        cost: what a run takes at the least; None if nobody can say.
        checkpoints: the name of the folder that `run` keeps its checkpoints in, from the problem; None if it has none.
        compute: ``step`` or ``time``, and what one of it costs in the compute of the model's scaling laws; None if undeclared.
        first: what ``predict`` says of the start of the first replica alone, where each has a start of its own.
    """

    name: str
    help: str
    uses: frozenset[str]
    run: Callable[[Any, Progress | None, Any], Run]
    table: Callable[[Any, Run], Table]
    variables: tuple[str, ...]
    requires: Callable[[Any], None] = _anything
    warn: Callable[[Any], tuple[str, ...]] = _silent
    cost: Callable[[Any], Cost] | None = None
    checkpoints: Callable[[Any], str] | None = None
    compute: tuple[str, Callable[[Any], float]] | None = None
    curves: tuple[str, ...] = ()
    shown: Callable[[Any, Run], Run] = _as_it_is
    first: frozenset[str] = frozenset()

    def done(self, resolved: Any, progress: Progress | None = None, folder: Any = None) -> Run:
        """A run. Raises `InputError` where the function `run` returns something else."""
        return made(self.run(resolved, progress, folder), Run, f"simulation {self.name}")

    @property
    def forewarns(self) -> bool:
        """Whether anything can be said of how long a run takes before it begins."""
        return self.cost is not None or self.warn is not _silent


@dataclass(frozen=True)
class Predictor:
    """What ``predict`` says, and what ``sweep predict`` keeps of it.

    Attributes:
        uses, variables: as of a `Simulation`. shown: options among `uses` that change the document alone, not the data.
    """

    document: Callable[[Any], Document]
    data: Callable[[Any], "xr.Dataset"]
    uses: frozenset[str]
    variables: tuple[str, ...]
    shown: frozenset[str] = frozenset()

    @property
    def simulation(self) -> Simulation:
        """As a cell of a sweep."""
        return Simulation(
            "predict",
            "predictions",
            self.uses - self.shown,
            lambda resolved, *_: Run(self.data(resolved)),
            lambda *_: Table(),
            self.variables,
        )


@dataclass(frozen=True)
class Comparer:
    """What ``compare`` judges of a resolved problem. `uses`, `cost`: as of a `Simulation`."""

    case: "Callable[[Any], Case]"
    uses: frozenset[str]
    cost: Callable[[Any], Cost] | None = None


@dataclass(frozen=True)
class Symbol:
    """A letter of formulas about a problem: what it stands for, and its value.

    `value`: a number, or one for each direction, of a resolved problem.
    """

    text: str
    value: Callable[[Any], Any]


@dataclass(frozen=True)
class Allowance:
    """An error that theory computes, by name: the share of a measured variable that it may move.

    Attributes:
        text: what it is. variables: of simulations, those that it is known for.
        share: a number, or one for each direction, of a resolved problem.
    """

    text: str
    variables: tuple[str, ...]
    share: Callable[[Any], Any]


@dataclass(frozen=True)
class Derive:
    """A derivation of the command `derive`.

    Attributes:
        make: a function of the activation, or its place ``package.module:name``; its result is the derivation, or has it
            as its `part`.
        activation: where none is given. fixed: it has no other, and the function takes none.
        kernel: the activation's own kernel φ stands among its equations. help: a few words.
    """

    make: str | Callable[..., Any]
    activation: str = "h4"
    fixed: bool = False
    part: str = "derivation"
    kernel: bool = True
    help: str = ""

    @property
    def plain(self) -> bool:
        """Whether the activation's kernel does not stand among its equations."""
        return self.fixed or not self.kernel

    def __call__(self, activation: "Activation") -> "Derivation":
        """Derive. Raises `InputError` for an activation that it does not know."""
        make = self.make
        if isinstance(make, str):
            module, _, name = make.partition(":")
            make = getattr(import_module(module), name)
        if self.fixed and activation.coefficients != type(activation).parse(self.activation).coefficients:
            refuse(
                f"activation is {activation.name!r}, but this derivation is of {self.activation}: "
                f"use {self.activation}, or leave it out"
            )
        made = make() if self.fixed else make(activation)
        found = getattr(made, self.part, made)
        return found() if callable(found) else found


@dataclass(frozen=True)
class Model:
    """One system.

    Attributes:
        name, help: on the command line.
        problem: its options.
        resolve: the problem with its objects, for a simulation or for predict and compare (None). Refuses what no one
            could run.
        matches: whether a problem of the default model, by its activation's text, is this model's to predict and compare.
        figures: those of `emergence reproduce`.
        symbols: letters of formulas, beside its options. allowances: errors that theory computes, by name.
        origin: the file of the user's own that it was loaded from, or nothing.
    """

    name: str
    help: str
    problem: type[Problem]
    resolve: Callable[[Any, Simulation | None], Resolved]
    simulations: tuple[Simulation, ...] = ()
    predict: Predictor | None = None
    compare: Comparer | None = None
    derivations: Mapping[str, Derive] = field(default_factory=dict)
    matches: Callable[[str], bool] | None = None
    figures: "tuple[Figure, ...]" = ()
    symbols: Mapping[str, Symbol] = field(default_factory=dict)
    allowances: Mapping[str, Allowance] = field(default_factory=dict)
    origin: str = ""

    def __post_init__(self) -> None:
        for name, own in options(self.problem).items():
            if "kind" not in own.metadata:
                raise ValueError(f"model {self.name}: field {name} of its problem has no kind: write it as option(…)")
        for one in self.cells:
            unknown = one.uses - set(options(self.problem))
            if unknown:
                raise ValueError(f"model {self.name}: {one.name} uses {', '.join(unknown)}: name fields of its problem")

    @property
    def cells(self) -> tuple[Simulation, ...]:
        """What a sweep can compute."""
        return (*(() if self.predict is None else (self.predict.simulation,)), *self.simulations)

    def simulation(self, name: str) -> Simulation:
        """By name; ``predict`` is one too. Raises `InputError`."""
        for one in self.cells:
            if one.name == name:
                return one
        refuse(f"model {self.name} has no simulation {name!r}: use one of {', '.join(one.name for one in self.cells)}")

    def users(self, name: str) -> list[str]:
        """Commands that use an option."""
        asked = (("predict", self.predict), ("compare", self.compare))
        found = [f"{command}{self.flag}" for command, one in asked if one is not None and name in one.uses]
        return found + [f"simulate {one.name}" for one in self.simulations if name in one.uses]

    @property
    def flag(self) -> str:
        """What names the model on a command line, where anything must."""
        return "" if self.name == DEFAULT else f" --model {self.origin or self.name}"
