r"""One row by itself under any covariance: how fast its overlaps grow, and when it finds a direction.

On the plateau a row that leans a little to direction p of an additive target moves along $\Lambda w_p$, so that
$X_{kp}=\mathrm{Cov}(\langle v_k,x\rangle,\langle w_p,x\rangle)$ grows at the rate

$$S_{kp}=\frac{\dot X_{kp}}{X_{kp}}=\nu b_ka_p\Gamma_p\frac{\partial_tN_{kp}}{X_{kp}},\qquad
\Gamma_p=\sum_i\lambda_i^2\|w_p^i\|^2,$$

N the teacher's integral (`theory.declared.population`), ν the rule's speed. Where the pair's first common degree J is 3 or
more, the part of degree J of the link has $S\propto|X|^{J-2}$, and with it $T_{kp}=1/((J-2)S_{kp})$ is the leading time
(derived; isotropic inputs: arXiv:2504.19983, eq. (5)). At finite size a row by itself has the model's own derived flow, of
L + LP numbers, which is integrated here: covariance, decay and what the row does to itself are in it, the other rows are not;
of a direction that is fitted the row that rests along it is. (While that row turns and grows it leans to other directions,
too, and holds back who waits for these: for what this moves, rows are followed in its company.) (Under another covariance a
2-homogeneous row's fields have no unit variance, and it leaves much of its direction: lower degrees of σ, with which it holds
other rows.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import scipy

from theory.core.activation import Activation
from theory.core.errors import InputError
from theory.declared import population
from theory.declared.directions import Directions
from theory.declared.flow import integrals_of, is_quadratic, speed
from theory.declared.model import DeclaredModel
from theory.declared.numeric_flow import LEAST, Rates, UnitRows
from theory.declared.start import Start
from theory.declared.student import Student
from theory.declared.target import Additive, Polynomial
from theory.one_task.lone_path import log_waited

REFERENCE = "derived; one row of the declared flow, isotropic inputs: arXiv:2504.19983, eq. (5)"

#: Tolerances of a step, by which a time is right to `ERROR`; most evaluations of one row, some seconds, and for each number
#: that it is followed by (so many does a Jacobian by differences take).
_RTOL, _ATOL, ERROR, _MOST, _MOST_EACH = 1e-5, 1e-13, 1e-3, 4000, 200
#: Growth of the logarithm of a squared norm that is followed; and how far it goes beyond both its start and its rest.
_MOST_FREE, _BEYOND = 40.0, 10.0
#: Such a change of a row that nothing holds back.
_SETTLED = 30.0
#: The clock's unit is so small a share of the end; and it goes on for as many ends.
_CLOCK = 40.0
#: Squared norm of a row that does nothing to itself.
_MASSLESS = 1e-9
#: A direction begins to be fitted at one part in so many of what is.
_TWENTIETH = 20
#: Squared correlation of the row's field with the direction's at which it is found.
FOUND = 0.5


def common_degree(model: DeclaredModel) -> int:
    """J: the first degree from 1 that link and activation share at variance 1; 0 if there is none.

    Raises `InputError` for a target that is not additive.
    """
    target = additive_target(model)
    shared = sorted(set(target.link.coefficients) & set(model.student.activation.coefficients))
    return next((degree for degree in shared if degree > 0), 0)


def additive_target(model: DeclaredModel) -> Additive:
    """The target. Raises `InputError` if it is not additive."""
    if isinstance(model.target, Additive):
        return model.target
    how = "run declared-flow" if isinstance(model.target, Polynomial) else "simulate it"
    raise InputError(f"the target is not additive: no time of its directions is known; {how}")


def of_mean_labels(model: DeclaredModel) -> DeclaredModel:
    r"""Where labels flip, the model that they show in the mean: $(1-2p)f_*$ for f*, and Gaussian noise of their mean square
    about it, $4p(1-p)Ef_*^2$ (p half as large if flips come and go); any other model as it is.

    Raises `InputError` for a target that is not additive, and for labels that show nothing.
    """
    rule, target = model.rule, additive_target(model)
    if rule.signal == 1:
        return model
    if rule.signal == 0:
        raise InputError(
            f"noise is {rule.noise:g} of law 'flips': the labels' mean is 0 everywhere; give another noise"
        )
    left = np.sqrt((1 - rule.signal**2) * population.square(target, model.directions))
    seen = replace(target, weights=tuple(rule.signal * a for a in target.weights))
    return replace(model, target=seen, rule=replace(rule, noise=float(left), noise_law="gaussian", noise_period=0))


def growth_rates(model: DeclaredModel, start: Start) -> np.ndarray:
    r"""$S_{kp}$ (m, P) at the start, per unit of the sum of step sizes; negative where an overlap shrinks.

    Raises `InputError` for other targets, and for models without a flow.
    """
    return _growth_rates(of_mean_labels(model), start, start.overlaps(model.directions))


def turning_rates(model: DeclaredModel, start: Start) -> np.ndarray:
    r"""By how much a unit of row l's squared norm (of a whitened student: of its field's variance) changes the logarithm of
    row k's correlation with row l at the start, (m, m), by the square loss; 2-homogeneous students.

    A row pulls as a direction of weight $-r_l$ would. Raises `InputError` for models without a flow.
    """
    grams, student = start.grams, model.student
    size = np.einsum("i,ikk->k", np.asarray(model.inputs.eigenvalues) ** student.whitened, grams)
    unit = np.sqrt(size)
    directions = Directions(model.inputs, grams / np.outer(unit, unit))
    rows = replace(model, directions=directions, target=Additive(student.activation, (-1.0,) * start.width))
    return _growth_rates(rows, start, grams / unit)


def _growth_rates(model: DeclaredModel, start: Start, overlaps: np.ndarray) -> np.ndarray:
    """Of rows that begin with these overlaps with the directions, (L, m, P)."""
    eigenvalues = np.asarray(model.inputs.eigenvalues)
    X = np.einsum("i,ikp->kp", eigenvalues, overlaps)
    C, rho = np.einsum("i,ikl->kl", eigenvalues, start.grams), np.einsum("ikk->k", start.grams)
    integrals = integrals_of(model)
    constants = population.constants(integrals, model.directions)
    found = integrals.at(population.numeric, X, C, rho, constants, square=False)
    along = np.einsum("i,ipp->p", eigenvalues**2, model.directions.grams)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = speed(model.rule) * np.asarray(model.student.second)[:, None] * along * found["Mt"] / X
    return np.nan_to_num(rate, posinf=0.0, neginf=0.0)


def of_leading_degree(model: DeclaredModel) -> DeclaredModel:
    """The same with degree J of the link alone, whose `growth_rates` those of small overlaps are.

    Raises `InputError` for a target that is not additive.
    """
    target, degree = additive_target(model), common_degree(model)
    own = target.link.coefficients
    if not degree or set(own) == {degree}:
        return model
    return replace(model, target=replace(target, link=Activation.from_coefficients({degree: own[degree]})))


def leading_times(rates: np.ndarray, degree: int) -> np.ndarray:
    r"""$T_{kp}$ in the sum of step sizes, shape of `rates`, those of degree J = `degree` ≥ 3 alone (`of_leading_degree`);
    inf where an overlap shrinks.
    """
    with np.errstate(divide="ignore"):
        return np.where(rates > 0, 1 / ((degree - 2) * np.where(rates > 0, rates, 1.0)), np.inf)


def alone(model: DeclaredModel, p: int) -> DeclaredModel:
    """The same with direction p only. Raises `InputError` for a target that is not additive."""
    target, place = additive_target(model), slice(p, p + 1)
    directions = Directions(model.inputs, model.directions.grams[:, place, place])
    return replace(model, directions=directions, target=replace(target, weights=target.weights[place]))


@dataclass(frozen=True)
class Row:
    """Where a row begins, and n − 1 others in whose company it goes. Attributes: overlap: ⟨v_k^i, w_p^i⟩ (L, n, P). gram:
    ⟨v_k^i, v_l^i⟩ (L, n, n). second: b, n of them.
    """

    overlap: np.ndarray
    gram: np.ndarray
    second: tuple[float, ...]

    @classmethod
    def of(cls, model: DeclaredModel, start: Start, row: int, share: float = 1.0, company: Sequence[int] = ()) -> "Row":
        """Row `row` of a start of the model and its `company`, squared lengths times `share`."""
        rows = [row, *company]
        overlap, gram = start.overlaps(model.directions)[:, rows], start.grams[:, rows][:, :, rows]
        return cls(overlap * np.sqrt(share), gram * share, tuple(model.student.second[k] for k in rows))

    @property
    def sizes(self) -> np.ndarray:
        """Squared lengths, (n,)."""
        return np.einsum("ikk->k", self.gram)

    def towards(self, p: int) -> "Row":
        """With the overlaps of direction p only."""
        return replace(self, overlap=self.overlap[:, :, p : p + 1])


@dataclass(frozen=True)
class Passage:
    r"""Times of one row to one direction.

    Attributes:
        found: the first at which $\mathrm{Corr}(\langle v,x\rangle,\langle w_p,x\rangle)^2$ is `FOUND`; inf if not by the end,
            or another direction is found first; nan if the row is too stiff or gets too short to follow.
        fitted: the first at which $\rho\,\mathrm{Corr}^2$ is half of `rest_norm`, or the same as `found` where that is inf.
        begun: the first at which it is a twentieth, 0 at once.
    """

    found: float
    fitted: float
    begun: float = np.inf

    @property
    def switches(self) -> tuple[float, float, float]:
        r"""When 50, 5 and 99 % are fitted, in this order: as the norm grows, $\dot r=g\,r(1-r/r^*)$, the last by
        $\ln99/\ln19$ of the time from the second to the first after the first.
        """
        if not np.isfinite(self.fitted):
            return (np.inf,) * 3
        return (
            self.fitted,
            self.begun,
            self.fitted + (self.fitted - self.begun) * float(np.log(99) / np.log(_TWENTIETH - 1)),
        )


def rest_norm(model: DeclaredModel, p: int) -> float:
    r"""$r^*$, the norm (ρ, or $v^\top\Lambda v$ of a whitened student) at which a row along direction p, by itself, rests.

    Along a direction $\dot r/r$ is linear in r: by the 2-homogeneous student and the square loss it falls from what the target
    pulls, $r^*=a\,E[g\sigma]/E[\sigma^2]-\kappa/(2E[\sigma^2])$ in isotropic inputs with link g. 0 if the row shrinks, inf of
    any other student or loss. (Decay turns a row that is no eigenvector of the covariance, and its norm is then nearly this.)

    Raises `InputError` for models without a flow.
    """
    return _rest(model, p)[0]


def _rest(model: DeclaredModel, p: int) -> tuple[float, float]:
    """`rest_norm`, and s of the row $s w_p$ that has it, nan where that is inf."""
    if not (model.student.homogeneous and is_quadratic(model.loss)):
        return np.inf, np.nan
    single = alone(model, p)
    student, along = model.student, single.directions.grams[:, 0, 0]
    velocity = _Velocity(replace(single, student=replace(student, width=1, second=student.second[:1])))

    def growth(size: float) -> float:
        """Of v = size · w."""
        overlap, gram = size * along[:, None, None], size**2 * along[:, None, None]
        at, moved = (_norm2(student, velocity.fields(*x)[1], x[1]) for x in ((overlap, gram), velocity(overlap, gram)))
        return moved / at

    def resting(sign: int) -> float:
        near, far = growth(sign), growth(sign * np.sqrt(2))  # r at once and twice that of w
        pulled = 2 * near - far
        return float(max(pulled / (near - far), 0.0))

    whole = along[:, None, None]
    unit = _norm2(student, velocity.fields(whole, whole)[1], whole)
    square, sign = max((resting(sign), sign) for sign in (1, -1))
    return unit * square, sign * float(np.sqrt(square))


def _norm2(student: Student, variance: np.ndarray, gram: np.ndarray) -> float:
    """The squared norm that multiplies a 2-homogeneous student's σ, of the first row; its field's variance is (0, 0)."""
    return float(variance[0, 0]) if student.whitened else float(gram[:, 0, 0].sum())


def follow(model: DeclaredModel, row: Row, p: int, until: float, switched: Sequence[tuple[float, int]] = ()) -> Passage:
    """One row to direction p, the other directions on; `switched`: (time, direction) from which on one is fitted, by a row
    that rests along it. Of several rows the first one's, in the company of the others.

    Raises `InputError` for models without a flow.
    """
    rest = rest_norm(model, p)
    flow = _Lone(model, row, None if np.isinf(rest) else rest / 2 if rest > 0 else np.inf)
    events = [_event(flow, p, name) for name in ("found", "fitted", "elsewhere", "begun")]
    y, now = flow.begin, 0.0
    found, begun = (0.0 if flow.measures(y, p)[name] >= 0 else np.inf for name in ("found", "begun"))
    for time, gone in [*sorted(x for x in switched if x[0] < until and x[1] != p), (until, -1)]:
        try:
            done = scipy.integrate.solve_ivp(flow.rate, (now, time), y, "LSODA", events=events, rtol=_RTOL, atol=_ATOL)
        except OverflowError:
            return Passage(np.nan, np.nan)
        if not done.success or done.y[-len(row.second) :].min() < LEAST:
            return Passage(np.nan, np.nan)
        found, begun = min([found, *done.t_events[0].tolist()]), min([begun, *done.t_events[3].tolist()])
        if done.t_events[1].size or (done.t_events[2].size and not np.isfinite(found)):
            return Passage(found, float(done.t_events[1][0]) if done.t_events[1].size else np.inf, begun)
        y, now = done.y[:, -1], time
        flow.velocity.fit(gone)
    return Passage(found, np.inf)


@dataclass(frozen=True)
class Course:
    """Where one row goes.

    Attributes:
        found: when it finds each direction, (P,): 0 at once, inf if not by the end, nan if it cannot be followed so far.
        grown: when it has grown so much that nothing holds it back, inf if not by the end.
    """

    found: np.ndarray
    grown: float = np.inf


def course(model: DeclaredModel, row: Row, until: float, switched: Sequence[tuple[float, int]] = ()) -> Course:
    r"""One row by itself, whatever it finds on its way; `switched` as in `follow`.

    By the correlation loss rows do not see each other, so that the first of them finds a direction when the flow does.
    A free row of a committee is infinite in a finite time there: time t runs as $t+\tau|\ln\rho|$ does, which has no end.

    Raises `InputError` for models without a flow.
    """
    count, unit = model.target.count, until / _CLOCK
    held = max(rest_norm(model, p) for p in range(count))
    flow = _Lone(model, row, None if np.isinf(held) else held / 2)
    settled = np.inf if is_quadratic(model.loss) else _SETTLED
    times = np.where(at_once(model, row), 0.0, np.inf)

    def rate(clock: float, y: np.ndarray) -> np.ndarray:
        moved = flow.rate(y[-1], y[:-1])
        return np.append(moved, 1.0) / (1 + unit * abs(moved[-1]))

    y = np.append(flow.begin, 0.0)
    for end, gone in [*sorted(x for x in switched if x[0] < until), (until, -1)]:
        finds = [_found_event(flow, p) for p in range(count)]
        events = [*finds, _reaches(-2, settled), _reaches(-1, end)]
        try:
            done = scipy.integrate.solve_ivp(
                rate, (0.0, until * _CLOCK), y, "LSODA", events=events, rtol=_RTOL, atol=_ATOL
            )
        except OverflowError:
            return Course(np.where(np.isinf(times), np.nan, times))
        first = [one[0, -1] if len(one) else np.inf for one in done.y_events[:count]]
        times = np.minimum(times, first)
        y = done.y[:, -1]
        if done.t_events[count].size:
            return Course(times, float(y[-1]))
        if not done.success or not done.t_events[-1].size or done.y[-2].min() < LEAST:
            return Course(np.where(np.isinf(times), np.nan, times))
        flow.velocity.fit(gone)
    return Course(times)


def at_once(model: DeclaredModel, row: Row) -> np.ndarray:
    """Which directions a row has found where it begins, (P,) bool."""
    eigenvalues = np.asarray(model.inputs.eigenvalues)
    sizes = float(eigenvalues @ row.gram[:, 0, 0]) * np.diag(model.directions.covariance)
    return (eigenvalues @ row.overlap[:, 0]) ** 2 >= FOUND * sizes


def _reaches(place: int, level: float) -> Callable[[float, np.ndarray], float]:
    """A number of the state comes to a level, and the run ends."""

    def event(clock: float, y: np.ndarray) -> float:
        return float(y[place]) - level

    event.terminal, event.direction = True, 1  # type: ignore[attr-defined]
    return event


def _found_event(flow: "_Lone", p: int) -> Callable[[float, np.ndarray], float]:
    """`_event` of a state that ends with the time."""
    found = _event(flow, p, "found")

    def event(clock: float, y: np.ndarray) -> float:
        return found(clock, y[:-1])

    event.direction = 1  # type: ignore[attr-defined]
    return event


def _event(flow: "_Lone", p: int, name: str) -> Callable[[float, np.ndarray], float]:
    """The measure of this name turns positive; to be found, or to begin to be fitted, does not end the run."""

    def event(time: float, y: np.ndarray) -> float:
        return flow.measures(y, p)[name]

    event.terminal, event.direction = name not in ("found", "begun"), 1  # type: ignore[attr-defined]
    return event


class _Velocity(Rates):
    """The flow of labels' mean; along directions that are fitted rows rest, and do not move."""

    def __init__(self, model: DeclaredModel) -> None:
        if model.student.trained:
            raise InputError("the second layer is trained: rows by themselves have no flow; run declared-flow")
        self.model = of_mean_labels(model)
        super().__init__(self.model)
        self.resting: dict[int, float] = {}

    def fit(self, direction: int) -> None:
        """From here on a row $s w_p$ rests along a direction."""
        if direction >= 0:
            self.resting[direction] = _rest(self.model, direction)[1]
            self._given["b"] = np.append(self._given["b"], self.model.student.second[0])

    def __call__(self, overlap: np.ndarray, gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of the rows that move."""
        if not self.resting:
            return super().__call__(overlap, gram)
        places, sizes, count = list(self.resting), np.array(list(self.resting.values())), overlap.shape[1]
        along = sizes[:, None] * self.model.directions.grams[:, places]
        cross = sizes * overlap[:, :, places]
        whole = np.block([[gram, cross], [cross.transpose(0, 2, 1), along[:, :, places] * sizes]])
        turned, grown = super().__call__(np.concatenate([overlap, along], axis=1), whole)
        return turned[:, :count], grown[:, :count, :count]

    def growth(self, overlap: np.ndarray, gram: np.ndarray) -> np.ndarray:
        """Logarithmic growth of all squared correlations with the directions, (m, P)."""
        at, moved = (self.fields(*x) for x in ((overlap, gram), self(overlap, gram)))
        return 2 * moved[0] / at[0] - (np.diag(moved[1]) / np.diag(at[1]))[:, None]


def pulls(model: DeclaredModel, start: Start, row: int, p: int) -> np.ndarray:
    """By which share each of the other rows changes the growth of a row's correlation with direction p, at the start, (m,).

    One by one: those of both signs may cancel there, and not later.
    """
    own, overlaps, grams = Row.of(model, start, row), start.overlaps(model.directions), start.grams
    alone_ = _Velocity(_of_rows(model, own)).growth(own.overlap, own.gram)[0, p]
    found = np.zeros(start.width)
    for other in range(start.width):
        if other != row:
            two, second = [row, other], model.student.second
            student = replace(model.student, width=2, second=(second[row], second[other]))
            both = _Velocity(replace(model, student=student)).growth(overlaps[:, two], grams[:, two][:, :, two])[0, p]
            found[other] = abs(both / alone_ - 1)
    return found


def risen(model: DeclaredModel, start: Start, time: float) -> np.ndarray:
    r"""The mean norm of each row in a wait over that at the start, (m,): it finds nothing, $\dot r=gr-br^2$, and
    $\frac1T\int_0^Tr\,dt=\ln(1+br_0\int_0^Te^{gt}dt)/(bT)$. g, by a mean and by decay, is its growth without mass; b, of
    itself and of the mean that rows fit together, is that of rows that begin no heavier than it: ratios of norms tend to 1, so
    that it is at most as heavy. At T = 0 that is 1, and g/b (0 where it shrinks) as T → ∞, on one side of it all along.
    """
    found = np.ones(start.width)
    for k, (light, repelled) in enumerate(_growths(model, start)):
        if repelled > 0 and np.isinf(time):
            found[k] = max(light, 0.0) / repelled
        elif repelled > 0 and time > 0:
            found[k] = np.logaddexp(0.0, np.log(repelled) + log_waited(light, time)) / (repelled * time)
    return found


@lru_cache(maxsize=4)
def _growths(model: DeclaredModel, start: Start) -> list[tuple[float, float]]:
    """Of each row g, and b times its squared norm (see `risen`)."""
    found, velocity, squares = [], _Velocity(model), np.einsum("ikk->ik", start.grams)
    sizes, still = squares.sum(axis=0), np.zeros((len(squares), start.width, model.target.count))
    for k, size in enumerate(sizes):
        unit = squares / np.maximum(sizes, size)  # (L, m), rows of no more than its length
        grams = np.einsum("il,lj->ilj", unit, np.eye(start.width))
        heavy, light = (float(velocity(still, x * grams)[1][:, k, k].sum()) / x for x in (1.0, _MASSLESS))
        found.append((light, (light - heavy) * float(size)))
    return found


def _of_rows(model: DeclaredModel, row: Row) -> DeclaredModel:
    """With so many rows."""
    return replace(model, student=replace(model.student, width=len(row.second), second=row.second))


class _Lone(UnitRows):
    """One row's flow, or that of n rows of which the first is followed. level: of the norm at which all is fitted; None:
    once found.
    """

    def __init__(self, model: DeclaredModel, row: Row, level: float | None) -> None:
        model = of_mean_labels(model)
        self.velocity, self.count = _Velocity(_of_rows(model, row)), len(row.second)
        self.variance = np.diag(model.directions.covariance)
        self.student, self.level, self.evaluations = model.student, level, 0
        rest = 2 * level if level is not None and np.isfinite(level) else 0.0
        if self.count > 1:
            rest = max(rest_norm(model, p) for p in range(model.target.count))
        super().__init__(
            row.overlap, row.gram, _MOST_FREE if level is None else np.log(_BEYOND * np.maximum(rest / row.sizes, 1.0))
        )

    def measures(self, y: np.ndarray, p: int) -> dict[str, float]:
        """Positive once direction p is found, or fitted, or another one that is on is found; by the first row."""
        overlap, gram = self.split(y)
        X, C = self.velocity.fields(overlap, gram)
        squared = X[0] ** 2 / (C[0, 0] * self.variance)
        others = np.delete(squared, [p, *self.velocity.resting])
        found = float(squared[p]) - FOUND
        elsewhere = float(np.max(others, initial=0.0)) - FOUND
        if self.level is None:
            return {"found": found, "fitted": found, "begun": found, "elsewhere": elsewhere}
        norm2 = _norm2(self.student, C, gram) * float(squared[p])
        begun = norm2 - 2 * self.level / _TWENTIETH
        return {"found": found, "fitted": norm2 - self.level, "begun": begun, "elsewhere": elsewhere}

    def rate(self, time: float, y: np.ndarray) -> np.ndarray:
        self.evaluations += 1
        if self.evaluations > max(_MOST, _MOST_EACH * y.size) or not np.all(np.isfinite(y)):
            raise OverflowError
        with np.errstate(all="ignore"):  # a trial step may leave the positive; what is not finite ends the run
            overlap, gram = self.split(y)
            return self.moved(overlap, gram, *self.velocity(overlap, gram))
