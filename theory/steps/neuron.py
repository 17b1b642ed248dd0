r"""One student neuron as a function of $r=\|v\|^2$ and $h=\langle v,x\rangle$, and how a gradient step moves it.

A neuron's output is $F(r,h)$; for the 2-homogeneous student $F = r\,\sigma(h/\sqrt r)$. By the chain rule
$\nabla_vF = 2F_r\,v + F_h\,x$, so a gradient step on $\tfrac12(f_*-f)^2$ with residual $\delta=f-f_*$ is
$v\leftarrow(1-2\eta\delta F_r)\,v-\eta\delta F_h\,x$ (arXiv:2504.19983, section 2.2: plain SGD, both layers at once).
"""

from dataclasses import dataclass

import sympy as sp

r, h = sp.symbols("r h", positive=True)
z = sp.Symbol("z", real=True)
_sigma = sp.Function(r"\sigma")


@dataclass(frozen=True)
class Neuron:
    """Output and its two partial derivatives, in terms of r, z = h/√r, σ(z) and σ'(z).

    Attributes:
        output: F. along_self: 2F_r, the coefficient of v. along_input: F_h, the coefficient of x.
    """

    output: sp.Expr
    along_self: sp.Expr
    along_input: sp.Expr


#: Stand-ins for σ(z) and σ'(z) in `Neuron`'s expressions.
value, slope = sp.symbols("sigma_z dsigma_z", real=True)


def two_homogeneous() -> Neuron:
    r"""$F = r\,\sigma(h/\sqrt r)$, differentiated."""
    output = r * _sigma(h / sp.sqrt(r))
    return Neuron(*[_in_z(x) for x in (output, 2 * sp.diff(output, r), sp.diff(output, h))])


def row() -> Neuron:
    r"""$F=\sigma(h)$, a row of a committee: its step is along the input alone."""
    return Neuron(value, sp.Integer(0), slope)


def _in_z(expression: sp.Expr) -> sp.Expr:
    """Substitute h = z√r and name σ(z), σ'(z)."""
    at_z = expression.subs(h, z * sp.sqrt(r)).doit()
    at_z = at_z.replace(sp.Subs, lambda body, old, new: slope).replace(sp.Derivative, lambda *args: slope)
    return sp.simplify(at_z.replace(_sigma, lambda argument: value))
