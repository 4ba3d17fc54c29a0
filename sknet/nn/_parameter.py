"""Parameters, and scopes: the values that a pass reads instead of those in a module."""

import secrets
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from copy import deepcopy
from hashlib import blake2b
from typing import Any, NoReturn, Protocol, TypeVar, cast
from weakref import ref

import numpy as np
from numpy.random import RandomState
from numpy.typing import DTypeLike

from sknet._parallel import Lock
from sknet._random import check_random_state
from sknet.core import Tensor, leaf_node
from sknet.core._tape import repeatable
from sknet.device import (
    Device,
    MetaArray,
    active,
    available,
    backend,
    check_float_dtype,
    device_of,
    is_array,
    to_device,
    to_host,
)
from sknet.exceptions import ShapeError, StateError

# A mark is an object of its own, replaced after every change of its kind to any module: a mark that was read
# before is still the current one as long as nothing has changed. An object that is referenced is never
# mistaken for another, and replacing it is atomic, so threads need no lock.


class Marks:
    """The marks of the latest changes, so that results derived from modules can be cached."""

    __slots__ = ("hooks", "settings", "structure")

    def __init__(self) -> None:
        self.structure: object = object()
        self.settings: object = object()
        self.hooks: object = object()


latest = Marks()


def note_structure() -> None:
    """Note that parameters, buffers or modules were added, removed, frozen or unfrozen."""
    latest.structure = object()
    latest.settings = object()


def note_setting() -> None:
    """Note that an attribute of a module has changed."""
    latest.settings = object()


def note_hooks() -> None:
    latest.hooks = object()
    latest.settings = object()


Draw = Callable[[RandomState], np.ndarray[Any, Any]]

DEFAULT_DTYPE = "float32"

_drawing = Lock()


class Home(Protocol):
    """The memory in which an owner, such as a `Model`, keeps parameters."""

    def write(self, parameter: "Parameter", values: Any) -> None:
        """Write new values for a parameter there, or raise a StateError; nothing is changed then."""

    def writable(self, parameter: "Parameter") -> Any:
        """Return the array of a parameter, to be written to."""

    def check_move(self, dtype: "np.dtype[Any] | None", device: Device | None) -> None:
        """Raise a StateError unless the memory has this dtype and is on this device; None is any."""


class Undrawn(MetaArray):
    """Description of a parameter before it is drawn: shape, dtype, device, and the function that draws it."""

    __slots__ = ("device", "draw")

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike, device: Device, draw: Draw) -> None:
        super().__init__(shape, dtype)
        self.device = device
        self.draw = draw

    def __reduce__(self) -> Any:
        # the device is not pickled, so that a state loads where there is no GPU
        device = self.device if self.device.kind == "meta" else Device("cpu")
        return Undrawn, (self.shape, self.dtype, device, self.draw)


class Parameter(Tensor):
    """Tensor that is learned by a module: a leaf that requires a gradient.

    Parameters
    ----------
    data : array-like, default=None
        Values, of a floating dtype. Arrays are not copied.
    shape : tuple of int, default=None
        Shape of a parameter that is drawn later; together with `draw`.
    draw : callable, default=None
        ``draw(random_state)`` returns the values as an ndarray of `shape`. It is called once, by
        `Module.initialize`, or with fresh entropy when the values are first read.
    dtype : {"float32", "float64"}, default=None
        None keeps the dtype of `data`; a parameter that is drawn is then float32.
    device : str or Device, default=None
        Device of the values; None leaves `data` on its device, and draws to the CPU. On ``"meta"`` values are
        not drawn: the parameter only has a shape and a dtype, until it is moved to another device.

    Raises
    ------
    TypeError
        If neither or both of `data` and (`shape`, `draw`) are given.
    DtypeError
        If `data` is not floating.

    Notes
    -----
    Values are drawn on the host in float64 and then converted, so that the same seed gives the
    same weights in every precision and on every device.

    While a `Model` owns a parameter, its values are in the model's memory: assigning to `data` writes
    them there, converted to the model's dtype and device, and raises a `StateError` for another shape.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.Parameter([1.0, 2.0])
    Parameter([1., 2.], dtype=float64)
    >>> later = nn.Parameter(shape=(2,), draw=lambda random_state: random_state.uniform(size=2))
    >>> later
    Parameter(not drawn, shape=(2,), dtype=float32)
    >>> later.draw(0)
    >>> later
    Parameter([0.5488135 , 0.71518934], dtype=float32)
    """

    __slots__ = ("_as_drawn", "_home", "_undrawn")

    _undrawn: Undrawn | None  # until it has values
    _as_drawn: bytes | None  # a digest of the drawn values, if they are to be fitted to data; empty before
    _home: "ref[Home] | None"

    def __init__(
        self,
        data: Any = None,
        *,
        shape: tuple[int, ...] | None = None,
        draw: Draw | None = None,
        dtype: DTypeLike | None = None,
        device: "str | Device | None" = None,
    ) -> None:
        if (data is None) == (draw is None) or (shape is None) != (draw is None):
            raise TypeError(
                "a Parameter takes either its values, Parameter(data), or a shape and how to draw it, "
                "Parameter(shape=(2, 3), draw=function)"
            )
        self._set(_undrawn=None, _home=None, _as_drawn=None)
        if draw is None:
            super().__init__(data, requires_grad=True, dtype=dtype, device=device)
            return
        self._grad = None
        found = check_float_dtype(DEFAULT_DTYPE if dtype is None else dtype, where="a parameter")
        self._undrawn = Undrawn(
            tuple(shape or ()), found, available("cpu" if device is None else device), draw
        )
        self.node = leaf_node(self)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "data":
            home = self.home
            if home is not None:
                home.write(self, value)
                return
            if not is_array(value):  # `p.data * 2` of a parameter without axes is a number in NumPy
                value = Tensor(value).data
            object.__setattr__(self, name, value)
            name, value = "_undrawn", None
        object.__setattr__(self, name, value)

    @property
    def home(self) -> Home | None:
        """The memory of the owner of this parameter's values; None if it has no owner."""
        home = self._home
        return None if home is None else home()

    def settle(self, home: Home | None, data: Any) -> None:
        """Give the values to the owner `home`, in `data`, which holds them already; None ends the ownership.

        The reference to `home` is weak, so that the ownership also ends with the owner.
        """
        self._set(data=data, _undrawn=None, _home=None if home is None else ref(home))

    def _set(self, **values: Any) -> None:
        """Set attributes, also `data`, as they are."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _memory_to_write(self) -> Any:
        home = self.home
        return self.data if home is None else home.writable(self)

    @property
    def requires_grad(self) -> bool:
        """True if the parameter is trainable: operations on it are recorded."""
        return self.node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if bool(value) != (self.node is not None):
            Tensor.requires_grad.__set__(self, value)  # type: ignore[attr-defined]
            note_structure()

    def __getattr__(self, name: str) -> Any:
        # `data` is an empty slot until the parameter is drawn, so that reading it later costs nothing
        if name != "data":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.draw()
        undrawn = self._undrawn
        # On the meta device, an array without data; otherwise what was drawn, unless somebody has deleted it.
        return object.__getattribute__(self, name) if undrawn is None else undrawn

    @property
    def is_drawn(self) -> bool:
        """True if the parameter has values."""
        return self._undrawn is None

    def draw(self, random_state: "int | RandomState | None" = None) -> None:
        """Draw the values from `random_state`, None for fresh entropy, unless the parameter has values.

        Raises
        ------
        ShapeError
            If the function given as `draw` returns another shape than the declared one.
        """
        with _drawing:
            undrawn = self._undrawn
            if undrawn is None or undrawn.device.kind == "meta":
                return
            # None means fresh entropy here, not NumPy's global state as in scikit-learn
            values = undrawn.draw(RandomState() if random_state is None else check_random_state(random_state))
            drawn = np.asarray(values, dtype=undrawn.dtype)
            if drawn.shape != undrawn.shape:
                raise ShapeError(
                    f"the draw function of a parameter of shape {undrawn.shape} returned shape {drawn.shape}"
                )
            self.data = to_device(drawn, undrawn.device)
            if self._as_drawn is not None:
                self._as_drawn = _digest(values)

    # First values may be fitted to data only while they are as they were drawn: they may have been trained,
    # loaded or assigned since, in many ways, so they are compared with a digest of the drawn ones.

    def await_data(self) -> None:
        """Note that the initial values, drawn or to be drawn, still have to be fitted to data."""
        self._as_drawn = _digest(to_host(self.data)) if self.is_drawn else b""

    def note_data_seen(self) -> None:
        """Note that the initial values need not be fitted to data any more."""
        self._as_drawn = None

    @property
    def awaits_data(self) -> bool:
        """True if the values are as drawn, and still have to be fitted to data."""
        if self._as_drawn is None or not self.requires_grad:
            return False
        return not self.is_drawn or self._as_drawn == _digest(to_host(self.data))

    def copy(self) -> "Parameter":
        """Return a new parameter that shares this one's values, or is drawn like it.

        The values of a parameter that a `Model` owns are copied. The copy has no gradient, and is trainable
        if this parameter is.
        """
        if self._undrawn is not None:
            return self.like(None)
        if self.home is None:
            return self.like(self.data)
        with active(self.device):
            return self.like(self.data.copy())  # an owner writes in place

    def like(self, data: Any) -> "Parameter":
        """Return a parameter with the values `data` (None: not drawn yet), trainable if this one is."""
        clone = type(self).__new__(type(self))
        node = None if self.node is None else leaf_node(clone)
        clone._set(_grad=None, node=node, _home=None, _undrawn=self._undrawn, _as_drawn=self._as_drawn)
        if data is None and clone._undrawn is None:
            data = self.data  # another thread has drawn it just now
        if data is not None:
            clone.data = data
        return clone

    # Nothing below may draw: counting parameters must not change what a seed gives.

    @property
    def _known(self) -> Any:
        """Values, or shape and dtype before they are drawn."""
        undrawn = self._undrawn
        return self.data if undrawn is None else undrawn

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of every axis."""
        return self._known.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._known.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(self._known.size)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the elements."""
        return self._known.dtype

    @property
    def device(self) -> Device:
        """The device that holds the values."""
        known = self._known
        return known.device if isinstance(known, Undrawn) else device_of(known)

    def __repr__(self) -> str:
        if self.is_drawn:
            return super().__repr__().replace(", requires_grad=True", "")
        return f"Parameter(not drawn, shape={self.shape}, dtype={self.dtype})"

    # -- copies and pickles ---------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any]) -> "Parameter":
        if self._undrawn is not None or self.home is not None:
            return self.copy()
        return self.like(deepcopy(self.data, memo))

    __reduce__ = object.__reduce__  # not Tensor's: the state has everything

    def __getstate__(self) -> dict[str, Any]:
        undrawn = self._undrawn  # once, as another thread may draw
        values = to_host(self.data) if undrawn is None else None
        state = {"undrawn": undrawn, "data": values, "requires_grad": self.requires_grad}
        return state if self._as_drawn is None else {**state, "as_drawn": self._as_drawn}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.grad = self.node = self._home = None
        self._undrawn, self._as_drawn = state["undrawn"], state.get("as_drawn")
        if state["data"] is not None:
            self.data = state["data"]
        if state["requires_grad"]:
            self.node = leaf_node(self)


def _digest(values: Any) -> bytes:
    """Return a digest of values that is the same whatever dtype they are converted to or from."""
    return blake2b(np.ascontiguousarray(values, np.float32).tobytes(), digest_size=16).digest()


def zeros(shape: tuple[int, ...], device: "str | Device | None" = None, dtype: DTypeLike = "float32") -> Any:
    """Return an array of zeros made where it will live: on the meta device nothing is allocated."""
    place = available("cpu" if device is None else device)
    return backend(place.kind).zeros(shape, dtype, place)


def ones(shape: tuple[int, ...], device: "str | Device | None" = None, dtype: DTypeLike = "float32") -> Any:
    """Return an array of ones made where it will live: on the meta device nothing is allocated."""
    place = available("cpu" if device is None else device)
    return backend(place.kind).ones(shape, dtype, place)


def convert(tensor: Tensor, dtype: DTypeLike | None, device: Device | None) -> None:
    """Give a parameter or buffer another dtype or device, in place; what is not drawn stays so."""
    known = tensor._known if isinstance(tensor, Parameter) else tensor.data
    place = known.device if isinstance(known, Undrawn) else device_of(known)
    dtype = known.dtype if dtype is None or known.dtype.kind != "f" else np.dtype(dtype)
    device = place if device is None else device
    if known.dtype == dtype and place == device:
        return
    if isinstance(known, Undrawn):
        tensor._undrawn = Undrawn(known.shape, dtype, device, known.draw)  # type: ignore[attr-defined]
    else:
        tensor.data = to_device(tensor.detach().astype(dtype).data, device)
        tensor.grad = None


Binding = Hashable
Key = tuple[int, int]
T = TypeVar("T", bound=Tensor)


class Holder(Protocol):
    @property
    def _parameters(self) -> Mapping[str, Any]: ...

    @property
    def _buffers(self) -> Mapping[str, Tensor]: ...


class Scope:
    """Context of one forward pass: values of parameters and buffers, mode and random stream.

    Parameters
    ----------
    values : mapping of binding to Tensor
        Replacements of parameters and buffers by keys from `bindings`; missing ones are those of the module.
    training : bool or None, default=False
        Value of `Module.training`; None leaves it to each module.
    key : tuple of two int, default=None
        The random stream; with None, drawing is an error.
    step : int, default=0
        Position in the stream; it may be traced.

    Attributes
    ----------
    updates : dict of binding to Tensor
        The buffers that the pass has set.
    mixing : Tensor of shape () or None
        Share of each row in itself, if a `Mixup` has mixed the rows with those in reverse order.

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

    __slots__ = ("key", "mixing", "site", "step", "training", "updates", "values")

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
        self.mixing: Tensor | None = None
        self.site = 0

    def copy(self) -> "Scope":
        """Return an independent scope that continues from this one's state."""
        copied = Scope(self.values, self.training, self.key, self.step)
        copied.updates, copied.site, copied.mixing = dict(self.updates), self.site, self.mixing
        return copied

    __copy__ = copy

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Scope cannot be pickled: it knows parameters and buffers by their identity in this process. "
            "Pickle the module and the values by path, and make a new scope with nn.bindings(module)"
        )

    def next_site(self) -> int:
        """Return the index of the next draw of this pass: 0, 1, 2, ..."""
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
        The module. It is not changed, if its layers keep their state in parameters and buffers.
    scope : Scope
        Context of the call. Its ``updates`` are cleared first, and draws are counted from 0, so it can be
        used for many steps.
    args : tuple or dict
        Arguments of the forward pass, by position or by name.

    Returns
    -------
    object
        The output of the module; buffers that it has set are in ``scope.updates``.

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
    scope.updates, scope.mixing = {}, None
    scope.site = 0
    token = _active.set(scope)
    try:
        return module(**args) if isinstance(args, dict) else module(*args)
    finally:
        _active.reset(token)


def bound_parameter(parameter: T) -> "T | Tensor":
    """Return the value that replaces a parameter in the active scope."""
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


# What parameters keep until they are drawn: functions, which files can call by their names.


def draw_weight(
    init: Any, random_state: RandomState, *, shape: tuple[int, ...], fan_in: int, fan_out: int
) -> np.ndarray[Any, Any]:
    return init.draw(random_state, shape=shape, fan_in=fan_in, fan_out=fan_out)


def draw_bias(
    init: Any, random_state: RandomState, *, shape: tuple[int, ...], fan_in: int, fan_out: int
) -> np.ndarray[Any, Any]:
    return init.draw_bias(random_state, shape=shape, fan_in=fan_in, fan_out=fan_out)
