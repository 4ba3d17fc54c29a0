"""Codes on their way back through a decoder, as estimators and frozen transformers take them."""

import math
from typing import Any

import numpy as np

from sknet import nn
from sknet.estimators._namespace import is_on_device
from sknet.estimators._reading import Sequences, forward_of, with_checked_lengths

__all__ = ["DECODER", "checked_codes", "has_decoder"]

DECODER = "decoder"


def has_decoder(transformer: Any) -> bool:
    """Tell whether there is a way back; raise an AttributeError that says why not."""
    module = transformer._network()
    # What a factory builds is known after a fit.
    if isinstance(module, nn.Module) and DECODER not in dict(module.named_children()):
        raise AttributeError(
            f"{type(transformer).__name__} has no inverse_transform: {type(module).__name__} has no module "
            f"called {DECODER!r}, which would take what transform returns"
        )
    return True


def _are_plain(codes: Any, dtypes: list[Any]) -> bool:
    """Tell whether codes are valid as they are."""
    is_array = type(codes) is np.ndarray and codes.ndim > 1 and codes.dtype in dtypes
    # A sum is finite unless an element is not, or it overflows; the full check decides then.
    return is_array and codes.size > 0 and math.isfinite(np.add.reduce(codes, axis=None))


def checked_codes(transformer: Any, X: Any, shape: tuple[int, ...], *, has_steps: bool) -> Any:
    """Return codes as a decoder takes them."""
    codes = X.X if isinstance(X, Sequences) else X
    if not is_on_device(codes):
        dtypes = [np.float32, np.float64]
        if not _are_plain(codes, dtypes):
            from sklearn.utils.validation import check_array  # it takes long to load

            codes = check_array(codes, dtype=dtypes, allow_nd=True, input_name="X", estimator=transformer)
    given = tuple(codes.shape[1:])
    if len(given) != len(shape) if has_steps and len(shape) > 1 else given != shape:
        raise ValueError(
            f"inverse_transform of {type(transformer).__name__} needs codes as transform returns them, of "
            f"shape (n_samples, {', '.join(map(str, shape))}), got {tuple(codes.shape)}"
        )
    forward = forward_of(transformer._network().get_submodule(DECODER))
    if not isinstance(X, Sequences):
        shapes = getattr(transformer._inputs, "shapes", None)
        if isinstance(shapes, dict) and "lengths" in shapes and "lengths" in (forward or {}):
            raise ValueError(
                f"inverse_transform of {type(transformer).__name__} needs lengths=, which the network was "
                "fitted with and its decoder takes: without them it would return steps of padding"
            )
        return codes
    return with_checked_lengths(codes, X.lengths, forward, has_steps=len(shape) > 1)
