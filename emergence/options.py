r"""A problem as data: a frozen dataclass whose fields are its options, each with its default, its check and its help.

From the fields come flags, keys of configuration files, axes of sweeps, help and the tables of the documentation.
Importing this module imports neither SymPy nor JAX nor NumPy, so that the command line answers ``--help`` at once.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ClassVar

from emergence.refusal import refuse
from emergence.values import MANY, Expression, Kind


def option(default: Any, kind: Kind, help: str, *, free: bool = False, also: str = "") -> Any:
    """An option of a problem. `free`: it does not change the result, and has no part in the name of what is written.

    `also`: another name of its flag, and what that counts.
    """
    return field(default=default, metadata={"kind": kind, "help": help, "free": free, "also": also})


@dataclass(frozen=True)
class Problem:
    r"""What all problems have in common: values are checked on construction, `None` means "not given".

    A default that depends on the rest of the problem is decided where it is resolved. Raises `theory.InputError` naming
    the option, its value and the remedy.
    """

    #: Giving the first as a flag sets aside the others where they come from a configuration file.
    rivals: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def __post_init__(self) -> None:
        for name, value in check_values(type(self), {one: getattr(self, one) for one in options(type(self))}).items():
            object.__setattr__(self, name, value)
        self.check()

    def check(self) -> None:
        """What must hold between options. Raises `InputError`."""

    def read(self) -> None:
        """Read the expressions, and whatever else stands as a text, as a run does (SymPy takes seconds to import).

        Raises `InputError` for one that is not understood.
        """
        from theory import Activation

        for name, one in options(type(self)).items():
            if isinstance(one.metadata["kind"], Expression):
                Activation.parse(getattr(self, name))

    def decided(self) -> dict[str, Any]:
        """Options whose defaults follow from others, at their values; part of what is echoed and of a cell's name."""
        return {}


def options(problem: type[Problem]) -> dict[str, Field[Any]]:
    """The options of a problem by field name."""
    return {one.name: one for one in fields(problem)}


def kind(problem: type[Problem], name: str) -> Kind:
    """Of one option."""
    return options(problem)[name].metadata["kind"]


def free(problem: type[Problem]) -> tuple[str, ...]:
    """Options that do not change a result."""
    return tuple(name for name, one in options(problem).items() if one.metadata["free"])


def once(problem: Problem, full: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A full problem so that it can be given again, and what follows from it.

    Of two options that exclude each other (`Problem.rivals`, both ways) it has the one that was given; where neither was,
    the later one (a run's time, from which its steps follow).
    """
    rivals, follows = type(problem).rivals, dict[str, Any]()
    for place, name in enumerate(order := list(options(type(problem)))):
        for rival in rivals.get(name, ()):
            given = getattr(problem, rival) != default(type(problem), rival)
            weaker = given or order.index(rival) > place
            excludes = name in rivals.get(rival, ()) and full.get(rival) is not None
            if excludes and weaker and getattr(problem, name) is None and full.get(name) is not None:
                follows[name] = full[name]
    return {name: value for name, value in full.items() if name not in follows}, follows


def sweepable(problem: type[Problem]) -> list[str]:
    """Options that a sweep may vary, as they are written."""
    return [
        written(name)
        for name, one in options(problem).items()
        if not isinstance(one.metadata["kind"], MANY) and not one.metadata["free"]
    ]


def default(problem: type[Problem], name: str) -> Any:
    """Of one option; None if it has none of its own."""
    found = options(problem)[name].default
    return None if found is MISSING else found


def check_values(problem: type[Problem], values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Values by field name, each checked by its kind; None where that is the default. `prefix` goes before its name.

    Raises `InputError`.
    """
    return {
        name: None
        if value is None and default(problem, name) is None
        else kind(problem, name).check(prefix + written(name), value)
        for name, value in values.items()
    }


def merged(problem: type[Problem], base: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Flags, each checked, over the values of a file; a flag sets aside its rivals there.

    Raises `InputError` for a flag's value that is none.
    """
    given = check_values(problem, flags, prefix="--")
    aside = {rival for flag in given for rival in problem.rivals.get(flag, ())}
    return {name: value for name, value in base.items() if name not in aside} | given


def help_of(problem: type[Problem], name: str) -> str:
    """What an option means, and its default."""
    value = default(problem, name)
    plain = value is None or isinstance(value, bool) or value == ()
    text = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return str(options(problem)[name].metadata["help"]) + ("" if plain else f" (default: {text})")


def written(name: str) -> str:
    """A field's name as flags and messages have it."""
    return name.replace("_", "-")


def refuse_unused(name: str, prefix: str, command: str, others: list[str], most: int = 4) -> None:
    """An option is given that `command` does not use: the line names what does. Raises `InputError`."""
    more = ", …" if len(others) > most else ""
    found = f" ({', '.join(others[:most])}{more} {'does' if len(others) == 1 else 'do'})" if others else ""
    refuse(f"{prefix}{written(name)} is given, but {command} does not use it{found}: leave it out")
