"""Hostile command lines and files, drawn from the table of every option that there is.

Options, their kinds and choices are read off the parser, which is made of the models' records; so a new command, model or
option is attacked without a line here. Each input is run to where a simulation would begin (`attempts`).

``python tests/support/fuzzing.py --seed 0`` goes on until it is stopped, and prints what it finds. Seed and number are an
input: ``--first 1000`` goes on where a run of 1000 ended, and ``--first 412 --count 1`` is one of them again.
"""

import argparse
import itertools
import json
import os
import random
import re
import shlex
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from attempts import STARTED, Attempt, Server
from hostile_files import hostile

from emergence import models
from emergence.arguments import parser
from emergence.options import kind, options, sweepable, written
from emergence.values import MANY, Choice, Expression, Kind, Number, Numbers, Switch, Text, Whole, Wholes
from theory.core.activation_text import ACTIVATION
from theory.declared import text as declared

#: How an input may end, by its status; and after how many inputs a word is said.
ENDS = {0: "done", 1: "done", 2: "refused", STARTED: "to be simulated", None: "killed"}
TOLD = 1000
#: Memory that looks like a folder, where there is one: most of what a refusal takes is files that are made and removed.
QUICK = "/dev/shm" if os.access("/dev/shm", os.W_OK) and shutil.disk_usage("/dev/shm").free > 1e9 else None

JUNK = (
    "", " ", "-", "--", "=", "\0", "\n", "a\nb", "\t", "é", "½", "٣", "𝟛", "\u202e", "\ud800", "🜨", "'", '"', "%s", "%", "{}",
    "$HOME", "~", "None", "null", "true", "nan", "[]", "{", "1,2", "1;2", "0x10", "1_000", "z", "h4", "__import__('os')", "..",
    "a" * 5000, "9" * 5000, "(" * 3000 + "z" + ")" * 3000, "[" * 100_000, "-" * 3000 + "1", "z" + "+z" * 3000,
)  # fmt: skip
WHOLES = ("-1", "0", "1", "2", "3", "7", "33", "100", "5000", "100000", "10000000", "1000000000", str(2**31), str(2**53),
          str(2**53 + 1), str(2**64), "4.0", "1e3", "٣", "9" * 4400)  # fmt: skip
NUMBERS = ("-1", "-0.0", "0", "0.5", "1", "2", "1e-3", "1e3", "1e-8", "1e8", "1e-30", "1e30", "1e-90", "1e90", "1e-100",
           "1e100", "1e-320", "1e308", "1e309", "inf", "-inf", "nan", "1e", "0x1p3")  # fmt: skip
_CONSTANTS = ("0", "1", "2", "3", "0.5", "1e-20", "1e20", "1e29", "1e-29", "40", "41", "7", "pi")


#: Command lines that once ended as internal errors, were killed, or took minutes or gigabytes; tried before any that is drawn.
ONCE = (
    ("predict", "--config", "/dev/zero"), ("predict", "--config", "/proc/self/mem"), ("sweep", "predict", "--config", "."),
    ("derive", "committee", "--activation", "erf(2*z)"), ("derive", "committee", "--activation", "erf(1e20*z)"),
    ("derive", "finite-step", "--activation", "exp(-exp(z))"), ("derive", "loss", "--activation", "(sin(z)+cos(z))**40"),
    ("derive", "gradient", "--activation", "+".join(f"tanh(z/{k})" for k in range(1, 10))),
    ("predict", "--activation", "tanh(" * 9 + "z" + ")" * 9, "--dim", "64", "--teacher-width", "2", "--student-width", "6"),
    ("predict", "--model", "linear", "--target-norm", "1e90"), ("predict", "--model", "linear", "--noise", "1e90"),
    ("simulate", "oscillation", "--step-size", "1e-90"), ("simulate", "pruning", "--widths", "1000000000"),
    ("simulate", "online-sgd", "--replicas", "100000000"), ("simulate", "online-sgd", "--batch", "100000000"),
    ("predict", "--teacher-weights", "1e-100", "1e100"), ("check-law", "sgd(" + "9" * 4400 + ")"),
    ("simulate", "declared-sgd", "--rule", "reuse(1000000000)"), ("simulate", "kernel-ridge", "--dim", "1000000000"),
    ("claims", "[" * 100_000), ("simulate", "label-noise", "--model", "linear", "--dim", "1000000000"),
    ("predict", "--model", "declared", "--noise", "1e-90"),
    ("predict", "--model", "declared", "--teacher-width", "1000000000"),
    ("compare", "--model", "quadratic", "--init-scale", "1e90"),
    ("compare", "--model", "quadratic", "--dim", "33", "--student-width", "2", "--steps", "10000000"),
    ("compare", "--model", "quadratic", "--teacher-width", "100", "--allow-unstable"),
    ("simulate", "toy", "--starts", "1e-30", "1e90"), ("simulate", "lazy-rich", "--data", "9" * 4400),
    ("simulate", "layer-wise", "--model", "layer-wise", "--teacher-exponent", "1e3"),
    ("compare", "--activation", "cos(sqrt(" + "+".join(f"exp(z/{k})" for k in range(1, 10)) + ")**-40)"),
    ("compare", "--model", "declared", "--student-width", "10000000"),
    ("simulate", "declared-sgd", "--time", "1e10", "--step-size", "1e-10"),
    ("compare", "--model", "declared", "--time", "1e10", "--step-size", "1e-10"),
    ("predict", "--model", "declared", "--student-width", "2147483648"),
    ("compare", "--model", "quadratic", "--steps", "5000", "--teacher-weights", "1e-100", "1e100", "2", "1e100", "1e30"),
    ("predict", "--model", "linear", "--step-size", "1e-90", "--label-flip", "-0.0", "--noise", "1e-100"),
    ("compare", "--model", "linear", "--batch", "9007199254740992"), ("derive", "loss", "--activation", "cos(cos(exp(1e29)))"),
    ("derive", "loss", "--activation", f"cos(({'+'.join(f'exp(z/{k})' for k in range(1, 10))})**-40)"),
)  # fmt: skip


@dataclass(frozen=True)
class Option:
    """What may be given: `flag` (None: by its place), the kind of its value if it has one, and choices."""

    flag: str | None
    field: str
    kind: Kind | None
    many: bool
    choices: tuple[str, ...]
    takes: bool
    named: str


# ------------------------------------------------------------------------------ the table


@cache
def table() -> dict[tuple[str, str], tuple[Option, ...]]:
    """(command, model) → everything that may be given to it, the command's places first."""
    found = {}
    for model in models.built_in().values():
        main_parser = parser(model, named=True)
        subparsers = next(x.choices for x in main_parser._actions if isinstance(x, argparse._SubParsersAction))
        for command, one in subparsers.items():
            entries = [_option(model.problem, action) for action in one._actions]
            found[command, model.name] = tuple(sorted(entries, key=lambda x: x.flag is not None))
    return found


def _option(problem: Any, action: argparse.Action) -> Option:
    flag = action.option_strings[0] if action.option_strings else None
    own = kind(problem, action.dest) if action.dest in options(problem) else getattr(action.type, "__self__", None)
    takes = not (action.nargs == 0 or isinstance(action, argparse.BooleanOptionalAction))
    choices = tuple(map(str, action.choices or ()))
    return Option(
        flag, action.dest, own, action.nargs in ("+", "*"), choices, takes, str(action.metavar or action.dest)
    )


# ------------------------------------------------------------------------------ values


class Drawing:
    """Draws an input from the seed; `folder` holds the hostile files, and those that are drawn come beside it."""

    def __init__(self, seed: str, folder: Path) -> None:
        self.random, self.folder = random.Random(seed), folder
        self.files = sorted(str(path) for path in folder.iterdir())
        self.configs = 0

    def argv(self) -> tuple[str, ...]:
        """A command line: often good but for one or two values, seldom wholly wrong."""
        command, model = self._command()
        entries = table()[command, model]
        words = [command]
        takes_model = any(one.flag == "--model" for one in entries)
        for one in (one for one in entries if one.flag is None):
            words += self._placed(one, model if takes_model else None)
        used = self._used(command, model, words[-1])
        if takes_model and self.random.random() < 0.9:
            words += ["--model", model]
        if command == "sweep":
            words += ["--over", self._over(model), "--workers", "1"]
        flags = [one for one in entries if one.flag not in (None, "--model", "-h", "--help")]
        flags = [
            one for one in flags if one.field not in options(models.built_in()[model].problem) or one.field in used
        ]
        for one in self.random.sample(flags, min(len(flags), self.random.choice((0, 1, 1, 2, 2, 3, 5)))):
            words += self._flag(one, model)
        if self.random.random() < 0.03:
            words.insert(self.random.randrange(len(words) + 1), self._junk())
        if self.random.random() < 0.3:
            words.append("--json")
        return tuple(words)

    def _command(self) -> tuple[str, str]:
        """Every command alike, with a model that can do something of it."""
        command = self.random.choice(sorted({command for command, _ in table()}))
        able = [model for one, model in sorted(table()) if one == command and _able(command, model)]
        return command, self.random.choice(able)

    def _used(self, command: str, model: str, what: str) -> frozenset[str]:
        """Options that the command does something with; now and then, all of them."""
        own = models.built_in()[model]
        parts = [getattr(own, command, None), *(one for one in own.cells if one.name == what)]
        found = [one.uses for one in parts if hasattr(one, "uses")]
        return found[0] if found and self.random.random() < 0.95 else frozenset(options(own.problem))

    def _placed(self, one: Option, model: str | None) -> list[str]:
        if self.random.random() < 0.04:
            return [self._junk()]
        if one.choices:
            own = models.built_in().get(model or "")
            mine = [x for x in one.choices if own is None or x in own.derivations or x in map(_name, own.cells)]
            return [self.random.choice(mine or one.choices)]
        return [
            self._file() if self.random.random() < 0.5 else self._text() for _ in range(self.random.choice((1, 1, 2)))
        ]

    def _flag(self, one: Option, model: str) -> list[str]:
        assert one.flag is not None
        if not one.takes:
            return [one.flag]
        if one.flag == "--config" and self.random.random() < 0.6:
            return [one.flag, self._config(model)]
        count = self.random.choice((1, 1, 2, 3, 8)) if one.many else 1
        return [one.flag, *(self.value(one) for _ in range(count))]

    def value(self, one: Option) -> str:
        """A value, mostly of the option's kind."""
        if self.random.random() < 0.06:
            return self._junk()
        if one.choices or isinstance(one.kind, Choice):
            return self.random.choice(one.choices or one.kind.options)
        if isinstance(one.kind, Expression) or one.named == "activation":
            return self.expression("z")
        if isinstance(one.kind, Whole | Wholes | Number | Numbers):
            return self._number(one.kind)
        if isinstance(one.kind, Text):
            return self._text()
        return self._file() if self.random.random() < 0.7 else self._text()

    def _number(self, own: Kind) -> str:
        """Mostly one that is accepted, however far out."""
        pool = WHOLES if isinstance(own, Whole | Wholes) else NUMBERS
        single = Whole(1) if isinstance(own, Wholes) else Number() if isinstance(own, Numbers) else own
        good = [x for x in pool if single.accepts(single.read(x))]
        return self.random.choice(good if self.random.random() < 0.85 else pool)

    def _junk(self) -> str:
        return self.random.choice(JUNK)

    def _file(self) -> str:
        return self.random.choice(
            (*self.files, "/dev/zero", "/dev/full", "/dev/null", "/dev/stdin", "/proc/self/mem", "/", ".")
        )

    def _over(self, model: str) -> str:
        problem = models.built_in()[model].problem
        name = self.random.choice([name for name in options(problem) if written(name) in sweepable(problem)])
        if self.random.random() < 0.2:
            return f"{name}={self.random.choice(('0:3', '0:1000000000', '0:9:0', '', 'h4,h4', '=', '1e3,'))}"
        own = Option(None, name, kind(problem, name), False, (), True, name)
        return f"{written(name)}={','.join(self.value(own) for _ in range(self.random.choice((1, 2, 3))))}"

    def expression(self, *names: str, depth: int = 5) -> str:
        """An expression of the grammar, deep and steep."""
        roll = self.random.random()
        if depth == 0 or roll < 0.2:
            return self.random.choice(
                (*names, *names, *_CONSTANTS, f"h{self.random.choice((0, 1, 2, 3, 4, 9, 40, 41))}")
            )
        inner = [self.expression(*names, depth=depth - 1) for _ in range(2)]
        if roll < 0.5:
            return f"{self.random.choice(ACTIVATION.known)}({inner[0]})"
        if roll < 0.6:
            return "*".join([f"({inner[0]})"] * self.random.choice((2, 9)))
        if roll < 0.7:
            return "+".join(f"{name}(z/{k + 1})" for k, name in enumerate([self.random.choice(ACTIVATION.known)] * 9))
        if roll < 0.8:
            return f"({inner[0]})**{self.random.choice(('2', '0.5', '-1', '40', '39.5', '-40', '0', '1e9'))}"
        return f"({inner[0]}){self.random.choice('+-*/')}({inner[1]})"

    def _text(self) -> str:
        """A text of any of the declared model's grammars, or an expression in fields."""
        tables = (declared.INPUTS, declared.SCHEDULES, declared.DIRECTIONS, declared.RULES)
        if self.random.random() < 0.3:
            return self.expression("z1", "z2", "h2(z1)", "z9", "z1000000", depth=3)
        name = self.random.choice([x for one in tables for x in one])
        given = [self._argument() for _ in range(self.random.choice((0, 1, 1, 2, 3, 4)))]
        return f"{name}({', '.join(given)})"

    def _argument(self) -> str:
        plain = self.random.choice((*NUMBERS, *WHOLES))
        return self.random.choice(
            (
                plain,
                plain,
                f"{plain}x{self.random.choice(WHOLES)}",
                f"bins={plain}",
                f"kind={plain}",
                f"variance={plain}",
            )
        )

    def _config(self, model: str) -> str:
        """A file with options of the model as TOML, some of the wrong type, in tables or twice."""
        problem = models.built_in()[model].problem
        names = self.random.sample(sorted(options(problem)), min(4, len(options(problem))))
        lines = [f"{self.random.choice((written(name), name))} = {self._toml(problem, name)}" for name in names]
        if self.random.random() < 0.2:
            lines += [
                self.random.choice(
                    ("[sweep]\nseed = '0:3'", "sweep = 3", "[dim]\nx = 1", "[[a]]", "model = 3", "\ud800")
                )
            ]
        self.configs += 1
        path = self.folder.with_name(f"drawn{self.configs}.toml")
        path.write_text("\n".join(lines), encoding="utf-8", errors="surrogatepass")
        return str(path)

    def _toml(self, problem: Any, name: str) -> str:
        own = kind(problem, name)
        value = self.value(Option(None, name, own, False, (), True, name))
        roll = self.random.random()
        if roll < 0.1:
            return self.random.choice(
                ("{a = 1}", "[]", "[[1]]", "1979-05-27", "true", "'" + "x" * 900 + "'", "[" * 99 + "]" * 99)
            )
        if isinstance(own, Switch):
            return self.random.choice(("true", "false", "1", "'true'"))
        if isinstance(own, MANY):
            return f"[{value}, {value}]"
        return value if isinstance(own, Whole | Number) else json.dumps(value)


def _able(command: str, model: str) -> bool:
    own = models.built_in()[model]
    if command == "derive":
        return bool(own.derivations)
    return getattr(own, command, own) is not None


def _name(simulation: Any) -> str:
    return str(simulation.name)


# ------------------------------------------------------------------------------ without end


def drawn(seed: int, number: int, folder: Path) -> tuple[str, ...]:
    """Input `number` of a seed: those that were found once come first, each other one is drawn by itself."""
    if number < len(ONCE):
        return ONCE[number]
    return Drawing(f"{seed}/{number}", folder).argv()


def _shown(name: str, one: Attempt) -> str:
    words = " ".join(shlex.quote(word if len(word) < 200 else f"{word[:80]}…({len(word)})") for word in one.argv)
    last = one.err.strip().splitlines()[-1:] or [""]
    return re.sub(r"[\ud800-\udfff]", "?", f"{name}, {one.fault}: emergence {words}\n    {last[0][:300]}")


@dataclass
class Count:
    """Of inputs: tried, told apart by how they ended; faults seen in a fork, and those that a fresh process repeats."""

    tried: int = 0
    seen: int = 0
    found: int = 0
    ends: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        ends = ", ".join(f"{number} {what}" for what, number in sorted(self.ends.items()))
        return f"{self.tried} inputs ({ends}), {self.seen} seen, {self.found} found"


def tried(seed: int, numbers: Iterable[int], shallow: bool) -> Iterator[Count]:
    """The count after every input. A fault that is seen in a fork is found, and printed, if a fresh process repeats it."""
    count = Count()
    with tempfile.TemporaryDirectory(dir=QUICK) as folder:
        server = Server(Path(folder), shallow)
        files = hostile(Path(folder, "hostile"))
        named, inputs = itertools.tee(numbers)
        for number, one in zip(named, server.attempts(drawn(seed, x, files) for x in inputs), strict=True):
            count.tried += 1
            count.ends[ENDS.get(one.status, "otherwise")] += 1
            if one.fault:
                count.seen += 1
                again = server.afresh(one.argv)
                count.found += bool(again.fault)
                name, told = f"seed {seed}, input {number}", sys.stdout if again.fault else sys.stderr
                print(
                    _shown(name, again) if again.fault else _shown(f"{name}, not repeated", one), file=told, flush=True
                )
            yield count


def fuzz(arguments: Sequence[str]) -> int:
    """Attack until `--count` inputs are tried, or for ever; status 1 if anything was found."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--first", type=int, default=0, help="number of the first input to try (default: 0)")
    asked.add_argument("--count", type=int, default=None, help="inputs to try (default: without end)")
    asked.add_argument(
        "--shallow", action="store_true", help="stop where the problem is read and mathematics would begin"
    )
    given = asked.parse_args(arguments)
    numbers = itertools.count(given.first) if given.count is None else range(given.first, given.first + given.count)
    before, count = time.monotonic(), Count()
    for count in tried(given.seed, numbers, given.shallow):
        if count.tried % TOLD == 0 or count.tried == given.count:
            print(f"{count}, {time.monotonic() - before:.0f} s", file=sys.stderr, flush=True)
    return 1 if count.found else 0


if __name__ == "__main__":
    sys.exit(fuzz(sys.argv[1:]))
