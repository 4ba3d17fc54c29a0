"""What code that owns, runs and watches modules is built on; networks are written without it.

`sknet.engine` is written with these names. They change with it, and more often than `sknet.nn`.
"""

from sknet.nn._changes import latest
from sknet.nn._module import copy_with
from sknet.nn._parameter import convert
from sknet.nn._shape_pass import shadows, shape_pass
from sknet.nn._taps import Call, Calls, run_to

__all__ = ["Call", "Calls", "convert", "copy_with", "latest", "run_to", "shadows", "shape_pass"]
