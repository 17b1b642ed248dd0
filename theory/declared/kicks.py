r"""What single steps of SGD add to a row's squared length, beside the flow: $E|g_k|^2$ of a sample's gradient (derived).

$$E|g_k|^2=b_k^2\rho_k\,E\,\Psi|x|^2,\qquad \Psi=(\delta^2+\tau^2)\,\sigma'(h_k)^2,$$

δ the residual, τ² the noise of the labels ($\rho_k=1$ in a committee; a 2-homogeneous row has $4\sigma^2-h^2\sigma'^2$ along
itself, too). Given $h_k$, on the points of a quadrature, all other fields are Gaussian, and the mean of a product of two
functions of them is Mehler's series in their correlation: nothing is drawn, for rare samples decide where σ is steep (h4:
δ²σ'² is of degree 14). What labels and slopes know of |x| is, by Stein's lemma, with K the covariance of all fields AX,

$$E\,\Psi|x|^2=\operatorname{tr}\Lambda\,E\Psi+2\,\frac d{ds}E_{K+sA\Lambda^2A^\top}\Psi\Big|_{s=0}.$$
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from theory.core.quadrature import Rule, gauss_hermite
from theory.declared.flow import is_quadratic, speed
from theory.declared.model import DeclaredModel
from theory.declared.population import check_target
from theory.declared.powers import Forms, as_additive

#: Points for the row's own field, more where it is steep, and for others, there, too; degrees of the series that are not
#: taken, of as many as points; and the step of a derivative, over its scale.
_POINTS, _OTHERS, _STEEP, _LAST, _STEP = 32, 16, 64, 2, 1e-3
#: Variances of a field given the row's, as a share of its own, that are none.
_NONE = 1e-12


@lru_cache(maxsize=2)
def _series(count: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Points, and what makes coefficients $E f\,\mathrm{He}_n/\sqrt{n!}$ of values there, (points, degrees)."""
    points, weights = gauss_hermite(count)
    found = [np.ones_like(points), points]
    for n in range(2, count - _LAST):
        found.append((points * found[-1] - np.sqrt(n - 1) * found[-2]) / np.sqrt(n))
    return points, weights[:, None] * np.stack(found, axis=1)


@dataclass(frozen=True, eq=False)
class Kicks:
    """Of a model's rows, at any state; per step of size 1 and batch 1.

    Attributes:
        noise: τ².
    """

    model: DeclaredModel
    noise: float

    @cached_property
    def _forms(self) -> Forms:
        return as_additive(check_target(self.model.target))

    @cached_property
    def _others(self) -> tuple[np.ndarray, np.ndarray]:
        """`_series` that sees all functions."""
        functions = {self.model.student.activation, *self._forms.links}
        steep = any(one.gaussian(_POINTS) is not gauss_hermite(_POINTS) for one in functions)
        return _series(_STEEP if steep else _OTHERS)

    def of_row(self, overlap: np.ndarray, gram: np.ndarray, second: np.ndarray, row: int) -> float:
        """E|g|² over the squared length. T (L, m, P), Q (L, m, m), second layer (m,); `row` from 0.

        Raises `InputError` for targets that are neither additive nor polynomial, and for rules without a flow.
        """
        model, m = self.model, gram.shape[1]
        _, weights, coefficients = self._forms
        eigenvalues, norms = np.asarray(model.inputs.eigenvalues), np.einsum("ikk->k", gram)
        own = coefficients @ model.directions.grams @ coefficients.T
        across = overlap @ coefficients.T
        frame = np.block([[gram, across], [across.transpose(0, 2, 1), own]])
        K, curved = (np.einsum("i,iAB->AB", eigenvalues**power, frame) for power in (1, 2))
        sizes = np.ones(m)
        if model.student.homogeneous:
            sizes = np.diag(K)[:m] if model.student.whitened else norms
        scale = np.concatenate([1 / np.sqrt(sizes), np.ones(len(weights))])
        K, curved = K * np.outer(scale, scale), curved * np.outer(scale, scale)
        quadratic = is_quadratic(model.loss)
        pairs = np.outer(*[np.concatenate([quadratic * sizes * second, -weights])] * 2)
        pairs[:m, m:] *= model.rule.signal
        pairs[m:, :m] *= model.rule.signal
        step = _STEP / eigenvalues.max()
        # (The same points on either side, or their difference is that of two rules.)
        points = model.student.activation.gaussian(_POINTS, float(np.sqrt(K[row, row])))
        less, more = (self._means(K + sign * step * curved, pairs, row, points) for sign in (-1, 1))
        square = model.inputs.trace * (less[0] + more[0]) / 2 + (more[0] - less[0]) / step
        if model.student.homogeneous:
            square += (less[1] + more[1]) / 2 * (curved[row, row] / K[row, row] if model.student.whitened else 1.0)
        return float((speed(model.rule) * second[row]) ** 2 * sizes[row] / norms[row] * square)

    def _means(self, K: np.ndarray, pairs: np.ndarray, row: int, own: Rule) -> np.ndarray:
        """EΨ for fields of covariance K, whose functions' products count by `pairs`; and what is along a row, (2,). `own`: the
        points of its normed field.
        """
        deviation, variances = np.sqrt(K[row, row]), np.diag(K)
        (points, weights), (others, project) = own, self._others
        along = K[row] / deviation
        left = K - np.outer(along, along)
        spread = np.sqrt(np.where(np.diag(left) > _NONE * variances, np.diag(left), 0.0))
        both = np.outer(spread, spread)
        correlation = np.divide(left, both, out=np.zeros_like(left), where=both > 0)
        fields = along[:, None, None] * points[:, None] + spread[:, None, None] * others
        coefficients = np.moveaxis(self._values(fields) @ project, 2, 0)
        powers = np.cumprod([pairs, *[correlation] * (project.shape[1] - 1)], axis=0)
        missed = np.sum(coefficients * (powers @ coefficients), axis=(0, 1)) + self.noise
        field = deviation * points
        value, slope = (self.model.student.activation.arrays(order)(field) for order in (0, 1))
        return np.array([slope**2, 4 * value**2 - (field * slope) ** 2]) @ (weights * missed)

    def _values(self, fields: np.ndarray) -> np.ndarray:
        """Of rows' and forms' functions, at fields (N, …)."""
        links, found = self._forms.links, np.empty_like(fields)
        forms = -len(links)
        found[:forms] = self.model.student.activation.arrays(0)(fields[:forms])
        for link in dict.fromkeys(links):
            where = forms + np.flatnonzero([one == link for one in links])
            found[where] = link.arrays(0)(fields[where])
        return found
