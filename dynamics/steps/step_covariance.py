r"""Covariance of one SGD step's displacements, evaluated from the derived sums.

Terms are grouped by their residual correlations D, which carry the directions; what is left is a polynomial in the
correlations of A, B, k and l, an array of $(m+P)^2m^2$ numbers: meant for small networks (ensembles of a few neurons,
checks), not for hundreds of them.
"""

from collections import defaultdict
from types import ModuleType
from typing import Any

import numpy as np
import sympy as sp

from dynamics.core.lowering import Arrays
from theory.core.frame import A, B, gram, w
from theory.core.indexed import Sums, k, l, q, s
from theory.core.system import System

_LETTERS = {A: "a", B: "b", k: "k", l: "l", q: "e", s: "f"}


def displacement_covariance(system: System, state: Arrays, parameters: Arrays, xp: ModuleType = np) -> dict[str, Any]:
    r"""Covariance rates, per unit of gradient-flow time, of the coordinates (t, c, r).

    Args:
        system: a finite-step system made with ``fluctuations=True``.
        state: t (m, P), c (m, m), r (m,). parameters: a (P,), eta, d (and varsigma).
        xp: array module, ``numpy`` or ``jax.numpy``.

    Returns: "tt" (m, P, m, P), "tc" (m, P, m, m), "tr" (m, P, m), "cc" (m, m, m, m), "cr" (m, m, m), "rr" (m, m).
    """
    state, parameters = ({name: xp.asarray(x) for name, x in given.items()} for given in (state, parameters))
    arrays = _frame_arrays(state, parameters, xp)
    tangent, mixed, radial = (_evaluate(sums, pair, arrays, parameters, xp) for pair, sums in system.covariance.items())
    known = parameters["a"].shape[0]
    # dc_kj is the displacement of k along v̄_j plus that of j along v̄_k.
    by_student, pairwise = tangent[:, :known, :, known:], tangent[:, known:, :, known:]
    pairwise = pairwise + xp.swapaxes(pairwise, 0, 1)
    return {
        "tt": tangent[:, :known, :, :known],
        "tc": by_student + xp.swapaxes(by_student, 2, 3),
        "tr": mixed[:, :known],
        "cc": pairwise + xp.swapaxes(pairwise, 2, 3),
        "cr": mixed[:, known:] + xp.swapaxes(mixed[:, known:], 0, 1),
        "rr": radial,
    }


def _frame_arrays(state: Arrays, parameters: Arrays, xp: ModuleType) -> dict[str, Any]:
    """Weights (N,), correlations (N, N) and residual correlations D[k, x, e] (m, N, N)."""
    t, c, r, a = state["t"], state["c"], state["r"], parameters["a"]
    correlations = xp.block([[xp.eye(a.shape[0]), t.T], [t, c]])
    own = correlations[a.shape[0] :]  # students against the frame
    residual = correlations[None] - own[:, :, None] * own[:, None, :]
    return {"w": xp.concatenate([-a, r]), "C": correlations, "D": residual, "r": r, "known": a.shape[0]}


def _evaluate(
    sums: Sums, pair: tuple[sp.Indexed, sp.Indexed], arrays: dict[str, Any], parameters: Arrays, xp: ModuleType
) -> Any:
    """All terms of one pair, over the letters of both components; directions run over the whole frame."""
    groups: dict[tuple, list[tuple[sp.Expr, dict]]] = defaultdict(list)
    for term in sums:
        outside, powers, coefficient = [], {}, sp.Integer(1)
        for factor in sp.Mul.make_args(term.body):
            base, power = factor.as_base_exp()
            if not isinstance(base, sp.Indexed):
                coefficient *= factor
            elif base.base == gram and set(base.indices) <= {A, B, k, l}:
                powers["".join(_LETTERS[i] for i in base.indices)] = int(power)
            elif base.base != w:
                outside += [(str(base.base), base.indices)] * int(power)
        groups[bool(term.bound), tuple(sorted(outside, key=str))].append((coefficient, powers))
    letters = "".join(_LETTERS[i] for component in pair for i in component.indices)
    monomials = _Monomials(arrays, xp)
    total = 0.0
    for (framed, outside), entries in groups.items():
        value = sum(_number(x, parameters) * monomials(powers) for x, powers in entries)
        if framed:
            value = value * arrays["w"][:, None, None, None] * arrays["w"][None, :, None, None]
        operands = [_placed(name, indices, arrays) for name, indices in outside]
        names = ",".join(["abkl", *["".join(_LETTERS[i] for i in indices) for _, indices in outside]])
        value = value + xp.zeros(monomials.shape) if framed else value[0, 0] + xp.zeros(monomials.shape[2:])
        names = names if framed else names.replace("abkl", "kl")
        total = total + xp.einsum(f"{names}->{_known(letters, names)}", value, *operands, optimize="greedy")
    return total


def _known(letters: str, names: str) -> str:
    missing = set(letters) - set(names)
    if missing:
        raise TypeError(f"cannot lower a covariance that does not depend on {sorted(missing)}")
    return letters


def _number(coefficient: sp.Expr, parameters: Arrays) -> Any:
    """A coefficient at the values of the scalar parameters."""
    numerical, symbols = coefficient.as_independent(*coefficient.free_symbols, as_Add=False)
    value: Any = float(numerical)
    for factor in sp.Mul.make_args(symbols):
        if factor != 1:
            value = value * parameters[factor.name]
    return value


def _placed(name: str, indices: tuple[sp.Symbol, ...], arrays: dict[str, Any]) -> Any:
    """An array restricted to students along each axis that a student's letter names."""
    array = arrays[name]
    if name == "r":
        return array
    students = slice(arrays["known"], None)
    first = 1 if name == "D" else 0  # D's first axis holds students only
    where = [students if axis >= first and index in (k, l) else slice(None) for axis, index in enumerate(indices)]
    return array[tuple(where)]


class _Monomials:
    """Products of powers of the correlations of A, B, k and l, as arrays that broadcast to (N, N, m, m)."""

    def __init__(self, arrays: dict[str, Any], xp: ModuleType) -> None:
        known, correlations = arrays["known"], arrays["C"]
        count, width = correlations.shape[0], correlations.shape[0] - known
        self.shape = (count, count, width, width)
        self._ones = xp.ones((1, 1, 1, 1))
        rows, inner = correlations[:, known:], correlations[known:, known:]
        self._base = {
            "ab": correlations[:, :, None, None],
            "ak": rows[:, None, :, None],
            "al": rows[:, None, None, :],
            "bk": rows[None, :, :, None],
            "bl": rows[None, :, None, :],
            "kl": inner[None, None, :, :],
            "lk": inner.T[None, None, :, :],
        }
        self._powers: dict[tuple[str, int], Any] = {}

    def _power(self, name: str, n: int) -> Any:
        if (name, n) not in self._powers:
            self._powers[name, n] = self._base[name] if n == 1 else self._power(name, n - 1) * self._base[name]
        return self._powers[name, n]

    def __call__(self, powers: dict[str, int]) -> Any:
        value = self._ones
        for name, n in powers.items():
            value = value * self._power(name, n)
        return value
