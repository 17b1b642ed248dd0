r"""Noncommutative words: the product rule for matrices, and the way from a matrix equation to one in indices.

A matrix polynomial is a SymPy expression in noncommutative symbols; here it is taken apart into words (a coefficient and
a tuple of symbols), differentiated word by word, shortened by rewriting rules, and written out in components as `Sums`.
"""

from collections.abc import Mapping, Sequence

import sympy as sp

from theory.core.indexed import Sums, Term, collect

Word = tuple[sp.Symbol, ...]
Rules = Sequence[tuple[Word, Word]]


def words_of(expression: sp.Expr) -> list[tuple[sp.Expr, Word]]:
    """The expanded expression as (commuting coefficient, word) pairs; powers are written out."""
    found = []
    for term in sp.Add.make_args(sp.expand(expression)):
        commuting, factors = term.args_cnc()
        word: list[sp.Symbol] = []
        for factor in factors:
            base, power = factor.as_base_exp()
            word += [base] * int(power)
        found.append((sp.Mul(*commuting), tuple(word)))
    return found


def from_words(words: Sequence[tuple[sp.Expr, Word]]) -> sp.Expr:
    """Back to an expression."""
    return sp.Add(*[coefficient * sp.Mul(*word) for coefficient, word in words])


def reduce(expression: sp.Expr, rules: Rules) -> sp.Expr:
    """Replace the left side of each rule by its right side wherever it stands in a word, until none is left."""
    return sp.expand(
        from_words([(coefficient, _reduce_word(word, rules)) for coefficient, word in words_of(expression)])
    )


def _reduce_word(word: Word, rules: Rules) -> Word:
    for old, new in rules:
        for place in range(len(word) - len(old) + 1):
            if word[place : place + len(old)] == old:
                return _reduce_word(word[:place] + new + word[place + len(old) :], rules)
    return word


def rate(expression: sp.Expr, rates: Mapping[sp.Symbol, sp.Expr]) -> sp.Expr:
    """Time derivative by the product rule; symbols without a rate are constant."""
    total = sp.Integer(0)
    for coefficient, word in words_of(expression):
        for place, symbol in enumerate(word):
            if symbol in rates:
                total += coefficient * sp.Mul(*word[:place]) * rates[symbol] * sp.Mul(*word[place + 1 :])
    return sp.expand(total)


def in_components(
    expression: sp.Expr,
    first: sp.Symbol,
    last: sp.Symbol,
    matrices: Mapping[sp.Symbol, sp.IndexedBase],
    spare: Mapping[sp.Symbol, Sequence[sp.Symbol]],
    transposed: Mapping[sp.Symbol, sp.IndexedBase] | None = None,
    diagonal: Mapping[sp.Symbol, sp.IndexedBase] | None = None,
) -> Sums:
    """Entry (first, last) of a matrix polynomial.

    Args:
        matrices: symbol → array X[row, column]; `transposed`: symbol → the array X of which it is the transpose.
        spare: symbol → the index symbols that may be summed over behind it (its columns).
        diagonal: symbol → vector on the diagonal.
    """
    transposed, diagonal = transposed or {}, diagonal or {}
    terms = []
    for coefficient, word in words_of(expression):
        body, row, bound = coefficient, first, []
        full = [i for i, symbol in enumerate(word) if symbol not in diagonal]
        for place, symbol in enumerate(word):
            if symbol in diagonal:
                body *= diagonal[symbol][row]
                continue
            if place == full[-1]:
                column = last
            else:
                column = next(i for i in spare[symbol] if i not in bound)
                bound.append(column)
            body *= transposed[symbol][column, row] if symbol in transposed else matrices[symbol][row, column]
            row = column
        terms.append(Term(body, tuple(bound)))
    return collect(terms)
