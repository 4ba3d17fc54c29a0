"""Module: a tree of parameters and buffers with a forward pass."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import DTypeLike
from sklearn.utils import check_random_state

from sknet.device import Device, available, check_float_dtype
from sknet.nn import _repr, _state_dict
from sknet.nn._parameter import convert
from sknet.nn._registry import Registry
from sknet.nn._scope import current_scope

__all__ = ["Module"]


class Module(Registry):
    """Base of all layers and networks: write `forward`, and assign parameters and modules as attributes.

    What is assigned is registered: a `Parameter` is found by `parameters`, a module by `modules`,
    each under its dotted path, such as ``"encoder.0.weight"``.

    Notes
    -----
    The registries exist before `__init__` runs, so ``super().__init__()`` may be called, and
    cannot be forgotten.

    A forward pass reads its parameters and buffers as attributes, and changes a buffer with
    `set_buffer` alone. Then it is a pure function for whoever wants one (`functional_call`), and
    several threads can run one module at the same time.

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

    def __init__(self) -> None:
        """Do nothing: a subclass may leave the call out."""

    # -- computing ------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the forward pass."""
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
        """Whether layers such as `Dropout` behave as in training; `functional_call` decides for its pass."""
        scope = current_scope()
        return self._training if scope is None else scope.training

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
        the host in float64, then converted. Call `to` before, not after, where float64 weights
        should have all their digits.
        """
        source = check_random_state(random_state)
        for _, parameter in self.own_parameters():
            parameter.draw(source)
        return self

    def state_dict(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return copies of all parameters and persistent buffers.

        Returns
        -------
        dict of str to ndarray
            By path, on the host. What two modules share appears under its first path.
        """
        return _state_dict.state_dict(self)

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Copy values into the parameters and persistent buffers: all of them, or after an error none.

        Parameters
        ----------
        state : mapping of str to array
            As `state_dict` returns it; converted to this module's dtypes and devices.
        strict : bool, default=True
            Require the same paths. False loads those that both have.

        Raises
        ------
        StateError
            Names missing and unexpected paths, and those whose shape or dtype does not fit.
        """
        _state_dict.load_state_dict(self, state, strict)

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
        """
        found = None if dtype is None else check_float_dtype(dtype, where=type(self).__name__)
        place = None if device is None else available(device)
        for _, parameter in self.own_parameters():
            convert(parameter, found, place)
        for module in self.modules():
            for buffer in module._buffers.values():
                convert(buffer, found, place)
        return self

    def copy(self) -> Self:
        """Return the same tree of new modules, with new parameters that share their values with these.

        Loading, moving, drawing or training the copy leaves this module alone, as long as arrays are
        replaced and not written to. All other attributes are shared.

        Returns
        -------
        Module
            Of the same class; what was shared inside the tree is shared inside the copy.
        """
        return _copy(self, {})  # type: ignore[no-any-return]

    __copy__ = copy


def _copy(module: Module, done: dict[int, Any]) -> Any:
    """Copy what stands below `module`, once: `done` maps the identities of originals to their copies."""
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
    return clone
