"""Symbolic derivations, closed forms and predictions (SymPy; knows nothing of JAX)."""

from _emergence import check_siblings

check_siblings(__name__)

from theory.activation import Activation
from theory.additive import gradient_derivation, loss_derivation, overlap_flow
from theory.derivation import Assumption, Derivation, DerivationError, Step
from theory.errors import InputError
from theory.finite_step import finite_step, one_step
from theory.greedy import Selection, gaps, scores, select
from theory.hitting_law import HittingLaw, hitting_law
from theory.initial import InitialState, draw_initial_state
from theory.linear_task import LinearStart, LinearTask, draw_linear_start, draw_linear_task
from theory.plateau import Plateau, plateau
from theory.prediction import Prediction, predict
from theory.quadratic import QuadraticModel
from theory.single_task import SingleTask
from theory.stability import StabilityMap, critical_step, stability_map
from theory.subspace import Subspace, draw_subspace
from theory.system import System
from theory.teacher import Student, Teacher

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
    "gaps",
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
