r"""Double sums over a frame of teachers and students, at matrix-product speed.

The finite-step terms are sums over pairs A, B of the frame (`theory.finite_step`),

$$\sum_{A,B}w_Aw_B\,C_{AB}^{n_1}C_{Ak}^{n_2}C_{Al}^{n_3}C_{Bk}^{n_4}C_{Bl}^{n_5}\times\text{(factors of k and l)}.$$

They are read off the derived `System` and sorted by how A and B hang together:

* $n_1=0$: the sum factors, $X_{n_2n_3}[k,l]\,X_{n_4n_5}[k,l]$ with matrix products $X_{ab}=\sum_Aw_AC_{Ak}^aC_{Al}^b$;
* one side sees k only: $Y=C^{n_1}(wC_{\cdot k}^{n_2})$ is a matrix, and so is $(wC_{\cdot k}^{n_4}Y)^\top C_{\cdot l}^{n_5}$;
* both sides see both: a pair-indexed product $C_{Ak}^{n_2}C_{Al}^{n_3}$ times the matrix $C^{n_1}$, in chunks of k.

Only the last costs $m^2(m+P)m$; teachers are orthonormal, so that their block of C is the identity and needs no product.
What differs by exchanging A and B, or (for two students) k and l, is computed once.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce

import jax
import jax.numpy as jnp
import sympy as sp

from dynamics.core.lowering import Arrays, elementwise
from theory.core.contractions import Factor
from theory.core.frame import A, B, gram, w
from theory.core.indexed import Sums, Term, free_indices, j, k, q

#: Elements of a pair-indexed chunk: small enough for a core's cache.
_CHUNK = 2**16
#: More chunks than this are a loop rather than unrolled code.
_UNROLLED = 16
Powers = tuple[int, int]


@dataclass(frozen=True)
class Monomial:
    """Exponents of one term: of C_AB, of (C_Ak, C_Al), of (C_Bk, C_Bl); and its factors of k and l alone."""

    joined: int
    first: Powers
    second: Powers
    outer: sp.Expr

    @property
    def ordered(self) -> "Monomial":
        """The same sum with A and B exchanged if that puts the larger pair first."""
        first, second = sorted((self.first, self.second), reverse=True)
        return Monomial(self.joined, first, second, self.outer)

    @property
    def mirrored(self) -> "Monomial":
        """k and l exchanged."""
        return Monomial(self.joined, self.first[::-1], self.second[::-1], _mirror(self.outer)).ordered


@lru_cache(maxsize=1024)
def _mirror(outer: sp.Expr) -> sp.Expr:
    """Exchange the two students; their correlation is symmetric and stays as it is written."""
    correlations = {x: x for x in outer.atoms(sp.Indexed) if len(x.indices) == 2}
    return outer.xreplace({k: j, j: k, **correlations})


def is_frame_term(term: Term) -> bool:
    """Whether a term is a double sum over the frame."""
    return set(term.bound) == {A, B}


def _parse(term: Term) -> tuple[Monomial, sp.Expr]:
    """A frame term's exponents and its coefficient (an expression in scalar parameters)."""
    powers: dict[tuple[sp.Symbol, ...], int] = defaultdict(int)
    coefficient, outer = sp.Integer(1), sp.Integer(1)
    for factor in sp.Mul.make_args(term.body):
        base, power = factor.as_base_exp()
        if isinstance(base, sp.Indexed) and base.base == gram:
            powers[base.indices] += int(power)
        elif isinstance(base, sp.Indexed) and base.base == w:
            if power != 1:
                raise TypeError(f"cannot lower {term.body}: one weight for each neuron of the frame was expected")
        elif free_indices(factor):
            outer *= factor
        else:
            coefficient *= factor
    second = next((x for x in (j, q) if any(x in pair for pair in powers)), j)
    first, other = ((powers.get((x, k), 0), powers.get((x, second), 0)) for x in (A, B))
    monomial = Monomial(powers.get((A, B), 0), first, other, outer)
    return monomial.ordered, coefficient


class FrameSums:
    """One component's frame terms as a function of the state.

    ``total(state, scalars)`` takes t (m, P), c (m, m), r (m,), a (P,) and the system's scalar parameters. Raises
    `TypeError` for a weight to another power than 1, and for a term with both sides on its direction.
    """

    def __init__(self, component: sp.Indexed, sums: Sums) -> None:
        self.component = component
        self._letters = tuple(component.indices)
        found: dict[Monomial, list[sp.Expr]] = defaultdict(list)
        for term in sums:
            monomial, coefficient = _parse(term)
            found[monomial].append(coefficient)
        full = {monomial: sp.expand(sp.Add(*values)) for monomial, values in found.items()}
        self._between_students = self._letters == (k, j)
        self.symmetric = self._between_students and all(
            full.get(monomial.mirrored) == value for monomial, value in full.items()
        )
        self._entries = _halved(full) if self.symmetric else full
        self._scalars = sorted({x for value in self._entries.values() for x in value.free_symbols}, key=str)
        self._coefficients = sp.lambdify(self._scalars, list(self._entries.values()), "jax", cse=True)

    @cached_property
    def _sorted(self) -> tuple[list[tuple[int, Monomial]], list[tuple[int, Monomial]], list[tuple[int, Monomial]]]:
        """Entries (with their places) by kind: factored, one-sided, pair-indexed."""
        factored, one_sided, paired = [], [], []
        for place, monomial in enumerate(self._entries):
            if 0 in monomial.first or 0 in monomial.second:
                one_sided.append((place, monomial))
            elif monomial.joined == 0:
                factored.append((place, monomial))
            else:
                paired.append((place, monomial))
        return factored, one_sided, paired

    def total(self, state: Arrays, scalars: Arrays) -> jax.Array:
        """The sum of all terms, with the shape of the component."""
        frame = _Frame(state, self._letters)
        coefficients = self._coefficients(*[scalars[x.name] for x in self._scalars])
        ahead, behind = _Accumulator(frame), _Accumulator(frame)
        factored, one_sided, paired = self._sorted
        for place, monomial in factored:
            value = frame.crossed(monomial.first) * frame.crossed(monomial.second)
            ahead.add(monomial.outer, coefficients[place] * value)
        self._one_sided([(coefficients[place], monomial) for place, monomial in one_sided], frame, ahead, behind)
        if paired:
            pairs = [(coefficients[place], monomial) for place, monomial in paired]
            _Paired(frame, pairs, self.symmetric).into(ahead, behind)
        result = ahead.total()
        if behind.used:
            result = result + behind.total().T
        return result + result.T if self.symmetric else result

    def _one_sided(
        self, entries: list[tuple[jax.Array, Monomial]], frame: "_Frame", ahead: "_Accumulator", behind: "_Accumulator"
    ) -> None:
        """Terms of which one side does not see both k and l."""
        left: dict[tuple[bool, sp.Expr, int], list[tuple[jax.Array, ...]]] = defaultdict(list)
        for coefficient, monomial in entries:
            turned, (near, far) = False, (monomial.first, monomial.second)
            if near[1] and far[1]:  # the one-sided factor sees l only: exchange k and l
                if not self._between_students:
                    raise TypeError(f"cannot lower a term of {self.component} with both sides on its direction")
                turned, near, far = True, near[::-1], far[::-1]
            if near[1]:
                near, far = far, near
            outer = _mirror(monomial.outer) if turned else monomial.outer
            blocks = frame.reached(monomial.joined, near[0])
            weighted = tuple(coefficient * x * y for x, y in zip(frame.powers(far[0]), blocks, strict=True))
            left[turned, outer, far[1]].append(weighted)
        for (turned, outer, power), parts in left.items():
            summed = tuple(reduce(jnp.add, (part[side] for part in parts)) for side in range(2))
            (behind if turned else ahead).add(outer, frame.closed(summed, power))


def _halved(full: dict[Monomial, sp.Expr]) -> dict[Monomial, sp.Expr]:
    """One of each mirrored pair; a term that is its own mirror image counts half (the transpose is added later)."""
    half: dict[Monomial, sp.Expr] = {}
    for monomial, value in full.items():
        if monomial.mirrored == monomial:
            half[monomial] = value / 2
        elif monomial.mirrored not in half:
            half[monomial] = value
    return half


class _Frame:
    """Weights and correlations of the frame, in blocks (teachers, students); everything is computed once."""

    def __init__(self, state: Arrays, letters: tuple[sp.Symbol, ...]) -> None:
        self.state = state
        self.letters = letters
        self.t, self.c, self.r, self.a = (state[name] for name in "tcra")
        self.weights = (-self.a, self.r)
        self.to_direction = letters == (k, q)
        self._cache: dict[object, object] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        sizes = {k: self.r.size, j: self.r.size, q: self.a.size}
        return tuple(sizes[x] for x in self.letters)

    def power(self, name: str, n: int) -> jax.Array:
        """Elementwise power of t or c, by repeated multiplication."""
        if (name, n) not in self._cache:
            base = self.state[name]
            value = jnp.ones_like(base) if n == 0 else base if n == 1 else self.power(name, n - 1) * base
            self._cache[name, n] = value
        return self._cache[name, n]  # type: ignore[return-value]

    def powers(self, n: int) -> tuple[jax.Array, jax.Array]:
        """C_{Ak}^n for teachers (P, m) and students (m, m)."""
        return self.power("t", n).T, self.power("c", n)

    def reached(self, joined: int, n: int) -> tuple[jax.Array, jax.Array]:
        """Σ_A C_BA^joined w_A C_Ak^n for B a teacher (P or 1, m) and a student (m or 1, m)."""
        key = ("reached", joined, n)
        if key not in self._cache:
            teachers, students = (x[:, None] * y for x, y in zip(self.weights, self.powers(n), strict=True))
            if joined == 0:
                total = (jnp.sum(teachers, axis=0) + jnp.sum(students, axis=0))[None, :]
                self._cache[key] = (total, total)
            else:
                t, c = self.power("t", joined), self.power("c", joined)
                self._cache[key] = (teachers + t.T @ students, t @ teachers + c @ students)
        return self._cache[key]  # type: ignore[return-value]

    def closed(self, left: tuple[jax.Array, ...], power: int) -> jax.Array:
        """Σ_B w_B left_Bk C_Bl^power, shape (m, 1) where l does not occur."""
        teachers, students = (x[:, None] * y for x, y in zip(self.weights, left, strict=True))
        if power == 0:
            return (jnp.sum(teachers, axis=0) + jnp.sum(students, axis=0))[:, None]
        if self.to_direction:  # teachers are orthonormal: their overlaps with a direction pick it
            return teachers.T + students.T @ self.power("t", power)
        return teachers.T @ self.power("t", power).T + students.T @ self.power("c", power)

    def crossed(self, powers: Powers) -> jax.Array:
        """X_ab[k, l] = Σ_A w_A C_Ak^a C_Al^b."""
        key = ("crossed", powers)
        if key not in self._cache:
            if powers[0] < powers[1] and not self.to_direction:
                return self.crossed(powers[::-1]).T
            self._cache[key] = self.closed(self.powers(powers[0]), powers[1])
        return self._cache[key]  # type: ignore[return-value]

    def outer(self, body: sp.Expr) -> jax.Array:
        """Factors of k and l alone, as an array that broadcasts against the component's (…, 1 for a missing letter)."""
        letters = tuple(x for x in self.letters if x in free_indices(body))
        value = elementwise(Factor(body, letters), self.state)
        return value.reshape([n if x in letters else 1 for n, x in zip(self.shape, self.letters, strict=True)])


class _Accumulator:
    """Sums grouped by their outer factors."""

    def __init__(self, frame: _Frame) -> None:
        self._frame = frame
        self._parts: dict[sp.Expr, list[jax.Array]] = defaultdict(list)

    @property
    def used(self) -> bool:
        return bool(self._parts)

    def add(self, outer: sp.Expr, value: jax.Array) -> None:
        self._parts[outer].append(value)

    def total(self) -> jax.Array:
        shape = self._frame.shape
        out = jnp.zeros(shape)
        for outer, parts in self._parts.items():
            value = sum(part[:, 0] if len(shape) == 1 else part for part in parts)
            out = out + self._frame.outer(outer) * value
        return out


class _Paired:
    r"""Terms whose two sides both see k and l: $\sum_{AB}w_Aw_BC_{AB}^{n}X_{A,kl}Y_{B,kl}$, $X=C_{\cdot k}^aC_{\cdot l}^b$.

    With teachers and students apart the sum is $E[X,Y]+E[Y,X]$,
    $E[X,Y]=\tfrac12\sum_pa_p^2X_pY_p+\sum_{l'}Y_{l'}\,(X\,H)_{l'}$, where H stacks $w_pw_{l'}t_{l'p}^n$ over
    $\tfrac12w_{k'}w_{l'}c_{k'l'}^n$. Exchanging k and l transposes, so X is taken with $a\ge b$ only.
    """

    def __init__(self, frame: _Frame, entries: list[tuple[jax.Array, Monomial]], symmetric: bool) -> None:
        self._frame = frame
        #: (joined, X) → (Y, outer, transposed) → coefficient
        self._wanted: dict[tuple[int, Powers], dict[tuple[Powers, sp.Expr, bool], jax.Array]] = defaultdict(dict)
        for coefficient, x in entries:
            for first, second in ((x.first, x.second), (x.second, x.first)):
                turn = first[0] < first[1]
                outer = _mirror(x.outer) if turn else x.outer
                if turn:
                    first, second = first[::-1], second[::-1]
                where = (second, outer, turn and not symmetric)
                row = self._wanted[x.joined, first]
                row[where] = row[where] + coefficient if where in row else coefficient
        self._symmetric = symmetric

    def into(self, ahead: _Accumulator, behind: _Accumulator) -> None:
        for (_, first), row in self._wanted.items():
            for (second, outer, turned), coefficient in row.items():
                teachers = self._teachers(first[0] + second[0], first[1] + second[1])
                (behind if turned else ahead).add(outer, 0.5 * coefficient * teachers)
        for joined in sorted({key[0] for key in self._wanted}):
            rows = {first: row for (n, first), row in self._wanted.items() if n == joined}
            self._contract(joined, rows, ahead, behind)

    def _teachers(self, first: int, second: int) -> jax.Array:
        """Σ_p a_p² t_kp^first t_lp^second."""
        power = self._frame.power
        return (power("t", first) * self._frame.a**2) @ power("t", second).T

    def _matrix(self, joined: int) -> jax.Array:
        """H, shape (P + m, m)."""
        teachers, students = self._frame.weights
        power = self._frame.power
        above = teachers[:, None] * power("t", joined).T * students
        below = 0.5 * students[:, None] * power("c", joined) * students
        return jnp.concatenate([above, below])

    def _contract(
        self,
        joined: int,
        rows: Mapping[Powers, Mapping[tuple[Powers, sp.Expr, bool], jax.Array]],
        ahead: _Accumulator,
        behind: _Accumulator,
    ) -> None:
        """Σ over the frame for one power of C, chunk by chunk of k."""
        matrix = self._matrix(joined)
        degree = max(max(x) for first, row in rows.items() for x in (first, *(key[0] for key in row)))
        power = self._frame.power
        stacked = [jnp.concatenate([power("t", n), power("c", n)], axis=1) for n in range(degree + 1)]
        width, everyone = stacked[0].shape
        known = everyone - width

        def chunk(rows_of: list[jax.Array], columns: slice) -> dict[tuple[Powers, Powers], jax.Array]:
            """E of some rows k against the columns l, one array for each pair of powers."""
            found = {}
            for first, row in rows.items():
                pairs = rows_of[first[0]][:, None, :] * stacked[first[1]][None, columns, :]
                moved = pairs.reshape(-1, everyone) @ matrix
                moved = moved.reshape(*pairs.shape[:2], width)
                for second in {key[0] for key in row}:
                    if second == first:
                        other = pairs[:, :, known:]
                    else:
                        other = rows_of[second[0]][:, None, known:] * stacked[second[1]][None, columns, known:]
                    found[first, second] = jnp.sum(moved * other, axis=2)
            return found

        even = all(x[0] == x[1] for first, row in rows.items() for x in (first, *(key[0] for key in row)))
        results = _in_chunks(chunk, stacked, width, everyone, triangular=even)
        for first, row in rows.items():
            for (second, outer, turned), coefficient in row.items():
                (behind if turned else ahead).add(outer, coefficient * results[first, second])


def _in_chunks(
    chunk: Callable[[list[jax.Array], slice], dict[tuple[Powers, Powers], jax.Array]],
    stacked: list[jax.Array],
    width: int,
    everyone: int,
    triangular: bool,
) -> dict[tuple[Powers, Powers], jax.Array]:
    """All rows of a pair-indexed contraction; if it is symmetric, the lower triangle of chunks is copied."""
    size = max(1, min(width, _CHUNK // (width * everyone)))
    count = -(-width // size)
    if count > _UNROLLED:
        padded = [jnp.pad(x, ((0, count * size - width), (0, 0))).reshape(count, size, everyone) for x in stacked]
        found = jax.lax.map(lambda rows: chunk(rows, slice(None)), padded)
        return {key: value.reshape(count * size, width)[:width] for key, value in found.items()}
    parts = []
    for first in range(0, width, size):
        rows = [x[first : first + size] for x in stacked]
        parts.append((first, chunk(rows, slice(first if triangular else 0, None))))
    results: dict[tuple[Powers, Powers], jax.Array] = {}
    for key in parts[0][1]:
        if not triangular:
            results[key] = jnp.concatenate([part[key] for _, part in parts])
            continue
        upper = jnp.concatenate([jnp.pad(part[key], ((0, 0), (first, 0))) for first, part in parts])
        results[key] = jnp.triu(upper) + jnp.triu(upper, 1).T
    return results
