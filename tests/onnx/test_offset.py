"""Models of estimators that were fitted with an offset have an input for it."""

import numpy as np
import pandas as pd
import pytest

from sknet import MLPClassifier, MLPRegressor, NetRegressor, TabularClassifier, TabularRegressor, nn, onnx
from tests.estimators import test_offset as networks
from tests.onnx.runtime import names_and_arrays, run
from tests.tabular import test_offset as tables

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
X, COUNTS, LOG = networks.X, networks.COUNTS, networks.LOG


def column(offset, dtype):
    return offset.reshape(len(offset), -1).astype(dtype)


def assert_predicts(model, arrays, estimator, X, offset, rtol):
    """Compare all outputs of a model with predictions."""
    found = names_and_arrays(model, *arrays, column(offset, arrays[0].dtype))
    if "variable" in found:
        expected = estimator.predict(X, offset=offset)
        np.testing.assert_allclose(found["variable"].reshape(expected.shape), expected, rtol=rtol, atol=1e-6)
        return
    labels = estimator.predict(X, offset=offset)
    assert np.mean(found["label"] == labels) > 0.99
    if "probabilities" in found:
        each, own = estimator.predict_proba(X, offset=offset), found["probabilities"]
        for one, other in zip(own, each, strict=True) if isinstance(each, list) else [(own, each)]:
            np.testing.assert_allclose(one[:, : other.shape[1]], other, rtol=rtol, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", networks.CASES)
def test_networks(case, dtype):
    make, y, offset = networks.CASES[case]
    estimator = make(**networks.SMALL).fit(X, y, offset=offset)
    for each in (estimator, estimator.freeze()):
        model = onnx.export(each, dtype=dtype)
        assert [given.name for given in model.graph.input] == ["X", "offset"]
        rtol = 1e-10 if dtype == "float64" else 1e-4
        assert_predicts(model, [X.astype(dtype)], estimator, X, offset, rtol)
    assert [given.name for given in onnx.export(make(**networks.SMALL).fit(X, y)).graph.input] == ["X"]


@pytest.mark.parametrize("case", ["poisson", "two targets", "three classes", "columns", "hinge"])
def test_tables(case):
    make, y, offset = tables.CASES[case]
    X = tables.FRAME
    estimator = make(**tables.QUICK).fit(X, y, offset=offset)
    model = onnx.export(estimator)
    assert [given.name for given in model.graph.input] == [*X.columns, "offset"]
    single = [X[[name]].to_numpy(object if name == "kind" else np.float32) for name in X.columns]
    assert_predicts(model, single, estimator, X, offset, 1e-4)


def test_tables_of_numbers_and_encoders():
    for estimator in (
        TabularRegressor(loss="poisson", **tables.QUICK),
        MLPRegressor(loss="poisson", encoder="table", **networks.SMALL),
    ):
        estimator.fit(X, COUNTS, offset=LOG)
        model = onnx.export(estimator)
        assert [given.name for given in model.graph.input] == ["X", "offset"]
        arrays = [X.astype(np.dtype({1: "f4", 11: "f8"}[model.graph.input[0].type.tensor_type.elem_type]))]
        assert_predicts(model, arrays, estimator, X, LOG, 1e-4)


def test_sequences_of_any_length():
    class Mean(nn.Module):
        def __init__(self, n_outputs):
            super().__init__()
            self.last = nn.Linear(2, n_outputs)

        def forward(self, x):
            return self.last(x.mean(axis=1))

    x = np.random.default_rng(0).normal(size=(len(COUNTS), 5, 2)).astype("f4")
    net = NetRegressor(Mean, loss="poisson", max_iter=3, random_state=0).fit(x, COUNTS, offset=LOG)
    model = onnx.export(net)
    for part in (x, x[:, :3]):
        assert_predicts(model, [part], net, part, LOG, 1e-4)


def test_layers_have_no_offset():
    net = MLPRegressor((8,), loss="poisson", max_iter=3, random_state=0).fit(X, COUNTS, offset=LOG)
    model = onnx.export(net.layer(0))
    assert [given.name for given in model.graph.input] == ["X"]


def test_a_column_of_its_name():
    named = pd.DataFrame({"offset": X[:, 0], "kind": tables.KIND})
    clf = TabularClassifier(**tables.QUICK).fit(named, tables.LABELS, offset=tables.MARGIN)
    with pytest.raises(ValueError, match="the input 'offset' is named as that for offsets: rename it"):
        onnx.export(clf)


def test_pipelines_add_zero():
    skl2onnx = pytest.importorskip("skl2onnx")
    clf = MLPClassifier((8,), max_iter=3, random_state=0).fit(X, networks.THREE, offset=networks.MARGINS)
    onnx.register()
    model = skl2onnx.to_onnx(clf, X[:1].astype(np.float32), options={"zipmap": False})
    np.testing.assert_allclose(run(model, X.astype("f4"))[1], clf.predict_proba(X), atol=1e-5)
