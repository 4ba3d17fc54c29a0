"""Numbers whose values have mean targets of their own, compared with categories and with plain loops."""

import pickle
import runpy

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import sknet
import sknet.onnx
from sknet import TableEncoder


def coded(random_state, n=600):
    """Return a number that is 0 for half of the rows, else a code or rare; targets go by odd and even."""
    x = random_state.randint(100, 140, n).astype(float)
    y = np.where(x % 2 == 1, 0.95, 0.05)
    usual, rare = random_state.uniform(size=n) < 0.5, random_state.uniform(size=n) < 0.02
    x[usual], y[usual] = 0.0, 0.2
    x[rare], y[rare] = random_state.uniform(200, 300, rare.sum()), 0.5
    x[random_state.uniform(size=n) < 0.05] = np.nan
    return x, (random_state.uniform(size=n) < y).astype(int)


def rounded(random_state, n=600):
    """Return a measurement that is rounded, and targets that depend on it smoothly."""
    x = random_state.uniform(0, 60, n).round()
    return x, (random_state.uniform(size=n) < x / 60).astype(int)


@pytest.mark.parametrize("seed", range(10))
def test_codes_have_means_and_measurements_have_none(seed):
    random_state = np.random.RandomState(seed)
    (x, y), (other, other_y) = coded(random_state), rounded(random_state)
    assert "x0_target" in TableEncoder().fit(x[:, np.newaxis], y).get_feature_names_out()
    assert "x0_target" not in TableEncoder().fit(other[:, np.newaxis], other_y).get_feature_names_out()


def test_the_order_of_rows_does_not_matter():
    x = np.arange(400.0) % 40
    for order in (np.arange(400), np.argsort(x), np.argsort(x % 2)):
        encoder = TableEncoder().fit(x[order, np.newaxis], order % 2)
        assert "x0_target" in encoder.get_feature_names_out()


def test_the_most_frequent_values_have_means():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 40, 3000)
    x = np.where(np.arange(3000) % 2 == 0, codes, rng.normal(size=3000))
    encoder = TableEncoder(random_state=0).fit(x[:, np.newaxis], codes % 2)
    levels = encoder.plan.value_means[0].levels
    assert len(levels) == 1000
    assert np.isin(np.arange(40), levels).all()
    assert (np.diff(levels) > 0).all()


def test_models_of_onnx_know_the_values_of_float32():
    onnxruntime = pytest.importorskip("onnxruntime")
    x, y = coded(np.random.RandomState(0))
    x = x / 10 + 0.01
    assert (x.astype("float32") != x).mean() > 0.5
    encoder = TableEncoder(random_state=0).fit(x[:, np.newaxis], y)
    expected = encoder.transform(x[:, np.newaxis])
    for dtype in ("float32", "float64"):
        model = sknet.onnx.export(encoder, dtype=dtype)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        found = session.run(None, {"X": x[:, np.newaxis].astype(dtype)})[0]
        np.testing.assert_allclose(found[:, -1], expected[:, -1], rtol=1e-6)


def test_no_means_without_targets_or_on_request():
    x, y = coded(np.random.RandomState(0))
    for encoder in (TableEncoder().fit(x[:, np.newaxis]), TableEncoder(value_means=False).fit(x[:, None], y)):
        assert not [name for name in encoder.get_feature_names_out() if "target" in name]


@pytest.mark.parametrize("n_classes", [2, 4])
def test_means_are_those_of_a_category_with_the_same_levels(n_classes):
    random_state = np.random.RandomState(1)
    x, y = coded(random_state)
    y = y + (random_state.uniform(size=len(y)) < 0.5) * (n_classes - 2)
    numeric = TableEncoder(piecewise="tree", random_state=0)
    category = TableEncoder([0], max_levels=2, random_state=0)
    # Missing numbers have no mean of their own, so that these are levels that occur once.
    levels = [f"missing {i}" if np.isnan(v) else v for i, v in enumerate(x)]
    found = numeric.fit_transform(x[:, np.newaxis], y)
    expected = category.fit_transform(np.array(levels, dtype=object)[:, np.newaxis], y)
    n_outputs = 1 if n_classes == 2 else len(np.unique(y))
    assert expected.shape[1] == n_outputs
    known = ~np.isnan(x)
    np.testing.assert_allclose(
        standardised(found[known, -n_outputs:]), standardised(expected[known]), rtol=0, atol=2e-5
    )


def standardised(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


@pytest.fixture
def fitted():
    random_state = np.random.RandomState(2)
    x, y = coded(random_state)
    X = pd.DataFrame({"amount": x, "age": random_state.normal(size=len(x)), "city": list("abc") * 200})
    return TableEncoder(random_state=0).fit(X, y), X


def rows(X):
    """Return known, missing and unseen amounts, and minus zero."""
    return X.iloc[:8].assign(amount=[0.0, -0.0, np.nan, 101.0, 101.5, 102.0, np.inf, 1e300])


def test_one_row_is_a_row_of_many(fitted):
    encoder, X = fitted
    X = rows(X)
    expected = encoder.transform(X)
    for i in range(len(X)):
        np.testing.assert_array_equal(encoder.transform(X.iloc[i : i + 1]), expected[i : i + 1])
    means = dict(zip(map(str, X["amount"].tolist()), expected[:, -1], strict=True))
    assert means["0.0"] == means["-0.0"] < means["101.0"]
    assert means["nan"] == means["101.5"] == means["inf"] == means["1e+300"]


def test_sparse_output_is_equal(fitted):
    encoder, X = fitted
    expected = encoder.transform(rows(X))
    encoder.set_params(sparse_output=True)
    np.testing.assert_array_equal(encoder.transform(rows(X)).toarray(), expected)


def test_pickles_files_and_frozen_encoders_are_equal(fitted, tmp_path):
    encoder, X = fitted
    expected = encoder.transform(rows(X))
    sknet.save(encoder, tmp_path / "encoder.sknet")
    for copy in (pickle.loads(pickle.dumps(encoder)), sknet.load(tmp_path / "encoder.sknet")):
        np.testing.assert_array_equal(copy.transform(rows(X)), expected)
        np.testing.assert_array_equal(copy.transform(rows(X).iloc[3:4]), expected[3:4])


def test_frozen_estimators_and_their_python_are_equal(fitted, tmp_path):
    X = fitted[1]
    y = (X["amount"] % 2 == 1).astype(int)
    estimator = sknet.MLPClassifier((4,), encoder="table", max_iter=3, random_state=0)
    with pytest.warns(ConvergenceWarning):
        estimator.fit(X, y)
    assert "amount_target" in estimator.encoder_.get_feature_names_out()
    expected = estimator.decision_function(rows(X))
    frozen = estimator.freeze()
    np.testing.assert_array_equal(frozen.decision_function(rows(X)), expected)
    frozen.to_python(tmp_path / "written.py")
    written = runpy.run_path(str(tmp_path / "written.py"))["decision_function"]
    for table in (rows(X), rows(X).to_numpy(dtype=object)):
        np.testing.assert_array_equal(written(table), expected)
