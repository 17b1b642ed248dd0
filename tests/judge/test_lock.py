"""What a claim promised is locked: an edit of it is seen, what changes nothing is not."""

import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from theory import InputError
from validation import validate
from validation.judge import lock, runner
from validation.judge.catalogue import catalogue, claims_of
from validation.judge.claim import Claim

TEXT = '''"""Of toys."""

from validation.judge.claim import Measurement, claim

_SIZES = (8, 16)  # of both presets
_OTHER = 1


def _wrong(x):
    """What a wrong theory says."""
    return 2 * x


@claim(
    id="T1", title="t", statement="s.", latex="x", source="derived", kind="exact", regime="always", controls=("twice",),
)
def toy(context):
    """Measures."""
    one = context.pick(*_SIZES) / 8
    yield Measurement("x", 1.0, one, 0.1, 0.0, {"twice": _wrong(1.0)}, "")
'''


def loaded(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Claim:
    """The claim of a module with this text."""
    number = len(list(folder.iterdir()))
    path = folder / f"toy_{number}.py"
    path.write_text(text, encoding="utf-8")
    spec = spec_from_file_location(f"toy_module_{number}", path)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    (found,) = claims_of(module)
    return found


def test_the_catalogue_is_locked(tmp_path: Path) -> None:
    """A change that is meant: ``python -m validation.judge.lock``, and say in the commit what it is."""
    now, kept = lock.read(lock.write(tmp_path / "lock.json", catalogue())), lock.read(lock.PATH)
    assert {name: now[name] for name in now if now[name] != kept.get(name)} == {}
    assert set(kept) == set(now)
    assert lock.PATH.read_bytes() == (tmp_path / "lock.json").read_bytes()


@pytest.mark.parametrize(
    ("old", "new", "edited"),
    [
        ("s.", "t.", "declaration"),
        ('("twice",)', '("twice", "thrice")', "declaration"),
        ('kind="exact"', 'kind="asymptotic"', "declaration"),
        ("(8, 16)", "(8, 32)", "measurement"),
        ("2 * x", "3 * x", "measurement"),
        ('0.1, 0.0, {"twice"', '0.1, 0.5, {"twice"', "measurement"),
        ("# of both presets", "# of quick and full", ""),
        ("Measures.", "Measures once.", ""),
        ("2 * x", "2*x", ""),
        ("_OTHER = 1", "_OTHER = 2", ""),
        ('title="t"', 'title="other words"', ""),
    ],
)
def test_what_is_an_edit(old: str, new: str, edited: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = loaded(tmp_path, TEXT, monkeypatch)
    locks = lock.read(lock.write(tmp_path / "lock.json", [before]))
    after = loaded(tmp_path, TEXT.replace(old, new), monkeypatch)
    assert lock.state(before, locks) == "locked"
    assert lock.state(after, locks) == (f"edited after lock ({edited})" if edited else "locked")
    assert lock.state(replace(before, id="T2"), locks) == "unlocked"


def test_a_run_says_which_claims_were_edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = loaded(tmp_path, TEXT, monkeypatch)
    locks = lock.read(lock.write(tmp_path / "lock.json", [claim]))
    monkeypatch.setattr(runner, "of_catalogue", lambda: locks)
    monkeypatch.setattr(runner, "catalogue", lambda: [claim])
    run = validate(out=tmp_path)
    assert run.facts == {"T1": {"Lock": "locked"}}
    changed = replace(claim, expected="disagrees")
    monkeypatch.setattr(runner, "catalogue", lambda: [changed])
    with pytest.warns(UserWarning, match=r"claim T1 is edited after lock \(declaration\)"):
        run = validate(out=tmp_path)
    assert run.report is not None
    assert "edited after lock (declaration)" in run.report.read_text(encoding="utf-8")
    assert validate(replace(claim, id="mine")).facts == {"mine": {}}


@pytest.mark.parametrize("text", ["{", "[]", '{"E1": 3}', "[" * 100_000, "\0"])
def test_what_is_no_lock_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "lock.json").write_text(text)
    with pytest.raises(InputError, match=r"cannot be read \(\w+\): run python -m validation.judge.lock"):
        lock.read(tmp_path / "lock.json")
    assert lock.read(tmp_path / "none") == {}
