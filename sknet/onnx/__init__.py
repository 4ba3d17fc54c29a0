"""Export of networks to ONNX files for other runtimes, and import."""

from sknet.onnx._export import export
from sknet.onnx._load import Network, load
from sknet.onnx._register import register
from sknet.onnx._writer import Node as _Node

__all__ = ["PARTS", "Network", "export", "load", "register"]

PARTS = {"Node": _Node}


def __dir__() -> list[str]:
    return __all__
