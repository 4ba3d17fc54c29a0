"""ONNX: networks as files that other runtimes compute with, and back."""

from sknet.onnx._export import export
from sknet.onnx._load import Network, load

__all__ = ["Network", "export", "load"]
