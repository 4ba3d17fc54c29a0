"""Functions on tensors: one file a family, each primitive's rules side by side.

Array functions have the array API standard's names, network functions their common ones. All
accept tensors, arrays and numbers, and return tensors.
"""

from sknet.ops import (
    _activation,
    _elementwise,
    _exponential,
    _index,
    _logical,
    _matmul,
    _random,
    _reduce,
    _rounding,
    _shape,
    _sparse,
    _trigonometric,
)
from sknet.ops._activation import *  # noqa: F403
from sknet.ops._elementwise import *  # noqa: F403
from sknet.ops._exponential import *  # noqa: F403
from sknet.ops._index import *  # noqa: F403
from sknet.ops._logical import *  # noqa: F403
from sknet.ops._matmul import *  # noqa: F403
from sknet.ops._random import *  # noqa: F403
from sknet.ops._reduce import *  # noqa: F403
from sknet.ops._rounding import *  # noqa: F403
from sknet.ops._shape import *  # noqa: F403
from sknet.ops._sparse import *  # noqa: F403
from sknet.ops._trigonometric import *  # noqa: F403

__all__ = sorted(
    name
    for family in (
        _activation,
        _elementwise,
        _exponential,
        _index,
        _logical,
        _matmul,
        _random,
        _reduce,
        _rounding,
        _shape,
        _sparse,
        _trigonometric,
    )
    for name in family.__all__
)
