r"""Fluctuations of one SGD step: the covariance of $(t,c,r)$ to second order in the step size.

To first order in η a step moves $t_{kq}$ by $\eta\,\mathbf a_k\cdot e_q$, $c_{kj}$ by
$\eta(\mathbf a_k\cdot\bar v_j+\mathbf a_j\cdot\bar v_k)$ and $r_k$ by $2\eta r_k\rho_k$ (`theory.steps.moments`). Per unit of
gradient-flow time (1/η steps) the covariance of two coordinates is therefore η times that of these displacements, and a
batch of b samples divides it by b. With $\Phi=\sigma(g_A)\sigma(g_B)\sigma'(z_k)\sigma'(z_l)$ and

$$D^k_{xe}=C_{xe}-C_{xk}C_{ke}$$

(what is left of a correlation off $\bar v_k$), Stein's lemma applied to the two linear factors gives

$$E(\mathbf a_k\cdot u_e)(\mathbf a_l\cdot u_f)=\sum_{AB}w_Aw_B\Big\{(D^k_{fe}-C_{lf}D^k_{le})E\Phi
+\sum_{x\in\{A,B,l\}}\sum_{y\in\{A,B,k\}}D^k_{xe}D^l_{yf}E\,\partial_x\partial_y\Phi\Big\},$$

four-neuron expectations that the diagram formula knows. The product of the means is taken off.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import sympy as sp

from theory.core import diagrams
from theory.core.activation import Activation
from theory.core.diagrams import Table
from theory.core.frame import A, B, eta, gram, noise, over_pairs, without_pairs
from theory.core.hermite import z
from theory.core.indexed import Sums, Term, k, l, q, r, s, t
from theory.steps.moments import require_polynomial

#: Residual correlations: ``left[k, x, e]`` is $C_{xe}-C_{xk}C_{ke}$, symmetric in x and e.
left = sp.IndexedBase("D")
_TWO = sp.Integer(2)
Writer = Callable[[Sequence[sp.Symbol], sp.Expr], list[Term]]


@lru_cache(maxsize=256)
def _derivative_table(residual: sp.Expr, first: sp.Expr, second: sp.Expr, orders: tuple[int, int, int, int]) -> Table:
    """E of residual(g_A) residual(g_B) first(z_k) second(z_l), each differentiated so many times."""
    factors = [
        sp.diff(f, z, order) if order else f
        for f, order in zip((residual, residual, first, second), orders, strict=True)
    ]
    return diagrams.of_polynomials(factors) if all(f != 0 for f in factors) else {}


def _written(table: Table, neurons: Sequence[sp.Symbol], factor: sp.Expr, framed: bool) -> list[Term]:
    """factor × the table over (A, B, k, l), the two neurons named by `neurons`."""
    return (over_pairs if framed else without_pairs)(table, neurons, factor, gram[tuple(neurons)])


def _tangent_tangent(residual: sp.Expr, sigma: sp.Expr, framed: bool) -> Writer:
    r"""$E(\mathbf a_k\cdot u_e)(\mathbf a_l\cdot u_f)$ for letters (k, l, e, f), from the same sample."""
    psi = sp.diff(sigma, z)

    def write(letters: Sequence[sp.Symbol], factor: sp.Expr) -> list[Term]:
        k, l, e, f = letters

        def part(orders: tuple[int, int, int, int], outside: sp.Expr) -> list[Term]:
            return _written(_derivative_table(residual, psi, psi, orders), (k, l), factor * outside, framed)

        found = part((0, 0, 0, 0), left[k, f, e]) + part((0, 0, 0, 0), -gram[l, f] * left[k, l, e])
        found += part((0, 0, 1, 1), left[k, l, e] * left[l, k, f])
        if framed:  # A and B play the same part: twice the terms that name A first
            found += part((2, 0, 0, 0), 2 * left[k, A, e] * left[l, A, f])
            found += part((1, 1, 0, 0), 2 * left[k, A, e] * left[l, B, f])
            found += part((1, 0, 1, 0), 2 * left[k, A, e] * left[l, k, f])
            found += part((1, 0, 0, 1), 2 * left[k, l, e] * left[l, A, f])
        return found

    return write


def _radial_tangent(residual: sp.Expr, sigma: sp.Expr, framed: bool) -> Writer:
    r"""$E\rho_k\,\mathbf a_l\cdot u_f$ for letters (k, l, f)."""
    psi = sp.diff(sigma, z)

    def write(letters: Sequence[sp.Symbol], factor: sp.Expr) -> list[Term]:
        k, l, f = letters

        def part(orders: tuple[int, int, int, int], outside: sp.Expr) -> list[Term]:
            return _written(_derivative_table(residual, sigma, psi, orders), (k, l), factor * outside, framed)

        found = part((0, 0, 1, 0), 2 * left[l, k, f])
        return found + part((1, 0, 0, 0), 4 * left[l, A, f]) if framed else found

    return write


def _radial_radial(residual: sp.Expr, sigma: sp.Expr, framed: bool) -> Writer:
    r"""$E\rho_k\rho_l$ for letters (k, l)."""

    def write(letters: Sequence[sp.Symbol], factor: sp.Expr) -> list[Term]:
        return _written(_derivative_table(residual, sigma, sigma, (0, 0, 0, 0)), letters, 4 * factor, framed)

    return write


def _means(activation: Activation) -> tuple[Writer, Writer, Writer]:
    r"""The products of means.

    $-E\,\mathbf a_k\cdot u_e=\sum_Aw_A\varphi'(C_{Ak})D^k_{Ae}$, $-E\rho_k=2\sum_Aw_A\varphi(C_{Ak})$.
    """
    kernel = {i: value**2 for i, value in activation.coefficients.items()}
    slope = {i - 1: i * value for i, value in kernel.items() if i}

    def product(first: dict, second: dict, neurons: Sequence[sp.Symbol], factor: sp.Expr) -> list[Term]:
        table: Table = {(0, i, 0, 0, h, 0): x * y for i, x in first.items() for h, y in second.items()}
        return _written(table, neurons, factor, True)

    def both(letters: Sequence[sp.Symbol], factor: sp.Expr) -> list[Term]:
        k, l, e, f = letters
        return product(slope, slope, (k, l), factor * left[k, A, e] * left[l, B, f])

    def mixed(letters: Sequence[sp.Symbol], factor: sp.Expr) -> list[Term]:
        k, l, f = letters
        return product(kernel, slope, (k, l), factor * 2 * left[l, B, f])

    def radial(letters: Sequence[sp.Symbol], factor: sp.Expr) -> list[Term]:
        return product(kernel, kernel, letters, 4 * factor)

    return both, mixed, radial


@lru_cache(maxsize=16)
def step_covariance(
    activation: Activation, batch: int = 1, noisy_labels: bool = False
) -> dict[tuple[sp.Indexed, sp.Indexed], Sums]:
    r"""Pairs of coordinates → $\mathrm{Cov}(dy_1,dy_2)/dt$ in gradient-flow time, leading order in η.

    The pairs are (t, t), (t, r) and (r, r), written in the frame's weights w and correlations C and in residual
    correlations D; q and s may name any member of the frame. Since $dc_{kj}=\mathbf a_k\cdot\bar v_j+
    \mathbf a_j\cdot\bar v_k$, the overlap of two students moves like that of k with the direction $\bar v_j$ plus that of
    j with $\bar v_k$, and its covariances follow. Exact in d, which does not occur.

    Raises: `InputError` for an activation that is no polynomial.
    """
    require_polynomial(activation)
    sigma, share = activation.function, eta / batch
    makers = (_tangent_tangent, _radial_tangent, _radial_radial)
    sources = [(tuple(make(sigma, sigma, True) for make in makers), share), (_means(activation), -share)]
    if noisy_labels:
        sources.append((tuple(make(sp.Integer(1), sigma, False) for make in makers), noise * share))

    def terms(kind: int, letters: Sequence[sp.Symbol], factor: sp.Expr) -> Sums:
        return Sums(term for writers, scale in sources for term in writers[kind](letters, scale * factor))

    return {
        (t[k, q], t[l, s]): terms(0, (k, l, q, s), sp.Integer(1)),
        (t[k, q], r[l]): terms(1, (l, k, q), _TWO * r[l]),
        (r[k], r[l]): terms(2, (k, l), 4 * r[k] * r[l]),
    }
