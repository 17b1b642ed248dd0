"""The user's cache folder: where it is, when it is left alone, and what happens to entries that are broken."""

import os
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

from emergence import cache

JAX = "JAX_COMPILATION_CACHE_DIR"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, nothing said by the environment."""
    for name in (cache.VARIABLE, JAX, cache._LEAST, cache._ERRORS, "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, "")  # so that it is put back whatever the test sets
        monkeypatch.delenv(name)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    return tmp_path


def test_where_it_is(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.folder() == home / ".cache" / "emergence-sgd"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache.folder() == home / "Library" / "Caches" / "emergence-sgd"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the rule: then it counts as not set
    assert cache.folder() == home / "Library" / "Caches" / "emergence-sgd"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "xdg"))
    assert cache.folder() == home / "xdg" / "emergence-sgd"
    monkeypatch.setenv(cache.VARIABLE, str(home / "mine"))
    assert cache.folder() == home / "mine"


@pytest.mark.parametrize("value", ["off", "OFF ", ""])
def test_it_can_be_switched_off(value: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.VARIABLE, value)
    with cache.kept_compiled():
        assert JAX not in os.environ
    assert not list(home.iterdir())


def test_what_the_user_has_set_stays(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(JAX, "elsewhere")
    cache.keep_compiled()
    assert os.environ[JAX] == "elsewhere"
    assert not list(home.iterdir())


LEVEL, EMITTERS = "--xla_backend_optimization_level", "--xla_cpu_use_fusion_emitters"


@pytest.mark.parametrize(
    ("version", "given", "found"),
    [
        ("0.10.2", "", f"{LEVEL}=2 {EMITTERS}=false"),
        ("0.12.0.1", "", f"{LEVEL}=2"),
        ("0.10.2", "--xla_dump_to=x", f"--xla_dump_to=x {LEVEL}=2 {EMITTERS}=false"),
        ("0.10.2", f"{LEVEL}=0", f"{LEVEL}=0 {EMITTERS}=false"),
        ("0.10.2", f"{EMITTERS}=true", f"{EMITTERS}=true {LEVEL}=2"),
    ],
)
def test_programs_are_compiled_without_waiting_for_the_last_percent(
    version: str, given: str, found: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_FLAGS", given)
    monkeypatch.setattr("importlib.metadata.version", lambda name: version)
    cache.keep_compiled()
    assert os.environ["XLA_FLAGS"] == found
    monkeypatch.setenv(cache.VARIABLE, cache.OFF)
    cache.keep_compiled()
    assert os.environ["XLA_FLAGS"] == found


@pytest.mark.parametrize("version", ["99.0.1", "0.13rc1", "unknown"])
def test_a_release_that_may_not_know_the_option_is_not_given_it(
    version: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setattr("importlib.metadata.version", lambda name: version)
    cache.keep_compiled()
    assert "XLA_FLAGS" not in os.environ


def test_a_folder_that_others_can_write_is_left_alone(home: Path) -> None:
    cache.keep_compiled()
    place = Path(os.environ.pop(JAX))
    assert place.stat().st_mode & 0o777 == 0o700
    place.chmod(0o770)
    cache.keep_compiled()
    assert JAX not in os.environ


def test_a_folder_that_cannot_be_written_is_left_alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    cache.keep_compiled()
    assert JAX not in os.environ


def test_a_folder_that_cannot_be_made_does_no_harm(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").write_text("")
    monkeypatch.setenv(cache.VARIABLE, str(home / "file" / "in"))
    with cache.kept_compiled():
        assert JAX not in os.environ


def test_each_kind_of_processor_has_its_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX does not tell them apart, and code for another processor can crash."""
    found = set()
    for flags in ("flags : sse avx", "flags : sse", "Features : neon", "nothing that is known"):
        monkeypatch.setattr(Path, "read_text", lambda *_, text=flags, **__: text)
        found.add(cache._processor())
    assert len(found) == 4


def test_broken_entries_and_too_many_go(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)  # as after a run that compiled
    cache.keep_compiled()
    place = Path(os.environ[JAX])
    whole = zlib.compress(bytes(1000))
    for age, (name, content) in enumerate({"a": whole, "b": whole[:-3], "c": b"", "d": whole + b"x"}.items()):
        (place / name).write_bytes(content)
        os.utime(place / name, (time.time() - age, time.time() - age))
    cache.tidy()
    assert {x.name for x in place.iterdir()} == {"a", "d", cache._CHECKED}
    (place / "e").write_bytes(whole)
    monkeypatch.setattr(cache, "_MOST", 2 * len(whole))
    cache.tidy()
    assert {x.name for x in place.iterdir()} == {"e", cache._CHECKED}


PROGRAM = """
import sys, os, emergence.cache as cache
cache.keep_compiled()
import jax, jax.monitoring
from dynamics.core.flow import integrate
seen = []
jax.monitoring.register_event_listener(lambda name, **_: seen.append(name.rpartition("/")[2]))
curve = lambda y, times: integrate(lambda y, _: -y, y, 0.0, 1.0, rtol=1e-6, times=times).state
found = jax.jit(curve)(jax.numpy.ones(1), jax.numpy.linspace(0.0, 1.0, 3))
print(float(found[-1, 0]), seen.count("compile_requests_use_cache"), seen.count("cache_hits"))
cache.tidy()
"""


def test_a_second_process_finds_all_that_the_first_has_compiled(home: Path) -> None:
    """Solvers of differential equations included, which check what they are given."""
    environment = {**os.environ, cache.VARIABLE: str(home)}
    environment.pop("EQX_ON_ERROR", None)

    def ran() -> tuple[str, int, int]:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        )
        value, asked, hits = done.stdout.split()
        return value, int(asked), int(hits)

    first, again = ran(), ran()
    assert first[2] == 0 < first[1]
    assert again == (first[0], first[1], first[1])
