"""A formula broken by five per cent, whatever it returns: by a factor, in an exponent, by a term that is dropped."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, wraps
from types import new_class
from typing import Any

import numpy as np
import sympy as sp

from theory import System
from theory.core.indexed import Sums, Term

#: By what a factor or an exponent is wrong.
WRONG = sp.Rational(21, 20)
_PARTS = ("drift", "noise", "covariance", "observables", "closed_form")


@dataclass(frozen=True)
class Break:
    """A way to be wrong: what it makes of numbers (None: leaves them), of an expression, and of sums of terms."""

    name: str
    number: Callable[[np.ndarray], np.ndarray] | None
    expression: Callable[[sp.Expr], sp.Expr]
    sums: Callable[[Sums], Sums]


def _signed_power(base: sp.Expr, exponent: sp.Expr) -> sp.Expr:
    """base^(1.05·exponent), real also where the base is negative and the exponent whole."""
    if not exponent.is_integer:
        return base ** (WRONG * exponent)
    sign = sp.sign(base) if exponent.is_odd else sp.Integer(1)
    return sign * sp.Abs(base) ** (WRONG * exponent)


def _wrong_exponent(expression: sp.Expr) -> sp.Expr:
    """The first power of symbols with its exponent 5 % larger; the whole as a base where there is none."""
    powers = sorted((x for x in expression.atoms(sp.Pow) if x.base.free_symbols), key=sp.default_sort_key)
    if powers:
        return expression.xreplace({powers[0]: _signed_power(*powers[0].args)})
    return _signed_power(expression, sp.Integer(1))


def _in_first_term(sums: Sums) -> Sums:
    """The first term with a wrong exponent of its first indexed symbol."""
    first, *rest = sums
    indexed = sorted(first.body.atoms(sp.Indexed), key=sp.default_sort_key)
    body = first.body.xreplace({indexed[0]: indexed[0] ** WRONG}) if indexed else _wrong_exponent(first.body)
    return Sums((Term(body, first.bound), *rest))


def _without_first(expression: sp.Expr) -> sp.Expr:
    """The first sum in the expression without its first term; the expression itself where there is no sum."""
    if expression.is_Add:
        return expression - expression.as_ordered_terms()[0]
    inner = sorted((x for x in expression.atoms(sp.Add) if x.free_symbols), key=sp.default_sort_key)
    return expression.xreplace({inner[0]: _without_first(inner[0])}) if inner else expression


BREAKS = (
    Break("factor", lambda x: 1.05 * x, lambda x: WRONG * x, lambda x: Sums(Term(WRONG * y.body, y.bound) for y in x)),
    Break("exponent", lambda x: np.sign(x) * np.abs(x) ** 1.05, _wrong_exponent, _in_first_term),
    Break("term", None, _without_first, lambda x: Sums(x[1:]) if len(x) > 1 else x),
)


class Broken:
    """Makes a wrong entry point of a right one. What is called within it stays right, so that it errs once.

    Attributes: `changed`, whether anything came back wrong so far; `summed`, whether anything that did was an expression.
    """

    def __init__(self, how: Break) -> None:
        self.how, self.changed, self.summed, self._inside = how, False, False, False

    def entry(self, entry: Any) -> Any:
        """What stands for the entry point: a function, or a class whose methods and properties err."""
        return self._class(entry) if inspect.isclass(entry) else self._function(entry)

    def _function(self, right: Callable[..., Any], made: type | None = None) -> Callable[..., Any]:
        @wraps(right)
        def wrong(*args: Any, **kwargs: Any) -> Any:
            return self._call(lambda: right(*args, **kwargs), made)

        return wrong

    def _call(self, right: Callable[[], Any], made: type | None) -> Any:
        """What `right` returns, broken; not within another call, nor an object of the class `made`: its inputs are right."""
        if self._inside:
            return right()
        self._inside = True
        try:
            found = right()
            return found if made is not None and isinstance(found, made) else self._of(found)
        finally:
            self._inside = False

    def _of(self, value: Any) -> Any:
        match value:
            case bool() | int() | str() | None | np.integer():
                return value
            case float() | np.floating():
                return float(self._number(np.asarray(value)))
            case np.ndarray():
                return self._number(value) if np.issubdtype(value.dtype, np.floating) else value
            case Sums():
                return self._noted(value, self.how.sums(value)) if value else value
            case sp.MatrixBase():
                return value.applyfunc(self._of)
            case sp.Expr():
                return self._noted(value, self.how.expression(value))
            case System():
                return replace(value, **{name: self._of(getattr(value, name)) for name in _PARTS})
            case Mapping():
                return {name: self._of(one) for name, one in value.items()}
            case tuple() | list():
                parts = [self._of(one) for one in value]
                return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
        if is_dataclass(value) and not isinstance(value, type):
            return self._record(value)
        return self._function(value) if inspect.isroutine(value) else value

    def _number(self, value: np.ndarray) -> np.ndarray:
        if self.how.number is None:
            return value
        found = self.how.number(value)
        self.changed |= not np.array_equal(found, value, equal_nan=True)
        return found

    def _noted(self, right: Any, wrong: Any) -> Any:
        self.changed |= bool(wrong != right)
        self.summed = True
        return wrong

    def _record(self, value: Any) -> Any:
        """With its numbers and expressions broken; where it holds none, with what it computes broken."""
        held = {field.name: getattr(value, field.name) for field in fields(value)}
        kinds = (float, np.ndarray, sp.Expr, Sums, System, Mapping)
        wrong = {name: self._of(one) for name, one in held.items() if isinstance(one, kinds)}
        same = all(wrong[name] is held[name] for name in wrong)
        new: Any = object.__new__(self._class(type(value)) if same else type(value))
        for name, one in (held | wrong).items():
            object.__setattr__(new, name, one)
        return new

    def _class(self, right: type) -> type:
        """A class like `right` whose public methods and properties err."""
        inputs = {field.name for field in fields(right)} if is_dataclass(right) else set()
        members = {
            name: inspect.getattr_static(right, name)
            for name in dir(right)
            if (name == "__call__" or not name.startswith("_")) and name not in inputs
        }
        wrong = {name: self._member(member, right) for name, member in members.items()}
        made = new_class(right.__name__, (right,), {}, lambda space: space.update(wrong))
        made.__module__, made.__qualname__ = right.__module__, right.__qualname__
        return made

    def _member(self, member: Any, owner: type) -> Any:
        match member:
            case classmethod() | staticmethod():
                return type(member)(self._function(member.__func__, owner))
            case property() | cached_property():
                return property(lambda one: self._call(lambda: member.__get__(one, owner), owner))
        if callable(member) and (getattr(member, "__module__", None) or "").startswith("theory."):
            return self._function(member, owner)
        return member
