"""The catalogue read off its declarations is the catalogue."""

from dataclasses import replace

import pytest

from validation.judge import listing
from validation.judge.catalogue import catalogue
from validation.judge.claim import Claim
from validation.judge.context import Context
from validation.judge.listing import listed

#: In place of the two runners, which are functions of their own in either list.
NOBODY = lambda context: ()  # noqa: E731


def plain(claims: list[Claim]) -> list[Claim]:
    return [replace(one, runner=NOBODY) for one in claims]


def test_what_is_listed_is_the_catalogue() -> None:
    assert plain(listed()) == plain(catalogue())
    where = [(one.runner.__module__, one.runner.__qualname__) for one in catalogue()]
    assert [(one.runner.__module__, one.runner.__qualname__) for one in listed()] == where


def test_no_module_is_imported_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every declaration of the catalogue consists of constants: the list needs no simulator."""
    monkeypatch.setattr(listing, "import_module", lambda name: pytest.fail(f"{name} was imported"))
    assert len(listed()) > 100


def test_a_declaration_that_needs_more_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing._Constants, "value", lambda self, node: 1 / 0)
    module = "validation.claims.one_task.noisy_growth"
    assert [one.id for one in listing._claims(module)] == ["E29", "E30"]


def test_a_listed_claim_runs() -> None:
    one = next(x for x in listed() if x.id == "E29")
    whole = next(x for x in catalogue() if x.id == "E29")
    assert one.run(Context("quick", 1)).measurements == whole.run(Context("quick", 1)).measurements
