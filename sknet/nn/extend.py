"""What code that owns, runs and watches modules is built on; networks are written without it.

`sknet.engine` is written with these names. They change with it, and more often than `sknet.nn`.
"""

from sknet.nn._changes import latest
from sknet.nn._module import copy_with
from sknet.nn._parameter import convert

__all__ = ["convert", "copy_with", "latest"]
