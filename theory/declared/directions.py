r"""Where a target's directions lie: their Gram matrix in each eigenspace of the inputs, $V^i_{pq}=\langle w_p^i,w_q^i\rangle$.

Nothing else of the directions matters, since samples and rules turn with the axes (derivation: a rotation within an eigenspace
changes neither the law of x nor an inner product). Random directions are drawn by Wishart matrices (Bartlett 1933).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from theory.core import streams
from theory.core.arguments import check_positive, check_whole
from theory.core.errors import InputError
from theory.core.initial import bartlett
from theory.declared.inputs import Inputs

#: Eigenvalues of a Gram matrix down to −this share of its largest count as zero.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Directions:
    """P directions in R^d over L blocks.

    Attributes:
        inputs: whose eigenspaces. grams: $V^i$, shape (L, P, P), each positive and of rank at most $d_i$.

    Raises `InputError` for matrices of another shape, asymmetric or not finite, with a negative eigenvalue, or of a rank above
    $d_i$: no vectors of the block have them as inner products.
    """

    inputs: Inputs
    grams: np.ndarray

    def __post_init__(self) -> None:
        grams = np.array(self.grams, dtype=float)
        blocks = len(self.inputs.eigenvalues)
        if grams.ndim != 3 or grams.shape[0] != blocks or grams.shape[1] != grams.shape[2] or not grams.shape[1]:
            raise InputError(
                f"Gram matrices have shape {grams.shape}: give (L, P, P), one P × P matrix for each of {blocks} eigenvalues"
            )
        if not np.all(np.isfinite(grams)) or np.abs(grams - grams.transpose(0, 2, 1)).max() > 1e-9:
            raise InputError("a Gram matrix is not symmetric and finite: give inner products of vectors")
        for place, (gram, count) in enumerate(zip(grams, self.inputs.multiplicities, strict=True)):
            values = np.linalg.eigvalsh(gram)
            scale = max(values[-1], 1e-300)
            if values[0] < -1e-9 * scale:
                raise InputError(
                    f"Gram matrix of block {place} has eigenvalue {values[0]:.3g}: no vectors have these inner products; "
                    "give a positive one"
                )
            rank = int(np.sum(values > 1e-9 * scale))
            if rank > count:
                raise InputError(
                    f"Gram matrix of block {place} has rank {rank}, but its eigenvalue {self.inputs.eigenvalues[place]:g} "
                    f"has multiplicity {count}: no vectors fit; put directions into other blocks, or raise the multiplicity"
                )
        object.__setattr__(self, "grams", (grams + grams.transpose(0, 2, 1)) / 2)

    @classmethod
    def eigenvectors(cls, inputs: Inputs, places: Sequence[int], variance: float | None = None) -> "Directions":
        r"""Eigenvectors by their places (from 0, largest eigenvalue first), each of length 1.

        With `variance` each is scaled so that $\langle w_p,x\rangle$ has it. Raises `InputError` for a place that is none of
        0 … d − 1, or stands twice.
        """
        grams = np.zeros((len(inputs.eigenvalues), len(places), len(places)))
        for p, place in enumerate(places):
            block = inputs.block_of(place)
            grams[block, p, p] = 1.0 if variance is None else variance / inputs.eigenvalues[block]
        for p, place in enumerate(places):
            if place in places[:p]:
                raise InputError(f"eigenvector {place} stands twice: directions are different eigenvectors")
        return cls(inputs, grams)

    @classmethod
    def orthonormal(cls, inputs: Inputs, count: int, seed: int = 0) -> "Directions":
        r"""Orthonormal and uniform: $S^{-1/2}W_iS^{-1/2}$ with Wishart $W_i$ of $d_i$ degrees of freedom, $S=\sum_iW_i$.

        For isotropic inputs the identity, whatever the seed. Raises `InputError` if P exceeds d.
        """
        check_whole(directions=count)
        if count > inputs.dim:
            raise InputError(
                f"{count} directions in dim {inputs.dim}: orthonormal ones need P ≤ d; lower P, or raise dim"
            )
        if len(inputs.eigenvalues) == 1:
            return cls(inputs, np.eye(count)[None])
        drawn = _wishart(inputs, count, seed, "orthonormal directions")
        values, vectors = np.linalg.eigh(drawn.sum(axis=0))
        root = vectors / np.sqrt(values) @ vectors.T
        return cls(inputs, root @ drawn @ root)

    @classmethod
    def random(cls, inputs: Inputs, count: int, variance: float = 1.0, seed: int = 0) -> "Directions":
        r"""Independent isotropic Gaussian directions, each scaled to $\mathrm{Var}\langle w_p,x\rangle=$ `variance`.

        P may exceed d. Raises `InputError` unless `count` is a whole number, 1 or more.
        """
        check_whole(directions=count)
        check_positive(variance=variance)
        drawn = _wishart(inputs, count, seed, "random directions")
        size = np.sqrt(variance / np.einsum("i,ipp->p", np.asarray(inputs.eigenvalues), drawn))
        return cls(inputs, drawn * size[:, None] * size[None, :])

    @property
    def count(self) -> int:
        """P."""
        return int(self.grams.shape[1])

    @property
    def covariance(self) -> np.ndarray:
        r"""$\sum_i\lambda_iV^i$, of the fields $\langle w_p,x\rangle$, (P, P)."""
        return np.einsum("i,ipq->pq", np.asarray(self.inputs.eigenvalues), self.grams)

    @property
    def have_unit_fields(self) -> bool:
        """Whether all fields have variance 1: otherwise the link's degrees mix on them."""
        return bool(np.allclose(np.diag(self.covariance), 1.0))

    @cached_property
    def roots(self) -> np.ndarray:
        r"""$W^i$ with $W^iW^{i\top}=V^i$, (L, P, P): coordinates, the first $\min(P,d_i)$ of each block."""
        values, vectors = np.linalg.eigh(self.grams)
        values = np.where(values > _ROUNDING * values[:, -1:], values, 0.0)[:, ::-1]
        root = vectors[:, :, ::-1] * np.sqrt(values)[:, None, :]
        exact = np.array([np.array_equal(gram, np.diag(np.diag(gram))) for gram in self.grams])
        diagonal = np.sqrt(np.einsum("ipp->ip", self.grams))[:, :, None] * np.eye(self.count)
        fits = np.array([self.count <= d for d in self.inputs.multiplicities])
        return np.where((exact & fits)[:, None, None], diagonal, root)


def _wishart(inputs: Inputs, count: int, seed: int, name: str) -> np.ndarray:
    """Gram matrices of `count` standard Gaussian vectors by block, (L, P, P): Bartlett's factor, or the vectors."""
    rng = streams.stream(seed, name)
    found = []
    for d in inputs.multiplicities:
        vectors = rng.standard_normal((count, d)) if d <= 2 * count else bartlett(rng, count, d)
        found.append(vectors @ vectors.T)
    return np.stack(found)
