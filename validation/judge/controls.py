"""Wrong theories that many claims judge."""

#: Names of an exponent that is off by a tenth.
TENTH = ("exponent 10 % larger", "exponent 10 % smaller")


def off_by_a_tenth(exponent: float) -> dict[str, float]:
    """An exponent off by a tenth, either way."""
    return {TENTH[0]: 1.1 * exponent, TENTH[1]: 0.9 * exponent}
