"""All claims, in the order of the catalogue."""

from types import ModuleType

from validation.claim import Claim
from validation.claims import (
    baselines,
    committee,
    coupled_flow,
    emergence_exponents,
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
    sample_complexity,
    scaling,
    scaling_budgets,
    sde,
    selection,
    sgd,
    step_size_boundary,
    step_size_scaling,
    stiefel,
)
from validation.selection import in_order

#: Longest first, for runs in several processes.
_GROUPS = (
    sgd,
    finite_step,
    sde,
    sample_complexity,
    stiefel,
    networks,
    finite_step_paths,
    coupled_flow,
    step_size_scaling,
    step_size_boundary,
    emergence_exponents,
    scaling,
    baselines,
    formulas,
    label_noise_sgd,
    committee,
    quadratic_laws,
    selection,
    label_noise,
    scaling_budgets,
    oscillation_and_alignment,
    one_task,
    quadratic,
    initial,
)


def claims() -> list[Claim]:
    """The catalogue, sorted by letter and number."""
    return in_order(claim for group in _GROUPS for claim in group.CLAIMS)


def module_order() -> dict[str, int]:
    """Place of each module of claims when several processes share the work."""
    return {group.__name__: number for number, group in enumerate(_GROUPS)}


def module_of(claim: Claim) -> ModuleType:
    """The module that lists a claim. Raises `LookupError` for a claim that is not in the catalogue."""
    for module in _GROUPS:
        if any(one.id == claim.id for one in module.CLAIMS):
            return module
    raise LookupError(f"claim {claim.id} is not in the catalogue")
