"""Reduced dynamics as fast code: lowering of derived systems, gradient flow, online SGD (JAX, Diffrax)."""

from dynamics import precision
from dynamics.ambient_flow import ambient_gradient_flow
from dynamics.deflated_flow import DeflatedFlow, deflated_flow
from dynamics.gradient_descent import DescentResult, gradient_descent
from dynamics.gradient_flow import FlowResult, IntegrationError, gradient_flow
from dynamics.ito import Ensemble, ito_ensemble
from dynamics.linear_run import LinearRun
from dynamics.linear_training import label_noise_sgd, linear_descent, sam
from dynamics.lowering import LoweredSystem, lower
from dynamics.online_sgd import Interrupted, SgdResult, online_sgd
from dynamics.oscillation import oscillation
from dynamics.retiring_flow import RetiringResult, retiring_flow

__all__ = [
    "DeflatedFlow",
    "DescentResult",
    "Ensemble",
    "FlowResult",
    "IntegrationError",
    "Interrupted",
    "LinearRun",
    "LoweredSystem",
    "RetiringResult",
    "SgdResult",
    "ambient_gradient_flow",
    "deflated_flow",
    "gradient_descent",
    "gradient_flow",
    "ito_ensemble",
    "label_noise_sgd",
    "linear_descent",
    "lower",
    "online_sgd",
    "oscillation",
    "precision",
    "retiring_flow",
    "sam",
]
