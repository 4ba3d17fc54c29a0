"""The base of the initializers."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.random import RandomState

from sknet._params import ParameterObject

__all__ = ["Array", "Initializer", "Shape", "draw_bias", "draw_weight"]

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


class Initializer(ParameterObject, ABC):
    """Base of the initializers: a scheme for the weights of a layer and their bias.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> class Alternating(nn.init.Initializer):
    ...     def draw(self, random_state, shape, fan_in, fan_out):
    ...         return (-1.0) ** np.arange(np.prod(shape)).reshape(shape)
    >>> nn.Linear(3, 1, init=Alternating()).initialize(0).weight.tolist()
    [[1.0], [-1.0], [1.0]]
    """

    @abstractmethod
    def draw(self, random_state: RandomState, shape: Shape, fan_in: int, fan_out: int) -> Array:
        """Draw a layer's weights.

        Parameters
        ----------
        random_state : RandomState
            What to draw from.
        shape : tuple of int
            Shape of the result.
        fan_in, fan_out : int
            How many inputs an output depends on, and how many outputs depend on an input.

        Returns
        -------
        ndarray of shape `shape`, float64
            The weights.
        """

    def draw_bias(self, random_state: RandomState, shape: Shape, fan_in: int, fan_out: int) -> Array:
        """Draw a layer's bias, after its weights: zeros, unless the scheme says otherwise.

        Parameters
        ----------
        random_state : RandomState
            What to draw from.
        shape : tuple of int
            Shape of the result.
        fan_in, fan_out : int
            Those of the weights.

        Returns
        -------
        ndarray of shape `shape`, float64
            The bias.
        """
        return np.zeros(shape)


# What parameters keep until they are drawn: functions, which files can call by their names.


def draw_weight(init: Initializer, random_state: RandomState, **where: Any) -> Array:
    """Draw a layer's weights by an initializer."""
    return init.draw(random_state, **where)


def draw_bias(init: Initializer, random_state: RandomState, **where: Any) -> Array:
    """Draw a layer's bias by an initializer."""
    return init.draw_bias(random_state, **where)
