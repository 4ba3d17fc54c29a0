"""Tables of every kind are encoded as numbers; errors for invalid ones say where."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from sknet.preprocessing import TableEncoder
from tests.combinations import every
from tests.fuzz.tables import drawn, harmed

ENCODERS = [TableEncoder(), TableEncoder(sparse_output=True), TableEncoder(piecewise=None, dtype="float64")]


@pytest.mark.slow
@parametrize_with_checks(ENCODERS)
def test_check(estimator, check):
    check(estimator)


def table(n=80, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "age": [None if i % 9 == 0 else float(v) for i, v in enumerate(rng.integers(18, 80, n))],
        "city": [
            None if i % 7 == 0 else str(c) for i, c in enumerate(rng.choice(["Rome", "Bern", "Oslo"], n))
        ],
        "member": [bool(b) for b in rng.random(n) < 0.5],
        "children": [int(i) for i in rng.integers(0, 5, n)],
    }, rng.integers(0, 2, n)


class Interchanged:
    """A data frame that supports only the interchange protocol."""

    def __init__(self, frame):
        self.frame = frame
        self.shape, self.columns = frame.shape, list(frame.columns)

    def __dataframe__(self, nan_as_null=False, allow_copy=True):
        return self.frame.__dataframe__(nan_as_null, allow_copy)


FRAMES = {
    "pandas": pd.DataFrame,
    "category": lambda d: pd.DataFrame(d).astype({"city": "category"}),
    "object": lambda d: pd.DataFrame(d).astype({"city": object, "member": object}),
    "nullable": lambda d: pd.DataFrame(d).convert_dtypes(),
    "pyarrow dtypes": lambda d: pd.DataFrame(d).convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.DataFrame,
    "polars categorical": lambda d: pl.DataFrame(d).with_columns(pl.col("city").cast(pl.Categorical)),
    "arrow": pa.table,
    "interchange": lambda d: Interchanged(pd.DataFrame(d)),
}
NAMES = [
    "age",
    "children",
    "age_missing",
    "city_Bern",
    "city_Oslo",
    "city_Rome",
    "city_missing",
    "member_True",
]


@pytest.mark.parametrize("kind", FRAMES)
def test_all_frames_are_alike(kind):
    data, y = table()
    frame = pd.DataFrame(data)
    expected = TableEncoder(piecewise=None, random_state=0).fit(frame, y).transform(frame)
    X = FRAMES[kind](data)
    encoder = TableEncoder(piecewise=None, random_state=0).fit(X, y)
    assert encoder.get_feature_names_out().tolist() == NAMES
    np.testing.assert_array_equal(encoder.transform(X), expected)
    one = FRAMES[kind]({name: values[7:8] for name, values in data.items()})
    np.testing.assert_array_equal(encoder.transform(one), expected[7:8])


def test_an_array_of_objects_is_read_by_column():
    data, y = table()
    encoder = TableEncoder(piecewise=None, random_state=0)
    X = pd.DataFrame(data).astype(object).to_numpy()
    expected = encoder.fit_transform(pd.DataFrame(data), y)
    np.testing.assert_array_equal(encoder.fit_transform(X, y), expected)
    np.testing.assert_array_equal(encoder.fit_transform(X.tolist(), y), expected)


@pytest.mark.parametrize("chosen", [["children"], [3], [-1], [False, False, False, True]])
def test_chosen_categories(chosen):
    data, _ = table()
    X = (
        pd.DataFrame(data)
        .drop(columns="city")
        .assign(again=data["children"])[["age", "member", "again", "children"]]
    )
    encoder = TableEncoder(chosen, piecewise=None, min_count=1).fit(X)
    names = encoder.get_feature_names_out().tolist()
    assert names == ["age", "member", "again", "age_missing", *(f"children_{i}" for i in range(5))]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (["town"], "categorical_features has 'town', but X has no column of this name"),
        ([7], r"must be in \[0, n_features - 1\], got 7 for 4 features"),
        ([True], r"boolean mask must have shape \(n_features,\), got: \(1,\) for 4"),
        ([1.5], "must be an array-like of bool, int or str"),
        ([["town"], ["town", 1]], "must be an array-like of bool, int or str"),
        (None, "column 'city': could not convert string to float"),
        ("city", "The 'categorical_features' parameter of TableEncoder must be"),
    ],
)
def test_invalid_choices_of_categories(chosen, message):
    with pytest.raises(ValueError, match=message):
        TableEncoder(chosen).fit(pd.DataFrame(table()[0]))


def test_names_need_names():
    with pytest.raises(ValueError, match="X has no column names"):
        TableEncoder(["a"]).fit(np.zeros((4, 2)))


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (pd.DataFrame({"a": [1 + 2j, 3]}), ValueError, "Complex data not supported: column 'a'"),
        (
            pd.DataFrame({"a": [[1], [2]]}),
            TypeError,
            r"column 'a': argument must be .* got \[1\] in row 0\. Sequences are read by networks for them",
        ),
        ([[1, 2], [3]], ValueError, "Expected 2D array, .*Sequences are read by networks for them"),
        (sp.csr_array(np.eye(3) * 1j), ValueError, "Complex data not supported"),
        (
            pd.DataFrame([[1, 2], [3, 5]], columns=["a", "a"]),
            ValueError,
            "several columns of X have the name 'a':",
        ),
        (np.zeros(3), ValueError, "Expected 2D array, got 1D array"),
        (np.zeros((0, 3)), ValueError, r"Found array with 0 sample\(s\)"),
        (np.zeros((3, 0)), ValueError, r"Found array with 0 feature\(s\)"),
        (
            pd.DataFrame({"a": [1, 1], "b": ["x", "x"]}),
            ValueError,
            r"nothing can be learned .*column 'a', column 'b'\) is constant, is missing",
        ),
        (
            [[1e300], [2e300]],
            ValueError,
            "is constant, has magnitudes of 1e\\+150 or more, which count",
        ),
        (sp.csr_array([[-1e300], [0]]), ValueError, "has magnitudes of 1e\\+150 or more, which count"),
    ],
)
def test_invalid_tables(X, error, message):
    encoder = TableEncoder().fit([[1.0], [2.0]])
    with pytest.raises(error, match=message):
        encoder.fit(X)
    assert encoder.transform([[1.0]]).shape == (1, encoder.n_features_out_)  # as it was before


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.full(80, np.nan), "NaN"),
        (np.zeros(3), "inconsistent numbers of samples"),
        (np.array([object()] * 80), "Unknown label type"),
    ],
)
def test_invalid_targets(y, message):
    with pytest.raises(ValueError, match=message):
        TableEncoder().fit(pd.DataFrame(table()[0]), y)


def test_other_columns_are_an_error():
    X = pd.DataFrame(table()[0])
    encoder = TableEncoder().fit(X)
    for rows in (1, 5):
        with pytest.raises(ValueError, match="feature names should match"):
            encoder.transform(X[:rows][["city", "age", "member", "children"]])
        with pytest.raises(ValueError, match="feature names should match"):
            encoder.transform(X[:rows].drop(columns="city"))
        with pytest.raises(ValueError, match="column 'age': could not convert"):
            encoder.transform(X[:rows].assign(age="old"))
        with pytest.raises(TypeError, match=r"column 'city': argument must be .* got \[1\] in row 0"):
            encoder.transform(X[:rows].assign(city=[[1]] * rows))


def test_new_missing_values_and_levels_are_accepted():
    X = pd.DataFrame(table()[0]).fillna({"age": 30.0, "city": "Bern"})
    encoder = TableEncoder(piecewise=None).fit(X)
    new = pd.DataFrame({"age": [None], "city": ["Paris"], "member": [None], "children": [None]})
    for rows in (new, pd.concat([new, new])):
        assert encoder.transform(rows).tolist() == [[0.0] * encoder.n_features_out_] * len(rows)


# -- sparse -------------------------------------------------------------------------------------------------


def by_column(x):
    """Scale a column of a sparse matrix by hand; zeros stay."""
    known = x[~np.isnan(x)]
    if not len(known) or known.min() == known.max() or np.count_nonzero(known) < 5:
        return None
    first, third = np.percentile(known, [25, 75])
    z = np.nan_to_num(x) / (third - first or (known.max() - known.min()) / 2)
    return z / np.sqrt(1 + (z / 3) ** 2)


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csc_array, sp.coo_matrix, sp.lil_array])
def test_sparse_numbers_stay_sparse(container):
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((60, 12)) < np.linspace(0.05, 1, 12), rng.normal(size=(60, 12)), 0.0)
    dense[:, 3], dense[:, 4] = 0.0, 2.0
    dense[5, 7] = np.nan
    X = container(dense)
    encoder = TableEncoder(dtype="float64").fit(X)
    found = encoder.transform(X)
    assert sp.issparse(found)
    assert found.nnz <= X.nnz + 1
    columns = [by_column(x) for x in dense.T]
    expected = np.stack([x for x in columns if x is not None] + [np.isnan(dense[:, 7])], axis=1)
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-9, atol=1e-12)
    kept = [f"x{i}" for i, x in enumerate(columns) if x is not None]
    assert encoder.get_feature_names_out().tolist() == [*kept, "x7_missing"]
    np.testing.assert_allclose(encoder.transform(dense).toarray(), expected, rtol=1e-9, atol=1e-12)


def test_sparse_numbers_that_few_rows_have_are_dropped():
    dense = np.zeros((40, 4))
    dense[:4, 0] = dense[:5, 1] = dense[:1, 2] = dense[:6, 3] = 1.0
    dense[5, 3] = np.nan
    X = sp.csc_array(dense + np.eye(40, 4, -10))
    X.data[X.indices >= 10] = 0.0  # zeros that are stored
    for min_count, names in (5, ["x1", "x3"]), (6, []), (1, ["x0", "x1", "x2", "x3"]):
        encoder = TableEncoder(min_count=min_count).fit(X)
        assert encoder.get_feature_names_out().tolist() == [*names, "x3_missing"]
    with pytest.raises(ValueError, match="no number or level in 7 rows"):
        TableEncoder(min_count=7).fit(X[:, :3])


def test_columns_of_a_sparse_matrix_are_read_together(monkeypatch):
    X = sp.random_array((30, 2000), density=0.1, random_state=0, format="csc")
    taken, take = [], sp.csc_array.__getitem__
    monkeypatch.setattr(sp.csc_array, "__getitem__", lambda self, key: taken.append(key) or take(self, key))
    for kinds in (None, {7: "category"}):
        encoder = TableEncoder(columns=kinds, min_count=2).fit(X)
        assert encoder.transform(X).shape == (30, encoder.n_features_out_)
    assert len(taken) < 20


def test_categories_of_a_sparse_matrix():
    rng = np.random.default_rng(1)
    X = sp.csr_array(np.stack([rng.integers(0, 3, 60), rng.normal(size=60)], axis=1))
    encoder = TableEncoder([0]).fit(X)
    assert encoder.get_feature_names_out().tolist() == ["x1", "x0_0.0", "x0_1.0", "x0_2.0"]
    assert (encoder.transform(X).toarray()[:, 1:].sum(axis=1) == 1).all()


def test_sparse_and_dense_output_are_the_same():
    X, y = pd.DataFrame(table()[0]), table()[1]
    dense, sparse = (TableEncoder(sparse_output=kind).fit(X, y).transform(X) for kind in (False, True))
    np.testing.assert_array_equal(sparse.toarray(), dense)


def test_output_is_sparse_where_it_is_mostly_zeros():
    rng = np.random.default_rng(2)
    X = pd.DataFrame({f"c{i}": rng.choice([f"l{j}" for j in range(20)], 400) for i in range(3)})
    assert sp.issparse(TableEncoder().fit_transform(X))
    assert not sp.issparse(
        TableEncoder().fit_transform(X.assign(n=rng.normal(size=400), m=rng.normal(size=400)))
    )
    assert isinstance(TableEncoder().set_output(transform="pandas").fit_transform(X), pd.DataFrame)


# -- as a scikit-learn transformer --------------------------------------------------------------------------


@pytest.mark.parametrize(("library", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_set_output(library, kind):
    X, y = pd.DataFrame(table()[0]), table()[1]
    encoder = TableEncoder().set_output(transform=library)
    found = encoder.fit_transform(X, y)
    assert isinstance(found, kind)
    assert list(found.columns) == encoder.get_feature_names_out().tolist()


def test_names_are_different_from_each_other():
    X = pd.DataFrame({"a": [1.0, None, 3.0] * 5, "a_missing": np.arange(15.0)})
    names = TableEncoder(piecewise=None).fit(X).get_feature_names_out().tolist()
    assert names == ["a", "a_missing", "a_missing_2"]


def test_in_a_pipeline_and_pickled():
    X, y = pd.DataFrame(table()[0]), table()[1]
    model = make_pipeline(TableEncoder(random_state=0), LogisticRegression(max_iter=1000)).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert clone(model[0]).get_params() == model[0].get_params()


def test_the_order_of_the_rows_does_not_matter():
    X, y = pd.DataFrame(table()[0]), table()[1]
    order = np.random.default_rng(0).permutation(len(X))
    one, other = TableEncoder().fit(X, y), TableEncoder().fit(X.iloc[order], y[order])
    np.testing.assert_array_equal(one.transform(X), other.transform(X))


# -- any table ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@every(seed=range(150))
def test_any_table(seed):
    X, y = drawn(seed)
    encoder = TableEncoder(random_state=0, sparse_output=bool(seed % 2))
    try:
        encoder.fit(X, y)
    except ValueError as error:
        assert "column 'c0'" in str(error)  # noqa: PT017  which of the two it is depends on the table
        assert all(X[name].nunique() <= 1 or X[name].value_counts().max() < 5 for name in X)
        return
    names = encoder.get_feature_names_out().tolist()
    for rows in (X, harmed(X, seed)):
        found = encoder.transform(rows)
        found = found.toarray() if sp.issparse(found) else found
        assert found.shape == (len(rows), len(names))
        assert np.abs(found).max() < 50
        one = encoder.transform(rows.iloc[2:3])
        np.testing.assert_array_equal(one.toarray() if sp.issparse(one) else one, found[2:3])
