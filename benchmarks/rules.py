"""``python -m benchmarks.rules --table docs/rules.md``: which rule sees which exponent, predicted and measured.

Exact chains of one direction: growth with d of the samples until it is found, for rules × links, and the transition of
alternating layers in the second layer's step. The part of the page above the marker is written by hand and stays.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from theory import InputError, generative_exponent
from theory.declared.one_direction import Drift
from theory.declared.rule import Rule
from validation.experiments.links import Anew
from validation.experiments.passages import LINKS, RULES, Passages, case_of, predicted_steps, run_case, run_points

#: What is below it is made by the command.
MARKER = "<!-- made by the command, not edited by hand -->"
_LINKS = ("three-valued", "even", "binary")
#: Dimensions by the predicted exponent; none where samples grow as d³.
_DIMS = {1: (128, 512), 2: (128, 512), 3: (64, 128), 4: ()}
#: Second layer's steps on either side of the transition, and their dimension; the same far from it, for theory alone.
_SECOND, _DIM = ((0.02, 0.06), (1.0, 3.0)), 256
_FAR, _LARGE = ((1e-5, 3e-5), (0.03, 0.1)), 10**8


@dataclass(frozen=True)
class Cell:
    """A rule on a link: its first ν_i and the runs, None where there are none."""

    rule: str
    link: str
    drift: Drift
    found: Passages | None

    @property
    def exponent(self) -> int:
        """The first i with ν_i ≠ 0 (beside the size of ψ)."""
        return self.drift.exponent(1e-5 * self.drift.square**0.5)

    @property
    def asymptotic(self) -> str:
        """Growth of the samples at the best step size."""
        return {1: "d", 2: "d ln d", 3: "d²", 4: "d³"}[self.exponent]


def cell(rule: str, link: str, replicas: int, seed: int) -> Cell:
    """Measured, unless the direction is repelled or its dimensions would be too small."""
    case = case_of(rule, link)
    empty = Cell(rule, link, case.drift(4096), None)
    dims = _DIMS[empty.exponent]
    if not dims:
        return empty
    try:
        return replace(empty, found=run_case(case, dims, replicas, seed))
    except InputError:  # no step size: the drift is not positive
        return empty


def transition(replicas: int, seed: int) -> list[tuple[tuple[float, ...], Passages]]:
    """Steps of the second layer below and above its transition."""
    base = case_of("alternating", "three-valued")
    found: list[tuple[tuple[float, ...], Passages]] = []
    for steps in _SECOND:
        cases = [replace(base, rule=_anew(step)) for step in steps]
        points = [(case, _DIM, case.step_size(_DIM)) for case in cases]
        found.append((steps, run_points(steps, points, replicas, seed)))
    return found


def line() -> list[tuple[tuple[float, ...], Passages]]:
    """The prediction alone, on both sides and far from the transition, d = 10⁸."""
    base = case_of("alternating", "three-valued")
    found: list[tuple[tuple[float, ...], Passages]] = []
    for steps in _FAR:
        cases = [replace(base, rule=_anew(step)) for step in steps]
        predicted = np.array([predicted_steps(case, _LARGE, case.step_size(_LARGE)) for case in cases])
        found.append((steps, Passages(np.array(steps), np.full((2, 2), np.nan), predicted)))
    return found


def _anew(step: float) -> Callable[[float], Rule]:
    return lambda dim: Anew(1.0, ratio=step)


def _row(one: Cell) -> str:
    first = one.drift.coefficients[one.exponent - 1] / one.drift.square**0.5
    cells = [one.rule, one.link, str(one.exponent), f"{first:+.3f}"]
    if one.found is None:
        repelled = one.exponent == 2 and first < 0
        cells += ["repelled" if repelled else one.asymptotic, "—", "—", "—", "—"]
    else:
        slope, stderr = one.found.slope()
        span = " … ".join(f"{d:g}" for d in one.found.x)
        measured = f"{slope:.2f} ± {stderr:.2f}" if np.isfinite(slope) else "—"
        cells += [one.asymptotic, span, f"{one.found.theory():.2f}", measured, f"{one.found.found:.0%}"]
    return "| " + " | ".join(cells) + " |"


def page(cells: Sequence[Cell], steps: Sequence[tuple[tuple[float, ...], Passages]]) -> str:
    """The made part, in Markdown."""
    exponents = {link: generative_exponent(LINKS[link][0]) for link in _LINKS}
    lines = [
        "## Rules × links\n",
        "| rule | link | first i | ν_i/∣ψ∣ | samples | d | slope predicted | slope measured | found |",
        "|---|---|--:|--:|---|---|--:|--:|--:|",
        *map(_row, cells),
        "",
        "Generative exponents: " + ", ".join(f"{link} {p}" for link, p in exponents.items()) + ".\n",
        "## The transition in the second layer's step\n",
        "| d | η₂ | samples predicted | slope predicted | samples measured (median) | slope measured |",
        "|--:|---|--:|--:|--:|--:|",
        *(_step_row(_DIM, values, found) for values, found in steps),
        *(_step_row(_LARGE, values, found) for values, found in line()),
    ]
    return "\n".join(lines) + "\n"


def _step_row(dim: int, values: Sequence[float], found: Passages) -> str:
    slope, stderr = found.slope()
    predicted = " … ".join(f"{x:.3g}" for x in found.predicted[:, :2].sum(axis=1))
    cells = [f"{dim:g}", " … ".join(f"{x:g}" for x in values), predicted, f"{found.theory():.2f}"]
    medians = " … ".join(f"{x:.3g}" for x in np.exp(found.medians()[0]))
    cells += [medians, f"{slope:.2f} ± {stderr:.2f}"] if np.isfinite(slope) else ["—", "—"]
    return "| " + " | ".join(cells) + " |"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the tables or write them into the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rules", description=__doc__)
    parser.add_argument("--table", type=Path, metavar="FILE", help="write them into this page, not on standard output")
    parser.add_argument("--replicas", type=int, default=96, metavar="N", help="runs of each case (96)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="random seed (0)")
    found = parser.parse_args(argv)
    cells = []
    for link in _LINKS:
        for rule in RULES:
            cells.append(cell(rule, link, found.replicas, found.seed))
            print(_row(cells[-1]), file=sys.stderr, flush=True)
    text = page(cells, transition(found.replicas // 2, found.seed))
    if found.table is None:
        print(text)
    else:
        written = found.table.read_text(encoding="utf-8").split(MARKER)[0]
        found.table.write_text(f"{written}{MARKER}\n\n{text}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
