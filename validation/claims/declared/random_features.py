"""M24: compute-optimal random features, drawn and in their deterministic equivalent, and the exponents of the phases."""

from collections.abc import Iterator, Sequence

import numpy as np

from theory.declared.random_features import RandomFeatures, Spectrum, Trained, crossing, phase_exponents
from validation.judge.claim import Control, Measurement, Part, claim, computed_by
from validation.judge.context import Context
from validation.statistics.exponents import continued, exponent_of, slope_weights
from validation.statistics.frontier import Frontier, lower_envelope

COST = 12

#: η Tr D.
_SIZE = 0.5

# ------------------------------------------------------------------- in the limit

#: Widths around which exponents are taken, and the ratio of neighbours there: for 2α > 1, and for 2α < 1, where terms come
#: apart only at widths that nobody trains (beyond these, sums over as many coordinates lose digits).
_WIDE, _NARROW = ((1e3, 1e4, 1e5), 1.3), ((1e7, 1e9, 1e11), 2.0)
#: Hidden coordinates, times the width, for 2α < 1.
_TIMES = 4
_QUICK = (
    *((1.0, 0.3, "I"), (0.75, 0.6, "II"), (1.0, 1.5, "III")),
    *((0.4, 0.3, "Ib"), (0.2, 0.9, "Ic"), (0.4, 0.8, "IVa")),
)
_FULL = ((0.75, 0.3, "I"), (0.75, 1.2, "III"), (0.35, 0.4, "Ib"), (0.35, 1.2, "IVa"))
#: What decides in a phase, and what the claim calls its absence.
_DECIDES = {"I": ("target", "F₀ of a target"), "II": ("F_ac", "F_ac")} | dict.fromkeys(("Ib", "Ic"), ("step", "steps"))
_KERNEL = "kernel"


def _trained(alpha: float, beta: float, width: int) -> Trained:
    features = RandomFeatures(alpha, beta, width, np.inf if alpha > 0.5 else _TIMES * width)
    return Trained(width, features.equivalent(), _SIZE / features.trace)


def _local(alpha: float, beta: float, centre: float, ratio: float, kernel: bool) -> np.ndarray:
    low, middle, high = (_trained(alpha, beta, round(centre * ratio**k)) for k in (-1, 0, 1))
    first, second = crossing(low, middle, kernel), crossing(middle, high, kernel)
    moved = [np.log(getattr(second, x) / getattr(first, x)) for x in ("risk", "width", "compute")]
    return np.array(moved[:2]) / moved[2]


def _exponents(alpha: float, beta: float, kernel: bool = True) -> np.ndarray:
    """Local exponents (risk, width) around each centre, (centres, 2)."""
    centres, ratio = _WIDE if alpha > 0.5 else _NARROW
    return np.array([_local(alpha, beta, centre, ratio, kernel) for centre in centres])


def _phase(alpha: float, beta: float, phase: str) -> Iterator[Measurement]:
    found, predicted = _exponents(alpha, beta), phase_exponents(alpha, beta)
    limit, added = continued(found)
    if phase in _DECIDES:
        without, control = _DECIDES[phase]
        wrong = [Control(one) for one in phase_exponents(alpha, beta, without)]
    else:  # SGD's own noise decides
        quiet, control = continued(_exponents(alpha, beta, kernel=False))[0], _KERNEL
        wrong = [Control(one, float(other)) for one, other in zip(predicted, quiet, strict=True)]
    for place, name in enumerate(("risk", "width")):
        text = f"exponent of the compute-optimal {name}, deterministic equivalent, α = {alpha:g}, β = {beta:g} (phase {phase})"
        yield Measurement(
            text, predicted[place], float(limit[place]), 0.0, float(added[place]), {control: wrong[place]},
            "what continuing the change from width to width adds", key=f"{phase}-{alpha:g}-{name}".replace(".", ""),
            details={"at widths": list((_WIDE if alpha > 0.5 else _NARROW)[0]), "exponents": found[:, place].tolist()},
        )  # fmt: skip


# ---------------------------------------------------------------- drawn features

_ALPHA, _HIDDEN = 0.75, 2500
_WIDTHS = tuple(int(x) for x in np.geomspace(14, 400, 11).round())
#: Widths whose compute bounds the window.
_WINDOW = ((30, 40), (150, 200))


def _risks(spectra: Sequence[Spectrum], grid: np.ndarray, step_size: float, kernel: bool = True) -> list[np.ndarray]:
    """Of each width, on its samples at compute `grid`."""
    pairs = zip(_WIDTHS, spectra, strict=True)
    return [one.risk(step_size, grid / width, kernel=kernel) for width, one in pairs]


def _crossing(beta: float, widths: tuple[int, int], step_size: float) -> float:
    """The compute at which the equivalents of two widths have one risk."""
    one, other = (RandomFeatures(_ALPHA, beta, width, _HIDDEN).equivalent() for width in widths)
    return crossing(Trained(widths[0], one, step_size), Trained(widths[1], other, step_size)).compute


def _drawn(beta: float, context: Context) -> Measurement:
    features = [RandomFeatures(_ALPHA, beta, width, _HIDDEN) for width in _WIDTHS]
    step_size, draws = _SIZE / features[0].trace, context.pick(12, 96)
    low, high = (_crossing(beta, pair, step_size) for pair in _WINDOW)
    grid = np.geomspace(low, high, 16)
    # Every width has matrices of its own: what they shared would be missing from the frontier's error.
    seeds = [[context.seed_for("M24", f"{beta:g}", one.width, number) for number in range(draws)] for one in features]
    curves = [
        np.stack([one.draw(seed).risk(step_size, grid / one.width) for seed in row])
        for one, row in zip(features, seeds, strict=True)
    ]
    frontier = Frontier([grid] * len(curves), curves, grid, rng=context.rng("M24", "bootstrap"))
    level = frontier.contrast(np.full(grid.size, 1 / grid.size))

    def predicted(spectra: Sequence[Spectrum], kernel: bool = True) -> np.ndarray:
        return lower_envelope([grid] * len(spectra), _risks(spectra, grid, step_size, kernel), grid)[0]

    equivalents, diagonal = ([getattr(one, x)() for one in features] for x in ("equivalent", "truncated"))
    best = predicted(equivalents)
    wrong = {"kernel": predicted(equivalents, kernel=False), "diagonal": predicted(diagonal)}
    slopes = {"drawn": float(slope_weights(grid) @ frontier.logs), "equivalent": exponent_of(grid, best)}
    return Measurement(
        f"mean ln of the compute-optimal risk, {draws} draws of W, best widths 35 to 170, α = {_ALPHA:g}, β = {beta:g}",
        float(np.log(best).mean()), level.value, level.stderr, 1 / _WINDOW[0][0],
        {name: float(np.log(x).mean()) for name, x in wrong.items()},
        computed_by(RandomFeatures.equivalent, "1/d at the narrow end of the window, the order of the equivalent's error"),
        key=f"drawn-{beta:g}".replace(".", ""), details={"limit": phase_exponents(_ALPHA, beta)[0], "slopes": slopes},
    )  # fmt: skip


@claim(
    id="M24",
    title="Phases of compute-optimal random features",
    statement="At compute f the best risk and width of random features are powers of f, set by the balance of four terms.",
    latex=r"R\asymp d^{-2\alpha+(1-2\beta)_+}+\tau^{-\rho/2\alpha}+d^{-1}\tau^{-1+1/2\alpha}+\eta\tau^{-2+1/2\alpha},\quad "
    r"\tau=\eta r,\ f=rd",
    source="arXiv:2405.15074, phases I to IV but IVb",
    kind="asymptotic",
    regime="2α + 2β > 1, small steps η ∝ 1/Tr D, batch 1; 2α < 1: hidden coordinates in proportion to the width",
    controls=(
        "kernel term left out",
        "F_ac left out",
        "F₀ of a target that the features express",
        "steps that do not shrink with the width",
        "diagonal truncation in the place of features",
    ),
)
def run_phases(context: Context) -> Iterator[Part]:
    """Exponents of drawn features at their own size, and in the limit from widths 10³ to 10⁵ (2α < 1: 10⁷ to 10¹¹)."""
    for beta in (0.6, 1.2) if context.full else (1.2,):
        yield _drawn(beta, context)
    for alpha, beta, phase in _QUICK + (_FULL if context.full else ()):
        yield from _phase(alpha, beta, phase)
