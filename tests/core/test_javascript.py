"""The printed JavaScript is the derived system: against the slow exact reference, in Node, at random points."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy as sp

from theory import Activation, System, overlap_flow
from theory.additive.gradient_descent import descent_map
from theory.additive.sourced_flow import sourced_flow
from theory.baselines.correlation import correlation_flow
from theory.baselines.toy import Toy
from theory.core.activation import c as kernel_variable
from theory.core.contractions import name_of
from theory.core.indexed import Sums, evaluate
from theory.core.javascript import function, kernel, print_system
from theory.linear.sde import order_parameter_sde, weight_sde
from theory.linear.step import order_parameter_step
from theory.one_task.diffusion import ARGUMENTS, one_task_laws
from theory.quadratic.riccati import factor_system, overlap_system, product_system, weight_system
from theory.steps.finite_step import finite_step

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed: nothing can run the printed JavaScript")
SIZES = {"m": 3, "P": 2, "d": 4, "S": 2}
ORDERS = 3
MIXED = Activation.from_coefficients({0: sp.Rational(1, 3), 1: sp.Rational(1, 2), 3: sp.Rational(2, 3)})
SYSTEMS: dict[str, System] = {
    **{f"overlap {text}": overlap_flow(Activation.parse(text)) for text in ("h3", "0.8*h4+0.6*h6", "erf", "relu")},
    "overlap, every degree": overlap_flow(MIXED),
    "descent": descent_map(MIXED),
    "sourced": sourced_flow(Activation.parse("0.8*h3+0.6*h5")),
    "correlation": correlation_flow(Activation.parse("h3")),
    "power": Toy(3).system(),
    "product": Toy(3, "product").system(),
    "riccati": overlap_system(),
    "riccati factor": factor_system(),
    "quadratic product": product_system(),
    "quadratic weights": weight_system(),
    **{f"label noise, {moments}": order_parameter_sde(moments) for moments in ("covariance", "second")},
    "label noise, weights": weight_sde(),
    "label noise, step": order_parameter_step(),
}


def node(script: str) -> Any:
    """What a script prints, read as JSON."""
    assert NODE is not None
    ran = subprocess.run([NODE, "--input-type=module", "-"], input=script, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def occurrences(system: System) -> dict[str, tuple[sp.Symbol, ...]]:
    """Every array of a system with its letters."""
    every = [system.definitions, system.drift, system.observables, system.noise]
    found = {x for part in every for sums in part.values() for term in sums for x in term.body.atoms(sp.Indexed)}
    return {name_of(x): tuple(x.indices) for x in sorted({*found, *system.drift}, key=str)}


def length(letter: Any) -> int:
    return int(letter.length.subs({symbol: SIZES[symbol.name] for symbol in letter.length.free_symbols}))


def numbers(system: System, seed: int = 0) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Random state and parameters (with Brownian increments); no normalised entry of a square array is beyond 1."""
    rng = np.random.default_rng(seed)
    letters = occurrences(system)
    given = [*system.state, *system.parameters, *(["B"] if system.noise else [])]
    values = {name: rng.uniform(0.1, 0.35, [length(x) for x in letters.get(name, ())]) for name in given}
    for x in values.values():
        if x.ndim == 2 and x.shape[0] == x.shape[1]:
            x += np.eye(len(x))
    if "c" in values:
        values["c"] = values["c"] / 2
    return {name: values.pop(name) for name in system.state}, values


def reference(system: System, state: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Drift, noise and observables by looping over the indices."""
    exact = np.vectorize(lambda x: sp.Float(float(x), 25), otypes=[object])
    arrays: dict[str, Any] = {name: exact(x) if np.ndim(x) else exact(x)[()] for name, x in {**state, **given}.items()}

    def phi(x: sp.Expr, order: int) -> sp.Expr:
        assert system.activation is not None
        return sp.N(system.activation.dual_derivative(int(order)).subs(kernel_variable, x), 25)

    def value(sums: Sums, free: tuple[Any, ...]) -> np.ndarray:
        if not sums:
            return np.zeros([length(x) for x in free])
        return evaluate(sums, free, arrays, phi)

    for symbol, sums in system.definitions.items():
        free = tuple(getattr(symbol, "indices", ()))
        found = value(sums, free)
        arrays[name_of(symbol)] = found if free else found[()]
    parts = {"drift": system.drift, "noise": system.noise}
    known = {f"{part} {name_of(x)}": value(y, tuple(x.indices)) for part, z in parts.items() for x, y in z.items()}
    known |= {name: value(sums, ()) for name, sums in system.observables.items()}
    return {name: np.asarray(x).astype(float).ravel() for name, x in known.items()}


def script(systems: Mapping[str, System]) -> str:
    """All systems at their random points."""
    lines = ["const found = {};"]
    for name, system in systems.items():
        state, given = numbers(system)
        phi = "() => []" if system.activation is None else kernel(system.activation.dual, orders=ORDERS)
        flat = {k: {n: np.ravel(x).tolist() if np.ndim(x) else float(x) for n, x in v.items()} for k, v in
                (("y", state), ("p", given))}  # fmt: skip
        lines.append(f"""{{
            const system = ({print_system(system)}).make({json.dumps(SIZES)}, ({phi})());
            const {{y, p}} = {json.dumps(flat)};
            const result = found[{json.dumps(name)}] = {{}};
            for (const part of ["drift", "noise"]) {{
                if (!system[part]) continue;
                const out = Object.fromEntries(Object.entries(system.shapes).map(
                    ([key, axes]) => [key, new Array(axes.reduce((x, y) => x * y, 1)).fill(NaN)]));
                if (part === "drift") system.drift(y, p, out); else system.noise(y, p.B, p, out);
                for (const key in out) result[part + " " + key] = out[key];
            }}
            for (const key in system.observables) result[key] = [system.observables[key](y, p)];
        }}""")
    return "\n".join([*lines, "console.log(JSON.stringify(found));"])


@needs_node
def test_every_printed_system_is_the_derived_one() -> None:
    found = node(script(SYSTEMS))
    for name, system in SYSTEMS.items():
        expected = reference(system, *numbers(system))
        assert set(found[name]) == set(expected), name
        for part, numbers_of_part in expected.items():
            np.testing.assert_allclose(
                found[name][part], numbers_of_part, rtol=1e-11, atol=1e-12, err_msg=f"{name}, {part}"
            )


@needs_node
def test_a_term_left_out_or_changed_is_seen() -> None:
    """The comparison above can fail: a system without its first term, or with twice its last, prints other numbers."""
    whole = overlap_flow(MIXED)
    component, sums = next(iter(whole.drift.items()))
    twice = Sums([*sums, sums[-1]])
    mutants = {"less": replace(whole, drift={**whole.drift, component: Sums(sums[1:])}),
               "more": replace(whole, drift={**whole.drift, component: twice})}  # fmt: skip
    expected = reference(whole, *numbers(whole))["drift t"]
    for found in node(script(mutants)).values():
        assert np.max(np.abs(np.array(found["drift t"]) - expected)) > 1e-3


@needs_node
def test_functions_of_numbers() -> None:
    laws = one_task_laws(Activation.parse("0.8*h3+0.6*h4"))
    values = [0.3, 1e-4, 0.7, 1.2, 50.0, 2.0]
    printed = function(laws, ARGUMENTS)
    found = node(f"console.log(JSON.stringify(({printed})(...{values})))")
    expected = [float(x.subs(dict(zip(ARGUMENTS, map(sp.Float, values), strict=True)))) for x in laws]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@needs_node
def test_coefficients_of_a_kernel_are_arguments() -> None:
    """One printed kernel serves every mixture; cosines beyond 1 count as 1."""
    symbols = sp.symbols("s1 s3", real=True)
    symbolic = Activation.from_coefficients(dict(zip((1, 3), symbols, strict=True)))
    points = [-1.0, -0.3, 0.0, 0.7, 1.0, 1.0 + 1e-9]
    printed = kernel(symbolic.dual, symbols, orders=1)
    found = node(f"console.log(JSON.stringify(({printed})(0.5, 2/3).map(f => {points}.map(x => f(x)))))")
    clipped = np.clip(points, -1, 1)
    np.testing.assert_allclose(found[0], clipped / 4 + clipped**3 * 4 / 9, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(found[1], 1 / 4 + clipped**2 * 4 / 3, rtol=1e-14)


def test_what_cannot_be_printed_is_refused() -> None:
    with pytest.raises(TypeError, match="C, w are no arrays of the system"):
        print_system(finite_step(Activation.parse("h3")))
    with pytest.raises(TypeError, match="cannot print"):
        function([sp.zeta(sp.Symbol("x"), 2)], [sp.Symbol("x")])
