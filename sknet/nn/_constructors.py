"""Constructors of layers: numbers of NumPy become Python's, and errors name the right arguments."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from sknet._constraints import plain
from sknet._hints import suggestion
from sknet.nn._other_names import ARGUMENTS, MODULE, RENAMED
from sknet.nn._registry import Registry

__all__ = ["explained"]


def explained(init: Callable[..., None]) -> Callable[..., None]:
    """Return a layer's constructor that reads NumPy's numbers, and explains arguments that do not fit."""

    @wraps(init)
    def told(self: Any, *args: Any, **kwargs: Any) -> None:
        args, kwargs = plain(args), {name: plain(value) for name, value in kwargs.items()}
        try:
            init(self, *args, **kwargs)
        except TypeError as error:
            if type(self).__init__ is not told:  # called by the constructor of a subclass
                raise
            signature = inspect.signature(type(self)) if hasattr(self, "__signature__") else _of(init)
            message = _mismatch(type(self), signature, args, kwargs)
            if message is None:
                raise
            raise type(error)(message) from None

    return told


def _of(init: Callable[..., None]) -> inspect.Signature:
    signature = inspect.signature(init)
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def _mismatch(
    cls: type, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> str | None:
    """Return what to say of arguments that do not fit a constructor; None if they do."""
    name, names = cls.__name__, [name for name in signature.parameters if name != "self"]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    its = f"Its parameters are {', '.join(names)}." if names else "It has none."
    bases = [base.__name__ for base in cls.__mro__]
    if any(isinstance(value, Registry) for value in args[:1]):
        hint = next((MODULE[base] for base in bases if base in MODULE), None)
        if hint is not None:
            return f"{name} takes no layer: {hint.format(name)}. {its}"
    unknown = [] if takes_any else [each for each in kwargs if each not in names]
    if unknown:
        return f"{name} has no parameter {unknown[0]!r}{_hint(cls, unknown[0], names)} {its}"
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return f"{name}: {error}. {its}"
    return None


def _hint(cls: type, name: str, names: list[str]) -> str:
    """Return the end of a message about an unknown parameter."""
    ours = [other for other in RENAMED.get(name, ()) if other in names]
    advice: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        advice.update(ARGUMENTS.get(base.__name__, {}))
    text = f"use {ours[0]}" if ours else advice.get(name, "").format(cls.__name__)
    return suggestion(name, names, {name: text} if text else None)
