"""The front door: command line, problem configuration, files written. Thin; the science is in the other packages.

Every public name of `theory`, `dynamics` and `validation` can be imported from here; its package is loaded on first use.
`claim` also makes claims of conjectures about a problem.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from _emergence import __version__, check_siblings

if TYPE_CHECKING:
    from dynamics import *
    from theory import *
    from validation import *

    from emergence.conjecture.python import *  # isort: skip  # last: its claim stands for that of validation

_NAMES = {
    "theory": """
        Activation Assumption Derivation DerivationError HittingLaw InitialState InputError LinearStart LinearTask
        Plateau Prediction QuadraticModel Selection SingleTask StabilityMap Step Student Subspace System Teacher
        critical_step draw_initial_state draw_linear_start draw_linear_task draw_subspace finite_step
        generative_exponent gradient_derivation hitting_law loss_derivation one_step overlap_flow plateau predict scores select
        stability_map
    """,
    "dynamics": """
        CommitteeResult DeflatedFlow DescentResult Ensemble FiniteStepResult FlowResult IntegrationError Interrupted
        LinearRun LoweredSystem QuadraticFlow RadialFit RetiringResult RiccatiFlow SdeResult SgdResult StiefelResult
        committee_flow committee_sgd deflated_flow finite_step_flow gradient_descent
        gradient_flow ito_ensemble label_noise_sgd linear_descent lower one_step_mean online_sgd oscillation
        quadratic_flow radial_phase retiring_flow riccati_flow sam sde_ensemble stiefel_sgd
    """,
    "validation": """
        Case Claim Comparison Context Control Measurement Outcome Run Stage TheoryUnderTest Verdict catalogue compare
        computed_by validate
    """,
    "emergence.conjecture.python": "claim",
}
_PACKAGE = {name: package for package, names in _NAMES.items() for name in names.split()}
__all__ = ["__version__", *_PACKAGE]

if not TYPE_CHECKING:  # seen by a type checker it would make every misspelt name valid

    def __getattr__(name: str) -> object:
        if name == "plot":  # a module of this package, loaded when it is asked for
            return import_module(f"{__name__}.plot")
        if name not in _PACKAGE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        check_siblings(__name__)
        return getattr(import_module(_PACKAGE[name]), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
