r"""Second moments of one SGD step, as polynomials in the correlations of all neurons.

On one fresh sample the residual is $\delta=f-f_*=\sum_Aw_A\sigma(g_A)$ over the *frame*: teachers with frozen weights
$w_p=-a_p$, and students with $w_k=r_k$. A student moves, in units of its norm and of η, by $\rho_k\bar v_k+\mathbf a_k$,

$$\rho_k=-2\delta\,\sigma(z_k),\qquad \mathbf a_k=-\delta\,\sigma'(z_k)\,(x-z_k\bar v_k),\qquad z_k=\langle\bar v_k,x\rangle,$$

radially and at right angles to itself (arXiv:2504.19983, section 2.2). Products of two such displacements are sums over
pairs A, B of the frame of $w_Aw_B$ times expectations of four neurons, which the diagram formula gives as polynomials in
$C_{AB},C_{Ak},C_{Al},C_{Bk},C_{Bl},c_{kl}$. Only $E\,\mathbf a_k\cdot\mathbf a_l$ knows the dimension.

Averaged over a batch of b samples the second moments are $\tfrac1bE[\cdot\,\cdot]+(1-\tfrac1b)E[\cdot]E[\cdot]$.
"""

from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from theory.core import diagrams
from theory.core.activation import Activation
from theory.core.diagrams import Table, add, scale, spread
from theory.core.errors import InputError
from theory.core.hermite import z

#: Vertices of a table: two neurons of the frame, and two neurons (or a neuron and a direction) that are looked at.
FRAME_A, FRAME_B, FIRST, SECOND = range(4)
_CORRELATION = (0, 0, 0, 0, 0, 1)  # one more factor c_kl
#: Largest degree whose table is derived: the number of diagrams grows with its fourth power.
MAX_DEGREE = 12


@dataclass(frozen=True)
class Moments:
    r"""Tables of second moments, over the vertices (A, B, k, l).

    Attributes:
        tangent_product: $E\,\mathbf a_k\cdot\mathbf a_l$. tangent_square: $E|\mathbf a_k|^2$.
        radial_tangent: $E\,\rho_k\,\mathbf a_k\cdot\bar v_l$ ($\bar v_l$ may be a teacher direction).
        tangent_radial: $E\,\rho_k\,\mathbf a_l\cdot\bar v_k$.
        radial_product: $E\,\rho_k\rho_l$. radial_square: $E\,\rho_k^2$.
    """

    tangent_product: Table
    tangent_square: Table
    radial_tangent: Table
    tangent_radial: Table
    radial_product: Table
    radial_square: Table

    def combined(self, own: sp.Expr, other: "Moments", its: sp.Expr) -> "Moments":
        """own × self + its × other, table by table."""
        return Moments(
            *[add(scale(getattr(self, x), own), scale(getattr(other, x), its)) for x in self.__dataclass_fields__]
        )


def exchanged(table: Table) -> Table:
    """The table with k and l exchanged."""
    return {(n[0], n[2], n[1], n[4], n[3], n[5]): value for n, value in table.items()}


def require_polynomial(activation: Activation) -> None:
    """Raise `InputError` unless the step's moments are finite sums: a polynomial of moderate degree."""
    if not activation.is_polynomial:
        raise InputError(
            f"activation {activation.name!r} is not a polynomial: the moments of a finite step are closed for "
            "polynomials only: use e.g. h4, 0.8*h4+0.6*h6 or quadratic"
        )
    if activation.degree > MAX_DEGREE:
        raise InputError(
            f"activation {activation.name!r} has degree {activation.degree}: the moments of a finite step are derived "
            f"up to degree {MAX_DEGREE}"
        )


@lru_cache(maxsize=32)
def one_sample(activation: Activation) -> Moments:
    """Both displacements from the same sample. Raises `InputError` unless σ is a polynomial of moderate degree."""
    require_polynomial(activation)
    return _together(activation.function, activation.function)


@lru_cache(maxsize=32)
def label_noise(activation: Activation) -> Moments:
    """What label noise of unit variance adds: δ replaced by independent noise, so no neuron A or B (powers of c only).

    Raises `InputError` unless σ is a polynomial of moderate degree.
    """
    require_polynomial(activation)
    return _together(sp.Integer(1), activation.function)


def _together(residual: sp.Expr, sigma: sp.Expr) -> Moments:
    """Moments of displacements that share δ = Σ_A w_A·residual(g_A), as tables without the weights."""
    psi = sp.diff(sigma, z)

    def mean(*looked_at: sp.Expr, squared_norm: bool = False) -> Table:
        """E residual(g_A) residual(g_B) F(z_k) [G(z_l)], with |x|² if asked."""
        table = diagrams.of_polynomials([residual, residual, *looked_at], squared_norm)
        return spread(table, range(2 + len(looked_at)), 4)

    # (x − z_k v̄_k)·(x − z_l v̄_l) = |x|² − z_k² − z_l² + c_kl z_k z_l
    tangent_product = add(
        mean(psi, psi, squared_norm=True),
        scale(mean(z**2 * psi, psi), sp.Integer(-1)),
        scale(mean(psi, z**2 * psi), sp.Integer(-1)),
        scale(mean(z * psi, z * psi), sp.Integer(1), _CORRELATION),
    )
    tangent_square = add(mean(psi**2, squared_norm=True), scale(mean(z**2 * psi**2), sp.Integer(-1)))
    two, minus_two = sp.Integer(2), sp.Integer(-2)
    radial_tangent = add(
        scale(mean(sigma * psi, z), two), scale(mean(z * sigma * psi), minus_two, _CORRELATION)
    )  # (x − z_k v̄_k)·v̄_l = z_l − c_kl z_k
    tangent_radial = add(scale(mean(z * sigma, psi), two), scale(mean(sigma, z * psi), minus_two, _CORRELATION))
    four = sp.Integer(4)
    return Moments(
        tangent_product,
        tangent_square,
        radial_tangent,
        tangent_radial,
        scale(mean(sigma, sigma), four),
        scale(mean(sigma**2), four),
    )


@lru_cache(maxsize=32)
def independent_samples(activation: Activation) -> Moments:
    r"""The two displacements from independent samples: products of means.

    $E\rho_k=-2\sum_Aw_A\varphi(C_{Ak})$, $E\mathbf a_k=-\sum_Aw_A\varphi'(C_{Ak})(u_A-C_{Ak}\bar v_k)$. Raises `InputError`
    unless σ is a polynomial of moderate degree.
    """
    require_polynomial(activation)
    kernel = {j: value**2 for j, value in activation.coefficients.items()}
    slope = {j - 1: j * value for j, value in kernel.items() if j}

    def product(a: dict[int, sp.Expr], a_at: int, b: dict[int, sp.Expr], b_at: int, *extra: tuple[int, int]) -> Table:
        """Σ of a(C_{A,a_at}) b(C_{B,b_at}) × correlations of the pairs in `extra`."""
        where = {pair: i for i, pair in enumerate(diagrams.pairs(4))}
        found: Table = {}
        for i, x in a.items():
            for h, y in b.items():
                raised = [0] * 6
                raised[where[FRAME_A, a_at]] += i
                raised[where[FRAME_B, b_at]] += h
                for pair in extra:
                    raised[where[pair]] += 1
                found[tuple(raised)] = found.get(tuple(raised), sp.Integer(0)) + x * y
        return diagrams.tidy(found)

    k, l, one = FIRST, SECOND, sp.Integer(1)
    tangent_product = add(
        product(slope, k, slope, l, (FRAME_A, FRAME_B)),
        scale(product(slope, k, slope, l, (FRAME_A, l), (FRAME_B, l)), -one),
        scale(product(slope, k, slope, l, (FRAME_A, k), (FRAME_B, k)), -one),
        product(slope, k, slope, l, (FRAME_A, k), (FRAME_B, l), (k, l)),
    )
    tangent_square = add(
        product(slope, k, slope, k, (FRAME_A, FRAME_B)),
        scale(product(slope, k, slope, k, (FRAME_A, k), (FRAME_B, k)), -one),
    )
    radial_tangent = add(
        scale(product(kernel, k, slope, k, (FRAME_B, l)), 2 * one),
        scale(product(kernel, k, slope, k, (FRAME_B, k), (k, l)), -2 * one),
    )
    tangent_radial = add(
        scale(product(kernel, k, slope, l, (FRAME_B, k)), 2 * one),
        scale(product(kernel, k, slope, l, (FRAME_B, l), (k, l)), -2 * one),
    )
    return Moments(
        tangent_product,
        tangent_square,
        radial_tangent,
        tangent_radial,
        scale(product(kernel, k, kernel, l), 4 * one),
        scale(product(kernel, k, kernel, k), 4 * one),
    )


def of_batch(activation: Activation, batch: int) -> Moments:
    """Moments of the mean displacement of `batch` fresh samples."""
    single = one_sample(activation)
    if batch == 1:
        return single
    share = sp.Rational(1, batch)
    return single.combined(share, independent_samples(activation), 1 - share)
