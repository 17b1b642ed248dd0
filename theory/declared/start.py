r"""Where rows begin: coordinates by eigenspace, the first on the directions, the rest a factor of a Wishart matrix.

Drawn as such (Bartlett 1933) where the eigenspace is large, and else as a Gaussian matrix: their Gram matrices have one law.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from theory.core import streams
from theory.core.arguments import check_positive, check_whole
from theory.core.errors import InputError
from theory.core.initial import bartlett
from theory.declared.directions import Directions


@dataclass(frozen=True, eq=False)
class Start:
    r"""Rows $v_k$ in an orthonormal basis of each eigenspace whose first $\min(P,d_i)$ vectors span the directions.

    Attributes:
        coordinates: for each eigenspace (m, $\min(d_i,P+m)$): any other basis of what is left gives the same law.
    """

    coordinates: tuple[np.ndarray, ...]

    @property
    def width(self) -> int:
        """m."""
        return len(self.coordinates[0])

    def check(self, directions: Directions) -> None:
        """Raises `InputError` unless it belongs to these directions."""
        wanted = [min(d, directions.count + self.width) for d in directions.inputs.multiplicities]
        if [part.shape[1] for part in self.coordinates] != wanted:
            raise InputError(
                f"start has {[part.shape[1] for part in self.coordinates]} coordinates by eigenspace, the directions ask for "
                f"{wanted}: draw it for these directions"
            )

    def padded(self, place: int, columns: int) -> np.ndarray:
        """The coordinates in one eigenspace, zeros added: (m, columns)."""
        part = self.coordinates[place]
        return np.pad(part, ((0, 0), (0, columns - part.shape[1])))

    def vectors(self, directions: Directions, seed: int) -> np.ndarray:
        r"""Rows of $R^d$ (m, d), eigenspace after eigenspace: what is outside the directions in a frame drawn uniformly.

        Rules that work on coordinates (Adam, signs) see them: rows in the basis of `coordinates` have few that are not 0.
        """
        found = []
        for place, d in enumerate(directions.inputs.multiplicities):
            part = self.coordinates[place]
            on = min(directions.count, d)
            rest = part[:, on:]
            frame = uniform_frame(streams.stream(seed, "declared start", "outside", place), d - on, rest.shape[1])
            found += [part[:, :on], rest @ frame.T]
        return np.concatenate(found, axis=1)

    def overlaps(self, directions: Directions) -> np.ndarray:
        r"""$\langle v_k^i,w_p^i\rangle$, (L, m, P)."""
        P = directions.count
        roots = zip(self.coordinates, directions.roots, strict=True)
        return np.stack([part[:, :P] @ root[:, : part[:, :P].shape[1]].T for part, root in roots])

    def cosines(self, directions: Directions) -> np.ndarray:
        r"""$\langle v_k,w_p\rangle/(\|v_k\|\|w_p\|)$, all eigenspaces together, (m, P)."""
        rows, along = (np.einsum("ikk->k", x) for x in (self.grams, directions.grams))
        return self.overlaps(directions).sum(axis=0) / np.sqrt(np.outer(rows, along))

    @cached_property
    def grams(self) -> np.ndarray:
        r"""$\langle v_k^i,v_l^i\rangle$, (L, m, m)."""
        return np.stack([part @ part.T for part in self.coordinates])


def uniform_frame(rng: np.random.Generator, dim: int, count: int) -> np.ndarray:
    """Orthonormal columns (d, k), d = `dim`, uniformly distributed: a Gaussian matrix's, with the signs of its factor."""
    frame, factor = np.linalg.qr(rng.standard_normal((dim, count)))
    return np.asarray(frame * np.where(np.diag(factor) < 0, -1.0, 1.0))


def draw_start(directions: Directions, width: int, scale: float = 1.0, seed: int = 0) -> Start:
    r"""Rows of length `scale`, uniform on the sphere of $R^d$: Gaussian rows over their lengths.

    Of the part outside the directions only the Gram matrix matters: a Bartlett factor where $d_i-P>m$.
    Raises `InputError` unless `width` is a whole number from 1 and `scale` positive.
    """
    check_whole(**{"student width": width})
    check_positive(scale=scale)
    rng = streams.stream(seed, "declared start")
    parts = []
    for d in directions.inputs.multiplicities:
        on, rest = min(directions.count, d), max(0, d - directions.count)
        columns = [rng.standard_normal((width, on))]
        if rest > width:
            columns.append(bartlett(rng, width, rest))
        else:
            columns.append(rng.standard_normal((width, rest)))
        parts.append(np.concatenate(columns, axis=1))
    size = scale / np.sqrt(sum(np.sum(part**2, axis=1) for part in parts))
    for part in parts:
        part *= size[:, None]
    return Start(tuple(parts))
