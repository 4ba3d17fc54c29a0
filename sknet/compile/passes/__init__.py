"""Passes: from one graph to another that computes the same with less; verified after the last."""

from sknet.compile._group import Group
from sknet.compile.passes._assemble import ASSEMBLY
from sknet.compile.passes._fusion import BLOCK, Kernels, fuse, fuse_maps
from sknet.compile.passes._optimize import RULES, optimize
from sknet.compile.passes._rewrite import rewrite
from sknet.compile.passes._totals import join_totals

__all__ = [
    "ASSEMBLY",
    "BLOCK",
    "RULES",
    "Group",
    "Kernels",
    "fuse",
    "fuse_maps",
    "join_totals",
    "optimize",
    "rewrite",
]
