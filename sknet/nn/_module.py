"""Module: a tree of parameters, buffers and children, with a forward pass."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from functools import wraps
from inspect import Parameter as Argument
from inspect import signature
from itertools import islice
from numbers import Integral
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.random import RandomState
from numpy.typing import DTypeLike

from sknet._constraints import PLAIN, plain, shown
from sknet._fields import ABSENT, COUNT
from sknet._hints import MissingAttributeError, hints, or_names, parameter_hint, suggestion
from sknet._late import above
from sknet._params import Interval, check_values, named_errors
from sknet._random import check_random_state
from sknet.core import HookHandle, Tensor, as_tensor
from sknet.device import Device, available, check_float_dtype, is_array, to_device, to_host
from sknet.exceptions import CaptureError, ShapeError, StateError
from sknet.nn import _hooks
from sknet.nn._hooks import Hooks
from sknet.nn._parameter import (
    Binding,
    Key,
    Parameter,
    Registered,
    Scope,
    bound_buffer,
    bound_parameter,
    convert,
    current_scope,
    note_setting,
    note_structure,
    remember_buffer,
    run,
)

M = TypeVar("M", bound="Module")

LAYERS = ("sknet.nn.layers", "sknet.nn._lazy")  # modules with constructors that explain their arguments
REGISTRIES = ("_parameters", "_buffers", "_children")
LAYER_COUNT = [Interval(Integral, 1, 10_000, closed="both")]  # more would be built until memory ends
# Attributes in which a module keeps its own state.
OWN = frozenset({"_parameters", "_buffers", "_transient", "_children", "_training", "_held", "_hooks"})


class Registry:
    """The parameters, buffers and children of a module by name, and those below by path."""

    _parameters: dict[str, Parameter]
    _buffers: dict[str, Tensor]
    _transient: set[str]  # names of the buffers that no state contains
    _children: dict[str, "Module"]  # also in __dict__, where they are read fastest

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make the registries; the arguments are `__init__`'s."""
        module = super().__new__(cls)
        vars(module).update(_parameters={}, _buffers={}, _transient=set(), _children={})
        return module

    # -- registering ----------------------------------------------------------------------------

    @named_errors
    def register_parameter(self, name: str, parameter: Parameter) -> None:
        """Add a parameter as the attribute `name`; assigning it does the same.

        A `parameter` may be registered in several modules, which then share it.

        Raises
        ------
        TypeError
            If it is not a Parameter.
        ValueError
            If the name has a dot, is empty, or is taken by a method.
        """
        if not isinstance(parameter, Parameter):
            raise TypeError(
                f"{self._place(name)} must be a Parameter, got {_article(parameter)}: use nn.Parameter(...)"
            )
        self._claim(name, self._parameters)
        self._parameters[name] = parameter
        note_structure()

    @named_errors
    def register_module(self, name: str, module: Any) -> None:
        """Add a module as the attribute `name`, a child; assigning it does the same.

        A `module` that is registered several times is called several times, with the same parameters.

        Raises
        ------
        TypeError
            If it is not a Module.
        ValueError
            If the name has a dot, is empty, or is taken by a method.
        """
        if not isinstance(module, Registry):
            hint = f": pass an instance, {module.__name__}(...)" if isinstance(module, type) else ""
            raise TypeError(f"{self._place(name)} must be a Module, got {_article(module)}{hint}")
        self._claim(name, self._children)
        children: dict[str, Any] = self._children
        children[name] = vars(self)[name] = module
        note_structure()

    @named_errors
    def register_buffer(
        self, name: str, value: Any, persistent: bool = True, *, device: "str | Device | None" = None
    ) -> None:
        """Add a tensor that is state but not learned, such as a running mean, as the attribute `name`.

        `value` is the initial value, which determines shape and dtype, on `device`, or for None on the device
        of `value`. A `persistent` buffer is part of `state_dict`.

        Raises
        ------
        ValueError
            If the name has a dot, is empty, or is taken by a method.
        """
        self._claim(name, self._buffers)
        kept = self._transient.discard if persistent else self._transient.add
        self._buffers[name] = Tensor(value, device=device)
        kept(name)
        note_structure()

    @named_errors
    def set_buffer(self, name: str, value: Any) -> None:
        """Set the value of the buffer `name`, as a forward pass does with its running statistics.

        `value` is detached and converted to the buffer's dtype. Inside `functional_call` it is one of the
        buffers that the call returns, and the module is not changed. Assigning the attribute does the same.

        Raises
        ------
        AttributeError
            If there is no such buffer.
        ShapeError
            If the shape differs from that of the buffer.
        """
        own = self._buffers.get(name)
        if own is None:
            raise AttributeError(f"{self._place(name)} is not a buffer: register_buffer adds one")
        value = as_tensor(value).detach()
        if value.shape != own.shape:
            raise ShapeError(f"{self._place(name)} is a buffer of shape {own.shape}, got {value.shape}")
        if value.dtype != own.dtype:
            value = value.astype(own.dtype)
        scope = current_scope()
        if scope is None:
            remember_buffer(self, name)
            self._buffers[name] = value
        else:
            scope.updates[id(self), name] = value

    def _claim(self, name: str, registry: Mapping[str, Any]) -> None:
        """Free a name for `registry`: each name is in one registry only."""
        if not isinstance(name, str) or not name or "." in name:
            raise ValueError(
                f"a name in {type(self).__name__} must be a non-empty str without dots, got {shown(name)}"
            )
        self._refuse_own(name)
        if self._is_reserved(name):
            raise ValueError(
                f"{self._place(name)} cannot be registered: the class has an attribute of this name"
            )
        if name not in registry:
            self._forget(name)

    @classmethod
    def _is_reserved(cls, name: str) -> bool:
        return hasattr(cls, name) and not isinstance(getattr(cls, name), Registered)

    def _refuse_own(self, name: str) -> None:
        if name in OWN:
            raise ValueError(
                f"{self._place(name)} cannot be set: modules keep state of their own under this name, choose "
                "another"
            )

    def _forget(self, name: str) -> bool:
        vars_, found = vars(self), False
        for registry in (vars_, self._parameters, self._buffers, self._children):
            found = registry.pop(name, registry) is not registry or found
        self._transient.discard(name)
        if found:
            note_structure()
        return found

    def _place(self, name: str) -> str:
        return f"{type(self).__name__}.{name}"

    # -- attributes -----------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self.register_parameter(name, value)
        elif isinstance(value, Registry):
            self.register_module(name, value)
        elif value is not None and name in self._buffers:
            self.set_buffer(name, value)
        elif value is not None and (name in self._parameters or name in self._children):
            kind = "Parameter" if name in self._parameters else "Module"
            raise TypeError(
                f"{self._place(name)} is a {kind}, and {_article(value)} cannot take its place: "
                f"assign a {kind}, or None to remove it"
            )
        elif isinstance(value, (list, tuple, dict)) and _holds_state(value):
            raise TypeError(
                f"{self._place(name)}: modules or parameters inside a {type(value).__name__} are not found; "
                "keep them in nn.ModuleList, nn.ModuleDict, nn.ParameterList or nn.ParameterDict"
            )
        else:
            if name in self._parameters or name in self._buffers or name in self._children:
                self._forget(name)
            self._refuse_own(name)
            super().__setattr__(name, value)
            note_setting()

    def __getattr__(self, name: str) -> Any:
        state = vars(self)
        if name in state["_parameters"]:
            return bound_parameter(state["_parameters"][name])
        if name in state["_buffers"]:
            return bound_buffer(self, name)
        message = f"{type(self).__name__!r} object has no attribute {name!r}"
        # Names with an underscore are looked up by protocols, and never by mistake; others also by `hasattr`.
        if name.startswith("_"):
            raise AttributeError(message, name=name, obj=self)

        def hint() -> str:
            return suggestion(name, dir(self), hints("sknet.nn.Module")).removesuffix(".")

        raise MissingAttributeError(message, hint, name=name, obj=self)

    def __delattr__(self, name: str) -> None:
        if not self._forget(name):
            super().__delattr__(name)
            note_setting()

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._parameters, *self._buffers})

    # -- looking around -------------------------------------------------------------------------

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, "Module"]]:
        """Yield path and module for this module and all inside it, parents first; `prefix` begins every path.

        A module that is registered several times is yielded once, under its first path.
        """
        return iter(_walk(self, prefix))

    def modules(self) -> Iterator["Module"]:
        """Yield this module and all modules inside it, each once, parents before children."""
        return iter([module for _, module in _walk(self, "")])

    def named_children(self) -> Iterator[tuple[str, "Module"]]:
        """Yield name and module for the modules registered here."""
        return iter(list(self._children.items()))

    def children(self) -> Iterator["Module"]:
        return iter(list(self._children.values()))

    @named_errors
    def get_submodule(self, path: str) -> "Module":
        """Return the module at a dotted `path`, any of its paths if it is shared; "" is this module.

        Raises
        ------
        AttributeError
            If the path does not exist; the message names the part that is missing, and the modules there are.
        """
        module: Any = self
        for part in path.split(".") if path else ():
            if part not in module._children:
                raise AttributeError(
                    f"{type(self).__name__} has no module {shown(path)}: "
                    f"{type(module).__name__} has no {shown(part)}"
                    f"{nearest(part, module._children) or f', only {list(module._children)}'}"
                )
            module = module._children[part]
        return module

    @named_errors
    def get_parameter(self, path: str) -> Parameter:
        """Return the parameter at a dotted `path`, as the module's attribute would give it.

        Raises
        ------
        AttributeError
            If there is none.
        """
        owner, name = self._owner_of(path, "_parameters", "parameter")
        return bound_parameter(owner._parameters[name])  # type: ignore[return-value]

    @named_errors
    def get_buffer(self, path: str) -> Tensor:
        """Return the value of the buffer at a dotted `path`.

        Raises
        ------
        AttributeError
            If there is none.
        """
        return bound_buffer(*self._owner_of(path, "_buffers", "buffer"))

    _awaits_shapes = False

    def _check_shapes(self) -> None:
        """Raise a StateError if this is a lazy module, whose parameters are not made yet."""

    def _owner_of(self, path: str, registry: str, kind: str) -> tuple["Module", str]:
        parent, _, name = path.rpartition(".")
        owner = self.get_submodule(parent)
        known = getattr(owner, registry)
        if name not in known:
            raise AttributeError(
                f"{type(self).__name__} has no {kind} {shown(path)}: "
                f"{type(owner).__name__} has no {shown(name)}"
                f"{nearest(name, known) or f', only {list(known)}'}"
            )
        return owner, name

    def own_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Yield what `named_parameters` does outside `functional_call`; `prefix` begins every path."""
        found: dict[int, tuple[str, Parameter]] = {}
        for path, module in _walk(self, prefix):
            if module._awaits_shapes:
                module._check_shapes()
            for name, parameter in module._parameters.items():
                if id(parameter) not in found:
                    found[id(parameter)] = f"{path}.{name}" if path else name, parameter
        return iter(found.values())

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Yield path and parameter: a module's own, then its children's; `prefix` begins every path.

        A shared parameter is yielded once, under its first path. Inside `functional_call`, its values replace
        the parameters.
        """
        for path, parameter in self.own_parameters(prefix):
            yield path, bound_parameter(parameter)  # type: ignore[misc]

    def parameters(self) -> Iterator[Parameter]:
        """Yield the parameters of this module and all inside it, in the order of `named_parameters`."""
        return (parameter for _, parameter in self.named_parameters())

    def named_buffers(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """Yield path and value of the buffers of this module and those inside; `prefix` begins every path."""
        for path, module in self.named_modules(prefix):
            for name in module._buffers:
                yield join(path, name), bound_buffer(module, name)

    def buffers(self) -> Iterator[Tensor]:
        return (buffer for _, buffer in self.named_buffers())


class StateDict(dict[str, "np.ndarray[Any, Any]"]):
    """The state of a module: a dict of host arrays by path, with metadata.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        The arrays by path.
    metadata : dict
        Dicts, strings and numbers that JSON can represent.

    Notes
    -----
    ``metadata["versions"]`` maps the paths of modules to the `_version` of their class, where it is
    not 1, and ``metadata["init_versions"]`` to the version of the initial weights. A state without
    metadata, such as a plain dict, is assumed to have the current versions.

    Examples
    --------
    >>> from sknet import nn
    >>> state = nn.Sequential(nn.Linear(2, 1)).state_dict()
    >>> list(state), state.metadata
    (['0.weight', '0.bias'], {'versions': {}, 'init_versions': {'0': 2}})
    """

    def __init__(self, arrays: Mapping[str, Any], metadata: dict[str, Any]) -> None:
        super().__init__(arrays)
        self.metadata = metadata

    def __reduce__(self) -> Any:
        return StateDict, (dict(self), self.metadata)


class Keys(NamedTuple):
    """Differences between the keys of a state and of a module.

    Attributes
    ----------
    missing_keys : list of str
        Paths of the module that the state does not have.
    unexpected_keys : list of str
        Paths of the state that the module does not have.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.Linear(2, 1).load_state_dict({"weight": [[1.0], [2.0]], "scale": 1.0}, strict=False)
    Keys(missing_keys=['bias'], unexpected_keys=['scale'])
    """

    missing_keys: list[str]
    unexpected_keys: list[str]


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


class Module(Registry):
    """Base of all layers and networks: write `forward`, and assign parameters and modules as attributes.

    Assigned parameters and modules are registered: `parameters` finds a `Parameter`, `modules` a module, each
    under its dotted path, such as ``"encoder.0.weight"``.

    Notes
    -----
    The registries exist before `__init__` runs, so ``super().__init__()`` may be called, but need not.

    A forward pass reads its parameters and buffers as attributes, and changes buffers only by `set_buffer`.
    It can then be run as a pure function (`functional_call`), and by several threads at the same time.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> class Residual(nn.Module):
    ...     def __init__(self, width):
    ...         self.inner = nn.Linear(width, width)
    ...         self.scale = nn.Parameter(np.ones(1))
    ...
    ...     def forward(self, x):
    ...         return x + self.scale * self.inner(x)
    >>> block = Residual(3).initialize(0)
    >>> [path for path, _ in block.named_parameters()]
    ['scale', 'inner.weight', 'inner.bias']
    >>> block(np.ones((5, 3))).shape
    (5, 3)
    """

    _training = True
    _held = False
    _is_lazy = False  # a subclass has sizes that are not known yet
    _hooks: Hooks | None = None
    _init_version: int | None = None
    _version = 1
    _stored_fields = {
        "_training": [bool, ABSENT],
        "_held": [bool, ABSENT],
        "_init_version": [COUNT, None, ABSENT],
    }

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls) and cls.__module__.startswith(LAYERS):
            cls.__init__ = explained(cls.__init__)  # type: ignore[method-assign]

    @explained
    def __init__(self) -> None:
        """Do nothing: a subclass may leave the call out."""

    # -- computing ------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the forward pass."""
        if self._hooks is not None:
            return self._hooks.call(self, args, kwargs)
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module's output; subclasses write this.

        Raises
        ------
        TypeError
            If a subclass has not.
        """
        raise TypeError(
            f"{type(self).__name__} cannot be called: it has no forward pass, write `def forward(self, x):`"
        )

    @property
    def training(self) -> bool:
        """True if layers such as `Dropout` behave as in training; `functional_call` decides for its pass.

        It is False for a module whose statistics are fixed by an estimator's ``frozen=``.
        """
        if self._held:
            return False
        scope = current_scope()
        return self._training if scope is None or scope.training is None else scope.training

    @named_errors
    def train(self, mode: bool = True) -> Self:
        """Set the mode of this module and all below it, training or (False) prediction; return the module."""
        for module in self.modules():
            vars(module)["_training"] = bool(mode)
        return self

    def eval(self) -> Self:
        """Set the mode for prediction: ``train(False)``."""
        return self.train(False)

    @named_errors
    def apply(self, function: Callable[["Module"], Any]) -> Self:
        """Call ``function(module)`` with every module, children before parents; return this module."""
        _apply(self, function, set())
        return self

    @named_errors
    def requires_grad_(self, mode: bool = True) -> Self:
        """Make all parameters trainable, or if `mode` is False freeze them; return the module.

        No gradient is computed for frozen parameters, and a `Model` does not update them from the next step
        on. Running statistics, which are not parameters, are still updated; ``frozen=`` of an estimator fixes
        them too, until a call with True or another fit.
        """
        for _, parameter in self.own_parameters():
            parameter.requires_grad = bool(mode)
        if mode:
            for module in self.modules():
                hold_statistics(module, False)
        return self

    def zero_grad(self) -> Self:
        """Clear gradients that ``backward`` of a tensor has accumulated in the parameters; return the module.

        A `Model` needs no such call: its gradients are returned, and stored nowhere.

        Examples
        --------
        >>> from sknet import nn
        >>> layer = nn.Linear(2, 1)
        >>> layer([[1.0, 2.0]]).sum().backward()
        >>> layer.weight.grad is None, layer.zero_grad().weight.grad is None
        (False, True)
        """
        for _, parameter in self.own_parameters():
            parameter.grad = None
        return self

    def as_pure(self, function: Callable[..., Any]) -> Any:
        """Return this module, or a method of it, as a `function` of its parameters and buffers.

        For `sknet.compile.capture`: returns copies of the values by path, the parameters of the function, and
        ``call(values, *args)``, which runs in evaluation mode. Otherwise use `functional_call`.
        """
        return as_pure(self, function)

    def export(self, *example: Any, any_rows: bool = True, unroll: bool = False) -> Any:
        """Return this module as a graph with its parameters, which runs without the module's class.

        A shortcut of `sknet.graphs.export`, in evaluation mode: dropout does nothing, and batch norms use
        their running statistics. The graph is for inputs with the dtype of each `example` of an argument of
        `forward` and the lengths of its axes, except for the first if `any_rows`. With `unroll`, Python code
        may read the example's values, and what it does with them is fixed in the graph, which then has the
        shapes of the example only.

        Raises
        ------
        CaptureError
            If `forward` depends on values in a way that a graph would fix; the message names the line.

        Examples
        --------
        >>> import numpy as np
        >>> from sknet import nn
        >>> nn.Linear(3, 2).export(np.ones((1, 3), "float32"))
        GraphModule(2 operations, x: float32[n,3])
        """
        return above("export")(self, *example, any_rows=any_rows, unroll=unroll)

    # -- hooks ------------------------------------------------------------------------------------

    @named_errors
    def register_forward_pre_hook(self, hook: Callable[..., Any], *, with_kwargs: bool = False) -> HookHandle:
        """Register a function that receives, and may replace, the arguments of every forward pass.

        ``hook(module, args)`` returns None, or new arguments, a tuple or a single one; with `with_kwargs`,
        ``hook(module, args, kwargs)`` returns None or ``(args, kwargs)``. The method `remove` of the returned
        handle removes the `hook`.

        Notes
        -----
        Hooks of a kind run in the order in which they were registered, each on the result of the one before.
        `copy` and ``copy.deepcopy`` keep hooks, pickles leave them out. A forward pass with hooks is not
        compiled: a fit warns, and runs uncompiled.
        """
        return _hooks.register(self, "forward_pre", hook, with_kwargs)

    @named_errors
    def register_forward_hook(self, hook: Callable[..., Any], *, with_kwargs: bool = False) -> HookHandle:
        """Register a function that receives, and may replace, the output of every forward pass.

        ``hook(module, args, output)``, or with `with_kwargs` ``hook(module, args, kwargs, output)``, returns
        None or a new output. The method `remove` of the returned handle removes the `hook`.
        """
        return _hooks.register(self, "forward", hook, with_kwargs)

    @named_errors
    def register_full_backward_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Register a function that receives, and may replace, the gradients of the outputs.

        ``hook(module, grad_output)`` returns None or new gradients; ``grad_output`` is a tuple with a tensor
        for every leaf of the output, None for one that has no gradient. The method `remove` of the returned
        handle removes the `hook`.
        """
        return _hooks.register(self, "backward_pre", hook)

    @named_errors
    def register_full_backward_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Register a function that receives the gradients of inputs and outputs, and may replace the former.

        ``hook(module, grad_input, grad_output)`` returns None, or gradients that replace ``grad_input``: a
        tuple with a tensor for every leaf of the positional arguments, None for one that needs no gradient.
        The method `remove` of the returned handle removes the `hook`.

        Notes
        -----
        If no input needs a gradient, as in a first layer, the hook runs when the gradients of the outputs are
        known. Hooks also run for gradients of gradients.
        """
        return _hooks.register(self, "backward", hook)

    # -- what it shows ------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """Return the text that `repr` shows in parentheses: the arguments that differ from their defaults."""
        return repr_arguments(self)

    def __repr__(self) -> str:
        return repr_tree(self)

    # -- state ----------------------------------------------------------------------------------

    def initialize(self, random_state: "int | RandomState | None" = None) -> Self:
        """Draw each parameter that was not drawn yet, in the order of `named_parameters`; return the module.

        A `random_state` of None is NumPy's global state, as in scikit-learn.

        Notes
        -----
        The same seed gives the same weights in every dtype and on every device: they are drawn on the host in
        float64, then converted. To draw float64 weights in full precision, call `to` before this method.
        """
        source = check_random_state(random_state)
        for _, parameter in self.own_parameters():
            parameter.draw(source)
        return self

    def init_versions(self) -> dict[str, int]:
        """Return the version of the default scheme of each module that was initialized by it, by path.

        See `sknet.nn.init.version`.
        """
        found = {path: module._init_version for path, module in self.named_modules()}
        return {path: version for path, version in found.items() if version is not None}

    def state_dict(self) -> StateDict:
        """Return copies of all parameters and persistent buffers: arrays on the host by path.

        A parameter or buffer that is shared appears under its first path.
        """
        return state_dict(self)

    def _migrate_state(self, state: dict[str, Any], prefix: str, version: int) -> None:
        """Change this module's entries in a state that was written by an older `_version` of its class."""

    @named_errors
    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> Keys:
        """Copy values into the parameters and persistent buffers: all of them, or none after an error.

        Arrays in `state`, as `state_dict` returns it, are converted to this module's dtypes and devices.
        `strict` requires the same paths; False loads those in both. Missing and unexpected paths are returned
        as `Keys`.

        Raises
        ------
        StateError
            If the state does not fit; the message names missing and unexpected paths, and shapes and dtypes
            that differ.

        Notes
        -----
        If a class changes its parameters in a new release, it increments its `_version` and converts the
        entries of older states in `_migrate_state`.
        """
        return load_state_dict(self, state, strict)

    @named_errors
    def to(self, dtype: DTypeLike | None = None, device: "str | Device | None" = None) -> Self:
        """Convert the floating parameters and buffers to a dtype, and move all of them to a device.

        `dtype` is "float32" or "float64"; None for `dtype` or `device` leaves it unchanged. The module is
        changed in place, and returned.

        Raises
        ------
        DtypeError, DeviceError
            If there is no such dtype or device; the module is then unchanged.
        StateError
            If a `Model` owns the parameters, and computes in another dtype or on another device.
        """
        found = None if dtype is None else check_float_dtype(dtype, where=type(self).__name__)
        place = None if device is None else available(device)
        modules = list(self.modules())
        homes = [parameter.home for module in modules for parameter in module._parameters.values()]
        for home in homes:
            if home is not None:
                home.check_move(found, place)
        for module in modules:
            module._convert(found, place)
        return self

    def _convert(self, dtype: "np.dtype[Any] | None", device: Device | None) -> None:
        for tensor in (*self._parameters.values(), *self._buffers.values()):
            convert(tensor, dtype, device)

    def copy(self) -> Self:
        """Return a copy of this module and all inside it, with new parameters that share the values.

        Loading, moving, drawing or training the copy does not change this module, as long as arrays are
        replaced and not written to; parameters of a `Model`, which writes to them in place, are copied with
        their values. All other attributes are shared. Modules and parameters that are shared inside this
        module are shared inside the copy.
        """
        return copy_with(self, {})

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        clone = memo[id(self)] = type(self).__new__(type(self))
        state = {**self.__getstate__()}  # what a class returns may be its own attributes
        transient = {*state.pop("_transient", ())}
        registries = {name: _deep_copies(state.pop(name), memo) for name in REGISTRIES if name in state}
        vars(clone).update(_deep_copies(state, memo), _transient=transient, **registries)
        if self._hooks is not None:
            vars(clone)["_hooks"] = Hooks(self._hooks)
        return clone

    def __getstate__(self) -> dict[str, Any]:
        # Most hooks are closures, none of which should make a fitted model impossible to save.
        return {name: value for name, value in vars(self).items() if name != "_hooks"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


def _apply(module: Module, function: Callable[[Module], Any], seen: set[int]) -> None:
    if id(module) not in seen:
        seen.add(id(module))
        for child in module.children():
            _apply(child, function, seen)
        function(module)


def copy_with(module: M, values: Mapping[Parameter, Any]) -> M:
    """Return a copy of a module, in which some parameters have other values."""
    return _copy(module, {id(parameter): parameter.like(data) for parameter, data in values.items()})


def _copy(module: Module, done: dict[int, Any]) -> Any:
    """Copy the tree below `module`, each once: `done` maps identities of originals to their copies."""
    if id(module) in done:
        return done[id(module)]
    clone = done[id(module)] = type(module).__new__(type(module))
    children = {name: _copy(child, done) for name, child in module._children.items()}
    for parameter in module._parameters.values():
        if id(parameter) not in done:
            done[id(parameter)] = parameter.copy()
    vars(clone).update(
        vars(module) | children,
        _parameters={name: done[id(parameter)] for name, parameter in module._parameters.items()},
        _buffers={name: buffer.detach() for name, buffer in module._buffers.items()},
        _transient=set(module._transient),
        _children=children,
    )
    if module._hooks is not None:
        vars(clone)["_hooks"] = Hooks(module._hooks)
    return clone


def _deep_copies(values: Mapping[str, Any], memo: dict[int, Any]) -> dict[str, Any]:
    return {name: value if type(value) in PLAIN else deepcopy(value, memo) for name, value in values.items()}


def state_dict(module: Module) -> StateDict:
    """Return copies of the parameters and persistent buffers by path, on the host."""
    versions = {path: each._version for path, each in module.named_modules() if each._version != 1}
    metadata = {"versions": versions, "init_versions": module.init_versions()}
    return StateDict({path: np.array(to_host(tensor.data)) for path, tensor in _state(module)}, metadata)


def load_state_dict(module: Module, state: Mapping[str, Any], strict: bool = True) -> Keys:
    """Copy a state into a module, after checking that all of it fits."""
    own, metadata = dict(_state(module)), getattr(state, "metadata", None)
    if metadata is not None:
        state = _migrated(module, state, metadata["versions"])
    keys = Keys([path for path in own if path not in state], [path for path in state if path not in own])
    problems = _differences(keys) if strict else []
    arrays = {path: _host(state[path]) for path in own if path in state}
    problems += [complaint for path, array in arrays.items() for complaint in _misfit(path, own[path], array)]
    if problems:
        raise StateError(
            f"this state does not fit {type(module).__name__}; nothing was loaded:\n  "
            + "\n  ".join(problems)
        )
    for path, array in arrays.items():
        target = own[path]
        target.data = to_device(np.array(array, dtype=target.dtype), target.device)
    if metadata is not None:
        for path, each in module.named_modules():
            vars(each)["_init_version"] = metadata["init_versions"].get(path)
    return keys


def _migrated(module: Module, state: Mapping[str, Any], versions: Mapping[str, int]) -> dict[str, Any]:
    """Return a state as the current classes would have written it."""
    changed = dict(state)
    for path, each in module.named_modules():
        version = versions.get(path, 1)
        if version > each._version:
            raise StateError(
                f"the state of {path or type(each).__name__!r} was written by version {version} of "
                f"{type(each).__name__}, this release knows versions up to {each._version}: "
                "install a later one"
            )
        if version < each._version:
            each._migrate_state(changed, f"{path}." if path else "", version)
    return changed


def _state(module: Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.own_parameters()
    for path, owner in module.named_modules():
        for name, buffer in owner._buffers.items():
            if name not in owner._transient:
                yield join(path, name), buffer


def _host(value: Any) -> np.ndarray[Any, Any]:
    value = value.data if isinstance(value, Tensor) else value
    return np.asarray(to_host(value) if is_array(value) else value)


def _differences(keys: Keys) -> list[str]:
    missing, unexpected = keys
    problems = []
    if missing:
        problems.append(f"missing: {', '.join(map(repr, missing))}")
    if unexpected:
        problems.append(
            f"unexpected: {', '.join(repr(path) + nearest(path, missing) for path in unexpected)}"
        )
    if problems:
        problems.append("strict=False loads what is common to both")
    return problems


def _misfit(path: str, target: Tensor, array: np.ndarray[Any, Any]) -> list[str]:
    if array.shape != target.shape:
        return [f"{path!r}: expected shape {target.shape}, got {array.shape}"]
    if array.dtype.kind not in "biuf" or not np.can_cast(array.dtype, target.dtype, "same_kind"):
        return [f"{path!r}: expected a dtype that converts to {target.dtype}, got {array.dtype}"]
    return []


def hold_statistics(module: Module, mode: bool) -> None:
    """Let a module, without those below it, compute as in prediction even in training, or no longer."""
    if module._held == mode:
        return
    if mode:
        vars(module)["_held"] = True
    else:
        del vars(module)["_held"]
    note_setting()


def is_held(module: Module) -> bool:
    """Tell whether a module's statistics are held."""
    return module._held


def with_statistics(module: Module) -> list[tuple[Module, set[str], list[str]]]:
    """Return the modules that keep statistics, with the paths of their own parameters and buffers."""
    first, found = {id(parameter): path for path, parameter in module.own_parameters()}, []
    for path, each in module.named_modules():
        buffers = [join(path, name) for name in each._buffers if name not in each._transient]
        if buffers:
            found.append((each, {first[id(parameter)] for parameter in each._parameters.values()}, buffers))
    return found


def held_buffers(module: Module) -> set[str]:
    """Return the paths of the buffers of all modules, this one and those below, whose statistics are held."""
    return {join(path, name) for path, each in module.named_modules() if each._held for name in each._buffers}


def held_of(module: Module) -> Callable[[], None]:
    """Return a function that lets each module, this one and those below, be held or not as it is now."""
    found = [(each, each._held) for each in module.modules() if each._buffers]

    def restore() -> None:
        for each, held in found:
            hold_statistics(each, held)

    return restore


def bindings(module: Module) -> dict[str, Binding]:
    """Return the keys under which a `Scope` has the parameters and buffers of a module.

    To run a module many times, look the bindings up once, and fill ``Scope.values``.

    Parameters
    ----------
    module : Module
        The module.

    Returns
    -------
    dict of str to binding
        A key for every path, parameters first; valid while the module keeps its parameters.

    Examples
    --------
    >>> from sknet import nn
    >>> list(nn.bindings(nn.Sequential(nn.Linear(3, 2), nn.ReLU())))
    ['0.weight', '0.bias']
    """
    found: dict[str, Binding] = {path: id(parameter) for path, parameter in module.own_parameters()}
    for path, owner in module.named_modules():
        found.update({join(path, name): (id(owner), name) for name in owner._buffers})
    return found


@named_errors
def functional_call(
    module: Module,
    values: Mapping[str, Any],
    args: Any,
    *,
    training: bool = True,
    key: Key | None = None,
    step: int = 0,
) -> tuple[Any, dict[str, Tensor]]:
    """Run a module with other parameters and buffers than its own, without changing it.

    Parameters
    ----------
    module : Module
        The module to run.
    values : mapping of str to Tensor or array
        Parameters and buffers by their path. The module's own are used for those that are missing.
    args : tuple or object
        Arguments of the forward pass; anything but a tuple is the only argument.
    training : bool, default=True
        Mode of every module during this pass, whatever `train` and `eval` have set.
    key : tuple of two int, default=None
        Stream of the random numbers that layers such as `Dropout` draw.
    step : int, default=0
        Position in the stream: the same key and step draw the same numbers.

    Returns
    -------
    output : object
        Output of the forward pass.
    buffers : dict of str to Tensor
        The buffers that the pass has set, by path, such as running means.

    Raises
    ------
    StateError
        For a path that the module does not have, or if a layer draws random numbers without `key`.

    Notes
    -----
    Inside another `functional_call`, values that the outer call replaces stay replaced. Mode and random
    stream are those of the inner call, and updates are returned, not passed to the outer call.

    Examples
    --------
    >>> from sknet import nn
    >>> net = nn.Sequential(nn.Linear(2, 1))
    >>> values = {"0.weight": [[1.0], [2.0]], "0.bias": [3.0]}
    >>> output, buffers = nn.functional_call(net, values, [[10.0, 100.0]])
    >>> output.numpy()
    array([[213.]])
    """
    known = bindings(module)
    unknown = [path for path in values if path not in known]
    if unknown:
        raise StateError(
            f"functional_call: {type(module).__name__} has no parameter or buffer "
            f"{', '.join(repr(path) + nearest(path, known) for path in unknown)}"
        )
    bound = {known[path]: as_tensor(value) for path, value in values.items()}
    outer = current_scope()
    if outer is not None:
        bound = {**outer.values, **outer.updates, **bound}
    scope = Scope(bound, training, key, step)
    output = run(module, scope, args if isinstance(args, tuple) else (args,))
    return output, {path: scope.updates[slot] for path, slot in known.items() if slot in scope.updates}


def as_pure(
    module: Module, function: Callable[..., Any]
) -> tuple[dict[str, np.ndarray[Any, Any]], list[Argument], Callable[..., Any]]:
    """Return a module, or a method of it, as a function of what it holds, in evaluation mode."""
    known = bindings(module)
    arrays = {path: parameter.data for path, parameter in module.own_parameters()}
    arrays |= {path: buffer.data for path, buffer in module.named_buffers()}
    values = {path: np.array(to_host(array)) for path, array in arrays.items()}
    for value in values.values():
        value.flags.writeable = False

    def call(values: Mapping[str, Any], *args: Any) -> Any:
        scope = Scope({known[path]: as_tensor(value) for path, value in values.items()}, training=False)
        result = run(function, scope, args)
        changed = [path for path, slot in known.items() if slot in scope.updates]
        if changed:
            raise CaptureError(
                f"{type(module).__name__} sets its buffer {changed[0]!r} in evaluation mode, and a graph "
                "changes nothing: capture nn.functional_call, which returns new buffers"
            )
        return result

    takes = signature(module.forward if function is module else function).parameters
    return values, list(takes.values()), call


MOST_LINES, MOST_LEVELS = 1000, 100  # a shared module is shown wherever it is: a tree may be endless


def repr_arguments(module: Module, leave_out: tuple[str, ...] = ()) -> str:
    """Return the constructor's arguments that the module keeps under their own names."""
    kept = vars(module)
    return ", ".join(
        f"{name}={shown(kept[name])}"
        for name, parameter in inspect.signature(type(module)).parameters.items()
        if name in kept
        and name not in leave_out
        and name not in module._children
        and shown(kept[name]) != shown(parameter.default)
    )


def repr_tree(module: Module) -> str:
    """Return the module on one line, or its children on a line each, up to a limit."""
    lines = list(islice(_lines(module, 0), MOST_LINES + 1))
    return "\n".join(lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], "..."])


def _lines(module: Module, level: int) -> Iterator[str]:
    opening = f"{type(module).__name__}({module.extra_repr()}"
    if not module._children:
        yield from f"{opening})".split("\n")
    elif level == MOST_LEVELS:
        yield f"{opening}...)"
    else:
        yield from opening.split("\n")
        for name, child in module._children.items():
            own: Any = type(child).__repr__
            is_tree = own is type(module).__repr__
            inside = _lines(child, level + 1) if is_tree else iter(repr(child).split("\n"))
            yield f"  ({name}): {next(inside)}"
            yield from (f"  {line}" for line in inside)
        yield ")"


def check_arguments(layer: object, **arguments: Any) -> None:
    """Check arguments against the layer's `_parameter_constraints`, which have scikit-learn's format."""
    constraints = {name: layer._parameter_constraints[name] for name in arguments}  # type: ignore[attr-defined]
    check_values(layer, constraints, arguments)


def _of(init: Callable[..., None]) -> inspect.Signature:
    signature = inspect.signature(init)
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def _mismatch(
    cls: type, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> str | None:
    """Return a message about arguments that do not fit a constructor; None if they fit."""
    name, names = cls.__name__, [name for name in signature.parameters if name != "self"]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    its = f"Its parameters are {', '.join(names)}." if names else "It has none."
    bases = [base.__name__ for base in cls.__mro__]
    if any(isinstance(value, Registry) for value in args[:1]):
        hint = next((hints("modules")[base] for base in bases if base in hints("modules")), None)
        if hint is not None:
            return f"{name} takes no layer: {hint.format(name)}. {its}"
    unknown = [] if takes_any else [each for each in kwargs if each not in names]
    if unknown:
        hint = parameter_hint(cls, unknown[0], names, "layer")
        return f"{name} has no parameter {unknown[0]!r}{or_names(hint, its)}"
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return f"{name}: {error}. {its}"
    return None


def join(path: str, name: str) -> str:
    """Return the dotted path of `name` inside the module at `path`."""
    return f"{path}.{name}" if path else name


def nearest(path: str, known: Iterable[str]) -> str:
    """Return a hint at the known path that was probably meant, or nothing."""
    found = difflib.get_close_matches(path, list(known), n=1)
    return f" (did you mean {found[0]!r}?)" if found else ""


def _walk(module: Registry, path: str) -> list[tuple[str, Any]]:
    """Return a module and all below with their paths, each once, parents first."""
    left, found = [(path, module)], dict[int, tuple[str, Any]]()  # a generator takes twice as long
    while left:
        path, module = left.pop()
        if id(module) not in found:
            found[id(module)] = path, module
            for name, child in reversed(module._children.items()):
                left.append((f"{path}.{name}" if path else name, child))
    return list(found.values())


def _holds_state(values: Any) -> bool:
    return any(
        isinstance(value, (Registry, Parameter))
        for value in (values.values() if isinstance(values, dict) else values)
    )


def _article(value: Any) -> str:
    return (
        f"the class {value.__name__}"
        if isinstance(value, type)
        else f"an object of type {type(value).__name__}"
    )


@named_errors
def is_lazy(module: Module) -> bool:
    """Tell whether a module, or one inside it, is lazy: its shapes are not known yet.

    Parameters
    ----------
    module : Module
        The module to look at.

    Returns
    -------
    bool
        True until `materialize` or the first call.

    Examples
    --------
    >>> from sknet import nn
    >>> is_lazy(nn.LazyLinear(3)), is_lazy(nn.Linear(2, 3))
    (True, False)
    """
    return any(each._is_lazy for each in module.modules())


def takes_data(layer: object) -> bool:
    """Tell whether a layer can be shown data."""
    return callable(getattr(type(layer), "see_data", None))
