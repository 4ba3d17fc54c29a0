"""Names that predictors and files are built on; users do without them."""

from sknet.graphs._export import Exported, GraphLayers, export_function, export_network

__all__ = ["Exported", "GraphLayers", "export_function", "export_network"]
