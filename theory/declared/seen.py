r"""What a row by itself sees of a target in isotropic inputs, as a function of its overlaps t with orthonormal directions.

With $f_*=\sum_\alpha c_\alpha\prod_qh_{\alpha_q}(z_q)$ a unit row sees $\Phi(t)=E\,f_*\sigma=
\sum_k\hat\sigma_k\sum_{|\alpha|=k}c_\alpha\sqrt{k!/\alpha!}\,t^\alpha$ and moves, with b the sign of its second layer, as
$\dot t=b(\nabla\Phi-t\,(t\cdot\nabla\Phi))$: uphill in bΦ on the unit ball (derived; the rest of the row is what t leaves of
the sphere).
"""

from collections.abc import Callable
from functools import cached_property
from math import factorial, prod

import numpy as np
import scipy

from theory.core.activation import Activation
from theory.declared.target import Additive, Polynomial, monomials

#: Length of a step uphill, the shortest, by how much one is longer than the last, the most of them, and of rests that it may
#: leave.
_STEP, _SHORTEST, _LONGER, _MOST, _TRIES = 0.03, 1e-5, 1.2, 2000, 12
#: Newton's steps, half of what their differences span, the share of a slope that is none, that of a saddle's, the change that
#: is rounding, and the distance of two rests that are one.
_NEWTON, _APART, _FLAT, _SADDLE, _ROUNDING, _ONE = 40, 1e-5, 1e-8, 1e-5, 1e-13, 1e-6


def seen_terms(target: Additive | Polynomial, activation: Activation) -> dict[tuple[int, ...], float]:
    """Degrees α of the target's terms that the activation has → their factor in Φ; the mean left out."""
    found = {}
    for alpha, value in _terms(target).items():
        k = sum(alpha)
        factor = value * float(activation.coefficients.get(k, 0))
        if k and factor:
            found[alpha] = factor * (factorial(k) / prod(map(factorial, alpha))) ** 0.5
    return found


def seen_share(target: Additive | Polynomial, activation: Activation) -> float:
    """Of the target's variance, that of the terms whose degree the activation has."""
    squares = {alpha: value**2 for alpha, value in _terms(target).items() if any(alpha)}
    return sum(squares[alpha] for alpha in seen_terms(target, activation)) / sum(squares.values())


def _terms(target: Additive | Polynomial) -> dict[tuple[int, ...], float]:
    r"""$c_\alpha$."""
    if isinstance(target, Polynomial):
        return {alpha: float(value) for alpha, value in monomials(target).items()}
    places = range(target.count)
    return {
        tuple(degree * (p == q) for p in places): float(value) * target.weights[q]
        for q in places
        for degree, value in target.link.coefficients.items()
    }


class Seen:
    """bΦ: `degrees` α (n, P) and `factors` (n,) of its terms."""

    def __init__(self, degrees: np.ndarray, factors: np.ndarray) -> None:
        self.degrees, self.factors, self.count = degrees, factors, degrees.shape[1]
        order = degrees.sum(axis=1)
        self.degree, self.size = int(order.max()), float(np.abs(factors * order).max())
        # Of each term only the directions that it has, so that additive targets may have many.
        slots = int((degrees > 0).sum(axis=1).max())
        self._places = np.argsort(-degrees, axis=1, kind="stable")[:, :slots]
        self._powers = np.take_along_axis(degrees, self._places, axis=1)
        rows = np.arange(self._places.size)
        self._onto = scipy.sparse.csr_array((np.ones(rows.size), (self._places.ravel(), rows)), (self.count, rows.size))

    @cached_property
    def _parts(self) -> dict[int, "Seen"]:
        order = self.degrees.sum(axis=1)
        return {k: Seen(self.degrees[order == k], self.factors[order == k]) for k in set(order.tolist())}

    def value(self, t: np.ndarray) -> np.ndarray:
        """bΦ (…) of t (…, P)."""
        return np.asarray(np.prod(t[..., self._places] ** self._powers, axis=-1) @ self.factors)

    def slope(self, t: np.ndarray) -> np.ndarray:
        """∇(bΦ), shape of t (…, P), which may be complex."""
        at = t[..., self._places]
        powers = at**self._powers
        found = np.empty_like(powers)
        for slot in range(self._powers.shape[1]):
            others = np.prod(np.delete(powers, slot, axis=-1), axis=-1)
            degree = self._powers[:, slot]
            found[..., slot] = self.factors * degree * at[..., slot] ** np.maximum(degree - 1, 0) * others
        flat = found.reshape(-1, self._places.size)
        return np.asarray((self._onto @ flat.T).T).reshape(t.shape)

    def form_slope(self, u: np.ndarray, k: int, y: np.ndarray) -> np.ndarray:
        r"""∇ at y (…, P) of the form of degree k in bΦ(u + y): the power k − 1 of ε in $\nabla b\Phi(u+\varepsilon y)$."""
        if not u.any():
            return self._parts[k].slope(y) if k in self._parts else np.zeros_like(y)
        count = max(self.degree, k)
        roots = np.exp(2j * np.pi * np.arange(count) / count)
        around = self.slope(u + roots.reshape(-1, *(1,) * y.ndim) * y)
        return np.asarray(np.tensordot(roots ** (1 - k), around, 1).real / count)

    def along(self, y: np.ndarray) -> np.ndarray:
        """What a row that leaps along y follows at first: y."""
        return y

    def orders(self, u: np.ndarray, y: np.ndarray) -> np.ndarray:
        """What the forms of degrees 1, 2, … at u do along y, each at unit size: y · `form_slope`."""
        return np.array([y @ self.form_slope(u, k, y) for k in range(1, self.degree + 1)])


def climb(
    slope: Callable[[np.ndarray], np.ndarray], start: np.ndarray, step: float = _STEP, origin: np.ndarray | None = None
) -> np.ndarray:
    r"""Points (n, P) on the way uphill to rest in the unit ball, $\dot t\propto s-t(t\cdot s)$ with the slope s (…, P) at t.

    Runge and Kutta's steps of one length until the way turns back, and Newton's from there; shorter ones where that goes away.
    From a saddle it goes on; to a rest at its `origin` it does not return.
    """

    def rate(t: np.ndarray) -> np.ndarray:
        up = slope(t)
        return np.asarray(up - t * np.sum(t * up, axis=-1, keepdims=True))

    def ahead(t: np.ndarray) -> np.ndarray:
        now = rate(t)
        return np.asarray(now / max(float(np.linalg.norm(now)), 1e-300))

    way, t, left, first, saddle = [start], start, _TRIES, step, np.full_like(start, np.inf)
    for _ in range(_MOST):
        a = ahead(t)
        b = ahead(t + step / 2 * a)
        c = ahead(t + step / 2 * b)
        d = ahead(t + step * c)
        if min(a @ b, a @ c, a @ d) <= 0:
            rest, off = _rest(rate, t)
            # In a narrow valley the way turns back at any length, with the rest still ahead; and beside a saddle that it has
            # left, at one that is too long.
            last = step < 4 * _SHORTEST
            back = origin is not None and np.linalg.norm(rest - origin) < np.linalg.norm(start - origin) / 2
            if (
                np.linalg.norm(rest - t) < 3 * (first if last else step)
                and np.linalg.norm(rest - saddle) > _ONE
                and not back
            ):
                way.append(rest)
                left -= 1
                if off is None or not left:
                    break
                saddle = rest
                t = rest + step * (off if off @ (t - rest) >= 0 else -off)
            elif last:
                break
            else:
                step /= 4
            continue
        t = t + step / 6 * (a + 2 * b + 2 * c + d)
        t = t / max(1.0, float(np.linalg.norm(t)))
        way.append(t)
        step = min(first, _LONGER * step)
    return np.array(way)


def _rest(rate: Callable[[np.ndarray], np.ndarray], t: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Newton's steps to where the rate is 0; along what has none, not at all. With the way off, if it is a saddle."""
    for _ in range(_NEWTON):
        change = np.linalg.lstsq(_moved(rate, t), -rate(t), rcond=_FLAT)[0]
        t = t + change
        if np.linalg.norm(change) < _ROUNDING or np.linalg.norm(t) > 2:
            break
    values, vectors = np.linalg.eig(_moved(rate, t))
    off = int(np.argmax(values.real))
    return t, vectors[:, off].real if values[off].real > _SADDLE * np.abs(values).max() else None


def _moved(rate: Callable[[np.ndarray], np.ndarray], t: np.ndarray) -> np.ndarray:
    """Its derivative, by central differences."""
    apart = _APART * np.eye(len(t))
    return np.asarray((rate(t + apart) - rate(t - apart)).T / (2 * _APART))
