"""The argument parser, built from the models' records: a command shows the options of the model that it is about.

Imports nothing heavy.
"""

import argparse
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NoReturn

from emergence import choosing, console, models, output
from emergence.model import Model
from emergence.models.additive_problem import EXPLORED
from emergence.options import help_of, kind, options, refuse_unused, written
from emergence.values import MANY, Kind, Number, Switch, Whole

PRESETS = ("quick", "full")
#: The title of the group of options that the model brings begins so.
PROBLEM = "problem: "
_ENDINGS = ", ".join(f".{name}" for name in output.PICTURES)
#: What argparse says where no value follows an option, or a flag does.
_LACKING = re.compile(r"(argument (--[\w-]+): expected (?:at least )?one argument)")
#: A negative number is a value and no flag, -1e-3 and -.5 as well: argparse knows those without an exponent.
_NEGATIVE = re.compile(r"-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\Z")
EXIT_CODES = """exit status:
  0  done, every verdict as expected
  1  done, some verdict not as expected, or a simulation diverged
  2  bad input, one line says what and how to mend it
  3  internal error (EMERGENCE_DEBUG=1 shows the traceback)
  130  interrupted, the last line says what was kept

EMERGENCE_CACHE: folder of compiled programs and of predictions, or off (default: in the user's cache folder)"""


class UsageError(Exception):
    """The command line itself is not understood."""


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` that neither guesses abbreviations nor prints usage on an error: it raises `UsageError`."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("allow_abbrev", False)
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**options)
        self._negative_number_matcher = _NEGATIVE

    def error(self, message: str) -> NoReturn:
        """Raises `UsageError`; of a missing argument with what it can be."""
        missing = message.partition("required: ")[2].split(", ")
        offered = [x.choices for x in self._actions if x.choices and x.metavar in missing]
        remedy = f"use one of {', '.join(map(str, offered[0]))}: " if offered else ""
        raise UsageError(f"{message}: {remedy}see {self.prog} --help")

    def print_help(self, file: Any = None) -> None:
        """Raises `InputError` where standard output takes nothing."""
        console.say(self.format_help().rstrip())

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Raises `UsageError` for an unknown argument, with the flag that is nearest."""
        given, unknown = self.parse_known_args(args, namespace)
        if unknown:
            command = self.commands().get(given.command, self)
            _refuse_of_other_models(given, unknown)
            known = [flag for action in command._actions for flag in action.option_strings]
            folder = unknown[0].partition("=")[0] == "--out" and "--figure" in known
            remedy = (
                f"{given.command} writes no folder, use --figure or --json: " if folder else _near(unknown[0], known)
            )
            raise UsageError(f"unrecognized arguments: {' '.join(unknown)}: {remedy}see {command.prog} --help")
        return given

    def commands(self) -> dict[str, "Parser"]:
        """Its commands by name."""
        return {name: one for action in self._choosing() for name, one in action.choices.items()}

    def summaries(self) -> dict[str, str]:
        """What its help says of each command."""
        return {one.dest: one.help or "" for action in self._choosing() for one in action._choices_actions}

    def _choosing(self) -> "list[argparse._SubParsersAction[Parser]]":
        return [action for action in self._actions if isinstance(action, argparse._SubParsersAction)]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) or "''" for choice in action.choices]
            if not choices:
                raise argparse.ArgumentError(
                    action, f"invalid choice: {value!r}: the model has none: give another --model"
                )
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

        console.say(f"emergence {version()}")
        parser.exit()


class _Completion(argparse.Action):
    """``--print-completion SHELL``: what a shell needs to complete the command line."""

    def __init__(self, option_strings: Sequence[str], dest: str, **_: Any) -> None:
        text = "print the completion for bash, zsh, fish or tcsh, and exit"
        super().__init__(option_strings, argparse.SUPPRESS, metavar="SHELL", default=argparse.SUPPRESS, help=text)

    def __call__(self, parser: argparse.ArgumentParser, _: Any, shell: Any, option: str | None = None) -> NoReturn:
        try:
            import shtab
        except ImportError:
            from theory.core.errors import not_installed

            raise UsageError(not_installed("shtab")) from None
        if shell not in shtab.SUPPORTED_SHELLS:
            raise UsageError(f"{option} is {shell!r}: use one of {', '.join(shtab.SUPPORTED_SHELLS)}")
        print(shtab.complete(parser, shell))
        parser.exit()


class _Alias(argparse.Action):
    """Another name of an option, which a refusal of its value uses."""

    def __init__(self, option_strings: Sequence[str], dest: str, *, kind: Kind, **rest: Any) -> None:
        super().__init__(option_strings, dest, metavar=option_strings[0].removeprefix("--").upper(), **rest)
        self.kind = kind

    def __call__(self, _: Any, namespace: argparse.Namespace, value: Any, option: str | None = None) -> None:
        setattr(namespace, self.dest, self.kind.check(str(option), self.kind.read(value)))


def _refuse_of_other_models(given: argparse.Namespace, unknown: Sequence[str]) -> None:
    """An option that another model has is refused by name, as one that this command does not use."""
    what = getattr(given, "what", None)
    if not hasattr(given, "model") or given.command not in choosing.COMMANDS:
        return
    for flag in unknown:
        bare = flag.split("=")[0]
        name = bare.removeprefix("--").removeprefix("no-").replace("-", "_")
        others = [user for model in models.built_in().values() for user in model.users(name)]
        if bare.startswith("--") and others:
            refuse_unused(
                name, "--", f"{given.command} {what}" if what else f"{given.command}{given.model.flag}", others
            )


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line understood; ``model`` is the record that the command is about. Raises `UsageError`, `InputError`."""
    chosen, named = choosing.model_of(argv)
    try:
        return parser(chosen, named, choosing.simulation_of(argv)).parse_args(argv)
    except UsageError as error:
        raise UsageError(_with_dash(str(error), argv)) from None


def _with_dash(message: str, argv: Sequence[str]) -> str:
    """Of an option whose value begins with a dash and was taken for a flag: how to write it."""
    lacking = _LACKING.match(message)
    for flag, value in pairwise(argv):
        if lacking and flag == lacking[2] and value.startswith("-") and not value.startswith("--"):
            return f"{lacking[1]}: write {shlex.quote(f'{flag}={value}')}{message[lacking.end() :]}"
    return message


def parser(model: Model | None = None, named: bool = False, what: str = "") -> Parser:
    """The whole command line; commands that take a problem have the options of `model` (the default one's if None).

    `named`: the model was asked for, so what others can do is left out. `what`: of the model's simulations, the one whose
    options are shown by help; all are, if it is none of them.
    """
    model = model or models.default()
    whose = (model,) if named else tuple(models.built_in().values())
    main = Parser(
        prog="emergence",
        description="Derive, predict, simulate and judge the learning dynamics of shallow networks under SGD.",
        epilog=EXIT_CODES,
    )
    main.set_defaults(model=model, named=named)
    main.add_argument("--version", action=_Version)
    main.add_argument("--print-completion", action=_Completion)
    # Not `required`: argparse would name the destination, not say which commands there are.
    commands = main.add_subparsers(dest="command", metavar="COMMAND", title="commands", prog="emergence")
    common, out = _common(), _out()

    _judging(commands, common, out)
    derive = commands.add_parser("derive", help="show a derivation, each step checked", parents=[common])
    _name_argument(derive, "name", choosing.derivations(whose))
    derive.add_argument("--model", dest="model_name", metavar="MODEL", help=_MODEL_HELP)
    derive.add_argument("--activation", help="an activation, as in predict (default: the derivation's own, mostly h4)")
    derive.add_argument("--latex", action="store_true", help="print a LaTeX document")
    derive.description = _described(derive.description, "" if named else "emergence derive single-task --activation h4")
    for command, (text, shared) in _TAKING.items():
        one = commands.add_parser(command, help=text, parents=[common, *([out] if shared else [])])
        if command in ("simulate", "sweep"):
            _name_argument(one, "what", choosing.names(command, whose))
        one.add_argument("--model", dest="model_name", metavar="MODEL", help=_MODEL_HELP)
        one.add_argument("--config", metavar="FILE", help="TOML file with the names of the options; flags win")
        if command == "sweep":
            _sweep(one)
        one.add_argument("--figure", metavar="FILE", help=f"draw it, too: {_ENDINGS}")
        _problem(one, model, _used(model, command, what))
        other = named or (what and f" {what} " not in _EXAMPLES[command])  # the example is not one of what is shown
        one.description = _described(_OTHERS[command], "" if other else _EXAMPLES[command])
    reproduce = commands.add_parser(
        "reproduce", help="published figures, theory beside experiment", parents=[common, out]
    )
    _name_argument(reproduce, "figure", {name: figure.help for name, (_, figure) in models.figures().items()})
    reproduce.add_argument("--preset", choices=PRESETS, default="quick", help="size of the experiment (default: quick)")
    reproduce.add_argument("--workers", type=Whole().read, metavar="N", help="local processes (default: one per core)")
    explore = commands.add_parser("explore", help="a page that integrates a problem where it is read", parents=[common])
    explore.add_argument(
        "--out", dest="page", metavar="FILE", help=f"the page (default: {output.DEFAULT}/explorer.html)"
    )
    explore.add_argument(
        "--loop", metavar="FILE", help="the staircase as .mp4, .gif or .svg frames, in place of a page"
    )
    explore.add_argument("--config", metavar="FILE", help="TOML file with the names of the options; flags win")
    _problem(explore, models.default(), EXPLORED)
    _plotting(commands, common)
    merge = commands.add_parser("merge", help="a results store as one netCDF file", parents=[common, out])
    merge.add_argument("store", metavar="STORE", help="folder written by emergence sweep")
    return main


def _plotting(commands: Any, common: Parser) -> None:
    """The command that draws what is in a file."""
    plot = commands.add_parser("plot", help="the figure of a netCDF file, for a paper", parents=[common])
    plot.add_argument("file", metavar="FILE", help="of simulate, sweep, merge, reproduce or validate")
    plot.add_argument("-o", "--output", metavar="FIGURE", help=f"file to write: {_ENDINGS}")
    plot.add_argument(
        "--variables", nargs="+", metavar="NAME", help="what to draw (default: loss, overlaps and the like)"
    )
    plot.add_argument("--over", metavar="DIMENSION", help="what curves run along (default: time)")
    plot.add_argument("--log", choices=("", "x", "y", "xy"), help="logarithmic axes (default: where values ask for it)")
    plot.add_argument("--number", type=Whole().read, metavar="N", help="which figure of a claim (default: the first)")
    plot.add_argument("--width", default="column", help="column, text, or inches (default: column)")


def _judging(commands: Any, common: Parser, out: Parser) -> None:
    """The commands about claims."""
    claims = commands.add_parser("claims", help="list the catalogue of claims", parents=[common])
    claims.add_argument("ids", nargs="*", metavar="ID", help="claims to list, or patterns such as 'E1*' (default: all)")
    validate = commands.add_parser("validate", help="judge claims, write a report", parents=[common, out])
    validate.add_argument("--seed", type=Whole().read, default=0, help="random seed (default: 0)")
    validate.add_argument(
        "ids",
        nargs="*",
        metavar="ID",
        help="claims to judge, patterns such as 'E1*', quantities such as E7.h3, or Python files with CLAIMS (default: all)",
    )
    validate.add_argument("--preset", choices=PRESETS, default="quick", help="size of the experiments (default: quick)")
    validate.add_argument(
        "--workers", type=Whole().read, metavar="N", help="processes (default: one per core, at most 4)"
    )
    validate.add_argument("--seeds", metavar="SEEDS", help="several seeds, such as 0:20 or 1,5,7, a report for each")
    validate.add_argument("--store", metavar="DIR", help="folder of finished claims (default: OUT/verdicts)")
    validate.add_argument("--fresh", action="store_true", help="judge again what is finished in the store")
    validate.add_argument("--shard", metavar="I/N", help="every N-th module of claims only, from the I-th (I = 1 … N)")
    validate.add_argument("--since", metavar="COMMIT", help="only claims whose code has changed since a commit")
    calibrate = commands.add_parser(
        "calibrate", help="claims under many seeds: do they cry wolf?", parents=[common, out]
    )
    calibrate.add_argument("ids", nargs="*", metavar="ID", help="claims and files, as for validate (default: all)")
    calibrate.add_argument("--seeds", type=Whole().read, metavar="N", default=100, help="seeds 0 … N−1 (default: 100)")
    calibrate.add_argument("--budget", type=Number().read, metavar="S", help="begin no seed after S seconds")
    calibrate.add_argument(
        "--preset", choices=PRESETS, default="quick", help="size of the experiments (default: quick)"
    )
    calibrate.add_argument("--store", metavar="DIR", help="folder of finished claims (default: OUT/verdicts)")
    calibrate.add_argument(
        "--workers", type=Whole().read, metavar="N", help="processes (default: one per core, at most 4)"
    )
    _judge(commands, common, out)
    _new(commands, common)
    law = commands.add_parser(
        "check-law",
        help="is a rule, or are inputs, simulated exactly in law? Judged against vectors of R^d",
        parents=[common],
    )
    law.add_argument(
        "what", metavar="RULE", help="a Python file with a RULE or INPUTS, or a rule such as 'momentum(0.5)'"
    )
    law.add_argument(
        "--replicas", type=Whole().read, metavar="N", default=20_000, help="of each sample (default: 20000)"
    )
    law.add_argument("--seed", type=Whole().read, default=0, help="random seed (default: 0)")


def _judge(commands: Any, common: Parser, out: Parser) -> None:
    """The command about claims of one's own."""
    judge = commands.add_parser("judge", help="judge a conjecture of your own, from a file", parents=[common, out])
    judge.add_argument("files", nargs="*", metavar="FILE", help="conjecture.toml (runs no code), or conjecture.py")
    for flag, text in (
        ("--quantities", "list what can be measured, with unit and estimator"),
        ("--symbols", "list the symbols of formulas, with their values for the file's problem"),
        (
            "--plan",
            "say, from a pilot, how many runs tell the prediction from its nearest rival, and how long they take",
        ),
        ("--lock", "write ID.lock beside the file: the claim's digest, before there are data"),
    ):
        judge.add_argument(flag, action="store_true", help=text)
    judge.add_argument(
        "--against", nargs="+", metavar="ID", help="claims that judge the file's theory (default: all it reaches)"
    )
    judge.add_argument("--seeds", metavar="SEEDS", help="seeds of the data, such as 0:20, in place of the file's")
    judge.add_argument(
        "--seed", type=Whole().read, default=0, help="random seed of claims that are functions (default: 0)"
    )
    judge.add_argument(
        "--preset", choices=PRESETS, default="quick", help="size, for claims that have two (default: quick)"
    )
    judge.add_argument("--workers", type=Whole().read, metavar="N", help="processes (default: one per core)")


#: What ``new`` writes.
NEW = {
    "claim": "a conjecture that runs no code, judged by `emergence judge NAME.toml`",
    "claim-python": "one whose measurement is a Python function",
    "model": "a system of your own, served by every command",
    "activation": "what theory knows of an activation of your own",
}


def _new(commands: Any, common: Parser) -> None:
    """The command that writes files to start from."""
    new = commands.add_parser("new", help="write a commented file to start from", parents=[common])
    _name_argument(new, "kind", NEW)
    new.add_argument("name", metavar="NAME", help="of the file, without its ending")
    new.add_argument("--out", metavar="DIR", help="folder for it (default: here)")


#: Commands that take a problem: their help, and whether they write files.
_TAKING = {
    "predict": ("predictions, nothing simulated", False),
    "simulate": ("integrate or simulate, write WHAT-DIGEST.nc", True),
    "compare": ("prediction and simulation side by side", True),
    "sweep": ("a grid of problems into a results store", True),
}
#: Whose options a help does not show.
_OF_MODEL = "Another model has options of its own: add --model NAME to this help."
_OF_WHAT = "The options shown are those of WHAT: name it before --help. " + _OF_MODEL
_OTHERS = {"predict": _OF_MODEL, "compare": _OF_MODEL, "simulate": _OF_WHAT, "sweep": _OF_WHAT}
_EXAMPLES = {
    "predict": "emergence predict --dim 10000 --teacher-width 4 --student-width 16",
    "simulate": "emergence simulate gradient-flow --dim 1000 --teacher-width 4 --figure flow.pdf",
    "compare": "emergence compare --activation h3 --dim 64 --teacher-width 2 --student-width 6 --replicas 16",
    "sweep": "emergence sweep predict --dim 256 --over student-width=8,16 --over seed=0:4",
}
_MODEL_HELP = "a model by name, or a Python file with a MODEL (default: the one of WHAT, or of the activation)"


def _described(text: str | None, example: str) -> str:
    return "\n".join([*([text] if text else []), *([f"example: {example}"] if example else [])])


def _name_argument(command: Parser, destination: str, names: Mapping[str, str]) -> None:
    """The positional name of what is to be done; the help says what each is."""
    command.add_argument(destination, choices=tuple(names), metavar=destination.upper(), help=", ".join(names))
    wide = max(map(len, names), default=0)
    lines = [f"  {name:<{wide}}  {text}" for name, text in names.items() if text]
    if lines:
        command.epilog = "\n".join([f"{destination.upper()}:", *lines])


def _sweep(sweep: Parser) -> None:
    options = sweep.add_argument_group("sweep")
    options.add_argument(
        "--over",
        action="append",
        metavar="NAME=VALUES",
        help="vary an option: student-width=8,16,32 or seed=0:10 (again for more; also a table [sweep] in the file)",
    )
    options.add_argument("--store", metavar="DIR", help="folder of the finished cells (default: OUT/sweep)")
    options.add_argument("--keep", nargs="+", metavar="VARIABLE", help="variables to store (default: all)")
    options.add_argument("--workers", type=Whole().read, metavar="N", help="local processes (default: one per core)")
    options.add_argument("--scheduler", metavar="ADDRESS", help="run on a cluster of distributed instead")
    options.add_argument(
        "--list", action="store_true", help="list the cells, finished or not, and how long the others may take; no more"
    )
    options.add_argument("--shard", metavar="I/N", help="every N-th cell only, from the I-th (I = 1 … N)")


def _common() -> Parser:
    group = Parser(add_help=False)
    group.add_argument("--json", action="store_true", help="print one JSON document on standard output")
    group.add_argument("--quiet", action="store_true", help="no progress on standard error")
    return group


def _out() -> Parser:
    group = Parser(add_help=False)
    group.add_argument("--out", metavar="DIR", help=f"folder for files written (default: {output.DEFAULT})")
    return group


def _used(model: Model, command: str, what: str) -> frozenset[str]:
    """Options that are not refused: those that the model's record says the command uses."""
    if command in ("predict", "compare"):
        asked = model.predict if command == "predict" else model.compare
        return frozenset() if asked is None else asked.uses
    cells = model.simulations if command == "simulate" else model.cells
    named = [one for one in cells if one.name == what]
    return frozenset().union(*(one.uses for one in named or cells))


def _problem(command: Parser, model: Model, used: frozenset[str]) -> None:
    """One flag for every option of the model; absent flags stay absent, so that a configuration file can speak.

    Help shows those that are `used`; the others are understood, so that they are refused for what they are.
    """
    group = command.add_argument_group(f"{PROBLEM}{model.name}, {model.help}")
    for name in options(model.problem):
        own = kind(model.problem, name)
        text = help_of(model.problem, name).replace("%", "%%") if name in used else argparse.SUPPRESS
        flag, absent = f"--{written(name)}", argparse.SUPPRESS
        if isinstance(own, Switch):
            group.add_argument(flag, action=argparse.BooleanOptionalAction, help=text, default=absent)
        else:
            many, metavar = "+" if isinstance(own, MANY) else None, name.split("_")[-1].upper()
            group.add_argument(flag, type=own.read, nargs=many, help=text, metavar=metavar, default=absent)
        if also := options(model.problem)[name].metadata["also"]:
            text = f"{also}: another name for {flag}" if name in used else text
            group.add_argument(f"--{also.split()[0]}", dest=name, action=_Alias, kind=own, help=text, default=absent)


def problem_flags(arguments: argparse.Namespace) -> dict[str, Any]:
    """The problem's values that were given as flags, by field name."""
    return {name: value for name, value in vars(arguments).items() if name in options(arguments.model.problem)}
