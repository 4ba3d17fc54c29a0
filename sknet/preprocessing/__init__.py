"""Encoding of raw tables as numbers that a network can learn from."""

from typing import TYPE_CHECKING

from sknet._late import Names as _Names
from sknet.preprocessing import _encodings, _plan, _schema, _words

if TYPE_CHECKING:
    from sknet.nn import pad_sequences
    from sknet.preprocessing._encoder import TableEncoder

__all__ = ["TableEncoder", "pad_sequences"]

# Classes of the parts of a fitted encoder, by their names in files.
PARTS = {
    name: value
    for module in (_encodings, _plan, _schema, _words)
    for name, value in vars(module).items()
    if isinstance(value, type) and value.__module__ == module.__name__ and name != "OneRow"
}

if not TYPE_CHECKING:
    __getattr__ = _Names(
        {
            "sknet.preprocessing._encoder": ("TableEncoder",),
            "sknet.nn": ("pad_sequences",),
        }
    ).into(globals())


def __dir__() -> list[str]:
    return __all__
