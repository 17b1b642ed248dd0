r"""The dual kernel of an activation whose stored Hermite degrees leave more of it out than a flow may (derived).

$\varphi$ is the integral $E\,\sigma(h)\sigma_*(g)$ of `theory.declared.population` of a link that is the activation and fields
of variance 1: exact as the flows of declared models have it. Half powers of 1 − c, which it may have at parallel rows, are
smooth in the angle (kernels of sign, relu: $\theta$, $\theta\sin\theta+\cos\theta$), so that a short series holds it:

$$\varphi^{(n)}(\sin\theta)=\sum_kb_kT_k(2\theta/\pi),\qquad n\le1.$$
"""

from functools import lru_cache

import numpy as np

from theory.core.activation import Activation
from theory.core.errors import InputError
from theory.declared.population import Integrals, numeric
from theory.declared.series import SeriesIntegrals, in_series, known_integrals
from theory.declared.target import Additive

#: Share of E σ'² that stored degrees may leave out (it is known within 1e-7); and of which a flow is not to be judged, as no
#: declared one is made of it (`theory.declared.series`).
TOLD, MOST = 1e-6, 1e-3
#: Terms: at first, at most; and the share of the largest one that is rounding.
_FEW, _MANY, _ROUNDING = 32, 2048, 1e-12


@lru_cache(maxsize=64)
def _integrals(activation: Activation) -> Integrals | None:
    """Where more is known of the kernel than the stored degrees; None where these are all that is needed, or known."""
    if not activation.is_series or activation.expression is None or activation.drift_truncation_error <= TOLD:
        return None
    target = Additive(activation, (1.0,))
    try:
        return known_integrals(activation, target, True, False, True, 1.0)
    except InputError:
        pass
    try:  # (many degrees leave out less than a few)
        found = in_series(activation, target, True, False, True)
    except InputError:
        return None
    return found if found.error < activation.drift_truncation_error else None


def left_out(activation: Activation) -> float:
    r"""Share of $E\,\sigma'^2=\varphi'(1)$ that its flow's kernel leaves out: of `chebyshev`, or the stored degrees."""
    known = _integrals(activation)
    if known is None:
        return activation.drift_truncation_error
    return known.error if isinstance(known, SeriesIntegrals) else 0.0


@lru_cache(maxsize=64)
def chebyshev(activation: Activation, order: int) -> np.ndarray | None:
    r"""$b_k$ of $\varphi^{(n)}$, (K,), right to 1e-11 of the largest beside what is `left_out`; None where the activation's
    own `dual` is all that is needed, or known, and from n = 2 on.
    """
    known = _integrals(activation)
    if known is None or order > 1:
        return None
    one = np.ones(1)
    given = {"weights": one, "variance": one, **known.of_link(activation, one)}

    def at(x: np.ndarray) -> np.ndarray:
        cosine = np.sin(np.pi / 2 * x)[:, None, None]
        found = known.at(numeric, cosine, np.ones_like(cosine), np.ones_like(cosine[..., 0]), given, square=False)
        return found["M"][:, 0] if order == 0 else found["Mt"][:, 0, 0]

    count = _FEW
    while True:
        series = np.polynomial.Chebyshev.interpolate(at, count).coef
        counts = np.flatnonzero(np.abs(series) > _ROUNDING * np.abs(series).max())
        if counts[-1] < 3 * count // 4 or count >= _MANY:
            return series[: counts[-1] + 1]
        count *= 2
