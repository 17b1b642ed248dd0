"""How the claims on the coupled flow choose their starts, before any flow is looked at."""

import pytest

from validation import Context
from validation.claims.additive import coupled_flow
from validation.claims.additive.coupled_flow import Excess


def excess(undeflated: float) -> Excess:
    return Excess(1.0227, 0.0002, {"no excess": 1.0, "no deflation": undeflated})


def test_theory_sees_a_control_that_is_two_allowances_away() -> None:
    """One that differs by less may survive data that agree with theory."""
    assert not excess(1.0229).sees
    assert excess(1.0232).sees
    assert excess(float("inf")).sees


def test_starts_are_added_until_theory_sees_its_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coupled_flow, "coupled_run", lambda context, dim, number, scale=0.03: number)
    monkeypatch.setattr(Excess, "of", lambda context, dim, runs: excess(1.0227 + 0.0001 * len(runs)))
    runs, theory = coupled_flow._seeing(Context(), 256)
    assert runs == [0, 1, 2, 3, 4]
    assert theory.sees


def test_a_theory_that_is_its_own_control_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coupled_flow, "coupled_run", lambda context, dim, number, scale=0.03: number)
    monkeypatch.setattr(Excess, "of", lambda context, dim, runs: excess(1.0227))
    assert len(coupled_flow._seeing(Context(), 256)[0]) == 12
