r"""What Stiefel SGD does beside the Riccati flow, as numbers with their conditions: late risk and loss, and mean passages.

Late, by `theory.quadratic.stationary`, of the means of G and of the risk: with norms fixed at γ, $s=\gamma/\|a\|$, the loss is
linear in G, $2(1-2s\,\mathrm{tr}\tilde A\,EG+s^2N)$ in units of the risk. Early, by `theory.quadratic.passage`: direction j is
found at the risk at which heavier ones are held, $G_{jj}=½$, and lighter ones are at 0,
$$R_j=2\Big(\sum_{\tilde a_i<\tilde a_j}\tilde a_i^2+\tfrac34\tilde a_j^2\Big),$$
on average over uniform starts and noise. A batch of b samples is one of step size η/b there, but for whole steps.
"""

from collections.abc import Iterator

import numpy as np

from theory.core.arguments import check_positive, check_whole
from theory.core.errors import InputError
from theory.declared.known import NUMBER, STEPS, Known, Unknown, small
from theory.prediction.validity import Condition
from theory.quadratic.model import QuadraticModel, half_times
from theory.quadratic.passage import passages
from theory.quadratic.stationary import Stationary, stationary
from theory.quadratic.stiefel import largest_step, projected_risk
from theory.quadratic.subspace import draw_subspaces

LATE_RISK, LATE_LOSS, RELAXATION = "late risk of SGD", "late loss of SGD", "relaxation of SGD"
FOUND = "emergence of SGD, mean"
#: Overlaps of all starts together, within these numbers of starts (a mean over 256 is known to 2 %, one over 64 to 4 %,
#: most of what it missed by at d = 40); beyond so many overlaps of one nobody waits for it.
_OVERLAPS, _FEWEST, _MOST, _LARGEST = 4096, 16, 256, 1024
#: Share of the late risk that the next order may be; of a passage, what each thing that is left out may move.
_NEXT, _MOVED = 0.05, 0.05
#: (P + N)/d, the order of what the noise has beside its variance.
_ROOM = 0.1


def stiefel_law(model: QuadraticModel, step_size: float, batch: int = 1, seed: int = 0) -> Iterator[Known | Unknown]:
    r"""Late levels of Stiefel SGD from uniform frames and mean passages, each with its conditions; derived, see the module.

    Numbers, one each: `LATE_RISK` E R, 2 at f = 0; `LATE_LOSS`, mean ½E(f*−f)², that of risk
    $2(1-2s\,\mathrm{tr}\tilde A\,EG+s^2N)$, both low to high by the next order; `RELAXATION` in steps, $1/\lambda\epsilon$,
    ε the Riccati time of a step, λ of the slowest deviation. `FOUND` once for each direction (place j, from 1): mean steps to
    the risk $R_j$, low to high by the errors of the starts and by all that is left out.

    Valid for N ≥ P, up to 8 directions, a step below `theory.quadratic.stiefel.largest_step`, large d at fixed ηd/b; the
    conditions say what the next orders leave out. Of what is not known comes an `Unknown` with the reason: N below P, d below
    P + N, more directions, no stable state, a passage whose risk is below the late one.

    Args:
        step_size: η of ½(f*−f)², of the whole step. batch: its samples. seed: of starts and of their noise.

    Raises `InputError`, when the first is asked for, unless `step_size` is positive and `batch` a whole number from 1.
    """
    check_positive(step_size=step_size)
    check_whole(batch=batch)
    least = model.teacher.width + model.width
    if model.teacher.dim < least:
        few = f"dim is {model.teacher.dim}, below teacher width + student width = {least}: raise dim or lower a width"
        yield Unknown("Stiefel SGD", few)
        return
    bound, worst = largest_step(model, batch)
    beyond = f"step size: {step_size:.3g} is beyond {bound:.3g}, from which direction {worst + 1} does not grow"
    steady = Condition("step size", step_size <= bound, step_size, bound, beyond)
    try:
        state = stationary(model, step_size, batch)
        yield from _late(model, state, step_size, batch, steady)
        if steady.holds:
            yield from _early(model, state, step_size, batch, seed, steady)
        else:
            yield Unknown(FOUND, beyond)
    except InputError as error:
        yield Unknown("late risk and emergence of SGD", str(error))


def _late(model: QuadraticModel, state: Stationary, step_size: float, batch: int, steady: Condition) -> Iterator[Known]:
    epsilon, risk, share = model.riccati_rate * step_size, state.risk, model.speed_factor / model.norm
    pairs = (1 - 1 / batch) * batch / model.teacher.dim * abs(state.kicks)
    left = (state.next_order(risk) + pairs + epsilon * abs(state.fluctuation)) / risk if risk else 0.0
    conditions = (steady, small("next order", left, _NEXT, "next order: what is left out is {:.2g} of the late risk"))
    held = float(model.spectrum @ np.diag(state.mean))
    loss = float(model.loss(2 * (1 - 2 * share * held + share**2 * model.width)))
    # (By the same share of what is not held, in which the loss is linear.)
    loss_off = left * float(model.loss(4 * share * (float(model.spectrum.sum()) - held)))
    source = "theory.quadratic.stationary"
    for quantity, value, off in ((LATE_RISK, risk, left * risk), (LATE_LOSS, loss, loss_off)):
        yield Known(quantity, value, NUMBER, source, conditions, None, max(value - off, 0.0), value + off)
    yield Known(RELAXATION, 1 / (state.rate * epsilon), STEPS, source, conditions)


def _early(
    model: QuadraticModel, state: Stationary, step_size: float, batch: int, seed: int, steady: Condition
) -> Iterator[Known | Unknown]:
    """Mean passages; low to high: by the starts that they are means of, and by all that is left out."""
    count, width, dim, a = model.teacher.width, model.width, model.teacher.dim, model.spectrum
    order = np.argsort(-a, kind="stable")
    lighter = np.cumsum(a[order][::-1] ** 2)[::-1]
    levels = 2 * lighter - a[order] ** 2 / 2
    reached = int(np.sum(levels > state.risk))
    for place, level in list(zip((order + 1).tolist(), levels.tolist(), strict=True))[reached:]:
        late = f"the risk at which it is found, {level:.3g}, is below the late one, {state.risk:.3g}"
        yield Unknown(FOUND, f"{late}; lower the step size", place)
    if reached and count * width > _LARGEST:
        yield Unknown(FOUND, f"{count} directions times {width} columns are above {_LARGEST} overlaps: run stiefel-sgd")
        return
    if not reached:
        return
    draws = int(np.clip(_OVERLAPS // (count * width), _FEWEST, _MOST))
    starts = np.stack([x.on_teachers for x in draw_subspaces(count, width, dim, seed, draws)])
    first, swing = float(half_times(a, dim, width).min()), state.swing(lambda G: projected_risk(a, G))
    own = levels[:reached]
    whole, early = (
        passages(model, starts, [*own, *(own + swing)], step_size=step_size / batch, draws=2, seed=seed, until=until)
        for until in (np.inf, first)
    )
    epsilon = model.riccati_rate * step_size
    for j in range(reached):
        place, mean = int(order[j]) + 1, float(whole[j].mean())
        if not np.isfinite(mean):
            yield Unknown(FOUND, f"not all of {draws} starts come to the risk {own[j]:.3g}", place)
            continue
        shares = {
            "noise": (_MOVED, abs(float(early[j].mean()) - mean) / mean, "what of it comes after the first direction"),
            "fluctuations": (_MOVED, 1 - float(whole[reached + j].mean()) / mean, "those of the late risk"),
            "whole steps": (_MOVED, float(a[order[0]]) * epsilon / 2, "that a step is no flow"),
            "dimension": (_ROOM, (count + width) / dim, "what noise has beside its variance"),
        } if mean > 0 else {}  # fmt: skip
        conditions = (
            steady,
            *(
                small(name, moved, limit, f"{name}: {what} moves it by {{:.2g}} of itself")
                for name, (limit, moved, what) in shares.items()
            ),
        )
        off = 2 * float(whole[j].std(ddof=1)) / draws**0.5 + mean * sum(x[1] for x in shares.values())
        value, low, high = (x / epsilon for x in (mean, max(mean - off, 0.0), mean + off))
        yield Known(FOUND, value, STEPS, "theory.quadratic.passage", conditions, place, low, high)
