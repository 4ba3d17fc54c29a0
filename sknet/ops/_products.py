"""Products of matrices, sparse ones too, of vectors and tensors, and Einstein's summation convention."""

import functools
import itertools
import math
import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from sknet._constraints import is_integer, shown
from sknet.core import Primitive, Tensor, TracedArray, as_tensor, bind, is_capturing, normalize_axes
from sknet.core import _primitive as kinds
from sknet.core import _primitive as p
from sknet.device import Device, Namespace, backend_of, device_of, is_array, result_dtype
from sknet.exceptions import CaptureError, DeviceError, DtypeError, ShapeError
from sknet.ops._elementwise import multiply
from sknet.ops._reduce import sum
from sknet.ops._rules import astype_like, broadcast
from sknet.ops._shape import expand_dims, flatten, matrix_transpose, moveaxis, permute_dims, reshape, squeeze

__all__ = ["SparseSlot", "diagonal", "einsum", "is_sparse", "matmul", "outer", "tensordot", "trace", "vecdot"]


# -- products with a sparse matrix ------------------------------------------------------------


class SparseSlot:
    """A placeholder in a captured function for sparse matrices of one shape.

    A captured function would fix the values of a matrix; of a slot, it reads the current `matrix` when it
    runs.

    Parameters
    ----------
    shape : tuple of two int
        The one of every matrix.
    dtype : dtype
        The one of every matrix.

    Attributes
    ----------
    matrix : CSR matrix or None
        The current matrix; set it before each run.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse
    >>> from sknet import ops
    >>> from sknet.compile import compile
    >>> slot = ops.SparseSlot((2, 2), "float64")
    >>> function = compile(lambda weight: ops.matmul(slot, weight), (np.ones(2),))
    >>> slot.matrix = scipy.sparse.csr_array([[0.0, 2.0], [0.0, 0.0]])
    >>> function(np.ones(2))
    array([2., 0.])
    """

    def __init__(self, shape: tuple[int, int], dtype: Any) -> None:
        self.shape, self.dtype, self.device = shape, np.dtype(dtype), Device("cpu")
        self.matrix: Any = None

    @property
    def ndim(self) -> int:
        """Number of axes: two."""
        return len(self.shape)

    def _refused(self, *_: Any, **__: Any) -> Any:
        raise CaptureError(
            f"a sparse batch of shape {tuple(self.shape)} is known only when the captured function runs, "
            "and only sknet.ops.matmul can read it, as in nn.Linear: for anything else make it dense first"
        )

    __array__ = __getitem__ = _refused

    def toarray(self) -> Any:
        """Raise a CaptureError: the matrix of a slot is known only when the captured function runs."""
        return self._refused()

    @property
    def key(self) -> tuple[Any, ...]:
        """Shape and dtype: slots that agree in them can stand in for each other in a program."""
        return type(self), tuple(self.shape), self.dtype

    def __repr__(self) -> str:
        return f"SparseSlot({tuple(self.shape)}, {self.dtype})"


def is_sparse(x: Any) -> bool:
    """Tell whether x is a sparse matrix of a known device, or a slot for one."""
    if isinstance(x, (Tensor, np.ndarray)):
        return False
    return isinstance(x, SparseSlot) or (is_array(x) and backend_of(x).is_sparse(x))


def _sparse_shape(y: Any, matrix: Any, transposed: bool) -> tuple[tuple[int, ...], np.dtype[Any]]:
    rows, columns = matrix.shape[::-1] if transposed else matrix.shape
    if len(y.shape) not in (1, 2) or columns != y.shape[0]:
        raise ShapeError(
            f"matmul: a sparse matrix of shape {(rows, columns)} does not fit an operand of shape "
            f"{tuple(y.shape)}: expected ({columns},) or ({columns}, m)"
        )
    if matrix.dtype != y.dtype:
        raise DtypeError(
            f"matmul: a sparse matrix of {matrix.dtype} does not fit an operand of {y.dtype}: "
            "convert one of them with .astype"
        )
    return (rows, *y.shape[1:]), y.dtype


def _sparse_forward(xp: Namespace, y: Any, *, matrix: Any, transposed: bool) -> Any:
    _sparse_shape(y, matrix, transposed)  # the product of two dtypes would silently be of the wider one
    held = matrix.matrix if isinstance(matrix, SparseSlot) else matrix
    if held is None:
        raise ValueError(f"{matrix!r} is empty: set its `matrix` before the product is computed")
    return (held.T if transposed else held) @ y


MATRIX = kinds.ParamKind("a sparse matrix", lambda x, _: isinstance(x, SparseSlot) or is_sparse(x))

_sparse = Primitive("sparse_matmul").define(
    forward=_sparse_forward,
    shape=_sparse_shape,
    params={"matrix": MATRIX, "transposed": kinds.FLAG},
    vjp=(lambda g, _, y, matrix, transposed: sparse_matmul(matrix, g, not transposed),),
    saves="nothing",
    writes_out=False,
)


def sparse_matmul(matrix: Any, y: Tensor, transposed: bool = False) -> Tensor:
    """Return the product of a sparse matrix (or its transpose) and a tensor."""
    if isinstance(matrix, SparseSlot) and is_capturing() and not isinstance(y.data, TracedArray):
        raise CaptureError(
            "the product of a SparseSlot and a constant would be frozen: the matrix of a slot is known only "
            "when the captured function runs. Pass the other operand as an argument of the function."
        )
    place = matrix.device if isinstance(matrix, SparseSlot) else device_of(matrix)
    if y.device.kind != "meta" and y.device != place:
        raise DeviceError(
            f"matmul: a sparse matrix on device '{place}' does not fit an operand on '{y.device}': "
            "move one of them"
        )
    return bind(_sparse, (y,), {"matrix": matrix, "transposed": transposed})


# -- matrix products --------------------------------------------------------------------------


class _Batch:
    """The axes in front of a matrix, in the form that `broadcast` reads."""

    def __init__(self, x: Any) -> None:
        self.shape = tuple(x.shape[:-2])


def _matmul_shape(x: Any, y: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    left, right = tuple(getattr(x, "shape", ())), tuple(getattr(y, "shape", ()))
    if not left or not right:
        raise ShapeError(f"matmul: expected operands with at least 1 axis, got shapes {left} and {right}")
    last = right[-2] if len(right) > 1 else right[0]
    if left[-1] != last:
        raise ShapeError(
            f"matmul: shapes {left} and {right} do not fit: the last axis of the first has {left[-1]} "
            f"elements, the {'last but one' if len(right) > 1 else 'only axis'} of the second {last}"
        )
    rows, columns = left[-2:-1], right[-1:] if len(right) > 1 else ()
    return (*broadcast("matmul", _Batch(x), _Batch(y)), *rows, *columns), result_dtype(x, y)


def _lifted(g: Tensor, x: Any, y: Any) -> Tensor:
    """Give the gradient of a product the axes that it would have if its vectors were matrices."""
    if y.ndim == 1:
        g = expand_dims(g, -1)
    return expand_dims(g, -2) if x.ndim == 1 else g


def _fold(g: Tensor, operand: Any) -> Tensor:
    """Sum over the batch axes along which an operand was broadcast, and give it the operand's shape."""
    matrix = (1,) * (2 - operand.ndim) + operand.shape
    if g.ndim > len(matrix):
        g = g.sum(tuple(range(-g.ndim, -len(matrix))))
    axes = tuple(i - g.ndim for i in range(g.ndim - 2) if matrix[i] == 1 and g.shape[i] != 1)
    g = g.sum(axes, keepdims=True) if axes else g
    return astype_like(g if operand.ndim > 1 else reshape(g, operand.shape), operand)


def _rows(x: Tensor) -> Tensor:
    return reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


def _left_vjp(g: Tensor, _: Any, x: Tensor, y: Tensor) -> Tensor:
    right = expand_dims(y, -1) if y.ndim == 1 else y
    return _fold(_matmul(_lifted(g, x, y), matrix_transpose(right)), x)


def _right_vjp(g: Tensor, _: Any, x: Tensor, y: Tensor) -> Tensor:
    g, left = _lifted(g, x, y), expand_dims(x, 0) if x.ndim == 1 else x
    if y.ndim <= 2 < left.ndim:  # one product over all batches instead of a sum of many
        g, left = _rows(g), _rows(left)
    return _fold(_matmul(matrix_transpose(left), g), y)


p.matmul.define(forward="matmul", shape=_matmul_shape, vjp=(_left_vjp, _right_vjp))


def _matmul(x: Tensor, y: Tensor) -> Tensor:
    return bind(p.matmul, (x, y), {})


def matmul(x: Any, y: Any) -> Tensor:
    """Return the matrix product over the last two axes; axes before those broadcast.

    Parameters
    ----------
    x : Tensor, array or sparse matrix of shape (..., n, k) or (k,)
        A sparse matrix (CSR) is a constant: it has no gradient, and is not made dense.
    y : Tensor or array of shape (..., k, m) or (k,)
        The second factor; with a sparse first one, of one or two axes and of the same dtype.

    Returns
    -------
    Tensor of shape (..., n, m)
        Without the axis of a factor that was a vector.

    Raises
    ------
    ShapeError
        If the inner lengths differ.
    DtypeError, DeviceError
        If a sparse first factor and the second have different dtypes or live on different devices.

    Examples
    --------
    >>> matmul([[1.0, 2.0]], [[3.0], [4.0]]).numpy()
    array([[11.]])
    """
    if is_sparse(x):
        return sparse_matmul(x, as_tensor(y))
    return _matmul(as_tensor(x), as_tensor(y))


# -- products of vectors and tensors, and diagonals -------------------------------------------


def outer(x: Any, y: Any) -> Tensor:
    """Return the outer product of the vectors x and y: the products of all pairs of their elements."""
    x, y = as_tensor(x), as_tensor(y)
    if x.ndim != 1 or y.ndim != 1:
        raise ShapeError(f"outer: expected two vectors, got shapes {x.shape} and {y.shape}")
    return multiply(expand_dims(x, -1), y)


def vecdot(x: Any, y: Any, axis: int = -1) -> Tensor:
    """Return the sum of x * `y` over an `axis`, counted from the end; the other axes broadcast."""
    x, y = as_tensor(x), as_tensor(y)
    if axis >= 0 or axis < -min(x.ndim, y.ndim) or x.shape[axis] != y.shape[axis]:
        raise ShapeError(
            f"vecdot: shapes {x.shape} and {y.shape} do not have an axis {axis} of one length: expected one "
            "that both have, as a negative number"
        )
    return sum(x * y, axis)


def tensordot(x: Any, y: Any, axes: int | Sequence[Sequence[int]] = 2) -> Tensor:
    """Return the sum of products over several axes at once, as one matrix product.

    Parameters
    ----------
    x, y : Tensor or array
        Any shapes.
    axes : int or pair of sequences of int, default=2
        A number n sums over the last n axes of x and the first n of y; a pair names the axes of x and,
        in the same order, those of y.

    Returns
    -------
    Tensor
        With the other axes of x, then those of y.

    Raises
    ------
    ShapeError
        If the axes do not exist, or differ in number or length.

    Examples
    --------
    >>> tensordot([[1.0, 2.0]], [[3.0, 4.0]], ((1,), (1,))).numpy()
    array([[11.]])
    """
    x, y = as_tensor(x), as_tensor(y)
    if is_integer(axes):
        axes = range(-int(axes), 0), range(int(axes))
    if len(axes) != 2:
        raise ShapeError(f"tensordot: axes must be an integer or a pair of sequences, got {shown(axes)}")
    mine, theirs = axes
    mine = normalize_axes(tuple(mine), x.ndim, "tensordot")
    theirs = normalize_axes(tuple(theirs), y.ndim, "tensordot")
    inner = [x.shape[a] for a in mine]
    if inner != [y.shape[a] for a in theirs]:
        raise ShapeError(
            f"tensordot: axes {mine} of shape {x.shape} and {theirs} of shape {y.shape} differ in length"
        )
    n = len(mine)
    x = moveaxis(x, mine, tuple(range(-n, 0)))
    y = moveaxis(y, theirs, tuple(range(n)))
    rows, columns = x.shape[: x.ndim - n], y.shape[n:]
    size = math.prod(inner)
    product = matmul(reshape(x, (math.prod(rows), size)), reshape(y, (size, math.prod(columns))))
    return reshape(product, (*rows, *columns))


def diagonal(x: Any, offset: int = 0) -> Tensor:
    """Return the elements on a diagonal of the last two axes: the `offset`-th above the main one."""
    x = as_tensor(x)
    if x.ndim < 2:
        raise ShapeError(f"diagonal: expected at least 2 axes, got shape {x.shape}")
    n, m = x.shape[-2:]
    count = max(0, min(n + min(offset, 0), m - max(offset, 0)))
    start = max(offset, 0) + max(-offset, 0) * m
    # In the flat matrix they are at equal distances.
    places = slice(start, start + count * (m + 1), m + 1) if count else slice(0, 0)
    return bind(p.getitem, (flatten(x, -2),), {"index": (Ellipsis, places)})


def trace(x: Any, offset: int = 0) -> Tensor:
    """Return the sum of a diagonal of the last two axes: the `offset`-th above the main one."""
    return sum(diagonal(x, offset), -1)


# -- Einstein's summation convention ----------------------------------------------------------

TERM = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")
Labels = tuple[str, ...]


class _Term(NamedTuple):
    tensor: Tensor
    labels: Labels


def einsum(subscripts: str, *xs: Any) -> Tensor:
    """Return a sum of products, in Einstein's notation.

    Parameters
    ----------
    subscripts : str
        A letter for each axis of each operand, the operands separated by commas; after ``->`` the letters
        of the result. Axes without a letter there are summed over. ``...`` stands for any further axes,
        which broadcast; a letter that occurs twice in one operand takes its diagonal. Without ``->``, the
        result has the letters that occur once, in alphabetical order.
    *xs : Tensor or array
        The operands.

    Returns
    -------
    Tensor
        The result.

    Raises
    ------
    ValueError
        If the subscripts cannot be read, or do not fit the number of operands.
    ShapeError
        If they do not fit the operands' axes, or one letter has two lengths.

    Notes
    -----
    Operands are contracted in pairs, each as one (stacked) matrix product. With more than two, the pair
    comes first whose product is smallest compared with its factors: the greedy order of Smith & Gray,
    "opt_einsum", JOSS 3(26), 2018.

    Examples
    --------
    >>> einsum("ij,jk->ik", [[1.0, 2.0]], [[3.0], [4.0]]).numpy()
    array([[11.]])
    >>> einsum("ii", [[1.0, 2.0], [3.0, 4.0]]).numpy()
    array(5.)
    """
    tensors = [as_tensor(x) for x in xs]
    inputs, output = _read(subscripts, tuple([x.ndim for x in tensors]))
    terms = [_Term(*pair) for pair in zip(tensors, inputs, strict=True)]
    terms = _of_one_length([_without_repeats(term) for term in terms], subscripts)
    while len(terms) > 1:
        i, j = _cheapest_pair(terms, output)
        rest = [term for at, term in enumerate(terms) if at not in (i, j)]
        kept = {label for term in rest for label in term.labels} | set(output)
        terms = [*rest, _product(terms[i], terms[j], kept)]
    result = _summed(terms[0], output)
    return _ordered(result, output)


# -- reading ----------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _read(subscripts: str, ndims: tuple[int, ...]) -> tuple[list[Labels], Labels]:
    """Return the labels of every operand and of the result; ``...`` becomes numbers, counted from the end."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    texts = left.split(",")
    if len(texts) != len(ndims):
        raise ValueError(f"einsum: {subscripts!r} is for {len(texts)} operands, got {len(ndims)}")
    for text in (*texts, right):
        if not TERM.fullmatch(text):
            raise ValueError(
                f"einsum: cannot read {text!r} in {subscripts!r}: expected letters and one '...'"
            )
    inputs = [_labels(text, ndim, subscripts) for text, ndim in zip(texts, ndims, strict=True)]
    every = [label for labels in inputs for label in labels]
    further = sorted({label for label in every if label.isdigit()}, key=int, reverse=True)
    if not arrow:
        right = "..." + "".join(sorted(x for x in every if every.count(x) == 1 and x.isalpha()))
    before, _, behind = right.partition("...")
    output = (*before, *further, *behind) if "..." in right else tuple(right)
    wrong = [label for label in output if label not in every or output.count(label) > 1]
    if wrong:
        raise ValueError(
            f"einsum: {wrong[0]!r} after '->' in {subscripts!r} must occur there once, and before"
        )
    return inputs, output


def _labels(text: str, ndim: int, subscripts: str) -> Labels:
    before, dots, behind = text.partition("...")
    further = ndim - len(before) - len(behind)
    if further < 0 or (further and not dots):
        raise ShapeError(f"einsum: {text!r} in {subscripts!r} does not fit an operand with {ndim} axes")
    return (*before, *[str(n) for n in range(further, 0, -1)], *behind)


# -- one operand ------------------------------------------------------------------------------


def _without_repeats(term: _Term) -> _Term:
    """Take the diagonal of axes with the same label."""
    tensor, labels = term
    for label in set(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if tensor.shape[first] != tensor.shape[second]:
                raise ShapeError(f"einsum: {label!r} names axes of different lengths of shape {tensor.shape}")
            tensor = diagonal(moveaxis(tensor, (first, second), (-2, -1)))
            labels = (*[x for at, x in enumerate(labels) if at not in (first, second)], label)
    return _Term(tensor, labels)


def _of_one_length(terms: list[_Term], subscripts: str) -> list[_Term]:
    """Check that a label has one length everywhere; remove axes of length 1 that would broadcast."""
    lengths: dict[str, int] = {}
    for tensor, labels in terms:
        for label, length in zip(labels, tensor.shape, strict=True):
            known = lengths.setdefault(label, length)
            if length != known and 1 not in (length, known):
                shapes = [term.tensor.shape for term in terms]
                raise ShapeError(
                    f"einsum: {label!r} in {subscripts!r} has the lengths {known} and {length}, "
                    f"got shapes {shapes}"
                )
            lengths[label] = length if known == 1 else known
    return [_without_broadcasting(term, lengths) for term in terms]


def _without_broadcasting(term: _Term, lengths: dict[str, int]) -> _Term:
    tensor, labels = term
    single = [i for i, label in enumerate(labels) if tensor.shape[i] != lengths[label]]
    if not single:
        return term
    return _Term(squeeze(tensor, tuple(single)), tuple([x for i, x in enumerate(labels) if i not in single]))


def _summed(term: _Term, kept: Collection[str]) -> _Term:
    gone = [i for i, label in enumerate(term.labels) if label not in kept]
    if not gone:
        return term
    return _Term(sum(term.tensor, tuple(gone)), tuple([x for x in term.labels if x in kept]))


# -- two operands -----------------------------------------------------------------------------


def _cheapest_pair(terms: list[_Term], output: Labels) -> tuple[int, int]:
    """Return the pair whose product has the fewest elements compared with its factors."""

    def growth(pair: tuple[int, int]) -> int:
        lengths = {k: n for i in pair for k, n in zip(terms[i].labels, terms[i].tensor.shape, strict=True)}
        rest = {label for i, term in enumerate(terms) if i not in pair for label in term.labels}
        size = math.prod(n for label, n in lengths.items() if label in rest or label in output)
        return size - terms[pair[0]].tensor.size - terms[pair[1]].tensor.size

    return min(itertools.combinations(range(len(terms)), 2), key=growth)


def _product(x: _Term, y: _Term, kept: set[str]) -> _Term:
    """Contract two terms: a matrix product where something is summed over, else an outer one."""
    x, y = _summed(x, kept | set(y.labels)), _summed(y, kept | set(x.labels))
    stack = tuple([label for label in x.labels if label in y.labels and label in kept])
    inner = tuple([label for label in x.labels if label in y.labels and label not in kept])
    rows = tuple([label for label in x.labels if label not in y.labels])
    columns = tuple([label for label in y.labels if label not in x.labels])
    left, right = _matrices(x, stack, rows, inner), _matrices(y, stack, inner, columns)
    product = matmul(left, right) if inner else left * right
    labels = (*stack, *rows, *columns)
    lengths = dict(zip(x.labels + y.labels, x.tensor.shape + y.tensor.shape, strict=True))
    return _Term(_shaped(product, tuple([lengths[label] for label in labels])), labels)


def _matrices(term: _Term, stack: Labels, rows: Labels, columns: Labels) -> Tensor:
    """Order the axes, and join those of the rows and those of the columns into one each."""
    ordered = _ordered(term, (*stack, *rows, *columns))
    shape, n, m = ordered.shape, len(stack), len(stack) + len(rows)
    return _shaped(ordered, (*shape[:n], math.prod(shape[n:m]), math.prod(shape[m:])))


def _ordered(term: _Term, labels: Labels) -> Tensor:
    if term.labels == labels:
        return term.tensor
    return permute_dims(term.tensor, [term.labels.index(label) for label in labels])


def _shaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return x if x.shape == shape else reshape(x, shape)
