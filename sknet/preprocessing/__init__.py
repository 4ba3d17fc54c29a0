"""Encoding of raw tables as numbers that a network can learn from."""

from typing import TYPE_CHECKING

from sknet._late import Names as _Names

if TYPE_CHECKING:
    from sknet.nn import pad_sequences
    from sknet.preprocessing._encoder import TableEncoder

__all__ = ["TableEncoder", "pad_sequences"]

if not TYPE_CHECKING:
    __getattr__ = _Names(
        {"sknet.preprocessing._encoder": ("TableEncoder",), "sknet.nn": ("pad_sequences",)}
    ).into(globals())

__dir__ = __all__.copy
