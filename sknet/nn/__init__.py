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
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    BatchNorm,
    Dropout,
    Flatten,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    Identity,
    LayerNorm,
    LeakyReLU,
    Linear,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    Sequential,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Softsign,
    Tanh,
)

__all__ = [
    "ACTIVATIONS",
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "BatchNorm",
    "Dropout",
    "Flatten",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "Identity",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "Module",
    "PReLU",
    "Parameter",
    "ReLU",
    "ReLU6",
    "Scope",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Softsign",
    "Tanh",
    "bindings",
    "functional_call",
    "init",
    "layers",
    "run",
]
