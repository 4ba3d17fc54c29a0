"""A frozen pipeline is bitwise identical to the pipeline."""

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import FastICA
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)
from threadpoolctl import threadpool_limits

import sknet
from tests.freezing.pipelines import choice, fitted, frame, random_pipeline

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")

METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "transform")
N_ROWS = (1, 2, 17, 60)


def ways(table, rng, *, by_name):
    """Yield the table as frames and arrays."""
    if by_name:
        yield table
        yield polars_frame(table)
    else:
        yield table.to_numpy(dtype=object)
        yield table.to_numpy(dtype=object).tolist()


def polars_frame(table):
    import polars

    columns = {name: [None if x is None or x != x else x for x in table[name].tolist()] for name in table}
    made = polars.DataFrame(columns, strict=False)
    return made.with_columns(polars.col("size").cast(polars.Float32))


def result(function, X):
    """Return the function of X, or the class of its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(X)
        except (ValueError, TypeError) as error:
            return type(error)


def assert_same(found, expected):
    if isinstance(expected, type) or isinstance(found, type):
        assert found is expected
        return
    assert type(found) is type(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if scipy.sparse.issparse(expected):
        assert found.format == expected.format
        np.testing.assert_array_equal(found.indptr, expected.indptr)
        np.testing.assert_array_equal(found.indices, expected.indices)
        found, expected = found.data, expected.data
    np.testing.assert_array_equal(found, expected)


def assert_frozen(pipeline, X, rows=N_ROWS):
    frozen = sknet.freeze(pipeline)
    for method in METHODS:
        assert hasattr(frozen, method) == hasattr(pipeline, method), method
        if hasattr(pipeline, method):
            for n in rows:
                part = X[:n]
                assert_same(result(getattr(frozen, method), part), result(getattr(pipeline, method), part))


@pytest.mark.parametrize("seed", range(8))
def test_random_pipelines(seed):
    rng = np.random.default_rng(seed)
    by_name = choice(rng, [True, False])
    pipeline = random_pipeline(rng, by_name=by_name)
    table = frame(rng)
    given = table if by_name else table.to_numpy(dtype=object)
    fitted(pipeline, given, rng)
    for X in (*ways(table, rng, by_name=by_name), *ways(frame(rng, is_seen=False), rng, by_name=by_name)):
        assert_frozen(pipeline, X)


# -- one transformer alone ------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(3, 20, (40, 4))
HOLED = np.where(RNG.random((40, 4)) < 0.2, np.nan, NUMBERS)
EMPTY = np.where(np.arange(4) == 2, np.nan, HOLED)
CODES = RNG.integers(0, 4, (40, 3))
TEXTS = RNG.choice(np.array(["a", "b", "long one"], dtype=object), (40, 3))
SCALERS = [StandardScaler(), MinMaxScaler(clip=True), MaxAbsScaler(), RobustScaler(quantile_range=(10, 90))]
SCALERS += [StandardScaler(with_mean=False, with_std=False), FunctionTransformer(np.expm1, validate=True)]
ENCODERS = [
    *(OneHotEncoder(), OneHotEncoder(sparse_output=False, drop="first"), OneHotEncoder(drop=[2, 0, 3])),
    *(OneHotEncoder(handle_unknown="ignore", max_categories=2), OneHotEncoder(handle_unknown="warn")),
    *(OneHotEncoder(min_frequency=12, handle_unknown="infrequent_if_exist", dtype=np.float32),),
    *(OneHotEncoder(categories=[[0, 1, 2, 3, 9]] * 3), OrdinalEncoder(dtype=np.int64), OrdinalEncoder()),
    *(OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan),),
    *(OrdinalEncoder(min_frequency=11, encoded_missing_value=-2),),
]


def table_of(dtype):
    """Return numbers of a dtype, in C order and in other memory orders."""
    X = NUMBERS.astype(dtype)
    return [X, np.asfortranarray(X), np.hstack([X, X])[:, ::2], X.astype(object), X.tolist()]


def test_scalers_of_every_dtype():
    for scaler in SCALERS:
        scaler.fit(NUMBERS / 40)
        for dtype in ("float64", "float32", "float16", "int32", "bool"):
            for X in table_of(dtype):
                assert_frozen(scaler, X, (1, 3))


def test_memory_order_is_the_pipelines():
    for scaler in SCALERS:
        frozen = sknet.freeze(scaler.fit(NUMBERS / 40))
        for X in table_of("float64")[:3]:
            assert frozen.transform(X[:9]).strides == scaler.transform(X[:9]).strides


def test_sparse_tables_are_scaled():
    for scaler in (MaxAbsScaler(), StandardScaler(with_mean=False), RobustScaler(with_centering=False)):
        for dtype in ("float32", "float64", "int64"):
            X = scipy.sparse.random_array((40, 4), density=0.4, rng=0, format="csr")
            X.data = np.round(X.data * 9)
            scaler.fit(X)
            assert_frozen(scaler, scipy.sparse.csr_array(X.astype(dtype)), (1, 9))


def test_imputers():
    for strategy in ("mean", "median", "most_frequent", "constant"):
        for indicator in (False, True):
            for table in (HOLED, EMPTY, HOLED.astype("float32"), HOLED.astype(object)):
                imputer = SimpleImputer(strategy=strategy, add_indicator=indicator)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    imputer.fit(table)
                assert_frozen(imputer, table, (1, 7))
    assert_frozen(SimpleImputer(missing_values=2, strategy="most_frequent").fit(CODES), CODES, (1, 7))


def has_list(encoder):
    return isinstance(encoder.categories, list) or isinstance(getattr(encoder, "drop", None), list)


def test_encoders_of_numbers():
    unseen = np.where(RNG.random(CODES.shape) < 0.2, 9, CODES)
    holed = np.where(RNG.random(CODES.shape) < 0.2, np.nan, CODES)
    for encoder in ENCODERS:
        encoder.fit(CODES)
        for X in (CODES, unseen, holed, unseen.astype(object), CODES.astype("float32") + 0.5):
            assert_frozen(encoder, X, (1, 40))
        if not has_list(encoder) and encoder.dtype != np.int64:
            assert_frozen(encoder.fit(holed), unseen, (1, 40))


def test_encoders_of_texts():
    unseen = np.where(RNG.random(TEXTS.shape) < 0.2, "unseen", TEXTS)
    holed = np.where(RNG.random(TEXTS.shape) < 0.2, None, TEXTS)
    nan = np.where(RNG.random(TEXTS.shape) < 0.2, np.nan, TEXTS)
    for encoder in ENCODERS:
        if has_list(encoder):
            continue
        for table in (TEXTS, holed, nan) if encoder.dtype != np.int64 else (TEXTS,):
            encoder.fit(table)
            for X in (TEXTS, unseen, holed, nan, TEXTS.astype(str), unseen.tolist()):
                assert_frozen(encoder, X, (1, 40))


def test_an_encoder_of_tables():
    table = frame(np.random.default_rng(1), 200)
    other = frame(np.random.default_rng(2), 60, is_seen=False)
    for options in ({}, {"sparse_output": True}, {"dtype": "float64", "max_levels": 3}):
        encoder = sknet.TableEncoder(random_state=0, **options).fit(table, RNG.normal(size=200))
        for X in (table, other, polars_frame(other), other[table.columns[::-1]][table.columns]):
            assert_frozen(encoder, X, (1, 60))
        given = table.to_numpy(dtype=object)
        assert_frozen(encoder.fit(given), other.to_numpy(dtype=object), (1, 60))


# -- meta-estimators --------------------------------------------------------------------------------------


def small(kind=sknet.MLPClassifier, **params):
    return kind((4,), max_iter=2, random_state=0, **params)


def mixed():
    """Return a fitted pipeline of a table with names, and the table."""
    rng = np.random.default_rng(3)
    table = frame(rng)[["age", "animal", "grade"]]
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["age"]),
            ("categories", OneHotEncoder(handle_unknown="ignore"), ["animal", "grade"]),
        ]
    )
    return fitted(make_pipeline(columns, small()), table, rng), table


def test_meta_estimators():
    y = np.exp(NUMBERS[:, 0] / 20)
    pipeline = make_pipeline(make_pipeline(MinMaxScaler(), RobustScaler()), small(sknet.MLPRegressor))
    log = TransformedTargetRegressor(pipeline, func=np.log, inverse_func=np.exp)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_frozen(log.fit(NUMBERS, y), NUMBERS)
        assert_frozen(log.fit(pd.DataFrame(NUMBERS, columns=list("abcd")), y), NUMBERS)
        search = GridSearchCV(pipeline, {"mlpregressor__alpha": [0.1]}, cv=2).fit(NUMBERS, y)
        assert_frozen(search, NUMBERS)
        assert_frozen(make_pipeline(StandardScaler(), log).fit(NUMBERS, np.c_[y, y]), NUMBERS)
        net = small(sknet.MLPRegressor, loss="gaussian_nll").fit(NUMBERS, y)
    np.testing.assert_array_equal(sknet.freeze(net).predict_std(NUMBERS), net.predict_std(NUMBERS))
    np.testing.assert_array_equal(
        sknet.freeze(net).predict_interval(NUMBERS, 0.5), net.predict_interval(NUMBERS, 0.5)
    )
    assert not hasattr(sknet.freeze(net), "predict_quantiles")


def test_columns_are_matched_by_name():
    pipeline, table = mixed()
    expected, frozen = pipeline.predict_proba(table), sknet.freeze(pipeline)
    turned = table[["grade", "age", "animal"]].assign(more=1)
    for X in (table, turned, polars_frame(table.assign(size=1.0)), table.to_numpy(dtype=object)):
        np.testing.assert_array_equal(frozen.predict_proba(X), expected)
    assert frozen.feature_names_in_.tolist() == ["age", "animal", "grade"]
    assert (frozen.n_features_in_, frozen.classes_.tolist()) == (3, ["maybe", "no", "yes"])
    assert repr(frozen) == "FrozenPipeline(ColumnTransformer -> MLPClassifier)"
    net = small().fit(pd.DataFrame(NUMBERS, columns=list("abcd")), CODES[:, 0])
    for frozen in (net.freeze(), sknet.freeze(net), sknet.freeze(make_pipeline(net))):
        X = pd.DataFrame(NUMBERS[:, ::-1], columns=list("dcba"))
        np.testing.assert_array_equal(frozen.predict(X), net.predict(X[list("abcd")]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop(columns="age"), "X has no column 'age'.*missing are .'age'."),
        (lambda table: table.to_numpy()[:, :2], r"expected a table with 3 columns, got .* shape \(60, 2\)"),
        (lambda table: table[:0], "expected at least one row, got none"),
        (lambda table: table.assign(age=np.inf), "Input X contains infinity"),
        (lambda table: table.assign(age="old"), "could not convert string to float"),
        (
            lambda table: table.assign(grade=-np.inf),
            "column 1 contains infinity|column 'grade' contains infinity",
        ),
    ],
)
def test_unreadable_tables(change, message):
    pipeline, table = mixed()
    with pytest.raises(ValueError, match=message):
        sknet.freeze(pipeline).predict(change(table))


def test_column_names_that_select_no_table():
    X = pd.DataFrame(NUMBERS, columns=list("abcd"))
    frozen = sknet.freeze(StandardScaler().fit(X))
    with pytest.raises(ValueError, match=r"X has columns \['e'\] that the fit has not seen"):
        frozen.transform(X.assign(e=1))
    with pytest.raises(ValueError, match="X has 3 columns, and the fit had 4"):
        sknet.freeze(StandardScaler().fit(NUMBERS)).transform(X[["a", "b", "c"]])


def test_unknown_categories_warn_where_the_encoder_warns():
    encoder = OneHotEncoder(handle_unknown="warn").fit(CODES)
    with pytest.warns(UserWarning, match="Found unknown categories in column 1"):
        sknet.freeze(encoder).transform([[0, 9, 1]])
    with pytest.raises(ValueError, match="Found unknown category 9 in column 2"):
        sknet.freeze(OneHotEncoder().fit(CODES)).transform([[0, 1, 9]])


class Twice(StandardScaler):
    """A custom transformer derived from a supported one."""

    def transform(self, X):
        return super().transform(X) * 2


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            FastICA(2),
            "step 'inner.step', sklearn's FastICA, cannot be frozen. Supported are .*ColumnTransformer",
        ),
        (Twice(), "step 'inner.step', tests's Twice, cannot be frozen"),
        (
            FunctionTransformer(np.sort),
            "FunctionTransformer, cannot be frozen: its function is .*sort.*arcsinh",
        ),
        (StandardScaler().set_output(transform="pandas"), r"returns frames of pandas; use set_output\("),
    ],
)
def test_unsupported_steps_are_named(step, message):
    inner = make_pipeline(MaxAbsScaler(), step)
    inner.steps[1] = ("step", step)
    outer = make_pipeline(inner, small())
    outer.steps[0] = ("inner", inner)
    with pytest.raises(TypeError, match=message):
        sknet.freeze(outer.fit(np.abs(NUMBERS), CODES[:, 0]))


def test_foreign_and_unfitted_estimators():
    with pytest.raises(TypeError, match="step 'logisticregression', sklearn's LogisticRegression, cannot be"):
        sknet.freeze(make_pipeline(StandardScaler(), LogisticRegression()).fit(NUMBERS, CODES[:, 0]))
    with pytest.raises(NotFittedError):
        sknet.freeze(make_pipeline(StandardScaler(), small()))


def test_threads_and_pickles():
    pipeline, table = mixed()
    frozen = pickle.loads(pickle.dumps(sknet.freeze(pipeline)))
    parts = [table[i : i + 1 + i % 3] for i in range(50)] * 2
    expected = [pipeline.predict_proba(part) for part in parts]
    with ThreadPoolExecutor(4) as pool:
        for found, wanted in zip(pool.map(frozen.predict_proba, parts), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("dtype", "width"), [("float32", 500), ("float64", 300), ("float64", 500)])
def test_wide_networks(dtype, width):
    """Products that threads share have the same bits, whichever way they are computed."""
    X = np.random.default_rng(0).normal(size=(256, 30)).astype(dtype)
    regressor = sknet.MLPRegressor((width, width), max_iter=1, random_state=0).fit(X, X[:, 0])
    frozen = regressor.freeze()
    with threadpool_limits(2, "blas"):
        for n in (1, 2, 8, 16, 17, 64, 100, 256):
            for _ in range(3):  # from the second call on, a program may do it
                np.testing.assert_array_equal(frozen.predict(X[:n]), regressor.predict(X[:n]))


def test_files_hold_frozen_pipelines(tmp_path):
    """Every kind of step goes through a file that executes nothing."""
    pipeline, table = mixed()
    rng = np.random.default_rng(5)
    tables = sknet.TableEncoder(random_state=0).fit(table, rng.normal(size=len(table)))
    log = TransformedTargetRegressor(small(sknet.MLPRegressor), func=np.log1p, inverse_func=np.expm1)
    steps = make_pipeline(
        SimpleImputer(add_indicator=True), MinMaxScaler(clip=True), FunctionTransformer(np.cbrt)
    )
    cases = [(pipeline, table), (tables, table), (log.fit(NUMBERS, NUMBERS[:, 0] ** 2), NUMBERS)]
    cases += [(steps.fit(HOLED), HOLED), *((clone(encoder).fit(CODES), CODES) for encoder in ENCODERS)]
    cases += [(clone(encoder).fit(TEXTS), TEXTS) for encoder in ENCODERS if not has_list(encoder)]
    for number, (estimator, X) in enumerate(cases):
        path = tmp_path / f"{number}.safetensors"
        frozen = sknet.freeze(estimator)
        sknet.save(frozen, path)
        loaded = sknet.load(path)
        for method in METHODS:
            if hasattr(frozen, method):
                for n in (1, 9):
                    found, expected = getattr(loaded, method)(X[:n]), getattr(frozen, method)(X[:n])
                    assert_same(found, expected)


@pytest.mark.slow
def test_single_rows_are_written_into_one_array():
    """The fast path for one row of numbers and categories, for numeric and object arrays."""
    rng = np.random.default_rng(6)
    for dtype in (np.float64, object):
        X = np.c_[HOLED, CODES].astype(dtype)
        seen = np.c_[NUMBERS, np.where(rng.random(CODES.shape) < 0.3, 8, CODES)].astype(dtype)
        for scaler in (StandardScaler(), MinMaxScaler(clip=True), RobustScaler()):
            columns = ColumnTransformer(
                [
                    ("numbers", make_pipeline(SimpleImputer(), scaler), slice(1, 4)),
                    ("one", scaler, [0]),
                    ("codes", OneHotEncoder(handle_unknown="ignore", sparse_output=False), [5, 4]),
                    ("order", OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), [6]),
                ],
                sparse_threshold=0.0,
            )
            columns.fit(X)
            frozen = sknet.freeze(columns)
            for row in (*X[:20], *seen[:20]):
                np.testing.assert_array_equal(frozen.transform(row[None]), columns.transform(row[None]))
    with pytest.raises(ValueError, match="infinity"):
        frozen.transform(np.where(np.arange(7) == 1, np.inf, X[:1]))


def rows_of(rng, n):
    """Return a table of what single rows of frames are read without conversions, and of some exceptions."""
    table = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "b": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "c": rng.integers(0, 5, n),
            "d": rng.choice(["x", "y", "z"], n),
            "e": pd.Categorical(rng.choice(["u", "v"], n)),
            "f": rng.choice(np.array(["k", "l", None], dtype=object), n),
        }
    )
    table.loc[3, "a"] = np.inf
    return table


UNKNOWN = {"handle_unknown": "use_encoded_value", "unknown_value": -1}
SINGLE = {
    "mixed": lambda: ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["b", "c", "a"]),
            ("one", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["d", "e"]),
            (
                "order",
                OrdinalEncoder(
                    handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2
                ),
                ["f", "d"],
            ),
        ],
        sparse_threshold=0.0,
    ),
    "numbers": lambda: ColumnTransformer([("numbers", MinMaxScaler(), ["a", "c"])]),
    "texts": lambda: OneHotEncoder(sparse_output=False, handle_unknown="ignore"),
    "sparse": lambda: OneHotEncoder(handle_unknown="ignore"),
    "scaled": lambda: make_pipeline(StandardScaler(), MinMaxScaler(clip=True)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SINGLE)
def test_single_rows_of_frames_and_lists(name):
    rng = np.random.default_rng(7)
    table, other = rows_of(rng, 40), rows_of(rng, 12).assign(d="unseen")
    kept = {"texts": ["d", "e", "f"], "sparse": ["d", "e"], "scaled": ["a", "b", "c"]}.get(name, [*table])
    pipeline = SINGLE[name]().fit(table[kept].drop(index=3))
    pipelines = [pipeline]
    if name == "mixed":
        net = sknet.MLPRegressor((3,), max_iter=2, random_state=0)
        pipelines.append(make_pipeline(SINGLE[name](), net).fit(table.drop(index=3), table["c"].drop(3)))
    tables = [table[kept], other[kept], table[kept].astype({kept[0]: object})]
    if isinstance(pipeline, ColumnTransformer):  # others refuse another order
        tables.append(table[kept[::-1]])
    for each in pipelines:
        frozen = sknet.freeze(each)
        call = "predict" if hasattr(each, "predict") else "transform"
        for X in tables:
            for i in range(12):
                row = X.iloc[i : i + 1]
                assert_same(result(getattr(frozen, call), row), result(getattr(each, call), row))
    if name == "mixed":  # a list has no names
        frozen = sknet.freeze(pipelines[1])
        for i, row in enumerate(table.to_numpy(dtype=object).tolist()[:12]):
            assert_same(result(frozen.predict, [row]), result(pipelines[1].predict, table.iloc[i : i + 1]))


NAMED = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 3)), columns=["age", "size", "weight"])


def predictors():
    net = {"hidden_layer_sizes": (3,), "max_iter": 2, "random_state": 0}
    y = NAMED["age"].to_numpy()
    for X in (NAMED, NAMED.to_numpy()):
        yield sknet.MLPRegressor(**net).fit(X, y).freeze(), X
        yield sknet.freeze(make_pipeline(StandardScaler(), sknet.MLPRegressor(**net)).fit(X, y)), X


def test_columns_that_are_not_numbers_are_named():
    for predictor, X in predictors():
        if isinstance(X, pd.DataFrame):
            for n in (1, 5):
                with pytest.raises((ValueError, TypeError), match="not numbers are the columns 'size'"):
                    predictor.predict(X[:n].assign(size="big"))
        elif isinstance(predictor, sknet.freezing.FrozenPipeline):
            for rows in ([[1.0, "big", 2.0]], [[1.0, "big", 2.0], [1.0, 2.0, 3.0]]):
                with pytest.raises(ValueError, match=r"could not convert .* not numbers are the columns 1"):
                    predictor.predict(rows)


def test_complex_numbers_are_no_table():
    for predictor, X in predictors():
        with pytest.raises(ValueError, match="complex"):
            predictor.predict(np.asarray(X) + 1j)


ROWS = {
    "numbers": [[1.5, 2.5, 3.0]],
    "integers among them": [[1.5, 2, 3]],
    "integers": [[1, 2, 3]],
    "a large one": [[0.5, 2**60 + 1, 3]],
    "truth values": [[1.5, True, 3.0]],
    "missing": [[1.5, None, 3.0]],
    "not a number": [[1.5, float("nan"), 3.0]],
    "texts": [[1.5, "2", 3.0]],
    "tuples": [(1.5, 2.0, 3.0)],
    "too few": [[1.5, 2.0]],
    "two": [[1.5, 2.0, 3.0], [1.0, 2.0, 3.0]],
}


@pytest.mark.parametrize("kind", ROWS)
def test_rows_in_lists_are_read_as_arrays_are(kind):
    columns = ColumnTransformer([("a", SimpleImputer(), [0, 1]), ("b", "passthrough", [2])])
    for step in (StandardScaler(), columns):
        pipeline = make_pipeline(step, sknet.MLPRegressor((3,), max_iter=2, random_state=0))
        frozen = sknet.freeze(pipeline.fit(NAMED.to_numpy(), NAMED["age"]))
        assert_same(result(frozen.predict, ROWS[kind]), result(pipeline.predict, ROWS[kind]))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "object", "Float64", "mixed"])
def test_a_row_of_a_frame_is_read_as_the_frame_is(dtype):
    table = NAMED.round(1) * 10
    table = table.astype({"size": "float32"} if dtype == "mixed" else dtype)
    columns = ColumnTransformer([("a", StandardScaler(), ["age", "size"]), ("b", "passthrough", ["weight"])])
    for step in (StandardScaler(), columns):
        pipeline = make_pipeline(step, sknet.MLPRegressor((3,), max_iter=2, random_state=0))
        frozen = sknet.freeze(pipeline.fit(table, NAMED["age"]))
        for i in range(5):
            assert_same(frozen.predict(table[i : i + 1]), pipeline.predict(table[i : i + 1]))


@pytest.mark.parametrize(
    "step",
    [StandardScaler(), ColumnTransformer([("a", StandardScaler(), [0])]), make_pipeline(StandardScaler())],
    ids=lambda step: type(step).__name__,
)
def test_unfitted_steps_are_named(step):
    clf = sknet.MLPClassifier((3,), max_iter=200, tol=0.1, random_state=0).fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(
        NotFittedError, match=r"step '.*', sklearn's .* is not fitted: fit the whole pipeline"
    ):
        sknet.freeze(make_pipeline(step, clf))
