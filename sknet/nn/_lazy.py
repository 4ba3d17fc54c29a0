"""Passes without data, for shapes and memory, and lazy layers, which infer their sizes from one."""

import inspect
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Self, TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import DTypeLike

from sknet._constraints import is_integer, shown
from sknet._fields import COUNT, Together
from sknet._hints import or_names, suggestion
from sknet._parallel import Lock
from sknet._params import named_errors, same
from sknet._warnings import warn_caller
from sknet.core import Primitive, Tensor, TracedArray, no_grad
from sknet.device import Device, backend
from sknet.exceptions import DeviceError, ShapeError, StateError
from sknet.nn import init
from sknet.nn._module import Module, check_arguments, copy_with, is_lazy
from sknet.nn._parameter import Binding, Scope, note_structure, run
from sknet.nn.layers._conv import Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d
from sknet.nn.layers._linear import Linear
from sknet.nn.layers._norm import BatchNorm

META = Device("meta")
NUMPY = backend("cpu").xp

Seen = Callable[[Primitive, list[Any], "Shadow"], None]


class Shadow(TracedArray):
    """An array without data that can be combined with arrays of any device, and reports each operation."""

    __slots__ = ("_ghost", "memory", "scratch", "seen")

    def __init__(self, shape: tuple[int, ...], dtype: Any, seen: Seen) -> None:
        super().__init__(shape, dtype, META)
        self.seen = seen
        self.memory: object = self  # of a view: the array whose memory it would share
        self.scratch = 0  # elements of the memory that its operation works in
        self._ghost: np.ndarray | None = None

    @property
    def ghost(self) -> np.ndarray:
        """An array with its strides, which view rules read; it has no memory of its own."""
        if self._ghost is None:
            shape = self.shape
            strides = np.cumprod((1, *shape[:0:-1]))[::-1] if shape else ()
            self._ghost = as_strided(np.empty(1, np.int8), shape, tuple(map(int, strides)))
        return self._ghost

    def record(self, primitive: Primitive, inputs: tuple[Any, ...], params: dict[str, Any]) -> TracedArray:
        arrays = [x.data if isinstance(x, Tensor) else x for x in inputs]
        shape, dtype = primitive.shape(*arrays, **params)
        result = Shadow(shape, dtype, self.seen)
        if primitive.scratch is not None:
            works_in = primitive.scratch(*arrays, **params)
            result.scratch = sum(math.prod(lengths) for lengths, _ in works_in)
        if primitive.view is not None and isinstance(arrays[0], Shadow):
            ghost = primitive.view(NUMPY, arrays[0].ghost, **params)
            if ghost is not None:
                result.memory, result._ghost = arrays[0].memory, ghost
        self.seen(primitive, arrays, result)
        return result


class _StandIns(dict[Binding, Tensor]):
    """Shadows in place of all parameters and buffers, also of those that the pass itself makes."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    def get(self, binding: Binding, own: Any = None) -> Any:
        """Return the stand-in for a parameter or buffer, which is `own`."""
        if binding not in self:
            self[binding] = Tensor(Shadow(own.shape, own.dtype, self._seen))
        return self[binding]


def ignore(primitive: Primitive, operands: list[Any], result: Shadow) -> None:
    """Ignore the operation."""


def shape_pass(
    module: Module, inputs: "tuple[Any, ...] | dict[str, Any]", training: bool = False, seen: Seen = ignore
) -> Any:
    """Run a module without data."""
    scope = Scope(_StandIns(seen), training, (0, 0), Tensor(Shadow((), "int64", seen)))
    try:
        with no_grad():
            return run(module, scope, inputs)
    except DeviceError as error:
        error.add_note("in a pass without data, which determines shapes")
        raise


def copy_for_shapes(module: Module) -> Module:
    """Return a copy of a module for a pass without data."""
    found = {each for part in module.modules() for each in part._parameters.values()}
    return copy_with(module, {each: each.data for each in found if each.home is not None})


def shadows(x: Any, dtype: DTypeLike, seen: Seen = ignore) -> Any:
    """Return inputs without data."""
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return Tensor(Shadow(tuple(x.shape), x.dtype, seen))
    if isinstance(x, tuple) and all(type(n) is int or is_integer(n) for n in x):
        return Tensor(Shadow(x, dtype, seen))
    if isinstance(x, dict):
        return {key: shadows(part, dtype, seen) for key, part in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)([shadows(part, dtype, seen) for part in x])
    return x


class _Sizes:
    """The elements that each operation of a pass allocates, in order."""

    def __init__(self) -> None:
        self.found: list[int] = []

    def seen(self, primitive: Primitive, operands: list[Any], result: Shadow) -> None:
        self.found.append(max(int(result.size), result.scratch))


@named_errors
def largest_activation(module: Module, shape: Any, dtype: Any = "float32") -> int:
    """Return the number of elements per row of the largest array in a forward pass.

    Parameters
    ----------
    module : Module
        The module, which is not changed; its hooks are not called.
    shape : tuple of int, or dict of those
        Shape of one row of the input, without the batch axis; for several inputs, by the names of arguments.
    dtype : dtype, or dict of those, default="float32"
        Dtype of the input, or of each input by name.

    Returns
    -------
    int
        The maximum over inputs, results of operations and their working memory; arrays whose size does not
        depend on the number of rows are left out.

    Raises
    ------
    DeviceError
        If the forward pass depends on values, and so cannot run without data.
    ShapeError
        If the input does not fit.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.largest_activation(nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10)), (784,))
    784
    >>> nn.largest_activation(nn.Conv2d(1, 64, 3), (1, 224, 224)) == 64 * 222 * 222
    True
    """
    one, two = (_sizes(module, n_rows, shape, dtype) for n_rows in (1, 2))
    if len(one) != len(two):  # the code branches on the number of rows
        return max(-(-size // 2) for size in two)
    return max(b - a for a, b in zip(one, two, strict=True))


def _sizes(module: Module, n_rows: int, shape: Any, dtype: Any) -> list[int]:
    copy, sizes = copy_for_shapes(module), _Sizes()  # a copy, for what its code may set
    for each in copy.modules():
        vars(each).pop("_hooks", None)
    shapes = shape if isinstance(shape, dict) else {"": shape}
    dtypes = dtype if isinstance(dtype, dict) else dict.fromkeys(shapes, dtype)
    given = {
        name: shadows((n_rows, *each), np.dtype(dtypes[name]), sizes.seen) for name, each in shapes.items()
    }
    sizes.found += [math.prod((n_rows, *each)) for each in shapes.values()]
    shape_pass(copy, given if isinstance(shape, dict) else (given[""],), False, sizes.seen)
    return sizes.found


M = TypeVar("M", bound=Module)

MOST_COLOURS = 4  # channels of an image
_becoming = Lock()
KEPT = ("_training", "_held", "_hooks")  # by a lazy module that becomes an ordinary one


class Lazy(Module):
    """Base of the lazy layers, which turn into ordinary ones at their first input.

    A lazy class derives from the ordinary class, and names the constructor's argument to infer and the axis
    of the first input that has this length.

    Parameters
    ----------
    *args, **kwargs : object
        Arguments of the ordinary class, without the inferred one.

    Notes
    -----
    After its first call a lazy layer is an instance of the ordinary class, and prints, pickles and loads like
    it. Before, it has a mode, a dtype, a device and hooks, but no parameters: reading them raises a
    `StateError`. `materialize` converts it without a call, and a `Model` with its first batch.

    Examples
    --------
    >>> from sknet import nn
    >>> class Scale(nn.Module):
    ...     def __init__(self, width, *, device=None):
    ...         self.weight = nn.Parameter([1.0] * width, device=device)
    ...
    ...     def forward(self, x):
    ...         return x * self.weight
    >>> class LazyScale(nn.Lazy, Scale, infer="width", axis=-1):
    ...     'A scale for every column.'
    >>> scale = LazyScale()
    >>> scale([[1.0, 2.0, 3.0]]).shape
    (1, 3)
    >>> type(scale).__name__
    'Scale'
    """

    _is_lazy = True
    _ordinary: type[Module]
    _infer: str
    _axis: int
    __signature__: inspect.Signature
    _stored_fields = {
        "_arguments": dict[str, Any],
        "_destination": Together([np.dtype, None], [Device, None]),
        "_init_version": [COUNT, None],
    }

    def _check_stored(self) -> None:
        """Check the arguments as the constructor does."""
        type(self)(**vars(self)["_arguments"])

    def __init_subclass__(cls, *, infer: str | None = None, axis: int = -1, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if infer is None:  # a subclass of a lazy class
            return
        cls._ordinary, cls._infer, cls._axis = cls.__bases__[-1], infer, axis
        full = inspect.signature(cls._ordinary)
        if infer not in full.parameters:
            raise TypeError(
                f"{cls.__name__}: {cls._ordinary.__name__} has no argument {infer!r} to leave out"
            )
        left = [parameter for name, parameter in full.parameters.items() if name != infer]
        cls.__signature__ = full.replace(parameters=left)
        cls.__doc__ = _documented(inspect.getdoc(cls) or "", inspect.getdoc(cls._ordinary) or "", infer)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        arguments = dict(self.__signature__.bind(*args, **kwargs).arguments)
        constraints = getattr(self, "_parameter_constraints", {})
        check_arguments(self, **{name: value for name, value in arguments.items() if name in constraints})
        if arguments.get("device") is not None:
            Device.parse(arguments["device"])
        if arguments.get("init") is not None:
            init.scheme(arguments["init"], self, "linear")
        vars(self).update(
            _arguments=arguments, _destination=(None, None), _init_version=init.active_version()
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with _becoming:
            if isinstance(self, Lazy):  # another thread's first call may have come before
                self._become(self._made_for(np.shape(args[0]) if args else ()))
        return self.forward(*args, **kwargs)

    def _made_for(self, shape: tuple[int, ...]) -> Module:
        """Return the ordinary module for an input of this shape."""
        if not -len(shape) <= self._axis < len(shape):
            raise ShapeError(
                f"{self!r}: expected an input with an axis {self._axis}, whose length is its {self._infer}, "
                f"got shape {shape}"
            )
        with init.version(vars(self)["_init_version"]):
            made = self._ordinary(**vars(self)["_arguments"], **{self._infer: shape[self._axis]})
        made._convert(*vars(self)["_destination"])
        return made

    def _become(self, other: Module) -> None:
        """Take over class, parameters and everything else of a module that is used nowhere else."""
        own = {name: value for name, value in vars(self).items() if name in KEPT}
        vars(self).clear()
        vars(self).update(vars(other))
        vars(self).update(own)
        self.__class__ = type(other)  # type: ignore[assignment]
        note_structure()

    def _convert(self, dtype: "np.dtype[Any] | None", device: Device | None) -> None:
        before = vars(self)["_destination"]
        vars(self)["_destination"] = (dtype or before[0], device or before[1])

    _awaits_shapes = True

    def _check_shapes(self) -> NoReturn:
        raise StateError(
            f"{self!r} has no parameters before its {self._infer} is known: call the module on an input, or "
            "nn.materialize(module, X.shape)"
        )

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in vars(self)["_arguments"].items())


def _documented(doc: str, ordinary: str, left_out: str) -> str:
    """Return the docstring of a lazy class with the parameters of the ordinary class, but for one."""
    found = re.search(r"^Parameters\n-+\n(?:.+\n)*", ordinary, re.MULTILINE)
    if found is None:
        return doc
    section = re.sub(rf"^{left_out} :.*\n(?: +.*\n)*", "", found[0], flags=re.MULTILINE)
    head, *rest = doc.split("\n\n", 1)
    return "\n\n".join([head, section.rstrip("\n"), *rest])


class LazyLinear(Lazy, Linear, infer="in_features", axis=-1):
    """A `Linear` layer whose `in_features` is the length of its first input's last axis.

    Examples
    --------
    >>> from sknet import nn
    >>> layer = nn.LazyLinear(2)
    >>> layer
    LazyLinear(out_features=2)
    >>> layer([[1.0, 2.0, 3.0]]).shape
    (1, 2)
    >>> layer
    Linear(3, 2)
    """


class LazyBatchNorm(Lazy, BatchNorm, infer="num_features", axis=1):
    """A `BatchNorm` layer whose `num_features` is the length of its first input's second axis.

    Examples
    --------
    >>> from sknet import nn
    >>> layer = nn.LazyBatchNorm()
    >>> layer([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]]).shape
    (2, 3)
    >>> layer
    BatchNorm(num_features=3)
    """


class LazyConv1d(Lazy, Conv1d, infer="in_channels", axis=-2):
    """A `Conv1d` layer whose `in_channels` is the length of its first input's second to last axis.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> layer = nn.LazyConv1d(8, 3)
    >>> layer(np.ones((5, 2, 16), np.float32)).shape
    (5, 8, 14)
    >>> layer
    Conv1d(2, 8, kernel_size=3)
    """


class LazyConv2d(Lazy, Conv2d, infer="in_channels", axis=-3):
    """A `Conv2d` layer whose `in_channels` is the length of its first input's third to last axis.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> layer = nn.LazyConv2d(8, 3)
    >>> layer(np.ones((5, 2, 16, 16), np.float32)).shape
    (5, 8, 14, 14)
    >>> layer
    Conv2d(2, 8, kernel_size=3)
    """

    def _made_for(self, shape: tuple[int, ...]) -> Module:
        if len(shape) == 4 and shape[3] <= MOST_COLOURS < shape[1] == shape[2]:
            warn_caller(
                f"{self!r} takes inputs of shape {shape} for {shape[1]} channels of {shape[2]} rows and "
                f"{shape[3]} columns. If they are images whose channels are last, np.moveaxis(X, -1, 1) puts "
                "them first",
                UserWarning,
            )
        return super()._made_for(shape)


class LazyConvTranspose1d(Lazy, ConvTranspose1d, infer="in_channels", axis=-2):
    """A `ConvTranspose1d` layer whose `in_channels` is the length of its first input's second to last axis.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> layer = nn.LazyConvTranspose1d(8, 3)
    >>> layer(np.ones((5, 2, 16), np.float32)).shape
    (5, 8, 18)
    >>> layer
    ConvTranspose1d(2, 8, kernel_size=3)
    """


class LazyConvTranspose2d(Lazy, ConvTranspose2d, infer="in_channels", axis=-3):
    """A `ConvTranspose2d` layer whose `in_channels` is the length of its first input's third to last axis.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> layer = nn.LazyConvTranspose2d(8, 3)
    >>> layer(np.ones((5, 2, 16, 16), np.float32)).shape
    (5, 8, 18, 18)
    >>> layer
    ConvTranspose2d(2, 8, kernel_size=3)
    """


@named_errors
def materialize(module: M, *inputs: Any, dtype: DTypeLike = "float32", **named: Any) -> M:
    """Convert lazy modules to ordinary ones by a forward pass without data.

    Parameters
    ----------
    module : Module
        The module; if it is lazy, it is changed in place.
    *inputs : tuple of int, array, or tree of those
        Arguments of the forward pass: shapes, including the batch axis, or examples.
    dtype : dtype, default="float32"
        Dtype of the inputs that are shapes.
    **named : tuple of int, array, or tree of those
        Keyword arguments of the forward pass, if there are no `inputs`.

    Returns
    -------
    Module
        The same module; its weights are not drawn yet.

    Raises
    ------
    ShapeError
        If the shapes of inputs do not match; the module is then unchanged.

    Examples
    --------
    >>> from sknet import nn
    >>> net = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(1))
    >>> nn.materialize(net, (32, 7))
    Sequential(
      (0): Linear(7, 4)
      (1): ReLU()
      (2): Linear(4, 1)
    )
    """
    return materialize_for(module, named or inputs, dtype)


def materialize_for(module: M, inputs: "tuple[Any, ...] | dict[str, Any]", dtype: DTypeLike = "float32") -> M:
    """Do what `materialize` does for inputs that may have any names."""
    if not is_lazy(module):
        return module
    copy = module.copy()  # it runs, so that an error leaves the module as it was
    pairs = list(zip(module.modules(), copy.modules(), strict=True))
    shape_pass(copy, shadows(inputs, dtype))
    for each, made in pairs:
        if isinstance(each, Lazy) and not isinstance(made, Lazy):
            each._become(made)
    return module


VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class ModuleFactory:
    """Module class with arguments for its constructor, which can be cloned, compared and searched over.

    Parameters
    ----------
    factory : type of Module or callable
        Class or function that returns a module.
    **arguments : object
        Arguments of `factory` by name. Omitted ones have their defaults, or are supplied by `build`.

    Raises
    ------
    TypeError
        If there is no argument of this name; the message suggests the nearest.

    Examples
    --------
    >>> from sknet import nn
    >>> class Net(nn.Module):
    ...     def __init__(self, n_features, n_outputs, hidden=8):
    ...         self.first = nn.Linear(n_features, hidden)
    ...         self.last = nn.Linear(hidden, n_outputs)
    ...
    ...     def forward(self, x):
    ...         return self.last(nn.ReLU()(self.first(x)))
    >>> factory = nn.ModuleFactory(Net, hidden=16)
    >>> factory
    ModuleFactory(Net, hidden=16)
    >>> factory.set_params(hidden=32).build(n_features=4, n_outputs=3)
    Net(
      (first): Linear(4, 32)
      (last): Linear(32, 3)
    )
    """

    def __init__(self, factory: Callable[..., Module], /, **arguments: Any) -> None:
        if not callable(factory) or isinstance(factory, Module):
            raise TypeError(
                f"ModuleFactory needs a class of modules or a function that returns one, got {shown(factory)}"
            )
        self._factory, self._arguments = factory, arguments
        for name in arguments:
            if not self.takes(name):
                raise TypeError(self._missing(name))

    # -- what is built -----------------------------------------------------------------------------

    @property
    def factory(self) -> Callable[..., Module]:
        """The class or function that returns a module."""
        return self._factory

    @property
    def name(self) -> str:
        """Name of the class or function."""
        return getattr(self._factory, "__name__", type(self._factory).__name__)

    def takes(self, name: str) -> bool:
        """Tell whether there is an argument of this name."""
        known = self._signature()
        return name in known or any(p.kind is p.VAR_KEYWORD for p in known.values())

    def needs(self, name: str) -> bool:
        """Tell whether there is an argument of this name without a value."""
        return name in self._names() and name not in self._arguments

    def build(self, **known: Any) -> Module:
        """Return a new module, whose weights have not been drawn yet.

        The arguments that were given to the factory take precedence over those in `known`.

        Raises
        ------
        TypeError
            If an argument without a default is left out, or the result is not a module.
        """
        arguments = {**known, **self._arguments}
        missing = [
            name
            for name, parameter in self._signature().items()
            if parameter.default is parameter.empty
            and parameter.kind is not parameter.VAR_KEYWORD
            and name not in arguments
        ]
        if missing:
            raise TypeError(
                f"{self.name} needs a value for {', '.join(map(repr, missing))}: "
                f"ModuleFactory({self.name}, {missing[0]}=...)"
            )
        module = self._factory(**arguments)
        if not isinstance(module, Module):
            raise TypeError(f"module: {self.name} must return an nn.Module, got {type(module).__name__}")
        return module

    def _signature(self) -> Mapping[str, inspect.Parameter]:
        try:
            known = inspect.signature(self._factory).parameters
        except ValueError:  # of a callable that is not written in Python
            return {}
        return {name: p for name, p in known.items() if p.kind is not p.VAR_POSITIONAL and name != "self"}

    def _names(self) -> list[str]:
        return [name for name, p in self._signature().items() if p.kind not in VARIABLE]

    def _missing(self, name: str) -> str:
        names = self._names()
        hint = or_names(suggestion(name, names), f"Its parameters are {', '.join(names)}.")
        return f"{self.name} has no parameter {name!r}{hint}"

    # -- as a hyperparameter -------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments by name, with their defaults; if `deep`, also their own parameters."""
        found = {
            name: p.default for name, p in self._signature().items() if p.default is not p.empty
        } | self._arguments
        if deep:
            for name, value in list(found.items()):
                if hasattr(value, "get_params") and not isinstance(value, type):
                    found.update({f"{name}__{key}": x for key, x in value.get_params(deep=True).items()})
        return found

    def set_params(self, **params: Any) -> Self:
        """Set arguments by name, also nested ones: all of `params`, or none if one does not exist.

        Raises
        ------
        ValueError
            If there is no argument of this name; the message suggests the nearest.
        """
        inner: dict[str, dict[str, Any]] = {}
        own: dict[str, Any] = {}
        for name, value in params.items():
            first, _, rest = name.partition("__")
            if not self.takes(first):
                raise ValueError(self._missing(first))
            if rest:
                inner.setdefault(first, {})[rest] = value
            else:
                own[first] = value
        known = {**self.get_params(deep=False), **own}
        for name in inner:
            if not hasattr(known.get(name), "set_params") or isinstance(known[name], type):
                raise ValueError(
                    f"{name!r} of {self.name} is {known.get(name)!r}, which has no parameters of its own"
                )
        from sklearn.base import clone  # networks do without

        for name, values in inner.items():
            own[name] = clone(known[name]).set_params(**values)  # a default belongs to the class
        self._arguments = {**self._arguments, **own}
        return self

    def __sklearn_clone__(self) -> "ModuleFactory":
        from sklearn.base import clone  # which has called this

        copied = {name: clone(value, safe=False) for name, value in self._arguments.items()}
        return type(self)(self._factory, **copied)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ModuleFactory):
            return NotImplemented
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)
        known = mine.keys() == theirs.keys() and all(same(mine[name], theirs[name]) for name in mine)
        return self._factory == other._factory and known

    def __hash__(self) -> int:
        return hash(self._factory)

    def __repr__(self) -> str:
        given = [self.name, *(f"{name}={shown(value)}" for name, value in self._arguments.items())]
        return f"ModuleFactory({', '.join(given)})"
