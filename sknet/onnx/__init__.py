"""Export of networks to ONNX files for other runtimes, and import."""

from sknet.onnx._export import export
from sknet.onnx._load import Network, load
from sknet.onnx._register import register

__all__ = ["Network", "export", "load", "register"]

__dir__ = __all__.copy
