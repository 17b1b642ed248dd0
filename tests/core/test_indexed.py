"""Indices carry their range: what a letter runs over does not depend on what was imported, or defined, before."""

import copy
import pickle

import numpy as np
import pytest
import sympy as sp

from theory.additive import sourced_flow
from theory.core import frame
from theory.core.indexed import Index, P, Sums, Term, a, evaluate, free_indices, m, p
from theory.linear import sde as label_noise_sde


def test_equal_letters_of_different_ranges_are_different_symbols() -> None:
    """The letters of other modules may be taken again, over another range, and both keep theirs."""
    for theirs in (frame.A, frame.B, sourced_flow.o, label_noise_sde.only, label_noise_sde.j):
        mine = Index(theirs.name, P)
        assert mine != theirs
        assert len({mine, Index(theirs.name, P), theirs}) == 2
        assert Term(a[mine], (mine,)).as_sympy() == sp.Sum(a[mine], (mine, 1, P))
        assert theirs.length != P
        assert free_indices(a[mine] * a[theirs]) == {mine, theirs}


def test_sums_over_a_letter_that_another_module_uses_have_the_range_of_their_own() -> None:
    index = Index(frame.A.name, P)
    total = evaluate(
        Sums([Term(a[index], (index,))]), (), {"a": np.array([sp.Integer(2), sp.Integer(3)])}, lambda x, _: x
    )
    assert total[()] == 5


def test_arrays_that_disagree_about_a_range_are_refused() -> None:
    x = sp.IndexedBase("x")
    with pytest.raises(ValueError, match=r"has length \d, but P is \d"):
        evaluate(Sums([Term(a[p] * x[p], (p,))]), (), {"a": np.array([1, 2]), "x": np.array([1, 2, 3])}, lambda x, _: x)


def test_an_index_survives_copies_and_pickles_with_its_range() -> None:
    index = Index("k", m)
    for twin in (copy.deepcopy(index), pickle.loads(pickle.dumps(index)), index.func(*index.__getnewargs_ex__()[0])):
        assert twin == index
        assert twin.length == m
    assert sp.latex(Index("i2", 3)) == "i_{2}"
