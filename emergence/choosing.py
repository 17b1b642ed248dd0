"""Which model a command line is about, known before its options are: they are the model's."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from emergence import config, models
from emergence.answers import Answer, answered
from emergence.model import Model
from emergence.options import kind, options, written
from emergence.refusal import is_refusal, refuse
from emergence.values import Switch

#: Commands that take a problem.
COMMANDS = ("predict", "simulate", "compare", "sweep")


def model_of(argv: Sequence[str]) -> tuple[Model, bool]:
    """The model that is named, or has the simulation that is named, or claims the activation; else the default one.

    And whether it was named.

    Raises `InputError` for a model that there is not, and for one that cannot do what is asked.
    """
    command = _command(argv)
    if command not in (*COMMANDS, "derive"):
        return models.default(), False
    name, file = _value(argv, "--model"), _value(argv, "--config") if command != "derive" else None
    if name is None and file is not None and command in COMMANDS:
        name = config.named_model(file)
    what = simulation_of(argv)
    if name is not None:
        return _able(models.named(name), command, what), True
    if "predict" in (command, what) or command == "compare":
        found = _claimed(_value(argv, "--activation") or (config.activation(file) if file else None))
    else:
        found = models.of_simulation(what)
    return found or models.default(), False


def simulation_of(argv: Sequence[str]) -> str:
    """What ``simulate`` or ``sweep`` is asked for, as it is written; nothing if it is not said, or of another command."""
    command = _command(argv)
    return next(_positional(argv[argv.index(command) + 1 :]), "") if command in ("simulate", "sweep") else ""


def _command(argv: Sequence[str]) -> str | None:
    return next((word for word in argv if not word.startswith("-")), None)


def _positional(argv: Sequence[str]) -> Iterator[str]:
    """Words that are neither flags nor what follows a flag that takes a value."""
    before = ""
    for word in argv:
        if not word.startswith("-") and (not before.startswith("-") or "=" in before or before in _switches()):
            yield word
        before = word


@cache
def _switches() -> frozenset[str]:
    """Flags that take no value."""
    found = {
        written(name)
        for model in models.built_in().values()
        for name in options(model.problem)
        if isinstance(kind(model.problem, name), Switch)
    }
    return frozenset({"--json", "--quiet", *(f"--{own}{name}" for own in ("", "no-") for name in found)})


def _able(model: Model, command: str, what: str) -> Model:
    other = models.of_simulation(what)
    if other is not None and what not in [one.name for one in model.simulations]:
        refuse(f"model is {model.name!r}, but {what} is of the model {other.name}: leave one of them out")
    if (command == "predict" and model.predict is None) or (command == "compare" and model.compare is None):
        able = [one.name for one in models.built_in().values() if getattr(one, command) is not None]
        refuse(f"model is {model.name!r}: {command} knows nothing of it: use one of {', '.join(able)}")
    return model


def _claimed(activation: str | None) -> Model | None:
    """A model recognises its problems by the activation; one that cannot be read is refused later, with the option's name."""
    if activation is None:
        return None
    try:
        found = answered({"model of": activation}, lambda: _recognised(activation)).document["name"]
    except Exception as error:
        if is_refusal(error):
            return None
        raise
    return models.built_in().get(str(found))


def _recognised(activation: str) -> Answer:
    """The name of the model, which is kept: to read an activation takes SymPy."""
    found = models.recognised(activation)
    return Answer({"name": None if found is None else found.name}, "", ())


def _value(argv: Sequence[str], flag: str) -> str | None:
    """What is given for a flag, the last time it is given."""
    found = None
    for place, word in enumerate(argv):
        if word == flag and place + 1 < len(argv):
            found = argv[place + 1]
        elif word.startswith(f"{flag}="):
            found = word.partition("=")[2]
    return found


def names(command: str, whose: Sequence[Model]) -> Mapping[str, str]:
    """What ``simulate`` or ``sweep`` can be asked for, with its help."""
    return {one.name: one.help for x in whose for one in (x.cells if command == "sweep" else x.simulations)}


def derivations(whose: Sequence[Model]) -> Mapping[str, str]:
    """Names of derivations, and what each is of."""
    return {name: one.help for x in whose for name, one in x.derivations.items()}
