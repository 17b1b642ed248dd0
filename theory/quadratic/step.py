r"""How far a finite step size moves the learning times of an ordinary quadratic student, to second order.

Plain SGD on ½(f*−f)² with $f=x^\top Sx-\mathrm{tr}S$, $S=WW^\top$, is $W\leftarrow(I+2\eta q(xx^\top-I))W$ with
$q=f_*-f$. With $B=\mathsf M-S$ the mean of one step is, exactly,
$$E\,\Delta S=4\eta(BS+SB)+4\eta^2\big[8(B^2S+SB^2)+16BSB+2\|B\|^2S+8\,\mathrm{tr}(BS)B+8\,\mathrm{tr}(S)B^2
+8\,\mathrm{tr}(B^2S)I+2\|B\|^2\mathrm{tr}(S)I\big],$$
derived by the moments of Gaussian quadratic forms (cumulants $2^{n-1}\sum\mathrm{tr}$ over cyclic orders). The last two terms
feed the d − P directions outside the teacher, whose mass comes back through tr S: the reason why ηd must be small.
"""

from collections.abc import Callable

import numpy as np
import scipy

from theory.core.errors import InputError
from theory.quadratic.model import QuadraticModel

#: Directions up to which the integrator may be implicit: its Jacobian has P⁴ entries.
_IMPLICIT = 30
#: Step size times squared norm of the start, beyond which no step goes down.
_LARGEST_MASS = 1e3


def mean_step(S: np.ndarray, M: np.ndarray, step_size: float) -> np.ndarray:
    """E ΔS of one step of size η on ½(f*−f)², σ = z² − 1, for symmetric S and M of one shape (n, n)."""
    B = M - S
    square, identity = B @ B, np.eye(len(S))
    norm2, trace = np.trace(square), np.trace(S)
    second = 8 * (square @ S + S @ square) + 16 * B @ S @ B + 2 * norm2 * S + 8 * np.trace(B @ S) * B
    second = second + 8 * trace * square + (8 * np.trace(square @ S) + 2 * norm2 * trace) * identity
    return 4 * step_size * (B @ S + S @ B) + 4 * step_size**2 * second


def reduced_rate(state: np.ndarray, model: QuadraticModel, step_size: float) -> np.ndarray:
    """dS/dt on the teacher directions and of the mass outside, spread evenly over d − P light directions, both (P² + 1,).

    `state`: S there, row after row, and the mass. What the outside loses by its own size, 8·mass²/(d − P), is left out.
    """
    count = model.teacher.width
    S, outside = state[:-1].reshape(count, count), state[-1]
    M, rest = np.diag(model.teacher.a), model.teacher.dim - count
    if step_size == 0:
        return np.append((4 * ((M - S) @ S + S @ (M - S))).ravel(), 0.0)
    B = M - S
    square = B @ B
    feed = 8 * float(np.sum(square * S)) + 2 * float(np.trace(square)) * (float(np.trace(S)) + outside)
    within = mean_step(S, M, step_size) / step_size
    # `mean_step` knows the teacher block's trace only: the outside mass enters tr S in two more terms.
    within = within + 4 * step_size * outside * (8 * square + 2 * np.trace(square) * np.eye(count))
    grown = 4 * step_size * (2 * float(np.trace(square)) * outside + rest * feed)
    return np.append(within.ravel(), grown)


def fitted_shift(
    model: QuadraticModel,
    on_teachers: np.ndarray,
    outside: float,
    fitted: np.ndarray,
    step_size: float,
    t_end: float,
    batch: int = 1,
) -> np.ndarray:
    r"""By how much the second-order drift moves the times at which $S_{jj}$ reaches half of $a_j$, shape (P,).

    Args:
        model: with speed factor 1. on_teachers: $\Theta^\top W$ at time 0, (P, m). outside: mass $\mathrm{tr}\,S$ outside
            the teacher directions. fitted: those times of the flow without a second order and without what is outside,
            (P,), in closed form: integrated, S of a student narrower than its teacher would lose its rank to rounding.
            step_size, t_end: of ½E(f*−f)², common time. batch: divides the second order.

    Fluctuations are left out, of the same order in ηd; so the shift serves as an allowance, not as a prediction.
    Returns nan where a direction does not get there. Raises `InputError` if the mean drift cannot be followed: from a start
    that is too far out, or at too large a step.
    """
    scale, count = model.second_moment / 2, model.teacher.width  # another multiple of z² − 1 scales time and step alike
    mass = float(np.sum(on_teachers**2)) + outside
    if not step_size * scale * mass < _LARGEST_MASS:
        raise InputError(
            f"the start has squared norm {mass:.3g}: no step of {step_size:g} goes down from there; start smaller"
        )

    def above(j: int) -> Callable[[float, np.ndarray], float]:
        return lambda _, state: float(state[j * (count + 1)] - model.teacher.a[j] / 2)

    # In units of the end: an integrator's smallest step is one of time's digits, and its events' error absolute.
    found = scipy.integrate.solve_ivp(
        lambda _, state: t_end * scale * reduced_rate(state, model, step_size * scale / batch),
        (0.0, 1.0),
        np.append((on_teachers @ on_teachers.T).ravel(), outside),
        "LSODA" if count <= _IMPLICIT else "DOP853",
        events=[above(j) for j in range(count)],
        rtol=1e-7,
        atol=1e-12,
    )
    if not found.success:
        raise InputError(f"step_size is {step_size:g}: its mean drift cannot be followed: lower it")
    reached = np.array([times[0] if times.size else np.nan for times in found.t_events]) * t_end
    return np.where(np.isfinite(fitted), reached - fitted, np.nan)
