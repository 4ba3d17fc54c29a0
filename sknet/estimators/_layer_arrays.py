"""The arrays of a perceptron's linear layers, as a list that writes to the network."""

from collections.abc import Callable, Iterable
from typing import Any, NoReturn, SupportsIndex

import numpy as np

from sknet.device import to_host
from sknet.engine import Model

__all__ = ["LayerArrays", "read_only", "write_arrays"]


class LayerArrays(list[Any]):
    """A list of arrays, one a layer, whose items can be replaced: the network has the new ones then."""

    def __init__(self, arrays: Iterable[Any], write: Callable[[list[Any]], None], name: str) -> None:
        super().__init__(arrays)
        self._write, self._name = write, name

    def __setitem__(self, index: "SupportsIndex | slice", value: Any) -> None:
        changed = list(self)
        changed[index] = value
        self._write(changed)
        super().__setitem__(index, value)

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            f"{self._name} has one array for each of {len(self)} layers, so none can be added, removed or "
            f"moved: assign to an item, {self._name}[0] = array, or to all of them, {self._name} = arrays"
        )

    append = extend = insert = pop = remove = clear = sort = reverse = _refuse
    __delitem__ = __iadd__ = __imul__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return self.__reduce__()


def read_only(array: Any) -> Any:
    """Return a view of an array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def write_arrays(model: Model, paths: list[str], values: Iterable[Any], name: str) -> None:
    """Write new values to some parameters of a model: all of them, or after an error none."""
    if model.optimizer.averaging:
        raise ValueError(
            f"{name} are averages that {model.optimizer!r} makes of the trained parameters, and cannot be "
            "set: write to the parameters of model_.module"
        )
    arrays = [np.asarray(to_host(value)) for value in values]
    parameters = dict(model.module.named_parameters())
    if len(arrays) != len(paths):
        raise ValueError(f"{name} must have an array for each of {len(paths)} layers, got {len(arrays)}")
    for i, (path, array) in enumerate(zip(paths, arrays, strict=True)):
        if array.shape != parameters[path].shape or array.dtype.kind not in "biuf":
            raise ValueError(
                f"{name}[{i}] must be an array of real numbers of shape {parameters[path].shape}, got "
                f"{array.dtype} of shape {array.shape}"
            )
    for path, array in zip(paths, arrays, strict=True):
        parameters[path].data = array
