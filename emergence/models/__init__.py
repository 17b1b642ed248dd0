"""The models that the command line knows: every module of this folder with a `MODEL`, and files of the user's own."""

import pkgutil
import sys
import traceback
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from emergence.model import DEFAULT, Model, Simulation
from emergence.refusal import is_refusal, refuse
from emergence.reproduction import Figure

#: How the modules of files of the user's own are called, and the packages that are not theirs.
_OWN, _OURS = "emergence_model_", ("theory", "dynamics", "validation", "emergence")


@cache
def built_in() -> Mapping[str, Model]:
    """By name, the default first."""
    modules = (import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__))
    found = [module.MODEL for module in modules if hasattr(module, "MODEL")]
    return {model.name: model for model in sorted(found, key=lambda model: (model.name != DEFAULT, model.name))}


def default() -> Model:
    """The model of commands that name none."""
    return built_in()[DEFAULT]


def named(name: str) -> Model:
    """The model of a name or of a Python file. Raises `InputError`."""
    if name.endswith(".py"):
        return load(name)
    if name not in built_in():
        from theory.core.errors import did_you_mean

        known = ", ".join(built_in())
        refuse(f"model is {name!r}: {did_you_mean(name, built_in())}use one of {known}, or a Python file with a MODEL")
    return built_in()[name]


def load(path: str) -> Model:
    """The `MODEL` of a Python file, which is run for it. Raises `InputError`."""
    module = module_of(path)
    if not isinstance(model := getattr(module, "MODEL", None), Model):
        wrong = f"its MODEL is of type {type(model).__name__}" if hasattr(module, "MODEL") else "it has no MODEL"
        refuse(f"model is {path!r}: {wrong}: end it with MODEL = Model(…) of emergence.model")
    return replace(model, origin=str(Path(path).resolve()))


def module_of(path: str) -> ModuleType:
    """A Python file of the user's own, run once as it stands. Raises `InputError` for one that is not there or fails."""
    file = path_of(path)
    return _executed(path, file, file.read_bytes())


@cache
def _executed(path: str, file: Path, content: bytes) -> ModuleType:
    """`content`: of the file, so that one that has changed is run again."""
    name = f"{_OWN}{file.stem}"
    spec = spec_from_file_location(name, file)
    if spec is None:
        refuse(f"file {path!r} cannot be read as Python: give the path of a file that ends in .py")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        # (What was read, not by the loader: that leaves compiled code beside the file, and takes it for that of a file
        # which was changed within a second.)
        exec(compile(content, file, "exec"), vars(module))
    except (Exception, SystemExit) as error:  # a file that leaves would take the command along, as if it were done
        if is_refusal(error):
            raise
        refuse(f"file {path!r}: running it raises {type(error).__name__}: {error}: mend it")
    return module


def mended(error: BaseException) -> str:
    """What to mend in which line if a file of the user's own raised it, or a library for it; "" if code of ours did."""
    if type(error).__module__.partition(".")[0] in _OURS:  # says what to do by itself, as an integrator that gave up
        return ""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        module = frame.f_globals.get("__name__", "")
        if module.startswith(_OWN):
            said = " ".join(str(error).split())
            return f"file {frame.f_code.co_filename!r}, line {line}: {type(error).__name__}: {said}: mend it"
        if module.partition(".")[0] in _OURS:
            break
    return ""


def reference(model: Model) -> dict[str, str]:
    """What tells a model from others: its name, or its file, whose content then decides the result, too."""
    if not model.origin:
        return {"name": model.name}
    return {"name": model.name, "file": model.origin, "code": code_of(model.origin)}


def path_of(path: str) -> Path:
    """A Python file of the user's own, in full. Raises `InputError` for one that is not there."""
    file = Path(path).resolve()
    if not file.is_file():
        refuse(f"file {path!r} is not there: give the path of a Python file")
    return file


def code_of(path: str) -> str:
    """The digest of a file and of what it imports from files of its owner's. Raises `InputError` if it is not there."""
    from emergence.store.code_digest import own_digest

    return own_digest(path_of(path))[:16]


def of_simulation(name: str) -> Model | None:
    """The built-in model that has a simulation of this name."""
    return next((x for x in built_in().values() if any(one.name == name for one in x.simulations)), None)


def simulations() -> dict[str, Simulation]:
    """Every built-in one by its name."""
    return {one.name: one for model in built_in().values() for one in model.simulations}


def figures() -> dict[str, tuple[Model, Figure]]:
    """Published figures by name, each with the model whose simulation it needs."""
    return {figure.name: (model, figure) for model in built_in().values() for figure in model.figures}


def recognised(activation: str) -> Model | None:
    """The model whose problems have this activation, by its own rule; None if no model claims it."""
    return next((x for x in built_in().values() if x.matches is not None and x.matches(activation)), None)
