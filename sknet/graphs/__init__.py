"""Exported networks: graphs with their parameters, which compute without the class of the network."""

from sknet.graphs._export import export
from sknet.graphs._module import GraphModule

__all__ = ["GraphModule", "export"]
