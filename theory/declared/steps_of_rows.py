"""Largest step size of rows by themselves, where noise undoes an overlap's growth, and the law of the steps that SGD takes.

Isotropic inputs and orthonormal directions: the second order of a step on the whole way to the direction
(`theory.declared.passage`). Any others: to leading order in the number of inputs, at the start.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.sparse.linalg import LinearOperator, eigsh

from theory.core.activation import Activation
from theory.core.errors import InputError
from theory.core.hermite import z
from theory.declared import lone_row, population
from theory.declared.flow import integrals_of, is_quadratic, speed
from theory.declared.inputs import ROUNDING
from theory.declared.known import TIME, Known, fact, small
from theory.declared.loss import Correlation
from theory.declared.model import DeclaredModel
from theory.declared.one_direction import REFERENCE, Drift, drift, first_step
from theory.declared.passage import Wandering, allowed_step, behind, late
from theory.declared.rule import Momentum, Rule
from theory.declared.start import Start
from theory.declared.student import Student, committee
from theory.declared.target import Additive, Polynomial
from theory.one_task.errors_at_rest import errors_at_rest
from theory.one_task.hitting_distribution import HittingLaw, hitting_distribution
from theory.prediction.greedy import select
from theory.prediction.validity import MOVED, Condition, own_noise

BOUND = "largest step size"
#: Overlap at which a direction counts as found; and points of a mean of σ'⁴ (of tanh at variance 3: 64 are 1.6 % off).
_LEVEL, _POINTS = float(np.sqrt(lone_row.FOUND)), 200
#: Of a root and an eigenvalue; and sizes of matrices of which all eigenvalues are taken.
_NEAR, _EXACT, _DENSE = 1e-12, 1e-6, 300
#: Share of a mean that may be beyond second order.
_BEYOND = 0.03


@dataclass(frozen=True, eq=False)
class LoneRow:
    """The row that is first at a direction, of place p from 0: its drift, of batch 1, and its overlap at the start."""

    model: DeclaredModel
    start: Start
    row: int
    p: int
    drift: Drift
    overlap: float
    alone: tuple[Drift, Student, Additive, Any, Rule]

    def whole_steps(self, rule: Rule, spread: float) -> Condition:
        r"""That second order is what steps do, at the start and half of the way: by which shares their mean, and their
        variance, of which the law's mean has the square of its `spread`, a share, are others (`first_step`; noise on labels
        apart).
        """
        own, student, target, loss, one = self.alone
        size, missed = float(rule.step_size) / rule.batch, 0.0  # type: ignore[arg-type]
        for u in (self.overlap, (self.overlap + _LEVEL) / 2):
            step = first_step(student, target, loss, replace(one, step_size=size), self.dim, u)
            shrinkage, variance = own.second_order(self.dim, u)
            moved = abs(step.whole + size * float(shrinkage) - float(own.at(u))) / abs(float(own.at(u)))
            missed = max(missed, moved + spread**2 * abs((step.moved - step.whole**2) / float(variance) - 1))
        return small(
            "whole steps", missed, _BEYOND, "whole steps: what is beyond their second order moves this by {:.2g} or so"
        )

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

    def behind(self, batch: int) -> tuple[float, float]:
        """Steps by which SGD is later than its `law`, and the part of noise. Raises `InputError` as `largest`."""
        return behind(self.drift, self.dim, batch, self.overlap, _LEVEL)

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
            alone = own, single, Additive(link, (weight,)), loss, rule
            one = LoneRow(model, start, row, p, replace(own, squares=squares), overlap, alone)
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

    on: $b^2$ is the norm at which a 2-homogeneous row rests, l are the other rows, whose gradients lengthen the step. Errors
    along the row, and of its second layer, and those across it feed each other, which is counted
    (`theory.one_task.errors_at_rest`): of a single row that rests along an eigenvector the step is exact for any batch (a free
    row of h3 in 20: .47 of the above). However large the batch, $\eta<2/\lambda$, λ the fastest rate of the mean step, of all
    rows (`_fastest`). Second layers that are trained count by where they rest, $|b|=|a_p|$ with the target's activation, or by
    their start if that is more; of a target that is not additive one row has all of it. (Derived; labels without noise,
    fields of different rows independent.)

    Raises `InputError` of a 2-homogeneous student for a target that is not additive, and for models without a flow.
    """
    if isinstance(model.target, Additive) or model.student.homogeneous:
        model = lone_row.of_mean_labels(model)
    if not (is_quadratic(model.loss) and type(model.rule) in (Rule, Momentum)):
        return np.inf
    reached = _reached(model)
    rests = [_Rest(model, p, reached) for p in range(model.target.count)]
    # (Of a jump the points see no slope.)
    rests = [one for one in rests if 0 < one.square < np.inf and np.any(one.fields[3])]
    if not rests:
        return np.inf
    fastest = _fastest(model, reached) if model.rule.batch > 1 else 0.0
    return min(one.largest(model.rule.batch, fastest) for one in rests) / speed(model.rule)


def _reached(model: DeclaredModel) -> tuple[float, ...]:
    """The squared second layer, or norm, with which a row by itself rests along each direction, (P,): 0 where a second layer
    is not trained, or a norm shrinks.
    """
    student, target, places = model.student, model.target, range(model.target.count)
    if student.homogeneous:
        return tuple(lone_row.rest_norm(model, p) for p in places)
    if not student.trained:
        return (0.0,) * len(places)
    if isinstance(target, Additive):
        moved = np.square(target.weights) * float(target.link.second_moment)
    else:  # (classes: 1)
        moved = np.full(
            len(places), population.square(target, model.directions) if isinstance(target, Polynomial) else 1.0
        )
    return tuple((moved / float(student.activation.second_moment)).tolist())


def _at_rest(model: DeclaredModel, reached: tuple[float, ...], first: Sequence[int]) -> tuple[np.ndarray, list[int]]:
    """Squared second layers or norms of all rows and the directions along which they rest, by places from 0: these in this
    order have the heaviest. Of a target that is not additive the first row has all; rows beyond the directions count as one
    more each along the first.
    """
    places, moved = list(first), np.array([reached[p] for p in first])
    if model.student.homogeneous:
        width = min(model.student.width, moved.size)
        return moved[:width], places[:width]
    squares = np.sort(np.square(model.student.second))[::-1]
    count = min(squares.size, moved.size) if isinstance(model.target, Additive) else 1
    squares[:count] = np.maximum(squares[:count], moved[:count])
    return squares, (places + places[:1] * squares.size)[: squares.size]


@dataclass(frozen=True)
class _Rest:
    """A row that rests along direction p, of place from 0; `_reached` of all."""

    model: DeclaredModel
    p: int
    reached: tuple[float, ...]

    @cached_property
    def squares(self) -> tuple[float, float]:
        """The squared second layer or norm of the row, and that of the other rows together."""
        others = sorted((p for p in range(len(self.reached)) if p != self.p), key=lambda p: -self.reached[p])
        squares, _ = _at_rest(self.model, self.reached, [self.p, *others])
        return float(squares[0]), float(squares[1:].sum())

    @property
    def square(self) -> float:
        return self.squares[0]

    @cached_property
    def shares(self) -> np.ndarray:
        """Of the direction's squared length, by blocks."""
        gram = np.einsum("ipp->pi", self.model.directions.grams)[self.p]
        return np.asarray(gram / gram.sum())

    @cached_property
    def pull(self) -> float:
        """The variance of inputs along the direction."""
        return float(np.asarray(self.model.inputs.eigenvalues) @ self.shares)

    @cached_property
    def fields(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Points and weights of the row's normed field, and σ and σ' there."""
        student = self.model.student
        unit = student.homogeneous or student.rows != "free"
        length = 1.0 if unit else float(np.einsum("ipp->p", self.model.directions.grams)[self.p])
        deviation = 1.0 if student.whitened else np.sqrt(length * self.pull)
        points, weights = student.activation.gaussian(_POINTS, float(deviation))
        value, slope = (np.asarray(student.activation.arrays(order)(deviation * points)) for order in (0, 1))
        return points, weights, np.broadcast_to(value, points.shape), np.broadcast_to(slope, points.shape)

    def along(self, square: float) -> np.ndarray:
        """Gradients that the row, of this squared second layer or norm, has along itself, where it is free, and of a trained
        second layer, (r, points); the two of a 2-homogeneous row are one.
        """
        student, (points, _, value, slope) = self.model.student, self.fields
        if student.homogeneous:
            return 2 * np.sqrt(square * (self.pull if student.whitened else 1.0)) * value[None]
        free = [np.sqrt(square * self.pull) * slope * points] if student.rows == "free" else []
        return np.array([*free, *([value] if student.trained else [])]).reshape(-1, points.size)

    def largest(self, batch: int, fastest: float) -> float:
        r"""One over the largest eigenvalue μ of `errors_at_rest`, and what the other rows add.

        Across the row errors relax by $b^2\lambda_iE\sigma'^2$ in block i, of $d_i$ inputs; what they keep by themselves in a
        step is $\eta k_i$, so that $\sum_id_i\lambda_i/(1-k_i/\mu)$ stands for the trace in what they have of the residual
        together: one equation in μ. The other rows add $T\,E\sigma'^2\sum_lb_l^2R$ in a sample, and go along with the mean
        step: what that makes `fastest` more than the row's own is added, an upper bound.
        """
        inputs, (_, mass, _, slope), (rest, others) = self.model.inputs, self.fields, self.squares
        one, mean, _ = errors_at_rest(mass, slope, self.along(rest), rest, 1.0, 0.0)
        many, left = 1 - 1 / batch, np.asarray(inputs.multiplicities) - self.shares
        eigenvalues, left = (np.asarray(x)[left > ROUNDING] for x in (inputs.eigenvalues, left))
        kept = (2 * one[0, 0] / batch + many * mean[0, 0]) * eigenvalues
        own = max([*eigenvalues * mean[0, 0], *np.diag(mean)[1:]])
        one[0, 0] += others * float(mass @ slope**2) / 2
        loop = one / batch + many * mean
        loop[0] = one[0] / batch

        def more(rate: float) -> float:
            """What errors keep beside this of what they were."""
            trace = np.append(float(np.sum(eigenvalues * left / (1 - kept / rate))), np.ones(len(loop) - 1))
            return float(np.linalg.eigvals(trace[:, None] * loop).real.max()) - rate

        low = float(kept.max(initial=0.0)) * (1 + _NEAR)
        if not low:  # one input
            alone = max(more(1.0) + 1.0, 0.0)
        else:
            high = 2 * low
            while more(high) > 0:
                high *= 2
            alone = brentq(more, low, high, rtol=_NEAR) if more(low) > 0 else low
        return 1 / (alone + many * max(fastest / 2 - own, 0.0))


def _fastest(model: DeclaredModel, reached: tuple[float, ...]) -> float:
    r"""The rate at which the mean step contracts what it contracts fastest: the largest eigenvalue of $E\,gg^\top$, g the
    gradients of all rows at rest, of independent fields $h_k=s_kz_k$ along eigenvectors of variance $\lambda_k$.

    Row k has $b_k\sigma'(h_k)\sqrt{\lambda_l}z_l$ along that of row l, and $\varphi_k$ along its own and of its second layer.
    Rows that move in one direction have their mean slopes in common, two that turn to each other $E\sigma'z$, and those along
    their own $E\varphi$; all else is independent.
    """
    own = [_Rest(model, p, reached) for p in range(len(reached))]
    squares, places = _at_rest(model, reached, sorted(range(len(own)), key=lambda p: (-reached[p], -own[p].pull)))
    rests = [own[p] for p in places]
    left = np.asarray(model.inputs.multiplicities) - sum(own[p].shares for p in set(places))
    # (One more direction than rows, at right angles to all.)
    more = float(max(np.asarray(model.inputs.eigenvalues)[left > ROUNDING], default=0.0))
    pulls, (points, mass, *_), count = np.array([*(one.pull for one in rests), more]), rests[0].fields, squares.size
    slopes = np.sqrt(squares)[:, None] * [one.fields[3] for one in rests]
    along = np.array([one.along(square) for one, square in zip(rests, squares, strict=True)])
    tilt, wide, turn = slopes @ mass, slopes**2 @ mass, slopes @ (mass * points) * np.sqrt(pulls[:-1])
    mean, lean = along @ mass, along @ (mass * points) * np.sqrt(pulls[:-1, None])
    moments, size = np.einsum("kan,kbn,n->kab", along, along, mass), count * (count + 1)

    def product(flat: np.ndarray) -> np.ndarray:
        x, own = flat[:size].reshape(count, count + 1).copy(), flat[size:].reshape(count, -1)
        np.fill_diagonal(x, 0.0)
        together = tilt @ x
        found = tilt[:, None] * (together * pulls) + (wide - tilt**2)[:, None] * pulls * x
        found[:, :-1] += np.outer(turn, turn) * x[:, :-1].T + tilt[:, None] * np.sum(lean * own, axis=1)
        np.fill_diagonal(found, 0.0)
        shared = np.sum(mean * own)
        moved = np.einsum("kab,kb->ka", moments, own) + lean * together[:-1, None]
        moved += mean * (shared - np.sum(mean * own, axis=1))[:, None]
        return np.concatenate([found.ravel(), moved.ravel()])

    whole = size + along.shape[0] * along.shape[1]
    if whole <= _DENSE:
        return float(np.linalg.eigvalsh(np.array([product(unit) for unit in np.eye(whole)]))[-1])
    operator, start = LinearOperator((whole, whole), matvec=product, dtype=float), np.cos(np.arange(whole))
    # (No random start, for the same number in every run.)
    return float(eigsh(operator, k=1, which="LA", v0=start, tol=_EXACT, return_eigenvectors=False)[0])


def _slope_moment(activation: Activation, variance: float, power: int) -> float:
    """E σ'(h)^power of a field of this variance."""
    points, weights = activation.gaussian(_POINTS, float(np.sqrt(variance)))
    return float(weights @ np.asarray(activation.arrays(1)(points * np.sqrt(variance))) ** power)
