"""What generators of random cases share as commands: arguments, and what is printed."""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator


def mismatches(mismatch: Callable[[int], str | None], seeds: Iterable[int]) -> Iterator[str]:
    """Yield what went wrong in each case that fails."""
    for seed in seeds:
        found = mismatch(seed)
        if found is not None:
            yield found


def run(mismatch: Callable[[int], str | None], description: str, cases: int) -> int:
    """Run many cases and print what differs; `cases` is how many unless the user says."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--cases", type=int, default=cases)
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    arguments = parser.parse_args()
    started, count = time.perf_counter(), 0
    for found in mismatches(mismatch, range(arguments.seed, arguments.seed + arguments.cases)):
        count += 1
        print(found, flush=True)
    print(f"{arguments.cases} cases, {count} mismatches, {time.perf_counter() - started:.0f} s")
    return 1 if count else 0
