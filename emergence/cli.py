"""``emergence``: parse, dispatch, print, and turn every way of ending into an exit status."""

import argparse
import contextlib
import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Sequence

from _emergence import StrangerError, check_siblings
from emergence import cache, console, jsonio, models, output, resources
from emergence.arguments import UsageError, parse
from emergence.interruption import NOTHING, Kept, asked, heeded
from emergence.patience import Patience
from emergence.refusal import is_refusal, refuse
from emergence.result import Result
from emergence.values import Whole

DONE, BAD_INPUT, INTERNAL, INTERRUPTED = 0, 2, 3, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status.

    0 done; 1 done, but a verdict is not as expected or a simulation diverged; 2 bad input (one line on standard error);
    3 internal error (a traceback with ``EMERGENCE_DEBUG=1``); 130 interrupted (Ctrl-C, SIGTERM, SIGHUP).
    """
    console.secure()
    # An accelerator is slower at long loops of small steps, and its memory is reserved by whoever starts it: only on request.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    with heeded(), resources.bounded(), output.nothing_empty():
        return _ended(argv)


def _ended(argv: Sequence[str] | None) -> int:
    """The exit status, however the command ends."""
    try:
        try:
            arguments = parse(sys.argv[1:] if argv is None else argv)
        except SystemExit:  # --help and --version have printed and are done
            return DONE
        result = _run(arguments)
        console.say(jsonio.dumps(result.document) if arguments.json else result.text)
        return result.code
    except KeyboardInterrupt as stop:
        console.fail(str(stop) if isinstance(stop, Kept) else NOTHING, label="interrupted")
        return INTERRUPTED
    except Exception as error:
        if not asked.is_set():
            return _report(error)
        console.fail(f"the command could not end as it should ({type(error).__name__}: {error})", label="interrupted")
        return INTERRUPTED


def _run(arguments: argparse.Namespace) -> Result:
    """Check what every command shares, then run the command with standard output kept clean for its document."""
    if arguments.command is None:
        refuse("no command is given: use emergence --help to see them")
    if "seed" in arguments:
        Whole(0).check("--seed", arguments.seed)
    if getattr(arguments, "out", None) is not None:
        output.check(arguments.out)
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings(record=True) as caught, cache.kept_compiled():
        check_siblings("emergence")
        command = importlib.import_module(f"emergence.commands.{arguments.command.replace('-', '_')}")
        with Patience(arguments.quiet):
            result: Result = command.run(arguments)
    # Shown only now: bad input is answered by one line, not by what a library thought on the way to it.
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        console.warn(text)
    return result


def _report(error: Exception) -> int:
    """One line for an error, and its exit status."""
    if isinstance(error, UsageError | StrangerError) or is_refusal(error):
        console.fail(str(error))
        return BAD_INPUT
    if (text := resources.remedy(error)) is not None:
        console.fail(text)
        return BAD_INPUT
    if os.environ.get("EMERGENCE_DEBUG"):
        traceback.print_exception(error)
    hint = "EMERGENCE_DEBUG=1 shows the traceback"
    if text := models.mended(error):
        console.fail(f"{text} ({hint})")
        return BAD_INPUT
    console.fail(f"{type(error).__name__}: {error} ({hint})", label="internal error")
    return INTERNAL
