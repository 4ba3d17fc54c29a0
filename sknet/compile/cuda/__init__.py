"""A device that compiles C kernels, such as CUDA through CuPy: a plan as launches at fixed addresses."""

from sknet.compile.cuda import _recurrent as _recurrent  # registers its rules
from sknet.compile.cuda._executor import CupyProgram

__all__ = ["CupyProgram"]
