"""Networks: modules with parameters, layers, initial weights, and calls without side effects.

`Module` is what networks are written with, `sknet.nn.init` how weights are drawn, and
`functional_call` runs a module as a pure function of its parameters.
"""

from sknet.nn import init, layers
from sknet.nn._functional_call import bindings, functional_call
from sknet.nn._module import Module
from sknet.nn._parameter import Parameter
from sknet.nn._scope import Scope, run
from sknet.nn.layers import *  # noqa: F403

__all__ = sorted(
    [
        "Module",
        "Parameter",
        "Scope",
        "bindings",
        "functional_call",
        "init",
        "layers",
        "run",
        *layers.__all__,
    ]
)
