"""Symbolic derivations, closed forms and predictions (SymPy; knows nothing of JAX)."""

from typing import TYPE_CHECKING

from _emergence import check_siblings, offered

check_siblings(__name__)

if TYPE_CHECKING:
    from theory.additive.flow import gradient_derivation, loss_derivation, overlap_flow
    from theory.core.activation import Activation
    from theory.core.derivation import Assumption, Derivation, DerivationError, Step
    from theory.core.errors import InputError
    from theory.core.initial import InitialState, draw_initial_state
    from theory.core.system import System
    from theory.core.teacher import Student, Teacher
    from theory.declared.generative import generative_exponent
    from theory.linear.task import LinearStart, LinearTask, draw_linear_start, draw_linear_task
    from theory.one_task.hitting_distribution import HittingLaw, hitting_law
    from theory.one_task.plateau import Plateau, plateau
    from theory.one_task.single_task import SingleTask
    from theory.one_task.stability import StabilityMap, critical_step, stability_map
    from theory.prediction.greedy import Selection, scores, select
    from theory.prediction.predict import Prediction, predict
    from theory.quadratic.model import QuadraticModel
    from theory.quadratic.subspace import Subspace, draw_subspace
    from theory.steps.finite_step import finite_step, one_step

__all__ = [
    "Activation",
    "Assumption",
    "Derivation",
    "DerivationError",
    "HittingLaw",
    "InitialState",
    "InputError",
    "LinearStart",
    "LinearTask",
    "Plateau",
    "Prediction",
    "QuadraticModel",
    "Selection",
    "SingleTask",
    "StabilityMap",
    "Step",
    "Student",
    "Subspace",
    "System",
    "Teacher",
    "critical_step",
    "draw_initial_state",
    "draw_linear_start",
    "draw_linear_task",
    "draw_subspace",
    "finite_step",
    "generative_exponent",
    "gradient_derivation",
    "hitting_law",
    "loss_derivation",
    "one_step",
    "overlap_flow",
    "plateau",
    "predict",
    "scores",
    "select",
    "stability_map",
]

if not TYPE_CHECKING:  # seen by a type checker it would make every misspelt name valid
    __getattr__, __dir__ = offered(__name__)
