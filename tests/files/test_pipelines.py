"""scikit-learn pipelines, and sknet's estimators in skops files."""

import io
import pickle
import re
import sys

import cloudpickle
import joblib
import numpy as np
import pandas
import pytest
import sklearn
import skops.io
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import BaggingRegressor, VotingClassifier
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler

import sknet
from sknet import nn, ops
from sknet.exceptions import LoadError
from sknet.optim import EMA, SGD, Adam
from sknet.optim.schedules import Cosine
from tests.estimators.data import TABLES, TASKS, estimator_for, outputs, quiet, same_bits
from tests.estimators.nets import Net
from tests.files.test_round_trips import FITTED, MINE, told
from tests.test_pickling import assert_alike

X, LABELS = TABLES["multiclass"]
TARGETS = TABLES["regression"][1]
SMALL = {"hidden_layer_sizes": (4,), "max_iter": 3, "random_state": 0}
FRAME = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": np.array(["x", "y", "z"])[LABELS]})
NUMBERS = make_pipeline(SimpleImputer(), StandardScaler())
COLUMNS = [("number", NUMBERS, ["a", "b"]), ("kind", OneHotEncoder(), ["kind"])]
CODER = sknet.Autoencoder((3, 2), max_iter=2, random_state=0)
UNION = [("scaled", MinMaxScaler()), ("code", CODER)]


class Halved(TransformerMixin, BaseEstimator):
    """A custom transformer."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return X / 2


def classifier(**params):
    return sknet.MLPClassifier(**SMALL | params)


def regressor(**params):
    return sknet.MLPRegressor(**SMALL | params)


PIPELINES = {
    "scaled": lambda: (make_pipeline(StandardScaler(), classifier()), X, LABELS),
    "table": lambda: (make_pipeline(ColumnTransformer(COLUMNS), classifier()), FRAME, LABELS),
    "target": lambda: (TransformedTargetRegressor(regressor(), transformer=StandardScaler()), X, TARGETS),
    "codes": lambda: (make_pipeline(CODER, classifier()), X, LABELS),
    "votes": lambda: (VotingClassifier([("a", classifier()), ("b", classifier())]), X, LABELS),
    "bags": lambda: (BaggingRegressor(regressor(), 2, random_state=0), X, TARGETS),
    "search": lambda: (GridSearchCV(classifier(), {"alpha": [0.1, 1.0]}, cv=2), X, LABELS),
    "union": lambda: (make_pipeline(FeatureUnion(UNION), classifier()), X, LABELS),
    "minutes": lambda: (make_pipeline(MinMaxScaler(), regressor(optimizer=SGD(Cosine(0.1)))), X, TARGETS),
}


@pytest.mark.parametrize("include", ["all", "predict"])
@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines(name, include, tmp_path):
    pipeline, X, y = PIPELINES[name]()
    with quiet():
        pipeline.fit(X, y)
    sknet.save(pipeline, tmp_path / "it", include=include)
    scorers = [type(pipeline.scorer_)] if name == "search" else []  # which skops does not know
    other = sknet.load(tmp_path / "it", trusted=scorers)
    assert type(other) is type(pipeline)
    assert repr(other) == repr(pipeline)
    np.testing.assert_array_equal(outputs(other, X), outputs(pipeline, X))
    if include == "all":
        for each in (pipeline, other):
            with quiet():
                each.fit(X, y)
        np.testing.assert_array_equal(outputs(other, X), outputs(pipeline, X))


def test_unfitted_estimators(tmp_path):
    pipeline = make_pipeline(StandardScaler(), classifier())
    sknet.save(pipeline, tmp_path / "it")
    with quiet():
        fits = [each.fit(X, LABELS).predict_proba(X) for each in (pipeline, sknet.load(tmp_path / "it"))]
    np.testing.assert_array_equal(*fits)


def test_an_estimator_used_twice_stays_one_object(tmp_path):
    shared = classifier()
    union = FeatureUnion([("a", make_pipeline(shared)), ("b", make_pipeline(shared))])
    sknet.save(union, tmp_path / "it")
    (_, a), (_, b) = sknet.load(tmp_path / "it").transformer_list
    assert a[0] is b[0]


def test_the_pipeline_is_not_changed(tmp_path):
    pipeline = make_pipeline(StandardScaler(), classifier())
    inside = pipeline[-1]
    sknet.save(pipeline, tmp_path / "it")
    assert pipeline[-1] is inside


def test_a_custom_step_must_be_trusted(tmp_path):
    sknet.save(make_pipeline(Halved(), classifier()), tmp_path / "it")
    needs = f"needs {Halved.__module__}.Halved: load(path, trusted=[Halved]) if you trust that"
    with pytest.raises(LoadError, match=re.escape(needs)):
        sknet.load(tmp_path / "it")
    assert isinstance(sknet.load(tmp_path / "it", trusted=[Halved])[0], Halved)


def test_without_skops_the_extra_is_named(tmp_path, monkeypatch):
    pipeline = make_pipeline(StandardScaler(), classifier())
    sknet.save(pipeline, tmp_path / "it")
    monkeypatch.setitem(sys.modules, "skops", None)
    for does in (lambda: sknet.save(pipeline, tmp_path / "it"), lambda: sknet.load(tmp_path / "it")):
        with pytest.raises(
            ImportError, match=r'skops, which is not installed: pip install "scikit-neural\[skops\]"'
        ):
            does()
    sknet.save(classifier(), tmp_path / "alone")
    assert sknet.load(tmp_path / "alone").get_params() == classifier().get_params()


# -- skops alone --------------------------------------------------------------------------------------------

OF_SKOPS = {
    "sgd": {"optimizer": SGD(Cosine(0.1), 0.9)},
    "lbfgs": {"optimizer": "lbfgs"},
    "average": {"optimizer": EMA(Adam(), 0.9)},
    "early stopping": {"early_stopping": True},
    "module": {"activation": nn.Sequential(nn.Linear(8, 8), nn.PReLU(), nn.BatchNorm(8))},
}


@pytest.mark.parametrize("case", OF_SKOPS)
@pytest.mark.parametrize("task", TASKS)
def test_skops_needs_no_other_trusted_types(case, task):
    X, y = TABLES[task]
    with quiet():
        estimator = estimator_for(task, random_state=np.random.RandomState(0), **OF_SKOPS[case]).fit(X, y)
    for one in (estimator, estimator.freeze()):
        loaded = skops.io.loads(skops.io.dumps(one), trusted=sknet.trusted_types())
        np.testing.assert_array_equal(outputs(loaded, X), outputs(one, X))
    if case == "sgd":
        loaded = skops.io.loads(skops.io.dumps(estimator), trusted=sknet.trusted_types())
        for each in (loaded, estimator):
            each.partial_fit(X, y)
        assert same_bits(loaded, estimator)


@pytest.mark.parametrize("name", FITTED)
def test_skops_and_every_estimator(name):
    estimator, X, y = FITTED[name]()
    with quiet():
        estimator.fit(X, y)
    written = skops.io.dumps(estimator)
    mine = [f"{each.__module__}.{each.__qualname__}" for each in MINE]
    loaded = skops.io.loads(written, trusted=[*sknet.trusted_types(), *mine])
    assert_alike(told(loaded, X), told(estimator, X), set())


OPTIONS = {"max_iter": 2, "random_state": 0}
NETWORK = nn.Sequential(nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, 4))
STEPS = [X[: 2 + k % 9] for k in range(len(X))]
FEATURES = {
    "heads": lambda: sknet.MultiHeadNet(NETWORK, {"n": "squared_error", "k": "log_loss"}, **OPTIONS).fit(
        X, {"n": TARGETS, "k": LABELS}
    ),
    "offset": lambda: sknet.MLPRegressor((4,), loss="poisson", **OPTIONS).fit(X, LABELS, offset=X[:, 0]),
    "monotonic": lambda: sknet.MLPRegressor((4,), monotonic_cst=[1] * 12, **OPTIONS).fit(X, TARGETS),
    "sampler": lambda: sknet.MLPClassifier((4,), sampler="balanced", **OPTIONS).fit(X, LABELS),
    "ragged": lambda: sknet.NetClassifier("gru", **OPTIONS).fit(STEPS, LABELS),
    "conformal": lambda: sknet.MLPClassifier((4,), calibrate="conformal", early_stopping=True, **OPTIONS).fit(
        X, LABELS
    ),
    "augmented": lambda: (
        sknet.NetClassifier("conv", **OPTIONS)
        .set_params(module__channels=2, module__augment=("shift", "flip"))
        .fit(X.reshape(-1, 4, 3), LABELS)
    ),
}
MIXED = pandas.DataFrame(
    {
        "number": X[:, 0],
        "flag": LABELS > 0,
        "text": pandas.Series(["a", None, "b", "c"] * len(X), dtype=object)[: len(X)],
        "some": pandas.Series([True, None, False] * len(X), dtype=object)[: len(X)],
        "code": np.arange(len(X)) % 3 + 0.5,
    }
)
OF_MIXED = make_column_transformer(
    (StandardScaler(), ["number"]),
    (OneHotEncoder(handle_unknown="ignore"), ["flag", "text"]),
    (OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), ["some", "code"]),
)
OF_TABLES = {  # by names, levels and flags
    "encoder": lambda: sknet.MLPClassifier((4,), encoder="table", **OPTIONS).fit(MIXED, LABELS),
    "tabular": lambda: sknet.TabularRegressor(budget=0.05, n_folds=2, random_state=0).fit(MIXED, TARGETS),
    "pipeline": lambda: make_pipeline(OF_MIXED, sknet.MLPClassifier((4,), **OPTIONS)).fit(MIXED, LABELS),
    "table encoder": lambda: make_pipeline(sknet.TableEncoder(), sknet.MLPRegressor((4,), **OPTIONS)).fit(
        MIXED, TARGETS
    ),
    "search": lambda: sknet.model_selection.GridSearchCV(
        sknet.MLPClassifier((4,), **OPTIONS), {"alpha": [0.0, 1.0]}, cv=2
    ).fit(X, LABELS),
}
FORMATS = {
    "skops": lambda one: skops.io.loads(skops.io.dumps(one), trusted=sknet.trusted_types()),
    "cloudpickle": lambda one: pickle.loads(cloudpickle.dumps(one)),
    "joblib": lambda one: dumped(one),
}


def dumped(one):
    """Return what joblib reads of what it has written."""
    written = io.BytesIO()
    joblib.dump(one, written)
    written.seek(0)
    return joblib.load(written)


@pytest.mark.parametrize("name", FEATURES)
def test_formats_of_model_stores(name):
    with quiet():
        estimator = FEATURES[name]()
    rows = STEPS if name == "ragged" else X.reshape(-1, 4, 3) if name == "augmented" else X
    for one in (estimator, estimator.freeze()):
        expected = told(one, rows)
        for loads in FORMATS.values():
            assert_alike(told(loads(one), rows), expected, set())


@pytest.mark.parametrize("name", OF_TABLES)
def test_tables_in_formats_of_model_stores(name):
    with quiet():
        estimator = OF_TABLES[name]()
    rows = X if name == "search" else MIXED
    for one in (estimator, sknet.freeze(estimator)):
        method = "predict_proba" if hasattr(one, "predict_proba") else "predict"
        expected = getattr(one, method)(rows)
        for loads in FORMATS.values():
            np.testing.assert_array_equal(getattr(loads(one), method)(rows), expected)


def squares(y_true, output):
    return (y_true - output) ** 2


OF_USERS = {  # what is the user's is a graph in frozen predictors
    "network": lambda: sknet.NetClassifier(Net, **OPTIONS).fit(X, LABELS),
    "members": lambda: sknet.NetClassifier(Net, n_members=2, **OPTIONS).fit(X, LABELS),
    "steps": lambda: sknet.NetClassifier(Reads, **OPTIONS).fit(STEPS, LABELS),
    "loss": lambda: sknet.MLPRegressor((4,), loss=squares, **OPTIONS).fit(X, TARGETS),
    "graph": lambda: sknet.NetClassifier(Net(12, 3).initialize(0).export(X[:1]), **OPTIONS).fit(X, LABELS),
}


class Reads(nn.Module):
    """A recurrent network with an operation on steps."""

    def __init__(self, n_outputs):
        self.cell, self.last = nn.GRU(12, 4), nn.Linear(4, n_outputs)

    def forward(self, x, lengths=None):
        return self.last(self.cell(ops.tanh(x), lengths=lengths)[1][-1])


@pytest.mark.parametrize("name", OF_USERS)
def test_frozen_networks_of_users_in_formats_of_model_stores(name):
    with quiet():
        estimator = OF_USERS[name]()
    rows = STEPS if name == "steps" else X
    for one in (estimator.freeze(), *([estimator] if name == "graph" else [])):
        expected = one.predict(rows)
        for loads in FORMATS.values():
            np.testing.assert_array_equal(loads(one).predict(rows), expected)
            np.testing.assert_array_equal(loads(one).predict(rows[:1]), one.predict(rows[:1]))


@pytest.mark.parametrize("kind", ["gru", "conv"])
def test_freeze_of_an_estimator_alone_that_reads_no_table(kind, tmp_path):
    rows = STEPS if kind == "gru" else X.reshape(-1, 4, 3)
    with quiet():
        net = sknet.NetClassifier(kind, **OPTIONS).fit(rows, LABELS)
    for estimator in (net, make_pipeline(net)):
        frozen = sknet.freeze(estimator)
        np.testing.assert_array_equal(frozen.predict_proba(rows), net.predict_proba(rows))
        sknet.save(frozen, tmp_path / "frozen")
        np.testing.assert_array_equal(sknet.load(tmp_path / "frozen").predict(rows), net.predict(rows))


def test_trusted_types_are_sknets():
    other = ("builtins.frozenset", "numpy.", "functools.partial", "sklearn.metrics._scorer._")
    other += ("sklearn.model_selection.",)
    assert all(name.startswith(("sknet.", *other)) for name in sknet.trusted_types())
    assert "sknet.estimators._mlp.MLPClassifier" in sknet.trusted_types()


def test_what_methods_of_scikit_learn_set_is_stored(tmp_path):
    with sklearn.config_context(enable_metadata_routing=True), quiet():
        requests = {"sample_weight": "counts", "offset": False}
        net = sknet.MLPRegressor(**SMALL).set_output(transform="pandas").set_fit_request(**requests)
        scaler = StandardScaler().set_fit_request(sample_weight="counts")
        pipeline = make_pipeline(scaler, net)
        ensemble = sknet.TabularRegressor().set_score_request(sample_weight=True)
        for estimator in (net, sknet.TableEncoder().set_output(transform="polars"), ensemble, pipeline):
            path = tmp_path / f"{type(estimator).__name__}.safetensors"
            sknet.save(estimator, path)
            loaded = sknet.load(path)
            if hasattr(estimator, "_sklearn_output_config"):
                assert loaded._sklearn_output_config == estimator._sklearn_output_config
            for each in (loaded, clone(loaded)):
                assert str(each.get_metadata_routing()) == str(estimator.get_metadata_routing())
        counts = np.arange(len(TARGETS)) % 3
        expected = pipeline.fit(X, TARGETS, counts=counts).predict(X)
        np.testing.assert_array_equal(loaded.fit(X, TARGETS, counts=counts).predict(X), expected)
        assert list(loaded[-1].transform(X).columns) == list(net.get_feature_names_out())
