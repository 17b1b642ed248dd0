"""What theory knows of a declared model (time, exponent, boundary, floor), each with its conditions, and what it does not.

Nothing is derived here: each number names its source (times: `theory.declared.emergence`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np

from theory.core.activation import Activation
from theory.core.arguments import check_whole
from theory.core.errors import InputError
from theory.declared import emergence, leap, linear_stability
from theory.declared.emergence import BOUND, FLOOR, FOUND
from theory.declared.escape import ESCAPE, escape
from theory.declared.flow import is_quadratic, speed
from theory.declared.generative import LEAST, leading_share, least_seen
from theory.declared.known import NUMBER, POWER, STEPS, TIME, Knowledge, Known, Unknown, fact, small
from theory.declared.leap import Staircase, fits, leaps
from theory.declared.linear_model import linear_model
from theory.declared.lone_row import common_degree
from theory.declared.model import DeclaredModel
from theory.declared.modified_equation import REFERENCE as CLOCK_REFERENCE
from theory.declared.modified_equation import memory
from theory.declared.one_direction import REFERENCE as DRIFT_REFERENCE
from theory.declared.one_direction import Drift, FirstStep, drift, first_step
from theory.declared.population import check_target
from theory.declared.rule import Rule
from theory.declared.seen import seen_share, seen_terms
from theory.declared.start import Start
from theory.declared.steps_of_rows import given_step, largest_at_rest, largest_at_the_start
from theory.declared.student import committee
from theory.declared.target import Additive, Polynomial, as_additive
from theory.prediction.validity import Condition
from theory.scaling import bayes

#: Directions over dimensions up to which a law of d → ∞ is off by a few per cent (about P/d of itself).
_FEW = 0.03
#: Shares of the drift of one direction: what |x|² for d may cost, and what the next orders in the step size, which are that at
#: a quarter of the largest step size.
_LENGTH, _FIRST_ORDER = 0.05, 0.25
DEGREE, BAYES = "leading degree of the rule", "loss that no estimator beats"
GENERATIVE = "generative exponent of the link"
_HERMITE = "Hermite expansion; arXiv:2003.10409"
_GENERATIVE = "arXiv:2403.05529; theory.declared.generative"


#: What a part of theory says of a model; it raises `InputError` with the reason where it says nothing.
Section = Callable[[DeclaredModel, Start], Iterator[Known | Unknown]]


def predict(model: DeclaredModel, start: Start, samples: int | None = None) -> Knowledge:
    """All entries. A part that theory has nothing for is named with the reason.

    Args:
        samples: that a run sees, for what any estimator could make of them.

    Raises `InputError` for a start that does not fit, and unless `samples` is a whole number from 1.
    """
    start.check(model.directions)
    model = replace(model, target=as_additive(model.target))
    check_whole(samples=1 if samples is None else samples)
    sections: dict[str, Section] = {**_SECTIONS, BAYES: partial(_bayes, samples)}
    return Knowledge.of(entry for name, section in sections.items() for entry in _asked(name, section, model, start))


def _asked(name: str, section: Section, model: DeclaredModel, start: Start) -> Iterator[Known | Unknown]:
    try:
        yield from section(model, start)
    except InputError as refusal:
        yield Unknown(name, str(refusal))


# ----------------------------------------------------------------------------- exponents


def _degrees(model: DeclaredModel, start: Start) -> Iterator[Known | Unknown]:
    target, unit = check_target(model.target), _unit_fields(model)
    activation = model.student.activation
    if isinstance(target, Additive):
        for name, one, conditions in (("link", target.link, unit), ("activation", activation, ())):
            conditions = (*conditions, _visible(leading_share(one)))
            yield Known(f"information exponent of the {name}", one.information_exponent, NUMBER, _HERMITE, conditions)
        if degree := common_degree(model):
            yield Known("first common degree", degree, NUMBER, _HERMITE, unit)
        yield from _asked(GENERATIVE, partial(_generative, target.link), model, start)
    yield from _leaps(model, target)


def _generative(link: Activation, model: DeclaredModel, start: Start) -> Iterator[Known | Unknown]:
    alone = "one direction: it is that of one, whose label shows nothing else"
    conditions = (*_unit_fields(model), fact("one direction", model.target.count == 1, alone))
    seen = least_seen(link)
    if not np.isnan(seen.share):
        conditions = (*conditions, _visible(seen.share))
    yield Known(GENERATIVE, seen.degree, NUMBER, _GENERATIVE, conditions)


def _visible(share: float) -> Condition:
    """That a degree has a share of the label's second moment which a run may see."""
    sentence = (
        f"share: that degree is {share:.2g} of the second moment; a higher one decides unless the overlap is tiny"
    )
    return Condition("share", share > LEAST, share, LEAST, sentence)


def _leaps(model: DeclaredModel, target: Additive | Polynomial) -> Iterator[Known | Unknown]:
    """Of all that rows find, with what must hold of rows, directions and dimension."""
    student, source = model.student, leap.REFERENCE
    made, sure, led = _staircase(model, target)
    missing = sorted(set(range(target.count)) - set(made.found))
    names = ", ".join(str(q + 1) for q in missing)
    if made.size:
        orthonormal = np.allclose(model.directions.covariance, np.eye(target.count)) and model.inputs.is_isotropic
        least = _overlap(model)
        later = f"order: at overlap {led:.2g}, below d^-1/2, another order is as large as the one that decides"
        share = seen_share(target, student.activation)
        faint = f"share: what the activation sees is {share:.2g} of the target's variance, too little for any run"
        conditions = (
            Condition("share", share > LEAST, share, LEAST, faint),
            fact("basis", orthonormal, "basis: directions are not orthonormal in isotropic inputs"),
            fact("never", not missing, f"never: it is that of what is found, without direction {names}"),
            fact(
                "rows",
                sure,
                "rows: what rows share, or lengths or signs that change, may decide; run declared-flow",
            ),
            fact("width", made.rows <= student.width, f"width: to rest at all that is found it takes {made.rows} rows"),
            Condition("order", led >= least, led, least, later),
        )
        plain = fact(
            "rule", type(model.rule) is Rule and not model.rule.samples, "rule: that of plain SGD on fresh samples"
        )
        yield Known("leap", made.size, NUMBER, source, conditions)
        yield Known("flow time of the leap", max(one.time_power for one in made.leaps), POWER, source, conditions)
        samples = max(one.sample_power for one in made.leaps)
        yield Known("samples of the leap", samples, POWER, source, (*conditions, plain))
    if missing:
        terms = seen_terms(target, student.activation)
        blind = [q for q in missing if not any(alpha[q] for alpha in terms)]
        why = "in no term that the activation sees" if blind == missing else "rows are not drawn to it, or driven back,"
        yield Unknown("leap", f"direction {names}: {why} at first order; it may never be found")


def _overlap(model: DeclaredModel) -> float:
    """That rows begin with."""
    return float(model.inputs.dim) ** -0.5


def _staircase(model: DeclaredModel, target: Additive | Polynomial) -> tuple[Staircase, bool, float]:
    """The leaps, whether they are the same by all that is not known of rows that are not each alone on a sphere, and the
    overlap up to which what decides leads: a slope that is too weak for its dimension counts where they change without it.
    """
    student, weak = model.student, _overlap(model)
    signs = sorted(set(np.sign(student.second).tolist()) - {0.0})
    shared = is_quadratic(model.loss) and student.width > 1
    made = leaps(target, student.activation, signs, shared)

    def same(signs: Sequence[float], shared: bool, weakest: float = 0.0) -> bool:
        other = leaps(target, student.activation, signs, shared, weakest)
        return (other.size, other.found) == (made.size, made.found)

    led = made.lead if made.leak >= weak or same(signs, shared, weak) else min(made.lead, made.leak)
    if shared and student.homogeneous and fits(target, student.activation, made.rests):
        return made, True, led
    alone = student.homogeneous or student.rows != "free"
    sure = (alone and not shared) or same(signs, not shared)
    return made, sure and (not student.trained or same((-1.0, 1.0), shared)), led


def _unit_fields(model: DeclaredModel) -> tuple[Condition, ...]:
    return (
        fact(
            "variance",
            model.directions.have_unit_fields,
            "variance: fields of the directions do not have variance 1, so other degrees count",
        ),
    )


def _one_direction(model: DeclaredModel, start: Start) -> Iterator[Known | Unknown]:
    """Of one row on the sphere with this rule, batch 1 and no label noise, and the first direction by itself."""
    rule, target, student = model.rule, model.target, model.student
    sphere = student.width == 1 and student.rows != "free"
    if type(rule) is Rule and not sphere:
        return  # (plain SGD sees the first common degree, whatever the rows)
    if rule.samples:
        raise InputError("a data set is used again: samples do not count as fresh ones; run declared-sgd")
    if isinstance(target, Additive):
        target = replace(target, weights=target.weights[:1])
    row = student if sphere else committee(student.activation, 1, rows="sphere")
    lone, dim = replace(rule, batch=1, noise=0.0, decay=0.0), float(model.inputs.trace)
    found = drift(row, target, model.loss, lone, dim)
    conditions = (
        fact(
            "isotropic",
            model.inputs.is_isotropic,
            "isotropic: it is that of isotropic inputs of variance 1, with the trace for |x|²",
        ),
        *_unit_fields(model),
        fact("row", sphere, "row: it is that of one row on the sphere with second layer 1"),
        fact("batch", rule.batch == 1, f"batch: it is that of batch 1, not {rule.batch}"),
        fact("one direction", model.target.count == 1, "one direction: the others, noise on its label, are left out"),
        fact("labels", not rule.noise, "labels: without their noise"),
    )
    exact = partial(first_step, row, target, model.loss, lone, dim)
    yield from _of_drift(found, model.inputs.dim, exact, conditions)


def _of_drift(
    found: Drift, dim: int, exact: Callable[[float], FirstStep], general: tuple[Condition, ...]
) -> Iterator[Known | Unknown]:
    """`exact`: `first_step` at an overlap. A barrier is judged where it is, all else at overlap d^-1/2."""
    first, source = found.exponent(), DRIFT_REFERENCE
    if not first:
        yield Unknown(DEGREE, "no ν_i up to degree 20: at first order the rule sees nothing of this link")
        return
    start, value = float(dim) ** -0.5, float(found.coefficients[first - 1])
    # (At overlap d^-1/2, where a row begins, a small coefficient of low degree may not lead yet.)
    size = np.abs(found.seen) * start ** np.arange(len(found.seen))
    share = float(np.broadcast_to(found.errors, found.seen.shape)[first - 1]) / abs(value)
    general = (*general, small("quadrature", share, _LENGTH, "quadrature: it is known to {:.2g} of itself only"))
    conditions = (*general, *_first_order(found, exact, start, size.max(), f"the drift at overlap {start:.2g}"))
    drawn = fact(
        "sign", value > 0, "sign: its coefficient is negative, so that small positive overlaps are driven back"
    )
    yield Known(DEGREE, first, NUMBER, source, conditions)
    yield Known("leading degree at overlap d^-1/2", int(np.argmax(size)) + 1, NUMBER, source, conditions)
    yield Known("coefficient of the leading degree", value, NUMBER, source, conditions)
    noise = (*conditions, *_noise(found, exact, start))
    yield Known("noise over signal", found.square / value**2, NUMBER, source, noise)
    yield Known("samples of the rule", max(1, first - 1), POWER, source, (*conditions, drawn))
    barrier = None if value > 0 else found.barrier()
    if barrier is not None:
        rise = (1 - barrier**2) * np.polynomial.Polynomial(found.seen).deriv()(barrier)
        moved = _first_order(found, exact, barrier, float(barrier * rise), "it")  # (by a step of Newton's)
        yield Known("overlap to start above", barrier, NUMBER, source, (*general, *moved))


def _first_order(
    found: Drift, exact: Callable[[float], FirstStep], u: float, scale: float, of: str
) -> tuple[Condition, ...]:
    """What the law of |x|² and a step of finite size change of the drift at overlap u, over `scale`."""
    if u >= 1:
        return (fact("dimension", False, "dimension: no direction is at right angles to the target's"),)
    step = exact(u)
    away, later = abs(step.first - float(found.at(u))) / scale, abs(step.whole - step.first) / scale
    length = f"dimension: it has d for |x|², whose law moves {of} by {{:.2g}} of its size"
    order = f"step size: what is beyond its first order moves {of} by {{:.2g}} of its size; lower it"
    return small("dimension", away, _LENGTH, length), small("step size", later, _FIRST_ORDER, order)


def _noise(found: Drift, exact: Callable[[float], FirstStep], u: float) -> tuple[Condition, ...]:
    """What the law of |x|² changes of Eψ² at overlap u."""
    if u >= 1:
        return ()
    away = abs(exact(u).square / float(found.squares_at(u)[0]) - 1)
    return (small("dimension", away, _LENGTH, "dimension: the law of |x|² moves the noise by {:.2g} of it"),)


# --------------------------------------------------------------------------------- clock


def _clock(model: DeclaredModel, start: Start) -> Iterator[Known | Unknown]:
    speed(model.rule)  # refuses rules without a flow
    own = memory(replace(model.rule, decay=0.0, samples=0))
    size = model.rule.step_size
    kept = not (model.rule.decay and own.lag)
    condition = (fact("decay", kept, "decay: it stays out of the velocity, and so has neither this step nor this lag"),)
    stable: tuple[Condition, ...] = ()
    for bound in _asked(BOUND, _of_committee, model, start):
        if isinstance(bound, Known) and not callable(size):
            beyond = f"step size: {{:.3g}} is beyond the largest, {bound.value:.3g}: SGD is far from its flow, and may diverge"
            stable = (small("step size", float(size), bound.value, beyond),)
    if callable(size):
        yield Unknown(
            "effective step", "the step size is a schedule: the clock is the sum of its steps, times the memory"
        )
    else:
        yield Known("effective step", own.total * size, TIME, CLOCK_REFERENCE, (*condition, *stable))
    yield Known("lag of the gradient", own.lag, STEPS, CLOCK_REFERENCE, condition)


def _of_committee(model: DeclaredModel, start: Start) -> Iterator[Known | Unknown]:
    """The largest step size of rows that see each other or have a second layer that is trained; nothing of others."""
    student, rule = model.student, model.rule
    if student.homogeneous or rule.samples or not (student.trained or (student.width > 1 and is_quadratic(model.loss))):
        return
    additive, at_start, at_rest = isinstance(model.target, Additive), np.inf, largest_at_rest(model)
    if additive:
        at_start = largest_at_the_start(model, start)
    if np.isinf(min(at_start, at_rest)):
        raise InputError("no growth at the start and no rest is known to this order: try half of the step size")
    heavy = (
        "light: the student's output is more than the labels; where noise undoes the growth of overlaps is not known"
    )
    fixed = "rest: a row whose second layer is fixed need not fit the direction along which it rests"
    largest = max(model.inputs.eigenvalues) / model.inputs.trace
    conditions = (
        fact("additive", additive, "additive: it is that of rows along one direction each, by their rest alone"),
        fact("light", at_start < np.inf or not additive, heavy),
        fact("rest", not additive or student.trained or at_start <= at_rest, fixed),
        *((emergence.independent(model),) if additive and at_rest < at_start else ()),
        fact("momentum", type(rule) is Rule, given_step(rule)),
        small(
            "dimension",
            largest,
            _LENGTH,
            "dimension: it is of leading order in it; one field has {:.2g} of all variance",
        ),
    )
    yield Known(BOUND, min(at_start, at_rest), TIME, "derived; theory.declared.steps_of_rows", conditions)


# -------------------------------------------------------------------------------- floors


def _linear(model: DeclaredModel, start: Start) -> Iterator[Known | Unknown]:
    """Edge and floor of the linear model, exact at any step size; nothing of others."""
    try:
        linear = linear_model(model, start)
    except InputError:
        return
    rule, source = model.rule, linear_stability.REFERENCE
    linear = replace(linear, noise=rule.noise_deviation)
    yield Known(BOUND, linear_stability.edge(linear, rule), TIME, source)
    yield Known(FLOOR, linear_stability.floor(linear, rule) / 2, NUMBER, source)


def largest_step(model: DeclaredModel, start: Start) -> float:
    """The least `BOUND` that is known of the model's rule, whatever its own step size; inf if none is."""
    model, found = replace(model, target=as_additive(model.target)), [np.inf]
    for bound in (
        lambda: emergence.largest_step(model, start),
        lambda: linear_stability.edge(linear_model(model, start), model.rule),
    ):
        with suppress(InputError):
            found.append(bound())
    return min(found)


def _bayes(samples: int | None, model: DeclaredModel, start: Start) -> Iterator[Known | Unknown]:
    r"""Half of the least mean squared error with the samples of the run; nothing for targets that are not additive."""
    target, noise = model.target, model.rule.noise
    if samples is None or not isinstance(target, Additive):
        return
    same = model.rule.noise_law == "gaussian" and not model.rule.noise_period
    if not (noise and same and model.inputs.is_isotropic):
        raise InputError("known for labels with the same Gaussian noise throughout, in isotropic inputs, only")
    channel = bayes.Channel.of(target.link)
    squares = np.sort(np.square(target.weights))[::-1] * float(target.link.second_moment)
    found = bayes.BayesFloor(channel, squares, noise**2)
    error = found.error(samples / model.inputs.dim)
    share = float(squares[0] / (noise**2 + error))
    weak = small("weak", share, 0.2, "weak: the largest direction is {:.2g} of all noise, and should be little")
    count = small("dimension", target.count / model.inputs.dim, _FEW, "dimension: it holds for d → ∞; P/d is {:.2g}")
    yield Known(
        BAYES, error / 2, NUMBER, bayes.REFERENCE, (*_unit_fields(model), emergence.independent(model), weak, count)
    )


#: By what is unknown if they refuse.
_SECTIONS: dict[str, Section] = {
    "exponents": _degrees,
    "effective step": _clock,
    FOUND: emergence.emergence,
    ESCAPE: escape,
    BOUND: _of_committee,
    DEGREE: _one_direction,
    FLOOR: _linear,
}
