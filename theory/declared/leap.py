r"""Leaps of a target of several directions: how many overlaps still at $d^{-1/2}$ a row must raise at once.

A row climbs what it sees of the target, bΦ (`theory.declared.seen`). Where it rests, at u, which is 0 at the start, small
overlaps y with what it has not found have $\dot y=\nabla F(y)-\lambda y$, F the leading form, of degree ℓ, of bΦ(u + y), and
$\lambda=u\cdot\nabla b\Phi(u)$ the pull of the sphere. They grow

* for ℓ = 1 in any case, in the flow time 1;
* for ℓ = 2 if the largest eigenvalue of F's Hessian is above λ, in the time ln d;
* for ℓ ≥ 3 if λ = 0, as at the start, and F is positive somewhere, in the time $d^{(\ell-2)/2}$ (derived),

and SGD needs $d^{(\ell-1)\vee1}$ samples (arXiv:2302.11055). Rows for which F is negative shrink, and are left to the next
form in what F does not see. Overlaps x that degree 2 drives back follow what it does not move, to where $\nabla_xb\Phi=0$,
$x=O(y^2)$: F is a form of $b\Phi(x(y)+y)$ (`_Bent`), so that beside $-h_2(z_1)$ a term $z_1z_2z_3$ leaps by 4. Then the row
climbs on in the span of what it has found; a slope out of it on the way is a leap of size 1. Nothing of this knows of
coordinates. Rows go to each local maximum that a search finds, in the limit of $d\to\infty$: of overlaps that shrink or grow
before their own leap the power of d is taken as if they had stood still.

Under the square loss rows share what they have found: what they fit pulls none of them back, and those that have found nothing
see the rest (`shared`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from theory.core import streams
from theory.core.activation import Activation
from theory.declared.seen import Seen, climb, seen_terms
from theory.declared.target import Additive, Polynomial

REFERENCE = "derived; leaps: arXiv:2302.11055"
#: Size of an overlap at which a row that leaps is followed, and where others follow; parts of the largest slope that are none,
#: at 0 and elsewhere.
_BEGIN, _FAR, _EXACT, _NONE = 0.05, 0.3, 1e-13, 1e-7
#: Cosine with a direction, and part of a new one outside those known, that are rounding.
_ROUNDING = 1e-5
#: Rows nearer to each other than this rest at one place; vectors of those that are held alike, of which some are looked at.
_SAME, _WAYS = 1e-3, 64
#: Searches in a row that find no further maximum of a form, their steps, their pull to unit length in units of the slope, the
#: turn from symmetric starts; most rests.
_SEARCHES, _LONG, _HOLD, _TURN, _MOST = 10, 0.1, 10.0, 1e-2, 1000


@dataclass(frozen=True)
class Leap:
    """Attributes: size: ℓ. found: directions, from 0, that no leap before has an overlap with."""

    size: int
    found: tuple[int, ...]

    @property
    def time_power(self) -> float:
        """Flow time in powers of d; 0 for ℓ = 2 too, where it is ln d."""
        return max(0.0, (self.size - 2) / 2)

    @property
    def sample_power(self) -> int:
        """Samples of plain SGD in powers of d, up to a logarithm at ℓ = 2."""
        return max(1, self.size - 1)


@dataclass(frozen=True)
class Staircase:
    """Attributes: leaps: in the order in which they are made. rests: overlaps (n, P) of rows that make no further one.
    lead: the least of the leaps', and of what keeps rows from one. leak: share of the largest slope on a row's way that the
    weakest slope is that leads it out of what it has found.
    """

    leaps: tuple[Leap, ...]
    rests: np.ndarray
    lead: float = 1.0
    leak: float = 1.0

    @property
    def size(self) -> int:
        """The largest leap; 0 if there is none."""
        return max((one.size for one in self.leaps), default=0)

    @property
    def found(self) -> tuple[int, ...]:
        """Directions, from 0, that some row has an overlap with."""
        return tuple(sorted(q for one in self.leaps for q in one.found))

    @property
    def rows(self) -> int:
        """Rows that it takes to have an overlap with all of `found` at rest: each next one with the most that are left."""
        left, count = np.abs(self.rests[:, list(self.found)]) > _ROUNDING, 0
        while left.any():
            left = left & ~left[np.argmax(left.sum(axis=1))]
            count += 1
        return count


@dataclass(frozen=True)
class _Step:
    """One leap of a row: its size, the largest up to it, the unit vector that it finds, and `Staircase`'s lead and leak."""

    size: int
    largest: int
    vector: np.ndarray
    lead: float = 1.0
    leak: float = 1.0


@dataclass
class _Row:
    """Where a row rests, an orthonormal basis (P, n) of what it has found on the way, and its leaps."""

    at: np.ndarray
    known: np.ndarray
    steps: tuple[_Step, ...] = ()


def leaps(
    target: Additive | Polynomial,
    activation: Activation,
    signs: Sequence[float] = (1.0,),
    shared: bool = False,
    weakest: float = 0.0,
) -> Staircase:
    """All leaps that rows make.

    Args:
        signs: of the second layer. shared: rows share what they have found, and are not pulled back by it.
        weakest: `Staircase.leak` that counts.
    """
    terms = seen_terms(target, activation)
    if not terms or not len(signs):
        return Staircase((), np.zeros((0, target.count)))
    degrees, factors = np.array(list(terms), dtype=int), np.array(list(terms.values()))
    seen = [Seen(degrees, sign * factors) for sign in signs]
    return _shared(seen, weakest) if shared else _alone(seen, weakest)


def fits(target: Additive | Polynomial, activation: Activation, rests: np.ndarray) -> bool:
    r"""Whether rows at `rests` $u_j$, (n, P), are what is seen, of norms $r_j\ge0$: $\Phi(t)=\sum_jr_j\varphi(u_j\cdot t)$."""
    terms = seen_terms(target, activation)
    if not len(rests) or not terms:
        return False
    points = streams.stream(0, "points of a fit").standard_normal((4 * len(rests) + 40, target.count))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    wanted = Seen(np.array(list(terms), dtype=int), np.array(list(terms.values()))).value(points)
    rows = sum(float(value) ** 2 * (points @ rests.T) ** k for k, value in activation.coefficients.items() if k)
    left = scipy.optimize.nnls(rows, wanted)[1]
    return bool(left < _ROUNDING * np.linalg.norm(wanted))


# ------------------------------------------------------------------------------ rows alone


def _alone(seen: list[Seen], weakest: float) -> Staircase:
    """Each row by itself, from 0 to where it makes no further leap."""
    steps, rests, lead = list[_Step](), list[np.ndarray](), 1.0
    for one in seen:
        count = one.count
        rows = [_Row(np.zeros(count), np.zeros((count, 0)))]
        for _ in range(_MOST):
            if not rows:
                break
            row = rows.pop()
            next_, kept = _next(one, row, row.known, True, weakest)
            lead = min(lead, kept)
            rows += next_
            steps += [step for after in next_ for step in after.steps[len(row.steps) :]]
            if not next_ and row.at.any():
                rests.append(row.at)
    steps.sort(key=lambda step: step.largest)
    return _staircase(steps, rests, lead)


def _staircase(steps: list[_Step], rests: list[np.ndarray], lead: float) -> Staircase:
    """Steps that find what none before has, and the directions that they are the first to have an overlap with."""
    count = len(rests[0]) if rests else 0
    known, names, made = np.zeros((count, 0)), set[int](), list[Leap]()
    for step in steps:
        if (grown := _with(known, step.vector)).shape == known.shape:
            continue
        known = grown
        new = tuple(q for q in np.flatnonzero(np.abs(step.vector) > _ROUNDING).tolist() if q not in names)
        names.update(new)
        made.append(Leap(step.size, new))
    least, leak = min([lead, *(one.lead for one in steps)]), min([1.0, *(one.leak for one in steps)])
    return Staircase(tuple(made), np.array(rests).reshape(len(rests), count), least, leak)


# ---------------------------------------------------------------------- rows that share


def _shared(seen: list[Seen], weakest: float) -> Staircase:
    """From 0 and from where rows rest, the least leap next, into what no row has found."""
    count = seen[0].count
    known, steps = np.zeros((count, 0)), list[_Step]()
    rows = [(one, _Row(np.zeros(count), np.zeros((count, 0)))) for one in seen]
    for _ in range(count):
        # (Forms of degree 3 and more are dear, and not asked where a smaller leap is made.)
        for higher in (False, True):
            after = [(one, row) for one, row in rows for row in _next(one, row, known, False, weakest, higher)[0]]
            if after:
                break
        made = [(row.steps[-1].largest if row.steps else 0, one, row) for one, row in after]
        if not made:
            break
        least = min(size for size, _, _ in made)
        for size, one, row in made:
            if size == least:
                if all(other is not one or np.linalg.norm(x.at - row.at) > _SAME for other, x in rows):
                    rows.append((one, _Row(row.at, row.known)))
                steps += row.steps
                for step in row.steps:
                    known = _with(known, step.vector)
    return _staircase(steps, [row.at for _, row in rows if row.at.any()], 1.0)


# ------------------------------------------------------------------------------ one leap


def _next(
    seen: Seen, row: _Row, away: np.ndarray, pulled: bool, weakest: float, higher: bool = True
) -> tuple[list[_Row], float]:
    """Rows after the next leap out of `away`, of 3 or more if `higher`, and `Staircase.lead` of what keeps it from one."""
    u = row.at
    pull = float(u @ seen.slope(u)) if pulled else 0.0
    largest = max((step.largest for step in row.steps), default=0)
    grown, least = _grows(seen, u, _outside(away), pull, higher)
    found = []
    for size, vector, kept in grown:
        step = _Step(size, max(largest, size), vector, kept)
        known = _with(row.known, vector)
        found.append(_settled(seen, _Row(u, known, (*row.steps, step)), vector, away, weakest))
    return found, least


def _grows(
    seen: Seen, u: np.ndarray, basis: np.ndarray, pull: float, higher: bool
) -> tuple[list[tuple[int, np.ndarray, float]], float]:
    """Sizes, unit vectors and leads of the leaps at u, in the span of a basis (P, n), and the lead of what keeps it there."""
    small = (_NONE if u.any() else _EXACT) * seen.size
    first = basis.T @ seen.slope(u)
    if first.size and np.linalg.norm(first) > small:
        vector = basis @ first / np.linalg.norm(first)
        return [(1, vector, _lead(seen.orders(u, vector), 1, pull))], 1.0
    if not basis.size:
        return [], 1.0
    values, vectors = np.linalg.eigh(basis.T @ seen.form_slope(u, 2, basis.T).T)
    over = values - pull
    rng = streams.stream(0, "rows of a leap")
    if over[-1] > small:
        # (A row grows along what it starts with of all that are the fastest.)
        fastest = basis @ vectors[:, values > values[-1] - _ROUNDING * seen.size]
        vector = fastest @ rng.standard_normal(fastest.shape[1])
        vector /= np.linalg.norm(vector)
        ways = [way * vector for way in _ways(seen, u)]
        return [(2, way, _lead(seen.orders(u, way), 2, pull)) for way in ways], 1.0
    if pull > small:
        # (Where several are held alike, the one that a later order helps most is as good as not known.)
        alike = basis @ vectors[:, values > values[-1] - _ROUNDING * seen.size]
        ways = rng.standard_normal((1 if alike.shape[1] == 1 else _WAYS, alike.shape[1])) @ alike.T
        return [], _kept(seen, u, ways / np.linalg.norm(ways, axis=1)[:, None], float(over[-1]), small, pull)
    still, back = np.abs(over) <= small, over < -small
    if not higher:
        return [], 1.0
    # (At rest elsewhere what a row has found would follow, too.)
    bent = seen if u.any() or not back.any() else _Bent(seen, basis @ vectors[:, back], values[back])
    made = _higher(bent, u, basis @ vectors[:, still], rng)
    return [(k, bent.along(y), _lead(bent.orders(u, y), k, pull)) for k, y in made], 1.0


class _Bent(Seen):
    r"""bΦ(x(y) + y) at 0, of y that its degrees 1 and 2 do not move and x in a basis (P, n) of what degree 2, of eigenvalues
    `rates`, drives back to where $\nabla_xb\Phi=0$. Its slope in y is that of bΦ there.
    """

    def __init__(self, seen: Seen, back: np.ndarray, rates: np.ndarray) -> None:
        super().__init__(seen.degrees, seen.factors)
        # (The last is the square of the last term with one factor that is driven back.)
        self._seen, self._back, self._rates, self.degree = seen, back, rates, max(seen.degree, 2 * seen.degree - 2)

    def _path(self, y: np.ndarray, last: int) -> np.ndarray:
        r"""Powers 0 … last of ε in $x(\varepsilon y)+\varepsilon y$, (last + 1, …, P)."""
        path = np.zeros((last + 1, *y.shape))
        path[1] = y
        for k in range(2, last + 1):
            path[k] -= (self._powers_of_slope(path[:k], k) @ self._back / self._rates) @ self._back.T
        return path

    def _powers_of_slope(self, path: np.ndarray, k: int) -> np.ndarray:
        r"""Power k of ε in $\nabla b\Phi$ along a path that is a polynomial in ε, by as many roots of one as it has powers."""
        count = (len(path) - 1) * (self._seen.degree - 1) + k + 1
        roots = np.exp(2j * np.pi * np.arange(count) / count)
        slopes = self._seen.slope(np.tensordot(roots[:, None] ** np.arange(len(path)), path, 1))
        return np.asarray(np.tensordot(roots**-k, slopes, 1).real / count)

    def form_slope(self, u: np.ndarray, k: int, y: np.ndarray) -> np.ndarray:
        """`Seen.form_slope`, at u = 0."""
        return self._powers_of_slope(self._path(y, max(k - 1, 1)), k - 1)

    def along(self, y: np.ndarray) -> np.ndarray:
        """To where a row that leaps is followed from, over `_BEGIN`: farther away, as the ridge is narrow where y is small."""
        return np.asarray(np.tensordot(_FAR ** np.arange(self.degree), self._path(y, self.degree - 1), 1) / _BEGIN)


def _higher(seen: Seen, u: np.ndarray, basis: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[int, np.ndarray]]:
    """Of what no form of degree 1 or 2 moves: maxima of the next form, and on to what it does not see if rows shrink by it."""
    for k in range(3, seen.degree + 1):
        if not basis.size:
            return
        points = rng.standard_normal((2 * seen.count, basis.shape[1])) @ basis.T
        slopes = seen.form_slope(u, k, points / np.linalg.norm(points, axis=1, keepdims=True)) @ basis
        small = (_NONE if u.any() else _EXACT) * seen.size
        _, sizes, turned = np.linalg.svd(slopes, full_matrices=True)
        rank = int(np.sum(sizes > max(small, 1e-9 * sizes[0])))
        if not rank:
            continue
        essential, basis = basis @ turned[:rank].T, basis @ turned[rank:].T
        maxima, all_grow = _maxima(seen, u, k, essential, rng)
        yield from ((k, vector) for vector in maxima)
        if all_grow:
            return


def _maxima(
    seen: Seen, u: np.ndarray, k: int, basis: np.ndarray, rng: np.random.Generator
) -> tuple[list[np.ndarray], bool]:
    """Unit vectors at which the form of degree k has a positive local maximum, and whether every search ended at one."""
    found, spanned, all_grow = list[np.ndarray](), np.zeros((basis.shape[1], 0)), True

    def slope(y: np.ndarray) -> np.ndarray:
        return np.asarray(seen.form_slope(u, k, y @ basis.T) @ basis)

    size = float(max(np.abs(slope(y / np.linalg.norm(y))).max() for y in rng.standard_normal((8, basis.shape[1]))))

    def held(y: np.ndarray) -> np.ndarray:
        """At unit length, where the form is negative, too."""
        return np.asarray(slope(y) + _HOLD * size * y)

    search, last = 0, 0  # the last that found one
    while search < max(basis.shape[1], last + _SEARCHES):
        # First in what the maxima so far do not span, but for a turn: where terms are apart each search finds another.
        left = _outside(spanned) if search < basis.shape[1] else np.eye(basis.shape[1])
        left = left if left.size else np.eye(basis.shape[1])
        start = left @ rng.standard_normal(left.shape[1])
        start = start / np.linalg.norm(start) + _TURN * rng.standard_normal(len(start)) / len(start) ** 0.5
        y = climb(held, start / np.linalg.norm(start), _LONG)[-1]
        y /= np.linalg.norm(y)
        search += 1
        if y @ slope(y) <= _ROUNDING * size:
            all_grow = False
            continue
        ways = _ways(seen, u) if k % 2 == 0 else (1,)
        for one in (way * y for way in ways):
            # (Of an even function a maximum and its mirror image are one.)
            cosines = np.array(found).reshape(-1, len(y)) @ one
            if np.all((np.abs(cosines) if k % 2 == 0 and len(ways) == 1 else cosines) < 1 - _ROUNDING):
                found.append(one)
                last = search
        spanned = _with(spanned, y)
    return [basis @ y for y in found], all_grow


def _ways(seen: Seen, u: np.ndarray) -> tuple[int, ...]:
    """Of a form of even degree: both, but for a row at 0 of a function that is even."""
    return (1, -1) if u.any() or np.any(seen.degrees.sum(axis=1) % 2) else (1,)


def _settled(seen: Seen, row: _Row, vector: np.ndarray, away: np.ndarray, weakest: float) -> _Row:
    """The row at rest in the span of what it knows, with leaps of size 1 on the way there out of that and `away`."""
    u, known, steps = row.at, row.known, row.steps
    while True:
        inside = known.T @ u

        def slope(c: np.ndarray, known: np.ndarray = known) -> np.ndarray:
            return np.asarray(seen.slope(c @ known.T) @ known)

        start = inside + _BEGIN * known.T @ vector
        way = climb(slope, start / max(1.0, float(np.linalg.norm(start))), origin=inside)
        slopes = seen.slope(way @ known.T)
        out = slopes - (slopes @ (span := _joined(known, away))) @ span.T
        sizes = np.linalg.norm(out, axis=1)
        last = int(np.argmax(sizes))
        share = float(sizes[last] / np.linalg.norm(slopes, axis=1).max())
        if span.shape[1] == seen.count or sizes[last] <= _NONE * seen.size or share < weakest:
            return _Row(known @ way[-1], known, steps)
        leak = out[last] / sizes[last]
        steps = (*steps, _Step(1, steps[-1].largest, leak, leak=share))
        known = _with(known, leak)


def _lead(orders: np.ndarray, size: int, pull: float) -> float:
    r"""Overlap at which a later form, of `Seen.orders`, is as large as the leading one, $\min_k(c_\ell/c_k)^{1/(k-\ell)}$; at
    most 1.
    """
    orders = np.pad(orders, (0, 3))
    if size == 2:
        orders[1] -= pull
        orders[3] = abs(orders[3]) + pull  # (the next order of the sphere itself)
    orders = np.abs(orders)
    later = np.arange(size, len(orders))
    with np.errstate(divide="ignore"):
        return float(np.min((orders[size - 1] / orders[later]) ** (1 / (later - size + 1)), initial=1.0))


def _kept(seen: Seen, u: np.ndarray, ways: np.ndarray, over: float, small: float, pull: float) -> float:
    """The least `Staircase.lead` of what keeps a row from growing along unit vectors; 0 if nothing does, and a later order
    lets it.
    """
    if abs(over) > small:
        return min(_lead(seen.orders(u, vector), 2, pull) for vector in ways)
    start = u + _BEGIN * ways[0]
    way = climb(seen.slope, start / np.linalg.norm(start))
    return 0.0 if way[-1] @ u < 1 - _BEGIN**2 else 1.0


# ------------------------------------------------------------------------------- subspaces


def _with(known: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """An orthonormal basis (P, n), and what is new of a unit vector, if anything is."""
    new = vector - known @ (known.T @ vector)
    if np.linalg.norm(new) <= _ROUNDING:
        return known
    new = new / np.linalg.norm(new)
    new = new - known @ (known.T @ new)
    return np.column_stack([known, new / np.linalg.norm(new)])


def _joined(known: np.ndarray, others: np.ndarray) -> np.ndarray:
    for vector in others.T:
        known = _with(known, vector)
    return known


def _outside(known: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the complement."""
    return np.asarray(scipy.linalg.null_space(known.T)) if known.shape[1] else np.eye(len(known))
