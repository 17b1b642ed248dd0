"""The theory under test: any entry point of `theory` that claims use may be replaced, and no claim knows of it.

An entry point is a public function or class of `theory` that a module of the claims or of their experiments refers to, by its
own name or through a module (``phases.predict_phases``). They are found by walking these modules. While a replaced theory is
in force, the names of these modules stand for the replacements; `theory` itself, and all that simulates, stays as it is.
What was computed before a claim runs, such as a constant of its module, is computed by the built-in theory.
"""

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from pkgutil import walk_packages
from types import FunctionType, ModuleType
from typing import Any, ParamSpec, TypeVar, cast

from theory import InputError

Entry = Callable[..., Any]
P = ParamSpec("P")
T = TypeVar("T")
#: What is in force: entry point → what stands for it.
_replaced: dict[Any, Any] = {}
_WALKED = ("validation.claims", "validation.experiments")


@dataclass(frozen=True)
class Reference:
    """Where a module refers to an entry point: the name there, and the attribute where that name is a module's."""

    module: ModuleType
    name: str
    attribute: str = ""


@dataclass(frozen=True)
class TheoryUnderTest:
    """What stands for entry points of `theory`, to test a conjecture, or a formula broken on purpose.

    Raises: `InputError` for what is no entry point, and for a replacement that cannot be called.

    Example:
        ``TheoryUnderTest({theory.overlap_flow: mine})`` judges your own overlap flow by the built-in claims.
    """

    replaced: Mapping[Entry, Entry] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "replaced", dict(self.replaced))
        for entry, mine in self.replaced.items():
            if entry not in entry_points():
                raise InputError(f"{name_of(entry)} is replaced, but no claim uses it: replace one of entry_points()")
            if not callable(mine):
                raise InputError(f"{name_of(entry)} is replaced by {mine!r}, which cannot be called: give a function")

    def __hash__(self) -> int:
        return hash(frozenset(self.replaced.items()))

    @property
    def text(self) -> str:
        return f"the caller's own: {', '.join(map(name_of, self.replaced)) or 'nothing'}"

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Claims and experiments use the replacements within; not for several threads at once."""
        found = [(reference, mine) for entry, mine in self.replaced.items() for reference in entry_points()[entry]]
        saved = [(reference, vars(reference.module)[reference.name]) for reference, _ in found]
        if found:
            _forget()
        before = dict(_replaced)
        try:
            _replaced.update(self.replaced)
            for reference, mine in found:
                _bind(reference, mine)
            yield
        finally:
            _replaced.clear()
            _replaced.update(before)
            for reference, value in reversed(saved):
                setattr(reference.module, reference.name, value)
            if found:
                _forget()


def built_in(entry: T) -> T:
    """The entry point itself, whatever stands for it: for sizes and allowances, so that no theory allows for its errors."""
    return next((right for right, mine in _replaced.items() if mine is entry), entry)


def name_of(entry: Any) -> str:
    """Full name of an entry point: ``theory.one_task.plateau.plateau``."""
    return f"{getattr(entry, '__module__', '')}.{getattr(entry, '__qualname__', repr(entry))}".lstrip(".")


_once: Callable[..., Any] = lru_cache(maxsize=256)(lambda function, *args, **kwargs: function(*args, **kwargs))


def once(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """A derivation made once per process, so that claims and seeds share it, and the code compiled for it."""
    found: T = _once(function, *args, **kwargs)
    return found


@lru_cache(maxsize=1)
def walked() -> tuple[ModuleType, ...]:
    """The modules of the claims and of their experiments."""
    found = [
        entry
        for package in _WALKED
        for entry in walk_packages(import_module(package).__path__, f"{package}.")
        if not entry.ispkg
    ]
    return tuple(import_module(entry.name) for entry in sorted(found, key=lambda one: one.name))


@lru_cache(maxsize=1)
def entry_points() -> dict[Entry, tuple[Reference, ...]]:
    """Every entry point, and where it is referred to, in the order of their names."""
    found: dict[Entry, list[Reference]] = {}
    for module in walked():
        for reference, value in _references(module):
            found.setdefault(value, []).append(reference)
    return {entry: tuple(dict.fromkeys(found[entry])) for entry in sorted(found, key=name_of)}


def _references(module: ModuleType) -> Iterator[tuple[Reference, Entry]]:
    aliases: dict[str, ModuleType] = {}
    for name, value in vars(module).items():
        if _is_entry(value):
            yield Reference(module, name), value
        elif isinstance(value, ModuleType) and _of_theory(value.__name__):
            aliases[name] = value
    for node in ast.walk(ast.parse(inspect.getsource(module))) if aliases else ():
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in aliases:
                if _is_entry(used := getattr(aliases[name], attribute, None)):
                    yield Reference(module, name, attribute), cast(Entry, used)


def _of_theory(module: str) -> bool:
    return module.split(".")[0] == "theory"


def _is_entry(value: Any) -> bool:
    """Whether it is a public function (cached or not) or class of `theory`, and no exception."""
    made = inspect.isclass(value) or isinstance(inspect.unwrap(value) if callable(value) else value, FunctionType)
    if not made or not _of_theory(value.__module__ or "") or value.__qualname__.startswith("_"):
        return False
    return not (inspect.isclass(value) and issubclass(value, BaseException))


def _bind(reference: Reference, mine: Entry) -> None:
    """Let the name stand for `mine`; a module's name for a module like it, so that the module itself stays as it is."""
    if not reference.attribute:
        setattr(reference.module, reference.name, mine)
        return
    alias = vars(reference.module)[reference.name]
    stand_in = ModuleType(alias.__name__, alias.__doc__)
    vars(stand_in).update(vars(alias) | {reference.attribute: mine})
    setattr(reference.module, reference.name, stand_in)


def _forget() -> None:
    """Empty the caches of the walked modules that do not tell one theory from another by their context."""
    for module in walked():
        cached = (x for x in vars(module).values() if hasattr(x, "cache_clear") and x.__module__ == module.__name__)
        for function in cached:
            if "context" not in inspect.signature(function).parameters:
                function.cache_clear()
