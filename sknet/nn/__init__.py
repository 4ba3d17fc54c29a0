"""Networks: modules with parameters, layers, initial weights, and calls without side effects.

`Module` is the base class of networks, `sknet.nn.init` has schemes for initial weights, and `functional_call`
runs a module as a pure function of its parameters.
"""

import typing as _typing

from sknet._hints import module_getattr as _module_getattr
from sknet._late import Names as _Names
from sknet.core import HookHandle as HookHandle
from sknet.nn import init as init
from sknet.nn._lazy import Lazy as Lazy
from sknet.nn._lazy import LazyBatchNorm as LazyBatchNorm
from sknet.nn._lazy import LazyConv1d as LazyConv1d
from sknet.nn._lazy import LazyConv2d as LazyConv2d
from sknet.nn._lazy import LazyConvTranspose1d as LazyConvTranspose1d
from sknet.nn._lazy import LazyConvTranspose2d as LazyConvTranspose2d
from sknet.nn._lazy import LazyLinear as LazyLinear
from sknet.nn._lazy import ModuleFactory as ModuleFactory
from sknet.nn._lazy import largest_activation as largest_activation
from sknet.nn._lazy import materialize as materialize
from sknet.nn._module import Keys as Keys
from sknet.nn._module import Module as Module
from sknet.nn._module import StateDict as StateDict
from sknet.nn._module import bindings as bindings
from sknet.nn._module import functional_call as functional_call
from sknet.nn._module import is_lazy as is_lazy
from sknet.nn._parameter import Parameter as Parameter
from sknet.nn._parameter import Scope as Scope
from sknet.nn._parameter import run as run

# -- layers, one file for each family
from sknet.nn.layers._activation import *  # noqa: F403
from sknet.nn.layers._attention import *  # noqa: F403
from sknet.nn.layers._container import *  # noqa: F403
from sknet.nn.layers._conv import *  # noqa: F403
from sknet.nn.layers._dropout import *  # noqa: F403
from sknet.nn.layers._embedding import *  # noqa: F403
from sknet.nn.layers._linear import *  # noqa: F403
from sknet.nn.layers._norm import *  # noqa: F403
from sknet.nn.layers._recurrent import *  # noqa: F403
from sknet.nn.layers._spatial import *  # noqa: F403

_LATE = _Names(
    {
        "sknet.nn._networks": (
            "AUGMENTATIONS",
            "NETWORKS",
            "ConvNet",
            "RecurrentNet",
            "ResNet",
            "TemporalConvNet",
            "TransformerNet",
        ),
        "sknet.nn._summary": ("Summary", "SummaryRow", "summary"),
        "sknet.nn._torch": ("from_torch", "to_torch"),
    }
)
__all__ = sorted({*_LATE, *(name for name in globals() if not name.startswith("_"))} - {"layers"})

if _typing.TYPE_CHECKING:
    from sknet.nn._networks import AUGMENTATIONS as AUGMENTATIONS
    from sknet.nn._networks import NETWORKS as NETWORKS
    from sknet.nn._networks import ConvNet as ConvNet
    from sknet.nn._networks import RecurrentNet as RecurrentNet
    from sknet.nn._networks import ResNet as ResNet
    from sknet.nn._networks import TemporalConvNet as TemporalConvNet
    from sknet.nn._networks import TransformerNet as TransformerNet
    from sknet.nn._summary import Summary as Summary
    from sknet.nn._summary import SummaryRow as SummaryRow
    from sknet.nn._summary import summary as summary
    from sknet.nn._torch import from_torch as from_torch
    from sknet.nn._torch import to_torch as to_torch
else:
    __getattr__ = _LATE.into(globals(), _module_getattr("sknet.nn", __all__))

__dir__ = __all__.copy
