"""A module as a pure function of its parameters and buffers."""

from collections.abc import Callable, Mapping
from inspect import Parameter as Argument
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet.core import Tensor, as_tensor
from sknet.device import to_host
from sknet.exceptions import CaptureError, StateError
from sknet.nn._registry import join, nearest
from sknet.nn._scope import Binding, Key, Scope, current_scope, run

if TYPE_CHECKING:
    from sknet.nn._module import Module

__all__ = ["as_pure", "bindings", "functional_call"]


def bindings(module: "Module") -> dict[str, Binding]:
    """Return what a `Scope` calls the parameters and buffers of a module.

    To run a module many times, look the bindings up once, and fill ``Scope.values``.

    Parameters
    ----------
    module : Module
        The module.

    Returns
    -------
    dict of str to binding
        A key for every path, parameters first. It holds while the module keeps its parameters.

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


def functional_call(
    module: "Module",
    values: Mapping[str, Any],
    args: Any,
    *,
    training: bool = True,
    key: Key | None = None,
    step: int = 0,
) -> tuple[Any, dict[str, Tensor]]:
    """Run a module with other parameters and buffers than its own; nothing is changed.

    Parameters
    ----------
    module : Module
        What to run.
    values : mapping of str to Tensor or array
        Parameters and buffers by their path. The module's own are used for those that are missing.
    args : tuple or object
        Arguments of the forward pass; anything but a tuple is the only argument.
    training : bool, default=True
        Mode of every module during this pass, whatever `train` and `eval` have set.
    key : tuple of two int, default=None
        Stream of the random numbers that layers such as `Dropout` draw.
    step : int, default=0
        Which step of the stream: the same key and step draw the same numbers.

    Returns
    -------
    output : object
        What the forward pass returns.
    buffers : dict of str to Tensor
        The buffers that the pass has set, by path, such as running means.

    Raises
    ------
    StateError
        For a path that the module does not have, or if a layer draws random numbers without `key`.

    Notes
    -----
    Inside another `functional_call`, what the outer one has replaced stays replaced. Mode and
    random stream are this call's, and updates are returned, not handed to the outer pass.

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
    module: "Module", function: Callable[..., Any]
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
