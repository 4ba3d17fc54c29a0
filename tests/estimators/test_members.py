"""Ensembles: as separate estimators whose predictions are averaged by hand, and as one estimator."""

import os
import pickle
import runpy
import signal
import threading
from copy import copy
from functools import cache
from itertools import count

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from joblib import effective_n_jobs
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import sknet
from sknet import MLPClassifier, MLPRegressor, NetClassifier, NetRegressor
from sknet.callbacks import Callback, Checkpoint, CSVLog, Pruning, TensorBoardLog
from sknet.losses import Quantile
from sknet.optim import EMA, Adam
from tests.estimators.checks import run_check
from tests.estimators.data import TABLES, WEIGHTS, estimator_for, quiet
from tests.estimators.nets import Both, Net, Normed, Tokens
from tests.onnx.runtime import names_and_arrays

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
N_MEMBERS = 3


def ensemble(task, **params):
    return estimator_for(task, **{"n_members": N_MEMBERS, **params})


def foreign(task, kind, module, **params):
    X, y = TABLES[task]
    return kind(module, max_iter=2, batch_size=64, random_state=0, n_members=N_MEMBERS, **params), X, y


def case(task, fitted=None, change=lambda X: X, **params):
    X, y = TABLES[task]
    return ensemble(task, **params), change(X), y, fitted or {}


CLASSIFIERS = {
    "binary": case("binary"),
    "multiclass": case("multiclass"),
    "multilabel": case("multilabel"),
    "columns": case("columns"),
    "ordinal": case("ordinal"),
    "ordinal, two classes": (ensemble("ordinal"), *TABLES["binary"], {}),
    "focal": case("multiclass", loss="focal"),
    "calibrated": case("multiclass", calibrate="temperature", early_stopping=True),
    "calibrated columns": case("columns", calibrate="temperature", early_stopping=True),
    "calibrated and binary": case("binary", calibrate="temperature", early_stopping=True),
    "weights": case("multiclass", {"sample_weight": WEIGHTS}),
    "weights of classes": case("multiclass", class_weight="balanced"),
    "sparse": case("multiclass", change=scipy.sparse.csr_array),
    "float32": case("multiclass", change=np.float32),
    "dropout": case("multiclass", dropout=0.3),
    "a module": (*foreign("multiclass", NetClassifier, Net), {}),
    "running means": (*foreign("binary", NetClassifier, Normed), {}),
}
REGRESSORS = {
    "one target": case("regression"),
    "several targets": case("multioutput"),
    "scaled": case("multioutput", scale_target=True, early_stopping=True),
    "log link": case("many counts", loss="poisson", scale_target=True),
    "quantiles": case("multioutput", loss=Quantile([0.1, 0.5, 0.9])),
    "deviations": case("multioutput", loss="gaussian_nll", scale_target=True),
    "L-BFGS": case("regression", optimizer="lbfgs"),
    "averaged weights": case("regression", optimizer=EMA(Adam())),
    "refit": case("regression", early_stopping=True, refit_on_all=True),
    "frozen layers": case("regression", frozen="0.*"),
    "several inputs": (
        NetRegressor(Both, max_iter=2, random_state=0, n_members=N_MEMBERS),
        {"numbers": TABLES["regression"][0][:, :3], "word": np.arange(230) % 20},
        TABLES["regression"][1],
        {},
    ),
}
ALL = {**CLASSIFIERS, **REGRESSORS}


def seeds_of(estimator):
    random_state = np.random.RandomState(estimator.random_state)
    return random_state, random_state.randint(np.iinfo(np.int32).max, size=estimator.n_members).tolist()


def separate(estimator, X, y, fitted):
    """Fit the members by hand."""
    _, seeds = seeds_of(estimator)
    alone = [clone(estimator).set_params(n_members=1, random_state=seed) for seed in seeds]
    with quiet():
        return [member.fit(X, y, **fitted) for member in alone]


def mean(members, method, X, **given):
    found = [getattr(member, method)(X, **given) for member in members]
    if isinstance(found[0], list):
        return [np.mean(column, axis=0) for column in zip(*found, strict=True)]
    return np.mean(found, axis=0)


@cache
def fitted_case(name):
    estimator, X, y, fitted = ALL[name]
    with quiet():
        return clone(estimator).fit(X, y, **fitted), X, y, fitted


# -- by hand -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_probabilities_are_averages_to_the_bit(name):
    clf, X, y, fitted = fitted_case(name)
    members = separate(clf, X, y, fitted)
    proba = mean(members, "predict_proba", X)
    np.testing.assert_equal(clf.predict_proba(X), proba)
    for found, p in zip(as_list(clf.predict_log_proba(X)), as_list(proba), strict=True):
        np.testing.assert_allclose(found, np.log(p), rtol=1e-5, atol=1e-6)
    if name == "multilabel":
        labels = (proba > 0.5).astype(int)
    elif isinstance(proba, list):
        labels = np.stack([c[p.argmax(axis=1)] for c, p in zip(clf.classes_, proba, strict=True)], axis=1)
    else:
        labels = clf.classes_[proba.argmax(axis=1)]
    np.testing.assert_array_equal(clf.predict(X), labels)
    assert clf.score(X, y) == np.mean((clf.predict(X) == y).reshape(len(y), -1).all(axis=1))


@pytest.mark.parametrize("task", ["multiclass", "binary", "ordinal", "columns"])
def test_the_calibrated_label_is_the_one_with_the_largest_probability(task, tmp_path):
    X, y = TABLES[task]
    rng = np.random.default_rng(0)
    noisy = np.where(rng.random(y.shape) < 0.4, rng.permutation(y), y)  # so that temperatures matter
    clf = MLPClassifier((16,), n_members=3, calibrate="temperature", early_stopping=True, max_iter=40)
    clf.set_params(random_state=0, optimizer=Adam(0.05), loss="ordinal" if task == "ordinal" else "log_loss")
    clf.fit(X, noisy)
    rows = rng.normal(size=(2000, X.shape[1])) * 2
    classes, proba = as_list(clf.classes_), as_list(clf.predict_proba(rows))
    columns = [c[p.argmax(axis=1)] for c, p in zip(classes, proba, strict=True)]
    labels = np.stack(columns, axis=1).reshape(len(rows), *y.shape[1:])
    clf.freeze().to_python(tmp_path / "predictor.py")
    found = {
        "estimator": clf.predict(rows),
        "frozen": clf.freeze().predict(rows),
        "to_python": runpy.run_path(str(tmp_path / "predictor.py"))["predict"](rows),
        "ONNX": names_and_arrays(sknet.onnx.export(clf, dtype="float64"), rows)["label"].reshape(
            labels.shape
        ),
    }
    for name, each in found.items():
        np.testing.assert_array_equal(each, labels, err_msg=name)
    target = 0 if task == "columns" else None
    assert np.isfinite(clf.input_gradient(rows[:3], target=target)).all()


def as_list(x):
    return x if isinstance(x, list) else [x]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_decisions_agree_with_labels(name):
    clf, X, _, _ = fitted_case(name)
    decisions, labels = clf.decision_function(X), clf.predict(X)
    if isinstance(decisions, list):
        columns = [c[d.argmax(axis=1)] for c, d in zip(clf.classes_, decisions, strict=True)]
        expected = np.stack(columns, axis=1)
    elif decisions.ndim == 1:
        expected = clf.classes_[(decisions > 0).astype(int)]
    elif name == "multilabel":
        expected = (decisions > 0).astype(int)
    else:
        expected = clf.classes_[decisions.argmax(axis=1)]
    np.testing.assert_array_equal(labels, expected)


def test_distances_are_averaged_where_there_are_no_probabilities():
    for task in ("binary", "multiclass"):
        X, y = TABLES[task]
        clf = ensemble(task, loss="hinge").fit(X, y)
        members = separate(clf, X, y, {})
        np.testing.assert_array_equal(clf.decision_function(X), mean(members, "decision_function", X))
        assert not hasattr(clf, "predict_proba")


@pytest.mark.parametrize("name", REGRESSORS)
def test_predictions_are_averages_to_the_bit(name):
    reg, X, y, fitted = fitted_case(name)
    members = separate(reg, X, y, fitted)
    found, std = reg.predict(X, return_std=True)
    np.testing.assert_array_equal(found, mean(members, "predict", X))
    np.testing.assert_array_equal(found, reg.predict(X))
    means = np.stack([member.predict(X) for member in members])
    variance = means.astype(np.float64).var(axis=0)
    if name == "deviations":
        variance += np.mean([member.predict_std(X) ** 2 for member in members], axis=0)
    np.testing.assert_allclose(std, np.sqrt(variance), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(std, reg.predict_std(X))
    assert (std > 0).mean() > 0.99
    for method in ("predict_quantiles", "predict_interval"):
        assert hasattr(reg, method) == hasattr(members[0], method)
        if hasattr(reg, method):
            np.testing.assert_array_equal(getattr(reg, method)(X), mean(members, method, X))


@pytest.mark.parametrize("weight", [None, WEIGHTS])
def test_a_bootstrap_weights_rows_by_how_often_they_are_drawn(weight):
    X, y = TABLES["multiclass"]
    clf = ensemble("multiclass", bootstrap=True).fit(X, y, weight)
    random_state, seeds = seeds_of(clf)
    members = []
    for rows in [random_state.randint(len(X), size=len(X)) for _ in seeds]:
        counts = np.array([(rows == i).sum() for i in range(len(X))], dtype=float)
        members.append(counts if weight is None else counts * weight)
    alone = [clone(clf).set_params(n_members=1, random_state=seed) for seed in seeds]
    alone = [member.fit(X, y, each) for member, each in zip(alone, members, strict=True)]
    np.testing.assert_array_equal(clf.predict_proba(X), mean(alone, "predict_proba", X))
    shared = ensemble("multiclass").fit(X, y, weight)
    assert (shared.predict_proba(X) != clf.predict_proba(X)).any()


@pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["alike", "weights"])
@pytest.mark.parametrize("params", [{}, {"class_weight": {0: 2.0}}, {"calibrate": "temperature"}], ids=str)
def test_a_bootstrap_draws_the_rows_that_are_trained_on(weight, params):
    X, y = TABLES["multiclass"]
    training, held_out = np.split(np.random.default_rng(0).permutation(len(X)), [160])
    params = {"early_stopping": True, "max_iter": 8, **params}
    clf = ensemble("multiclass", bootstrap=True, validation_split=(training, held_out), **params)
    clf.fit(X, y, weight)
    random_state, seeds = seeds_of(clf)
    members = []
    for seed, rows in [(seed, random_state.randint(len(X), size=len(X))) for seed in seeds]:
        counts = np.array([(rows == i).sum() for i in range(len(X))], dtype=float)
        drawn = counts if weight is None else counts * weight
        alone = estimator_for("multiclass", random_state=seed, **params)
        kept = None if weight is None else weight[held_out]
        validation = {"X_val": X[held_out], "y_val": y[held_out], "sample_weight_val": kept}
        members.append(alone.fit(X[training], y[training], drawn[training], **validation))
    for name in ("validation_loss", "validation_score", "loss"):
        wanted = [member.history_[name] for member in members]
        np.testing.assert_allclose([history[name] for history in clf.histories_], wanted, rtol=1e-9)
    np.testing.assert_allclose(clf.predict_proba(X), mean(members, "predict_proba", X), rtol=1e-7)


@pytest.mark.parametrize("n_rows", [10, 20])
def test_small_tables_can_be_bootstrapped_with_early_stopping(n_rows):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n_rows, 3)), rng.normal(size=n_rows)
    reg = MLPRegressor((4,), n_members=20, bootstrap=True, early_stopping=True, validation_fraction=0.2)
    reg.set_params(max_iter=2, random_state=0).fit(X, y)
    assert np.isfinite(reg.predict(X)).all()


@pytest.mark.parametrize(
    "weight", [np.ones(1), np.ones(229), np.ones((230, 2)), -np.ones(230), np.zeros(230)]
)
def test_wrong_weights_are_refused_with_a_bootstrap_as_without(weight):
    X, y = TABLES["binary"]
    messages = []
    for params in ({"n_members": 1}, {}, {"bootstrap": True}):
        with pytest.raises(ValueError, match=r"[Ww]eight") as found:
            ensemble("binary", **params).fit(X, y, weight)
        messages.append(str(found.value))
    assert messages[0] == messages[1] == messages[2]


def test_numbers_of_the_fit_are_means_of_the_members():
    X, y = TABLES["multiclass"]
    clf = ensemble("multiclass", early_stopping=True, max_iter=40, n_iter_no_change=1, tol=0.02).fit(X, y)
    members = separate(clf, X, y, {})
    lengths = [member.n_iter_ for member in members]
    assert len(set(lengths)) > 1
    assert clf.n_iter_ == max(lengths) == len(clf.loss_curve_) == clf.history_.n_epochs
    assert clf.t_ == sum(member.t_ for member in members)
    for name in ("loss", "score", "validation_loss", "validation_score", "lr"):
        columns = [member.history_[name] for member in members]
        expected = [np.mean([c[i] for c in columns if i < len(c)]) for i in range(max(lengths))]
        np.testing.assert_allclose(clf.history_[name], expected)
        assert [history[name] for history in clf.histories_] == columns
    assert clf.loss_ == pytest.approx(np.mean([member.loss_ for member in members]))
    assert clf.best_validation_score_ == np.mean([member.best_validation_score_ for member in members])
    assert clf.best_epoch_ is None
    assert clf.best_loss_ is None
    assert clf.stopped_early_


# -- as one estimator ----------------------------------------------------------------------------------


METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "predict_std")
METHODS = (*METHODS, "predict_quantiles", "predict_interval")


def assert_same_predictions(found, wanted, X):
    methods = [name for name in METHODS if hasattr(wanted, name)]
    assert len(methods) > 1
    for name in methods:
        np.testing.assert_equal(getattr(found, name)(X), getattr(wanted, name)(X), err_msg=name)


@pytest.mark.parametrize("name", ALL)
def test_it_is_frozen_copied_and_saved_as_one(name, tmp_path):
    estimator, X, _, _ = fitted_case(name)
    X = X if isinstance(X, dict) else X[:40]
    frozen = estimator.freeze()
    assert_same_predictions(frozen, estimator, X)
    assert repr(frozen).count("3 times") == 1
    for one in (estimator, frozen, estimator.slim()):
        assert_same_predictions(pickle.loads(pickle.dumps(one)), estimator, X)
    if name not in ("a module", "running means", "several inputs"):  # a user's classes are no part of files
        for one in (estimator, frozen):
            sknet.save(one, tmp_path / "file")
            assert_same_predictions(sknet.load(tmp_path / "file"), estimator, X)
    assert not hasattr(clone(estimator), "model_")


EXPORTED = ("binary", "multiclass", "multilabel", "columns", "ordinal", "calibrated", "float32", "a module")


@pytest.mark.parametrize("name", [*EXPORTED, "one target", "several targets", "scaled", "log link"])
def test_an_onnx_model_has_all_members(name):
    estimator, X, _, _ = fitted_case(name)
    found = names_and_arrays(sknet.onnx.export(estimator, dtype=estimator.model_.dtype), X)
    if name in REGRESSORS:
        wanted = estimator.predict(X).reshape(len(X), -1)
        np.testing.assert_allclose(found["variable"], wanted, rtol=2e-5, atol=2e-5)
        return
    proba = estimator.predict_proba(X)
    labels, given = estimator.predict(X), found["probabilities"]
    assert (found["label"] == labels).all()
    for k, p in enumerate(as_list(proba)):
        part = given[k][:, : p.shape[1]] if isinstance(proba, list) else given
        np.testing.assert_allclose(part, p, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["binary", "multiclass", "several targets"])
def test_a_python_file_has_all_members(name, tmp_path):
    estimator, X, _, _ = fitted_case(name)
    estimator.freeze().to_python(tmp_path / "predictor.py")
    module = runpy.run_path(str(tmp_path / "predictor.py"))
    np.testing.assert_array_equal(module["predict"](X), estimator.predict(X))
    if name in CLASSIFIERS:
        np.testing.assert_allclose(module["predict_proba"](X), estimator.predict_proba(X), rtol=1e-12)


def test_rows_can_be_explained_and_layers_of_a_member_named():
    clf, X, _, _ = fitted_case("multiclass")
    found = clf.input_gradient(X[:5])
    step = 1e-6
    target = clf.predict(X[:5])
    for j in (0, 3):
        up, down = X[:5].copy(), X[:5].copy()
        up[:, j] += step
        down[:, j] -= step
        both = [clf.decision_function(rows)[np.arange(5), target] for rows in (up, down)]
        np.testing.assert_allclose(found[:, j], (both[0] - both[1]) / (2 * step), rtol=1e-4, atol=1e-6)
    members = separate(clf, X, TABLES["multiclass"][1], {})
    for m, member in enumerate(members):
        np.testing.assert_array_equal(clf.transform(X, layer=f"{m}.1"), member.transform(X, layer="1"))


@pytest.mark.parametrize("name", ["multiclass", "a module", "several inputs", "L-BFGS"])
def test_it_is_shown_with_the_layers_of_all_members(name):
    estimator, X, y, fitted = fitted_case(name)
    alone = separate(estimator, X, y, fitted)[0]
    found, wanted = estimator.summary(), alone.summary()
    assert found.total_parameters == N_MEMBERS * wanted.total_parameters
    assert found.loss == wanted.loss
    assert found.facts["members"] == "3"
    assert "members" not in wanted.facts
    rows = [
        (row.path.partition(".")[2], row.output_shape) for row in found.layers if row.path.startswith("2.")
    ]
    assert rows == [(row.path, row.output_shape) for row in wanted.layers if row.path]
    for one in (estimator, estimator.slim(), clone(estimator)):
        assert "<" in one._repr_html_()


@pytest.mark.parametrize("bootstrap", [False, True])
def test_sequences_of_several_lengths(bootstrap):
    rng = np.random.default_rng(0)
    X, y, lengths = rng.integers(20, size=(60, 7)), np.arange(60) % 3, 3 + np.arange(60) % 5
    clf = NetClassifier(Tokens, max_iter=2, n_members=N_MEMBERS, bootstrap=bootstrap, random_state=0)
    clf.fit(X, y, lengths=lengths)
    random_state, seeds = seeds_of(clf)
    drawn = [random_state.randint(60, size=60) for _ in seeds]
    weights = [np.bincount(rows, minlength=60).astype(float) if bootstrap else None for rows in drawn]
    alone = [clone(clf).set_params(n_members=1, random_state=seed) for seed in seeds]
    members = [each.fit(X, y, w, lengths=lengths) for each, w in zip(alone, weights, strict=True)]
    wanted = mean(members, "predict_proba", X, lengths=lengths)
    np.testing.assert_array_equal(clf.predict_proba(X, lengths=lengths), wanted)
    np.testing.assert_array_equal(clf.freeze().predict_proba(X, lengths=lengths), wanted)


@parametrize_with_checks(
    [kind((32,), optimizer=Adam(0.01), max_iter=50, n_members=2) for kind in (MLPClassifier, MLPRegressor)]
)
def test_scikit_learns_checks_pass(estimator, check):
    run_check(estimator, check)


def test_a_search_tunes_it_as_one():
    X, y = TABLES["binary"]
    grid = {"n_members": [1, 3], "alpha": [0.0, 0.1]}
    found = sknet.model_selection.GridSearchCV(ensemble("binary"), grid, cv=2, n_jobs=2).fit(X, y)
    theirs = GridSearchCV(ensemble("binary"), grid, cv=2).fit(X, y)
    np.testing.assert_array_equal(found.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"])
    assert found.best_params_ == theirs.best_params_


def test_one_member_is_an_estimator_as_ever():
    X, y = TABLES["binary"]
    first = ensemble("binary").fit(X, y)
    assert hasattr(first, "histories_")
    again = first.set_params(n_members=1).fit(X, y)
    plain = estimator_for("binary").fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), plain.predict_proba(X))
    assert vars(again).keys() == vars(plain).keys()
    assert len(again.coefs_) == 2


# -- what goes wrong -----------------------------------------------------------------------------------


class Fails(Callback):
    """Fails in the second fit that begins, or in the first where there is one core."""

    begun = how = None

    def on_fit_begin(self, fit):
        if next(Fails.begun) == min(2, effective_n_jobs(-1)):
            Fails.how()


def fail():
    raise RuntimeError("as told")


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(("how", "kind"), [(fail, RuntimeError), (interrupt, KeyboardInterrupt)])
def test_a_fit_that_fails_changes_nothing(how, kind):
    X, y = TABLES["binary"]
    clf = ensemble("binary").fit(X, y)
    before, proba = dict(vars(clf)), clf.predict_proba(X)
    Fails.begun, Fails.how = count(1), staticmethod(how)
    many = {"max_iter": 10**6, "tol": 0.0, "n_iter_no_change": np.inf}
    clf.set_params(callbacks=[Fails()], **many)
    with pytest.raises(kind):
        clf.fit(X, y)
    clf.set_params(callbacks=None, max_iter=3, tol=before["tol"], n_iter_no_change=before["n_iter_no_change"])
    assert vars(clf) == before
    np.testing.assert_array_equal(clf.predict_proba(X), proba)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("sknet-fit")]


FITS = {
    "a data frame": (lambda X: pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])]), {}),
    "an array": (np.asarray, {}),
    "calibrated": (np.asarray, {"calibrate": "temperature", "early_stopping": True}),
    "one member": (np.asarray, {"n_members": 1, "early_stopping": True}),
}


@pytest.mark.parametrize("second", FITS)
@pytest.mark.parametrize("first", FITS)
def test_a_second_fit_leaves_nothing_of_the_first(first, second):
    X, y = TABLES["multiclass"]
    again, anew = ensemble("multiclass"), ensemble("multiclass")
    plain = again.get_params()
    for clf, names in ((again, (first, second)), (anew, (second,))):
        for name in names:
            change, params = FITS[name]
            clf.set_params(**{**plain, **params}).fit(change(X), y)
    assert vars(again).keys() == vars(anew).keys()
    assert hasattr(again, "feature_names_in_") == (second == "a data frame")


@pytest.mark.parametrize("n_members", [1, N_MEMBERS])
def test_a_slim_estimator_that_is_fitted_is_pickled_with_its_history(n_members):
    X, y = TABLES["binary"]
    clf = ensemble("binary", n_members=n_members).fit(X, y).slim().fit(X, y)
    assert pickle.loads(pickle.dumps(clf)).model_.progress == clf.model_.progress
    assert len(pickle.dumps(clf)) > 1.5 * len(pickle.dumps(clf.slim()))  # else it is compressed anew


def test_errors_are_those_of_a_single_fit():
    X, y = TABLES["binary"]
    for params, told in (
        ({}, (X, None)),
        ({"bootstrap": True}, (X, None)),
        ({}, (X[:5], y[:4])),
        ({"alpha": -1}, (X, y)),
    ):
        messages = []
        for n_members in (1, 2):
            with pytest.raises(ValueError, match=r".") as found:
                estimator_for("binary", n_members=n_members, **params).fit(*told)
            messages.append(str(found.value))
        assert messages[0] == messages[1]


class WritesOneFile(Callback):
    of_one_fit = "writes one file: set n_members=1"


OF_ONE_FIT = [
    (Checkpoint("folder"), "Checkpoint saves the fit of one network: sknet.save the ensemble after the fit"),
    (CSVLog("file"), "CSVLog writes the table of one fit: read histories_ after the fit"),
    (TensorBoardLog("folder"), "TensorBoardLog writes the curves of one fit: read histories_ after the fit"),
    (Pruning(None), "Pruning reports one fit to its trial: report a score of the ensemble after the fit"),
    (WritesOneFile(), "WritesOneFile writes one file: set n_members=1"),
]


@pytest.mark.parametrize(
    ("params", "told", "message"),
    [
        ({"warm_start": True}, {}, "n_members=3.* warm_start=True continues a fit"),
        ({"encoder": "table"}, {}, "put the TableEncoder before it, in a Pipeline"),
        ({}, {"resume_from": "somewhere"}, "resume_from= continues a fit"),
        *[({}, {"callbacks": [Callback(), each]}, message) for each, message in OF_ONE_FIT],
        *[({"callbacks": [Callback(), each]}, {}, message) for each, message in OF_ONE_FIT],
        ({"n_members": 0}, {}, "The 'n_members' parameter of MLPClassifier must be an int"),
        ({"n_members": "two"}, {}, "The 'n_members' parameter of MLPClassifier must be an int"),
        ({"bootstrap": "yes"}, {}, "The 'bootstrap' parameter of MLPClassifier must be"),
    ],
    ids=str,
)
def test_what_an_ensemble_cannot_do_is_refused(params, told, message):
    X, y = TABLES["binary"]
    with pytest.raises(ValueError, match=message):
        ensemble("binary", **params).fit(X, y, **told)


def test_no_fit_continues_an_ensemble():
    X, y = TABLES["binary"]
    clf = ensemble("binary").fit(X, y)
    assert not hasattr(clf, "partial_fit")
    with pytest.raises(AttributeError) as found:
        clf.partial_fit(X, y)
    assert "each fit of an ensemble begins anew: set n_members=1, not 3" in str(found.value.__cause__)
    for change in (
        lambda: clf.set_params(n_members=1, warm_start=True).fit(X, y),
        lambda: clf.partial_fit(X, y),
    ):
        with pytest.raises(ValueError, match=r"n_members was 3 .* is 1 now"):
            change()


def test_members_have_layers_of_their_own():
    clf, _, _, _ = fitted_case("binary")
    with pytest.raises(AttributeError, match=r"the 3 members of this MLPClassifier have coefs_ of their own"):
        clf.coefs_  # noqa: B018
    with pytest.raises(AttributeError, match=r"have intercepts_ of their own: see model_\.module"):
        clf.intercepts_ = []
    assert len(clf.model_.module) == 3
    with pytest.raises(AttributeError, match="no compiled step: it is an ensemble"):
        clf.compiled_step_  # noqa: B018
    with pytest.raises(AttributeError, match=r"the 3 members of this MLPClassifier have coefs_"):
        copy(clf).set_params(n_members=5).coefs_  # noqa: B018


def test_there_is_one_warning_where_the_limit_of_epochs_is_reached():
    X, y = TABLES["binary"]
    with pytest.warns(ConvergenceWarning, match=r"Maximum iterations \(3\) reached") as found:
        ensemble("binary").fit(X, y)
    assert len(found) == 1
    assert found[0].filename == __file__


def test_methods_follow_the_loss_before_the_fit_too():
    assert hasattr(MLPRegressor(n_members=2), "predict_std")
    assert not hasattr(MLPRegressor(), "predict_std")
    assert not hasattr(MLPClassifier(n_members=2, loss="hinge"), "predict_proba")
    with pytest.raises(NotFittedError):
        MLPRegressor(n_members=2).predict(np.ones((2, 3)))
