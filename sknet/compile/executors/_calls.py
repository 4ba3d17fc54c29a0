"""Calls: what a program is made of, by names before it is bound to memory, and by arrays afterwards."""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MethodDescriptorType
from typing import Any, NamedTuple

__all__ = [
    "FILL",
    "NOTHING_NAMED",
    "RESHAPE",
    "TRANSPOSE",
    "VIEW",
    "Assigned",
    "Call",
    "Loop",
    "Method",
    "Name",
    "bound",
    "lines_of",
    "runner_of",
]

NOTHING_NAMED: Mapping[str, Any] = {}  # not to be changed
COLUMN = 48  # of comments


class Name(str):
    """The name of an array or a function that is looked up when a program is bound to memory."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Method:
    """A method of arrays of any device, as a function."""

    name: str

    def __call__(self, array: Any, *args: Any) -> Any:
        return getattr(array, self.name)(*args)


@dataclass(frozen=True, slots=True)
class Assigned:
    """A function that writes the result of another to the array that is its first argument."""

    function: Callable[..., Any]

    def __call__(self, out: Any, *args: Any, **named: Any) -> None:
        out[...] = self.function(*args, **named)


FILL, RESHAPE, TRANSPOSE, VIEW = (Method(name) for name in ("fill", "reshape", "transpose", "view"))


class Call(NamedTuple):
    """One call of a function.

    Attributes
    ----------
    function : Name or callable
        The function.
    args : tuple
        Positional arguments: names or arrays, numbers, texts, and tuples of these.
    named : mapping of str to object
        Arguments by name.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import ops
    >>> from sknet.compile import compile
    >>> [call] = compile(ops.exp, (np.zeros(2),)).calls()
    >>> call.function
    <ufunc 'exp'>
    """

    function: Any
    args: tuple[Any, ...]
    named: Mapping[str, Any] = NOTHING_NAMED

    def run(self) -> Any:
        """Make the call; its names must be bound."""
        return self.function(*self.args, **self.named)

    def on(self, values: Mapping[str, Any]) -> "Call":
        """Return the call with the objects that its names stand for.

        Parameters
        ----------
        values : mapping of str to object
            The objects.

        Returns
        -------
        Call
            One that can run.
        """
        named = {key: _value(x, values) for key, x in self.named.items()} if self.named else NOTHING_NAMED
        return Call(_value(self.function, values), tuple([_value(x, values) for x in self.args]), named)

    def text(self, values: Mapping[str, Any]) -> str:
        """Return the call as a line of Python.

        Parameters
        ----------
        values : mapping of str to object
            The functions that names stand for: methods and indices are written as Python writes them.

        Returns
        -------
        str
            The line, to be read.
        """
        function, args = values.get(self.function, self.function), [_text(x) for x in self.args]
        if function is operator.setitem:
            return f"{args[0]}[{_index_text(self.args[1])}] = {args[2]}"
        if function is operator.getitem:
            return f"{args[0]}[{_index_text(self.args[1])}]"
        args += [f"{key}={_text(x)}" for key, x in self.named.items()]
        if isinstance(function, Method):
            return f"{args[0]}.{function.name}({', '.join(args[1:])})"
        if isinstance(function, MethodDescriptorType):
            return f"{args[0]}.{function.__name__}({', '.join(args[1:])})"
        if isinstance(function, Assigned):
            return f"{args[0]}[...] = {self.function}({', '.join(args[1:])})"
        return f"{self.function}({', '.join(args)})"


class Loop(NamedTuple):
    """Calls that are repeated on blocks of arrays."""

    name: Name
    targets: Sequence[Name]
    made: list[tuple[Name, Call]]
    calls: list[Call]
    about: str


def bound(items: Iterable[Call | Loop], values: dict[str, Any]) -> Iterator[Call]:
    """Yield the calls of a program with the objects that names stand for."""
    for item in items:
        if isinstance(item, Call):
            yield item.on(values)
            continue
        for block in values[item.name]:
            values.update(zip(item.targets, block, strict=True))
            for name, call in item.made:
                values[name] = call.on(values).run()
            yield from [call.on(values) for call in item.calls]


def runner_of(calls: Iterable[Call]) -> Callable[[], None]:
    """Return a function that makes calls, one after the other.

    Parameters
    ----------
    calls : iterable of Call
        Bound to memory.

    Returns
    -------
    callable
        Without arguments.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.compile.executors import Call, runner_of
    >>> x = np.ones(3)
    >>> runner_of([Call(np.add, (x, x, x)), Call(np.negative, (x, x))])()
    >>> x
    array([-2., -2., -2.])
    """
    given = [
        (partial(call.function, **call.named) if call.named else call.function, call.args) for call in calls
    ]

    def step() -> None:
        for function, args in given:
            function(*args)

    return step


def lines_of(
    items: Iterable[Call | Loop], comments: Mapping[int, str], values: Mapping[str, Any]
) -> list[str]:
    """Return a program as lines of Python."""
    found = []
    for i, item in enumerate(items):
        if isinstance(item, Call):
            line = item.text(values)
            found.append(f"{line:<{COLUMN}}  # {comments[i]}" if i in comments else line)
        else:
            found.append(f"for {', '.join(item.targets)} in {item.name}:  # {item.about}")
            found += [f"    {name} = {call.text(values)}" for name, call in item.made]
            found += [f"    {call.text(values)}" for call in item.calls]
    return found


def _value(x: Any, values: Mapping[str, Any]) -> Any:
    kind = type(x)
    if kind is Name:
        return values[x]
    return tuple([_value(each, values) for each in x]) if kind is tuple else x


def _text(x: Any) -> str:
    if type(x) is Name:
        return x
    if type(x) is tuple:
        return f"({', '.join(map(_text, x))}{',' if len(x) == 1 else ''})"
    if type(x) is float and x - x != 0:
        return f"float('{x}')"
    return repr(x)


def _index_text(index: Any) -> str:
    """Return an index as it stands between brackets."""
    return ", ".join(map(_part_text, index)) if type(index) is tuple and index else _part_text(index)


def _part_text(part: Any) -> str:
    if part is Ellipsis:
        return "..."
    if isinstance(part, slice):
        ends = ["" if x is None else _text(x) for x in (part.start, part.stop, part.step)]
        return ":".join(ends[: 3 if ends[2] else 2])
    return _text(part)
