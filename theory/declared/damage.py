r"""What steps of finite size cost a schedule: when a step is large matters, not only how large.

In the sum clock t = Σ η the overlap of one direction follows $\dot u=f(u)$; a step's shrinkage $\eta^2K$, variance
$\eta^2N$ and length change the remaining time $\int_u^{u_1}dv/f$. To first order in the step sizes (Itô's formula, derived)

$$\text{mean delay}=\int_0^T\eta(t)\Big[\frac{K+\frac12ff'}f+\frac{Nf'}{2f^2}\Big]dt,\qquad
\text{variance of the passage}=\int_0^T\eta(t)\frac N{f^2}dt$$

at u(t), but for how far the last step goes beyond $u_1$ (`theory.declared.passage`): the weights fall from the start on, as
$(T-t)^{J/(J-2)}$ and faster on a plateau, so that a late step harms less than an early one. f, K and N are means over the
sample: with $\langle\theta,x\rangle=uz+\sqrt{1-u^2}q$, ψ the rule's coefficient of x and ρ by how much it lengthens the row
(`theory.declared.one_direction`), $f=E\psi\sqrt{1-u^2}q$,
$K=\frac12uE\psi^2(q^2+d-2)+\sqrt{1-u^2}E\rho\psi q$, $N=(1-u^2)E\psi^2q^2-f^2$.
"""

from dataclasses import dataclass

import numpy as np

from theory.core.arguments import check_whole
from theory.core.errors import InputError
from theory.core.lowered import lower_numpy
from theory.core.quadrature import gauss_hermite, gauss_legendre
from theory.declared.model import DeclaredModel
from theory.declared.one_direction import psi_and_rho
from theory.declared.rule import Momentum
from theory.declared.target import Additive

#: Points for z and q each, more where σ or the link is steep (exact for polynomial ψ up to degree 40); panels in u, and their
#: points; step of f'.
_NODES, _PANELS, _POINTS, _DIFFERENCE = 40, 24, 6, 1e-5


@dataclass(frozen=True, eq=False)
class Damage:
    """Along a passage, over points u of an integral (n,).

    Attributes:
        clock: t at which the flow is there. length: of the passage, T. spans: dt of each point. delay, variance: weights of η.
    """

    clock: np.ndarray
    length: float
    spans: np.ndarray
    delay: np.ndarray
    variance: np.ndarray

    def of(self, sizes: np.ndarray) -> tuple[float, float]:
        """Mean delay and variance of the passage's clock, of step sizes (steps,) that reach its end.

        Raises `InputError` if they end before.
        """
        ends = np.cumsum(sizes)
        if ends[-1] < self.length:
            raise InputError(f"step sizes sum to {ends[-1]:.4g}, the passage takes {self.length:.4g}: give more steps")
        at = np.interp(self.clock, ends - sizes / 2, sizes) * self.spans
        return float(at @ self.delay), float(at @ self.variance)


def damage(model: DeclaredModel, start: float, level: float) -> Damage:
    """Of the passage of u from `start` to `level`: weights by quadrature over z, q and u, for smooth σ and link.

    Raises `InputError` for a model that has no ψ, overlaps out of range, and where the drift is not positive all the way.
    """
    if not 0 < start < level < 1:
        raise InputError(f"overlaps are {start!r} and {level!r}: give 0 < start < level < 1")
    edges = np.geomspace(start, level, _PANELS + 1)
    u, weights = (x.ravel() for x in gauss_legendre(edges[:-1], edges[1:], _POINTS))
    f, shrinkage, variance = step_means(model, u)
    slope = (step_means(model, u + _DIFFERENCE)[0] - step_means(model, u - _DIFFERENCE)[0]) / (2 * _DIFFERENCE)
    if not np.all(f > 0):
        raise InputError(f"drift is {f.min():.3g} on the way: the direction is not found; start above the barrier")
    spans = weights / f
    # The flow's clock at each point: all spans before it, and half its own.
    clock = np.cumsum(spans) - spans / 2
    delay = (shrinkage + f * slope / 2) / f + variance * slope / (2 * f**2)
    return Damage(clock, float(spans.sum()), spans, delay, variance / f**2)


def step_means(model: DeclaredModel, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """f, K and N at overlaps u, each (n,).

    Raises `InputError` for a target of more than one direction, for label noise, for momentum, whose lag counts at this order,
    too, and as `psi` does.
    """
    if model.target.count != 1:
        raise InputError(f"target has {model.target.count} directions: the damage is that of one")
    if isinstance(model.rule, Momentum) and model.rule.beta:
        raise InputError(
            f"rule is momentum of beta {model.rule.beta:g}: its lag delays as much as the length of a step does, and is "
            "not known here; use a rule without memory"
        )
    if model.rule.noise:
        raise InputError(
            f"noise is {model.rule.noise:g}: the damage is that without label noise, which adds to K and N"
        )
    d, rows = model.inputs.dim, []
    check_whole(2, dim=d)
    label = model.target.link.gaussian(_NODES) if isinstance(model.target, Additive) else gauss_hermite(_NODES)
    own = model.student.activation.gaussian(_NODES)
    (points, weights), (beside, chances) = max(own, label, key=lambda rule: rule[0].size), label
    z, q = np.meshgrid(points, beside, indexing="ij")
    both = np.outer(weights, chances)
    for one in u:
        rest = np.sqrt(1 - one**2)
        labels = np.asarray(model.target.value((one * z + rest * q)[..., None], lower_numpy))
        steps, stretch = psi_and_rho(model.student, model.loss, model.rule, labels, z, float(d))
        f = float(np.sum(both * steps * rest * q))
        square = both * steps**2
        shrinkage = one * np.sum(square * (q**2 + d - 2)) / 2 + rest * np.sum(both * stretch * steps * q)
        rows.append((f, float(shrinkage), rest**2 * float(np.sum(square * q**2)) - f**2))
    return tuple(np.array(rows).T)
