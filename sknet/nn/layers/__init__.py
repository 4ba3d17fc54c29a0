"""The layers: modules with one computation each, one file a family."""

from sknet.nn.layers import (
    _activation,
    _container,
    _dropout,
    _flatten,
    _linear,
    _norm,
    _recurrent,
    _recurrent_cells,
)
from sknet.nn.layers._activation import *  # noqa: F403
from sknet.nn.layers._container import *  # noqa: F403
from sknet.nn.layers._dropout import *  # noqa: F403
from sknet.nn.layers._flatten import *  # noqa: F403
from sknet.nn.layers._linear import *  # noqa: F403
from sknet.nn.layers._norm import *  # noqa: F403
from sknet.nn.layers._recurrent import *  # noqa: F403
from sknet.nn.layers._recurrent_cells import *  # noqa: F403

__all__ = sorted(
    name
    for family in (
        _activation,
        _container,
        _dropout,
        _flatten,
        _linear,
        _norm,
        _recurrent,
        _recurrent_cells,
    )
    for name in family.__all__
)
