r"""Samples of Stiefel SGD to a risk, on average over its noise: a noisy start, and from there on the mean flow of a frame.

While little is learned, a step adds to $Z=\Theta^\top W$ noise of independent entries, and Z grows linearly, row j at rate
$r_j=\tilde a_j-\tfrac\epsilon8\ell$. What has been added by then is a Gaussian whose variance, carried back to the start, is
$$s_j=\int_0^Te^{-2r_jt}\,\tfrac\epsilon4\tfrac{\mathrm{gain}_{jj}}N\,dt=\frac{\epsilon\,\mathrm{gain}_{jj}(0)}{8r_jN}\,(1-e^{-2r_jT}),$$
gain that of `theory.quadratic.stiefel.step_drift` at G = 0. It is of the size of the start itself, 1/d at fixed ηd, so that a
risk is reached later, and by a share that does not vanish with 1/d (P = N = 3, d = 128, ηd = 0.2 of the paper's loss, risk
0.6: Riccati time 6.07(3), here 6.05, by `mean_flow` 5.46). From $Z_0+\sqrt{s}\,\xi$ on there is no noise, and so no gain:
$$\dot Z=\tilde AZ-ZZ^\top\tilde AZ-\tfrac\epsilon8Z\kappa,\quad\kappa=E\,q^2|v|^2hh^\top,\quad Z\kappa Z^\top=\mathrm{loss}.$$
Derived; for one row and one direction `theory.quadratic.stiefel.single_passage` has the noise at all times.
"""

from collections.abc import Sequence

import numpy as np
import scipy

from theory.core.curves import first_crossing
from theory.core.errors import InputError
from theory.core.streams import stream
from theory.quadratic.model import QuadraticModel, half_times
from theory.quadratic.stiefel import projected_risk, second_order

#: Riccati time between the points of a path; limit of a path in half times of the last direction, or where it starts near
#: half or above in times in which its overlap grows by e; paths at once.
_APART, _LIMIT, _TOGETHER = 0.05, 32, 512


def frame_shrinkage(Z: np.ndarray, model: QuadraticModel) -> np.ndarray:
    """Zκ of a frame's coordinates on the teachers, (…, P, N), of any width; in the units of `second_order`."""
    speed, dim, width = model.speed_factor / model.norm, model.teacher.dim, model.width
    A, G = np.diag(model.spectrum), Z @ np.swapaxes(Z, -1, -2)
    held, held2 = (np.trace(X @ G, axis1=-2, axis2=-1)[..., None, None] for X in (A, A @ A))
    outside, outside2 = np.trace(A) - held, np.trace(A @ A) - held2
    total2 = np.trace(A @ A) - 2 * speed * held + speed**2 * width
    leaning = 16 * (A @ A - A @ G @ A) + 8 * outside * A + 8 * (dim - width) * (A @ A - 2 * speed * A)
    return G @ leaning @ Z + (8 * outside2 - 8 * speed * outside + (dim - width) * (8 * speed**2 + 2 * total2)) * Z


def start_noise(model: QuadraticModel, step_size: float, until: float = np.inf) -> np.ndarray:
    r"""$s_j$ (P,): the variance of each entry of a row, which the noise until Riccati time T adds to the start's.

    Raises `InputError` where a row does not grow: the step is too large.
    """
    count, epsilon = model.teacher.width, model.riccati_rate * step_size
    speed, light = model.speed_factor / model.norm, 1e-9
    gain, _ = second_order(np.zeros((count, count)), model.spectrum, model.width, model.teacher.dim, speed)
    shrinkage = frame_shrinkage(light * np.eye(count, model.width), model)[0, 0] / light
    rate = model.spectrum - epsilon / 8 * shrinkage
    if not np.all(rate > 0):
        raise InputError(f"step_size is {step_size:g}: direction {int(np.argmin(rate)) + 1} does not grow; lower it")
    return epsilon * np.diag(gain) / (8 * rate * model.width) * -np.expm1(-2 * rate * until)


def passages(
    model: QuadraticModel,
    on_teachers: np.ndarray,
    risks: Sequence[float],
    *,
    step_size: float,
    until: float = np.inf,
    noise: float = 1.0,
    draws: int = 32,
    seed: int = 0,
) -> np.ndarray:
    r"""Riccati times (risks, n) at which Stiefel SGD from these starts has a risk, each the mean over `draws` of the noise;
    inf: never.

    Left out is what is learned when noise comes in: the first direction at $T_1\approx\log(d/N)/2\tilde a_1$, after which a
    share $e^{-2r_jT_1}$ of row j's is still to come. `until` leaves out what comes later.

    Args: on_teachers: $Z_0$, (n, P, N), of orthonormal frames. step_size: η of ½(f*−f)². noise: its variance, in that of SGD.
        draws: half of them mirror the others, so an even number.
    Raises `InputError` as `start_noise`, for an odd number of draws, and for negative noise.
    """
    if draws < 2 or draws % 2:
        raise InputError(f"draws is {draws!r}: give an even number, 2 or more")
    if noise < 0:
        raise InputError(f"noise is {noise!r}: give a variance, 0 or more")
    count, width = model.teacher.width, model.width
    spread = np.sqrt(noise * start_noise(model, step_size, until))[:, None]
    half = spread * stream(seed, "noise of a passage").standard_normal((len(on_teachers), draws // 2, count, width))
    starts = (on_teachers[:, None] + np.concatenate([half, -half], axis=1)).reshape(-1, count, width)
    parts = np.array_split(starts, -(-len(starts) // _TOGETHER))
    found = np.concatenate([_reach(model, part, np.asarray(risks), step_size) for part in parts], axis=1)
    return found.reshape(len(risks), len(half), draws).mean(axis=2)


def _reach(model: QuadraticModel, starts: np.ndarray, levels: np.ndarray, step_size: float) -> np.ndarray:
    """First times of the flow of frames, (levels, n)."""
    epsilon, a = model.riccati_rate * step_size, model.spectrum[:, None]
    slowest = float(1 / (2 * model.spectrum[: model.width].min()))
    horizon = _LIMIT * max(slowest, *half_times(model.spectrum, model.teacher.dim, model.width)[: model.width])

    def rate(_: float, flat: np.ndarray) -> np.ndarray:
        Z = flat.reshape(starts.shape)
        growth = a * Z - Z @ (np.swapaxes(Z, -1, -2) @ (a * Z))
        return (growth - epsilon / 8 * frame_shrinkage(Z, model)).ravel()

    def risks(flat: np.ndarray) -> np.ndarray:
        Z = flat.reshape(*flat.shape[:-1], *starts.shape)
        return projected_risk(model.spectrum, Z @ np.swapaxes(Z, -1, -2))

    def above(_: float, flat: np.ndarray) -> float:
        return float(risks(flat).max() - levels.min() * (1 - 1e-6))

    above.terminal = True  # type: ignore[attr-defined]
    times = np.arange(0.0, horizon, _APART)
    path = scipy.integrate.solve_ivp(
        rate, (0.0, horizon), starts.ravel(), "DOP853", t_eval=times, events=above, rtol=1e-6, atol=1e-8
    )
    last = path.y_events[0].reshape(-1, starts.size)  # (the last passage, too; none where a path never gets there)
    found, states = np.append(path.t, path.t_events[0]), np.vstack([path.y.T, last])
    return np.stack([first_crossing(found, risks(states).T, level, falling=True) for level in levels])
