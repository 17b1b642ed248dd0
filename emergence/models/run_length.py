"""How many steps a run takes, and how many can be run."""

import math

from emergence.refusal import refuse
from emergence.values import MAX_WHOLE

#: Share of a time that is rounding.
ROUNDING = 1e-12


def check_steps(steps: float, remedy: str = "raise step-size or lower time") -> None:
    """Raises `InputError` for more steps than can be counted one by one."""
    if steps > MAX_WHOLE:
        refuse(f"steps is {steps:.3g}: more than 2**53 steps cannot be run: {remedy}")


def fewest_steps(time: float, step_size: float) -> int:
    """The fewest steps of one size that last as long as `time`, at least one; a flow need not be able to run them.

    A time that is a whole number of steps but for rounding is that number.
    """
    return max(1, math.ceil(time / step_size * (1 - ROUNDING)))


def steps_in(time: float, step_size: float) -> int:
    """`fewest_steps`, to be run. Raises `InputError` as `check_steps` does."""
    check_steps(time / step_size)
    return fewest_steps(time, step_size)
