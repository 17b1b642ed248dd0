"""The argument parser, built from the fields of `Problem`. Imports nothing heavy."""

import argparse
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NoReturn

from emergence.baseline_problem import BASELINES
from emergence.baseline_problem import NEW as BASELINE_OPTIONS
from emergence.config import MODELS
from emergence.linear_problem import LINEAR_HELP, LINEAR_KINDS, LinearProblem
from emergence.network_problem import EXPERIMENTS, NEW
from emergence.problem import HELP, KINDS, Problem
from emergence.reproduction import FIGURES
from emergence.values import Numbers, Switch, Whole

DERIVATIONS = (
    "loss",
    "gradient",
    "overlap-flow",
    "single-task",
    "norm",
    "ideal-loss",
    "loss-sum",
    "retirement",
    "plateau",
    "finite-step",
    "committee",
    "correlation",
    "toy",
    "riccati",
    "label-noise",
    "oscillation",
    "alignment",
    "sam",
)
#: Of the two-layer linear network; all others are of the additive model.
LINEAR_SIMULATIONS = ("label-noise", "oscillation", "sam")
SIMULATIONS = (
    "gradient-flow",
    "online-sgd",
    "finite-step",
    "sde",
    "riccati",
    "stiefel-sgd",
    *LINEAR_SIMULATIONS,
)
SWEEPS = (
    *("predict", "gradient-flow", "retiring-flow", "gradient-descent", "online-sgd", "finite-step", "sde"),
    *("riccati", "stiefel-sgd"),
)
PRESETS = ("quick", "full")
DEFAULT_OUT = "emergence-out"
EXIT_CODES = """exit status:
  0  done, every verdict as expected
  1  done, some verdict not as expected, or a simulation diverged
  2  bad input, one line says what and how to mend it
  3  internal error (EMERGENCE_DEBUG=1 shows the traceback)
  130  interrupted, the last line says what was kept"""


class UsageError(Exception):
    """The command line itself is not understood."""


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` that neither guesses abbreviations nor prints usage on an error: it raises `UsageError`."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("allow_abbrev", False)
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**options)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}: see {self.prog} --help")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        given, unknown = self.parse_known_args(args, namespace)
        if unknown:
            command = self._subparsers_named().get(given.command, self)
            known = [flag for action in command._actions for flag in action.option_strings]
            raise UsageError(
                f"unrecognized arguments: {' '.join(unknown)}: {_near(unknown[0], known)}see {command.prog} --help"
            )
        return given

    def _subparsers_named(self) -> dict[str, "Parser"]:
        found = [action.choices for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        return dict(found[0]) if found else {}

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(
                action, f"invalid choice: {value!r}: {_near(str(value), choices)}use one of {', '.join(choices)}"
            )


def _near(name: str, known: Iterable[str]) -> str:
    from theory.core.errors import did_you_mean  # only once something is wrong

    return did_you_mean(name, known)


class _Version(argparse.Action):
    """``--version``; looks the version up only when asked."""

    def __init__(self, option_strings: Sequence[str], dest: str, **_: Any) -> None:
        super().__init__(
            option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, help="print the version and exit"
        )

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from emergence.version import version

        print(f"emergence {version()}")
        parser.exit()


class _Paths(argparse.Action):
    """``--paths``: the replicas under another name, which a refusal uses."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, value: Any, *_: object) -> None:
        kind = KINDS["replicas"]
        namespace.replicas = kind.check("--paths", kind.read(value))


def parser() -> Parser:
    """The whole command line."""
    main = Parser(
        prog="emergence",
        description="Derive, predict, simulate and judge the learning dynamics of shallow networks under SGD.",
        epilog=EXIT_CODES,
    )
    main.add_argument("--version", action=_Version)
    # Not `required`: argparse would name the destination, not say which commands there are.
    commands = main.add_subparsers(dest="command", metavar="COMMAND", title="commands", prog="emergence")
    common, out, problem = _common(), _out(), _problem()

    claims = commands.add_parser("claims", help="list the catalogue of claims", parents=[common])
    claims.add_argument("ids", nargs="*", metavar="ID", help="claims to list, or patterns such as 'E1*' (default: all)")
    validate = commands.add_parser("validate", help="judge claims, write a report", parents=[common, out, _seed()])
    validate.add_argument(
        "ids", nargs="*", metavar="ID",
        help="claims to judge, patterns such as 'E1*', or quantities such as E7.h3 (default: all)",
    )  # fmt: skip
    validate.add_argument("--preset", choices=PRESETS, default="quick", help="size of the experiments (default: quick)")
    validate.add_argument(
        "--workers", type=Whole().read, default=None, metavar="N", help="processes (default: one per core, at most 4)"
    )
    derive = commands.add_parser("derive", help="show a derivation, each step checked", parents=[common])
    derive.add_argument("name", choices=DERIVATIONS, metavar="NAME", help=", ".join(DERIVATIONS))
    derive.add_argument("--activation", help=HELP["activation"] + " (default: h4; quadratic for riccati)")
    derive.add_argument("--latex", action="store_true", help="print a LaTeX document")
    predict = commands.add_parser("predict", help="predictions, nothing simulated", parents=[common, problem])
    simulate = commands.add_parser(
        "simulate", help="integrate or simulate, write WHAT-DIGEST.nc", parents=[common, out, problem]
    )
    names = (*SIMULATIONS, *BASELINES, *EXPERIMENTS)
    simulate.add_argument("what", choices=names, metavar="WHAT", help=", ".join(names))
    simulate.add_argument(
        "--paths", dest="replicas", action=_Paths, default=argparse.SUPPRESS, metavar="PATHS",
        help="paths of the sde: another name for --replicas",
    )  # fmt: skip
    _baseline_options(simulate)
    _network_options(simulate)
    compare = commands.add_parser(
        "compare", help="prediction and simulation side by side", parents=[common, out, problem]
    )
    for command in (predict, compare):
        command.add_argument("--model", choices=MODELS, help="additive (default) or linear: label-noise SGD of a'Wx")
    sweep = commands.add_parser("sweep", help="a grid of problems into a results store", parents=[common, out, problem])
    _sweep(sweep)
    reproduce = commands.add_parser(
        "reproduce", help="published figures, theory beside experiment", parents=[common, out]
    )
    figures = "; ".join(f"{figure.name}: {figure.help}" for figure in FIGURES.values())
    reproduce.add_argument("figure", choices=tuple(FIGURES), metavar="FIGURE", help=figures)
    reproduce.add_argument("--preset", choices=PRESETS, default="quick", help="size of the experiment (default: quick)")
    reproduce.add_argument(
        "--workers", type=Whole().read, default=None, metavar="N", help="local processes (default: one per core)"
    )
    merge = commands.add_parser("merge", help="a results store as one netCDF file", parents=[common, out])
    merge.add_argument("store", metavar="STORE", help="folder written by emergence sweep")
    return main


def _sweep(sweep: Parser) -> None:
    sweep.add_argument("what", choices=SWEEPS, metavar="WHAT", help=", ".join(SWEEPS))
    options = sweep.add_argument_group("sweep")
    options.add_argument(
        "--over", action="append", default=None, metavar="NAME=VALUES",
        help="vary an option: student-width=8,16,32 or seed=0:10 (again for more; also a table [sweep] in the file)",
    )  # fmt: skip
    options.add_argument(
        "--store", default=None, metavar="DIR", help="folder of the finished cells (default: OUT/sweep)"
    )
    options.add_argument(
        "--keep", nargs="+", default=None, metavar="VARIABLE", help="variables to store (default: all)"
    )
    options.add_argument(
        "--workers", type=Whole().read, default=None, metavar="N", help="local processes (default: one per core)"
    )
    options.add_argument("--scheduler", default=None, metavar="ADDRESS", help="run on a cluster of distributed instead")
    options.add_argument("--shard", default=None, metavar="I/N", help="every N-th cell only, from the I-th (I = 1 … N)")


def _common() -> Parser:
    group = Parser(add_help=False)
    group.add_argument("--json", action="store_true", help="print one JSON document on standard output")
    group.add_argument("--quiet", action="store_true", help="no progress on standard error")
    return group


def _out() -> Parser:
    group = Parser(add_help=False)
    group.add_argument("--out", metavar="DIR", help=f"folder for files written (default: {DEFAULT_OUT})")
    return group


def _seed() -> Parser:
    group = Parser(add_help=False)
    group.add_argument("--seed", type=KINDS["seed"].read, default=0, help=HELP["seed"] + " (default: 0)")
    return group


def _problem() -> Parser:
    """One flag for every field of `Problem`; absent flags stay absent, so that a configuration file can speak."""
    group = Parser(add_help=False, argument_default=argparse.SUPPRESS)
    options = group.add_argument_group("problem")
    options.add_argument("--config", metavar="FILE", default=None, help="TOML file with the same names; flags win")
    for name, kind in KINDS.items():
        flag, text = "--" + name.replace("_", "-"), _help(name)
        if isinstance(kind, Switch):
            options.add_argument(flag, action=argparse.BooleanOptionalAction, help=text, default=argparse.SUPPRESS)
        else:
            many = "+" if isinstance(kind, Numbers) else None
            options.add_argument(flag, type=kind.read, nargs=many, help=text, metavar=name.split("_")[-1].upper())
    _linear(group)
    return group


def _linear(group: Parser) -> None:
    """The flags that the linear network has of its own."""
    options = group.add_argument_group("problem: two-layer linear network (simulate label-noise, oscillation, sam)")
    for name in [name for name in LINEAR_KINDS if name not in (*KINDS, "model")]:
        flag, text = "--" + name.replace("_", "-"), _help(name, LINEAR_HELP, LinearProblem)
        if isinstance(LINEAR_KINDS[name], Switch):
            options.add_argument(flag, action=argparse.BooleanOptionalAction, help=text, default=argparse.SUPPRESS)
        else:
            options.add_argument(flag, type=LINEAR_KINDS[name].read, help=text, metavar=name.split("_")[-1].upper())
    shared = [name for name in LINEAR_KINDS if name in KINDS and LinearProblem.__dataclass_fields__[name].default]
    options.description = "defaults of shared options: " + ", ".join(
        f"{name.replace('_', '-')} {LinearProblem.__dataclass_fields__[name].default}" for name in shared
    )


def _baseline_options(simulate: Parser) -> None:
    """Flags of the baselines that no other simulation has."""
    options = simulate.add_argument_group(f"baselines ({', '.join(BASELINES)})")
    for name, option in BASELINE_OPTIONS.items():
        many = "+" if isinstance(option.kind, Numbers) else None
        options.add_argument(
            "--" + name,
            type=option.kind.read,
            nargs=many,
            help=option.help,
            metavar=name.upper(),
            default=argparse.SUPPRESS,
        )


def _network_options(simulate: Parser) -> None:
    """Flags of the experiments with networks on images that no other simulation has."""
    options = simulate.add_argument_group(f"networks on images ({', '.join(EXPERIMENTS)})")
    for name, option in NEW.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(option.kind, Switch):
            options.add_argument(flag, action="store_true", help=option.help, default=argparse.SUPPRESS)
        else:
            many = "+" if isinstance(option.kind, Numbers) else None
            metavar = name.split("_")[-1].upper()
            options.add_argument(
                flag, type=option.kind.read, nargs=many, help=option.help, metavar=metavar, default=argparse.SUPPRESS
            )


def _help(name: str, texts: dict[str, str] = HELP, form: type[Problem] | type[LinearProblem] = Problem) -> str:
    default = form.__dataclass_fields__[name].default
    plain = default is None or isinstance(default, bool)
    return texts[name].replace("%", "%%") + ("" if plain else f" (default: {default})")


def problem_flags(arguments: argparse.Namespace, kinds: Collection[str] = KINDS) -> dict[str, Any]:
    """The problem's values that were given as flags, by field name; those of other `kinds` are left aside."""
    return {name: value for name, value in vars(arguments).items() if name in kinds and name != "model"}
