"""Native code: the calls of NumPy's plan, as instructions that one compiled function carries out.

Importing this package loads none of the modules that write instructions.
"""

from typing import TYPE_CHECKING

from sknet._late import Names as _Names
from sknet.compile.executors.native._unsupported import UnsupportedError

if TYPE_CHECKING:
    from sknet.compile.executors.native._native_passes import native_passes
    from sknet.compile.executors.native._run import NativeRun, Parts
    from sknet.compile.executors.native._step import NativeStep
    from sknet.compile.executors.native._table_rows import Codes, Field
    from sknet.compile.executors.native._turns import Turns, run_turns
else:
    __getattr__ = _Names(
        {
            "sknet.compile.executors.native._native_passes": ("native_passes",),
            "sknet.compile.executors.native._run": ("NativeRun", "Parts"),
            "sknet.compile.executors.native._step": ("NativeStep",),
            "sknet.compile.executors.native._table_rows": ("Codes", "Field"),
            "sknet.compile.executors.native._turns": ("Turns", "run_turns"),
        }
    ).into(globals())

__all__ = [
    "Codes",
    "Field",
    "NativeRun",
    "NativeStep",
    "Parts",
    "Turns",
    "UnsupportedError",
    "native_passes",
    "run_turns",
]
