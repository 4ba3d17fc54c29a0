"""Functions on tensors: one file per family, each primitive's rules side by side.

Array functions have the array API standard's names, network functions their common ones. All
accept tensors, arrays and numbers, and return tensors.
"""

import typing as _typing

from sknet import _hints
from sknet.ops import _methods, linalg
from sknet.ops._activation import *  # noqa: F403
from sknet.ops._attention import *  # noqa: F403
from sknet.ops._convolution import *  # noqa: F403
from sknet.ops._elementwise import *  # noqa: F403
from sknet.ops._indexing import *  # noqa: F403
from sknet.ops._interpolate import *  # noqa: F403
from sknet.ops._norm import *  # noqa: F403
from sknet.ops._pool import *  # noqa: F403
from sknet.ops._products import *  # noqa: F403
from sknet.ops._random import *  # noqa: F403
from sknet.ops._recurrent import *  # noqa: F403
from sknet.ops._reduce import *  # noqa: F403
from sknet.ops._shape import *  # noqa: F403
from sknet.ops._sort import *  # noqa: F403

__all__ = sorted(name for name in globals() if not name.startswith("_"))

if not _typing.TYPE_CHECKING:
    _methods.name_errors(globals(), __all__)
    _methods.name_errors(vars(linalg), linalg.__all__)
    _methods.attach({name: globals()[name] for name in __all__})
    __getattr__ = _hints.module_getattr("sknet.ops", __all__)

__dir__ = __all__.copy
