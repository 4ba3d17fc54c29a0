"""The layers: modules with one computation each, one file a family."""

from sknet.nn.layers._activation import (
    ACTIVATIONS,
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    Identity,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Softsign,
    Tanh,
)
from sknet.nn.layers._container import Sequential
from sknet.nn.layers._dropout import Dropout
from sknet.nn.layers._flatten import Flatten
from sknet.nn.layers._linear import Linear
from sknet.nn.layers._norm import BatchNorm, LayerNorm

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
    "PReLU",
    "ReLU",
    "ReLU6",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Softsign",
    "Tanh",
]
