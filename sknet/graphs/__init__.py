"""Exported networks: graphs with their parameters, which do not need the network's class."""

from sknet.graphs._export import export
from sknet.graphs._module import GraphModule

__all__ = ["GraphModule", "export"]
