"""Reduced dynamics as fast code (JAX, Diffrax); importing it makes float64 JAX's default for the whole process.

Lowering of derived systems, gradient flow, online SGD. Of the default and of programs in float32: `dynamics.core.precision`.
"""

from typing import TYPE_CHECKING

from _emergence import check_siblings, offered

check_siblings(__name__)

from dynamics.core import precision  # noqa: F401 - double precision first

if TYPE_CHECKING:
    from dynamics.additive.deflated_flow import DeflatedFlow, deflated_flow
    from dynamics.additive.gradient_descent import DescentResult, gradient_descent
    from dynamics.additive.gradient_flow import FlowResult, gradient_flow
    from dynamics.additive.online_sgd import SgdResult, online_sgd
    from dynamics.additive.retiring_flow import RetiringResult, retiring_flow
    from dynamics.core.interrupted import IntegrationError, Interrupted
    from dynamics.core.ito import Ensemble, ito_ensemble
    from dynamics.core.lowering import LoweredSystem, lower
    from dynamics.linear.oscillation import oscillation
    from dynamics.linear.run import LinearRun
    from dynamics.linear.training import label_noise_sgd, linear_descent, sam
    from dynamics.quadratic.quadratic_flow import QuadraticFlow, quadratic_flow
    from dynamics.quadratic.radial_phase import RadialFit, radial_phase
    from dynamics.quadratic.riccati import RiccatiFlow, riccati_flow
    from dynamics.quadratic.stiefel_sgd import StiefelResult, stiefel_sgd
    from dynamics.steps.committee import CommitteeResult, committee_flow, committee_sgd
    from dynamics.steps.finite_step import FiniteStepResult, finite_step_flow, one_step_mean
    from dynamics.steps.sde import SdeResult, sde_ensemble

__all__ = [
    "CommitteeResult",
    "DeflatedFlow",
    "DescentResult",
    "Ensemble",
    "FiniteStepResult",
    "FlowResult",
    "IntegrationError",
    "Interrupted",
    "LinearRun",
    "LoweredSystem",
    "QuadraticFlow",
    "RadialFit",
    "RetiringResult",
    "RiccatiFlow",
    "SdeResult",
    "SgdResult",
    "StiefelResult",
    "committee_flow",
    "committee_sgd",
    "deflated_flow",
    "finite_step_flow",
    "gradient_descent",
    "gradient_flow",
    "ito_ensemble",
    "label_noise_sgd",
    "linear_descent",
    "lower",
    "one_step_mean",
    "online_sgd",
    "oscillation",
    "quadratic_flow",
    "radial_phase",
    "retiring_flow",
    "riccati_flow",
    "sam",
    "sde_ensemble",
    "stiefel_sgd",
]

if not TYPE_CHECKING:  # seen by a type checker it would make every misspelt name valid
    __getattr__, __dir__ = offered(__name__)
