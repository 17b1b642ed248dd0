r"""Symbols of the frame: teachers and students as one set of neurons, and sums over its pairs.

Index letters A, B run over the frame, N = P + m: teachers with frozen weights $w_p=-a_p$ and students with $w_k=r_k$;
$C_{AB}$ are the correlations of all directions, $C=\begin{pmatrix}I&t^\top\\t&c\end{pmatrix}$.
"""

from collections.abc import Sequence

import sympy as sp

from theory.core import diagrams
from theory.core.diagrams import Table
from theory.core.indexed import Index, Term

N = sp.Symbol("N", integer=True, positive=True)
A, B = Index("A", N), Index("B", N)
w, gram = sp.IndexedBase("w"), sp.IndexedBase("C")
#: Step size, and variance of the label noise.
eta = sp.Symbol("eta", positive=True)
noise = sp.Symbol("varsigma", nonnegative=True)


def over_pairs(table: Table, looked_at: Sequence[sp.Symbol], factor: sp.Expr, correlation: sp.Expr) -> list[Term]:
    """factor × Σ_{A,B} w_A w_B × a table over (A, B, k, l).

    Args:
        looked_at: names of k and l.
        correlation: how $C_{kl}$ is written.
    """
    return [
        Term(factor * value * w[A] * w[B] * _monomial(counts, looked_at, correlation), (A, B))
        for counts, value in table.items()
    ]


def without_pairs(table: Table, looked_at: Sequence[sp.Symbol], factor: sp.Expr, correlation: sp.Expr) -> list[Term]:
    """factor × a table that knows k and l only."""
    return [Term(factor * value * _monomial(counts, looked_at, correlation)) for counts, value in table.items()]


def _monomial(counts: tuple[int, ...], looked_at: Sequence[sp.Symbol], correlation: sp.Expr) -> sp.Expr:
    vertices = (A, B, *looked_at)
    joined = zip(diagrams.pairs(4)[:-1], counts[:-1], strict=True)
    return sp.Mul(*[gram[vertices[x], vertices[y]] ** power for (x, y), power in joined if power]) * (
        correlation ** counts[-1]
    )
