"""The first run on a GPU: ``python -m tools.gpu_check``, in stages, each of which is written down at once.

Device facts; whole fits against the CPU; the tests that need a GPU; streams, devices and
memory; times of training steps beside PyTorch's and the roofline. For whatever fails, it names the line to
look at.
"""

from tools.gpu_check._main import main

__all__ = ["main"]


def __dir__() -> list[str]:
    return __all__
