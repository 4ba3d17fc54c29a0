"""Transformers that make other columns are frozen exactly, for every dtype, container and number of rows."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import RFE, SelectFromModel, SelectKBest, SelectPercentile, VarianceThreshold
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    KBinsDiscretizer,
    MaxAbsScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)

import sknet
from tests.freezing.test_freeze import assert_same, result
from tests.freezing.test_python import dense, module_of

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 5)) * [1, 2, 30, 0.1, 1] + [0, 1, 2, 3, -1]
Y = X @ RNG.normal(size=5)
SPARSE_TOO = {"svd", "pca", "best", "variance", "union of sparse"}
FROZEN = {
    "pca": PCA(3),
    "pca whiten": PCA(whiten=True, svd_solver="full"),
    "pca covariance": PCA(2, svd_solver="covariance_eigh"),
    "pca randomized": PCA(2, svd_solver="randomized", random_state=0),
    "svd": TruncatedSVD(2, random_state=0),
    "svd arpack": TruncatedSVD(2, algorithm="arpack", random_state=0),
    "best": SelectKBest(lambda X, y: np.arange(5.0), k=2),
    "percentile": SelectPercentile(lambda X, y: np.arange(5.0)[::-1], percentile=50),
    "variance": VarianceThreshold(0.5),
    "model": SelectFromModel(LinearRegression()),
    "rfe": RFE(LinearRegression(), n_features_to_select=2),
    "polynomial": PolynomialFeatures(3),
    "interactions": PolynomialFeatures(4, interaction_only=True, include_bias=False),
    "products alone": PolynomialFeatures((2, 3), include_bias=False, order="F"),
    "bins": KBinsDiscretizer(4, encode="ordinal", quantile_method="averaged_inverted_cdf"),
    "bins sparse": KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf"),
    "bins dense": KBinsDiscretizer(5, encode="onehot-dense", strategy="uniform", dtype=np.float32),
    "l1": Normalizer("l1"),
    "l2": Normalizer(),
    "max": Normalizer("max"),
    "binary": Binarizer(threshold=0.3),
    "power": PowerTransformer(),
    "power alone": PowerTransformer(standardize=False),
    "box-cox": PowerTransformer(method="box-cox"),
    "box-cox alone": PowerTransformer(method="box-cox", standardize=False),
    "quantile": QuantileTransformer(n_quantiles=20),
    "normal": QuantileTransformer(n_quantiles=30, output_distribution="normal"),
    "union": FeatureUnion([("a", PCA(2)), ("b", "passthrough"), ("c", StandardScaler()), ("d", "drop")]),
    "weighted": FeatureUnion([("a", PCA(2)), ("b", Binarizer())], transformer_weights={"b": 3.0}),
    "union of sparse": FeatureUnion([("a", MaxAbsScaler()), ("b", VarianceThreshold(0.5))]),
    "mixed union": FeatureUnion(
        [("a", OneHotEncoder(handle_unknown="ignore")), ("b", make_pipeline(StandardScaler(), Normalizer()))]
    ),
    "chain": make_pipeline(
        StandardScaler(), PolynomialFeatures(2), PCA(3), QuantileTransformer(n_quantiles=9)
    ),
}
ABOVE = dict.fromkeys(("box-cox", "box-cox alone"), np.exp(X / 9) + 0.01)  # which take positive numbers alone


def inputs(X):
    return {
        "float64": X,
        "float32": X.astype("float32"),
        "integers": (10 * X).astype("int64"),
        "fortran": np.asfortranarray(X),
        "objects": X.astype(object),
        "beyond": np.r_[X[:3] * 50, X[3:6] * -50],
    }


@pytest.mark.parametrize("name", FROZEN)
def test_frozen_exactly(name, tmp_path):
    table = ABOVE.get(name, X)
    transformer = FROZEN[name].fit(table, Y)
    frozen = sknet.freeze(transformer)
    for given in inputs(table).values():
        for n in (1, 2, 60):
            assert_same(result(frozen.transform, given[:n]), result(transformer.transform, given[:n]))
    for wrong in (np.where(X > 3, np.nan, table), np.where(X > 3, np.inf, table)):
        assert_same(result(frozen.transform, wrong), result(transformer.transform, wrong))
    if name in SPARSE_TOO:
        given = scipy.sparse.csr_array(np.where(np.abs(X) < 1, 0, X))
        assert_same(frozen.transform(given), transformer.transform(given))
    sknet.save(frozen, tmp_path / "frozen.safetensors")
    for copied in (pickle.loads(pickle.dumps(frozen)), sknet.load(tmp_path / "frozen.safetensors")):
        assert_same(copied.transform(table), transformer.transform(table))


# SciPy's functions are replaced, which changes the last digits.
ROUNDED = {"box-cox": 1e-13, "box-cox alone": 1e-13, "normal": 1e-13}


@pytest.mark.parametrize("name", FROZEN)
def test_written_as_python(name, tmp_path):
    table = ABOVE.get(name, X)
    transformer = FROZEN[name].fit(table, Y)
    sknet.freeze(transformer).to_python(tmp_path / "written.py")
    written = module_of(tmp_path / "written.py")
    rows = [table, table[:1], table.astype("float32"), (10 * table).astype("int64") + 1]
    for given in (*rows, np.where(X > 3, np.nan, table), np.where(X > 3, np.inf, table)):
        expected = result(lambda rows: dense(transformer.transform(rows)), given)
        found = result(written.transform, given)
        if name in ROUNDED and not isinstance(expected, type):
            assert found.dtype == expected.dtype
            rtol = 1e-6 if found.dtype == np.float32 else ROUNDED[name]
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)
        else:
            assert_same(found, expected)
    np.testing.assert_array_equal(written.transform(table.tolist()), written.transform(table))


def test_frames():
    frame = pd.DataFrame(X, columns=list("abcde"))
    for name in ("pca", "variance", "union", "polynomial", "bins", "l2", "normal"):
        transformer = FROZEN[name].fit(frame, Y)
        frozen = sknet.freeze(transformer)
        for n in (1, 60):
            assert_same(frozen.transform(frame[:n]), transformer.transform(frame[:n]))
            expected = transformer.transform(frame[:n].astype("float32"))
            assert_same(frozen.transform(frame[:n].astype("float32")), expected)


def test_with_a_network():
    net = sknet.MLPRegressor((4,), max_iter=2, random_state=0)
    pipeline = make_pipeline(FROZEN["union"], PCA(3), net).fit(X, Y)
    assert_same(sknet.freeze(pipeline).predict(X), pipeline.predict(X))


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (PolynomialFeatures((2, 2)), "a bias without columns of degree 1"),
        (SelectKBest(lambda X, y: np.arange(5.0), k=0), "it selects no columns"),
        (FeatureUnion([("a", "drop")]), "it has no transformers"),
    ],
)
def test_what_is_refused(transformer, message):
    with pytest.raises(TypeError, match=message):
        sknet.freeze(transformer.fit(np.abs(X) + 1, Y))
