"""Documents in files: numbers, texts and arrays, no code, written atomically."""

from typing import TYPE_CHECKING

from sknet._late import Names as _Names
from sknet.persistence._describe import describe, differences, digest

if TYPE_CHECKING:
    from sknet.persistence._atomic import keep_as, remove_leftovers, write_atomically
    from sknet.persistence._container import is_long_and_empty, needed
    from sknet.persistence._document import read, read_any, read_within, write

__all__ = [
    "describe", "differences", "digest", "is_long_and_empty", "keep_as", "needed", "read", "read_any",
    "read_within", "remove_leftovers", "write", "write_atomically",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = _Names(
        {
            "sknet.persistence._atomic": ("keep_as", "remove_leftovers", "write_atomically"),
            "sknet.persistence._container": ("is_long_and_empty", "needed"),
            "sknet.persistence._document": ("read", "read_any", "read_within", "write"),
        }
    ).into(globals())

__dir__ = __all__.copy
