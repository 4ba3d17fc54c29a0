"""State of one forward pass, which replaces that of its modules.

A scope is active for one thread (or asynchronous task) at a time, so that several threads can run
one module at once, each with its own parameters, mode and random numbers; nothing is written to
the module. It is held in a `ContextVar`, which is read in less time than a `threading.local`.
"""

import secrets
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn, Protocol, TypeVar, cast

from sknet.core import Tensor
from sknet.core._modes import repeatable
from sknet.exceptions import StateError

__all__ = ["Binding", "Registered", "Scope", "current_scope", "next_draw", "run"]

Binding = Hashable
Key = tuple[int, int]
T = TypeVar("T", bound=Tensor)


class Holder(Protocol):
    """An object with parameters and buffers of its own, by name."""

    @property
    def _parameters(self) -> Mapping[str, Any]: ...

    @property
    def _buffers(self) -> Mapping[str, Tensor]: ...


class Scope:
    """View of one forward pass: values for parameters and buffers, the mode, the random stream.

    Parameters
    ----------
    values : mapping of binding to Tensor
        What stands in for a parameter or a buffer; keys as `bindings` gives them. What is missing
        is taken from the module.
    training : bool or None, default=False
        What `Module.training` says; None leaves it to each module.
    key : tuple of two int, default=None
        The random stream; None where nothing may be drawn.
    step : int, default=0
        Which step of the stream. It is passed on as it is, so it may be traced.

    Attributes
    ----------
    updates : dict of binding to Tensor
        The buffers that the pass has set.

    Notes
    -----
    A parameter is bound by its own identity, so one that two modules share is replaced in both.
    A buffer is bound by its module's identity and its name, since a new tensor takes its place at
    every update. Bindings hold as long as the module and its parameters do.

    Examples
    --------
    >>> from sknet import Tensor, nn
    >>> layer = nn.Linear(1, 1, bias=False)
    >>> scope = nn.Scope({nn.bindings(layer)["weight"]: Tensor([[2.0]])})
    >>> nn.run(layer, scope, ([[10.0]],)).item()
    20.0
    """

    __slots__ = ("key", "site", "step", "training", "updates", "values")

    def __init__(
        self,
        values: Mapping[Binding, Tensor],
        training: bool | None = False,
        key: Key | None = None,
        step: Any = 0,
    ) -> None:
        self.values = values
        self.training = training
        self.key = key
        self.step = step
        self.updates: dict[Binding, Tensor] = {}
        self.site = 0

    def copy(self) -> "Scope":
        """Return an independent scope that continues from this one's state."""
        copied = Scope(self.values, self.training, self.key, self.step)
        copied.updates, copied.site = dict(self.updates), self.site
        return copied

    __copy__ = copy

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Scope cannot be pickled: it knows parameters and buffers by their identity in this process. "
            "Pickle the module and the values by path, and make a new scope with nn.bindings(module)"
        )

    def next_site(self) -> int:
        """Return 0, 1, 2, ...: which draw of this pass it is."""
        site = self.site
        self.site = site + 1
        return site


_active: ContextVar[Scope | None] = ContextVar("sknet.nn.scope", default=None)

current_scope = _active.get

# For a pass without a scope that may be repeated: what the scope of a repetition needs.
_first_run: ContextVar[Scope | None] = ContextVar("sknet.nn.first_run", default=None)


def run(module: Callable[..., Any], scope: Scope, args: "tuple[Any, ...] | dict[str, Any]") -> Any:
    """Run ``module(*args)``, or for a dict ``module(**args)``, inside `scope`.

    Parameters
    ----------
    module : Module
        It is not changed, as far as its layers keep their state in parameters and buffers.
    scope : Scope
        Its ``updates`` are emptied first, and its call sites counted from 0: it can be used for one
        step after another.
    args : tuple or dict
        Arguments of the forward pass, by position or by name.

    Returns
    -------
    object
        What the module returns; the buffers it set are in ``scope.updates``.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Tensor, nn
    >>> layer, scope = nn.BatchNorm(2).initialize(0), nn.Scope({}, training=True)
    >>> nn.run(layer, scope, (Tensor(np.eye(2, dtype="float32")),)).shape
    (2, 2)
    >>> len(scope.updates), layer.running_mean.tolist()  # the layer still has its own
    (3, [0.0, 0.0])
    """
    scope.updates = {}
    scope.site = 0
    token = _active.set(scope)
    try:
        return module(**args) if isinstance(args, dict) else module(*args)
    finally:
        _active.reset(token)


def bound_parameter(parameter: T) -> "T | Tensor":
    """Return what stands in for a parameter in the active scope."""
    scope = current_scope()
    return parameter if scope is None else scope.values.get(id(parameter), parameter)


def bound_buffer(module: Holder, name: str) -> Tensor:
    """Return a buffer as the active scope sees it: updated, replaced, or the module's own."""
    own: Tensor = module._buffers[name]
    scope = current_scope()
    if scope is None:
        return own
    slot = (id(module), name)
    return scope.updates[slot] if slot in scope.updates else scope.values.get(slot, own)


def next_draw() -> tuple[Key, Any, int]:
    """Return key, step and call site for one draw inside a forward pass."""
    scope = current_scope()
    if scope is None:
        scope = _first_run.get()
        if scope is None:
            return _fresh_key(), 0, 0
    if scope.key is None:
        raise StateError(
            "a layer draws random numbers in this pass, and the pass was given no key for them: "
            "pass key=(seed, stream), two integers, or training=False"
        )
    return scope.key, scope.step, scope.next_site()


def _fresh_key() -> Key:
    return secrets.randbits(63), secrets.randbits(63)


def remember_buffer(module: Holder, name: str) -> None:
    """Note the value of a buffer that is about to change, in case the pass is repeated."""
    first = _first_run.get()
    if first is not None:
        cast(dict[Binding, Tensor], first.values).setdefault((id(module), name), module._buffers[name])


@repeatable
@contextmanager
def _repetition() -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Let a pass be repeated with the same draws, from the same buffers, without updating any."""
    scope = current_scope() or _first_run.get()
    if scope is not None:
        start = scope.copy()
        yield lambda: _inside(start.copy())
        return
    first = Scope({}, None, _fresh_key())
    token = _first_run.set(first)
    try:
        yield lambda: _inside(Scope(first.values, None, first.key))
    finally:
        _first_run.reset(token)


@contextmanager
def _inside(scope: Scope) -> Iterator[None]:
    token = _active.set(scope)
    try:
        yield
    finally:
        _active.reset(token)


class Registered:
    """Reads a registered parameter of a built-in layer, several times faster than `Module.__getattr__`."""

    __slots__ = ("name",)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, module: Holder | None, owner: type | None = None) -> Any:
        if module is None:
            return self
        try:
            parameter = module._parameters[self.name]
        except KeyError:
            raise AttributeError(self.name) from None  # Module.__getattr__ makes the message
        scope = current_scope()
        return parameter if scope is None else scope.values.get(id(parameter), parameter)
