"""What a file says of its making: enough to make it again, true, and nothing of a person's folders."""

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import emergence
from dynamics.core import provenance as module
from dynamics.core.provenance import provenance


@pytest.fixture(autouse=True)
def _forget():
    module.commit.cache_clear()
    yield
    module.commit.cache_clear()


def test_it_names_code_command_settings_libraries_and_time(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/home/someone/venv/bin/emergence", "validate", "E7", "--out", "my folder"])
    found = provenance(seed=3, preset="quick", replicas=None)
    assert found["command"] == "emergence validate E7 --out 'my folder'"
    assert (found["seed"], found["preset"]) == (3, "quick")
    assert "replicas" not in found  # unknown is left out: netCDF has no None
    assert found["emergence_version"] == emergence.__version__
    assert json.loads(found["libraries"])["numpy"] == np.__version__
    assert set(json.loads(found["libraries"])) == set(module.LIBRARIES)
    assert datetime.now(UTC) - datetime.fromisoformat(found["date"]) < timedelta(minutes=1)
    assert all(isinstance(value, str | int | float) for value in found.values())
    assert "someone" not in json.dumps(found)


def test_a_module_run_by_its_name_is_named_so(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/somewhere/site-packages/emergence/__main__.py", "claims"])
    assert module.command() == "python -m emergence claims"


def _git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_commit_is_that_of_our_own_files_and_says_if_they_were_edited(tmp_path, monkeypatch):
    """A virtual environment often lies inside another project's checkout: its commit is not ours."""
    copy = tmp_path / "dynamics" / "provenance.py"
    copy.parent.mkdir()
    copy.write_text(Path(module.__file__).read_text())
    (tmp_path / "other.py").write_text("1")
    _git(tmp_path, "init")
    _git(tmp_path, "add", "other.py")
    _git(tmp_path, "commit", "-m", "other")
    monkeypatch.setattr(module, "__file__", str(copy))
    monkeypatch.setattr(module.metadata, "distribution", _no_distribution)
    assert module.commit() == ""
    _git(tmp_path, "add", "dynamics")
    _git(tmp_path, "commit", "-m", "ours")
    module.commit.cache_clear()
    assert len(clean := module.commit()) == 40
    copy.write_text("edited")
    module.commit.cache_clear()
    assert module.commit() == f"{clean}+changes"


def _no_distribution(name):
    raise metadata.PackageNotFoundError(name)


def test_an_installation_from_a_repository_knows_its_commit(monkeypatch):
    note = json.dumps({"url": "https://example.org/x", "vcs_info": {"vcs": "git", "commit_id": "abc123"}})
    monkeypatch.setattr(module, "_git", lambda *arguments: None)
    monkeypatch.setattr(module.metadata, "distribution", lambda name: type("D", (), {"read_text": lambda s, n: note})())
    assert module.commit() == "abc123"
