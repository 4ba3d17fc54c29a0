"""Frozen predictors are loaded, and predict, without scikit-learn, and most of them without SciPy."""

import json
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import sknet
from sknet import nn
from tests.project import ROOT

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
LABELS = np.array(["low", "middle", "high"])[RNG.integers(0, 3, 60)]
Y = X @ RNG.normal(size=4)

# Prints the outputs of every method, as bytes, and how long the first took to load.
SCRIPT = """
import json, sys, time
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ImportError(f"{name} is blocked")
folder, BLOCKED, methods = json.loads(sys.stdin.read())
sys.meta_path.insert(0, Blocked())
import pickle, numpy as np
X = np.load(f"{folder}/X.npy")
start = time.perf_counter()
seconds, found = 0.0, {}
for name, (kind, calls) in methods.items():
    if kind == "pickle":
        with open(f"{folder}/{name}.pickle", "rb") as file:
            predictor = pickle.load(file)
    else:
        import sknet
        predictor = sknet.load(f"{folder}/{name}.safetensors")
    seconds = seconds or time.perf_counter() - start
    found[name] = [np.hstack(getattr(predictor, call)(X)).tobytes().hex() for call in calls]
loaded = [name for name in sys.modules if name.partition(".")[0] in BLOCKED]
print(json.dumps([found, loaded, seconds]))
"""
NOT_NEEDED = ["sklearn", "joblib", "pandas", "matplotlib"]


def net(*layers):
    return nn.Sequential(nn.Linear(4, 6), *layers)


MLP = {"hidden_layer_sizes": (5,), "max_iter": 2, "random_state": 0}
CLASSIFIERS = {
    "classes": sknet.MLPClassifier(**MLP),
    "tanh": sknet.MLPClassifier(activation="tanh", dtype="float32", **MLP),
    "module": sknet.NetClassifier(
        net(nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 3)), max_iter=2, random_state=0
    ),
    "scaled": make_pipeline(StandardScaler(), sknet.MLPClassifier(**MLP)),
    "encoded": sknet.MLPClassifier(encoder="table", **MLP),
    "members": sknet.MLPClassifier(n_members=2, **MLP),
    "calibrated": sknet.MLPClassifier(calibrate="temperature", early_stopping=True, **MLP),
    "columns": sknet.MLPClassifier(**MLP),
    "hinge": sknet.MLPClassifier(loss="hinge", **MLP),
    "table": sknet.TabularClassifier(n_folds=2, budget=0.02, random_state=0),
}
REGRESSORS = {
    "numbers": sknet.MLPRegressor(**MLP),
    "table of numbers": sknet.TabularRegressor(n_folds=2, budget=0.02, random_state=0),
    "huber": sknet.MLPRegressor(loss="huber", **MLP),
    "quantiles": sknet.MLPRegressor(loss=sknet.losses.Quantile([0.1, 0.5, 0.9]), **MLP),
    "deviations": sknet.MLPRegressor(loss="gaussian_nll", **MLP),
    "outputs": sknet.MLPRegressor(scale_target=True, **MLP),
    "means": sknet.MLPRegressor(encoder=sknet.TableEncoder(categorical_features=[1], max_levels=2), **MLP),
    "imputed": make_pipeline(SimpleImputer(add_indicator=True), MinMaxScaler(), sknet.MLPRegressor(**MLP)),
    "target": TransformedTargetRegressor(
        make_pipeline(StandardScaler(), sknet.MLPRegressor(**MLP)), transformer=StandardScaler()
    ),
}
WITH_SCIPY = {
    "sigmoid": sknet.MLPClassifier(activation="logistic", **MLP),
    "gelu": sknet.MLPRegressor(activation="gelu", **MLP),
    "labels": sknet.MLPClassifier(**MLP),
}


TARGETS = {
    "labels": RNG.integers(0, 2, (60, 3)),
    "columns": RNG.integers(0, 3, (60, 2)),
    "outputs": np.c_[Y, -Y],
}
METHODS = (
    *("predict", "predict_proba", "predict_log_proba", "decision_function"),
    *("predict_std", "predict_quantiles", "predict_interval"),
)


@pytest.fixture(scope="module")
def fitted():
    """Return every estimator fitted, and its methods."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, estimator in (CLASSIFIERS | REGRESSORS | WITH_SCIPY).items():
            estimator.fit(X, TARGETS.get(name, LABELS if is_classifier(estimator) else Y))
            found[name] = estimator, [method for method in METHODS if hasattr(estimator, method)]
    return found


def outputs(tmp_path, fitted, names, kind, blocked):
    """Return what a process returns that loads frozen predictors without some packages."""
    np.save(tmp_path / "X.npy", X)
    for name in names:
        frozen = sknet.freeze(fitted[name][0])
        if kind == "pickle":
            (tmp_path / f"{name}.pickle").write_bytes(pickle.dumps(frozen))
        else:
            sknet.save(frozen, tmp_path / f"{name}.safetensors")
    methods = {name: (kind, fitted[name][1]) for name in names}
    given = json.dumps([str(tmp_path), blocked, methods])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=given, capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pickle", "file"])
@pytest.mark.parametrize(
    ("names", "blocked"),
    [([*CLASSIFIERS, *REGRESSORS], ["scipy"]), ([*WITH_SCIPY], [])],
    ids=["numpy", "scipy"],
)
def test_predictors(kind, names, blocked, fitted, tmp_path):
    also = ["safetensors", "skops"] if kind == "pickle" else ["skops"]
    found, loaded, seconds = outputs(tmp_path, fitted, names, kind, [*NOT_NEEDED, *also, *blocked])
    assert not loaded
    print(f"\nloading the first predictor took {seconds:.2f} s")
    for name in names:
        estimator, methods = fitted[name]
        expected = [np.hstack(getattr(estimator, method)(X)).tobytes().hex() for method in methods]
        assert found[name] == expected, name
