"""Shared fixtures: students as explicit vectors with overlaps by plain linear algebra, and the command line."""

import contextlib
import ctypes
import gc
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from emergence import answers, cache
from emergence.cli import main
from theory import InitialState, Teacher

# Tests compile much and run little of it. Without a cache this takes a quarter less time than at the level of the command
# line, a third less again without XLA's fusion emitters, and a tenth where a program is not split among threads; long loops
# then run up to a fifth longer. (jaxlib ends at an option that it does not know.)
_QUICK = ["--xla_backend_optimization_level=1"]
if metadata.version("jaxlib").startswith("0.10."):
    _QUICK += ["--xla_cpu_use_fusion_emitters=false", "--xla_cpu_parallel_codegen_split_count=1"]
os.environ.setdefault("XLA_FLAGS", " ".join(_QUICK))
cache.keep_compiled()  # before any test module imports JAX: a second run of the tests need not compile again

# Tracing makes objects by the million, and JAX does work of its own at each collection.
gc.set_threshold(50_000, 20, 20)

#: Bytes.
_LEAN = 9 << 28


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Cases that ``slow_for`` names are slow; one that does not exist is an error, unless single cases were asked for."""
    left: dict[str, set[str]] = {}
    for item in items:
        for mark in item.iter_markers("slow_for"):
            named = {name.encode("unicode_escape").decode() for name in mark.args}
            case = item.callspec.id  # type: ignore[attr-defined]
            if case in named:
                item.add_marker("slow")
            left.setdefault(item.nodeid.partition("[")[0], named).discard(case)
    if any(left.values()) and not any("[" in asked for asked in config.args):
        raise pytest.UsageError(
            f"slow_for names cases that do not exist: { {test: x for test, x in left.items() if x} }"
        )


def pytest_collection_finish() -> None:
    """What is imported stays: the collector passes it over."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def lean() -> Iterator[None]:
    """A process that holds more than `_LEAN` bytes drops its compiled programs after a file, which few others use."""
    yield
    if "jax" in sys.modules and resident() > _LEAN:
        import jax

        jax.clear_caches()
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)  # of GNU's C library


def resident() -> int:
    """Bytes of memory that this process holds; 0 where the system does not say."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.is_file() else 0


@pytest.fixture(autouse=True)
def no_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Predictions are worked out: what was answered before could hide what a test has changed."""
    monkeypatch.setattr(answers, "_place", lambda _: None)


@dataclass(frozen=True)
class Frame:
    """Students as vectors of R^d (teachers are e_1 … e_P) and what follows from them.

    Attributes:
        vectors: V, shape (m, d). weights: a, shape (P,). overlap, student_overlap, norm2: t (m, P), c (m, m), r (m,).
    """

    vectors: np.ndarray
    weights: np.ndarray
    overlap: np.ndarray
    student_overlap: np.ndarray
    norm2: np.ndarray

    @property
    def teacher(self) -> Teacher:
        return Teacher.of(self.weights.tolist(), self.vectors.shape[1], normalise=False)

    @property
    def initial(self) -> InitialState:
        """The same students in the project's own coordinates; the residual's QR factor is computed here, by NumPy."""
        known = self.weights.size
        return InitialState(self.vectors[:, :known], np.asarray(np.linalg.qr(self.vectors[:, known:].T, mode="r")).T)


def frame_of(vectors: np.ndarray, weights: np.ndarray) -> Frame:
    """Overlaps of explicit vectors."""
    norm2 = np.sum(vectors**2, axis=1)
    units = vectors / np.sqrt(norm2)[:, None]
    return Frame(vectors, weights, units[:, : weights.size], units @ units.T, norm2)


@pytest.fixture(scope="session")
def frame() -> Callable[..., Frame]:
    """``frame(m, P, d, seed)``: students of different norms (about `scale`) and weights in (½, 1)."""

    def make(width: int, teacher_width: int, dim: int, seed: int = 0, scale: float = 0.7) -> Frame:
        rng = np.random.default_rng(seed)
        vectors = rng.standard_normal((width, dim)) * rng.uniform(0.5, 1.5, (width, 1)) * scale / np.sqrt(dim)
        return frame_of(vectors, rng.uniform(0.5, 1.0, teacher_width))

    return make


class Ran(NamedTuple):
    """What a command line came to: exit status, standard output, standard error."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The JSON document, None if there is no output; NaN and infinity are no JSON."""
        return json.loads(self.out, parse_constant=_refuse_constant) if self.out else None


def _refuse_constant(name: str) -> float:
    raise AssertionError(f"{name} is not JSON")


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """``command(*argv)``: the command line in an empty folder, as people see it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EMERGENCE_DEBUG", raising=False)

    def call(*argv: str) -> Ran:
        capsys.readouterr()
        return Ran(main(argv), *capsys.readouterr())

    return call


@pytest.fixture
def run(command: Callable[..., Ran]) -> Callable[..., tuple[int, Any, str]]:
    """``run(*argv)`` with ``--json``: exit status, document (None if there is none), standard error."""

    def call(*argv: str) -> tuple[int, Any, str]:
        ran = command(*argv, "--json")
        return ran.code, ran.document, ran.err

    return call


@pytest.fixture
def refused(command: Callable[..., Ran], tmp_path: Path) -> Callable[..., str]:
    """``refused(*argv)``: the one line that bad input costs; no output, and no file that was not there before."""

    def call(*argv: str) -> str:
        before = sorted(tmp_path.rglob("*"))
        code, out, err = command(*argv)
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert err.startswith("emergence: error: ")
        assert sorted(tmp_path.rglob("*")) == before
        return err

    return call
