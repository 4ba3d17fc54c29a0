"""Native code: the calls of NumPy's plan, as instructions that one compiled function carries out.

Importing this package loads none of the modules that write instructions.
"""

from typing import TYPE_CHECKING

from sknet._late import Names as _Names

if TYPE_CHECKING:
    from sknet.compile.native._instructions import Codes, Field
    from sknet.compile.native._passes import native_passes
    from sknet.compile.native._run import (
        NativeRun,
        NativeStep,
        Turns,
        Units,
        UnsupportedError,
        right_rows,
        run_turns,
    )
else:
    __getattr__ = _Names(
        {
            "sknet.compile.native._instructions": ("Codes", "Field"),
            "sknet.compile.native._passes": ("native_passes",),
            "sknet.compile.native._run": (
                *("NativeRun", "NativeStep", "Turns", "Units", "UnsupportedError", "right_rows", "run_turns"),
            ),
        }
    ).into(globals())

__all__ = [
    "Codes", "Field", "NativeRun", "NativeStep", "Turns", "Units", "UnsupportedError",
    "native_passes", "right_rows", "run_turns",
]  # fmt: skip

__dir__ = __all__.copy
