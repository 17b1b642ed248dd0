r"""Parts of a declared model as text: ``blocks(3x6, 1x14)``, ``momentum(0.9, kind=nesterov)``, ``power(0.1, 0.5)``.

A text is a name, with arguments in brackets as a call in Python has them; 3x6 is a pair. Which arguments a name takes, and of
which kind, is read off the class or function that it stands for, so that a new one needs no parser. (Names are
the field's: ``spiked`` covariances after Johnstone 2001, Ann. Statist. 29, 295.)
"""

import inspect
import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from types import UnionType
from typing import Any, Union, get_args, get_origin

from theory.core.arguments import check_positive
from theory.core.errors import InputError, did_you_mean
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.rule import RULES, Rule
from theory.declared.schedule import Linear, Power, Schedule
from theory.declared.target import Classes, Polynomial, Target

_CALL = re.compile(r"\s*([A-Za-z][A-Za-z_-]*)\s*(?:\((.*)\))?\s*\Z", re.DOTALL)
_CLASSES = re.compile(r"\s*sign\s*\((.*)\)\s*\Z", re.DOTALL)
#: What rules have in common: no part of a rule's own text.
COMMON = frozenset(one.name for one in fields(Rule))

INPUTS: Mapping[str, Callable[..., Inputs]] = {
    "isotropic": Inputs.isotropic,
    "blocks": Inputs.blocks,
    "spiked": Inputs.spiked,
    "power-law": Inputs.power_law,
}
SCHEDULES: Mapping[str, Callable[..., Schedule]] = {"power": Power, "linear": Linear}


def _orthonormal(inputs: Inputs, count: int, seed: int) -> Directions:
    return Directions.orthonormal(inputs, count, seed)


def _random(inputs: Inputs, count: int, seed: int, variance: float = 1.0) -> Directions:
    check_positive(variance=variance)
    return Directions.random(inputs, count, variance, seed)


def _eigenvectors(inputs: Inputs, count: int, seed: int, *places: int, variance: float | None = None) -> Directions:
    check_positive(variance=1.0 if variance is None else variance)
    return Directions.eigenvectors(inputs, places or range(count), variance)


DIRECTIONS: Mapping[str, Callable[..., Directions]] = {
    "orthonormal": _orthonormal,
    "random": _random,
    "eigenvectors": _eigenvectors,
}


def parse_inputs(text: str) -> Inputs:
    """``512``, ``isotropic(512)``, ``blocks(3x6, 1x14)``, ``spiked(512, 5, 3)``, ``power-law(1000, 1.2, bins=8)``.

    Raises `InputError`.
    """
    called = f"isotropic({text})" if text.strip().isdecimal() else text
    return construct("inputs", called, INPUTS, shown=text)


def read_target(text: str) -> Target:
    """A polynomial of fields, ``z1 + z1*z2``, or the classes ``sign(z1 + z1*z2)``. Raises `InputError`."""
    classes = _CLASSES.match(text)
    return Classes(Polynomial.parse(classes[1])) if classes else Polynomial.parse(text)


def parse_directions(text: str, inputs: Inputs, count: int, seed: int = 0) -> Directions:
    """``orthonormal``, ``random(0.5)`` with a variance of the fields, ``eigenvectors(0, 3)`` by places from 0.

    Raises `InputError`.
    """
    return construct("directions", text, DIRECTIONS, {"inputs": inputs, "count": count, "seed": seed})


def parse_step_size(text: str) -> float | Schedule:
    """A number, or a schedule: ``power(0.1, 0.5)``, ``linear(0.1, 0, 1000)``. Raises `InputError`."""
    try:
        return float(text)
    except ValueError:
        return construct("step-size", text, SCHEDULES, more="a number, or ")


def parse_rule(text: str, **common: Any) -> Rule:
    """A rule by name, with its own fields: ``sgd``, ``momentum(0.9, kind=nesterov)``; `common`: the fields of every rule.

    Raises `InputError`.
    """
    return construct("rule", text, RULES, common, COMMON)


def construct(
    what: str,
    text: str,
    known: Mapping[str, Callable[..., Any]],
    given: Mapping[str, Any] | None = None,
    reserved: Collection[str] = (),
    *,
    shown: str | None = None,
    more: str = "",
) -> Any:
    """Call what `text` names with the arguments that it has and those `given`.

    Args:
        what, shown, more: name and text of the argument, and what else it may be, for refusals. reserved: arguments that
            are given elsewhere or not at all.

    Raises:
        InputError: an unknown name; arguments that it does not take; whatever it refuses itself.
    """
    given, shown = given or {}, text if shown is None else shown
    match = _CALL.match(text)
    name = match[1].lower().replace("_", "-") if match else ""
    if match is None or name not in known:
        usages = ", ".join(_usage(one, _own(function, given, reserved)) for one, function in known.items())
        raise InputError(f"{what} is {shown!r}: {did_you_mean(name, known) if name else ''}use {more}{usages}")
    function, words = known[name], (match[2] or "").strip()
    own = _own(function, given, reserved)
    try:
        arguments = _arguments([word.strip() for word in words.split(",")] if words else [], own)
    except ValueError as problem:
        raise InputError(f"{what} is {shown!r}: {problem}: use {_usage(name, own)}") from None
    signature = inspect.signature(function, eval_str=True)
    bound = inspect.BoundArguments(signature, OrderedDict())
    bound.arguments.update((one, x) for one in signature.parameters for x in _found(one, {**arguments, **given}))
    return function(*bound.args, **bound.kwargs)


def _found(name: str, values: Mapping[str, Any]) -> list[Any]:
    return [values[name]] if name in values else []


def _own(function: Callable[..., Any], *others: Collection[str]) -> dict[str, inspect.Parameter]:
    """What a text may say of a function's arguments."""
    parameters = inspect.signature(function, eval_str=True).parameters
    return {name: one for name, one in parameters.items() if not any(name in x for x in others)}


def _usage(name: str, own: Mapping[str, inspect.Parameter]) -> str:
    """How it is written."""
    shown = [
        f"{'3x6' if get_origin(one.annotation) is tuple else one.name}, …"
        if one.kind is one.VAR_POSITIONAL
        else one.name
        if one.default is one.empty
        else f"{one.name}={one.default}"
        for one in own.values()
    ]
    return f"{name}({', '.join(shown)})" if shown else name


def _arguments(words: Sequence[str], own: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
    """Values by name, those of a starred argument together. Raises `ValueError` with what is wrong."""
    found: dict[str, Any] = {}
    places = list(own.values())
    for place, word in enumerate(words):
        name, equals, value = (x.strip() for x in word.partition("="))
        starred = next((one for one in places[: place + 1] if one.kind is one.VAR_POSITIONAL), None)
        if equals:
            if name not in own or own[name].kind is inspect.Parameter.VAR_POSITIONAL:
                raise ValueError(f"it takes no {name!r}")
            if name in found:
                raise ValueError(f"{name} is given twice")
            found[name] = _value(name, value, own[name].annotation)
        elif starred is not None:
            found[starred.name] = (*found.get(starred.name, ()), _value(starred.name, word, starred.annotation))
        elif place < len(places) and places[place].kind is not inspect.Parameter.KEYWORD_ONLY:
            found[places[place].name] = _value(places[place].name, word, places[place].annotation)
        else:
            raise ValueError(f"{word!r} is one argument too many")
    for one in places:
        if one.default is one.empty and one.kind is not one.VAR_POSITIONAL and one.name not in found:
            raise ValueError(f"{one.name} is missing")
    return found


def _value(name: str, word: str, annotation: Any) -> Any:
    """A word as the kind of value that an argument takes. Raises `ValueError`."""
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    if get_origin(annotation) is tuple:
        parts = word.split("x")
        if len(parts) != len(get_args(annotation)):
            raise ValueError(f"{word!r} is no pair such as 3x6")
        return tuple(_value(name, part, kind) for part, kind in zip(parts, get_args(annotation), strict=True))
    if str in kinds:
        return word
    for kind in (int, float):
        if kind in kinds:
            try:
                return kind(word)
            except ValueError:
                continue
    raise ValueError(f"{name} is {word!r}, not a {'whole ' if int in kinds else ''}number")
