"""Steps from inner products are the steps of explicit vectors, rule by rule; what the claims' wrong rules do."""

import numpy as np
import pytest

from theory.declared.rule import Muon, Normalised
from validation.claims.declared.closure import _by_products, _data, _explicit, _gap, _rules
from validation.judge.context import Context

DATA = _data(Context(), "test of closure", 2)


@pytest.mark.slow_for("nesterov")
@pytest.mark.parametrize("name", ["nesterov", "alternating", "sam", "muon"])
def test_inner_products_give_the_very_path(name: str) -> None:
    rule = _rules(2)[name]
    path = _explicit(rule, DATA).vectors
    assert _gap(_by_products(rule, DATA).vectors, path) < 1e-11
    assert _gap(path[:, 0], _explicit(_rules(2)["sgd"], DATA).rows) > 1e-2


def test_two_samples_tell_muon_from_normalised_sgd() -> None:
    both = [_explicit(rule, DATA).rows for rule in (Muon(0.1, batch=2), Normalised(0.1, batch=2))]
    assert np.isfinite(both[0]).all()
    assert _gap(*both) > 1e-2
