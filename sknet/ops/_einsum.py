"""Einstein's summation convention, lowered to permutations, matrix products and sums.

Gradients, capture and the speed of BLAS then come from these.
"""

import functools
import itertools
import math
import re
from collections.abc import Collection
from typing import Any, NamedTuple

from sknet.core import Tensor, as_tensor
from sknet.exceptions import ShapeError
from sknet.ops._linalg import diagonal
from sknet.ops._matmul import matmul
from sknet.ops._reduce import sum
from sknet.ops._shape import moveaxis, permute_dims, reshape, squeeze

__all__ = ["einsum"]

TERM = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")
Labels = tuple[str, ...]


class _Term(NamedTuple):
    """A tensor and the labels of its axes."""

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
