r"""How likely it is that no direction of a set is missed, from the chance of each and their covariances.

Directions compete for neurons: those missed are negatively dependent, and where such a dependence is strong (strongly
Rayleigh) their number is in law a sum of independent indicators (J. Borcea, P. Brändén, T. Liggett, J. Amer. Math. Soc. 22,
2009). Of these only the mean and the variance are known here. So the odds of each are taken to one power, and times one
factor, that give the sum both: $p_i/(1-p_i)=c\,(\phi_i/(1-\phi_i))^\lambda$, $\sum p_i=\mu$, $\sum p_i(1-p_i)=v$;
λ = 1 for independent directions. (A closure; not derived.)
"""

import numpy as np
import scipy

#: Below this mean number two terms are enough, and a variance less a mean is rounding.
_FEW = 1e-3
#: What equal odds are set apart by, so that a power can tilt them; range of ln λ, at whose upper end the number is fixed.
_APART, _POWERS = 1e-6, 18.0


def none_missed(missed: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """(n + 1,) probability that none of the directions 1 … q is missed, q = 0 … n.

    Args: (n,) chances φ of being missed; (n, n) covariances of the indicators, whose diagonal is not looked at.
    """
    odds = scipy.special.logit(np.clip(missed, 0.0, 1.0))
    pairs = np.cumsum(2 * np.triu(covariance, 1).sum(axis=0))
    means, alone = np.cumsum(missed), np.cumsum(missed * (1 - missed))
    some = [_none(odds[: q + 1], means[q], alone[q] + pairs[q]) for q in range(len(missed))]
    return np.array([1.0, *some])


def _none(odds: np.ndarray, mean: float, variance: float) -> float:
    """P(M = 0) of a sum of indicators with these logarithmic odds, tilted to a mean and a variance."""
    if mean < _FEW:
        return 1 - mean + max(variance - mean + mean**2, 0.0) / 2
    if np.any(odds == np.inf):  # one is always missed
        return 0.0
    lean = odds[np.isfinite(odds)]
    lean = lean + _APART * np.arange(len(lean))

    def tilted(log_power: float) -> np.ndarray:
        steep = np.exp(log_power) * lean
        far = np.max(np.abs(steep)) + 50
        shift = scipy.optimize.brentq(lambda x: np.sum(scipy.special.expit(steep + x)) - mean, -far, far)
        return np.asarray(scipy.special.expit(steep + shift))

    def excess(log_power: float) -> float:
        share = tilted(log_power)
        return float(np.sum(share * (1 - share)) - variance)

    low, high = (excess(x) for x in (-_POWERS, _POWERS))
    ends = -_POWERS if low <= 0 else _POWERS if high >= 0 else None
    log_power = scipy.optimize.brentq(excess, -_POWERS, _POWERS) if ends is None else ends
    return float(np.prod(1 - tilted(log_power)))
