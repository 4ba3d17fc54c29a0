"""TableEncoder: columns of any kind become numbers that a network can learn from."""

from copy import copy
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_feature_names_in, check_consistent_length, check_is_fitted

from sknet._fields import ABSENT, COUNT, Texts
from sknet._params import ParameterObject, store_parameters
from sknet._random import check_random_state
from sknet._validation import Interval, RealNotInt, StrOptions
from sknet.preprocessing._encodings import Crossed, Target, target_of
from sknet.preprocessing._plan import Options, Plan, check_plan, fit_plan
from sknet.preprocessing._schema import Schema, Table

# Below this share of nonzero elements, a sparse matrix is smaller and faster.
SPARSE_BELOW = 0.3


class TableEncoder(TransformerMixin, ParameterObject, BaseEstimator):
    """Encode the columns of a raw table as numbers that a network can learn from.

    Numbers become ``z / sqrt(1 + (z / 3)**2)`` with ``z = (x - median) / interquartile range`` and, in
    additional columns, a piecewise-linear encoding over bins [1]_. Categories are one-hot encoded (two
    levels become -1 and 1); those with many levels are target encoded, by smoothed means of the targets,
    which `fit_transform` computes on other folds than the row's own, so that no row sees its own target. So
    are, additionally, numbers with repeated values, such as codes or caps, that tell more than their bins.
    Dates become seconds, with sine and cosine of the time of day, week, month and year, all of the local time
    of the time zone that the column has in `fit`; dates in another one are converted to it. A missing number
    becomes the median and sets a flag; a missing category is a separate level. Constant columns are
    dropped. Texts that are numbers ("1,234", "$5", "12 %", "7 kg"), durations ("1h 30m"), dates or booleans
    ("yes", "no") are read as such; long texts, most of them different, become 32 numbers, which are singular
    vectors of the weighted frequencies of their words (or characters, in scripts without spaces) [2]_. Other
    texts that are different in every row, and integers that are and whose name says so, are ids and dropped.
    Levels that `fit` has not seen are encoded as zeros, or as the mean of all targets, and never raise an
    error; neither do missing values in a column that had none in `fit`.

    Parameters
    ----------
    categorical_features : "from_dtype", array-like of str, int or bool, or None, default="from_dtype"
        Columns that are categories: those of category, object, string and boolean dtype; or names, indices
        or a mask of columns; or none. All other columns must then be numbers or dates. A column of an array
        of objects is numeric if all of its values are numbers; one of objects that are all dates is of dates.
    columns : dict of str or int to str, default=None
        Kinds of columns, by name or index, where they are not to be found from dtypes and texts: "number",
        "date", "category", "text", "boolean", "id" or "drop" (both are left out). "number:," has a decimal
        comma, "number:." a point, either also a unit, as "number:. kg", and "number:duration" becomes
        seconds; "date:dmy", "date:mdy" and "date:ymd" have that order, "date:time" is a
        time of day, and "date:s", "date:ms", "date:us" and "date:ns" count from 1970.
    piecewise : {"both", "tree", "quantile"} or None, default="both"
        Edges of the bins: thresholds of a tree that predicts y from the column alone, or quantiles; "both"
        adds outputs for each. Without y there are no trees. None omits the bins.
    n_bins : int, default=16
        Leaves of the tree, and quantile bins.
    max_levels : int, default=40
        Categories with more levels are target encoded; without y, only this many levels, the most frequent,
        are one-hot encoded.
    min_count : int, default=5
        Least number of rows with a level, or in a sparse X with a number but 0, for it to have an output.
    n_folds : int, default=5
        Folds of the target encoding.
    smoothing : float, default=20.0
        Weight of the overall mean in the mean of a level, in rows.
    value_means : bool, default=True
        Whether numbers are target encoded, in additional columns, if the values that at least `min_count`
        rows have predict the targets of other rows better than bins do, in each of `n_folds` folds. At most
        1,000 values of a number, the most frequent, have a mean; others count as unseen.
    target_type : {"auto", "classification", "regression"}, default="auto"
        The kind of y; "auto" treats integers as classes.
    subsample : int or None, default=20_000
        Number of rows, drawn at random, for medians and edges; None uses all.
    sparse_output : bool or "auto", default="auto"
        Whether `transform` returns a CSR array; "auto" does if X is sparse, or less than 30 % of the outputs
        are not zero. A sparse X is scaled without being centered.
    dtype : {"float32", "float64"}, default="float32"
        Dtype of the output.
    random_state : int, RandomState, Generator or None, default=None
        Draws folds and the subsample.

    Attributes
    ----------
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number and names of the features; names only if X had string names.
    n_features_out_ : int
        Number of outputs.

    References
    ----------
    .. [1] Gorishniy, Rubachev, Babenko: On Embeddings for Numerical Features in Tabular Deep Learning (2022).
    .. [2] Deerwester et al.: Indexing by Latent Semantic Analysis (1990).

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.preprocessing import TableEncoder
    >>> X = np.array([[1.0, "a"], [2.0, "b"], [None, "a"], [4.0, "b"]] * 5, dtype=object)
    >>> encoder = TableEncoder(piecewise=None).fit(X)
    >>> encoder.get_feature_names_out()
    array(['x0', 'x0_missing', 'x1_b'], dtype=object)
    >>> encoder.transform([[None, "c"]])
    array([[0., 1., 0.]], dtype=float32)
    """

    _parameter_constraints: dict[str, Any] = {
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
        "columns": "no_validation",  # checked with the columns, with a better message
        "piecewise": [StrOptions({"both", "tree", "quantile"}), None],
        "n_bins": [Interval(Integral, 2, None, closed="left")],
        "max_levels": [Interval(Integral, 2, None, closed="left")],
        "min_count": [Interval(Integral, 1, None, closed="left")],
        "n_folds": [Interval(Integral, 2, None, closed="left")],
        "smoothing": [
            Interval(Integral, 0, None, closed="left"),
            Interval(RealNotInt, 0, None, closed="left"),
        ],
        "value_means": ["boolean"],
        "target_type": [StrOptions({"auto", "classification", "regression"})],
        "subsample": [Interval(Integral, 1, None, closed="left"), None],
        "sparse_output": ["boolean", StrOptions({"auto"})],
        "dtype": [StrOptions({"float32", "float64"})],
        "random_state": ["random_state", np.random.Generator],
    }
    _stored_fields = {
        "_schema": Schema,
        "_plan": Plan,
        "n_features_in_": COUNT,
        "n_features_out_": COUNT,
        "feature_names_in_": [Texts("n_features_in_"), ABSENT],
    }

    def _check_stored(self) -> None:
        if "_plan" in vars(self):
            check_plan(self._schema, self._plan, self.n_features_in_, self.n_features_out_)

    def __init__(
        self,
        categorical_features: Any = "from_dtype",
        *,
        columns: Any = None,
        piecewise: str | None = "both",
        n_bins: int = 16,
        max_levels: int = 40,
        min_count: int = 5,
        n_folds: int = 5,
        smoothing: float = 20.0,
        value_means: bool = True,
        target_type: str = "auto",
        subsample: int | None = 20_000,
        sparse_output: bool | str = "auto",
        dtype: str = "float32",
        random_state: Any = None,
    ) -> None:
        store_parameters(self, locals())

    _schema: Schema
    _plan: Plan

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the encoding of every column.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            A frame of pandas, polars or any library with the dataframe interchange protocol.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Targets: labels or numbers.

        Returns
        -------
        self
            The fitted encoder. A fit that fails leaves it unchanged.

        Raises
        ------
        ValueError, TypeError
            If a column cannot be read (the message names it), or no column is informative.
        """
        self._learn(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit the encoding of every column, and encode the rows, none by its own target.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            As for `fit`.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            As for `fit`.

        Returns
        -------
        ndarray or CSR array of shape (n_samples, n_features_out_)
            Outputs to train on. Those of `transform` differ for target-encoded columns.
        """
        table, fitted = self._learn(X, y)
        return self._encoded(table, fitted)

    def _learn(self, X: Any, y: Any) -> "tuple[Table, dict[int, Crossed]]":
        self.validate()
        state = self.__dict__
        before = dict(state)
        try:
            schema, table = Schema.learn(self, X, self.categorical_features, self.columns)
            target = None if y is None else target_of(y, self.target_type)
            check_consistent_length(table.numbers, None if target is None else target.y)
            fitted = self._fit_table(schema, table, target, check_random_state(self.random_state))
        except BaseException:
            state.clear()
            state.update(before)
            raise
        return table, fitted

    def _fit_table(
        self,
        schema: Schema,
        table: Table,
        target: Target | None,
        random_state: np.random.RandomState,
        rows: Any = None,
        directions: np.ndarray | None = None,
    ) -> "dict[int, Crossed]":
        chosen = {name: getattr(self, name) for name in Options.__dataclass_fields__}
        options = Options(**chosen)
        self._plan, fitted = fit_plan(schema, table, target, options, random_state, rows, directions)
        self._schema, self.n_features_out_ = schema, self._plan.width
        return fitted

    def transform(self, X: Any) -> Any:
        """Encode rows.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            With the columns of `fit`.

        Returns
        -------
        ndarray or CSR array of shape (n_samples, n_features_out_)
            Finite numbers.

        Raises
        ------
        ValueError, TypeError
            If X has other columns, or one cannot be read.
        """
        check_is_fitted(self)
        return self._encoded(self.read(X))

    def read(self, X: Any) -> Table:
        """Read `X`, a table with the columns of the fit; pass the result to `encode`."""
        return self._schema.read(self, X)

    def encode(self, table: Table, fitted: "dict[int, Crossed] | None" = None) -> Any:
        """Encode a table that has been read with the schema of the fit; for estimators that read it once.

        Parameters
        ----------
        table : Table
            Rows.
        fitted : dict of int to Crossed, default=None
            The encoder fitted to these rows.

        Returns
        -------
        ndarray or CSR array of shape (n_samples, n_features_out_)
            As for `transform`.
        """
        return self._encoded(table, fitted)

    def _encoded(self, table: Table, fitted: "dict[int, Crossed] | None" = None) -> Any:
        encode = self._plan.csr if self._is_sparse() else self._plan.dense
        return encode(table, np.dtype(self.dtype), fitted)

    def _is_sparse(self) -> bool:
        if self.sparse_output != "auto":
            return bool(self.sparse_output)
        if _get_output_config("transform", self)["dense"] != "default":
            return False
        return self._schema.is_sparse or self._plan.density < SPARSE_BELOW

    @property
    def plan(self) -> Plan:
        """Encoding of every column."""
        check_is_fitted(self)
        return self._plan

    @property
    def schema(self) -> Schema:
        """Schema by which a table is read."""
        check_is_fitted(self)
        return self._schema

    @property
    def owners(self) -> np.ndarray:
        """Index of the column of the table that each output comes from, of shape (n_features_out_,)."""
        check_is_fitted(self)
        return self._plan.owners(self._schema)[:, 0]

    @property
    def notes(self) -> list[str]:
        """Descriptions of the columns that are not used as they come, such as dates in texts, and ids."""
        check_is_fitted(self)
        return self._schema.notes

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the outputs.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the columns, which must be those of `fit`.

        Returns
        -------
        ndarray of str of shape (n_features_out_,)
            Such as ``age``, ``age_tree3``, ``age_quantile0``, ``age_missing``, ``city_Rome``, ``zip_target``.
        """
        check_is_fitted(self)
        _check_feature_names_in(self, input_features)
        return np.array(self._plan.names, dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return "_plan" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def fit_encoder(
    encoder: TableEncoder,
    estimator: Any,
    schema: Schema,
    table: Table,
    target: Target | None,
    random_state: np.random.RandomState,
    rows: Any = None,
    directions: np.ndarray | None = None,
) -> "tuple[TableEncoder, dict[int, Crossed]]":
    """Return a fitted copy of an encoder, for an estimator that has read its table itself."""
    fitted: TableEncoder = clone(encoder)
    for name in ("n_features_in_", "feature_names_in_"):
        if name in vars(estimator):
            setattr(fitted, name, getattr(estimator, name))
    return fitted, fitted._fit_table(schema, table, target, random_state, rows, directions)


def narrowed(encoder: TableEncoder, is_kept: np.ndarray) -> TableEncoder:
    """Return a copy of a fitted encoder with some of its outputs, as for `Plan.narrowed`."""
    found = copy(encoder)
    found._plan = encoder.plan.narrowed(is_kept)
    found.n_features_out_ = found._plan.width
    return found
