"""How long it takes to derive the overlap flow, to check every step of it, and to turn it into code."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.row import Row
from benchmarks.timing import once

NAME = "derivation"
ROOT = Path(__file__).resolve().parents[1]
PROGRAM = "import json, sys; from benchmarks.derivation import stages; print(json.dumps(stages(sys.argv[1])))"


def stages(activation: str) -> dict[str, float]:
    """Seconds to derive, verify and lower, and to compile the lowered drift (m = 8, P = 4), in this process.

    Meant for a fresh process: later calls find SymPy's caches filled.
    """
    import jax
    import jax.numpy as jnp

    from dynamics.core.lowering import LoweredSystem, lower
    from theory import Activation, System, overlap_flow

    parsed = Activation.parse(activation)
    made: dict[str, Any] = {}
    seconds = {"derive": once(lambda: made.update(system=overlap_flow(parsed)) or ())}
    system: System = made["system"]
    seconds["verify"] = once(lambda: system.derivation.verify() and ())
    seconds["lower"] = once(lambda: made.update(lowered=lower(system)) or ())
    lowered: LoweredSystem = made["lowered"]
    state = {"t": jnp.full((8, 4), 0.1), "c": jnp.eye(8), "r": jnp.ones(8)}
    seconds["compile"] = once(lambda: jax.jit(lowered.drift).lower(state, {"a": jnp.ones(4)}).compile() and ())
    return seconds


def run(activations: Sequence[str] = ("h4", "0.8*h4+0.6*h6", "erf"), repeats: int = 3) -> list[Row]:
    """Each stage in fresh processes, the best of `repeats` for each."""
    rows = []
    for activation in activations:
        found = [_in_fresh_process(activation) for _ in range(repeats)]
        for stage in found[0]:
            best = min(times[stage] for times in found)
            rows.append(Row(NAME, f"{stage} the overlap flow of {activation} (best of {repeats})", best, "s"))
    return rows


def _in_fresh_process(activation: str) -> dict[str, float]:
    command = [sys.executable, "-c", PROGRAM, activation]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found
