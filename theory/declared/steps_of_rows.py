"""Largest step size of rows by themselves, where noise undoes an overlap's growth, and the law of the steps that SGD takes.

Isotropic inputs and orthonormal directions: the second order of a step on the whole way to the direction
(`theory.declared.passage`). Any others: to leading order in the number of inputs, at the start.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from theory.core.activation import Activation
from theory.core.errors import InputError
from theory.core.hermite import z
from theory.core.quadrature import gauss_hermite
from theory.declared import lone_row, population
from theory.declared.flow import integrals_of, is_quadratic, speed
from theory.declared.inputs import ROUNDING
from theory.declared.known import TIME, Known, fact, small
from theory.declared.loss import Correlation
from theory.declared.model import DeclaredModel
from theory.declared.one_direction import REFERENCE, Drift, drift
from theory.declared.passage import Wandering, allowed_step, late
from theory.declared.rule import Momentum, Rule
from theory.declared.start import Start
from theory.declared.student import committee
from theory.declared.target import Additive, Polynomial
from theory.one_task.errors_at_rest import errors_at_rest
from theory.one_task.hitting_distribution import HittingLaw, hitting_distribution
from theory.prediction.greedy import select
from theory.prediction.validity import MOVED, Condition, own_noise

BOUND = "largest step size"
#: Overlap at which a direction counts as found; and points of a mean of σ'².
_LEVEL, _POINTS = float(np.sqrt(lone_row.FOUND)), 64


@dataclass(frozen=True, eq=False)
class LoneRow:
    """The row that is first at a direction, of place p from 0: its drift, of batch 1, and its overlap at the start."""

    model: DeclaredModel
    start: Start
    row: int
    p: int
    drift: Drift
    overlap: float

    @property
    def dim(self) -> float:
        return float(self.model.inputs.dim)

    @cached_property
    def largest(self) -> float:
        """Raises `InputError` for a row that is not driven to the direction all the way. A batch divides the second order."""
        return self.model.rule.batch * allowed_step(self.drift, self.dim, self.overlap, _LEVEL)

    @property
    def norm(self) -> float:
        """Squared, of a 2-homogeneous row at the start, which it shortens itself by; 0 of others, whose drift has it."""
        return float(self.start.grams[:, self.row, self.row].sum()) if self.model.student.homogeneous else 0.0

    def later(self, lag: float) -> tuple[float, float]:
        """Steps by which gradients of a mean age make it later, and their size. Raises `InputError` as `largest`."""
        return late(self.drift, lag, self.overlap, _LEVEL, self.model.student.homogeneous)

    def largest_step(self, time: float) -> Known:
        """`time`: when the direction is found, inf where that is not known."""
        rule = self.model.rule
        moved = self.largest * float(np.sqrt(self.dim * self.drift.square / rule.batch))
        far = "whole steps: one of that size moves the row by {:.2g}, beyond second order"
        conditions: tuple[Condition, ...] = (
            fact("momentum", type(rule) is Rule, given_step(rule)),
            small("whole steps", moved, MOVED, far),
        )
        target = lone_row.additive_target(self.model)
        if target.count > 1 and not self.model.student.homogeneous:
            mean = "mean: the link has one, of which the other directions make more than noise"
            conditions = (*conditions, fact("mean", target.link.squared_mean == 0, mean))
        if self.model.student.homogeneous:
            conditions = (*conditions, *self._among_students(target, time))
        return Known(BOUND, self.largest, TIME, REFERENCE, conditions, self.p + 1)

    def _among_students(self, target: Additive, time: float) -> tuple[Condition, ...]:
        degree, mean = lone_row.common_degree(self.model), target.link.squared_mean
        mean += self.model.student.activation.squared_mean
        sees = (
            f"second order: of degree {degree} a step sees the other directions' labels, too; it is derived from 3 on"
        )
        return (
            fact("exponent", degree >= 3 or target.count == 1, sees),
            fact("mean", mean == 0, "mean: link or activation has one, which all rows fit together"),
            self.light(target, time),
        )

    def light(self, target: Additive, time: float) -> Condition:
        """What a step sees of the rows of a 2-homogeneous student themselves until `time`, beside the labels."""
        model, start = self.model, self.start
        gram = start.grams.sum(axis=0)
        norms = np.diag(gram)
        labels = float(np.sum(np.square(target.weights)) * target.link.second_moment)
        waits = (time,) if np.isfinite(time) else (0.0, np.inf)
        sizes = norms * np.max([lone_row.risen(model, start, wait) for wait in waits], axis=0)
        return own_noise(model.student.activation, gram / np.sqrt(np.outer(norms, norms)), sizes, self.row, labels)

    def law(self, rule: Rule) -> HittingLaw:
        """Of the steps of SGD by this rule, of constant steps, as sums of step sizes."""
        size = float(rule.step_size) / rule.batch  # type: ignore[arg-type]
        walk = Wandering(self.drift, self.dim, size, self.model.student.activation)
        return hitting_distribution(walk, self.overlap, lone_row.FOUND).moments()


def given_step(rule: Rule) -> str:
    """Which step size `BOUND` is of where momentum adds steps up: η, of the effective step η/(1 − β)."""
    share = 1 / speed(rule)
    return (
        f"momentum: it is the step size as given, {share:.3g} of the effective step, whose bound is that of plain SGD, to "
        "first order in it"
    )


def least_step(rows: Mapping[int, LoneRow], times: Mapping[int, float]) -> Known:
    """The largest step size that all directions which are found allow; `times`, by place from 0: when they are."""
    worst = min(rows.values(), key=lambda one: one.largest)
    found = worst.largest_step(times.get(worst.p, np.inf))
    left = ", ".join(str(p + 1) for p, time in times.items() if time < np.inf and p not in rows)
    known = fact("directions", not left, f"directions: what direction {left} allows is not known")
    return replace(found, conditions=(*found.conditions, known))


def lone_rows(model: DeclaredModel, start: Start) -> dict[int, LoneRow]:
    r"""By place from 0; none where no bound on its steps is known: several eigenvalues, correlated directions, free rows that
    see each other, and what is never found.

    Other directions, and noise, are noise on its label: of variance s² they add $s^2b^2E\sigma'^2$ to Eψ², times the square of
    the rule's speed. A row that goes to −e sees the link reflected. A light row of a 2-homogeneous student turns as a row on
    the sphere by the correlation loss: its norm cancels. Valid while rows are light and steps small, as
    `LoneRow.largest_step` says.

    Raises `InputError` for a target that is not additive, and for models without a flow.
    """
    model = lone_row.of_mean_labels(model)
    student, target, fields = model.student, model.target, model.directions.covariance
    light = student.homogeneous and is_quadratic(model.loss)
    crowd = is_quadratic(model.loss) and student.width > 1 and not light
    isotropic = model.inputs.is_isotropic and np.abs(fields - np.eye(len(fields))).max() <= ROUNDING
    if crowd or student.trained or not isinstance(target, Additive) or not isotropic or model.rule.samples:
        return {}
    linear, variance = type(model.rule) in (Rule, Momentum), model.rule.noise**2  # in the label
    if (student.homogeneous and not (light and linear)) or (not linear and (variance or target.count > 1)):
        return {}
    found = dict[int, LoneRow]()
    label, slope = float(target.link.second_moment), float(student.activation.kernel_at(1, 1))
    gain = speed(model.rule) if linear else 1.0
    rates, degree = lone_row.growth_rates(model, start), lone_row.common_degree(model)
    cosines = start.overlaps(model.directions)[0] / np.sqrt(np.einsum("kk->k", start.grams[0]))[:, None]
    apart = degree <= 2 and (target.count == 1 or not is_quadratic(model.loss))
    for row, p in _first(_ahead(rates, cosines) if apart else rates, model):
        weight, second = target.weights[p], 1.0 if light else float(student.second[row])
        single = committee(student.activation, 1, second, rows="sphere" if light else student.rows)
        loss, rule = Correlation() if light else model.loss, replace(model.rule, batch=1, decay=0.0, noise=0.0)
        with suppress(InputError):
            # (Of degree 1 a row that leans away is driven back through 0.)
            back = degree == 1 and rates[row, p] < 0
            link = target.link if (cosines[row, p] > 0) != back else _reflected(target.link)
            overlap = float(np.abs(cosines[row, p])) * (-1 if back else 1)
            own = drift(single, Additive(link, (weight,)), loss, rule, float(model.inputs.dim), light=light)
            others = (np.sum(np.square(target.weights)) - weight**2) * label + variance
            squares = own.squares + np.eye(1, own.squares.size)[0] * others * (gain * second) ** 2 * slope
            one = LoneRow(model, start, row, p, replace(own, squares=squares), overlap)
            if one.largest > 0:
                found[p] = one
    return found


def _ahead(rates: np.ndarray, cosines: np.ndarray) -> np.ndarray:
    """How far rows are that all grow at one pace, (m, P), from 0 to 2: whoever goes where it leans to is beyond 1."""
    return 1 + np.abs(cosines) * np.sign(rates)


@lru_cache(maxsize=32)
def _reflected(link: Activation) -> Activation:
    """f(−z): what a row sees that leans to −e."""
    return Activation.from_expression(link.function.subs(z, -z), f"{link.name} of -z")


def _first(rates: np.ndarray, model: DeclaredModel) -> list[tuple[int, int]]:
    """(row, direction): who is first there, of rows that share directions by the square loss greedily by their rates."""
    if not is_quadratic(model.loss):
        return [(int(row), p) for p, row in enumerate(np.argmax(rates, axis=0))]
    chosen = select(np.maximum(rates, 0.0))
    return list(zip(chosen.neurons.tolist(), chosen.directions.tolist(), strict=True))


def largest_at_the_start(model: DeclaredModel, start: Start) -> float:
    r"""The step size at which noise undoes the growth of overlaps at the start, to leading order in the number of inputs; inf
    where that is not known. For the choice of a step: later on rare samples may matter more.

    A step of a row of second layer b adds $\eta^2b^2E\delta^2E\sigma'^2\operatorname{tr}\Lambda^2$ to its field's variance C
    (to C over its squared length, b = 1, of a 2-homogeneous one), so that a correlation which grows at the rate S shrinks by
    half of that, over C. Of the labels only what no faster direction has fitted is noise; a committee's own output is, too. As
    a sum of step sizes; derived, of rows that are light: not known of a committee whose output is more than the labels. Of a
    second layer that is trained, by its start.

    Raises `InputError` for a target that is not additive, and for models without a flow.
    """
    model = lone_row.of_mean_labels(model)
    student, inputs, target = model.student, model.inputs, lone_row.additive_target(model)
    square = is_quadratic(model.loss)
    if not ((square or not student.homogeneous) and type(model.rule) in (Rule, Momentum)):
        return np.inf
    own = _own_noise(model, start) if square and not student.homogeneous else 0.0
    if np.isinf(own):
        return np.inf
    eigenvalues, grams = np.asarray(inputs.eigenvalues), start.grams
    fields, norms = np.einsum("i,ikk->k", eigenvalues, grams), np.einsum("ikk->k", grams)
    variance = np.ones_like(fields) if student.whitened else fields / norms if student.homogeneous else fields
    slopes = np.square(student.second) * [_slope_moment(student.activation, float(v), 2) for v in variance]
    shrinks = slopes * (eigenvalues**2 @ np.asarray(inputs.multiplicities)) / variance / 2
    rates, least = lone_row.growth_rates(model, start), np.inf
    left = np.asarray(target.weights, dtype=float)
    for row, p in _first(rates, model):
        seen = population.square(replace(target, weights=tuple(left)), model.directions) + own + model.rule.noise**2
        if rates[row, p] > 0:
            least = min(least, float(rates[row, p] / (shrinks[row] * seen)))
        left[p] *= not square
    return least * model.rule.batch / speed(model.rule) ** 2


def _own_noise(model: DeclaredModel, start: Start) -> float:
    r"""What a committee adds to the mean squared residual at the start, $E\,f^2-2E\,ff_*$, not below 0; inf if its own output
    is more than the labels.
    """
    eigenvalues, second = np.asarray(model.inputs.eigenvalues), np.asarray(model.student.second)
    integrals = integrals_of(model)
    constants = population.constants(integrals, model.directions)
    X, C = (
        np.einsum("i,ikp->kp", eigenvalues, start.overlaps(model.directions)),
        np.einsum("i,ikl->kl", eigenvalues, start.grams),
    )
    found = integrals.at(population.numeric, X, C, np.einsum("ikk->k", start.grams), constants)
    output = float(second @ found["K"] @ second)
    return max(output - 2 * float(second @ found["M"]), 0.0) if output <= constants["square"] else np.inf


def largest_at_rest(model: DeclaredModel) -> float:
    r"""The step size at which mean squares about rest grow; inf where that is not known. For the choice of a step: where rows
    fit a direction whose field varies much a few samples throw them off.

    By $\delta\to\delta-\eta\,g\,g^\top\delta$, $g=b\sigma'x$ of a row that rests along a direction, $E|\delta|^2$ grows
    from, to leading order in the number of inputs,

    $$\eta=\frac2{\operatorname{tr}\Lambda}\Big(b^2\frac{E\sigma'^4}{E\sigma'^2}+\sum_{l}b_l^2E\sigma'^2\Big)^{-1}$$

    on: $b^2$ is the norm at which a 2-homogeneous row rests, l are a committee's other rows, whose gradients lengthen the
    step. Errors along the row, and of its second layer, and those across it feed each other, which is counted
    (`theory.one_task.errors_at_rest`): of a single row in isotropic inputs the step is exact for any batch (a free row of h3
    in 20: .47 of the above); in others the fastest direction stands for all in the mean step. However large the batch,
    $\eta<2/\lambda$, λ the fastest rate of the mean step (`_Rest.fastest`). A second layer that is trained counts by where it
    rests, $|b|=|a_p|$ with the target's activation, or by its start if that is more; of a target that is not additive a row
    that has all of it. (Derived; labels without noise, fields of different rows independent.)

    Raises `InputError` of a 2-homogeneous student for a target that is not additive, and for models without a flow.
    """
    if isinstance(model.target, Additive) or model.student.homogeneous:
        model = lone_row.of_mean_labels(model)
    if not (is_quadratic(model.loss) and type(model.rule) in (Rule, Momentum)):
        return np.inf
    least, batch = np.inf, model.rule.batch
    for p in range(model.target.count):
        own = _Rest(model, p)
        if 0 < own.square < np.inf:
            least = min(least, own.largest(batch))
    return least / speed(model.rule)


@dataclass(frozen=True)
class _Rest:
    """A row that rests along direction p, of place from 0."""

    model: DeclaredModel
    p: int

    @cached_property
    def squares(self) -> tuple[float, float]:
        """The squared second layer of the row, and that of the other rows together."""
        student, target, moved = self.model.student, self.model.target, 0.0
        if student.homogeneous:
            return lone_row.rest_norm(self.model, self.p), 0.0
        if student.trained and isinstance(target, Additive):
            moved = target.weights[self.p] ** 2 * float(target.link.second_moment)
        elif student.trained:
            moved = (
                population.square(target, self.model.directions) if isinstance(target, Polynomial) else 1.0
            )  # (classes)
        squares = np.sort(np.square(student.second))
        return max(float(squares[-1]), moved / float(student.activation.second_moment)), float(squares[:-1].sum())

    @property
    def square(self) -> float:
        return self.squares[0]

    @cached_property
    def pull(self) -> float:
        """The variance of inputs along the direction."""
        gram = np.einsum("ipp->pi", self.model.directions.grams)[self.p]
        return float(np.asarray(self.model.inputs.eigenvalues) @ gram / gram.sum())

    @cached_property
    def fields(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Points and weights of the row's normed field, and σ and σ' there."""
        student, (points, weights) = self.model.student, gauss_hermite(_POINTS)
        unit = student.homogeneous or student.rows != "free"
        length = 1.0 if unit else float(np.einsum("ipp->p", self.model.directions.grams)[self.p])
        deviation = 1.0 if student.whitened else np.sqrt(length * self.pull)
        value, slope = (np.asarray(student.activation.arrays(order)(deviation * points)) for order in (0, 1))
        return points, weights, np.broadcast_to(value, points.shape), np.broadcast_to(slope, points.shape)

    @cached_property
    def along(self) -> np.ndarray:
        """Gradients that the row has along itself, where it is free, and of a trained second layer, (r, points); the two of a
        2-homogeneous row are one.
        """
        student, (points, _, value, slope) = self.model.student, self.fields
        if student.homogeneous:
            return 2 * np.sqrt(self.square) * value[None]
        free = [np.sqrt(self.square * self.pull) * slope * points] if student.rows == "free" else []
        return np.array([*free, *([value] if student.trained else [])]).reshape(-1, points.size)

    def largest(self, batch: int) -> float:
        r"""One over the largest eigenvalue of `errors_at_rest`, across the row by $b^2\Lambda$, and what the other rows add.

        These add $T\,E\sigma'^2\sum_lb_l^2R$ in a sample, and go along with the mean step: what that makes `fastest` more than
        the row's own is added, an upper bound.
        """
        inputs, (_, mass, _, slope) = self.model.inputs, self.fields
        trace, (rest, others), eigenvalues = inputs.trace - self.pull, self.squares, np.asarray(inputs.eigenvalues)
        itself = float(np.asarray(inputs.multiplicities) @ eigenvalues**2) / inputs.trace
        one, mean, _ = errors_at_rest(mass, slope, self.along, rest, trace, itself)
        one[0, 0] += trace * others * float(mass @ slope**2) / 2
        mean[0, 0] *= eigenvalues.max()
        alone = float(np.linalg.eigvals(one / batch + (1 - 1 / batch) * mean).real.max())
        return 1 / (alone + (1 - 1 / batch) * (self.fastest / 2 - mean.max()))

    @cached_property
    def fastest(self) -> float:
        r"""The rate at which the mean step contracts what it contracts fastest.

        At right angles to all rows it is $\Lambda(b^2E\sigma'^2+(E\sigma')^2\sum_lb_l^2)$: the others go along by the means
        of their slopes. Along the row, and of its second layer, the others go along, too: the largest eigenvalue for these.
        (Left out: two rows that turn to each other at once.)
        """
        _, weights, _, slope = self.fields
        square, mean, (rest, others) = float(weights @ slope**2), float(weights @ slope), self.squares
        across = max(self.model.inputs.eigenvalues) * (rest * square + others * mean**2)
        # (What the others have in common: their slopes are independent of the row's field.)
        common = np.sqrt(others * self.pull) * mean * self.fields[0]
        gradients = np.concatenate([common[None], self.along])
        moments = (gradients * weights) @ gradients.T
        moments[0, 0] += self.pull * rest * (square - mean**2)
        return float(max(across, np.linalg.eigvalsh(moments)[-1]))


def _slope_moment(activation: Activation, variance: float, power: int) -> float:
    """E σ'(h)^power of a field of this variance."""
    points, weights = gauss_hermite(_POINTS)
    return float(weights @ np.asarray(activation.arrays(1)(points * np.sqrt(variance))) ** power)
