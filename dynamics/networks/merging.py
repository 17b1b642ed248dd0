r"""Pruning by iterative feature merging: channels that do nearly the same are made one, without any further training.

Channels of one layer (or of one residual stream) are numbered alike in several tensors: along axis 0 of what writes them
(weights and biases), along axis 1 of what reads them. The distance of two channels is the squared difference of their slices,
summed over all those tensors. The two closest are merged, again and again, while their distance is at most $\beta$ times
the largest one. A merged channel stands for $\mu$ members: on axis 0 it is their sum, on axis 1 their mean. As relu is
positively homogeneous, merging equal channels leaves the function of the network as it is.

Described in the work that arXiv:2603.10397 (Figure 1, right, and appendix D) prunes with. Choices of this implementation:
normalisations are folded into the convolutions first, so that distances are those of the function after training; distances
are between means over members, so that they do not grow with μ; the stem and the first stage are left as they are.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.core.precision import double_precision
from dynamics.networks.residual import Folded, ResNet, Unit, folded
from theory import InputError

#: A tensor by its place in the network, and the axis along which it counts the channels of a group.
Side = tuple[str, int]
Tensors = dict[str, np.ndarray]


@dataclass(frozen=True)
class Pruned:
    """Attributes: network, normalisations folded; kept: share of the parameters that are left."""

    network: ResNet[Folded]
    kept: float


@double_precision
def merge_features(
    network: ResNet[Unit] | ResNet[Folded], threshold: float, *, most: float = 1.0, first_stage: int = 1
) -> Pruned:
    """Merge channels of a trained network.

    Args:
        threshold: β ≥ 0; infinite to merge until `most` stops it. most: largest share of a group's channels that may be
            merged away, in [0, 1]; one always stays. first_stage: stages before it, and the stem if it is above 0, stay.

    Raises: `InputError` for numbers out of range, and for a network with weights that are not finite.
    """
    if not threshold >= 0:
        raise InputError(f"threshold is {threshold!r}: give a number, 0 or more")
    if not 0 <= most <= 1:
        raise InputError(f"most is {most!r}: give a share from 0 to 1")
    if not 0 <= first_stage <= len(network.stages):
        raise InputError(f"first_stage is {first_stage!r}: the network has stages 0 to {len(network.stages) - 1}")
    plain = network if isinstance(network.stem, Folded) else folded(network)
    tensors = _tensors(plain)
    if not all(np.isfinite(x).all() for x in tensors.values()):
        raise InputError("network has weights that are not finite, so nothing is close: train with a smaller step size")
    before = sum(x.size for x in tensors.values())
    for group in groups(plain, first_stage):
        tensors |= _merged_group({name: tensors[name] for name, _ in group}, group, threshold, most)
    after = sum(x.size for x in tensors.values())
    return Pruned(_rebuilt(plain, tensors), after / before)


def groups(network: ResNet[Folded], first_stage: int = 0) -> list[list[Side]]:
    """Every set of tensors that share channels: first those inside the blocks, then the streams, stage by stage.

    Raises `InputError` for a stage that starts with an identity, and so shares its channels with the stage before.
    """
    found: list[list[Side]] = []
    for s in range(first_stage, len(network.stages)):
        stage = network.stages[s]
        for k in range(len(stage)):
            found.append([*_written(f".stages[{s}][{k}].first"), (f".stages[{s}][{k}].second.weight", 1)])
        found.append(_stream(network, s))
    return found


def _stream(network: ResNet[Folded], s: int) -> list[Side]:
    """What writes and reads the residual stream of stage s. The stem writes it where stage s starts with an identity."""
    stage = network.stages[s]
    sides: list[Side] = []
    if stage[0].shortcut is None:
        if s > 0:
            raise InputError(f"stage {s} shares its channels with the stage before: change its width or stride")
        sides += [*_written(".stem"), (f".stages[{s}][0].first.weight", 1)]
    else:
        sides += _written(f".stages[{s}][0].shortcut")
    for k in range(len(stage)):
        sides += _written(f".stages[{s}][{k}].second")
        if k > 0:
            sides.append((f".stages[{s}][{k}].first.weight", 1))
    if s + 1 == len(network.stages):
        return [*sides, (".head", 1)]
    return [*sides, (f".stages[{s + 1}][0].first.weight", 1), (f".stages[{s + 1}][0].shortcut.weight", 1)]


def _written(name: str) -> list[Side]:
    return [(f"{name}.weight", 0), (f"{name}.bias", 0)]


def _merged_group(tensors: Tensors, group: list[Side], threshold: float, most: float) -> Tensors:
    """The group's tensors after merging."""
    # (a tensor may appear on one axis only within a group: written on 0, or read on 1)
    slices = {name: np.moveaxis(tensors[name], axis, 0).astype(float) for name, axis in group}
    count = next(iter(slices.values())).shape[0]
    features = np.concatenate([x.reshape(count, -1) for x in slices.values()], axis=1)
    members, multiplicity = merge_rows(features, threshold, most)
    merged: Tensors = {}
    for name, axis in group:
        rows = np.tensordot(members, slices[name], axes=1)  # sums over members
        if axis == 1:
            rows = rows / multiplicity.reshape(-1, *[1] * (rows.ndim - 1))
        merged[name] = np.moveaxis(rows, 0, axis).astype(tensors[name].dtype)
    return merged


def merge_rows(features: np.ndarray, threshold: float, most: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Merge the two closest rows of `features` (rows, n) while their squared distance is ≤ `threshold` · the largest one.

    Returns: membership (left, rows) of zeros and ones, and the number of members of each row that is left.
    """
    means = features.copy()
    count = len(means)
    members, multiplicity = np.eye(count), np.ones(count)
    squares = np.sum(means**2, axis=1)
    distance = np.maximum(squares[:, None] + squares - 2 * means @ means.T, 0.0)
    alive = np.full(count, True)
    np.fill_diagonal(distance, np.inf)
    for _ in range(min(int(np.floor(most * count + 1e-9)), count - 1)):
        i, j = sorted(np.unravel_index(np.argmin(distance), distance.shape))
        # Differences of squares round; the pair that matters is measured directly.
        closest, largest = float(np.sum((means[i] - means[j]) ** 2)), float(np.max(distance[np.isfinite(distance)]))
        if closest > 0 and not closest <= threshold * largest:  # equal rows merge; (∞ · 0 is no number)
            break
        total = multiplicity[i] + multiplicity[j]
        means[i] = (multiplicity[i] * means[i] + multiplicity[j] * means[j]) / total
        members[i] += members[j]
        multiplicity[i], alive[j] = total, False
        row = np.where(alive, np.sum((means - means[i]) ** 2, axis=1), np.inf)
        row[i] = np.inf
        distance[i], distance[:, i] = row, row
        distance[j], distance[:, j] = np.inf, np.inf
    return members[alive], multiplicity[alive]


def _tensors(network: ResNet[Folded]) -> Tensors:
    """Arrays by their path in the network, e.g. ``.stages[1][0].first.weight``."""
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(network)}


def _rebuilt(network: ResNet[Folded], tensors: Tensors) -> ResNet[Folded]:
    return jax.tree_util.tree_map_with_path(lambda path, _: jnp.asarray(tensors[jax.tree_util.keystr(path)]), network)
