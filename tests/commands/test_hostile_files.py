"""No file runs code, and none makes a reader take more than the file's own size: every reader, with such files."""

import hashlib
import io
import json
import os
import pickle
import resource
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from hostile_files import hostile

from dynamics.networks import checkpoint
from dynamics.networks.images import META, TEST_BATCH, TRAIN_BATCHES, cifar10
from emergence import config, plot
from emergence.commands.validate import wanted
from emergence.models import built_in, module_of
from emergence.store.folder import MARKER, DamagedError, canonical, cell_name, inspect, seal
from emergence.store.merging import experiments, merge, plan, plan_name
from theory import InputError
from validation.stored import stored

RAN = Path("ran")
#: Bytes that a reader may take beyond what the process has, here.
ROOM = 2**31


class _Code:
    """What a pickle makes Python run."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {RAN}",)


@pytest.fixture(autouse=True)
def _nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In an empty folder, in which no file may be made by code, with little memory to take."""
    monkeypatch.chdir(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    statistics = Path("/proc/self/statm")
    if statistics.exists():
        held = int(statistics.read_text().split()[5]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_DATA, (held + ROOM, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, before)
    assert not RAN.exists()


# ------------------------------------------------------------------------------ batches of images


def _array(letters: str, shape: tuple[int, ...], content: Any, state: Any = None) -> bytes:
    """A pickle of an array that says of itself what it likes."""

    class Type:
        def __reduce__(self) -> tuple[Any, ...]:
            return np.dtype, (letters, False, True), state

    class Array:
        def __reduce__(self) -> tuple[Any, ...]:
            builder, (kind, _, start), _ = np.empty(0).__reduce__()  # type: ignore[misc]
            return builder, (kind, (0,), start), (1, shape, Type(), False, content)

    return pickle.dumps({b"data": Array(), b"labels": [0, 1]}, protocol=2)


PICKLES = {
    "code": pickle.dumps({b"data": _Code(), b"labels": [0]}, protocol=2),
    "code in a label": pickle.dumps({b"data": 1, b"labels": [_Code()]}),
    "eval": b"cbuiltins\neval\n(S\"open('ran','w')\"\ntR.",
    "nested names": b"\x80\x04\x8c\x05numpy\x8c\x0fcore.os.system0.",
    "objects": _array("O8", (2,), [1, 2]),
    "pointers": _array("O8", (2, 3072), b"\x41" * 49152),
    "a type that denies its objects": _array(
        "V8", (2, 3072), b"\x41" * 49152, (3, "|", None, ("a",), {"a": (np.dtype("O"), 0)}, 8, 1, 0)
    ),
    "a shape beyond memory": _array("u1", (2**40, 3072), b"\0" * 3072),
    "a shape of NaN": _array("u1", (float("nan"), 3072), b"\0" * 3072),
    "other numbers": _array("f8", (2, 384), b"\0" * 6144),
    "a memo beyond memory": b"\x80\x02}r\xff\xff\xff\x7f.",
    "bytes beyond memory": b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b".",
    "a function changed": b"\x80\x02c_codecs\nencode\nN}X\x04\0\0\0nameK\1s\x86b.",
    "deep": b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
    "itself": b"\x80\x02]q\0h\0a.",
}


@pytest.fixture
def batches(tmp_path: Path) -> Path:
    """A good folder of batches."""
    folder = tmp_path / "batches"
    folder.mkdir()
    good = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 1]}
    for place, name in enumerate((*TRAIN_BATCHES, TEST_BATCH)):
        (folder / name).write_bytes(pickle.dumps(good, protocol=place % (pickle.HIGHEST_PROTOCOL + 1)))
    (folder / META).write_bytes(pickle.dumps({b"label_names": [b"a", b"b"]}, protocol=2))
    return folder


def test_every_protocol_is_read(batches: Path) -> None:
    assert cifar10(batches).train.shape == (10, 32, 32, 3)


@pytest.mark.parametrize("name", [TRAIN_BATCHES[0], META])
@pytest.mark.parametrize("content", PICKLES.values(), ids=PICKLES)
def test_a_batch(content: bytes, name: str, batches: Path) -> None:
    (batches / name).write_bytes(content)
    with pytest.raises(InputError, match=f"{name}' is damaged"):
        cifar10(batches)


def test_a_batch_without_end(batches: Path) -> None:
    os.truncate(batches / TEST_BATCH, 10**12)
    with pytest.raises(InputError, match="larger than"):
        cifar10(batches)
    (batches / TEST_BATCH).unlink()
    os.mkfifo(batches / TEST_BATCH)
    with pytest.raises(InputError, match="missing"):
        cifar10(batches)


# ------------------------------------------------------------------------------ checkpoints

LIKE = {"a": jnp.zeros((2, 3))}


def _member(shape: tuple[Any, ...], letters: str, content: bytes = b"") -> bytes:
    """An array's file whose header says what it likes."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": letters, "fortran_order": False, "shape": shape})
    return file.getvalue() + content


def _archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name.replace("__", "/") + ".npy", content)
    return path


GOOD = _member((2, 3), "<f8", b"\0" * 48)
ABOUT = _member((), "<U2", "{}".encode("utf-32-le"))


def test_a_good_checkpoint_is_read(tmp_path: Path) -> None:
    tree, about = checkpoint.load(checkpoint.save(tmp_path / "run.npz", LIKE, {"x": 1}), LIKE)
    assert (tree["a"].shape, about) == ((2, 3), {"x": 1})
    assert checkpoint.load(_archive(tmp_path / "own.npz", leaf0=GOOD, about=ABOUT), LIKE)[1] == {}


@pytest.mark.parametrize(
    "members",
    [
        {"leaf0": _member((2**40, 3), "<f8"), "about": ABOUT},
        {"leaf0": _member((2, 3), "|O", pickle.dumps(_Code())), "about": ABOUT},
        {"leaf0": GOOD, "about": _member((), "|O", pickle.dumps(_Code()))},
        {"leaf0": GOOD, "about": _member((), "<U2000000000")},
        {"leaf0": GOOD, "about": _member((), "<U3", "[1]".encode("utf-32-le"))},
        {"leaf0": GOOD, "about": _member((), "<U99999", ("[" * 99999).encode("utf-32-le"))},
        {"leaf0": GOOD, "about": ABOUT, "..__..__escaped": b"\0" * 10**8},
        {"leaf0": b"\x93NUMPY\1\0\xff\xff" + b"(" * 65535, "about": ABOUT},
        {"leaf0": GOOD + b"\0" * 10**8, "about": b""},
    ],
)
def test_a_checkpoint(members: dict[str, bytes], tmp_path: Path) -> None:
    path = _archive(tmp_path / "run.npz", **members)
    with pytest.raises(InputError, match=r"run\.npz' (is damaged|belongs to another)"):
        checkpoint.load(path, LIKE)
    assert os.listdir() == ["run.npz"]


@pytest.mark.parametrize("content", [b"", pickle.dumps(_Code()), b"PK\3\4" * 99, bytes(range(256))])
def test_a_checkpoint_that_is_no_archive(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "run.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"run\.npz' is damaged"):
        checkpoint.load(tmp_path / "run.npz", LIKE)


def test_what_stands_beside_a_tree(tmp_path: Path) -> None:
    for kept in ({}, {"records": 3}, {"records": {"loss": ["x"]}}, {"records": {"loss": [[1]]}}):
        with pytest.raises(InputError, match="damaged"):
            checkpoint.records(tmp_path, lambda kept=kept: list(map(float, kept["records"]["loss"])))


# ------------------------------------------------------------------------------ stores


def _cell(configuration: Any, **attributes: Any) -> bytes:
    """A cell with a true checksum and whatever else."""
    content = bytearray(seal(xr.Dataset({"x": ("a", [1.0])}), configuration, 0))
    for old, new in attributes.items():
        content = content.replace(old.encode(), new)
    start = content.index(b"sha256:") + 7
    content[start : start + 64] = b"0" * 64
    content[start : start + 64] = hashlib.sha256(content).hexdigest().encode()
    return bytes(content)


def test_cells_with_true_checksums() -> None:
    good = {"what": "predict", "problem": {}}
    name = cell_name(good)
    assert inspect(_cell(good), name).configuration == good
    huge = struct.pack(">i", 2**31 - 1)
    bad = [
        _cell(good, what=b"\0\0\0\0"),
        _cell(good, predict=b"{{{{{{{"),
        _cell(good).replace(b"diverged", b"divorced"),
        b"CDF\1" + b"sha256:" + b"0" * 64,
        b"CDF\1" + huge * 20,
    ]
    for content in bad:
        with pytest.raises(DamagedError):
            inspect(content, name)


def test_a_cell_of_other_dimensions_is_damage(tmp_path: Path) -> None:
    base = {"what": "predict", "version": "0", "problem": {}}
    whole = plan({**base, "problem": {"seed": 0}}, {"seed": (0, 1)})
    ((experiment,), damaged) = experiments([(plan_name(whole), canonical(whole).encode())])
    assert damaged == []
    shapes = (xr.Dataset({"x": ("a", [1.0])}), xr.Dataset({"x": (("a", "b"), [[1.0, 2.0]])}))
    for seed, data in enumerate(shapes):
        configuration = {**base, "problem": {"seed": seed}}
        (tmp_path / cell_name(configuration)).write_bytes(seal(data, configuration))
    found = merge(tmp_path, experiment)
    assert found.data is not None
    assert [values for values, _ in found.damaged] == [{"seed": 1}]


def test_stores_whose_plans_are_made_up(command: Callable, tmp_path: Path) -> None:
    folder = hostile(tmp_path / "hostile")
    stores = [path for path in folder.glob("store-*") if (path / MARKER).is_file()]
    assert len(stores) > 10
    for path in stores:
        ran = command("merge", str(path), "--quiet", "--json", "--out", str(tmp_path / "merged"))
        assert ran.code == 1, (path, ran.err)
        assert json.loads(ran.out)["damaged_plans"], path
        assert all(line.startswith("emergence: warning: plan sweep-") for line in ran.err.splitlines())
    assert not list(tmp_path.rglob("*escaped*"))


# ------------------------------------------------------------------------------ configurations, claims' files


def test_configurations(tmp_path: Path) -> None:
    for path in sorted(hostile(tmp_path / "hostile").glob("*")):
        if path.name != "empty.toml":
            with pytest.raises(InputError):
                config.load(str(path), built_in()["declared"].problem)
    (tmp_path / "code.toml").write_text("activation = \"__import__('os').system('touch ran')\"\n")
    values = config.load(str(tmp_path / "code.toml"), built_in()["additive"].problem)
    with pytest.raises(InputError, match="not understood"):
        built_in()["additive"].resolve(built_in()["additive"].problem(**values), None)


def test_files_of_claims(tmp_path: Path) -> None:
    for content in (b"", b"\x89HDF\r\n\x1a\n" * 20, pickle.dumps(_Code()), b"CDF\1" * 9):
        (tmp_path / "E1.nc").write_bytes(content)
        with pytest.raises(InputError, match=r"E1\.nc"):
            stored(tmp_path)


def test_files_to_draw(tmp_path: Path) -> None:
    data = xr.Dataset({"loss": ("a", ["x"])}, attrs={"claim": "E7", "figures": 10**9, "what": 3})
    data.to_netcdf(tmp_path / "none.nc", engine="h5netcdf")
    tree = {"/": data, "figure1": data.assign_attrs(axes="{" * 9, panels="x")}
    xr.DataTree.from_dict(tree).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    (tmp_path / "code.nc").write_bytes(pickle.dumps(_Code()))
    os.mkfifo(tmp_path / "pipe.nc")
    for path in tmp_path.glob("*.nc"):
        with pytest.raises(InputError):
            plot.file(path)


def test_a_file_of_one_s_own_that_leaves_does_not_end_the_command(tmp_path: Path) -> None:
    for name in ("exits.py", "raises.py", "syntax.py", "null.py"):
        with pytest.raises(InputError, match="running it raises"):
            module_of(str(hostile(tmp_path / name) / name))
    with pytest.raises(InputError, match="has no CLAIMS: give it a list of claims"):
        wanted(str(hostile(tmp_path / "other") / "other.py"))
