"""M31: emergence times under a covariance and their exponents, as limits of the passage that sees every degree."""

from collections.abc import Iterator

import numpy as np
import scipy

from theory import Activation
from theory.declared import anisotropic_emergence as theory
from validation.judge.claim import Control, Controls, Measurement, claim
from validation.judge.context import Context
from validation.statistics.exponents import continued

COST = 2

_SOURCE = "change from the last trace but one to the last, beyond which the values are continued"
#: Eigenvalue of the direction, mean eigenvalue of the rest.
_VALUE, _REST = 0.7, 0.2
#: Traces by information exponent: corrections are powers of the first overlap, whose terms change sign before 10⁵ for h3.
_TRACES = {3: 10.0 ** np.arange(5, 9), 4: 10.0 ** np.arange(3, 7)}
#: Exponents of the spectrum and of the weights, and the direction beyond which the loss is read.
_ALPHA, _BETA, _FIRST = 0.8, 0.75, 10**6


def _half_time(activation: Activation, weight: float, eigenvalue: float, trace: float) -> float:
    """From g = 1."""
    overlap = float(np.sqrt(eigenvalue / trace))
    return theory.half_time(activation, weight, eigenvalue, overlap, _REST)


def _limit(values: np.ndarray) -> tuple[float, float]:
    """Where the values at `_TRACES` go, and how far they still moved."""
    return float(continued(values)[0]), float(abs(values[-1] - values[-2]))


def _ranked(rank: float) -> tuple[float, float]:
    """Weight and eigenvalue."""
    return rank**-_BETA, rank**-_ALPHA


def _time(activation: Activation) -> Measurement:
    """Half time over T_p."""
    J = activation.information_exponent
    ratios = np.array(
        [
            _half_time(activation, 1.0, _VALUE, trace) / float(theory.emergence_time(activation, 1.0, _VALUE, trace))
            for trace in _TRACES[J].tolist()
        ]
    )
    limit, moved = _limit(ratios)
    controls: Controls = {
        "λ_p^{J/2−1}: metric forgotten": Control(1.0, limit / _VALUE),
        "J(J − 1) for J(J − 2)": Control(1.0, limit * (J - 1) / (J - 2)),
    }
    text = f"half time over the time of small overlaps, {activation.name}, λ = {_VALUE:g}, Tr Λ to infinity"
    details = {"values": ratios.tolist()}
    return Measurement(text, 1.0, limit, 0.0, moved, controls, _SOURCE, f"time.{activation.name}", details)


def _exponents(activation: Activation) -> Iterator[Measurement]:
    """Of the half time between two directions and two traces; of the loss by what later directions leave."""
    J = activation.information_exponent
    known = {theory.J: J, theory.alpha: _ALPHA, theory.beta: _BETA}
    predicted = {name: float(value.subs(known)) for name, value in theory.exponents().items()}
    times = np.array(
        [
            [_half_time(activation, *case) for case in ((*_ranked(4), T), (*_ranked(8), T), (*_ranked(4), 2 * T))]
            for T in _TRACES[J]
        ]
    )
    found = {"rank": np.log2(times[:, 1] / times[:, 0]), "trace": np.log2(times[:, 2] / times[:, 0])}
    wrong = {
        "rank": {"isotropic: β alone": _BETA, "metric forgotten": _BETA + _ALPHA * (J / 2 - 1)},
        "trace": {"J/2, the overlap's own power": J / 2},
    }
    for name, values in found.items():
        limit, moved = _limit(values)
        text = f"exponent of the half time in {'p' if name == 'rank' else 'Tr Λ'}, {activation.name}, Tr Λ to infinity"
        yield Measurement(
            text, predicted[name], limit, 0.0, moved, wrong[name], _SOURCE, f"{name}.{activation.name}",
            {"values": values.tolist()},
        )  # fmt: skip
    ranks = _FIRST * np.array([1.0, 2.0])
    weights, values = (np.array([_ranked(p)[i] for p in ranks]) for i in (0, 1))
    leading = theory.emergence_time(activation, weights, values, 1e9)
    left = scipy.special.zeta(2 * _BETA, ranks)
    slope = float(np.diff(np.log(left))[0] / np.diff(np.log(leading))[0])
    text = f"slope of the loss in time, {activation.name}, between directions 1e6 and 2e6"
    controls: Controls = {
        "isotropic: (1 − 2β)/β": (1 - 2 * _BETA) / _BETA,
        "trace in place of rank": (1 - 2 * _BETA) / (_BETA + J / 2 - 1),
    }
    # A sum from p is the integral from p − ½ up to relative (1/p)².
    allowed = abs(slope) / _FIRST
    yield Measurement(
        text,
        predicted["loss"],
        slope,
        0.0,
        allowed,
        controls,
        "the sum's first term beside the integral",
        f"loss.{activation.name}",
    )


@claim(
    id="M31",
    title="Emergence times under a covariance, as limits",
    statement="As Tr Λ grows the half time of a light neuron becomes T_p, with its exponents in p, Tr Λ and of the loss.",
    latex=r"T_p=\frac{(\mathrm{Tr}\Lambda)^{J/2-1}}{J(J-2)\hat\sigma_J^2a_p\lambda_p^{J/2}|g_p|^{J-2}},\quad "
    r"L\sim t^{(1-2\beta)/(\beta+\alpha J/2)}",
    source="derived",
    kind="asymptotic",
    regime="Tr Λ to infinity; the passage of one light neuron, no runs",
    controls=(
        "λ_p^{J/2−1}: metric forgotten",
        "J(J − 1) for J(J − 2)",
        "isotropic: β alone",
        "metric forgotten",
        "J/2, the overlap's own power",
        "isotropic: (1 − 2β)/β",
        "trace in place of rank",
    ),
)
def run_limits(context: Context) -> Iterator[Measurement]:
    """h3 and h4: the time, its exponents, and the loss's."""
    for name in ("h3", "h4"):
        activation = Activation.parse(name)
        yield _time(activation)
        yield from _exponents(activation)
