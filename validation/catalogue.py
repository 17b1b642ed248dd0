"""All claims, in the order of the catalogue."""

import re

from validation.claim import Claim
from validation.claims import (
    committee,
    coupled_flow,
    finite_step,
    finite_step_paths,
    formulas,
    initial,
    label_noise,
    label_noise_sgd,
    networks,
    one_task,
    oscillation_and_alignment,
    quadratic,
    quadratic_laws,
    sgd,
    stiefel,
)

_GROUPS = (
    formulas,
    coupled_flow,
    one_task,
    initial,
    sgd,
    finite_step,
    committee,
    finite_step_paths,
    quadratic,
    quadratic_laws,
    stiefel,
    label_noise,
    label_noise_sgd,
    oscillation_and_alignment,
    networks,
)


def _natural(name: str) -> tuple[str, int, str]:
    letters, number, rest = re.match(r"([A-Z]+)(\d+)(.*)", name).groups()  # type: ignore[union-attr]
    return letters, int(number), rest


def claims() -> list[Claim]:
    """The catalogue, sorted by letter and number."""
    return sorted((claim for group in _GROUPS for claim in group.CLAIMS), key=lambda claim: _natural(claim.id))
