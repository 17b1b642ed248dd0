"""Claims whose code has changed since a commit: what they reach then and now, compared as the store compares it."""

import io
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from emergence import verdict_cells
from emergence.refusal import refuse
from emergence.store.code_digest import PACKAGES, Code
from emergence.values import shown

if TYPE_CHECKING:
    from validation.judge.claim import Claim

_ROOT = Path(__file__).resolve().parents[1]


def changed(claims: "Sequence[Claim]", commit: str) -> "list[Claim]":
    """The claims whose results may differ from those at the commit: their own code, or any that they reach, is another.

    Claims of files outside the project are always among them. Raises `InputError` for what is no commit of this checkout.
    """
    with tempfile.TemporaryDirectory() as folder:
        then = Path(folder).resolve()
        _check_out(commit, then)
        return [claim for claim in claims if _changed(claim, Code(then))]


def _changed(claim: "Claim", then: Code) -> bool:
    files = verdict_cells.files_of(claim)
    if not files or not all(file.is_relative_to(_ROOT) for file in files):
        return True
    starts = [file.relative_to(_ROOT) for file in (*files, _ROOT / verdict_cells.DRAWN)]
    before = [then.root / start for start in starts]
    if not all(path.is_file() for path in before):
        return True
    return then.digest(*before) != Code(_ROOT).digest(*(_ROOT / start for start in starts))


def _check_out(commit: str, folder: Path) -> None:
    """The packages as they were at the commit, in an empty folder."""
    named = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
    if named.returncode:
        known = _git("rev-parse", "--git-dir").returncode == 0
        what = "no commit of this checkout" if known else "given, but this installation is no git checkout"
        refuse(f"--since is {shown(commit)}: {what}: give a commit, a branch or a tag, or leave it out")
    there = _git("ls-tree", "--name-only", named.stdout.decode().strip()).stdout.decode().split()
    packed = _git("archive", named.stdout.decode().strip(), *(name for name in PACKAGES if name in there))
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
        files.extractall(folder, filter="data")


def _git(*arguments: str) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(["git", "-C", str(_ROOT), *arguments], capture_output=True, check=False)
    except OSError:
        refuse("--since is given, and git is not installed: install it, or leave the option out")
