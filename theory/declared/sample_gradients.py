r"""What gradients of single samples do to all rows together, in mean squares over points of all fields (derived).

The gradient of a sample is $g_k=\alpha_kx+\beta_ku_k$ on row k: $\alpha_k=b_k\sqrt{\rho_k}\,\delta\,\sigma'(h_k)$, δ the
residual, and of a 2-homogeneous row $\beta_k=b_k\,\delta\,(2\sigma-h_k\sigma')$ along $u_k=v_k$ ($\Lambda v_k$ if whitened).
With $f=L\zeta$ the fields of directions and rows, $LL^\top$ their covariance and $F_i$ their Gram matrix in eigenspace i,

$$E\langle g_k,g_l\rangle_i=E\,\alpha_k\alpha_l\big(\lambda_id_i+\zeta^\top N_i\zeta-\operatorname{tr}N_i\big)+\dots,\qquad
N_i=\lambda_i^2L^{-1}F_iL^{-\top}:$$

labels and slopes know of $|x_i|^2$ what the fields know; dots are what is along rows.

The points are of a Sobol sequence, wider than the law and weighted: a mean of δ²σ'² is one of rare samples. Where σ is steep
(h4: degree 14) they do not suffice; `theory.declared.kicks`, exact for one row, says where.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from theory.declared.flow import is_quadratic
from theory.declared.model import DeclaredModel
from theory.declared.population import check_target
from theory.declared.powers import Forms, as_additive

#: Points, half of them the others' mirror images, a power of two; and by what they are wider than the law.
_POINTS, _WIDER = 12, 1.15
#: Share of the largest eigenvalue of a correlation matrix down to which fields are not those of others.
_RANK = 1e-5


@lru_cache(maxsize=4)
def _points(count: int) -> tuple[np.ndarray, np.ndarray]:
    """ζ (points, count) and weights (points,), of mean 0 and, weighted, covariance 1."""
    import scipy

    uniform = scipy.stats.qmc.Sobol(count, seed=0).random_base2(_POINTS)
    half = _WIDER * scipy.special.ndtri(uniform)
    weights = np.exp(np.sum(half**2, axis=1) * (1 / _WIDER**2 - 1) / 2)
    weights = np.tile(weights / (2 * weights.sum()), 2)
    points = np.concatenate([half, -half])
    root = np.linalg.cholesky(np.einsum("s,sa,sb->ab", weights, points, points))
    return np.linalg.solve(root, points.T).T, weights


class Samples(NamedTuple):
    """At one state: fields $f=L\\zeta$ of directions and rows, inverse of L (where fields are others', of what is left);
    δ² with its weight (points,), and over δ: α and β (points, m), β 0 of a committee, and σ of the rows.
    """

    fields: np.ndarray
    inverse: np.ndarray
    square: np.ndarray
    alpha: np.ndarray
    beta: np.ndarray
    neuron: np.ndarray


@dataclass(frozen=True, eq=False)
class SampleGradients:
    """Of a model's rows, at any state; per step of size 1, batch 1 and the rule's speed 1.

    Attributes:
        noise: variance of the labels'.
    """

    model: DeclaredModel
    noise: float

    @cached_property
    def _forms(self) -> Forms:
        return as_additive(check_target(self.model.target))

    @cached_property
    def _rule(self) -> tuple[np.ndarray, np.ndarray]:
        return _points(self.model.target.count + self.model.student.width)

    @property
    def points(self) -> np.ndarray:
        """ζ (points, P + m)."""
        return self._rule[0]

    def at(self, overlap: np.ndarray, gram: np.ndarray, second: np.ndarray) -> Samples:
        """Of T (L, m, P), Q (L, m, m) and the second layer (m,). Raises `InputError` for a target without a flow."""
        model, (points, weights) = self.model, self._rule
        student, directions, eigenvalues = model.student, model.directions, np.asarray(model.inputs.eigenvalues)
        X, C = (np.einsum("i,ikl->kl", eigenvalues, x) for x in (overlap, gram))
        root, inverse = _roots(np.block([[directions.covariance, X.T], [X, C]]))
        fields = points @ root.T
        sizes = np.ones(student.width)
        if student.homogeneous:
            sizes = np.diag(C) if student.whitened else np.einsum("ikk->k", gram)
        h = fields[:, directions.count :] / np.sqrt(sizes)
        neuron, slope = (student.activation.arrays(order)(h) for order in (0, 1))
        label = self._label(fields[:, : directions.count])
        output = neuron @ (second * sizes) if is_quadratic(model.loss) else np.zeros(len(h))
        wrong = (1 - model.rule.signal) / 2  # (labels that flip)
        square = (1 - wrong) * (output - label) ** 2 + wrong * (output + label) ** 2 + self.noise
        beta = (2 * neuron - h * slope) * second if student.homogeneous else np.zeros_like(h)
        return Samples(fields, inverse, weights * square, slope * second * np.sqrt(sizes), beta, neuron)

    def kicks(self, overlap: np.ndarray, gram: np.ndarray, samples: Samples) -> np.ndarray:
        """$E\\langle g_k,g_l\\rangle_i$, (L, m, m)."""
        inputs, student, points = self.model.inputs, self.model.student, self.points
        frame = np.concatenate([self.model.directions.grams, overlap], axis=1)
        frame = np.concatenate([frame, np.concatenate([overlap.transpose(0, 2, 1), gram], axis=1)], axis=2)
        found = []
        for eigenvalue, count, own in zip(inputs.eigenvalues, inputs.multiplicities, frame, strict=True):
            known = eigenvalue**2 * samples.inverse @ own @ samples.inverse.T
            length = eigenvalue * count + np.einsum("sa,sa->s", points @ known, points) - np.trace(known)
            found.append(samples.alpha.T @ (samples.alpha * (samples.square * length)[:, None]))
            if student.homogeneous:
                scale = eigenvalue if student.whitened else 1.0
                along = eigenvalue * points @ (samples.inverse @ own[:, -student.width :])
                across = scale * samples.alpha.T @ (samples.beta * along * samples.square[:, None])
                both = samples.beta.T @ (samples.beta * samples.square[:, None])
                found[-1] += across + across.T + scale**2 * own[-student.width :, -student.width :] * both
        return np.stack(found)

    def _label(self, fields: np.ndarray) -> np.ndarray:
        links, weights, coefficients = self._forms
        along = fields @ coefficients.T
        each = (
            weight * link.arrays(0)(along[:, r]) for r, (link, weight) in enumerate(zip(links, weights, strict=True))
        )
        return np.asarray(sum(each))


def _roots(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """L and its inverse, of fields that are none of others' alone."""
    scale = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    kept = values > _RANK * values[-1]
    root = np.where(kept, np.sqrt(np.where(kept, values, 1.0)), 0.0)
    return scale[:, None] * vectors * root, (vectors * np.where(kept, 1 / np.where(kept, root, 1.0), 0.0)).T / scale
