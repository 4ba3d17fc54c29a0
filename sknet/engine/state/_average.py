"""The averaged parameters of optimizers that predict with averages."""

from collections.abc import Mapping
from typing import Any

from sknet.core import Tensor, no_grad
from sknet.device import backend, device_of, namespace
from sknet.engine.state._layout import Layout
from sknet.optim import BaseOptimizer

__all__ = ["averaged", "same_bits"]


def averaged(optimizer: BaseOptimizer, layout: Layout, flat: Any, slots: Mapping[str, Any]) -> Any:
    """Return the flat parameters that an averaging optimizer predicts with."""
    named = {
        slot: {name: Tensor(view) for name, view in layout.views(slots[slot]).items()}
        for slot in optimizer.averaging
    }
    with no_grad():
        params = {name: Tensor(view) for name, view in layout.views(flat).items()}
        found = optimizer.averages(params, named)
    device = device_of(flat)
    whole = backend(device.kind).zeros(flat.shape, flat.dtype, device)
    layout.fill(whole, {name: value.data for name, value in found.items()})
    return whole


def same_bits(x: Any, y: Any) -> bool:
    """Tell whether two arrays of one dtype have the same bits."""
    bits = f"u{x.dtype.itemsize}"
    return bool(namespace(x).all(x.view(bits) == y.view(bits)).item())
