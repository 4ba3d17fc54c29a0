"""Devices, on which arrays live: NumPy, CuPy, or meta (shapes without data).

Above this package everything is written once, against a backend's namespace ``xp``.
"""

from sknet.device import _cupy as _cupy
from sknet.device._backend import (
    PRECISIONS,
    ROUNDED,
    Backend,
    Branch,
    Device,
    LinearAlgebra,
    MetaArray,
    Namespace,
    Stream,
    Transfers,
    active,
    arrays_in,
    available,
    backend,
    backend_of,
    check_float_dtype,
    check_precision,
    device_of,
    is_array,
    is_floating,
    leased,
    namespace,
    on_device,
    philox_uniform,
    product_precision,
    products_in,
    register,
    result_dtype,
    stream_key,
    to_device,
    to_host,
)
from sknet.device._feed import Feed, Issued
from sknet.device._products import HALVES, Ending, Form, form_of

__all__ = [
    "HALVES", "PRECISIONS", "ROUNDED", "Backend", "Branch", "Device", "Ending", "Feed", "Form", "Issued",
    "LinearAlgebra", "MetaArray", "Namespace", "Stream", "Transfers", "active", "arrays_in", "available",
    "backend", "backend_of", "check_float_dtype", "check_precision", "device_of", "form_of", "is_array",
    "is_floating", "leased", "namespace", "on_device", "philox_uniform", "product_precision", "products_in",
    "register", "result_dtype", "stream_key", "to_device", "to_host",
]  # fmt: skip

__dir__ = __all__.copy
