"""The results store: what is in it is whole, or is named as damaged; whoever is killed leaves no damage."""

import io
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from emergence.store import folder as store
from emergence.store.folder import DamagedError, Store, cell_name, inspect, seal
from emergence.store.locks import Locks
from theory import InputError

KILLS = 25


def configuration(number: int = 0) -> dict:
    return {"what": "toy", "problem": {"number": number, "activation": "½(z²−1)"}}


def dataset(seed: int = 0) -> xr.Dataset:
    rng = np.random.default_rng(seed)
    return xr.Dataset(
        {"loss": ("sample", rng.random(50), {"units": "½E(f*−f)²"}), "steps": ("sample", np.arange(50) + 2**40)},
        coords={"time": ("sample", rng.random(50)), "sample": np.arange(50)},
    )


def sealed(number: int = 0) -> tuple[str, bytes]:
    return cell_name(configuration(number)), seal(dataset(number), configuration(number), diverged=number)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# --------------------------------------------------------------------------------- cells


def test_a_cell_says_what_it_is_and_reads_back() -> None:
    name, content = sealed(3)
    assert inspect(content, name) == store.Header(configuration(3), 3)
    assert content == sealed(3)[1]
    stored = xr.load_dataset(io.BytesIO(content), engine="scipy")
    np.testing.assert_array_equal(stored.loss, dataset(3).loss)
    np.testing.assert_array_equal(stored.steps, np.arange(50) + 2**40)  # beyond 32 bits, kept as doubles
    assert stored.loss.attrs["units"] == "½E(f*−f)²"


def test_the_name_is_the_hash_of_the_configuration() -> None:
    assert cell_name({"what": "a", "x": 1.0, "y": None}) == cell_name({"y": None, "x": 1.0, "what": "a"})
    names = {cell_name({"what": "a", "x": x}) for x in (1, 1.0, True, "1", None, [1], 1 + 2**-52)}
    assert len(names) == 7
    with pytest.raises(ValueError, match="not JSON compliant"):
        cell_name({"what": "a", "x": float("nan")})


def test_every_truncation_and_every_changed_byte_is_noticed() -> None:
    name, content = sealed()
    rng = random.Random(0)
    for length in [0, 1, 3, 4, 100, *rng.sample(range(len(content)), 100), len(content) - 1]:
        with pytest.raises(DamagedError):
            inspect(content[:length], name)
    for place in [*range(200), *rng.sample(range(len(content)), 300)]:
        changed = bytearray(content)
        changed[place] ^= 1 << rng.randrange(8)
        with pytest.raises(DamagedError):
            inspect(bytes(changed), name)
    with pytest.raises(DamagedError):
        inspect(content + b"\0", name)
    with pytest.raises(DamagedError, match="another configuration"):
        inspect(content, sealed(1)[0])


# -------------------------------------------------------------------------------- folder


def test_a_new_folder_becomes_a_store_and_another_is_refused(tmp_path: Path) -> None:
    with Store(tmp_path / "deep" / "er") as fresh:
        assert store.is_store(fresh.folder)
        assert store.check(str(fresh.folder)) == fresh.folder
    (tmp_path / "letters").mkdir()
    assert store.check(str(tmp_path / "letters")) == tmp_path / "letters"
    (tmp_path / "letters" / "a.txt").write_text("dear")
    with pytest.raises(InputError, match=r"holds other things \('a.txt'\)"):
        store.check(str(tmp_path / "letters"))


def test_a_store_that_was_killed_while_new_is_still_one(tmp_path: Path) -> None:
    (tmp_path / ".tmp-emergence-store.json.abcd").write_text("{")
    (tmp_path / ".locks").write_text("")
    assert store.check(str(tmp_path)) == tmp_path


def test_a_damaged_cell_is_set_aside(tmp_path: Path) -> None:
    name, content = sealed()
    with Store(tmp_path) as opened:
        assert opened.read(name) is None
        opened.write(name, content[:-10])
        with pytest.raises(DamagedError):
            opened.read(name)
        assert opened.set_aside(name) == name + ".corrupt"
        assert opened.read(name) is None
        opened.write(name, content)
        assert opened.read(name) == store.Header(configuration(), 0)
    assert (tmp_path / (name + ".corrupt")).read_bytes() == content[:-10]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    name, content = sealed()
    with Store(tmp_path) as opened:
        before = sorted(os.listdir(tmp_path))
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(InputError, match=r"No space.*make room"):
            opened.write(name, content)
        assert sorted(os.listdir(tmp_path)) == before


# ------------------------------------------------------------------------ other processes

_HOLDER = """
import sys
from pathlib import Path
from emergence.store.locks import Locks
locks = Locks(Path(sys.argv[1]) / ".locks")
print(locks.take(sys.argv[2]), flush=True)
sys.stdin.read()
"""


def test_a_lock_keeps_others_out_until_its_process_dies(tmp_path: Path) -> None:
    name = "cell.nc"
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(tmp_path), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    with Store(tmp_path) as opened:
        assert opened.locks.working
        temporary = tmp_path / f".tmp-{name}.0000"
        temporary.write_text("part")
        assert not opened.locks.take(name)
        assert opened.locks.take("other.nc")
        assert opened.sweep_up() == 0  # its writer is alive
        holder.kill()
        holder.wait()
        assert opened.locks.take(name)
        opened.locks.release(name)
        assert opened.sweep_up() == 1
        assert not temporary.exists()


def test_without_locks_only_old_temporaries_go(tmp_path: Path) -> None:
    with Store(tmp_path) as opened:
        opened.locks.working = False
        young, old = tmp_path / ".tmp-a.nc.0", tmp_path / ".tmp-b.nc.0"
        for path in (young, old):
            path.write_text("")
        os.utime(old, (0, 0))
        assert opened.sweep_up() == 1
        assert young.exists()
        assert opened.locks.take("a.nc")


_WRITER = """
import os, pickle, sys, time
from pathlib import Path
from emergence.store.folder import Store
flush = os.fsync
os.fsync = lambda number: (flush(number), time.sleep(0.001))  # a slow disk: most kills hit a write
cells = pickle.loads(Path(sys.argv[2]).read_bytes())
with Store(Path(sys.argv[1])) as store:
    store.sweep_up()
    missing = {name: content for name, content in cells.items() if store.read(name) is None}
    print("about to write", flush=True)
    for name, content in missing.items():
        if store.locks.take(name):
            store.write(name, content)
            store.locks.release(name)
"""


@pytest.mark.slow
def test_a_store_survives_many_kills_while_being_written(tmp_path: Path) -> None:
    """SIGKILL at random moments, most of them within a write; then one run to the end."""
    cells = dict(sealed(number) for number in range(300))
    (tmp_path / "cells").write_bytes(pickle.dumps(cells))
    command = [sys.executable, "-c", _WRITER, str(tmp_path / "store"), str(tmp_path / "cells")]
    rng, kills, leftovers = random.Random(1), 0, 0
    while kills < KILLS:
        writer = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert writer.stdout is not None
        if rng.random() < 0.8:
            writer.stdout.readline()
        time.sleep(rng.uniform(0, 0.06))
        kills += writer.poll() is None
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        present = contents(tmp_path / "store") if (tmp_path / "store").exists() else {}
        leftovers += sum(name.startswith(".tmp-") for name in present)
        for name in present.keys() & cells.keys():
            assert present[name] == cells[name]
        if len(present.keys() & cells.keys()) == len(cells):  # all done before the kills are: begin again
            for name in cells:
                (tmp_path / "store" / name).unlink()
    assert subprocess.run(command, capture_output=True, check=True).stderr == b""
    after = contents(tmp_path / "store")
    assert after == {**cells, ".locks": b"", store.MARKER: b'{"format":1}'}
    assert leftovers > 0, "no kill hit a write: the test shows nothing"


def test_locks_need_no_file_of_their_own(tmp_path: Path) -> None:
    locks = Locks(tmp_path / "locks")
    assert all(locks.take(f"cell-{i}") for i in range(100))
    with locks.held("cell-7"):
        pass
    assert os.listdir(tmp_path) == ["locks"]
    locks.close()
