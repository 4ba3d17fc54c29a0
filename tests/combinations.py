"""Many small cases in one test, which goes over all of them and reports each that fails."""

import inspect
import itertools
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

__all__ = ["every"]

FAILURES = (Exception, pytest.fail.Exception)


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
            failures = []
            for chosen in itertools.product(*lists):
                combination = dict(zip(values, chosen, strict=True))
                try:
                    test(**given, **combination)
                except FAILURES as error:
                    error.add_note("with " + ", ".join(f"{name}={x!r}" for name, x in combination.items()))
                    failures.append(error)
            if len(failures) == 1:
                raise failures[0]
            if failures:
                raise BaseExceptionGroup("several combinations fail", failures)

        signature = inspect.signature(test)
        left = [parameter for parameter in signature.parameters.values() if parameter.name not in values]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate
