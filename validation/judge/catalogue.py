"""All claims, in the order of the catalogue."""

from types import ModuleType

from validation.claims.additive import coupled_flow, emergence_exponents, formulas, initial, sgd
from validation.claims.baselines import baselines
from validation.claims.linear import label_noise, label_noise_sgd, oscillation_and_alignment
from validation.claims.networks import networks
from validation.claims.one_task import one_task, sample_complexity, step_size_boundary, step_size_scaling
from validation.claims.quadratic import exact as quadratic
from validation.claims.quadratic import laws as quadratic_laws
from validation.claims.quadratic import stiefel
from validation.claims.scaling import budgets as scaling_budgets
from validation.claims.scaling import scaling, selection
from validation.claims.steps import committee, finite_step, finite_step_paths, sde
from validation.judge.claim import Claim
from validation.judge.selection import in_order

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
