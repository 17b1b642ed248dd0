"""M12, M14, M15: which exponent a rule sees, by the growth with d of the samples until one direction is found."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from theory.declared.rule import Rule
from validation.experiments.links import Anew
from validation.experiments.passages import (
    RULES,
    Passages,
    case_of,
    run_case,
    run_points,
    theory_slope,
)
from validation.judge.claim import Control, Measurement, Part, claim, computed_by
from validation.judge.context import Context

COST = 15

_LEFT_OUT = computed_by(Passages.left_out, "second order in the step size, and |x|² of d + 6 for d")


def _slope(name: str, found: Passages, asymptotic: str, wrong: Mapping[str, Control | float]) -> Measurement:
    slope, stderr = found.mean_slope()
    span = f"d = {found.x[0]:g} … {found.x[-1]:g}"
    details = {
        "exponent, d → ∞": asymptotic,
        "runs that found it": found.found,
        **{f"steps at {x:g}": float(n) for x, n in zip(found.x, np.exp(found.medians()[0]), strict=True)},
    }
    return Measurement(
        f"d ln n / d ln d of samples until |u| > 0.4, {name}, {span}",
        found.theory(),
        slope,
        stderr,
        found.left_out(),
        wrong,
        _LEFT_OUT,
        name.replace(" ", "-"),
        details,
    )


@claim(
    id="M12",
    title="Normalised SGD does not know the information exponent",
    statement="At batch 1 a normalised gradient has the label's sign for the label: d samples for odd, d ln d for even links.",
    latex=r"\psi=\mathrm{sgn}(y\sigma'(z))\sqrt d/|x|,\quad n\asymp d\ (\nu_1\ne0),\ d\ln d\ (\nu_1=0<\nu_2)",
    source="derived; arXiv:2402.03220 for transformed labels",
    kind="asymptotic",
    regime="one row on the sphere, batch 1, a share 1/4 of the largest step size",
    controls=("information exponent kept, at these sizes", "d^{3/2}"),
)
def run_normalised(context: Context) -> Iterator[Part]:
    """Three-valued and even labels, information exponents 3 and 4; h₃ and h₄ with the full preset."""
    for link in ("three-valued", "even", "h3", "h4") if context.full else ("three-valued", "even"):
        dims = (128, 512, 2048) if context.full or link == "three-valued" else (128, 512)
        odd = link in ("three-valued", "h3")
        replicas = context.pick(48 if odd else 400, 64 if odd else 400)  # (an even link's times scatter the more)
        found = run_case(case_of("normalised", link), dims, replicas, context.seed_for("M12", link))
        wrong = {"information": theory_slope(case_of("sgd", link), dims)}
        if odd:  # (At these sizes a logarithm is no less than a third of a power.)
            wrong["d^{3/2}"] = 1.5
        yield _slope(link, found, "1" if odd else "1, and ln d", wrong)


@claim(
    id="M14",
    title="A sample used twice reaches the generative exponent",
    statement="A look-ahead on the sample needs d samples, alternating layers d ln d, where the information exponent is 3.",
    latex=r"n\asymp d\ (\text{look-ahead }2/d),\quad n\asymp\eta_2^{-2}d\ln d\ (\text{second step }\eta_2\gg d^{-1/2})",
    source="arXiv:2402.03220, arXiv:2510.21020; finite sizes derived",
    kind="asymptotic",
    regime="one row on the sphere, three-valued labels, second layer begun anew at every step",
    controls=("information exponent kept, at these sizes", "samples in inverse proportion to the second layer's step"),
)
def run_reuse(context: Context) -> Iterator[Part]:
    """Slopes in d of both rules, and in the second layer's step."""
    replicas = context.pick(48, 64)
    for rule, dims in {"reuse": (256, 1024), "alternating": (128, 512)}.items():
        count = replicas if rule == "reuse" else 96  # (its logarithms lie nearer to the control)
        found = run_case(case_of(rule, "three-valued"), dims, count, context.seed_for("M14", rule))
        wrong = {"information": theory_slope(case_of("sgd", "three-valued"), dims)}
        yield _slope(rule, found, "1" if rule == "reuse" else "1, and ln d", wrong)
    base, dim, steps = case_of("alternating", "three-valued"), 256, (1.0, 3.0)
    cases = [replace(base, rule=_second(step)) for step in steps]
    # (Step sizes of rows in proportion to those of the second layer, so that the rule is one code.)
    ratio = cases[-1].step_size(dim) / steps[-1]
    points = [(case, dim, ratio * step) for case, step in zip(cases, steps, strict=True)]
    found = run_points(steps, points, replicas, context.seed_for("M14", "second layer"))
    slope, stderr = found.mean_slope()
    yield Measurement(
        f"d ln n / d ln η₂ of alternating layers, η₂ = {steps[0]:g} … {steps[-1]:g}, d = {dim}",
        found.theory(),
        slope,
        stderr,
        found.left_out(),
        {"samples": -1.0},
        _LEFT_OUT,
        "second-layer",
    )


def _second(step: float) -> Callable[[float], Rule]:
    return lambda dim: Anew(1.0, ratio=step)


@claim(
    id="M15",
    title="Binary labels: no rule of the table helps",
    statement="Two values of a label are an affine function of it, so that what rules do to labels changes no exponent.",
    latex=r"y\in\{\pm1\}:\ \psi(y,z)=\psi_0(z)+y\psi_1(z)\ \Rightarrow\ \nu_1=\nu_2=0\ \text{with}\ E\,ya=E\,yHe_2=0",
    source="derived; generative exponent: arXiv:2403.05529",
    kind="asymptotic",
    regime="one row on the sphere, batch 1, binary labels of information exponent 3",
    controls=("exponent 1 for every link",),
)
def run_binary(context: Context) -> Iterator[Part]:
    """ν₁ and ν₂ of six rules by quadrature; the slope of normalised SGD, and of all others with the full preset."""
    dim = 4096
    for name in RULES:
        # (Plain SGD is not helped by other labels either: the control has what a normalised step would see in its place.)
        cases = case_of(name, "binary"), case_of("normalised" if name == "sgd" else name, "three-valued")
        drifts = [case.drift(dim) for case in cases]
        lower, helped = (float(np.abs(x.coefficients[:2] / np.sqrt(x.square)).max()) for x in drifts)
        text = f"largest of |ν₁|, |ν₂| over the size of ψ, {name}, binary labels"
        yield Measurement(text, 0.0, lower, 0.0, 1e-9, {"exponent": Control(helped)}, "quadrature", f"{name}.lower")
    for name in ("normalised", "alternating", "reuse", "clipped", "sgd") if context.full else ("normalised",):
        dims = (64, 128, 256) if context.full else (48, 144)
        case = case_of(name, "binary")
        found = run_case(case, dims, context.pick(32, 48), context.seed_for("M15", name))
        wrong = {"exponent": theory_slope(case_of("normalised", "three-valued"), dims)}
        yield _slope(name, found, "2", wrong)
