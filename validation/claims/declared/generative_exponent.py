"""M16: what labels show of each Hermite degree, and the generative exponent."""

from collections.abc import Iterator

import numpy as np
import sympy as sp

from theory import Activation, generative_exponent
from theory.core.hermite import values, z
from theory.core.lowered import lower_numpy
from theory.core.quadrature import gauss_hermite
from theory.declared.generative import LEAST, label_information
from theory.declared.target import Additive, Target
from validation.experiments.links import binary, three_valued
from validation.judge.claim import Control, Measurement, Part, claim
from validation.judge.context import Context

COST = 3

#: Links and the degrees that are judged.
_LINKS: dict[str, tuple[Target, tuple[int, ...]]] = {
    **{
        text: (Additive(Activation.parse(text), (1.0,)), degrees)
        for text, degrees in {
            "h3": (1,),
            "h4": (1, 2),
            "0.8*h3+0.6*h4": (1,),
            "0.8*h4+0.6*h5": (1,),
            "z**2*exp(-z**2)": (2, 4),
        }.items()
    },
    "three-valued": (three_valued(), (1,)),
    "binary": (binary(), (1, 3)),
}
#: Samples of a bin of labels, in two halves.
_BIN = 32


def _sampled(link: Target, degree: int, a: np.ndarray) -> tuple[float, float, float]:
    """E ζ², its error, and what bins twice as large change: means of h_k over samples with next labels, one half's times
    the other's.

    Bins are in the order of labels: neighbours differ by noise alone. What else they scatter by is that of ζ², of which all
    samples have shown one value each.
    """
    hermite = values(a[np.argsort(link.value(a[:, None], lower_numpy), kind="stable")], degree)[degree]
    products, wide = (hermite.reshape(-1, size // 2, 2).mean(axis=1).prod(axis=1) for size in (_BIN, 2 * _BIN))
    noise = float(np.mean(np.diff(products) ** 2)) / 2
    variance = noise / products.size + max(float(products.var()) - noise, 0.0) / hermite.size
    return float(products.mean()), float(np.sqrt(variance)), float(abs(products.mean() - wide.mean()))


def _without_slopes(activation: Activation, degree: int) -> float:
    """E ζ² with level sets of a polynomial weighted by the Gaussian alone."""
    points, weights = gauss_hermite(200)
    powers = np.array(sp.Poly(activation.function, z).all_coeffs(), dtype=float)
    total = 0.0
    for label, weight in zip(np.polyval(powers, points), weights, strict=True):
        roots = np.roots(np.append(powers[:-1], powers[-1] - label))
        real = roots.real[np.abs(roots.imag) < 1e-6]
        share = np.exp(-(real**2) / 2 + real.min() ** 2 / 2)
        total += weight * (share @ values(real, degree)[degree] / share.sum()) ** 2
    return float(total)


def _squared_label(link: Target, degree: int) -> float:
    """(E y²h_k)²/E y⁴, for what the best function of the label shows."""
    a = np.linspace(-9, 9, 200_001)
    weights = np.exp(-(a**2) / 2) / np.sqrt(2 * np.pi) * (a[1] - a[0])
    square = link.value(a[:, None], lower_numpy) ** 2
    return float((weights @ (square * values(a, degree)[degree])) ** 2 / (weights @ square**2))


@claim(
    id="M16",
    title="Generative exponent by level sets",
    statement="What labels show of a degree is an average over their level sets; polynomials show degree 1, or 2 if even.",
    latex=r"E\,\zeta_k^2,\ \zeta_k(y)=\frac{\sum_rp_rh_k(a_r)}{\sum_rp_r},\ p_r=e^{-a_r^2/2}/|\sigma_*'(a_r)|",
    source="definition: arXiv:2403.05529; polynomials: derived",
    kind="exact",
    regime="Gaussian inputs, labels without noise",
    controls=(
        "information exponent for the generative one",
        "level sets weighted by the Gaussian alone",
        "the squared label for the best function of it",
    ),
)
def run_generative(context: Context) -> Iterator[Part]:
    """E ζ_k² by level sets against means over samples of next labels; least degrees shown, of links of exponents 3 to 6."""
    a = context.rng("M16", "samples").standard_normal(_BIN * context.pick(160_000, 300_000))
    for name, (link, degrees) in _LINKS.items():
        found = label_information(link, max(degrees))
        for degree in degrees:
            estimate, stderr, moved = _sampled(link, degree, a)
            predicted = float(found[degree - 1]) if found[degree - 1] > LEAST else 0.0  # (rounding of the quadrature)
            wrong: dict[str, Control | float] = {"the squared label": _squared_label(link, degree)}
            if predicted == 0:  # nothing is shown: what would be, were h_k itself the label
                wrong = {"information": 1.0}
            elif isinstance(link, Additive) and link.link.is_polynomial:  # degrees below the information exponent
                wrong = {"information": 0.0}
                if degree == 1:
                    wrong["level sets"] = _without_slopes(link.link, 1)
            text = f"E ζ_{degree}², {name}"
            key = "".join(x for x in name if x.isalnum()) + f".{degree}"
            source = "labels within a bin: what bins twice as large change"
            yield Measurement(text, predicted, estimate, stderr, moved, wrong, source, key)
    for name in ("h3", "h6", "0.8*h4+0.6*h5"):
        activation = Activation.parse(name)
        least = int(np.flatnonzero(label_information(activation, 6) > LEAST)[0]) + 1
        kept = {"information": float(activation.information_exponent)}
        predicted, key = float(generative_exponent(activation)), "".join(x for x in name if x.isalnum())
        text = f"least degree that labels show, {name}"
        yield Measurement(text, predicted, float(least), 0.0, 0.0, kept, "whole numbers", f"{key}.least")
