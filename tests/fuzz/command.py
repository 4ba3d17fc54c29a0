"""The command line of generators of random cases."""

import argparse
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import chdir, contextmanager
from typing import Any

EVERY = 500  # cases between two lines of progress
# Kinds that are only counted.
HARMLESS = ("agrees", "ill-conditioned", "not captured", "not native", "refused", "skipped")


def mismatches(mismatch: Callable[[int], str | None], seeds: Iterable[int]) -> Iterator[str]:
    """Yield the error of each failing case."""
    for seed in seeds:
        found = mismatch(seed)
        if found is not None:
            yield found


def wrong_in(case_of: Callable[[int], Any], seed: int) -> str | None:
    """Run a case that notes what it has done; return what went wrong, or None."""
    case = None
    try:
        case = case_of(seed)
        case.run()
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        place = "" if isinstance(error, AssertionError) else f" at {frames[-1].filename}:{frames[-1].lineno}"
        return (
            f"case {seed}: {type(error).__name__}: {error}{place}\n    {' '.join(case.done if case else ())}"
        )
    return None


def mismatched(counts: Mapping[str, int]) -> int:
    """Return how many cases were of a kind that is a mismatch."""
    return sum(count for kind, count in counts.items() if kind not in HARMLESS)


def say_how_far(number: int, count: int) -> None:
    """Print the number of tried cases from time to time, so that a run may be ended early."""
    if (number + 1) % EVERY == 0:
        print(f"{number + 1} cases so far, {count} mismatches", file=sys.stderr, flush=True)


@contextmanager
def in_empty_folder() -> Iterator[None]:
    """Work in a folder that is removed afterwards: bad values may be names of files to write."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        yield


def run(mismatch: Callable[[int], str | None], description: str, cases: int) -> int:
    """Run many cases and print mismatches; `cases` is their default number."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--cases", type=int, default=cases)
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    arguments = parser.parse_args()
    started, count = time.perf_counter(), 0
    with in_empty_folder():
        for number in range(arguments.cases):
            for found in mismatches(mismatch, [arguments.seed + number]):
                count += 1
                print(found, flush=True)
            say_how_far(number, count)
    print(f"{arguments.cases} cases, {count} mismatches, {time.perf_counter() - started:.0f} s")
    return 1 if count else 0


def run_kinds(
    checked: Callable[..., list[tuple[str, str]]],
    shown: Callable[[int], str],
    description: str,
    every: Mapping[str, int],
) -> int:
    """Run many cases, print mismatches and count their kinds.

    For each name in `every`, every Nth case is ``checked(seed, name=True)``; the numbers are defaults of
    options. ``shown(seed)`` describes a case.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    for name, times in every.items():
        parser.add_argument(f"--{name}", type=int, default=times, metavar="N", help="every Nth case")
    arguments = parser.parse_args()
    started, counts = time.perf_counter(), Counter[str]()
    with in_empty_folder():
        for number in range(arguments.cases):
            seed = arguments.seed + number
            options = {name: bool((n := getattr(arguments, name)) and number % n == 0) for name in every}
            for kind, text in checked(seed, **options):
                counts[kind] += 1
                if kind not in HARMLESS:
                    print(f"{kind}: {text}\n  {shown(seed)}", flush=True)
            say_how_far(number, mismatched(counts))
    wrong = mismatched(counts)
    seconds = time.perf_counter() - started
    print(f"{arguments.cases} cases in {seconds:.0f} s, {wrong} mismatches; {dict(counts)}")
    return min(wrong, 1)
