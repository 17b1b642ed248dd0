"""L23 to L25: label noise in real networks (lazy or rich, accuracy, pruning), on scikit-learn's handwritten digits.

The source shows these on CIFAR-10. What can be judged on any image is whether the noisy network leaves its own linearisation
(L23). How much accuracy label noise gains and how well pruned networks hold (L24, L25) depends on data and network: the
digits give an interval, never a verdict on CIFAR-10.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np

from dynamics.networks import (
    Compared,
    Comparison,
    ImageSet,
    LazyRich,
    LazyRichResult,
    Training,
    compare_algorithms,
    digits,
    lazy_rich,
    prune_networks,
)
from dynamics.networks.algorithms import SGD
from dynamics.networks.lazy_rich import CLEAN, NOISY
from dynamics.networks.linearised import Modes, expected_loss, modes_with
from theory.linear.label_flips import LabelFlips
from validation.figures.networks import accuracy_curves, loss_curves, pruning_curves
from validation.judge.claim import Control, Measurement, Part, claim
from validation.judge.context import Context
from validation.statistics.standard_errors import mean_and_error

#: Training images and hidden neurons of the quick preset; `full` has those of the published experiment.
QUICK = LazyRich(images=32, hidden=256, step_size=0.05, steps=1200, replicas=6, saves=12)
FULL = LazyRich(images=64, hidden=512, step_size=0.02, steps=10_000, replicas=8, saves=40)
#: What the paper reports for ResNet-18 on CIFAR-10.
_PAPER_GAIN = 0.015
_EXTRA = "scikit-learn"
_UNPRUNED = "its network before pruning, against the pruned one of plain SGD"


@lru_cache(maxsize=4)
def _lazy_rich(context: Context) -> tuple[LazyRich, LazyRichResult]:
    experiment = replace(FULL if context.full else QUICK, seed=context.seed_for("L23", "networks"))
    return experiment, lazy_rich(digits(), experiment, progress=context.within())


@claim(
    id="L23",
    title="A network on noisy labels follows its linearisation",
    statement="At the published learning rate and longer, a wide network trained with label noise stays with its "
    "linearised network "
    "on the same noisy labels; the training loss ends on the plateau that any interpolating model gives.",
    latex=r"L\to\tfrac{\tau^2(c-1)}{2c^2}\ (=0.01125\ \text{for}\ \tau=\tfrac12,\ c=10)",
    source="arXiv:2603.10397, Figure 3; plateau and control derived",
    kind="asymptotic",
    regime="fully connected network with standard parametrisation, full batch, digits; finite width through the "
    "kernel's change",
    controls=(
        "clean labels are fitted",
        "flips never hit the true class",
        "loss without the ½",
        "linearised network on clean labels as the reference",
    ),
    requires=_EXTRA,
)
def run_lazy_or_rich(context: Context) -> Iterator[Part]:
    """The plateau, the distance from the linearised network, and the first layer's displacement."""
    experiment, result = _lazy_rich(context)
    yield _plateau(experiment, result)
    yield _departure(result)
    yield _displacement(result)
    caption = (
        "Training loss against clean labels: networks, their linearisations, and what any interpolating model gives."
    )
    yield result.dataset
    yield caption, loss_curves(result.dataset)


def _late(experiment: LazyRich, result: LazyRichResult) -> np.ndarray:
    """Recorded steps of the second half."""
    steps = np.asarray(result.dataset.step)
    return steps[2 * steps >= experiment.steps]


def _plateau(experiment: LazyRich, result: LazyRichResult) -> Measurement:
    late = _late(experiment, result)
    data = result.dataset.sel(arm=NOISY).isel(time=slice(-len(late), None))
    ends = [(end[NOISY], end[CLEAN]) for end in result.ends]

    def loss(modes: Modes) -> float:
        return float(expected_loss(modes, experiment.step_size, late).mean())

    expected = np.array([loss(noisy.modes) for noisy, _ in ends])
    # The kernel moved a little during the run: theory with the kernel at its end says by how much that can matter.
    allowance = np.mean(np.abs(expected - [loss(noisy.final_modes) for noisy, _ in ends]))
    other = LabelFlips(experiment.flip_probability, 10, "other")
    seen = data.loss_train.sel(model="network").mean("time").values
    # (the prediction is made for each replica's own kernel: what scatters is the difference)
    gap, stderr = mean_and_error(seen - expected)
    predicted = float(expected.mean())
    text = "training loss against clean labels, network on noisy labels, second half"
    controls = {
        "clean labels are fitted": float(np.mean([loss(clean.modes) for _, clean in ends])),
        "flips never hit the true class": float(np.mean([loss(modes_with(x.modes, other)) for x, _ in ends])),
        "loss without the ½": 2 * predicted,
    }
    source = "the same prediction with the tangent kernel at the end of the run"
    details = {
        "any interpolating model": result.plateau,
        "not yet fitted, and noise of the steps": predicted - result.plateau,
        "kernel change": float(data.kernel_change.mean()),
    }
    return Measurement(text, predicted, predicted + gap, stderr, float(allowance), controls, source, "plateau", details)


def _distances(result: LazyRichResult) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per replica: noisy network to its own linearisation, to that on clean labels, and how far its own has moved."""
    own, others, moved = [], [], []
    last = result.dataset.isel(time=-1)
    for replica, ends in enumerate(result.ends):
        own.append(np.linalg.norm(ends[NOISY].network - ends[NOISY].linearised))
        others.append(np.linalg.norm(ends[NOISY].network - ends[CLEAN].linearised))
        moved.append(own[-1] / float(last.departure.sel(arm=NOISY)[replica]))
    return np.array(own), np.array(others), np.array(moved)


def _departure(result: LazyRichResult) -> Measurement:
    own, others, moved = _distances(result)
    estimate, stderr = mean_and_error(own / moved)
    wrong, wrong_error = mean_and_error(others / moved)
    change = result.dataset.kernel_change.sel(arm=NOISY).values
    clean, _ = mean_and_error(result.dataset.departure.sel(arm=CLEAN).isel(time=-1).values)
    norm = result.dataset.norm.sel(model="network").isel(time=-1)
    text = "distance of the noisy network from its own linearisation, over the distance moved"
    controls = {"linearised network on clean labels as the reference": Control(0.0, wrong, wrong_error)}
    source = "relative change of the tangent kernel over the run: first-order bound on the relative distance"
    details = {
        "same without label noise": clean,
        "first-layer norm, clean": float(norm.sel(arm=CLEAN).mean()),
        "first-layer norm, label noise": float(norm.sel(arm=NOISY).mean()),
    }
    return Measurement(text, 0.0, estimate, stderr, float(change.mean()), controls, source, "departure", details)


def _displacement(result: LazyRichResult) -> Measurement:
    last = result.dataset.displacement.isel(time=-1)
    network, linear = (last.sel(arm=NOISY, model=model).values for model in ("network", "linearised"))
    ratio, stderr = mean_and_error(network / linear)
    clean, clean_error = mean_and_error(network / last.sel(arm=CLEAN, model="linearised").values)
    allowed = float(result.dataset.kernel_change.sel(arm=NOISY).mean())
    text = "displacement of the first layer under label noise over that of the linearised network"
    controls = {"linearised network on clean labels as the reference": Control(1.0, clean, clean_error)}
    source = "relative change of the tangent kernel over the run"
    details = {"displacement over the initial norm": float(network.mean())}
    return Measurement(text, 1.0, ratio, stderr, allowed, controls, source, key="displacement", details=details)


@claim(
    id="L23-printed",
    title="Label noise leaves the kernel regime (as printed)",
    statement="The distance between a network on noisy labels and a linearised network on clean labels is the rich regime's.",
    latex=r"\|f-\tilde f\|/\|f-\tilde f_{\text{clean}}\|=1",
    source="arXiv:2603.10397, Figure 3 and section 4.5",
    kind="heuristic",
    regime="as L23; the published reference is trained on other labels than the network",
    controls=("half of the distance is feature learning",),
    expected="disagrees",
    requires=_EXTRA,
)
def run_lazy_or_rich_printed(context: Context) -> Iterator[Part]:
    """How much of the noisy network's distance from the linearised network on clean labels is feature learning?"""
    _, result = _lazy_rich(context)
    own, others, _ = _distances(result)
    estimate, stderr = mean_and_error(own / others)
    text = "share of the noisy network's distance from the clean linearised one that its own linearisation lacks"
    controls = {"half of the distance is feature learning": 0.5}
    source = "relative change of the tangent kernel over the run"
    yield Measurement(
        text, 1.0, estimate, stderr, float(result.dataset.kernel_change.sel(arm=NOISY).mean()), controls, source
    )


# ------------------------------------------------------------------------ accuracy and pruning


@lru_cache(maxsize=4)
def _trained(context: Context) -> tuple[ImageSet, Comparison, Compared]:
    seed = context.seed_for("L24-L25", "networks")
    if context.full:
        training = Training(epochs=40, batch=32, widths=(16, 32), seed=seed)
        comparison = Comparison(training, (0.05, 0.1, 0.2), (0.05,), replicas=8)
    else:
        comparison = Comparison(Training(epochs=8, batch=32, seed=seed), (0.1,), replicas=3)
    images = digits()
    return images, comparison, compare_algorithms(images, comparison, progress=context.within())


@claim(
    id="L24",
    title="Label noise and accuracy",
    statement="Label noise improves test accuracy by about 1.5 points (reported for ResNet-18 on CIFAR-10; here a "
    "small network on digits, an interval and no verdict).",
    latex=r"\mathrm{Acc}_{\tau}-\mathrm{Acc}_{0}\approx0.015",
    source="arXiv:2603.10397, Figure 1, left",
    kind="open",
    regime="published: ResNet-18, CIFAR-10, 160 epochs; here a small residual network, digits",
    controls=("no gain",),
    requires=_EXTRA,
)
def run_accuracy(context: Context) -> Iterator[Part]:
    """Test accuracy of each algorithm less that of plain SGD from the same initialisation, last quarter of the epochs."""
    _, comparison, compared = _trained(context)
    last = max(1, comparison.training.epochs // 4)
    accuracy = compared.dataset.test_accuracy.isel(epoch=slice(-last, None)).mean("epoch")
    for arm in (name for name in compared.networks if name != SGD):
        gain, stderr = mean_and_error((accuracy.sel(arm=arm) - accuracy.sel(arm=SGD)).values)
        text = f"test accuracy with {arm} less that of plain SGD, digits"
        source = "none: the prediction is CIFAR-10's, shown for comparison only"
        details = {"accuracy of SGD": float(accuracy.sel(arm=SGD).mean()), "epochs": comparison.training.epochs}
        yield Measurement(text, _PAPER_GAIN, gain, stderr, 0.0, {"no gain": 0.0}, source, key=arm, details=details)
    caption = "Test accuracy against epochs on the digits, mean over replicas."
    yield compared.dataset
    yield caption, accuracy_curves(compared.dataset)


@claim(
    id="L25",
    title="Label noise and pruning",
    statement="At equal pruning, networks trained with label noise are more accurate (reported for ResNet-18 on "
    "CIFAR-10; here a small network on digits, an interval and no verdict).",
    latex=r"\mathrm{Acc}_\tau(\alpha)-\mathrm{Acc}_0(\alpha)>0",
    source="arXiv:2603.10397, Figure 1, right",
    kind="open",
    regime="published: ResNet-18, CIFAR-10; here a small residual network, digits; α the share of parameters kept",
    controls=(_UNPRUNED,),
    requires=_EXTRA,
)
def run_pruning(context: Context) -> Iterator[Part]:
    """Accuracy at equal share of parameters kept, of each algorithm less that of plain SGD, mean over the shares pruned."""
    images, comparison, compared = _trained(context)
    pruned = prune_networks(images, comparison, compared)
    accuracy = pruned.accuracy_by_share.isel(share=slice(1, None)).mean("share")
    whole = pruned.accuracy_by_share.isel(share=0)
    for arm in (name for name in compared.networks if name != SGD):
        gain, stderr = mean_and_error((accuracy.sel(arm=arm) - accuracy.sel(arm=SGD)).values)
        by_share = (pruned.accuracy_by_share.sel(arm=arm) - pruned.accuracy_by_share.sel(arm=SGD)).mean("replica")
        kept = pruned.kept_by_share.values
        text = f"accuracy of the pruned network with {arm} less that of plain SGD, digits"
        controls = {_UNPRUNED: Control(0.0, *mean_and_error((whole.sel(arm=arm) - accuracy.sel(arm=SGD)).values))}
        source = "none: the source gives no number, 0 is no difference"
        details = {f"kept {k:.0%}": float(g) for k, g in zip(kept, by_share.values, strict=True)}
        yield Measurement(text, 0.0, gain, stderr, 0.0, controls, source, key=arm, details=details)
    caption = "Accuracy against the share of parameters kept (iterative feature merging), mean over replicas."
    yield pruned
    yield caption, pruning_curves(pruned)
