"""Fitted estimators in edited files: fields that contradict each other are refused, and honest files load."""

import copy
import warnings

import numpy as np
import pytest

import sknet
from sknet import nn
from sknet.callbacks import EarlyStopping
from sknet.exceptions import LoadError
from sknet.persistence import read_any, write
from sknet.tabular import TabularClassifier, TabularRegressor
from tests.files.test_fields import edited, put

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = RNG.normal(size=60)
LABELS = np.array(["a", "b", "c"])[np.arange(60) % 3]
SMALL = {"max_iter": 3, "random_state": 0}
TINY = {"n_folds": 2, "budget": 0.02, "random_state": 0}
TABLE = np.c_[X.astype(object), LABELS]
SEQUENCES = np.stack([X, -X], axis=2)


HELD = {"X_val": X[:20], "y_val": LABELS[:20]}


def streamed(estimator, y, held, **first):
    for part in range(3):
        estimator.partial_fit(X[part::4], y[part::4], **held, **(first if not part else {}))
    return estimator


def warm(estimator, y):
    return estimator.fit(X, y).fit(X, y)


def stopping(**others):
    return sknet.MLPClassifier((3,), early_stopping=True, **SMALL, **others)


HONEST = {
    "classifier": lambda: stopping(calibrate="temperature").fit(X, LABELS),
    "two classes": lambda: sknet.MLPClassifier((3,), **SMALL).fit(X, LABELS == "a"),
    "several columns": lambda: sknet.MLPClassifier((3,), **SMALL).fit(X, np.c_[LABELS, LABELS[::-1]]),
    "several labels": lambda: sknet.MLPClassifier((3,), **SMALL).fit(X, X > 0),
    "ordinal": lambda: sknet.MLPClassifier((3,), loss="ordinal", **SMALL).fit(X, LABELS),
    "regressor": lambda: sknet.MLPRegressor((3,), scale_target=True, **SMALL).fit(X, Y),
    "several outputs": lambda: sknet.MLPRegressor((3,), **SMALL).fit(X, X[:, :2]),
    "deviations": lambda: sknet.MLPRegressor((3,), loss="gaussian_nll", **SMALL).fit(X, Y),
    "stream": lambda: streamed(sknet.MLPClassifier((3,), **SMALL), LABELS, {}, classes=["a", "b", "c"]),
    "stopping stream": lambda: streamed(stopping(), LABELS, HELD, classes=["a", "b", "c"]),
    "warm start": lambda: warm(stopping(warm_start=True), LABELS),
    "warm regressor": lambda: warm(sknet.MLPRegressor((3,), warm_start=True, **SMALL), Y),
    "refit": lambda: stopping(refit_on_all=True).fit(X, LABELS),
    "L-BFGS": lambda: sknet.MLPClassifier((3,), optimizer="lbfgs", **SMALL).fit(X, LABELS),
    "members": lambda: stopping(n_members=2, calibrate="temperature").fit(X, LABELS),
    "member regressor": lambda: sknet.MLPRegressor((3,), n_members=2, **SMALL).fit(X, X[:, :2]),
    "gates": lambda: sknet.MLPClassifier((4,), activation=nn.GLU(), **SMALL).fit(X, LABELS),
    "built": lambda: sknet.NetClassifier(
        nn.ModuleFactory(nn.Linear, in_features=4, out_features=3), **SMALL
    ).fit(X, LABELS),
    "lazy": lambda: sknet.NetRegressor(
        nn.Sequential(nn.LazyLinear(3), nn.BatchNorm(3), nn.Linear(3, 1)), **SMALL
    ).fit(X, Y),
    "sequences": lambda: sknet.NetClassifier(
        nn.Sequential(nn.Conv1d(4, 3, 2), nn.Flatten(), nn.Linear(3, 3)), **SMALL
    ).fit(SEQUENCES, LABELS),
    "autoencoder": lambda: sknet.Autoencoder((3, 2), tied=True, **SMALL).fit(X),
    "table": lambda: sknet.MLPClassifier((3,), encoder="table", **SMALL).fit(
        TABLE, LABELS
    ),
    "callbacks": lambda: sknet.MLPClassifier((3,), callbacks=[EarlyStopping("loss")], **SMALL).fit(X, LABELS),
    "drop-in": lambda: sknet.neural_network.MLPClassifier((3,), early_stopping=True, **SMALL).fit(X, LABELS),
    "ensemble": lambda: TabularClassifier(**TINY).fit(TABLE, LABELS),
    "ensemble of numbers": lambda: TabularRegressor(**TINY).fit(TABLE, X[:, :2]),
    "one kind": lambda: TabularRegressor(sharp=None, **TINY).fit(TABLE, Y),
    "intervals": lambda: TabularRegressor(loss="quantile", extrapolate=True, **TINY).fit(X, Y),
}  # fmt: skip


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    path, found = tmp_path_factory.mktemp("files") / "it", {}

    def of(name):
        if name not in found:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                sknet.save(HONEST[name](), path)
            found[name] = read_any(path)[1]
        return found[name]

    return of


@pytest.mark.parametrize("name", HONEST)
def test_honest_files_load(name, documents, tmp_path):
    write(tmp_path / "it", documents(name), "object")
    x = sknet.load(tmp_path / "it")
    inputs = {"sequences": SEQUENCES, "table": TABLE, "intervals": X}.get(name, X)
    inputs = TABLE if name in ("ensemble", "ensemble of numbers", "one kind") else inputs
    method = "transform" if name == "autoencoder" else "predict"
    found = getattr(x, method)(inputs)
    for include in ("all", "predict"):
        sknet.save(x, tmp_path / "again", include)
        np.testing.assert_array_equal(getattr(sknet.load(tmp_path / "again"), method)(inputs), found)
    sknet.save(x.freeze(), tmp_path / "frozen")
    frozen = getattr(sknet.load(tmp_path / "frozen"), method)(inputs)
    np.testing.assert_array_equal(frozen, getattr(x.freeze(), method)(inputs))


MLP = "MLPClassifier"
CONTRADICTIONS = {
    "stopping by a text": ("warm start", MLP, ["state", "_stopping", "best"], "1"),
    "stopping without a count": ("warm start", MLP, ["state", "_stopping", "count"], ...),
    "stopping with more": ("warm start", MLP, ["state", "_stopping", "more"], 1),
    "a negative count": ("warm start", MLP, ["state", "_stopping", "waited"], -1),
    "weights of a stream": ("stopping stream", MLP, ["state", "_stopping", "weights"], [1.0]),
    "another activation": ("warm start", MLP, ["state", "_lasting", "activation"], "tanh"),
    "other layers": ("warm start", MLP, ["state", "_lasting", "hidden_layer_sizes"], {"tuple": [4]}),
    "no layers": ("warm start", MLP, ["state", "_lasting", "hidden_layer_sizes"], ...),
    "more that lasts": ("warm start", MLP, ["state", "_lasting", "noise"], 0.0),
    "an unknown precision": ("warm start", MLP, ["state", "_lasting", "dtype"], "float7"),
    "another number of members": ("members", MLP, ["state", "_lasting", "n_members"], 3),
    "a class less": ("classifier", MLP, ["state", "classes_"], {"texts": np.array([[97], [98]], np.uint32)}),
    "classes in another order": (
        "classifier", MLP, ["state", "classes_"], {"texts": np.array([[98], [97], [99]], np.uint32)},
    ),
    "more outputs": ("classifier", MLP, ["state", "n_outputs_"], 4),
    "columns of X": ("classifier", MLP, ["state", "n_features_in_"], 5),
    "no columns of X": ("classifier", MLP, ["state", "n_features_in_"], ...),
    "columns of a table": ("table", MLP, ["state", "n_features_in_"], 4),
    "names that are numbers": (
        "classifier", MLP, ["state", "feature_names_in_"], {"cells": [[4], ["a", "b", 1, 2]]},
    ),
    "a curve of another length": ("classifier", MLP, ["state", "loss_curve_"], [1.0]),
    "an epoch that never was": ("classifier", MLP, ["state", "best_epoch_"], 9),
    "epoch 0": ("classifier", MLP, ["state", "best_epoch_"], 0),
    "another best score": ("classifier", MLP, ["state", "best_validation_score_"], 2.0),
    "scores of other epochs": ("classifier", MLP, ["state", "validation_scores_"], [1.0] * 9),
    "an activation with code": ("classifier", MLP, ["state", "out_activation_"], "planted()"),
    "a mean of no axis": ("regressor", "RealTargets", ["mean"], np.array(0.0)),
    "a mean alone": ("regressor", "RealTargets", ["scale"], ...),
    "outputs of a real target": ("regressor", "RealTargets", ["n_outputs"], 2),
    "an ensemble's classes": (
        "ensemble", "TabularClassifier", ["state", "classes_"], {"texts": np.array([[97], [98]], np.uint32)},
    ),
    "columns of an ensemble": ("ensemble", "TabularClassifier", ["state", "n_features_in_"], 4),
    "another mix": ("ensemble", "TabularClassifier", ["state", "mix_", "sharp"], 7.0),
    "another temperature": ("ensemble", "TabularClassifier", ["state", "temperature_", "sharp"], 7.0),
    "weights of 2": ("ensemble", "Mix", ["weights", "sharp"], 2.0),
    "encoders that are texts": ("ensemble", "TabularClassifier", ["state", "encoder_"], ["a"]),
    "two columns of one name": ("table", "Feature", ["name"], "x0"),
    "no encoders": ("ensemble", "TabularClassifier", ["state", "encoder_"], []),
    "an unknown kind": ("ensemble", "Member", ["kind"], "planted()"),
    "predictions that are texts": ("ensemble", "TabularClassifier", ["state", "oof_prediction_"], ["a"]),
    "bounds of another number": (
        "ensemble of numbers", "TabularRegressor", ["state", "_bounds"], {"tuple": [-np.ones(3), np.ones(3)]},
    ),
    "bounds that cross": (
        "ensemble of numbers", "TabularRegressor", ["state", "_bounds"], {"tuple": [np.ones(2), -np.ones(2)]},
    ),
    "layers of a member": ("members", "Joined", ["n_members"], 3),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_contradictions_are_refused(name, documents, tmp_path):
    which, cls, path, value = CONTRADICTIONS[name]
    write(tmp_path / "it", edited(documents(which), cls, put(path, value)), "object")
    with pytest.raises(LoadError, match=r"as objects\[\d+\], an invalid sknet\."):
        sknet.load(tmp_path / "it")


@pytest.mark.parametrize("name", ["classifier", "built", "sequences", "members", "frozen"])
def test_networks_that_do_not_fit(name, documents, tmp_path):
    """A last layer with another number of outputs, whose parameters agree with it."""
    write(tmp_path / "it", documents("classifier" if name == "frozen" else name), "object")
    x = sknet.load(tmp_path / "it")
    sknet.save(x.freeze() if name == "frozen" else x, tmp_path / "it", "predict")
    document = copy.deepcopy(read_any(tmp_path / "it")[1])
    objects = document["objects"]
    last = [state["dict"] for found, state in objects if found.endswith(".Linear")][-1]
    settings, parameters = last["settings"]["dict"], last["parameters"]["dict"]
    settings["out_features"] += 1
    for parameter in parameters.values():
        state = objects[parameter["object"]][1]["dict"]
        state["data"] = np.concatenate([state["data"], state["data"][..., :1]], axis=-1)
    write(tmp_path / "it", document, "object")
    with pytest.raises(LoadError, match=r"invalid sknet\..*returns \d outputs"):
        sknet.load(tmp_path / "it")
