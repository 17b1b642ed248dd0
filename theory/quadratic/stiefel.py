r"""One step of Stiefel SGD on a quadratic network: the retraction in closed form, and its mean to second order.

Student $f=\gamma(\|h\|^2-N)$ with $h=W^\top x$, $W^\top W=I_N$; teacher $f_*=\sum_ja_j(x_j^2-1)$, $\mathsf M=\mathrm{diag}
(a)$, $x\sim N(0,I_d)$. A step goes down the Riemannian gradient of one fresh sample and retracts by the polar factor
(arXiv:2508.03688, section on the algorithm):
$\tilde W=W+\eta\,2\gamma(f_*-f)(x-Wh)h^\top$, $W\leftarrow\tilde W(\tilde W^\top\tilde W)^{-1/2}$. Since $x-Wh\perp W$,
$\tilde W^\top\tilde W=I+\tau^2\hat h\hat h^\top$ with the *tilt* $\tau=2\eta\gamma(f_*-f)\|h\|s$, $s=\|x-Wh\|$: the polar
factor turns the one direction $W\hat h$ of the column space towards the new sample by the angle $\arctan\tau$ and leaves
its complement alone. No eigendecomposition is needed.

The step size η belongs to the loss $\tfrac12(f_*-f)^2$, as everywhere in this toolkit. The paper's step size belongs to
$\tfrac18(f_*-f)^2$ and is 4 times larger. A step advances Riccati time by
`QuadraticModel.riccati_rate` · η, which is $4\gamma\eta$ for unit weights.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy
import sympy as sp
from numpy.polynomial import Polynomial

from theory.core.errors import InputError
from theory.quadratic.model import QuadraticModel

#: Step size of the paper's loss ⅛(f*−f)² over step size of ½(f*−f)².
PAPER_STEP = 4.0

eta, gamma, length, outside = sp.symbols("eta gamma h s", positive=True)
target, output = sp.symbols("y f", real=True)


@dataclass(frozen=True)
class Retraction:
    r"""The polar retraction of one sample's step, $W\leftarrow W+(c_1W\hat h+c_2x)\hat h^\top$.

    Attributes:
        tilt: $\tau$, tangent of the angle. along_self: $c_1$. along_input: $c_2$. All in the symbols `eta`, `gamma`,
            `length` (‖h‖), `outside` (s), `target` (f_*), `output` (f).
    """

    tilt: sp.Expr
    along_self: sp.Expr
    along_input: sp.Expr


@cache
def retraction() -> Retraction:
    r"""Derive tilt and coefficients from the loss $\tfrac12(f_*-f)^2$, $f=\gamma(h^2-N)$.

    With $g=-\eta\,\partial_h\tfrac12(f_*-f)^2$ along $\hat h$, $\tilde W=W+g(x-Wh)\hat h^\top$ and the polar factor divides
    the component along $\hat h$ by $\sqrt{1+\tau^2}$, $\tau=gs$.
    """
    width = sp.Symbol("N", positive=True)
    model = gamma * (length**2 - width)
    slope = sp.diff((target - sp.Function("F")(length)) ** 2 / 2, length).subs(
        sp.Derivative(sp.Function("F")(length), length), sp.diff(model, length)
    )
    push = sp.simplify(-eta * slope.subs(sp.Function("F")(length), output))
    tilt = push * outside
    cosine = 1 / sp.sqrt(1 + tilt**2)
    return Retraction(tilt, cosine - 1 - cosine * push * length, cosine * push)


# ------------------------------------------------------------------ mean to second order


def step_drift(G: np.ndarray, a: np.ndarray, width: int, dim: int, speed_factor: float, step: float) -> np.ndarray:
    r"""Mean change of $G=\Theta^\top WW^\top\Theta$ in one step, per Riccati time ε of a step (4γη for unit weights).

    Turning $w=W\hat h$ towards $n=(x-Wh)/s$ by $\arctan\tau$ changes the projector by
    $\tau(wn^\top+nw^\top)+\tau^2(nn^\top-ww^\top)+O(\tau^3)$. With $B=\mathsf M-\gamma WW^\top$, $q=x^\top Bx-\mathrm{tr}B$,
    the parts $u$ in and $v$ out of the column space are independent, and Gaussian moments give
    $E\,q\,uv^\top=2\Pi B\Pi_\perp$,
    $E\,q^2|u|^2vv^\top=\Pi_\perp[16B\Pi B+8\,\mathrm{tr}(B\Pi)B+8NB^2+8\,\mathrm{tr}(B^2\Pi)+2N\,\mathrm{tr}B^2]\Pi_\perp$,
    and the same with $\Pi\leftrightarrow\Pi_\perp$, $N\leftrightarrow d-N$ for $E\,q^2|v|^2uu^\top$. Hence
    $\dot G=\mathsf MG+G\mathsf M-2G\mathsf MG+\tfrac\epsilon4\,K(G)$, exact to second order in the step size, closed in G.

    Args:
        G: (…, P, P), symmetric, 0 ≼ G ≼ I. a: (P,), the normalised spectrum ã. width: N. dim: d. speed_factor: γ/‖a‖.
        step: ε, Riccati time of one step; 0 gives the Riccati flow.

    Returns: dG/dt in Riccati time, (…, P, P).
    """
    MG = np.diag(a) @ G
    riccati = MG + np.swapaxes(MG, -1, -2) - 2 * G @ MG
    if step == 0:
        return riccati
    gain, loss = second_order(G, a, width, dim, speed_factor)
    return riccati + step / 4 * (gain - loss)


def second_order(
    G: np.ndarray, a: np.ndarray, width: int, dim: int, speed_factor: float
) -> tuple[np.ndarray, np.ndarray]:
    r"""What a sample adds to G, and the old direction takes from it: $K=$ gain − loss of `step_drift`, (…, P, P) each."""
    M = np.diag(a)
    MG = M @ G
    out = np.eye(a.size) - G
    inner, inner2 = G @ MG, G @ M @ MG  # ΠMΠ and ΠM²Π, seen from the teachers
    b_in, b2_all = (
        _trace(MG) - speed_factor * width,
        np.sum(a**2) - 2 * speed_factor * _trace(MG) + speed_factor**2 * width,
    )
    b2_in = _trace(M @ MG) - 2 * speed_factor * _trace(MG) + speed_factor**2 * width
    b_out, b2_out = _trace(M @ out), _trace(M @ M @ out)
    gain = 16 * out @ MG @ M @ out + 8 * b_in * (out @ M @ out) + 8 * width * (out @ M @ M @ out)
    gain = gain + (8 * b2_in + 2 * width * b2_all) * out
    loss = 16 * (inner2 - inner @ MG) + 8 * b_out * (inner - speed_factor * G)
    loss = loss + 8 * (dim - width) * (inner2 - 2 * speed_factor * inner + speed_factor**2 * G)
    loss = loss + (8 * b2_out + 2 * (dim - width) * b2_all) * G
    return gain, loss


def _trace(X: np.ndarray) -> np.ndarray:
    """The trace, to be multiplied by a matrix."""
    return np.trace(X, axis1=-2, axis2=-1)[..., None, None]


def mean_flow(
    model: QuadraticModel, on_teachers: np.ndarray, times: np.ndarray, *, step_size: float, rtol: float = 1e-8
) -> np.ndarray:
    r"""G(τ) of the second-order mean drift `step_drift`, fluctuations of G left out, for N ≥ P.

    Args:
        on_teachers: $Z_0=\Theta^\top W_0$, (…, P, N), of orthonormal frames. times: increasing Riccati times from 0 on.
        step_size: η of the loss ½(f*−f)²; 0 gives the Riccati flow.

    Returns: (time, …, P, P). What the fluctuations would add to the η-dependence is small once G is stationary, relative
    O((P+N)/d) (P = N = 2, d = 40: SGD's late risk .0489(10), here .0488), and while G grows where N ≫ P (P = 4, N = 16: .13
    falling to .01). Else it may be all of it while G grows, and of the other sign (P = N = 2, d = 640, a tenth of
    `largest_step`: +.09 of the risk at τ = 11.5, where −.03 is found; P = N = 8, d = 320: 4.5 times what is found).

    Raises `InputError` for N < P, where a mean has directions beyond the N that a frame spans and grows them to tr G > N
    (`dynamics.riccati_flow` follows the Riccati flow at any width); and if the integration fails before the last time.
    """
    if model.width < model.teacher.width:
        raise InputError(
            f"student width is {model.width}, below {model.teacher.width} teacher directions: the mean drift forgets the "
            f"rank of G there; give {model.teacher.width} or more, or take dynamics.riccati_flow for step_size 0"
        )
    start = on_teachers @ np.swapaxes(on_teachers, -1, -2)
    step = model.riccati_rate * step_size
    spectrum, factor = model.spectrum, model.speed_factor / model.norm

    def rate(_: float, flat: np.ndarray) -> np.ndarray:
        return step_drift(flat.reshape(start.shape), spectrum, model.width, model.teacher.dim, factor, step).ravel()

    solution = scipy.integrate.solve_ivp(
        rate, (0.0, float(times[-1])), start.ravel(), "DOP853", t_eval=times, rtol=rtol, atol=1e-3 * rtol
    )
    if not solution.success:
        raise InputError(f"times end at {times[-1]:g}: the mean flow could not be followed there ({solution.message})")
    return solution.y.T.reshape(len(times), *start.shape)


def single_passage(model: QuadraticModel, overlaps: np.ndarray, level: float, *, step_size: float) -> np.ndarray:
    r"""Mean Riccati time in which one row reaches the overlap `level` with the one direction (N = P = 1), noise and all.

    With one row $G=m^2$ is a diffusion: `step_drift` is its drift, and $E(\Delta G)^2=4G\,E\,\tau^2(\theta^\top n)^2$ its
    noise, the gain of the drift seen from outside. In m, with gain g and loss l of `step_drift`,
    $$b=\frac{2G(1-G)-\frac\epsilon4l}{2m},\qquad D=\frac\epsilon4g,\qquad bT'+\tfrac D2T''=-1,\quad T'(0)=0,\ T(h)=0.$$
    Left out is what whole steps and kicks that are not Gaussian add, relative O(1/d) at fixed ηd. (ηd = 0.05: the
    time to half the initial risk, mean over random starts, is 1.366 of the Riccati flow's at d = 512; measured 1.364(2). The
    mean drift alone gives 1.21.)

    Args: overlaps (n,) at the start, either sign; those beyond `level` take no time. step_size: η of the loss ½(f*−f)².
    Raises `InputError` for more than one row or direction.
    """
    if model.width != 1 or model.teacher.width != 1:
        raise InputError(
            f"{model.width} rows for {model.teacher.width} directions: the law of a passage is derived for one of each"
        )
    step, factor = model.riccati_rate * step_size, model.speed_factor / model.norm

    def rates(m: float, state: np.ndarray) -> list[float]:
        """T' and T, up to a constant."""
        gain, loss = (
            float(x[0, 0]) for x in second_order(np.array([[m * m]]), model.spectrum, 1, model.teacher.dim, factor)
        )
        drift = m * (1 - m * m) - step / 8 * loss / m if m > 0 else 0.0
        return [-8 / (step * gain) * (1 + drift * state[0]), state[0]]

    ends = np.minimum(np.abs(overlaps), level)
    solution = scipy.integrate.solve_ivp(
        rates, (0.0, level), (0.0, 0.0), "LSODA", rtol=1e-8, atol=1e-10, dense_output=True
    )
    return np.asarray(solution.sol(ends)[1] - solution.y[1, -1])


def projected_risk(spectrum: np.ndarray, G: np.ndarray) -> np.ndarray:
    r"""$2(1-\mathrm{tr}(\tilde AG\tilde AG))$, the risk with the best radial part, from G (…, P, P)."""
    scaled = spectrum[:, None] * G
    return 2 * (np.sum(spectrum**2) - np.sum(scaled * np.swapaxes(scaled, -1, -2), axis=(-2, -1)))


def largest_step(model: QuadraticModel, batch: int = 1) -> tuple[float, int]:
    r"""Step size at which the mean drift stops growing one of the min(N, P) largest directions, and which (from 0).

    From $G\approx0$ direction j grows at rate $2\tilde a_j$ and shrinks at $\tfrac\epsilon4[2(d-N)\mathrm{tr}B^2+\dots]$;
    the bound is where both are equal, for the smallest direction that the student can learn. Step size of ½(f*−f)²;
    averaging b samples divides the second-order term by b up to O(1/d).
    """
    spectrum, width, dim = model.spectrum, model.width, model.teacher.dim
    worst = int(np.argsort(-spectrum, kind="stable")[min(width, spectrum.size) - 1])
    small, zero = 1e-6, np.zeros((spectrum.size, spectrum.size))
    tilted = zero.copy()
    tilted[worst, worst] = small
    cases = ((tilted, 4.0), (tilted, 0.0), (zero, 4.0))
    drifts = [
        step_drift(G, spectrum, width, dim, model.speed_factor / model.norm, step)[worst, worst] for G, step in cases
    ]
    shrink = -(drifts[0] - drifts[1] - drifts[2]) / small
    epsilon = 8 * spectrum[worst] / shrink
    return float(batch * epsilon / model.riccati_rate), worst


def radial_excess(model: QuadraticModel, on_teachers: np.ndarray) -> tuple[float, float]:
    r"""Two orders of the excess risk of phase II: what stands over n', and what stands over n'².

    Least squares in the $D=N(N+1)/2$ entries of $\Omega\Omega^\top$, whitened features φ of $|\phi|^2=k$ and residual
    $r=2u^\top C_{uv}v+v^\top C_{vv}v-\mathrm{tr}C_{vv}$, the part of $\mathsf M$ outside the fitted span; $E[r|u]=0$. The
    excess is $g^\top\hat G^{-2}g$, $g=\tfrac1{n'}\sum r\phi$, $\hat G=\tfrac1{n'}\sum\phi\phi^\top$, expanded about I:

    $$\frac{E[r^2k]}{n'}+\frac{E[r^2(3\,\phi^\top E[k\phi\phi^\top]\phi-2k^2-k)]}{n'^2}+O(n'^{-3}).$$

    All are moments of $|u|^2$: $k=\tfrac12(|u|^4-2|u|^2+N)$, of which $(|u|^2-N)^2/2N$ is along the trace and
    $\tfrac{N-1}{2N}|u|^4$ across it; $E[r^2\,|\,|u|]=R_{opt}+4\|C_{uv}\|_F^2(|u|^2/N-1)$. So
    $E[r^2k]=D\,R_{opt}+8(N+1)\|C_{uv}\|_F^2$.

    Args:
        on_teachers: $Z=\Theta^\top U$, (P, N), of an orthonormal frame.
    """
    a, width = model.spectrum, model.width
    inner = on_teachers.T @ (a[:, None] * on_teachers)
    square = float(np.sum((a[:, None] * on_teachers) ** 2))
    cross = square - float(np.sum(inner**2))
    best = 2 * (float(np.sum(a**2)) - float(np.sum(inner**2)))
    moments = np.cumprod(np.append(1.0, width + 2.0 * np.arange(5)))  # of |u|² ~ χ²_N

    def mean(of: Polynomial) -> float:
        return float(of.coef @ moments[: of.coef.size])

    length = Polynomial([0.0, 1.0])  # |u|²
    leverage, trace = (length**2 - 2 * length + width) / 2, (length - width) ** 2 / (2 * width)
    residual = best + 4 * cross * (length / width - 1)
    # φᵀE[kφφᵀ]φ: one value along the trace, one across it, whose (N − 1)(N + 2)/2 entries share what k has there.
    across = (width - 1) / (2 * width**2 * (width + 2)) * mean(leverage * length**2) * length**2
    seen = mean(leverage * trace) * trace + across
    return mean(residual * leverage), mean(residual * (3 * seen - 2 * leverage**2 - leverage))
