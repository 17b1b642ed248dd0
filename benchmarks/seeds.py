"""Does the seed matter? Run claims over many seeds and count verdicts per quantity.

    python -m benchmarks.seeds --seeds 10 E9 E10 E11 E12

A true claim must not disagree, and its controls must be rejected, whatever the seed.
"""

import argparse
from collections import Counter, defaultdict

from validation import validate


def count_verdicts(ids: list[str], seeds: range) -> dict[str, Counter[str]]:
    """Quantity → how often each verdict was given over the seeds."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for seed in seeds:
        for verdict in validate(ids or None, seed=seed).verdicts:
            found[verdict.id][verdict.verdict] += 1
        print(f"seed {seed} done", flush=True)
    return dict(found)


def main() -> None:
    """Print one line per quantity, those with anything but one verdict marked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="*", help="claim ids (default: all)")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds")
    asked = parser.parse_args()
    counts = count_verdicts(asked.ids, range(asked.first, asked.first + asked.seeds))
    for name, verdicts in counts.items():
        mark = "" if len(verdicts) == 1 else "  <- depends on the seed"
        print(f"{name:24s} {', '.join(f'{number} {word}' for word, number in verdicts.most_common())}{mark}")


if __name__ == "__main__":
    main()
