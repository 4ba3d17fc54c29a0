"""Module: a tree of parameters and buffers with a forward pass."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Self, TypeVar

import numpy as np
from numpy.random import RandomState
from numpy.typing import DTypeLike

from sknet._constraints import PLAIN
from sknet._fields import ABSENT, COUNT
from sknet._late import above
from sknet._random import check_random_state
from sknet.core import HookHandle
from sknet.device import Device, available, check_float_dtype
from sknet.nn import _hooks, _repr, _state_dict
from sknet.nn._constructors import explained
from sknet.nn._functional_call import as_pure
from sknet.nn._held import hold_statistics
from sknet.nn._hooks import Hooks
from sknet.nn._parameter import Parameter, convert
from sknet.nn._registry import Registry
from sknet.nn._scope import current_scope
from sknet.nn._state_dict import Keys, StateDict

__all__ = ["Module", "copy_with"]

M = TypeVar("M", bound="Module")

LAYERS = ("sknet.nn.layers", "sknet.nn._lazy")  # modules with constructors that explain their arguments
REGISTRIES = ("_parameters", "_buffers", "_children")


class Module(Registry):
    """Base of all layers and networks: write `forward`, and assign parameters and modules as attributes.

    What is assigned is registered: a `Parameter` is found by `parameters`, a module by `modules`,
    each under its dotted path, such as ``"encoder.0.weight"``.

    Notes
    -----
    The registries exist before `__init__` runs, so ``super().__init__()`` may be called, and
    cannot be forgotten.

    A forward pass reads its parameters and buffers as attributes, and changes a buffer with
    `set_buffer` alone. It can then be run as a pure function (`functional_call`), and by several
    threads at the same time.

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
        """Whether layers such as `Dropout` behave as in training; `functional_call` decides for its pass.

        It is False for a module whose statistics an estimator's ``frozen=`` holds.
        """
        if self._held:
            return False
        scope = current_scope()
        return self._training if scope is None or scope.training is None else scope.training

    def train(self, mode: bool = True) -> Self:
        """Set the mode of this module and all below it.

        Parameters
        ----------
        mode : bool, default=True
            True for training, False for prediction.

        Returns
        -------
        Module
            Itself.
        """
        for module in self.modules():
            vars(module)["_training"] = bool(mode)
        return self

    def eval(self) -> Self:
        """Set the mode for prediction: ``train(False)``."""
        return self.train(False)

    def apply(self, function: Callable[["Module"], Any]) -> Self:
        """Call a function with every module: those below first, this one last.

        Parameters
        ----------
        function : callable
            ``function(module)``; what it returns is ignored.

        Returns
        -------
        Module
            Itself.
        """
        _apply(self, function, set())
        return self

    def requires_grad_(self, mode: bool = True) -> Self:
        """Make all parameters trainable, or freeze them.

        Parameters
        ----------
        mode : bool, default=True
            False freezes: no gradient is computed, and a `Model` leaves the parameters out of its
            steps, from the next one on. Running statistics, which are no parameters, still follow the
            batches; ``frozen=`` of an estimator holds them too, until True or another fit releases them.

        Returns
        -------
        Module
            Itself.
        """
        for _, parameter in self.own_parameters():
            parameter.requires_grad = bool(mode)
        if mode:
            for module in self.modules():
                hold_statistics(module, False)
        return self

    def zero_grad(self) -> Self:
        """Clear the gradients that ``backward`` of a tensor has accumulated in the parameters.

        A `Model` needs no such call: its gradients are returned, and stored nowhere.

        Returns
        -------
        Module
            Itself.

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
        """Return this module, or a method of it, as a function of its parameters and buffers.

        `sknet.compile.capture` asks for it; `functional_call` is for all else.

        Parameters
        ----------
        function : callable
            The module itself or its method, which will run in evaluation mode.

        Returns
        -------
        values : dict of str to ndarray
            Copies of parameters and buffers, by path.
        parameters : list of inspect.Parameter
            What the function takes.
        call : callable
            ``call(values, *args)``.
        """
        return as_pure(self, function)

    def export(self, *example: Any, any_rows: bool = True, unroll: bool = False) -> Any:
        """Return this module as a graph with its parameters, which needs no class of one's own to compute.

        The short way to `sknet.graphs.export`.

        Parameters
        ----------
        *example : trees of arrays, each of shape (n_samples, ...)
            Examples of the arguments of `forward`: dtypes count, and the lengths of all axes but the first.
        any_rows : bool, default=True
            Whether the first axis of each array may have any length; False takes the example's shapes only.
        unroll : bool, default=False
            Let Python read the example's values, and freeze what it does with them; for its shapes only.

        Returns
        -------
        GraphModule
            In evaluation mode for ever: dropout does nothing, and batch norms use their running statistics.

        Raises
        ------
        CaptureError
            If `forward` does something that a graph would freeze; names the line.

        Examples
        --------
        >>> import numpy as np
        >>> from sknet import nn
        >>> nn.Linear(3, 2).export(np.ones((1, 3), "float32"))
        GraphModule(2 operations, x: float32[n,3])
        """
        return above("export")(self, *example, any_rows=any_rows, unroll=unroll)

    # -- hooks ------------------------------------------------------------------------------------

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, with_kwargs: bool = False) -> HookHandle:
        """Register a function that sees, and may replace, the arguments of every forward pass.

        Parameters
        ----------
        hook : callable
            ``hook(module, args)`` returns None, or new arguments, a tuple or a single one.
        with_kwargs : bool, default=False
            Call ``hook(module, args, kwargs)``, which returns None or ``(args, kwargs)``.

        Returns
        -------
        HookHandle
            Its `remove` removes the hook.

        Notes
        -----
        Hooks of a kind run in the order in which they were registered, each on the result of the
        one before. `copy` and ``copy.deepcopy`` keep hooks, pickles leave them out: a function is not
        state. A pass with hooks is not compiled: a fit warns, and runs uncompiled.
        """
        return _hooks.register(self, "forward_pre", hook, with_kwargs)

    def register_forward_hook(self, hook: Callable[..., Any], *, with_kwargs: bool = False) -> HookHandle:
        """Register a function that sees, and may replace, the output of every forward pass.

        Parameters
        ----------
        hook : callable
            ``hook(module, args, output)`` returns None or a new output.
        with_kwargs : bool, default=False
            Call ``hook(module, args, kwargs, output)``.

        Returns
        -------
        HookHandle
            Its `remove` removes the hook.
        """
        return _hooks.register(self, "forward", hook, with_kwargs)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Register a function that sees, and may replace, the gradients of the outputs.

        Parameters
        ----------
        hook : callable
            ``hook(module, grad_output)`` returns None or new gradients; ``grad_output`` is a tuple
            with a tensor for every leaf of the output, None for one that has no gradient.

        Returns
        -------
        HookHandle
            Its `remove` removes the hook.
        """
        return _hooks.register(self, "backward_pre", hook)

    def register_full_backward_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Register a function that sees the gradients of inputs and outputs.

        Parameters
        ----------
        hook : callable
            ``hook(module, grad_input, grad_output)`` returns None, or gradients to take the place of
            ``grad_input``: a tuple with a tensor for every leaf of the positional arguments, None for
            one that needs no gradient.

        Returns
        -------
        HookHandle
            Its `remove` removes the hook.

        Notes
        -----
        Where no input needs a gradient, as in a first layer, the hook runs when the gradients of the
        outputs are there. Gradients of gradients go through hooks as well.
        """
        return _hooks.register(self, "backward", hook)

    # -- what it shows ------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """Return what `repr` shows in the parentheses: the arguments that differ from their defaults."""
        return _repr.arguments(self)

    def __repr__(self) -> str:
        return _repr.tree(self)

    # -- state ----------------------------------------------------------------------------------

    def initialize(self, random_state: "int | RandomState | None" = None) -> Self:
        """Draw every parameter that was not drawn yet, in the order of `named_parameters`.

        Parameters
        ----------
        random_state : int, RandomState or None, default=None
            What to draw from; None is NumPy's global state, as everywhere in scikit-learn.

        Returns
        -------
        Module
            Itself.

        Notes
        -----
        The same seed gives the same weights in every dtype and on every device: they are drawn on
        the host in float64, then converted. Call `to` before, not after, to draw float64 weights
        in full precision.
        """
        source = check_random_state(random_state)
        for _, parameter in self.own_parameters():
            parameter.draw(source)
        return self

    def init_versions(self) -> dict[str, int]:
        """Return which version of the default initial weights modules were made for, by path.

        Returns
        -------
        dict of str to int
            For the modules that took the default; see `sknet.nn.init.version`.
        """
        found = {path: module._init_version for path, module in self.named_modules()}
        return {path: version for path, version in found.items() if version is not None}

    def state_dict(self) -> StateDict:
        """Return copies of all parameters and persistent buffers.

        Returns
        -------
        StateDict
            A dict of host arrays by path. What two modules share appears under its first path.
        """
        return _state_dict.state_dict(self)

    def _migrate_state(self, state: dict[str, Any], prefix: str, version: int) -> None:
        """Change this module's entries in a state that was written by an older `_version` of its class."""

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> Keys:
        """Copy values into the parameters and persistent buffers: all of them, or after an error none.

        Parameters
        ----------
        state : mapping of str to array
            As `state_dict` returns it; converted to this module's dtypes and devices.
        strict : bool, default=True
            Require the same paths. False loads those that both have.

        Returns
        -------
        Keys
            Which paths were missing, and which unexpected.

        Raises
        ------
        StateError
            Names missing and unexpected paths, and those whose shape or dtype does not fit.

        Notes
        -----
        A class that changes its parameters increments its `_version`, and rewrites the entries of
        older states in `_migrate_state`.
        """
        return _state_dict.load_state_dict(self, state, strict)

    def to(self, dtype: DTypeLike | None = None, device: "str | Device | None" = None) -> Self:
        """Convert the floating parameters and buffers to a dtype, and move all of them to a device.

        Parameters
        ----------
        dtype : {"float32", "float64"}, default=None
            None leaves dtypes as they are.
        device : str or Device, default=None
            None leaves everything where it is.

        Returns
        -------
        Module
            Itself, changed in place.

        Raises
        ------
        DtypeError, DeviceError
            If there is no such dtype or device; nothing is changed then.
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
        """Convert this module's own parameters and buffers."""
        for tensor in (*self._parameters.values(), *self._buffers.values()):
            convert(tensor, dtype, device)

    def copy(self) -> Self:
        """Return the same tree of new modules, with new parameters that share their values with these.

        Loading, moving, drawing or training the copy leaves this module alone, as long as arrays are
        replaced and not written to. All other attributes are shared.

        Returns
        -------
        Module
            Of the same class; what was shared inside the tree is shared inside the copy. Parameters
            that a `Model` owns, which writes to them in place, are copied with their values.
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
        return {name: value for name, value in vars(self).items() if name != "_hooks"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


def _deep_copies(values: Mapping[str, Any], memo: dict[int, Any]) -> dict[str, Any]:
    return {name: value if type(value) in PLAIN else deepcopy(value, memo) for name, value in values.items()}


def _apply(module: Module, function: Callable[[Module], Any], seen: set[int]) -> None:
    if id(module) not in seen:
        seen.add(id(module))
        for child in module.children():
            _apply(child, function, seen)
        function(module)


def copy_with(module: M, values: Mapping[Parameter, Any]) -> M:
    """Return a copy of a module, in which some parameters have other values."""
    return _copy(module, {id(parameter): parameter.like(data) for parameter, data in values.items()})  # type: ignore[no-any-return]


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
