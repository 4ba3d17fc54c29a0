"""Documents in files: numbers, texts and arrays, no code, written atomically."""

from sknet.persistence._atomic import keep_as, remove_leftovers, write_atomically
from sknet.persistence._describe import describe, differences, digest
from sknet.persistence._document import read, read_any, write

__all__ = [
    "describe", "differences", "digest", "keep_as", "read", "read_any", "remove_leftovers", "write",
    "write_atomically",
]  # fmt: skip
