"""What the page computes with, printed from the derived systems and formulas to JavaScript. Nothing of it is typed by hand."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import sympy as sp

from theory import Activation, overlap_flow
from theory.additive.flow import overlap_drift
from theory.core.defaults import HORIZON, SAFE_FRACTION
from theory.core.indexed import k, q, t
from theory.core.javascript import function, kernel, print_system
from theory.core.streams import sequence
from theory.declared.dual_kernel import MOST, chebyshev, left_out
from theory.linear import label_noise
from theory.linear.step import order_parameter_step
from theory.one_task.diffusion import ARGUMENTS, one_task_laws
from theory.one_task.rare_samples import (
    KickMoments,
    kick_moments,
    kurtosis_of,
    symbolic_kick_moments,
    variation,
)
from theory.one_task.single_task import M0, SingleTask, a, alone, eps, r0, u
from theory.prediction.validity import MOVED_BY_RARE, RARE, SHIFTED, VARIATION
from theory.quadratic import riccati
from theory.scaling import ideal_loss

#: Hermite degrees that the page mixes, and the least with a law of SGD's times.
DEGREES = (2, 3, 4, 5, 6)
LEAST_WITH_LAW = 3
#: Students' derivatives of φ that the page's equations hold.
_ORDERS = 1
_LEADING, _OVERLAP = sp.symbols("L u0", positive=True)


def _mixture(degrees: tuple[int, ...]) -> tuple[Activation, tuple[sp.Symbol, ...]]:
    """An activation whose Hermite coefficients are symbols."""
    symbols = tuple(sp.Symbol(f"s{j}", real=True) for j in degrees)
    return Activation.from_coefficients(dict(zip(degrees, symbols, strict=True))), symbols


def systems() -> dict[str, str]:
    """The printed systems by name."""
    made = (overlap_flow(Activation.from_degree(4)), riccati.factor_system(), order_parameter_step())
    return {
        name: print_system(system)
        for name, system in zip(("overlap-flow", "riccati", "label-noise-step"), made, strict=True)
    }


def kernels(own: Activation | None) -> dict[str, str]:
    """φ and φ′: of a mixture, by its coefficients, and of an activation of its own, as simulated flows have it."""
    mixed, symbols = _mixture(DEGREES)
    found = {"mixture": kernel(mixed.dual, symbols, _ORDERS)}
    return found if own is None else {**found, "own": _whole_kernel(own)}


def _whole_kernel(own: Activation) -> str:
    """By its stored degrees, or where these leave too much out by the series in the angle of `theory.declared.dual_kernel`."""
    known = [chebyshev(own, order) for order in range(_ORDERS + 1)]
    series = [f"inAngle({json.dumps(found.tolist())})" for found in known if found is not None]
    return f"() => [{', '.join(series)}]" if series else kernel(own.dual, (), _ORDERS)


def laws(own: Activation | None) -> dict[str, str]:
    """Drift and variance rate of one overlap under SGD, likewise."""
    return {**_mixed_laws(), **({} if own is None else {"own": function(one_task_laws(own), ARGUMENTS)})}


@cache
def _mixed_laws() -> Mapping[str, str]:
    mixed, symbols = _mixture(tuple(j for j in DEGREES if j >= LEAST_WITH_LAW))
    return {"mixture": function(one_task_laws(mixed), (*ARGUMENTS, *symbols))}


#: Arguments of a kick's kurtosis: the direction's weight, and sums of the others' powers.
_WEIGHTS = sp.symbols("own others1:5", real=True)


def kurtosis(own: Activation | None) -> dict[str, str]:
    """Kurtosis of a kick, which says how many samples are needed for the law, likewise."""
    return {**_mixed_kurtosis(), **({} if own is None else {"own": _kurtosis(kick_moments(own), ())})}


@cache
def _mixed_kurtosis() -> Mapping[str, str]:
    degrees = tuple(j for j in DEGREES if j >= LEAST_WITH_LAW)
    _, symbols = _mixture(degrees)
    return {"mixture": _kurtosis(symbolic_kick_moments(dict(zip(degrees, symbols, strict=True))), symbols)}


def _kurtosis(moments: KickMoments, symbols: tuple[sp.Symbol, ...]) -> str:
    weight, *others = _WEIGHTS
    return function([sp.sympify(kurtosis_of(moments, weight, np.array([0, *others])))], (*_WEIGHTS, *symbols))


def _rare() -> str:
    """Shares by which a run's noise differs from run to run, and moves the time, from its mean by the law and by the flow."""
    kick, step, mean, flow = sp.symbols("kick step mean flow", positive=True)
    varies = variation(kick, step, sp.Min(flow, mean))
    return function([varies, varies * sp.Abs(mean / flow - 1)], (kick, step, mean, flow))


def emergence_times(own: Activation | None = None) -> dict[int, sp.Expr]:
    r"""$T_p$ by information exponent J ≥ 3, in a, $M_0$ and the leading coefficient $L=\hat\sigma_J^2$ of the kernel."""
    found = {}
    for degree in sorted({*DEGREES, *([] if own is None else [own.information_exponent])}):
        if degree >= LEAST_WITH_LAW:
            size = sp.Symbol("s", positive=True)
            time = SingleTask(Activation.from_coefficients({degree: size})).emergence_time
            found[degree] = sp.powsimp(time.subs(size, sp.sqrt(_LEADING)), force=True)
    return found


def emergence_text(time: sp.Expr) -> str:
    """The same in the language of conjectures: a, u0 and L."""
    return str(sp.powsimp(time.subs(M0, _OVERLAP**2), force=True))


def formulas(own: Activation | None) -> dict[str, str]:
    """Closed forms that the page shows beside what it integrates."""
    times = emergence_times(own)
    by_exponent = ", ".join(f"{J}: {function([time], (a, M0, _LEADING))}" for J, time in times.items())
    half = riccati.derivation().equations["T_j"]
    rate, ratio = sorted(half.free_symbols, key=lambda x: "tilde" not in str(x))
    named = {rate: sp.Symbol("rate"), ratio: sp.Symbol("ratio"), label_noise.rho2: sp.Symbol("rho2")}
    lag = SingleTask(Activation.from_degree(4)).norm_lag  # of unit φ(1), by which it is divided
    return {
        "rate": f"phi => {function([alone(overlap_drift()[t[k, q]])], (u, a))}",
        "emergence": f"{{{by_exponent}}}",
        "normLag": function([lag], (a, r0, eps)),
        "timeExponent": function([ideal_loss.scaling_exponents()["time"]], (ideal_loss.beta,)),
        "riccatiHalf": function([half.xreplace(named)], (named[rate], named[ratio])),
        "labelLimit": function([label_noise.CRITICAL], (label_noise.d,)),
        "labelError": function([label_noise.stationary_error()], (label_noise.k, label_noise.d, label_noise.sigma)),
        "rare": _rare(),
        "escape": function(
            [label_noise.escape_time().xreplace(named)], (label_noise.m, label_noise.eta, named[label_noise.rho2])
        ),
    }


def facts(own: Activation | None) -> dict[str, Any]:
    """Numbers and texts that formulas need beside them."""
    known = {
        "degrees": DEGREES,
        "leastWithLaw": LEAST_WITH_LAW,
        "lawDegrees": sum(j >= LEAST_WITH_LAW for j in DEGREES),
        "horizon": HORIZON,
        "safe": SAFE_FRACTION["overlap-flow"],
        "keys": {"subspace": _key("subspace"), "linear": _key("linear start")},
        "rare": [{"limit": VARIATION, "text": RARE}, {"limit": MOVED_BY_RARE, "text": SHIFTED}],
        "times": {str(J): emergence_text(time) for J, time in emergence_times(own).items()},
    }
    if own is not None:
        known["own"] = {
            "name": own.name,
            "exponent": own.information_exponent,
            "leading": float(own.leading),
            "parity": own.parity,
            "centred": own.squared_mean == 0,
            "leftOut": left_out(own) if left_out(own) > MOST else 0.0,
        }
    return known


def _key(word: str) -> list[int]:
    """The spawn key of a named stream."""
    return [int(x) for x in sequence(0, word).spawn_key]


def printed(own: Activation | None = None) -> str:
    """All of it as JavaScript. `own`: an activation that the page holds beside its mixtures."""
    tables = {
        "systems": systems(),
        "kernels": kernels(own),
        "laws": laws(own),
        "kurtosis": kurtosis(own),
        "formulas": formulas(own),
    }
    parts = [f"const facts = {json.dumps(facts(own))};"]
    for name, table in tables.items():
        entries = ",\n".join(f"{json.dumps(key)}: {value}" for key, value in table.items())
        parts.append(f"const {name} = {{\n{entries} }};")
    return "\n".join(parts)
