"""Records a step of NumPy's plan: its calls, in order, with the arrays that they work on."""

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Call", "recorded"]


class Call(NamedTuple):
    """One call of a step.

    Attributes
    ----------
    function : callable
        What is called.
    args : tuple
        Arrays, numbers, and the results of other calls, as calls.
    named : dict
        Arguments by name.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    named: dict[str, Any]

    def run(self) -> Any:
        """Make the call."""
        given = [x.run() if isinstance(x, Call) else x for x in self.args]
        return self.function(*given, **self.named)


def recorded(program: Any) -> list[Call]:
    """Return the calls of a compiled function.

    Parameters
    ----------
    program : Compiled
        On the host.

    Returns
    -------
    list of Call
        Without those whose results are arguments of another.
    """
    calls: list[Call] = []

    def record(function: Callable[..., Any]) -> Callable[..., Call]:
        def called(*args: Any, **named: Any) -> Call:
            inner = [x for x in args if isinstance(x, Call)]
            if inner:
                calls[:] = [call for call in calls if all(call is not x for x in inner)]
            call = Call(function, args, named)
            calls.append(call)
            return call

        return called

    program.record(record)
    return calls
