"""Arrow's tables are read as data frames are, by the names of their columns."""

import numpy as np
import pandas as pd
import pytest

import sknet
from sknet import MLPClassifier, MultiHeadNet, NetClassifier, TabularClassifier, nn
from sknet.model_selection import cross_val_predict, cross_validate, head_scorer
from sknet.preprocessing import pad_sequences
from tests.freezing.test_python import module_of

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
pa = pytest.importorskip("pyarrow", reason="tables of Arrow")

N = 60
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(N, 4)), columns=["left__0", "left__1", "right__0", "right__1"])
LABELS = np.where(FRAME["left__0"] > 0, "yes", "no")
MIXED = FRAME.assign(kind=pd.Categorical(RNG.choice(list("abc"), N)), count=RNG.integers(0, 9, N))
SMALL = {"max_iter": 2, "tol": 1.0, "random_state": 0}


class Two(nn.Module):
    def __init__(self, n_outputs):
        self.left, self.right = nn.LazyLinear(n_outputs), nn.LazyLinear(n_outputs)

    def forward(self, left, right):
        return self.left(left) - self.right(right)


def table(frame):
    return pa.Table.from_pandas(frame)


def batch(frame):
    return pa.RecordBatch.from_pandas(frame)


ESTIMATORS = {
    "perceptron": (MLPClassifier((4,), **SMALL), FRAME),
    "encoder": (MLPClassifier((4,), encoder="table", **SMALL), MIXED),
    "ensemble": (TabularClassifier(budget=0.05, n_folds=2, random_state=0), MIXED),
    "several inputs": (NetClassifier(Two, **SMALL), FRAME),
}


@pytest.mark.parametrize(("estimator", "frame"), ESTIMATORS.values(), ids=ESTIMATORS)
def test_inputs(estimator, frame):
    fitted = estimator.fit(table(frame), LABELS)
    assert fitted.feature_names_in_.tolist() == list(frame)
    wanted = fitted.predict_proba(frame)
    np.testing.assert_array_equal(fitted.predict_proba(table(frame)), wanted)


@pytest.mark.parametrize("kind", [pd.DataFrame, table, batch])
@pytest.mark.parametrize(("estimator", "frame"), ESTIMATORS.values(), ids=ESTIMATORS)
def test_frozen_predictors_find_columns_by_name(estimator, frame, kind, tmp_path):
    """Those with an encoder refuse another order, as estimators do; Python files find columns in any."""
    frozen = estimator.fit(frame, LABELS).freeze()
    wanted = frozen.predict_proba(frame)
    np.testing.assert_array_equal(frozen.predict_proba(kind(frame)), wanted)
    given = kind(frame[frame.columns[::-1]])
    if frame is MIXED:
        with pytest.raises(ValueError, match="they are in another order"):
            frozen.predict_proba(given)
    else:
        np.testing.assert_array_equal(frozen.predict_proba(given), wanted)
    without = kind(frame.drop(columns="left__1"))
    with pytest.raises(ValueError, match="left__1"):
        frozen.predict_proba(without)
    if estimator is ESTIMATORS["several inputs"][0]:
        return  # of which a Python file takes dicts
    frozen.to_python(tmp_path / "arrow.py")
    written = module_of(tmp_path / "arrow.py")
    for each in (given, dict(frame.items())):
        np.testing.assert_array_equal(written.predict_proba(each), wanted)
    with pytest.raises(ValueError, match="X has no column 'left__1'"):
        written.predict_proba(without)


def test_frozen_pipelines_find_columns_by_name():
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pipeline = make_pipeline(StandardScaler(), MLPClassifier((4,), **SMALL)).fit(FRAME, LABELS)
    frozen = sknet.freeze(pipeline)
    given = table(FRAME[FRAME.columns[::-1]])
    np.testing.assert_array_equal(frozen.predict_proba(given), pipeline.predict_proba(FRAME))


def test_columns_that_are_no_numbers_are_named():
    with pytest.raises(ValueError, match="columns that are not numbers: 'kind'"):
        MLPClassifier((4,), **SMALL).fit(table(MIXED), LABELS)


@pytest.mark.parametrize("estimator", [MLPClassifier((4,), **SMALL), ESTIMATORS["ensemble"][0]])
def test_missing_categories_are_no_label(estimator):
    """NumPy makes the last category of them."""
    whole = pa.array(LABELS).dictionary_encode()
    wanted = estimator.fit(FRAME, LABELS).predict_proba(FRAME)
    for y in (whole, pa.chunked_array([whole])):
        np.testing.assert_array_equal(estimator.fit(FRAME, y).predict_proba(FRAME), wanted)
        assert estimator.score(FRAME, y) == estimator.score(FRAME, LABELS)
    gaps = pa.array([None, *LABELS[1:]]).dictionary_encode()
    strings = [pd.Series([pd.NA, *LABELS[1:]], dtype=dtype) for dtype in ("string", object)]
    for y in (gaps, pa.chunked_array([gaps]), pd.Series(gaps, dtype=pd.ArrowDtype(gaps.type)), *strings):
        with pytest.raises(ValueError, match=r"y has missing values|without missing ones"):
            estimator.fit(FRAME, y)
    objects = np.c_[[None, *LABELS[1:]], LABELS]
    wanted = estimator.fit(FRAME, objects).predict_proba(FRAME)
    found = estimator.fit(FRAME, pa.table({"a": gaps, "b": whole})).predict_proba(FRAME)
    np.testing.assert_array_equal(found, wanted)


class Heads(nn.Module):
    def __init__(self, n_features, n_outputs):
        self.price, self.kind = (nn.Linear(n_features, n_outputs[name]) for name in ("price", "kind"))

    def forward(self, x):
        return {"price": self.price(x), "kind": self.kind(x)}


def test_targets_of_heads():
    y = pd.DataFrame({"kind": MIXED["kind"], "price__0": FRAME["left__0"], "price__1": FRAME["right__0"]})
    y.loc[::7, "price__1"] = np.nan
    y.loc[::9, "kind"] = None
    net = MultiHeadNet(Heads, {"price": "squared_error", "kind": "log_loss"}, **SMALL)
    wanted, scores = net.fit(FRAME, y).predict(FRAME), net.scores(FRAME, y)
    found = net.fit(FRAME, table(y)).predict(FRAME)
    assert isinstance(found, pa.Table)
    pd.testing.assert_frame_equal(found.to_pandas(), wanted, check_dtype=False)
    assert net.scores(FRAME, table(y)) == net.scores(FRAME, y[y.columns[::-1]]) == scores
    scoring = {"price": head_scorer("price", "r2"), "kind": head_scorer("kind", "accuracy")}
    of_arrow, of_pandas = (
        cross_validate(net, FRAME, each, scoring=scoring, cv=2, error_score="raise") for each in (table(y), y)
    )
    np.testing.assert_array_equal(of_arrow["test_price"], of_pandas["test_price"])
    np.testing.assert_array_equal(of_arrow["test_kind"], of_pandas["test_kind"])
    whole = cross_val_predict(net, FRAME, table(y), cv=2)
    pd.testing.assert_frame_equal(
        whole.to_pandas(), cross_val_predict(net, FRAME, y, cv=2), check_dtype=False
    )


@pytest.mark.parametrize("rows", [[[1, 2, 3], [4], [5, 6]], [[1, 2], [3, 4]]])
def test_columns_of_lists_are_padded(rows):
    wanted = pad_sequences(rows)
    series, frame = pd.Series(rows), pd.DataFrame({"steps": rows})
    arrow = pa.array(rows)
    for given in (series, frame, arrow, pa.chunked_array([arrow]), pa.table({"steps": arrow})):
        for found, known in zip(pad_sequences(given), wanted, strict=True):
            np.testing.assert_array_equal(found, known)
    with pytest.raises(sknet.exceptions.ShapeError, match=r"sequences\[1\] must be numbers.*got None"):
        pad_sequences(pa.array([[1, 2], None]))
