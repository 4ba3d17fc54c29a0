"""Building blocks of layers and transforms besides the functions; users of tensors do not need them."""

from sknet.ops._batching import batched, batching, goes_at_once
from sknet.ops._convolution import convolution_work
from sknet.ops._norm import batch_norm_moments
from sknet.ops._recurrent import recurrence_work
from sknet.ops._recurrent_cells import tape_shapes
from sknet.ops._windows import Windows

__all__ = [
    "Windows",
    "batch_norm_moments",
    "batched",
    "batching",
    "convolution_work",
    "goes_at_once",
    "recurrence_work",
    "tape_shapes",
]
