"""Passes: from one graph to another that computes the same with less; verified after the last."""

from sknet.compile._plan import Group
from sknet.compile.passes._algebra import ASSEMBLY, RULES, optimize, rewrite
from sknet.compile.passes._fusion import BLOCK, Kernels, fuse, fuse_maps, in_parts, join_totals

__all__ = [
    "ASSEMBLY", "BLOCK", "RULES", "Group", "Kernels", "fuse", "fuse_maps", "in_parts", "join_totals",
    "optimize", "rewrite",
]  # fmt: skip

__dir__ = __all__.copy
