"""Files that no reader should trust: pipes, links in a ring, texts too deep and too long, stores that lie of themselves."""

import os
from pathlib import Path
from typing import Any

from emergence.store.folder import MARKER, canonical
from emergence.store.merging import plan_name


def hostile(folder: Path) -> Path:
    """Fill `folder` with files that no reader should trust."""
    folder.mkdir()
    os.mkfifo(folder / "fifo")
    (folder / "folder.toml").mkdir()
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "dangling.toml").symlink_to(folder / "nowhere")
    for name, content in {
        "empty.toml": b"",
        "deep.toml": b"dim = " + b"[" * 100_000 + b"]" * 100_000,
        "dotted.toml": b".".join([b"a"] * 100_000) + b" = 1",
        "tables.toml": b"\n".join(b"[" + b".".join([b"a"] * n) + b"]" for n in range(1, 400)),
        "number.toml": b"dim = " + b"9" * 900_000,
        "nul.toml": b"dim = 3\0",
        "latin.toml": b"activation = '\xe9'",
        "bytes.nc": bytes(range(256)) * 64,
        "cut.nc": b"CDF\x01\0\0\0\1",
        "raises.py": b"raise ValueError('x\\ny')",
        "exits.py": b"import sys; sys.exit(0)",
        "other.py": b"MODEL = 3\nRULE = 3\nINPUTS = print\nCLAIMS = 7\n",
        "syntax.py": b"def",
        "null.py": b"\0",
    }.items():
        (folder / name).write_bytes(content)
    with open(folder / "sparse.toml", "wb") as file:
        file.truncate(10**12)
    _hostile_stores(folder)
    return folder


def _hostile_stores(folder: Path) -> None:
    """Stores whose plans and cells say of themselves what they are not."""
    good = {"what": "predict", "version": "0", "schema": 3, "model": {"name": "additive"}, "keep": None, "problem": {}}
    plans: dict[str, Any] = {
        "list": [1], "number": 3, "none": None, "bare": {}, "flat": good | {"over": 3}, "unnamed": good | {"over": [[1, 2]]},
        "mixed": good | {"over": [["seed", [1, "x"]]]}, "nested": good | {"over": [["seed", [[1], {}]]]},
        "wide": good | {"over": [[name, list(range(1000))] for name in ("seed", "dim", "steps")]},
        "upwards": good | {"what": "../../escaped", "over": [["seed", [1]]]},
        "empty": good | {"over": [["seed", []]]}, "twice": good | {"over": [["seed", [1]], ["seed", [2]]]},
    }  # fmt: skip
    for name, plan in plans.items():
        (folder / f"store-{name}").mkdir()
        (folder / f"store-{name}" / MARKER).write_text("{}")
        (folder / f"store-{name}" / plan_name(plan)).write_text(canonical(plan))
    deep = folder / "store-deep"
    deep.mkdir()
    (deep / MARKER).write_text("")
    (deep / f"sweep-{'0' * 64}.json").write_text("[" * 100_000 + "]" * 100_000)
    os.mkfifo(deep / f"sweep-{'1' * 64}.json")
