"""Embeddings of several columns of categories."""

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from sknet._constraints import WHOLE, shown
from sknet._fields import ABSENT, POSITIVE, Named
from sknet._params import Interval, InvalidParameterError
from sknet.core import Tensor, as_tensor
from sknet.device import Device
from sknet.exceptions import DtypeError, ShapeError
from sknet.nn._collections import ModuleList
from sknet.nn._module import Module
from sknet.nn.init import Initializer
from sknet.nn.layers._arguments import check_arguments
from sknet.nn.layers._embedding import Embedding
from sknet.ops import concat, greater_equal, less, logical_and, where

__all__ = ["CategoryEmbeddings"]

MOST = 600  # no vector is longer, whatever the number of levels


class CategoryEmbeddings(Module):
    r"""A learned vector for the level of each of several columns, one after the other.

    Parameters
    ----------
    cardinalities : sequence of int
        For each column the number of its levels, which are numbered from 0.
    embedding_dim : int, sequence of int or None, default=None
        Length of the vectors of all columns, or of each; None takes it from the number of levels.
    init : Initializer or str, default=None
        Scheme of the vectors, as of `Embedding`.
    device : str or Device, default=None
        Where the parameters live; None is the CPU.

    Attributes
    ----------
    embeddings : ModuleList of Embedding
        One for each column. The last vector is that of unseen levels.
    out_features : int
        Length of the output's last axis.

    Raises
    ------
    InvalidParameterError
        If `embedding_dim` has not a length for each column.
    DtypeError
        If the input does not hold integers.
    ShapeError
        If its last axis has not as many columns.

    Notes
    -----
    The input is of shape (..., n_columns) and an integer dtype, the output of shape (..., out_features).
    A number that is negative, or not below the number of levels, is a level that was not seen: all of a
    column have one vector of their own.

    By default the length for n levels is :math:`\min(600, \mathrm{round}(1.6 \, n^{0.56}))`, fastai's rule
    (J. Howard and S. Gugger, "fastai: A Layered API for Deep Learning", Information 11(2), 2020).

    Examples
    --------
    >>> from sknet import nn
    >>> layer = nn.CategoryEmbeddings([2, 50]).initialize(0)
    >>> layer([[0, 49], [1, -1]]).shape
    (2, 16)
    >>> [embedding.weight.shape for embedding in layer.embeddings]
    [(3, 2), (51, 14)]
    """

    _parameter_constraints = {
        "cardinalities": ["array-like"],
        "embedding_dim": [Interval(Integral, 1, None, closed="left"), "array-like", None],
    }
    _stored_fields = {
        "cardinalities": tuple[int, ...],
        "out_features": POSITIVE,
        "embedding_dim": [ABSENT],
        "embeddings": Named("ModuleList"),
    }

    def _check_stored(self) -> None:
        tables = [each for _, each in self.embeddings.named_children()]
        sizes = [each.num_embeddings for each in tables if isinstance(each, Embedding)]
        if len(sizes) != len(tables) or len(tables) != len(self.cardinalities):
            raise ValueError(
                f"{type(self).__name__} has no table for each of the cardinalities {self.cardinalities}"
            )
        if [*self.cardinalities] != [n - 1 for n in sizes]:
            raise ValueError(
                f"{type(self).__name__} has tables of {sizes} rows for {self.cardinalities} levels"
            )
        if self.out_features != sum(each.embedding_dim for each in tables):
            raise ValueError(f"{type(self).__name__} cannot have {self.out_features} outputs")

    def __init__(
        self,
        cardinalities: Sequence[int],
        embedding_dim: "int | Sequence[int] | None" = None,
        *,
        init: "Initializer | str | None" = None,
        device: "str | Device | None" = None,
    ) -> None:
        check_arguments(self, cardinalities=cardinalities, embedding_dim=embedding_dim)
        self.cardinalities = _counts(cardinalities, "cardinalities")
        if embedding_dim is None:
            lengths = tuple(map(_length, self.cardinalities))
        elif isinstance(embedding_dim, Integral):
            lengths = (int(embedding_dim),) * len(self.cardinalities)
        else:
            lengths = _counts(embedding_dim, "embedding_dim")
        if len(lengths) != len(self.cardinalities):
            raise InvalidParameterError(
                "The 'embedding_dim' parameter of CategoryEmbeddings must have a length for each of "
                f"{len(self.cardinalities)} columns. Got {list(lengths)}."
            )
        self.out_features = sum(lengths)
        self.embeddings = ModuleList(
            *(
                Embedding(n + 1, length, init=init, device=device)
                for n, length in zip(self.cardinalities, lengths, strict=True)
            )
        )

    def forward(self, x: Any) -> Tensor:
        x = as_tensor(x)
        if x.dtype.kind not in "iu":
            raise DtypeError(f"{self._shown}: expected integers, got {x.dtype}: use .astype('int64')")
        if x.ndim == 0 or x.shape[-1] != len(self.cardinalities):
            raise ShapeError(
                f"{self._shown}: expected an input of shape (..., {len(self.cardinalities)}), got {x.shape}"
            )
        parts = []
        for column, (count, embedding) in enumerate(zip(self.cardinalities, self.embeddings, strict=True)):
            level = x[..., column]
            is_known = logical_and(greater_equal(level, 0), less(level, count))
            parts.append(embedding(where(is_known, level, count)))
        return concat(parts, axis=-1)

    @property
    def _shown(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"

    def extra_repr(self) -> str:
        """Return the numbers of levels."""
        return f"{list(self.cardinalities)}"


def _counts(values: Any, name: str) -> tuple[int, ...]:
    found: list[Any] = list(values) if np.ndim(values) else []
    if not found or not all(isinstance(x, Integral) and 0 < int(x) < WHOLE for x in found):
        raise InvalidParameterError(
            f"The {name!r} parameter of CategoryEmbeddings must be a sequence of ints from 1, at least one. "
            f"Got {shown(values)}."
        )
    return tuple(int(x) for x in found)


def _length(n_levels: int) -> int:
    return min(MOST, round(1.6 * math.pow(n_levels, 0.56)))
