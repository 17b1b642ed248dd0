r"""Sharpness-aware minimisation on the two-layer linear network: decay of the norm, and when the network collapses.

With $s=\mathrm{sign}\,\ell'$ and $D=\sqrt{|Wx|^2+\|a\|^2|x|^2}$ the perturbation is exactly $\tilde W=W+\rho s\,ax^\top/D$,
$\tilde a=a+\rho s\,Wx/D$, so that the perturbed slope is
$$\tilde\ell'=\ell'+\rho sD+\rho^2\langle\theta,x\rangle|x|^2/D^2 :$$
SAM is SGD with label noise of size ρD whose sign opposes convergence, and with a pull on W besides (arXiv:2603.10397,
section 5; all derived). In the lazy phase D = √Λ|x| with Λ = ‖W‖²/d + ‖a‖². With D now its root mean square,
D² = ‖W‖² + d‖a‖², r = ρD and τ the spread of ℓ',
$$-\tfrac d{dt}\ln\|W\|_F^2=2\eta\rho\,(r+b\tau)/D+2\eta\,(\tau^2+b\tau r)/\|W\|^2-
\eta^2(d+2)\,(\|a\|^2+\rho^2\|W\|^2/D^2)\,\varrho^2/\|W\|^2,\qquad b=E|x_1||x|/\sqrt d\to\sqrt{2/\pi},$$
which is $2\eta\rho^2$ for $\eta\|W\|^2\to0$; ϱ² is the mean square of the perturbed slope, and τ follows from stationarity.
The aligned state is held by chattering about ℓ' = 0; beyond a radius ρ_c the perturbation shrinks both layers faster than the
labels can grow them, and θ → 0.
"""

import numpy as np
import scipy
import sympy as sp

from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.errors import InputError
from theory.core.matrices import Inner, at, d, m
from theory.core.quadrature import Rule, chi_squared, gauss_hermite, gauss_legendre, product_rule
from theory.linear.label_noise import name
from theory.linear.phases import random_alignment
from theory.linear.task import lazy_fall

REFERENCE = "arXiv:2603.10397, section 5 (update rule); decay law and collapse derived"
eta, rho = sp.symbols("eta rho", positive=True)
r, tau, b, k, D = sp.symbols("r tau b k D", positive=True)
frobenius, norm, variance = sp.symbols(r"{\|W\|_F^2} {\|a\|^2} {\varrho^2}", positive=True)
W, a = sp.MatrixSymbol("W", m, d), sp.MatrixSymbol("a", m, 1)
x, theta = sp.MatrixSymbol("x", d, 1), sp.MatrixSymbol("theta", d, 1)
slope, sign = sp.symbols(r"{\ell'} s")

#: W and a perturbed, and the slope there.
PERTURBED = W + rho * sign / D * a * x.T, a + rho * sign / D * W * x
PERTURBED_SLOPE = slope + rho * sign * D + rho**2 * Inner(theta, x) * Inner(x, x) / D**2
#: ϱ² = E(|ℓ′| + ρD)² at ℓ′ = τx₁; what is 0 where the spread τ is stationary; τ itself; and the decay of ln ‖W‖².
VARIANCE = tau**2 + 2 * b * tau * r + r**2
BALANCE = 2 * (tau**2 + b * tau * r) - k * (d + 2) * VARIANCE
DECAY = (
    2 * eta * rho * (r + b * tau) / D
    + 2 * eta * (tau**2 + b * tau * r) / frobenius
    - eta**2 * (d + 2) * (norm + rho**2 * frobenius / D**2) * variance / frobenius
)


def _spread() -> sp.Expr:
    """The positive root τ of the balance, proportional to r."""
    square, linear, free = sp.Poly(BALANCE.subs(r, 1), tau).all_coeffs()
    return r * (sp.sqrt(linear**2 - 4 * square * free) - linear) / (2 * square)


SPREAD = _spread()
_spread_at = sp.lambdify((k, d, r, b), SPREAD)
_decay_at = sp.lambdify((eta, rho, r, tau, D, d, frobenius, norm, b), DECAY.subs(variance, VARIANCE))
#: Nodes of `one_step_decay`: along the error on either side of ℓ' = 0, where the perturbation jumps, up to _FARTHEST; and
#: along the target, which enters by the input's length, as many as squared lengths of the rest.
_ALONG_ERROR, _FARTHEST, _LENGTHS = 120, 10.0, 20
#: The target over the error there: small, as its size must not matter.
_SMALL = 1e-3
#: Eigenvalues of the inputs' covariance below this share of the largest are 0.
_NULL = 1e-10
#: Eigenvalues this close, relatively, are level.
_LEVEL = 1e-5


def mean_overlap(dim: int) -> float:
    r"""$b=E|x_1||x|/\sqrt d=\sqrt d\,E|\hat x_1|$ of a Gaussian input: 1 in one dimension, $\sqrt{2/\pi}$ in many."""
    return float(np.sqrt(dim) * random_alignment(dim))


def slope_spread(step_size: float, stiffness: float, dim: int, size: float) -> float:
    r"""Stationary spread τ of ℓ' = τx₁: $2(\tau^2+b\tau r)=k(d+2)(\tau^2+2b\tau r+r^2)$, k = ηΛ, r the root mean square of ρD.

    All moments of x are exact, and $D\propto|x|$ (lazy phase); only the error's length is taken at its root mean square. Over
    the measured τ that is .89, .94, .975, .99 in d = 3, 5, 10, 20 for k → 0, and 1.04 to 1.00 at k(d + 2) = 1.2.
    Raises `InputError` beyond k(d + 2) = 2.
    """
    reach = step_size * stiffness
    if reach * (dim + 2) >= 2:
        raise InputError(
            f"step_size is {step_size:g}, beyond the least-squares stability limit {2 / (stiffness * (dim + 2)):.3g}: "
            "give a smaller step size"
        )
    return float(_spread_at(reach, dim, size, mean_overlap(dim)))


def decay_rate(radius: float, step_size: float, norm2: float, second_norm2: float, dim: int) -> float:
    r"""$-\frac d{dt}\ln\|W\|_F^2$ per step of single-sample SAM, lazy phase ($\|W\|^2\gg d\|a\|^2$).

    Of measured rates of the lazy limit it is .985 to 1 for d ≥ 2 up to k(d + 2) = .6; at k(d + 2) = 1.2 it is 1.15, 1.09, 1.04
    and 1.01 of them in d = 2, 3, 5 and 10 (`slope_spread`).
    Args: ρ, η, $\|W\|_F^2$, $\|a\|^2$, d. Raises `InputError` where `slope_spread` does.
    """
    curvature = np.sqrt(norm2 + dim * second_norm2)
    size, stiffness = radius * curvature, norm2 / dim + second_norm2
    spread = slope_spread(step_size, stiffness, dim, size)
    return float(_decay_at(step_size, radius, size, spread, curvature, dim, norm2, second_norm2, mean_overlap(dim)))


def one_step_decay(
    radius: float, step_size: float, norm2: float, second_norm2: float, dim: int, spread: float | None = None
) -> tuple[float, float]:
    r"""One step of single-sample SAM from the weights themselves, in the mean over fresh samples.

    Isotropic W, $\theta=\theta^*+e$ with $|e|=\tau$ (`spread`, default `slope_spread`) across a small θ*. Everything happens
    in the span of e, θ* and the rest of x, whose squared length is averaged over its law.

    Returns: mean of $-\Delta\|W\|_F^2/\|W\|_F^2$, and of $\Delta|e|^2/|e|^2$ (0 where τ is stationary).
    Raises `InputError` for d < 2, where no e is across θ*, and for step sizes beyond the least-squares limit.
    """
    if dim < 2:
        raise InputError(f"dim is {dim}: an error across the target needs 2 dimensions, give 2 or more")
    weight = norm2 / dim
    curvature = np.sqrt(norm2 + dim * second_norm2)
    tau = slope_spread(step_size, weight + second_norm2, dim, radius * curvature) if spread is None else spread
    # Coordinates: along e, along θ*, along the rest of x; a fourth neuron holds the rest of the second layer.
    goal, theta = tau * np.array([[0.0, _SMALL, 0.0], [1.0, _SMALL, 0.0]])
    first = np.vstack([np.sqrt(weight) * np.eye(3), np.zeros(3)])
    second = np.append(theta / np.sqrt(weight), 0.0)
    second[3] = np.sqrt(max(second_norm2 - second @ second, 0.0))
    x, mass = inputs_by_error(dim, _ALONG_ERROR, _LENGTHS, _LENGTHS)
    new, last = whole_step(first, second, goal, x, radius, step_size)
    change = np.sum(new**2, axis=(1, 2)) - np.sum(first**2)
    error = np.sum((np.einsum("smi,sm->si", new, last) - goal) ** 2, axis=1)
    return float(-(mass @ change) / norm2), float(mass @ error / tau**2 - 1)


def inputs_by_error(dim: int, along_error: int, along_target: int, lengths: int) -> Rule:
    """Points (n, 3) and weights (n,) of a Gaussian input: along the error, along the target, and its remaining length.

    The slope changes sign with the first coordinate, so that this one has a rule of `along_error` nodes on each half-line.
    """
    half, mass = gauss_legendre(0.0, _FARTHEST, along_error)
    mass = mass * np.exp(-(half**2) / 2)
    sides = np.concatenate([half, -half]), np.concatenate([mass, mass]) / (2 * mass.sum())
    squares, shares = chi_squared(dim - 2, lengths)
    return product_rule(sides, gauss_hermite(along_target), (np.sqrt(squares), shares))


def whole_step(
    first: np.ndarray, second: np.ndarray, goal: np.ndarray, x: np.ndarray, radius: float, step_size: float
) -> tuple[np.ndarray, np.ndarray]:
    """W (n, m, d) and a (n, m) after one step of SAM from W (m, d) and a (m,), on each of the inputs x (n, d) alone."""
    other, field, steep = climbed(first, second, goal, x, radius)
    pull = step_size * steep[:, None]
    return first - (pull * other)[:, :, None] * x[:, None], second - pull * field


def climbed(
    first: np.ndarray, second: np.ndarray, goal: np.ndarray, x: np.ndarray, radius: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Where SAM takes its gradient, a distance ρ uphill of W (m, d) and a (m,), on each of the inputs x (n, d) alone.

    Returns: a there (n, m), Wx there (n, m), and the slope s of the loss by the output (n,). The gradient there by W is
    $s\,ax^\top$, and by a it is $s\,Wx$.
    """
    field, size2 = x @ first.T, products(x, x)
    slope = x @ (first.T @ second - goal)
    up = radius * np.sign(slope) / np.sqrt(second @ second * size2 + products(field, field))
    other, there = second + up[:, None] * field, field + (up * size2)[:, None] * second
    return other, there, products(other, there) - x @ goal


def products(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Inner products (n,) of rows with rows, each (n, d)."""
    return np.asarray(np.einsum("ni,ni->n", u, v))


def full_batch_decay_rate(radius: float, step_size: float, dim: float) -> float:
    r"""$2\eta\rho^2/d$ per step at the start, for small steps and isotropic inputs; `full_batch_fall` is the law of a run.

    For other inputs $\mathrm{tr}\hat H^{-1}$ in place of d gives the rate once all directions shrink together, the least.
    """
    return 2 * step_size * radius**2 / dim


def full_batch_limit(covariance: np.ndarray, gram: np.ndarray, second_norm2: float) -> float:
    r"""Largest η at which the error of full-batch SAM stays bounded, as of descent: $2/\lambda_{\max}(\hat H\Lambda)$.

    With $\Lambda=G+\|a\|^2I$ the perturbation adds a force of bounded size to $e\leftarrow e-\eta\Lambda\hat He$ (lazy phase).
    Args: Ĥ (d, d), $G=W^\top W$ (d, d), $\|a\|^2$.
    """
    stiffness = gram + second_norm2 * np.eye(len(gram))
    return float(2 / np.linalg.eigvals(covariance @ stiffness).real.max())


def batch_decay_rate(radius: float, step_size: float, dim: int, batch: int, norm2: float = 0.0) -> float:
    r"""$-\frac d{dt}\ln\|W\|_F^2$ per step of SAM on b fresh samples, lazy phase, at $\|W\|_F^2$ = `norm2`; 0: small steps,
    $2\eta\rho^2q/d$, from $2\eta\rho^2$ to $2\eta\rho^2/d$.

    With $S=\frac1b\sum xx^\top$, the error e of length τ and $g=Se$ the perturbation adds $R\hat g$, $R=\rho\sqrt\Lambda$, to
    e, so that a step takes $2\eta(e+R\hat g)^\top S(e+R\hat g)$ from $\|W\|_F^2=d\Lambda$ and gives
    $\eta^2\rho^2R^2|S\hat g|^2$ back (what e adds there is no more than what a does, and both are left out), e stationary
    under $e\leftarrow e-kS(e+R\hat g)$, $k=\eta\Lambda$. The samples, turned, are one of squared length $Z\sim\chi^2_b$
    along e and $H\sim\chi^2_{d-1}$ across it, along which g points, and
    b − 1 that have nothing along e, so that all means are over Z and H, and $q=E\,\hat g^\top S\hat g$. Of e the root mean
    square is taken, as in `slope_spread`: of measured rates it is .996 to 1.004 in d = 20 (k from .01 to .3, b from 1 to 64),
    1.009 in d = 3 (k = .1, b = 2). Raises `InputError` where no τ is stationary, from $k(b+d+1)=2b$ on.
    """
    points, mass = product_rule(chi_squared(batch, _LENGTHS), chi_squared(dim - 1, _LENGTHS))
    along, rest = points.T
    both, stiffness = along + rest, step_size * norm2 / dim
    share = (batch - 1) * rest / both  # (of the others, along ĝ)
    length = np.sqrt(along * both)
    # E of e⊤Sĝ, ĝ⊤Sĝ and, of S², e⊤·e, e⊤·ĝ, ĝ⊤·ĝ, at |e| = 1.
    pull, kick = float(mass @ length) / batch, float(mass @ (both + share)) / batch
    own = (batch + dim + 1) / batch
    mixed = float(mass @ (length * (both + share))) / batch**2
    free = float(mass @ (both**2 + 2 * (batch - 1) * rest + share * (batch + dim - 1))) / batch**2
    # τ over R: x² + x pull = ½k(x² own + 2x mixed + free).
    square, linear, constant = 1 - stiffness * own / 2, pull - stiffness * mixed, stiffness * free / 2
    if square <= 0:
        raise InputError(
            f"step_size is {step_size:g}, beyond the least-squares stability limit {2 * dim / (norm2 * own):.3g}: give a "
            "smaller step size"
        )
    x = (np.sqrt(linear**2 + 4 * square * constant) - linear) / (2 * square)
    back = step_size * radius**2 / 2 * free
    return float(2 * step_size * radius**2 / dim * (x**2 + 2 * x * pull + kick - back))


def fall_time(
    radius: float,
    step_size: float,
    width: int,
    target_norm: float,
    dim: int,
    covariance: np.ndarray | None = None,
    batch: int = 1,
) -> float:
    r"""Steps within which the lazy phase ends: twice `lazy_fall` over the rate at the published start; inf if none falls.

    Twice, as the rate falls on the way, by up to the factor at which it starts above $2\eta\rho^2$. Batches of several
    samples, and with their `covariance` (d, d) all training inputs in each step: at the rate of small steps, the least.
    Directions without inputs never fall and are left out. Raises `InputError` beyond the least-squares stability limit
    of single samples, where these are used.
    """
    if covariance is not None:
        values = np.linalg.eigvalsh(covariance)
        rate = full_batch_decay_rate(radius, step_size, float(np.sum(1 / values[values > _NULL * values[-1]])))
    elif batch > 1:
        rate = batch_decay_rate(radius, step_size, dim, batch)
    else:
        rate = decay_rate(radius, step_size, width, 1.0, dim)
    return 2 * lazy_fall(width, dim, target_norm) / rate if rate > 0 else float("inf")


def full_batch_fall(radius: float, step_size: float, covariance: np.ndarray, gram: np.ndarray, steps: float) -> float:
    r"""Change of $\ln\|W\|_F^2$ over a run of full-batch SAM in the lazy phase ($\|W\|^2\gg d\|a\|^2$).

    At the fitted labels the error chatters, $e\to-e$, along the top eigenvector of $G\hat H$, whose eigenvalue is that of
    $A=\hat H^{1/2}G\hat H^{1/2}$: with $c=\lambda_{\max}(A)$ and r the reach of the perturbation, $|e|=\eta cr/(2-\eta c)$,
    so that a step takes $2\eta\rho^2c\,(\frac2{2-\eta c})^2$ from $\|W\|_F^2$. c falls until the next eigenvalue is level
    with it and falls with it: with U (d, k) the eigenvectors that are level, $H_U=U^\top\hat HU$ and $N=UH_U^{-1}U^\top$,
    $$\frac{(2-\eta c)^2}{4c}\dot c=-\frac{2\eta\rho^2}{\mathrm{tr}H_U^{-1}},\qquad
    \frac{dA}{dc}=\tfrac12(N\hat H+\hat HN),\qquad\frac{d\|W\|_F^2}{dc}=\mathrm{tr}H_U^{-1}.$$
    U turns, unless G and Ĥ have their eigenvectors in common. For $\eta c\to0$, Ĥ = I and G ∝ I the rate is $2\eta\rho^2/d$.

    Args: ρ, η, covariance Ĥ of the inputs (d, d), $G=W^\top W$ at the start (d, d), steps.
    Takes about a second in d = 20, a minute in d = 100.
    Raises `InputError` beyond ηc = 2.
    """
    values, vectors = np.linalg.eigh(covariance)
    values = np.where(values > _NULL * values[-1], values, 0.0)
    root = np.sqrt(values)
    shape = root[:, None] * (vectors.T @ gram @ vectors) * root
    levels = np.linalg.eigvalsh(shape)
    top = float(levels[-1])
    if step_size * top >= 2:
        raise InputError(f"step_size is {step_size:g}, beyond the limit {2 / top:.3g}: give a smaller step size")

    def clock(log_level: float) -> float:
        r"""$\int(2-\eta c)^2/(4c)\,dc$ at ln c."""
        reach = step_size * np.exp(log_level)
        return float(log_level - reach + reach**2 / 8)

    def engaged(state: np.ndarray, count: int) -> tuple[np.ndarray, float]:
        """The eigenvectors whose eigenvalues of A/c are 1, and the largest other one."""
        found, along = np.linalg.eigh(state[2:].reshape(shape.shape))
        order = np.argsort(np.abs(found - 1))
        return along[:, order[:count]], float(np.max(found[order[count:]], initial=0.0))

    def rate(_: float, state: np.ndarray, count: int) -> np.ndarray:
        """Of ln c, ‖W‖²/c and A/c, in the clock 2ηρ²t."""
        level, _ = engaged(state, count)
        inverse = np.linalg.inv(level.T @ (values[:, None] * level))
        across = level @ inverse @ level.T * values
        size = float(np.trace(inverse))
        moved = np.concatenate([[1.0, size], (across + across.T).ravel() / 2])
        moved[1:] -= state[1:]
        return np.asarray(-4 / (2 - step_size * np.exp(state[0])) ** 2 / size * moved)

    def below(_: float, state: np.ndarray, count: int) -> float:
        return 1 - _LEVEL - engaged(state, count)[1]

    below.terminal = True  # type: ignore[attr-defined]
    state = np.concatenate([[np.log(top), np.trace(gram) / top], shape.ravel() / top])
    left, count, seen = 2 * step_size * radius**2 * steps, int(np.sum(levels > (1 - _LEVEL) * top)), np.sum(values > 0)
    while count < seen and left > 0:
        run = scipy.integrate.solve_ivp(
            rate, (0, left), state, "RK45", events=below, args=(count,), rtol=_LEVEL / 100, atol=_LEVEL / 100
        )
        state, left = run.y[:, -1], left - float(run.t[-1])
        count = max(count + 1, int(np.sum(np.linalg.eigvalsh(state[2:].reshape(shape.shape)) > 1 - 2 * _LEVEL)))
    whole = float(np.log(np.trace(gram)))
    if left <= 0:
        return float(state[0] + np.log(state[1])) - whole
    # All directions are engaged: A/c is 1 on what has inputs, and stays so.
    total = float(np.sum(1 / values[values > 0]))
    goal = clock(state[0]) - left / total
    level = scipy.optimize.brentq(lambda x: clock(x) - goal, goal, state[0])  # ln c ≥ clock below ηc = 2
    with np.errstate(divide="ignore"):
        unseen = np.log(np.trace(vectors[:, values == 0].T @ gram @ vectors[:, values == 0]))
    return float(np.logaddexp(level + np.log(total), unseen)) - whole


def _inner_growths(ratio: float, dim: int, batch: int) -> np.ndarray:
    r"""Coefficients (2, 3) of 1, ρ, ρ² in the growth of w² and a² per 2ηρ, inside ℓ' = 0, wa = 1, at the ratio w²/a²."""
    w2, a2 = np.sqrt(ratio), 1 / np.sqrt(ratio)
    y, density = gauss_legendre(max(0.0, np.sqrt(batch) - _FARTHEST), np.sqrt(batch) + _FARTHEST, _ALONG_ERROR)
    density = density * np.exp((batch - 1) * np.log(y / np.sqrt(batch)) - (y**2 - batch) / 2)
    points, mass = product_rule((y**2, density / density.sum()), chi_squared(dim - 1, _LENGTHS))
    Y, H = points.T
    first, length2 = Y / batch, Y * (Y + H) / batch**2  # e₁ᵀSe₁, e₁ᵀS²e₁
    third = Y * ((Y + H) ** 2 + (batch - 1) * H) / batch**3  # e₁ᵀS³e₁, averaged over the rest of the samples
    D = np.sqrt(w2 * first**2 + a2 * length2)
    shared = first * length2 / D**2
    of_w = D, -w2 * first - shared, w2 * first * shared / D
    of_a = D, -shared - a2 * (a2 * third + w2 * first * length2) / D**2, a2 * first * third / D**3
    return np.array([of_w, of_a]) @ mass


def _reach(ratio: float, dim: int, batch: int) -> tuple[float, float]:
    """The radius at which w² stops growing, and the growth of a² there over that of small radii; 0 at the collapse."""
    (free, linear, square), other = _inner_growths(ratio, dim, batch)
    radius = 2 * free / (np.sqrt(linear**2 - 4 * free * square) - linear)
    return float(radius), float(other @ radius ** np.arange(3) / free)


def collapse_radius(target_norm: float, dim: int, batch: int = 1) -> float:
    r"""ρ_c: the largest radius at which chattering holds the aligned state θ = θ*; beyond it the network collapses to 0
    (at first: `theory.linear.sam_fate.share_left`), and below it from starts that are too small (`fits` there).

    SAM on `batch` fresh samples b, small step size; proportional to $\sqrt{\|\theta^*\|}$. Of one aligned neuron $W=we_1^\top$
    and a inside θ = θ*, with $S=\frac1b\sum xx^\top$ and $D^2=w^2(e_1^\top Se_1)^2+a^2e_1^\top S^2e_1$, both layers stop
    growing at ρ_c:
    $$E\Big(\|\theta^*\|-\tfrac{\rho w^2}De_1^\top Se_1\Big)g=0,\qquad E\Big\{\|\theta^*\|g-\tfrac{\rho a^2}De_1^\top S\Big(
    \tfrac{w^2e_1e_1^\top+a^2I}D-\tfrac{\rho\|\theta^*\|e_1^\top Se_1}{D^2}I\Big)S^2e_1\Big\}=0,\quad
    g=D-\rho\|\theta^*\|\tfrac{e_1^\top Se_1\,e_1^\top S^2e_1}{D^2},$$
    for ρ and $w^2/a^2$, which is near $1+\frac{d-1}b$. Steps that are not small collapse single samples earlier, by a share of
    about $2.2\sqrt{\eta\|\theta^*\|}$. Batches of 2 to 64 samples were lost from .92 to 1.04 times ρ_c on in d = 20, of 8 to
    64 from 1 to 1.1 times in d = 100, the large ones beyond it (one aligned neuron, η from .00025 to .004, time 60 to 100).
    Raises `InputError` for a norm that is not positive, or a dimension or batch below 1.
    """
    if not (target_norm > 0 and dim >= 1 and batch >= 1):
        raise InputError(f"target_norm is {target_norm}, dim {dim} and batch {batch}: give positive values")
    ends = np.log((batch + dim - 1) / batch) + np.log([0.8, 1.2])
    ratio = np.exp(scipy.optimize.brentq(lambda x: _reach(float(np.exp(x)), dim, batch)[1], *ends))
    return float(np.sqrt(target_norm)) * _reach(float(ratio), dim, batch)[0]


# ----------------------------------------------------------------------------- derivation


def _perturbed_residual(shown: sp.Expr) -> sp.Expr:
    """The perturbed slope at exact numbers, from the perturbed weights themselves."""
    R = sp.Rational
    first = sp.Matrix([[R(1, 2), R(-2, 3)], [R(3, 4), R(1, 5)], [R(-1, 7), R(5, 6)]])
    second, sample, target = (
        sp.Matrix([R(1, 3), R(-2, 5), R(1, 4)]),
        sp.Matrix([R(3, 2), R(-5, 4)]),
        sp.Matrix([R(4, 5), R(-1, 6)]),
    )
    steep = (first.T * second - target).dot(sample)
    values = {W: first, a: second, x: sample, theta: first.T * second, slope: steep, sign: sp.sign(steep), rho: R(1, 5)}
    values[D] = sp.sqrt(at(_LENGTH, values))
    moved, other = (at(part, values) for part in PERTURBED)
    return sp.nsimplify(sp.expand((moved.T * other - target).dot(sample) - at(shown, values)))


#: D².
_LENGTH = Inner(W * x, W * x) + Inner(a, a) * Inner(x, x)


def _average(integrand: sp.Expr) -> sp.Expr:
    """E over length R and |direction| u = |x₁|/R of a Gaussian input in `_ODD` dimensions, a polynomial in both."""
    half = sp.Rational(_ODD, 2)
    density = _R ** (_ODD - 1) * sp.exp(-(_R**2) / 2) / (2 ** (half - 1) * sp.gamma(half))
    direction = (1 - _U**2) ** sp.Rational(_ODD - 3, 2)
    inner = sp.integrate(sp.expand(integrand * direction), (_U, 0, 1)) / sp.integrate(direction, (_U, 0, 1))
    return sp.integrate(sp.expand(inner) * density, (_R, 0, sp.oo))


_R, _U, _ODD = sp.Symbol("R", positive=True), sp.Symbol("u", positive=True), 5
#: b in that dimension; |ℓ′| at ℓ′ = τx₁ and ρD, whose mean square is r².
_OVERLAP = {
    d: _ODD,
    b: sp.sqrt(sp.Rational(_ODD) / sp.pi) * sp.gamma(sp.Rational(_ODD, 2)) / sp.gamma(sp.Rational(_ODD + 1, 2)),
}
_SLOPE, _REACH = tau * _U * _R, r * _R / sp.sqrt(_ODD)


def _variance_residual(shown: sp.Expr) -> sp.Expr:
    return sp.simplify(_average((_SLOPE + _REACH) ** 2) - shown.subs(_OVERLAP))


def _balance_residual(shown: sp.Expr) -> sp.Expr:
    """Twice E|ℓ′|(|ℓ′| + ρD) less k E|x|²(|ℓ′| + ρD)², by integration over length and direction of x."""
    pull, push = _average(_SLOPE * (_SLOPE + _REACH)), _average(_R**2 * (_SLOPE + _REACH) ** 2)
    return sp.simplify(2 * pull - k * push - shown.subs(_OVERLAP))


def _spread_residual(shown: sp.Expr) -> sp.Expr:
    """It solves the balance, and `slope_spread` is this."""
    point = _OVERLAP | {k: sp.Rational(1, 20), r: 3}
    value = sp.N(shown.subs(point), 40)
    code = abs(slope_spread(0.001, 50.0, _ODD, 3.0) / float(value) - 1)
    return abs(BALANCE.subs({tau: value}).subs(point)) + (abs(value) - value) + code


def _one_step_residual(shown: sp.Expr) -> sp.Expr:
    """Decay law against whole steps, d = 10⁴ (and stationarity of the spread, in units of ηΛ), for large ρ, and in d = 5."""
    law = sp.lambdify((eta, rho, r, tau, D, d, frobenius, norm, b), shown.subs(variance, VARIANCE))
    gaps = []
    for dim, norm2, second2, radius, reach in (
        *((10_000, 1e5, 0.05, 1e-3, reach) for reach in (0.3, 0.9, 1.5)),
        (100, 10.0, 0.08, 0.1, 0.3),
        (100, 10.0, 0.5, 0.3, 0.1),
        (5, 10.0, 1.0, 0.1, 0.3),
    ):
        step_size, curvature = reach / (norm2 + dim * second2), np.sqrt(norm2 + dim * second2)
        spread = slope_spread(step_size, norm2 / dim + second2, dim, radius * curvature)
        exact, growth = one_step_decay(radius, step_size, norm2, second2, dim)
        found = law(step_size, radius, radius * curvature, spread, curvature, dim, norm2, second2, mean_overlap(dim))
        gaps += [found / exact - 1, decay_rate(radius, step_size, norm2, second2, dim) / exact - 1]
        gaps += [growth * dim / reach] if dim > 100 else []
    return sp.Float(max(float(abs(gap)) for gap in gaps))


def _collapse_residual(shown: sp.Expr) -> sp.Expr:
    scaled = shown.subs(_TARGET, 0.25).replace(_RADIUS, lambda target: sp.Float(collapse_radius(float(target), 20)))
    return scaled / collapse_radius(0.25, 20) - 1


_RADIUS, _TARGET = sp.Function(r"\rho_{c}"), sp.Symbol(r"{\|\theta^*\|}", positive=True)


def derivation() -> Derivation:
    """``derive sam``."""
    decay = r"-\frac{d}{dt}\ln\|W\|_F^2"
    steps = (
        Step("Length of the gradient over |ℓ′|", equation(D**2, _LENGTH)),
        Step("Perturbation of the first layer, s = sign ℓ′", equation(name(r"\tilde W"), PERTURBED[0])),
        Step("Perturbation of the second layer", equation(name(r"\tilde a"), PERTURBED[1])),
        Step("Perturbed slope", equation(name(r"\tilde\ell'"), PERTURBED_SLOPE), _perturbed_residual, 1e-12),
        Step(
            "Variance of the kicks, ℓ′ = τx₁, r² = ρ²ED², b = E|x₁||x|/√d",
            equation(variance, VARIANCE),
            _variance_residual,
        ),
        Step(
            "The spread of the slope is stationary in the lazy phase, k = ηΛ",
            equation(sp.Integer(0), BALANCE),
            _balance_residual,
        ),
        Step("Stationary spread", equation(tau, SPREAD), _spread_residual, 1e-13),
        Step(
            "Decay of the norm, against one step of the algorithm itself",
            equation(name(decay), DECAY),
            _one_step_residual,
            5e-3,
        ),
        Step(
            "Decay of the norm, small steps",
            equation(name(decay + r"\big|_{\eta\|W\|^2\to0}"), 2 * eta * rho**2),
            lambda shown: decay_rate(0.2, 1e-12, 1000.0, 0.0, 20) / shown.subs({eta: 1e-12, rho: 0.2}) - 1,
            1e-4,
        ),
        Step(
            "Collapse radius scales with the root of the target",
            equation(_RADIUS(_TARGET), _RADIUS(1) * sp.sqrt(_TARGET)),
            _collapse_residual,
            1e-9,
        ),
    )
    equations = {r"\tilde\ell'": PERTURBED_SLOPE, r"\tau": SPREAD, decay: DECAY}
    assumptions = (Assumption("one fresh Gaussian sample a step, clean labels"), Assumption("decay law: ‖W‖² ≫ d‖a‖²"))
    return Derivation("sam", steps, equations, assumptions, REFERENCE)
