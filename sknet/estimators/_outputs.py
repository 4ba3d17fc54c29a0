"""Whether a network returns as many outputs as its targets need, found by a pass without data."""

from typing import Any

from sknet import nn
from sknet.device import MetaArray
from sknet.engine.step import last_layer
from sknet.exceptions import DeviceError, ShapeError
from sknet.nn.extend import shadows, shape_pass

__all__ = ["check_outputs", "output_shape"]

ROWS = 2  # not 1, so that the axis of the rows is told from others


def output_shape(network: nn.Module, inputs: Any, dtype: Any) -> tuple[int, ...] | None:
    """Return the shape of what a network returns for a batch.

    Parameters
    ----------
    network : Module
        Lazy layers get their shapes.
    inputs : array or CSR matrix of shape (n_samples, ...)
        Of which only the shape counts.
    dtype : dtype
        The dtype of the computation.

    Returns
    -------
    tuple of int or None
        Without the axis of the rows; None where it is not known before the computation, because the code
        depends on values, or returns something else.
    """
    try:
        example = _like(inputs, dtype)
        nn.materialize(network, example, dtype=dtype)
        found = shape_pass(network.copy(), (shadows(example, dtype),))
    except DeviceError:
        return None
    shape = getattr(found, "shape", None)
    return None if shape is None or not shape or shape[0] != ROWS else tuple(shape[1:])


def _like(inputs: Any, dtype: Any) -> Any:
    return MetaArray((ROWS, *inputs.shape[1:]), dtype if inputs.dtype.kind == "f" else inputs.dtype)


def check_outputs(
    network: nn.Module, shape: tuple[int, ...] | None, n_outputs: int, needs: str, is_class: bool
) -> None:
    """Raise a ShapeError if a network returns another number of outputs than needed.

    Parameters
    ----------
    network : Module
        For the message.
    shape : tuple of int or None
        Of its output, without the axis of the rows; None passes.
    n_outputs : int
        How many there must be.
    needs : str
        What needs so many.
    is_class : bool
        Whether outputs stand for classes.
    """
    found = None if shape is None else shape[-1] if shape else 1
    if found is None or found == n_outputs:
        return
    path, last = last_layer(network)
    where = f"; its last layer is {path!r}: {last!r}" if path else ""
    of_two = "Only binary classification is supported. " if found == 1 and is_class else ""
    raise ShapeError(
        f"{of_two}{type(network).__name__} returns {found} output(s) for each row, and {needs} need "
        f"{n_outputs}{where}. Let the constructor take n_outputs, or give the layer that number"
    )
