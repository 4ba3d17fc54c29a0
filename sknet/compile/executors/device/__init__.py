"""A device that compiles C kernels, such as CUDA through CuPy: a plan as launches at fixed addresses."""

from sknet.compile.executors.device import _columns as _columns
from sknet.compile.executors.device import _pools as _pools
from sknet.compile.executors.device import _recurrent as _recurrent
from sknet.compile.executors.device import _scatter as _scatter
from sknet.compile.executors.device._executor import CupyProgram

__all__ = [
    "CupyProgram",
]
