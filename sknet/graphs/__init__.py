"""Networks as graphs with their parameters, which do not need their classes, and graphs as Python."""

from sknet.graphs._export import GraphModule, export

__all__ = ["GraphModule", "export"]

__dir__ = __all__.copy
