"""Kinds of values that options take: one rule for flags, TOML keys and Python callers, so one message for all three."""

import math
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from emergence.refusal import refuse

#: Whole numbers up to here are exact as doubles too, so they survive JSON and every array type.
MAX_WHOLE = 2**53
#: A number with a power of ten, and no more digits than it can have.
_POWER = re.compile(r"[0-9]{1,17}(\.[0-9]{1,17})?[eE]\+?[0-9]{1,2}")
#: Positive numbers stay in this range so that their squares neither vanish nor overflow.
SMALLEST, LARGEST = 1e-100, 1e100


@dataclass(frozen=True)
class Kind(ABC):
    """A kind of value: `read` turns a flag's text into a value, `check` accepts a value or refuses it by name."""

    @property
    @abstractmethod
    def remedy(self) -> str:
        """What to give instead, in the imperative."""

    @abstractmethod
    def accepts(self, value: Any) -> bool: ...

    def read(self, text: str) -> Any:
        """The value a flag's text stands for; the text itself if it stands for none, for `check` to refuse."""
        return text

    def clean(self, value: Any) -> Any:
        """An accepted value in its standard type."""
        return value

    def check(self, name: str, value: Any) -> Any:
        """The value in its standard type. Raises `InputError` naming `name`, the value and the remedy."""
        if not self.accepts(value):
            refuse(f"{name} is {self.seen(value)}: {self.remedy_of(value)}")
        return self.clean(value)

    def seen(self, value: Any) -> str:
        """A refused value as one short line."""
        return shown(value)

    def remedy_of(self, value: Any) -> str:
        """The remedy for this value."""
        return self.remedy

    def halved(self, value: Any) -> Any:
        """An accepted value that is a size of the problem, halved, or itself if it has no half; None for what is no size."""
        return None


@dataclass(frozen=True)
class Text(Kind):
    """A text that is not blank."""

    example: str

    @property
    def remedy(self) -> str:
        return f"give a text such as {self.example}"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and bool(value.strip())


@dataclass(frozen=True)
class Expression(Text):
    """An activation. It is read only where it is needed: SymPy takes seconds to import."""

    example: str = "h4"


@dataclass(frozen=True)
class Said(Text):
    """A text, or the number that is its shortest form; one text for each number, however it is written."""

    def accepts(self, value: Any) -> bool:
        return super().accepts(value) or (isinstance(value, int | float) and not isinstance(value, bool))

    def clean(self, value: Any) -> str:
        text = str(value).strip()
        for read in (int, float):
            try:
                return str(read(text))
            except ValueError:
                continue
        return text


@dataclass(frozen=True)
class Choice(Kind):
    """One of a few names."""

    options: tuple[str, ...]

    @property
    def remedy(self) -> str:
        return f"use one of {', '.join(self.options)}"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.options


@dataclass(frozen=True)
class Switch(Kind):
    """True or false."""

    @property
    def remedy(self) -> str:
        return "give true or false"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, bool)


@dataclass(frozen=True)
class Whole(Kind):
    """A whole number from `least` to 2⁵³; 4.0 is not one, but 1e6 on a command line is."""

    least: int = 1

    @property
    def remedy(self) -> str:
        return f"give a whole number, {self.least} or more (at most 2**53)"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= MAX_WHOLE

    def seen(self, value: Any) -> str:
        return _as_written(value)  # 5.0 is refused for its point

    def read(self, text: str) -> Any:
        try:
            return int(text)
        except ValueError:
            return _whole(text)

    def halved(self, value: Any) -> Any:
        return value // 2 or value


def _whole(text: str) -> Any:
    """1e6 and 2.5e3 as they are written on a command line; any other text as it is."""
    if _POWER.fullmatch(text) is None:
        return text
    number = Decimal(text)
    return int(number) if number == number.to_integral_value() else text


@dataclass(frozen=True)
class Number(Kind):
    """A finite number; positive (1e-100 to 1e100), or also 0 if `zero`."""

    zero: bool = False

    @property
    def remedy(self) -> str:
        return f"give a finite number, {'0 or more' if self.zero else 'above 0'} (1e-100 to 1e100)"

    def accepts(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        # An int is compared exactly, so a huge one is refused rather than overflowing on its way to a float.
        return SMALLEST <= value <= LARGEST or (self.zero and value == 0)

    def read(self, text: str) -> Any:
        try:
            return float(text)
        except ValueError:
            return text

    def clean(self, value: Any) -> float:
        return abs(float(value))  # -0.0 passes as 0


class Share(Number):
    """A number above 0, or 0 if `zero` is set, and at most 1."""

    @property
    def remedy(self) -> str:
        return "give a number from 0 to 1" if self.zero else "give a number above 0, at most 1"

    def accepts(self, value: Any) -> bool:
        return super().accepts(value) and value <= 1


class Many(Kind):
    """One or more of a kind."""

    one: ClassVar[Kind]

    def accepts(self, value: Any) -> bool:
        return isinstance(value, list | tuple) and len(value) > 0 and all(self.one.accepts(item) for item in value)

    def seen(self, value: Any) -> str:
        return _as_written(value)

    def remedy_of(self, value: Any) -> str:
        if self.one.accepts(value):
            return f"give a list, [{_as_written(value)}]"
        listed = isinstance(value, list | tuple) and any(isinstance(item, str) and "," in item for item in value)
        return f"{self.remedy}{', separated by spaces, not commas' if listed else ''}"

    def read(self, text: str) -> Any:
        return self.one.read(text)


@dataclass(frozen=True)
class Numbers(Many):
    """One or more positive numbers."""

    one: ClassVar = Number()

    @property
    def remedy(self) -> str:
        return f"give one or more numbers, each above 0 and finite ({SMALLEST:g} to {LARGEST:g})"

    def clean(self, value: Any) -> tuple[float, ...]:
        return tuple(float(item) for item in value)


@dataclass(frozen=True)
class Wholes(Many):
    """One or more whole numbers, 1 or more each."""

    one: ClassVar = Whole()

    @property
    def remedy(self) -> str:
        return "give one or more whole numbers, each 1 or more (at most 2**53)"

    def clean(self, value: Any) -> tuple[int, ...]:
        return tuple(value)


#: Kinds whose values are several.
MANY = (Numbers, Wholes)


def shown(value: Any) -> str:
    """A value as one short line, for a message."""
    text = f"[{', '.join(shown(item) for item in value[:8])}]" if isinstance(value, list | tuple) else _plain(value)
    return text if len(text) <= 80 else text[:79] + "…"


def _as_written(value: Any) -> str:
    """The same with the point of numbers that are no whole ones: 5.0 is not 5."""
    if isinstance(value, list | tuple) and any(isinstance(item, float) for item in value):
        text = f"[{', '.join(map(_as_written, value[:8]))}]"
        return text if len(text) <= 80 else text[:79] + "…"
    return repr(value) if isinstance(value, float) else shown(value)


def _plain(value: Any) -> str:
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:g}"
    if isinstance(value, int) and abs(value) > 10 * MAX_WHOLE:
        return "a number above 2**53" if value > 0 else "a number below -2**53"  # printing it could take forever
    return repr(value)
