"""Networks: modules with parameters, layers, initial weights, and calls without side effects.

`Module` is what networks are written with, `sknet.nn.init` how weights are drawn, and
`functional_call` runs a module as a pure function of its parameters.
"""

from sknet.nn import init, layers
from sknet.nn._functional_call import bindings, functional_call
from sknet.nn._module import Module
from sknet.nn._parameter import Parameter
from sknet.nn._scope import Scope, run
from sknet.nn.layers import (
    ACTIVATIONS,
    ELU,
    GELU,
    SELU,
    BatchNorm,
    Dropout,
    Flatten,
    Hardswish,
    Identity,
    LayerNorm,
    LeakyReLU,
    Linear,
    LogSigmoid,
    LogSoftmax,
    Mish,
    ReLU,
    Sequential,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)

__all__ = [
    "ACTIVATIONS",
    "ELU",
    "GELU",
    "SELU",
    "BatchNorm",
    "Dropout",
    "Flatten",
    "Hardswish",
    "Identity",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "Module",
    "Parameter",
    "ReLU",
    "Scope",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
    "bindings",
    "functional_call",
    "init",
    "layers",
    "run",
]
