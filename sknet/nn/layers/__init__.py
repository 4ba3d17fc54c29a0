"""The layers: modules with one computation each, one file a family."""

from sknet.nn.layers._activation import (
    ACTIVATIONS,
    ELU,
    GELU,
    SELU,
    Hardswish,
    Identity,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)
from sknet.nn.layers._container import Sequential
from sknet.nn.layers._dropout import Dropout
from sknet.nn.layers._flatten import Flatten
from sknet.nn.layers._linear import Linear
from sknet.nn.layers._norm import BatchNorm, LayerNorm

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
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
]
