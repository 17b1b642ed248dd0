r"""Two-layer linear networks on whitened inputs: gradient flow of $f=W_2W_1x$, and where it is solved.

With $\Sigma=E\,yx^\top$ the loss is $\tfrac12\|\Sigma-W_2W_1\|_F^2$ up to a constant. The frame
$Q=\begin{pmatrix}W_1^\top\\W_2\end{pmatrix}$ has a row for each input and output and a column for each hidden unit;
$S=\begin{pmatrix}0&\Sigma^\top\\\Sigma&0\end{pmatrix}$, $J=\mathrm{diag}(I,-I)$. The balance
$\mathcal D=W_2^\top W_2-W_1W_1^\top$ is conserved (arXiv:1312.6120; arXiv:1806.00900), and
$\dot Q=SQ-\tfrac12QQ^\top Q-\tfrac12JQ\mathcal D$. Three cases:

* $Q\mathcal D=\lambda Q$: $P=QQ^\top$ obeys a Riccati equation, which has a closed form (arXiv:2409.14623; λ = 0: Braun et
  al. 2022). As $\mathcal D=\lambda$ on Q's row space, λ > 0 needs Q of rank at most $d_{out}$, λ < 0 at most $d_{in}$.
* any $\mathcal D$: with hidden units turned so that it is diagonal, the matrices $P_j=q_jq_j^\top$ close, but no Riccati
  equation holds for their sum; the mean of $\mathcal D$ in its place is wrong.
* a start aligned with Σ's singular vectors: each mode by itself, its time a closed form.

All equations are derived here, and each is checked against the derivative of the loss by every weight. Time is that of the
gradient flow of $\tfrac12\|\Sigma-W_2W_1\|_F^2$.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
import sympy as sp
from numpy.typing import ArrayLike

from theory.core import matrices
from theory.core.arguments import check_positive, check_whole
from theory.core.derivation import CHECK_DIGITS, Assumption, Derivation, Step, equation
from theory.core.errors import InputError

#: No exponent of a stretch is larger: squares of its exponential are numbers.
_STRETCH = 300.0
REFERENCE = "arXiv:1312.6120 (modes); arXiv:2409.14623 (λ-balanced); groups of hidden units derived here"

_n, _m = sp.symbols("n m", integer=True, positive=True)


def _square(name: str) -> sp.MatrixSymbol:
    return sp.MatrixSymbol(name, _n, _n)


Q, D = sp.MatrixSymbol("Q", _n, _m), sp.MatrixSymbol(r"\mathcal{D}", _m, _m)
S, J, P, P_j = _square("S"), _square("J"), _square("P"), _square("P_{j}")
#: e^{Ft}, ∫₀ᵗ e^{2Fs} ds, P(0) and the identity, in the closed form.
E, Phi, P_0, Id = _square("e^{Ft}"), _square(r"\Phi_{t}"), _square("P_{0}"), sp.Identity(_n)
lam = sp.Symbol("lambda", real=True)
s, sigma, s_0 = sp.symbols("s sigma s_0", positive=True)


def frame_rate() -> sp.MatrixExpr:
    r"""$\dot Q=SQ-\tfrac12QQ^\top Q-\tfrac12JQ\mathcal D$, (n, m)."""
    return S * Q - Q * Q.T * Q / 2 - J * Q * D / 2


def generator(shift: sp.Expr = lam) -> sp.MatrixExpr:
    r"""$F=S-\tfrac\lambda2J$, (n, n)."""
    return S - shift / 2 * J


def product_rate() -> sp.MatrixExpr:
    r"""$\dot P=FP+PF-P^2$ where $Q\mathcal D=\lambda Q$, (n, n)."""
    return generator() * P + P * generator() - P * P


def group_rate() -> sp.MatrixExpr:
    r"""$\dot P_j=F_jP_j+P_jF_j-\tfrac12(PP_j+P_jP)$ for hidden units with $\mathcal D=\lambda_j$, $P=\sum_jP_j$, (n, n)."""
    return generator() * P_j + P_j * generator() - (P * P_j + P_j * P) / 2


def closed_product() -> sp.MatrixExpr:
    r"""$P(t)=e^{Ft}P_0(I+\Phi_tP_0)^{-1}e^{Ft}$, $\Phi_t=\int_0^te^{2Fs}ds$, (n, n)."""
    return E * P_0 * sp.Inverse(Id + Phi * P_0) * E


def mode_rate() -> sp.Expr:
    r"""$\dot s=\sqrt{\lambda^2+4s^2}\,(\sigma-s)$ of one aligned mode, $s=xy$, $\lambda=y^2-x^2$."""
    return sp.sqrt(lam**2 + 4 * s**2) * (sigma - s)


def mode_clock() -> sp.Expr:
    r"""A function of s that grows with time, $1/\dot s$ its slope: $\frac1\mu\ln\frac{\sqrt{\sigma^2+a^2}\sqrt{s^2+a^2}+
    \sigma s+a^2}{|\sigma-s|}$, $a=\lambda/2$, $\mu=\sqrt{\lambda^2+4\sigma^2}$.
    """
    a2 = lam**2 / 4
    far = sp.sqrt((sigma**2 + a2) * (s**2 + a2)) + sigma * s + a2
    return sp.log(far / sp.Abs(sigma - s)) / sp.sqrt(lam**2 + 4 * sigma**2)


# ------------------------------------------------------------------------- numbers


@dataclass(frozen=True, eq=False)
class TwoLayer:
    r"""A start of the network.

    Attributes:
        target: Σ, ($d_{out}$, $d_{in}$). first: $W_1$, (m, $d_{in}$). second: $W_2$, ($d_{out}$, m).

    Raises `InputError` for layers that do not fit the target.
    """

    target: np.ndarray
    first: np.ndarray
    second: np.ndarray

    def __post_init__(self) -> None:
        shapes = self.second.shape[:1] + self.first.shape[1:], self.second.shape[1:]
        if shapes != (self.target.shape, self.first.shape[:1]):
            raise InputError(
                f"layers have shapes {self.first.shape} and {self.second.shape}, the target {self.target.shape}: "
                "give (m, d_in), (d_out, m) and (d_out, d_in)"
            )

    @property
    def frame(self) -> np.ndarray:
        r"""Q, ($d_{in}+d_{out}$, m)."""
        return np.concatenate([self.first.T, self.second])

    @property
    def balance(self) -> np.ndarray:
        r"""$\mathcal D$, (m, m)."""
        return self.second.T @ self.second - self.first @ self.first.T

    @property
    def signal(self) -> np.ndarray:
        """S, (n, n)."""
        size, inputs = sum(self.target.shape), self.target.shape[1]
        found = np.zeros((size, size))
        found[inputs:, :inputs], found[:inputs, inputs:] = self.target, self.target.T
        return found

    @property
    def sides(self) -> np.ndarray:
        """J, (n, n)."""
        outputs, inputs = self.target.shape
        return np.diag(np.concatenate([np.ones(inputs), -np.ones(outputs)]))

    @cached_property
    def shift(self) -> float:
        r"""λ with $Q\mathcal D=\lambda Q$. Raises `InputError` where there is none."""
        frame = self.frame
        turned = frame @ self.balance
        size = float(np.sum(frame**2))
        found = float(np.sum(turned * frame)) / size if size else 0.0
        gap = float(np.abs(turned - found * frame).max())
        if gap > 1e-9 * size**1.5:
            raise InputError(
                f"balance W2ᵀW2 − W1W1ᵀ is no multiple of one number on the weights (off by {gap:.2g}): the closed form needs "
                "a λ-balanced start (`draw_balanced`); any other is followed by its `groups`"
            )
        return found

    def at(self, times: ArrayLike, shift: float | None = None) -> np.ndarray:
        r"""$P=QQ^\top$ at `times` (increasing, ≥ 0) by the closed form, shape (time, n, n); its lower left block is $W_2W_1$.

        It is put in as $Q\leftarrow e^{Fh}Q(I+Q^\top\Phi_hQ)^{-1/2}$ from one stretch h to the next, so that P never has a
        higher rank than Q: in P itself, rounding adds directions that Q lacks, and they grow. Time: one small
        factorisation per 300/‖F‖. `shift`: another λ than the start's own. Raises `InputError` for times that are not as
        above, and for a start that is not λ-balanced.
        """
        moments = np.atleast_1d(np.asarray(times, dtype=float))
        if moments.size == 0 or not np.all(np.isfinite(moments)) or moments[0] < 0 or np.any(np.diff(moments) < 0):
            raise InputError(
                "times are empty, negative, not finite or not increasing: give increasing times, 0 or more"
            )
        make = matrices.function(generator(), (S, J, lam))
        rates, basis = np.linalg.eigh(make(self.signal, self.sides, self.shift if shift is None else shift))
        modes, now, found = basis.T @ self.frame, 0.0, []
        for moment in moments:
            pieces = int(np.ceil((moment - now) * float(np.abs(rates).max()) / _STRETCH)) or 1
            grown, summed = _exponentials(rates, (moment - now) / pieces)
            for _ in range(pieces if moment > now else 0):
                modes = _moved(modes, grown, summed)
            now = moment
            state = basis @ modes
            found.append(state @ state.T)
        return np.stack(found)

    def groups(self) -> tuple[np.ndarray, np.ndarray]:
        r"""$\lambda_j$ (m,) and $P_j$ (m, n, n) of hidden units turned so that $\mathcal D$ is diagonal."""
        shifts, turn = np.linalg.eigh(self.balance)
        columns = (self.frame @ turn).T
        return shifts, columns[:, :, None] * columns[:, None, :]


def _exponentials(rates: np.ndarray, time: float) -> tuple[np.ndarray, np.ndarray]:
    r"""$e^{Ft}$ and $\int_0^te^{2Fs}ds$ in the eigenvectors of F, (n,)."""
    safe = np.where(rates == 0, 1.0, rates)
    return np.exp(rates * time), np.where(rates == 0, time, np.expm1(2 * safe * time) / (2 * safe))


def _moved(modes: np.ndarray, grown: np.ndarray, summed: np.ndarray) -> np.ndarray:
    r"""$e^{Ft}Q(I+Q^\top\Phi Q)^{-1/2}$ up to a turn of the hidden units, in the eigenvectors of F; Q (n, m).

    $I+Q^\top\Phi Q=K^\top K$ for I above $\Phi^{1/2}Q$, and $K(K^\top K)^{-1/2}$ is the orthogonal factor of K. With rows
    sorted by size and columns pivoted that factor is accurate row by row, however different the rows are (Cox and Higham
    1998), where $K^\top K$ would keep the largest only.
    """
    root = np.sqrt(summed)[:, None]
    stacked = np.concatenate([np.eye(modes.shape[1]), root * modes])
    order = np.argsort(-np.abs(stacked).max(axis=1), kind="stable")
    turned = np.empty_like(stacked)
    turned[order] = scipy.linalg.qr(stacked[order], mode="economic", pivoting=True)[0]
    return grown[:, None] / root * turned[modes.shape[1] :]


def mode_time(strength: ArrayLike, start: float, singular_value: float, shift: float = 0.0) -> np.ndarray:
    r"""Time at which an aligned mode is `strength` $=s$, same shape, from $s(0)=$ `start`; between `start` and σ.

    $s=xy$ with $\lambda=y^2-x^2=$ `shift`. Without unbalance $\frac1{2\sigma}\ln\frac{s(\sigma-s_0)}{s_0(\sigma-s)}$
    (arXiv:1312.6120, equation 14). Raises `InputError` for a start or a σ that is not positive.
    """
    check_positive(start=start, singular_value=singular_value)
    clock = sp.lambdify((s, sigma, lam), mode_clock(), modules="numpy")
    return np.asarray(
        clock(np.asarray(strength, dtype=float), singular_value, shift) - clock(start, singular_value, shift)
    )


def draw_balanced(target: np.ndarray, width: int, shift: float, scale: float, rng: np.random.Generator) -> TwoLayer:
    r"""A start with $\mathcal D=\lambda I$: one layer Gaussian with entries of variance scale²/width, the other made to fit.

    `target`: Σ, shape (d_out, d_in). Raises `InputError` where no such start exists: λ > 0 needs width ≤ $d_{out}$, λ < 0
    width ≤ $d_{in}$, λ = 0 one of both.
    """
    check_whole(width=width)
    check_positive(scale=scale)
    outputs, inputs = target.shape
    fits = {1: outputs, -1: inputs, 0: max(outputs, inputs)}[int(np.sign(shift))]
    if width > fits:
        raise InputError(
            f"width is {width} with balance {shift:g}: W2ᵀW2 − W1W1ᵀ = λI exists up to width {fits} only "
            f"(d_in = {inputs}, d_out = {outputs}); lower the width, or change λ"
        )
    # The layer that carries the surplus has orthonormal columns to put it in.
    forward = shift > 0 or (shift == 0 and outputs >= width)
    narrow, wide = (inputs, outputs) if forward else (outputs, inputs)
    free = rng.standard_normal((width, narrow)) * scale / np.sqrt(width)
    values, vectors = np.linalg.eigh(free @ free.T + abs(shift) * np.eye(width))
    columns = np.linalg.qr(rng.standard_normal((wide, width)))[0]
    fitted = columns @ (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return TwoLayer(target, free, fitted) if forward else TwoLayer(target, fitted.T, free.T)


# ----------------------------------------------------------------------- the derivation

_HALF = sp.Rational(1, 2)
#: Σ of the checks, and two layers of two hidden units: any, and such that W2ᵀW2 − W1W1ᵀ = 15.
_TARGET = sp.Matrix([[2, -1, _HALF], [_HALF, 1, 3]])
_ANY = sp.Matrix([[1, 2, -1], [_HALF, 0, 3]]), sp.Matrix([[2, _HALF], [-1, 1]])


def _turn(cosine: sp.Expr, sine: sp.Expr) -> sp.Matrix:
    return sp.Matrix([[cosine, -sine], [sine, cosine]])


def _balanced() -> tuple[sp.Matrix, sp.Matrix]:
    hidden, outer = _turn(sp.Rational(3, 5), sp.Rational(4, 5)), _turn(sp.Rational(5, 13), sp.Rational(12, 13))
    return hidden * sp.Matrix([[1, 0, 0], [0, 0, 7]]), outer * sp.diag(4, 8) * hidden.T


def _slopes(first: sp.Matrix, second: sp.Matrix) -> tuple[sp.Matrix, sp.Matrix]:
    """Minus the derivatives of ½‖Σ − W₂W₁‖² by every weight, at these."""
    one = sp.Matrix(*first.shape, lambda i, h: sp.Symbol(f"u_{i}_{h}"))
    two = sp.Matrix(*second.shape, lambda i, h: sp.Symbol(f"v_{i}_{h}"))
    loss = sum(x**2 for x in _TARGET - two * one) / 2
    known = dict(zip([*one, *two], [*first, *second], strict=True))
    return one.applyfunc(lambda x: -sp.diff(loss, x).subs(known)), two.applyfunc(
        lambda x: -sp.diff(loss, x).subs(known)
    )


def _point(layers: tuple[sp.Matrix, sp.Matrix]) -> tuple[sp.Matrix, sp.Matrix, Mapping[sp.Basic, sp.Matrix]]:
    """Q, its rate by `_slopes`, and the matrices of the equations."""
    (first, second), (down, up) = layers, _slopes(*layers)
    frame, rate = first.T.col_join(second), down.T.col_join(up)
    inputs, outputs = first.cols, second.rows
    signal = sp.zeros(inputs, inputs).row_join(_TARGET.T).col_join(_TARGET.row_join(sp.zeros(outputs, outputs)))
    known = {S: signal, J: sp.diag(sp.eye(inputs), -sp.eye(outputs)), Q: frame, P: frame * frame.T}
    return frame, rate, known | {D: second.T * second - first * first.T}


def _frame_residual(claim: sp.Basic) -> sp.Expr:
    _, rate, known = _point(_ANY)
    return matrices.total(matrices.at(claim, known) - rate)


def _balance_residual(claim: sp.Basic) -> sp.Expr:
    (first, second), (down, up), known = _ANY, _slopes(*_ANY), _point(_ANY)[2]
    half = second.T * up - down * first.T
    return matrices.total(half + half.T - matrices.at(claim, known))


def _product_residual(claim: sp.Basic) -> sp.Expr:
    frame, rate, known = _point(_balanced())
    shift = known[D][0, 0]
    return matrices.total(matrices.at(claim, {**known, lam: shift}) - rate * frame.T - frame * rate.T)


def _group_residual(claim: sp.Basic) -> sp.Expr:
    """Hidden units of a start whose balance is diagonal, with different entries."""
    first, second = sp.Matrix([[1, 2, -1], [2, 0, 2]]), sp.Matrix([[3, 1], [-1, 3]])
    frame, rate, known = _point((first, second))
    total = abs(known[D][0, 1])
    for unit in range(2):
        own, moved = frame[:, unit], rate[:, unit]
        shown = matrices.at(claim, {**known, P_j: own * own.T, lam: known[D][unit, unit]})
        total += matrices.total(shown - moved * own.T - own * moved.T)
    return total


def _closed_residual(claim: sp.Basic) -> sp.Expr:
    """The shown form's derivative by t for F with eigenvalues ±5 against the Riccati equation, and its start."""
    t = sp.Symbol("t", positive=True)
    move, grid = sp.Matrix([[-3, 4], [4, 3]]), sp.Matrix([[2, 1], [1, 1]])
    grown = (sp.eye(2) * sp.cosh(5 * t) + move / 5 * sp.sinh(5 * t)).applyfunc(lambda x: x.rewrite(sp.exp))
    summed = (grown * grown).applyfunc(lambda x: sp.integrate(sp.expand(x), (t, 0, t)))
    path = matrices.at(claim, {E: grown, Phi: summed, P_0: grid})
    now = {t: sp.Rational(1, 7)}
    rate = path.diff(t).subs(now).evalf(CHECK_DIGITS + 10)
    state = path.subs(now).evalf(CHECK_DIGITS + 10)
    return matrices.total(rate - move * state - state * move + state**2) + matrices.total(path.subs(t, 0) - grid)


def _mode_residual(claim: sp.Basic) -> sp.Expr:
    """ẋ = y(σ − xy) and ẏ = x(σ − xy) put into the rate of xy, where x² + y² is rational."""
    x, y, goal = sp.Rational(3, 2), sp.Rational(5, 3), sp.Rational(7, 2)
    exact = (y * y + x * x) * (goal - x * y)
    return claim.subs({s: x * y, sigma: goal, lam: y * y - x * x}) - exact


def _clock_residual(claim: sp.Basic) -> sp.Expr:
    """Its slope times the rate of s, less 1."""
    at = {s: sp.Rational(2, 3), sigma: sp.Rational(7, 5), lam: sp.Rational(3, 4)}
    slope = sp.diff(claim.subs(sp.Abs(sigma - s), sigma - s), s)
    return sp.N((slope * mode_rate() - 1).subs(at), CHECK_DIGITS)


def two_layer() -> Derivation:
    """The equations of this module, each checked against derivatives of the loss by every weight."""
    found: dict[str, tuple[str, sp.Basic, Callable[[sp.Basic], sp.Expr]]] = {
        r"\dot{Q}": ("Frame", frame_rate(), _frame_residual),
        r"\dot{\mathcal{D}}": ("Balance is conserved", sp.ZeroMatrix(_m, _m), _balance_residual),
        r"\dot{P}": ("QQᵀ where Q𝒟 = λQ", product_rate(), _product_residual),
        r"\dot{P}_{j}": ("One group of hidden units", group_rate(), _group_residual),
        "P(t)": ("Closed form where Q𝒟 = λQ", closed_product(), _closed_residual),
        r"\dot{s}": ("One aligned mode", mode_rate(), _mode_residual),
        "t(s)": ("Its clock", mode_clock(), _clock_residual),
    }
    steps = tuple(Step(title, equation(name, shown), check) for name, (title, shown, check) in found.items())
    assumptions = (
        Assumption("whitened inputs, loss ½‖Σ − W₂W₁‖², gradient flow"),
        Assumption("closed form: Q𝒟 = λQ; clock: weights aligned with Σ's singular vectors"),
    )
    return Derivation("two-layer", steps, {name: x[1] for name, x in found.items()}, assumptions, REFERENCE)
