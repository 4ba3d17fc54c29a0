"""Whether a network returns as many outputs as its targets need."""

from sknet import nn
from sknet.engine.extend import last_layer
from sknet.exceptions import ShapeError

__all__ = ["check_outputs"]


def check_outputs(
    network: nn.Module, shape: tuple[int, ...] | None, n_outputs: int, needs: str, is_class: bool
) -> None:
    """Raise a ShapeError if a network returns another number of outputs than needed."""
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
