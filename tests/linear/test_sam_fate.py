"""From which starts SAM fits the labels, against the algorithm itself, and what the command says of the others."""

import numpy as np
import pytest

from theory import InputError
from theory.linear.sam import collapse_radius
from theory.linear.sam_fate import fits, lasting_radius, share_left
from theory.linear.sam_set import set_collapse_radius


def _edge(first: np.ndarray, second: np.ndarray, target: np.ndarray, top: float, **steps: int) -> float:
    """The radius from which a start is lost, by bisection."""
    low, high = 0.0, top
    for _ in range(7):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(first, second, target, middle, **steps) else (low, middle)
    return (low + high) / 2


def _fitted(first: np.ndarray, second: np.ndarray, target: np.ndarray, radius: np.ndarray, batch: int) -> np.ndarray:
    """Whether runs (r, m, d), (r, m) fit half of the target at the end of time 25/‖θ*‖, each with a radius of its own (r,)."""
    rng, size = np.random.default_rng(1), np.linalg.norm(target)
    step_size = 0.02 / ((first.shape[1] / target.size + 1 + 2 * size) * (target.size / batch + 2))
    for _ in range(int(25 / (size * step_size))):
        x = rng.standard_normal((len(first), batch, target.size))

        def gradient(W: np.ndarray, a: np.ndarray, x: np.ndarray = x) -> tuple[np.ndarray, np.ndarray]:
            slope = np.einsum("rbd,rd->rb", x, np.einsum("rmd,rm->rd", W, a) - target)
            g = np.einsum("rb,rbd->rd", slope, x) / batch
            return a[:, :, None] * g[:, None], np.einsum("rmd,rd->rm", W, g)

        up, other = gradient(first, second)
        reach = radius / np.sqrt(np.sum(up**2, axis=(1, 2)) + np.sum(other**2, axis=1))
        up, other = gradient(first + reach[:, None, None] * up, second + reach[:, None] * other)
        first, second = first - step_size * up, second - step_size * other
    return np.einsum("rmd,rm,d->r", first, second, target) > size**2 / 2


@pytest.mark.slow_for(*(f"{case}-{seed}" for case in ("10-6-1.0-1", "8-12-4.0-1", "6-3-2.0-4") for seed in range(1, 5)))
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("dim", "width", "size", "batch"), [(10, 6, 1.0, 1), (8, 12, 4.0, 1), (6, 3, 2.0, 4)])
def test_runs_are_lost_from_the_radius_at_which_the_flow_is(
    seed: int, dim: int, width: int, size: float, batch: int
) -> None:
    """A 14th below that of the flow the same start is fitted, a 14th above it is lost: far below the collapse radius."""
    rng = np.random.default_rng(seed)
    first, second = rng.standard_normal((width, dim)) / dim**0.5, rng.standard_normal(width) / width**0.5
    target, collapse = size * np.eye(dim)[0], collapse_radius(size, dim, batch)
    edge = _edge(first, second, target, collapse, batch=batch)
    assert edge < 0.85 * collapse
    radii = edge * np.array([0.93, 1.07])
    assert _fitted(np.stack([first, first]), np.stack([second, second]), target, radii, batch).tolist() == [True, False]


def test_one_neuron_on_all_inputs_is_lost_inside_the_radius() -> None:
    r"""d = 1, w = a: $\dot w=(\|\theta^*\|-\tilde w^2)\tilde w$, $\tilde w=w-\rho/\sqrt2$: it grows iff $|B|=\sqrt2w>\rho$."""
    inputs, weight = np.array([[1.0], [-1.0]]), np.array([0.5])
    for share, fitted in ((0.99, True), (1.01, False)):
        radius = share * 2**0.5 * weight[0]
        assert fits(weight[:, None], weight, np.ones(1), radius, inputs=inputs) is fitted


def test_what_whole_batches_never_see_keeps_nothing() -> None:
    """A column of W across θ* is never seen: 100 times the one that is, it holds no label beyond that one's radius."""
    inputs, second = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([0.5, 0.0])
    first = np.array([[0.5, 0.0], [0.0, 50.0]])
    for share, fitted in ((0.99, True), (1.01, False)):
        assert fits(first, second, np.array([1.0, 0.0]), share * 0.5**0.5, inputs=inputs) is fitted


@pytest.mark.parametrize("share", [1.3, 1.6, 1.9])
def test_beyond_the_collapse_radius_whole_batches_keep_a_share_of_the_target(share: float) -> None:
    r"""Descent of one neuron in one dimension on both inputs ±1, by its definition: $\theta=(\rho/\rho_c-1)^2\theta^*$."""
    first, second, radius = 1.1, 1.1, share * collapse_radius(1.0, 1)
    for _ in range(20_000):
        error = first * second - 1
        reach = radius * np.sign(error) / np.hypot(first, second)
        there = first + reach * second, second + reach * first
        slope = 0.01 * (there[0] * there[1] - 1)
        first, second = first - slope * there[1], second - slope * there[0]
    assert first * second == pytest.approx(share_left(radius, collapse_radius(1.0, 1)), abs=1e-6)


@pytest.mark.parametrize(("dim", "batch", "step_size"), [(5, 1, 0.016), (20, 4, 0.016), (2, 1, 0.004)])
def test_steps_that_are_not_small_lose_what_is_fitted(dim: int, batch: int, step_size: float) -> None:
    """Of 16 runs of one aligned neuron most are lost within time 60 a tenth of ρ_c above the radius, and few a tenth below."""
    critical, runs, rng = collapse_radius(1.0, dim, batch), 16, np.random.default_rng(0)
    edge = lasting_radius(critical, step_size, 1.0, batch)
    radius, ratio = np.repeat([edge - 0.1 * critical, edge + 0.1 * critical], runs), (1 + (dim - 1) / batch) ** 0.25
    first, second = np.zeros((2 * runs, dim)), np.full(2 * runs, 0.99 / ratio)
    first[:, 0] = ratio
    for _ in range(int(60 / step_size)):
        x = rng.standard_normal((2 * runs, batch, dim))
        there, other, reach = first, second, radius
        for last in (False, True):
            slope = np.einsum("rbd,rd->rb", x, other[:, None] * there) - x[:, :, 0]
            g = np.einsum("rb,rbd->rd", slope, x) / batch
            up, turn = other[:, None] * g, np.sum(there * g, axis=1)
            if not last:
                reach = radius / np.sqrt(np.sum(up**2, axis=1) + turn**2)
                there, other = first + reach[:, None] * up, second + reach * turn
        first, second = first - step_size * up, second - step_size * turn
    lost = (second * first[:, 0] < 0.5).reshape(2, runs).mean(axis=1)
    assert lost[0] <= 0.25
    assert lost[1] >= 0.75


def test_bad_input_is_refused() -> None:
    start = np.ones((1, 2)), np.ones(1), np.ones(2)
    with pytest.raises(InputError, match="radius is 0"):
        fits(*start, 0)
    with pytest.raises(InputError, match="batch is 0"):
        fits(*start, 0.1, batch=0)


def test_the_command_says_what_is_lost(run):
    """In 20 dimensions (collapse radius .62) two neurons at .4, and steps of .01 at .55; an expansion has nothing to lose."""
    options = ["--train-size", "0", "--steps", "20", "--replicas", "3", "--student-width"]
    lost = [
        "SAM takes 3 of 3 starts to zero before they fit the labels",
        "from about 0.49 on steps of this size lose what",
    ]
    for arguments, said in (
        (["2", "--sam-radius", "0.4"], [True, False]),
        (["60", "--sam-radius", "0.55", "--step-size", "0.01"], [False, True]),
        (["60", "--sam-radius", "0.55"], [False, False]),
        (["2", "--sam-radius", "0.7", "--linearised"], [False, False]),
    ):
        code, _, err = run("simulate", "sam", *options, *arguments)
        assert code == 0
        assert [text in err for text in lost] == said
        assert "collapses" not in err


def test_the_whole_training_set_has_a_collapse_radius(run):
    r"""That of many samples, $\sqrt{2\|\theta^*\|}$."""
    options = ["--full-batch", "--steps", "20", "--student-width", "200", "--replicas", "1", "--target-norm", "2"]
    for radius, code in (("1.9", 0), ("2.1", 2)):
        found, _, err = run("simulate", "sam", *options, "--sam-radius", radius)
        assert (found, "from 2 on SAM collapses the network to zero" in err) == (code, code == 2)


@pytest.mark.parametrize(("dim", "count"), [(6, 2), (8, 4), (6, 9)])
@pytest.mark.parametrize("seed", range(2))
def test_single_samples_of_a_set_are_lost_from_its_own_radius_on(dim: int, count: int, seed: int) -> None:
    """An aligned neuron near its labels: held a tenth below, lost a fifth above (a label that goes first leaves others)."""
    rng = np.random.default_rng(seed)
    inputs, target = rng.standard_normal((count, dim)), rng.standard_normal(dim)
    critical = set_collapse_radius(inputs, target)
    theta = np.linalg.pinv(inputs) @ (inputs @ target)
    size, radii = np.linalg.norm(theta), critical * np.array([0.9, 1.2])
    w, a = np.stack([theta, theta]) / size**0.5 * 1.4, np.full(2, 0.95 * size**0.5 / 1.4)
    step_size = 1e-3 / size
    for _ in range(40_000):
        x = inputs[rng.integers(count, size=2)]

        def gradient(w: np.ndarray, a: np.ndarray, x: np.ndarray = x) -> tuple[np.ndarray, np.ndarray]:
            seen = np.sum(x * w, axis=1)
            slope = a * seen - x @ target
            return (slope * a)[:, None] * x, slope * seen

        up, turn = gradient(w, a)
        reach = radii / np.sqrt(np.sum(up**2, axis=1) + turn**2)
        up, turn = gradient(w + reach[:, None] * up, a + reach * turn)
        w, a = w - step_size * up, a - step_size * turn
    share = a * (w @ theta) / size**2
    assert share[0] > 0.9
    assert share[1] < 0.5


def test_one_point_is_one_dimension() -> None:
    r"""Along its input θ* has one number, so that $\rho_c=\sqrt{2|\langle\theta^*,\hat x\rangle|}$, as of whole batches."""
    inputs, target = np.array([[3.0, 4.0]]), np.array([0.5, 0.0])
    assert set_collapse_radius(inputs, target) == pytest.approx((2 * 0.3) ** 0.5, rel=2e-3)
    with pytest.raises(InputError, match="across all 1 inputs"):
        set_collapse_radius(inputs, np.array([4.0, -3.0]))


def test_the_command_knows_the_span_of_few_points(run):
    """Of 5 points in 20 dimensions: starts that are lost, and a radius of the part of θ* that they see."""
    options = ["simulate", "sam", "--train-size", "5", "--steps", "20", "--replicas", "4", "--student-width"]
    code, _, err = run(*options, "2", "--sam-radius", "0.3")
    assert (code, "SAM takes 1 of 4 starts to zero" in err) == (0, True)
    code, _, err = run(*options, "60", "--sam-radius", "0.4")
    assert (code, "from 0.361 on SAM collapses the network to zero" in err) == (2, True)
    code, _, err = run(*options, "60", "--sam-radius", "0.6", "--full-batch")
    assert (code, "with so few training points it may collapse from about" in err) == (0, True)
