"""Indices carry their range: what a letter runs over does not depend on what was imported, or defined, before."""

import copy
import pickle

import numpy as np
import pytest
import sympy as sp

from theory import Activation, overlap_flow
from theory.additive import sourced_flow
from theory.core import frame
from theory.core.indexed import Dual, Index, P, Sums, Term, a, differentiate, evaluate, free_indices, m, p
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


def test_the_derivative_by_a_component_of_what_is_not_summed_has_a_delta() -> None:
    """∂/∂xⱼ of xₖ² and of Σₚ aₚxₚxₖ, with k another letter or the same."""
    x = sp.IndexedBase("x")
    k, j = Index("k", P), Index("j", P)
    by_j, by_k = (differentiate(Sums.of(x[k] ** 2, (a[p] * x[p] * x[k], p)), x[index]).as_sympy() for index in (j, k))
    total, delta = sp.Sum(a[p] * x[p], (p, 1, P)), sp.KroneckerDelta(j, k)
    assert sp.expand(by_j - (2 * delta * x[k] + delta * total + a[j] * x[k])) == 0
    assert sp.expand(by_k - (2 * x[k] + total + a[k] * x[k])) == 0


def test_what_is_no_sum_over_whole_ranges_is_not_read() -> None:
    x = sp.IndexedBase("x")
    one, other = sp.Sum(a[p], (p, 1, P)), sp.Sum(x[p], (p, 1, P))
    for expression in (one * other, one**2, sp.Sum(a[p], (p, 2, P))):
        with pytest.raises(ValueError, match="no product of one sum"):
            Sums.read(expression)
    assert Sums.read(3 * one + x[p]).as_sympy() == 3 * one + x[p]


def test_equations_of_a_system_take_the_kernel_of_their_activation() -> None:
    """h4: φ = x⁴, in every derivative; in the shown LaTeX φ stays."""
    system = overlap_flow(Activation.from_degree(4))
    shown, concrete = system.equations(), system.equations(concrete=True)
    assert list(shown) == list(concrete)
    for name, rate in shown.items():
        by_hand = rate.replace(Dual, lambda x, n: sp.ff(4, n) * x ** (4 - n))
        assert rate.has(Dual)
        assert sp.simplify((concrete[name] - by_hand).doit()) == 0
    assert r"\varphi'" in system._repr_latex_()
    assert system.reference == system.derivation.reference
