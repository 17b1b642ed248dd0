"""What the surroundings do to a run: each row of the table in the documentation is a test, here or in a neighbour."""

import ast
import contextlib
import errno
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import xarray as xr
from inline import Inline, toy

import theory
from emergence.cells import configuration
from emergence.commands import sweep
from emergence.models import default
from emergence.progress import Progress
from emergence.store import engine as engines
from emergence.store.engine import Cluster
from emergence.store.folder import Store
from emergence.store.sweeping import Cell, Sweep
from theory import InputError

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "faults.md"
TOY = ["simulate", "toy", "--exponents", "1", "2", "--quiet"]
SWEEP = [
    "sweep",
    "predict",
    "--activation",
    "h3",
    "--dim",
    "64",
    "--teacher-width",
    "2",
    "--over",
    "seed=0:4",
    "--quiet",
]
LISTED = [sys.executable, "-m", "emergence", "claims", "E7", "--json"]


def test_every_row_is_a_test() -> None:
    table = PAGE.read_text(encoding="utf-8").split("\n## ")[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| ")]
    named = [name for row in rows for name in re.findall(r"`(test_\w+)`", row[-2])]
    assert len(named) == len(rows) - 1 > 15
    written = {
        node.name
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    assert set(named) <= written


def _one_line(ran: Any, code: int = 2) -> str:
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1), ran.err
    return str(ran.err)


# ------------------------------------------------------------------------------ asked to end


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[signal.Signals, Any, str], None]:
    """Have a signal sent when a function is called."""

    def at(one: signal.Signals, place: Any, name: str) -> None:
        before = getattr(place, name)

        def called(*given: Any, **more: Any) -> Any:
            signal.raise_signal(one)
            return before(*given, **more)

        monkeypatch.setattr(place, name, called)

    return at


@pytest.mark.parametrize("one", [signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
def test_requests_to_end_are_heeded_like_ctrl_c(one: signal.Signals, command: Callable, asked: Callable) -> None:
    before = signal.signal(one, signal.SIG_DFL)  # these tests themselves may run under nohup
    try:
        asked(one, theory.Activation, "parse")
        assert _one_line(command("predict"), 130) == "emergence: interrupted: nothing was written\n"
        assert signal.getsignal(one) is signal.SIG_DFL
    finally:
        signal.signal(one, before)


def _swallow() -> None:
    """What a library written in another language makes of a request in the middle of its work."""
    try:
        signal.raise_signal(signal.SIGTERM)
    except KeyboardInterrupt as stop:
        raise SystemError("returned a result with an exception set") from stop


def test_a_request_that_a_library_turns_into_an_error_is_heeded(
    command: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(theory.Activation, "parse", lambda *_, **__: _swallow())
        said = _one_line(command("predict"), 130)
    assert said.startswith("emergence: interrupted: ")
    assert "SystemError: returned a result" in said

    def ask(self: Progress, fraction: float, text: str = "") -> None:
        if fraction >= 0.3:
            _swallow()

    monkeypatch.setattr(Progress, "__call__", ask)
    argv = ["sweep", "predict", "--activation", "h3", "--dim", "64", "--over", "seed=0:4", "--workers", "1"]
    assert "the cells so far are kept in" in _one_line(command(*argv), 130)


def test_sigterm_keeps_what_is_finished(command: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(self: Progress, fraction: float, text: str = "") -> None:
        if fraction >= 0.3:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Progress, "__call__", ask)
    said = _one_line(command(*TOY), 130)
    path = Path(said.strip().split(" kept in ")[1])
    assert path.name.endswith(".unfinished.nc")
    assert xr.load_dataset(path, engine="h5netcdf").sizes["toy"] < 3


def test_nohup_is_respected(command: Callable, asked: Callable) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        asked(signal.SIGHUP, theory.Activation, "parse")
        assert command("predict", "--activation", "h3", "--dim", "64").code == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


# ------------------------------------------------------------------------------ streams


def _shell(line: str, *, argv: list[str] = LISTED) -> "subprocess.CompletedProcess[str]":
    """A command line with its streams as a shell sets them; ``$@`` is the command."""
    told = ["bash", "-c", f"set -o pipefail; {line}", "bash", *argv]
    return subprocess.run(told, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")
@pytest.mark.parametrize("asked", [["claims", "E7"], ["--version"], ["simulate", "--help"]], ids=" ".join)
def test_full_standard_output(asked: list[str]) -> None:
    done = _shell('"$@" > /dev/full', argv=[sys.executable, "-m", "emergence", *asked])
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "standard output cannot be written (No space left on device)" in done.stderr


def test_closed_standard_output() -> None:
    done = _shell('"$@" >&-')
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "emergence: warning: standard output is closed: the result is not shown\n"


def test_closed_standard_error() -> None:
    whole = _shell('"$@"')
    assert (whole.returncode, whole.stderr) == (0, "")
    for closed in ("2>&-", "2>&- <&-", "2>/dev/full"):
        done = _shell(f'"$@" {closed}')
        assert (done.returncode, done.stdout) == (0, whole.stdout)
    assert _shell('"$@" nonsense 2>&-').returncode == 2


def test_all_streams_closed() -> None:
    """Files of the run's own must not take the places of standard streams: what libraries print would go into them."""
    assert _shell('"$@" <&- >&- 2>&-').returncode == 0
    opened = (
        "from emergence.cli import main; main(['--version']); import sys; f = open('/dev/null'); sys.exit(f.fileno())"
    )
    assert _shell('"$@" <&- >&- 2>&-', argv=[sys.executable, "-c", opened]).returncode > 2


def test_a_reader_that_goes_away() -> None:
    for reader in ("true", "head -c 1 > /dev/null"):
        done = _shell(f'"$@" | {reader}')
        assert (done.returncode, done.stderr) == (0, "")


# ------------------------------------------------------------------------------ folders and disks


def test_an_output_folder_that_vanishes_is_made_again(command: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Progress, "__call__", lambda *_: shutil.rmtree("emergence-out", ignore_errors=True))
    assert command(*TOY).code == 0
    assert len(os.listdir("emergence-out")) == 1


def test_a_result_that_cannot_be_written_is_kept_elsewhere(
    command: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        if path.parent.name == "emergence-out":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    said = _one_line(command(*TOY))
    assert "No space left on device" in said
    kept = Path(said.strip().split(" is kept in ")[1])
    assert xr.load_dataset(kept, engine="h5netcdf").sizes["toy"] == 3
    assert not Path("emergence-out").exists()


@pytest.fixture
def limited() -> Iterator[Callable[[int], None]]:
    """Set the size that files of this process can have, as a disk with so much room."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweeps compute in this process."""
    monkeypatch.setattr(sweep, "_engine", lambda *_: contextlib.nullcontext(Inline()))


def test_a_disk_that_fills_up_keeps_finished_cells(
    command: Callable, inline: None, monkeypatch: pytest.MonkeyPatch, limited: Callable[[int], None]
) -> None:
    write, written = Store.write, []

    def filling(self: Store, name: str, content: bytes) -> None:
        if name.startswith("predict-"):
            written.append(name)
        limited(100 if len(written) > 2 else resource.RLIM_INFINITY)
        write(self, name, content)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "write", filling)
        said = _one_line(command(*SWEEP))
    assert "store is" in said
    assert "make room and run it again" in said
    limited(resource.RLIM_INFINITY)
    assert [name for name in os.listdir("emergence-out/sweep") if name.startswith(".tmp")] == []
    ran = command(*SWEEP)
    assert ran.code == 0
    assert "(2 computed, 2 found, 0 damaged before)" in ran.out


def test_a_store_that_vanishes_costs_one_line(command: Callable, inline: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Progress, "__call__", lambda *_: shutil.rmtree("emergence-out/sweep", ignore_errors=True))
        assert "it has gone while it was used: run it again" in _one_line(command(*SWEEP))
    assert "(4 computed, 0 found" in command(*SWEEP).out


def test_what_a_dead_scheduler_says_at_the_end_hides_nothing() -> None:
    def dead(**_: object) -> None:
        raise RuntimeError("Cannot change state of expiring Timeout")

    cluster = Cluster("tcp://127.0.0.1:1")
    cluster._client = cluster._executor = SimpleNamespace(close=dead, shutdown=dead)
    cluster.__exit__(InputError, InputError("it stopped answering"), None)
    with pytest.raises(RuntimeError):
        cluster.__exit__(None, None, None)


def test_a_scheduler_that_dies_costs_the_cells_in_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(engines, "_PATIENCE", 2)
    cells = [Cell({"seed": n}, configuration(default(), "predict", default().problem(seed=n))) for n in range(9)]
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None, protocol="tcp", silence_logs=50
        ) as local,
        Store(tmp_path / "store") as store,
    ):
        with (
            pytest.raises(InputError, match="it stopped answering: start it and run again, finished cells are kept"),
            Cluster(local.scheduler_address) as engine,
        ):
            Sweep(store, cells, lambda _: None, lambda *_: local.close(), toy).run(engine)
        left = Sweep(store, cells, lambda _: None, lambda *_: None, toy)
        assert 0 < len(left.outcome.found) < len(cells)
        assert len(left.run(Inline()).computed) == len(cells) - len(left.outcome.found)
