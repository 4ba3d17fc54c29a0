"""Many small cases in one test, which goes over all of them and reports each that fails."""

import inspect
import itertools
from collections.abc import Callable, Iterable
from functools import partial, wraps
from typing import Any

import pytest

__all__ = ["every", "run_all"]

FAILURES = (Exception, pytest.fail.Exception)


def run_all(cases: Iterable[tuple[str, Callable[[], None]]]) -> None:
    """Run named cases; raise the failures together, each with the name of its case."""
    failures = []
    for name, case in cases:
        try:
            case()
        except FAILURES as error:
            error.add_note(name)
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise BaseExceptionGroup("several cases fail", failures)


def named(values: dict[str, Any]) -> str:
    return "with " + ", ".join(f"{name}={value!r}" for name, value in values.items())


def every(**values: Iterable[Any] | Callable[..., Iterable[Any]]) -> Callable[..., Any]:
    """Run a test for every combination of values of some arguments, instead of one test for each.

    pytest takes a few milliseconds per test, which is more than thousands of them take themselves.

    Parameters
    ----------
    **values : iterable, or callable
        Values by argument; a function gets the other arguments by name, and returns the values.

    Returns
    -------
    callable
        A decorator. All combinations are tried; those that fail are raised together, and named.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def run(**given: Any) -> None:
            lists = [list(each(**given) if callable(each) else each) for each in values.values()]
            chosen = [dict(zip(values, each, strict=True)) for each in itertools.product(*lists)]
            run_all((named(each), partial(test, **given, **each)) for each in chosen)

        signature = inspect.signature(test)
        left = [parameter for parameter in signature.parameters.values() if parameter.name not in values]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate
