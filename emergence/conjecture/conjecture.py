"""A conjecture: a problem or a grid of them, a measured quantity, what is predicted of it, and rivals.

It is read from a table (a TOML file, or the arguments of `emergence.claim`) and checked to the last key before anything
runs. Nothing of a table is executed.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

from emergence import cells, config, models
from emergence.conjecture import quantity as quantities
from emergence.conjecture.formula import Formula, formula
from emergence.conjecture.quantity import AXES, Quantity
from emergence.conjecture.symbols import LETTERS, Symbols, offered
from emergence.model import Model, Resolved, Simulation
from emergence.options import Problem, default, kind, options, refuse_unused, written
from emergence.refusal import is_refusal, refuse
from emergence.store import grid
from emergence.store.sweeping import Cell, label
from emergence.values import MANY, Choice, Number, Said, Share, Text, Whole, shown
from theory.core.errors import did_you_mean
from validation.judge.claim import KINDS

#: Sections of a table, with their keys; None: checked on their own.
SECTIONS: dict[str, tuple[str, ...] | None] = {
    "claim": ("id", "title", "statement", "kind", "source", "expected"),
    "problem": None,
    "quantity": None,
    "predict": ("formula", "curve"),
    "rivals": None,
    "data": ("from", "seeds", "replicas"),
    "judge": ("allowance", "false-alarm-rate", "power"),
}
#: Runs of a conjecture, and grid points of it, at most.
LARGEST = 10_000
FALSE_ALARMS, POWER = 1e-3, 0.9
NO_ALLOWANCE = "none"
_ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_PYTHON = re.compile(r".*\.py(@[0-9a-f]*)?\s*\Z", re.DOTALL)
#: Kinds of options that a formula may give; what makes a text one, not a range such as 0:10.
_NUMBERS = (Whole, Number)
_SYMBOL = re.compile(r"(?<![\w.])[A-Za-z_]")
#: A word, or several with hyphens: the name of an allowance, or the difference of symbols.
_NAME = re.compile(r"[A-Za-z]\w*(-[A-Za-z]\w*)*")
#: The number of one run, written in Python.
Function = Callable[[Any], float]


@dataclass(frozen=True)
class Point:
    """One problem of the grid, for one seed. `values`: of the grid's options."""

    values: Mapping[str, Any]
    seed: int
    problem: Problem
    resolved: Resolved


@dataclass(frozen=True)
class Conjecture:
    """A conjecture, read and checked.

    Attributes:
        where: what refusals begin with: the file. table: as it was read.
        fixed, axes, tied: values of the problem, those of the grid apart, and those that are formulas in the others.
        quantities: what is measured; with `function` a single one that only names it. measured: all of them, in words.
        predict, rivals: formulas; `curve`: of the curve whose slope is measured, not of the number.
        seeds: of the data. replicas: of each run; None where the simulation has none.
        allowances: names, and formulas. false_alarms: share of true claims that may be rejected. power: asked of a plan.
        code: the digest of the file that `function` is written in, or nothing.
    """

    where: str
    table: Mapping[str, Any]
    id: str
    statement: str
    kind: str
    model: Model
    simulation: Simulation
    fixed: Mapping[str, Any]
    axes: Mapping[str, tuple[Any, ...]]
    tied: Mapping[str, Formula]
    quantities: tuple[Quantity, ...]
    measured: str
    predict: Formula
    rivals: Mapping[str, Formula]
    curve: bool
    seeds: tuple[int, ...]
    replicas: int | None
    allowances: tuple[str | Formula, ...]
    false_alarms: float = FALSE_ALARMS
    power: float = POWER
    expected: str = "agrees"
    title: str = ""
    source: str = ""
    function: Function | None = field(default=None, compare=False)
    code: str = ""

    @cached_property
    def points(self) -> list[Point]:
        """Every problem with its objects, seed by seed within each. Raises `InputError` for one that cannot be run."""
        return [self.point(values, seed) for values in grid.points(dict(self.axes)) for seed in self.seeds]

    @property
    def by_chance(self) -> bool:
        """Whether something of a run is drawn: its start, its noise or its data."""
        return "seed" in self.simulation.uses

    @property
    def replicated(self) -> bool:
        """Whether one seed makes several independent runs."""
        return "replicas" in self.simulation.uses

    def point(self, values: Mapping[str, Any], seed: int) -> Point:
        """One problem. Raises `InputError` for one that cannot be run."""
        given = {**self.fixed, **values}
        given |= {"seed": seed} if "seed" in options(self.model.problem) else {}
        given |= {"replicas": self.replicas} if self.replicas is not None else {}
        try:
            given |= {name: self._tied(name, one, given) for name, one in self.tied.items()}
            problem = self.model.problem(**given)
            resolved = self.model.resolve(problem, self.simulation)
            self.simulation.requires(resolved)
        except Exception as error:
            if is_refusal(error):
                place = label({**values, "seed": seed})
                refuse(f"{self.where}: problem ({place}): {error}")
            raise
        return Point(values, seed, problem, resolved)

    def _tied(self, name: str, one: Formula, given: Mapping[str, Any]) -> Any:
        """The value of an option that is a formula in others. Raises `InputError` for one of the wrong kind."""
        model, found = self.model.problem, dict[str, float]()
        for option in options(model):
            value = given.get(option, default(model, option))
            if isinstance(value, int | float) and not isinstance(value, bool):
                found |= dict.fromkeys((option, LETTERS.get(option, option)), float(value))
        if any(
            symbol not in found for symbol in one.names
        ):  # letters of the model: of the problem without what is tied
            plain = model(**given)
            letters = Symbols(
                self.model, plain, self.model.resolve(plain, self.simulation), self.quantities[0].direction
            )
            found |= letters.values(tuple(symbol for symbol in one.names if symbol not in found))
        own, number = kind(model, name), one.number({symbol: found[symbol] for symbol in one.names})
        return own.check(one.label, round(number) if isinstance(own, Whole) else number)

    def under(self, seed: int) -> "Conjecture":
        """The same with runs of its own: its seeds, `seed` times moved past all of them."""
        past = seed * (max(self.seeds) + 1)
        return replace(self, seeds=tuple(past + one for one in self.seeds)) if past else self

    def cell(self, point: Point) -> Cell:
        """What a store keeps of one run: the variables that are asked for, all for a function of one's own."""
        keep = (
            None if self.function else tuple(sorted({x for one in self.quantities for x in one.of.names} | self._flags))
        )
        return Cell(
            {**point.values, "seed": point.seed},
            cells.configuration(self.model, self.simulation.name, point.problem, keep),
        )

    @property
    def _flags(self) -> set[str]:
        return {"diverged"} & set(self.simulation.variables)

    def symbols(self, point: Point, one: Quantity) -> Symbols:
        """Symbols of one run."""
        return Symbols(self.model, point.problem, point.resolved, one.direction, one.symbols)


def of_file(path: str, seeds: tuple[int, ...] | None = None) -> Conjecture:
    """The conjecture of a TOML file; `seeds` in place of its own.

    Raises `InputError` for a file that is none: one line that names the file, the key, its value and the remedy.
    """
    table = config.claim_tables(path)
    for section in ("claim", "problem", "quantity", "predict", "rivals", "data"):
        if section not in table:
            refuse(f"claim file {path!r} has no section [{section}]: give it one")
    _refuse_code(table, path)
    return of_table(table, str(path), seeds=seeds)


def simulation_of_file(path: str) -> tuple[Model, Simulation]:
    """The model and the simulation of a TOML file's claim, whatever else in it is wrong. Raises `InputError`."""
    table = config.claim_tables(path)
    return _simulation({name: _section(table, name, path) for name in ("data", "problem")}, path)


def of_table(
    table: Mapping[str, Any],
    where: str,
    *,
    function: Function | None = None,
    code: str = "",
    seeds: tuple[int, ...] | None = None,
) -> Conjecture:
    """The conjecture of a table of sections.

    Args:
        where: what refusals begin with. function: measures one run, in place of a section [quantity]. code: digest of its
            file. seeds: in place of those of the table.

    Raises `InputError` as `of_file` does.
    """
    sections = {name: _section(table, name, where) for name in SECTIONS}
    for name in table:
        if name not in SECTIONS:
            refuse(
                f"{where}: {shown(name)} is no section: {did_you_mean(str(name), SECTIONS)}use {', '.join(SECTIONS)}"
            )
    model, simulation = _simulation(sections, where)
    fixed, axes, tied = _problem(sections["problem"], model, simulation, where)
    found = _quantities(sections["quantity"], simulation, axes, function, where)
    for name in {one.across for one in found} & set(axes):
        _check_increasing(axes[name], f"{where}: quantity.in is {written(name)}")
    measured = (
        found[0].name if function else quantities.together(sections["quantity"], simulation, f"{where}: quantity")
    )
    theory, rivals, curve = _formulas(sections, model, found, where)
    replicas = _replicas(sections["data"], simulation, model, where)
    chosen = _seeds(sections["data"].get("seeds"), where) if seeds is None else seeds
    size = grid.size(dict(axes)) * len(chosen) * len(found)
    if size > LARGEST:
        refuse(f"{where}: problem, seeds and quantity make {size} runs: at most {LARGEST}: shorten their lists")
    judge = sections["judge"]
    rate, power = _rates(judge, where)
    return Conjecture(
        where=where,
        table=table,
        model=model,
        simulation=simulation,
        fixed=fixed,
        axes=axes,
        tied=tied,
        quantities=tuple(found),
        measured=measured,
        predict=theory,
        rivals=rivals,
        curve=curve,
        seeds=chosen,
        replicas=replicas,
        allowances=_allowances(judge.get("allowance", NO_ALLOWANCE), model, found, where),
        false_alarms=rate,
        power=power,
        function=function,
        code=code,
        **_words(sections["claim"], where, measured),
    )


def _rates(judge: Mapping[str, Any], where: str) -> tuple[float, float]:
    """The share of false alarms and the power that are asked for."""
    found = []
    for name, usual in (("false-alarm-rate", FALSE_ALARMS), ("power", POWER)):
        value = Share().check(f"{where}: judge.{name}", judge.get(name, usual))
        if value == 1:
            refuse(f"{where}: judge.{name} is 1: give a number between 0 and 1")
        found.append(value)
    return found[0], found[1]


def _refuse_code(table: Mapping[str, Any], path: str) -> None:
    """A TOML file can be mailed: no text in its problem may name a file that would be run. Refuses it."""
    problem = table.get("problem")
    for key, value in problem.items() if isinstance(problem, dict) else ():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and _PYTHON.match(text):
                refuse(
                    f"{path}: problem.{key} is {shown(text)}: a TOML file runs no Python: name what is built in, or write "
                    "the conjecture as a Python file"
                )


def _section(table: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    found = table.get(name, {})
    if not isinstance(found, Mapping):
        refuse(f"{where}: {name} is {shown(found)}: write a section [{name}]")
    known = SECTIONS[name]
    for key in found:
        if known is not None and key not in known:
            near = did_you_mean(key, known)
            refuse(f"{where}: {name}.{key} is {shown(found[key])}, no key of [{name}]: {near}use {', '.join(known)}")
    return found


def _words(claim: Mapping[str, Any], where: str, quantity: str) -> dict[str, str]:
    """Texts of the section [claim]; without a title it is what is measured, as the statement stands below it in a report."""
    words = {
        key: str(Text(example).check(f"{where}: claim.{key}", claim.get(key, default))).strip()
        for key, example, default in (
            ("id", "X1", None),
            ("statement", "a sentence", None),
            ("source", "a source", "a conjecture"),
        )
    }
    if not _ID.fullmatch(words["id"]):
        refuse(f"{where}: claim.id is {shown(words['id'])}: use letters, digits, - and _ only, a letter first")
    if len(words["id"]) > 60:
        refuse(f"{where}: claim.id is {shown(words['id'])}: it names a file: use at most 60 characters")
    title = str(Text("a few words").check(f"{where}: claim.title", claim.get("title", quantity.replace("_", " "))))
    words["title"] = title if len(title) <= 80 else title[:79] + "…"
    words["kind"] = Choice(KINDS).check(f"{where}: claim.kind", claim.get("kind", "heuristic"))
    words["expected"] = Choice(("agrees", "disagrees")).check(
        f"{where}: claim.expected", claim.get("expected", "agrees")
    )
    return words


def _simulation(sections: Mapping[str, Mapping[str, Any]], where: str) -> tuple[Model, Simulation]:
    name, asked = sections["data"].get("from"), sections["problem"].get(config.MODEL)
    if asked is not None and not isinstance(asked, str):
        refuse(f"{where}: problem.model is {shown(asked)}: give the name of a model")
    known = [*models.simulations(), "predict"]
    if not isinstance(name, str):
        refuse(f"{where}: data.from is {shown(name)}: give a simulation, one of {', '.join(known)}")
    model = models.of_simulation(name) if asked is None else models.named(asked)
    if model is None and name == "predict":
        able = [one.name for one in models.built_in().values() if one.predict is not None]
        refuse(f"{where}: data.from is 'predict', of no model: give problem.model, one of {', '.join(able)}")
    if model is None:
        refuse(f"{where}: data.from is {shown(name)}: {did_you_mean(name, known)}use one of {', '.join(known)}")
    have = [one.name for one in model.cells]
    if name not in have:
        refuse(
            f"{where}: data.from is {shown(name)}, but the model {model.name} has {', '.join(have)}: use one of them"
        )
    return model, model.simulation(name)


def _problem(
    table: Mapping[str, Any], model: Model, simulation: Simulation, where: str
) -> tuple[dict[str, Any], grid.Axes, dict[str, Formula]]:
    """Values of the problem, those of options that a list varies, and formulas of those that are tied to others."""
    fixed: dict[str, Any] = {}
    axes: grid.Axes = {}
    bound: dict[str, tuple[str, str]] = {}
    for key, value in table.items():
        if key == config.MODEL:
            continue
        name, place = key.replace("-", "_"), f"{where}: problem.{key}"
        if name not in options(model.problem):
            known = [written(one) for one in options(model.problem)]
            refuse(
                f"{place} is {shown(value)}, no option of {model.name}: {did_you_mean(key, known)}use {', '.join(known)}"
            )
        if name in ("seed", "replicas"):
            refuse(f"{place} is {shown(value)}: give it as {'seeds' if name == 'seed' else name} in [data]")
        if name in fixed or name in axes or name in bound:
            refuse(f"{place} is given twice, with - and with _: drop one")
        if name not in simulation.uses:
            refuse_unused(name, f"{where}: problem.", simulation.name, model.users(name))
        if (
            isinstance(value, str)
            and isinstance(kind(model.problem, name), (*_NUMBERS, Said))
            and _SYMBOL.search(value)
        ):
            bound[name] = place, value
            continue
        varied = _varied(model, name, value, place)
        if varied is None:
            fixed[name] = kind(model.problem, name).check(place, value)
        else:
            axes[name] = varied
    if grid.size(axes) > LARGEST:
        refuse(f"{where}: problem has {grid.size(axes)} grid points: at most {LARGEST}: shorten its lists")
    tied = _tied(bound, model, {*fixed, *axes})
    fixed |= {name: kind(model.problem, name).check(*text) for name, text in bound.items() if name not in tied}
    return fixed, axes, tied


def _tied(bound: Mapping[str, tuple[str, str]], model: Model, given: set[str]) -> dict[str, Formula]:
    """Formulas in the numbers of the problem: in options that are given, or have a default, and are no formulas themselves,
    and in the model's letters. What may be a text, too, is one if it is no such formula."""
    known = set(model.symbols)
    for name in options(model.problem):
        own, usual = kind(model.problem, name), default(model.problem, name)
        if isinstance(own, _NUMBERS) and name not in bound and (name in given or usual is not None):
            known |= {name, LETTERS.get(name, name)}
    found = {}
    for name, (place, text) in bound.items():
        try:
            found[name] = formula(place, text, known)
        except Exception as error:
            if not is_refusal(error) or not isinstance(kind(model.problem, name), Said):
                raise
    return found


def _varied(model: Model, name: str, value: Any, place: str) -> tuple[Any, ...] | None:
    """The checked values of an option that a list, or a text such as ``0:10``, varies; None for a single value."""
    own = kind(model.problem, name)
    if isinstance(value, str) and isinstance(own, Whole | Number):
        value = grid.listed(place, own, value)
    several = isinstance(value, list) and (not isinstance(own, MANY) or any(isinstance(x, list) for x in value))
    if not several:
        return None
    found = tuple(own.check(place, x) for x in value[: LARGEST + 1])
    if not found or len(set(found)) < len(found):
        refuse(f"{place} is {shown(value)}: give one or more values, each once")
    if len(found) > LARGEST:
        refuse(f"{place} has {len(value)} values: at most {LARGEST}")
    return found


def _check_increasing(values: tuple[Any, ...], label: str) -> None:
    """Refuses what no slope goes along: a single value, or texts such as inputs of several variances."""
    try:
        numbers = [float(value) for value in values]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) < 2 or any(y <= x for x, y in pairwise(numbers)):
        refuse(f"{label}: give it two or more increasing numbers in [problem]")


def _quantities(
    table: Mapping[str, Any], simulation: Simulation, axes: grid.Axes, function: Function | None, where: str
) -> list[Quantity]:
    place = f"{where}: quantity"
    if function is None:
        return quantities.read(table, simulation, list(axes), place)
    for key in table:
        if key not in ("direction",):
            refuse(f"{place}.{key} is given, but a function measures the run: leave it out")
    select = {key: Whole(1).check(f"{place}.{key}", value) for key, value in table.items()}
    name = getattr(function, "__name__", "the function")
    return [Quantity("value", formula(place, 0, ()), select, name=name)]


def _formulas(
    sections: Mapping[str, Mapping[str, Any]], model: Model, found: list[Quantity], where: str
) -> tuple[Formula, dict[str, Formula], bool]:
    """The prediction, the rivals, and whether they are curves."""
    given = sections["predict"]
    if len(given) != 1:
        refuse(f"{where}: predict has {len(given)} keys: give formula, or curve for a slope")
    key = next(iter(given))
    curve = key == "curve"
    if curve and any(one.kind != "slope" for one in found):
        refuse(f"{where}: predict.curve is given, but quantity.measure is no slope: give predict.formula")
    known = {*offered(model), *found[0].symbols}
    if curve and not found[0].across:
        # (An option of that name says how long runs are, or of how many samples, which is no abscissa.)
        known = (known - set(AXES)) | {"t", found[0].axis}
    theory = formula(f"{where}: predict.{key}", given[key], known)
    rivals = {name: formula(f"{where}: rivals.{name}", text, known) for name, text in sections["rivals"].items()}
    if not rivals:
        refuse(f"{where}: rivals is empty, so the claim could not fail: name a wrong theory and its formula")
    for name, rival in rivals.items():
        if not name.strip() or len(name) > 100:
            refuse(f"{where}: rivals.{shown(name)}: name it in at most 100 characters")
        if rival.expression == theory.expression:
            refuse(f"{where}: rivals.{name} is {shown(rival.text)}, the prediction itself: give another theory")
    return theory, rivals, curve


def _replicas(table: Mapping[str, Any], simulation: Simulation, model: Model, where: str) -> int | None:
    if "replicas" not in table:
        return None
    if "replicas" not in simulation.uses:
        refuse(
            f"{where}: data.replicas is {shown(table['replicas'])}, but {simulation.name} has no replicas: leave it out"
        )
    return cast(int, kind(model.problem, "replicas").check(f"{where}: data.replicas", table["replicas"]))


def _seeds(value: Any, where: str) -> tuple[int, ...]:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:  # (others are refused for what they are)
        refuse(
            f'{where}: data.seeds is {shown(value)}: write "0:{value}" for so many seeds, [{value}] for this one'
            if value
            else f"{where}: data.seeds is 0: write [0] for this seed"
        )
    return (0,) if value is None else seeds_of(value, f"{where}: data.seeds")


def seeds_of(value: Any, place: str) -> tuple[int, ...]:
    """Seeds from a text such as ``0:20`` or ``1,5``, a list or a number. Raises `InputError`."""
    raw = (
        grid.listed(place, Whole(0), value) if isinstance(value, str) else value if isinstance(value, list) else [value]
    )
    found = tuple(Whole(0).check(place, one) for one in raw)
    if not found or len(set(found)) < len(found) or len(found) > LARGEST:
        refuse(f"{place} is {shown(value)}: give from 1 to {LARGEST} seeds, each once, such as 0:20")
    return found


def _allowances(value: Any, model: Model, found: list[Quantity], where: str) -> tuple[str | Formula, ...]:
    """Names of what theory computes, and formulas; several add up."""
    place, chosen = f"{where}: judge.allowance", list[str | Formula]()
    for one in value if isinstance(value, list) else [value]:
        if one == NO_ALLOWANCE:
            continue
        if isinstance(one, str) and one in model.allowances:
            variables = model.allowances[one].variables
            wrong = [x.of.text for x in found if (x.kind != "value" and not x.across) or x.of.text not in variables]
            if wrong:
                known = ", ".join(variables)
                refuse(
                    f"{place} is {one!r}, which theory knows of {known}, not of {found[0].name}: give a formula or none"
                )
            chosen.append(one)
            continue
        symbols = {*offered(model), *found[0].symbols, "predicted"}
        if isinstance(one, str) and _NAME.fullmatch(one) and not {*one.split("-")} <= {*symbols, "pi"}:
            names = [NO_ALLOWANCE, *model.allowances]
            refuse(
                f"{place} is {one!r}: {did_you_mean(one, [*names, *symbols])}use {', '.join(names)}, or a formula in symbols"
            )
        chosen.append(formula(place, one, symbols))
    return tuple(chosen)


def pairs(values: Mapping[str, Any]) -> str:
    """A grid point in words."""
    return ", ".join(f"{written(name)} = {shown(value)}" for name, value in values.items())
