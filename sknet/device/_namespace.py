"""The functions of an array library that rules call, under NumPy's names."""

from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["LinearAlgebra", "Namespace"]

Function = Callable[..., Any]


class LinearAlgebra(Protocol):
    """Equations and decompositions: ``linalg`` of an array namespace.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.device import backend
    >>> backend("cpu").xp.linalg.det(np.diag([2.0, 3.0]))
    np.float64(6.0)
    """

    cholesky: Function
    det: Function
    eigh: Function
    inv: Function
    pinv: Function
    qr: Function
    slogdet: Function
    solve: Function
    svd: Function


class Namespace(Protocol):
    """The functions of every backend's ``xp``; a rule that uses only these runs on every device.

    The functions are NumPy's, with ``out=`` where NumPy has it. ``add_rows_at`` adds rows to rows of a matrix
    whose numbers may repeat; ``expit`` and `xlogy` are SciPy's. ``native_passes`` returns native code for
    what NumPy makes in many passes, or None, and ``may_be_native`` tells whether there ever is any.
    ``in_threads(work, count, rooms)`` calls ``work(i, room)`` for each i below count, on the host several at
    a time, each with one of the rooms. ``small_products`` returns up to how many multiplications a product
    takes no copies of its factors.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.device import namespace
    >>> xp, x = namespace(np.zeros(2)), np.zeros((2, 2))
    >>> xp.add_rows_at(x, np.array([0, 0]), np.ones((2, 2)))
    >>> x
    array([[2., 2.],
           [0., 0.]])
    """

    linalg: LinearAlgebra
    absolute: Function
    add: Function
    add_rows_at: Function
    all: Function
    any: Function
    arange: Function
    argsort: Function
    asarray: Function
    broadcast_to: Function
    check_indices: Function
    clip: Function
    concatenate: Function
    copyto: Function
    cumsum: Function
    divide: Function
    empty: Function
    empty_like: Function
    equal: Function
    exp: Function
    expit: Function
    flip: Function
    full: Function
    in_threads: Function
    isfinite: Function
    isinf: Function
    isnan: Function
    log: Function
    log1p: Function
    matmul: Function
    max: Function
    may_be_native: Function
    maximum: Function
    min: Function
    minimum: Function
    moveaxis: Function
    multiply: Function
    native_passes: Function
    negative: Function
    nonzero: Function
    ones: Function
    ones_like: Function
    partition: Function
    searchsorted: Function
    small_products: Function
    sort: Function
    sqrt: Function
    squeeze: Function
    stack: Function
    subtract: Function
    sum: Function
    swapaxes: Function
    take: Function
    take_along_axis: Function
    tanh: Function
    unique: Function
    vdot: Function
    where: Function
    xlogy: Function
    zeros: Function
    zeros_like: Function
