"""sknet.neural_network is a drop-in for scikit-learn's module: signatures, its own tests, printed output."""

import copy
import inspect
import operator
import os
import pickle
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import sklearn
import sklearn.neural_network
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.utils._response import _get_response_values

import sknet
from sknet import Tensor, neural_network
from sknet.optim import EMA, Adam
from sknet.optim.schedules import Progress
from tests.estimators.data import CLASSIFICATIONS, TABLES, quiet
from tests.project import ROOT

KINDS = ("MLPClassifier", "MLPRegressor")
METHODS = ("__init__", "fit", "partial_fit", "predict", "score")
CLASSIFIER_METHODS = ("predict_proba", "predict_log_proba")


def signatures(kind):
    methods = METHODS + (CLASSIFIER_METHODS if kind == "MLPClassifier" else ())
    return [(kind, method) for method in methods]


@pytest.mark.parametrize(("kind", "method"), [pair for kind in KINDS for pair in signatures(kind)])
def test_signature(kind, method):
    ours, theirs = (
        [
            (p.name, p.kind, p.default)
            for p in inspect.signature(getattr(getattr(module, kind), method)).parameters.values()
        ]
        for module in (neural_network, sklearn.neural_network)
    )
    assert ours[: len(theirs)] == theirs
    # Arguments that scikit-learn lacks are keyword-only, and only for fitting.
    assert all(kind is inspect.Parameter.KEYWORD_ONLY for _, kind, _ in ours[len(theirs) :])
    assert method in ("fit", "partial_fit") or len(ours) == len(theirs)


# Our additions: nothing that affects how scikit-learn's tools score, plot or calibrate.
OURS_BESIDES = {"callbacks_", "compiled_step_", "freeze", "history_", "model_"}
OURS_BESIDES |= {"best_epoch_", "slim", "summary", "monitor_", "refit_history_", "stopped_early_"}
OURS_BESIDES |= {"transform", "fit_transform", "layer", "get_feature_names_out", "set_output"}
OURS_BESIDES |= {"input_gradient", "integrated_gradients", "set_transform_request"}
if find_spec("sklearn.callback"):
    OURS_BESIDES |= {"set_callbacks"}


@pytest.mark.parametrize("kind", KINDS)
def test_public_attributes(kind):
    """All public attributes of scikit-learn's fitted estimator exist in ours."""
    X, y = TABLES["binary"]
    with quiet():
        ours, theirs = (
            getattr(module, kind)(max_iter=2, random_state=0).fit(X, y)
            for module in (neural_network, sklearn.neural_network)
        )
    public = {name for name in dir(theirs) if not name.startswith("_")}
    assert public <= set(dir(ours))
    # A decision function would change the default input of displays and calibration.
    assert {name for name in dir(ours) if not name.startswith("_")} - public == OURS_BESIDES
    assert ours.get_params() == theirs.get_params()
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("tool", ["roc", "calibration"])
def test_tools_read_the_same_of_both(tool):
    X, y = TABLES["binary"]
    found = []
    for module in (neural_network, sklearn.neural_network):
        with quiet():
            clf = module.MLPClassifier((5,), max_iter=20, random_state=0)
            if tool == "calibration":
                clf = CalibratedClassifierCV(clf, cv=2).fit(X, y)
                found.append(clf.predict_proba(X))
            else:
                found.append(
                    _get_response_values(clf.fit(X, y), X, ["decision_function", "predict_proba"])[0]
                )
    np.testing.assert_allclose(*found, rtol=1e-6)


# -- weights that are set ------------------------------------------------------------------------------


def pair(task):
    """Fit our estimator and scikit-learn's, which agree."""
    X, y = TABLES[task]
    kind = "MLPClassifier" if task in CLASSIFICATIONS else "MLPRegressor"
    with quiet():
        return [
            getattr(module, kind)(
                hidden_layer_sizes=(5, 4), max_iter=2, batch_size=len(X), random_state=0
            ).fit(X, y)
            for module in (neural_network, sklearn.neural_network)
        ]


def agree(ours, theirs, X):
    for n in (1, len(X)):
        for name in ("predict_proba", "predict"):
            if hasattr(theirs, name) and (name == "predict_proba" or not hasattr(theirs, "classes_")):
                np.testing.assert_allclose(
                    getattr(ours, name)(X[:n]), getattr(theirs, name)(X[:n]), rtol=1e-6
                )


def whole_lists(estimator, rng):
    estimator.coefs_ = [0.3 * rng.normal(size=w.shape) for w in estimator.coefs_]
    estimator.intercepts_ = [0.3 * rng.normal(size=b.shape) for b in estimator.intercepts_]


def single_items(estimator, rng):
    estimator.coefs_[1] = 0.3 * rng.normal(size=estimator.coefs_[1].shape)
    estimator.intercepts_[-1] = 0.3 * rng.normal(size=estimator.intercepts_[-1].shape)


def changed_in_place(estimator, rng):
    estimator.coefs_[0] *= 3
    estimator.coefs_[0][1, 2] = 7.0
    estimator.intercepts_[2][:] += 1


def a_slice(estimator, rng):
    estimator.coefs_[1:] = [0.3 * rng.normal(size=w.shape) for w in estimator.coefs_[1:]]


@pytest.mark.parametrize("change", [whole_lists, single_items, changed_in_place, a_slice])
@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel", "regression", "multioutput"])
def test_weights_can_be_set_as_in_scikit_learn(task, change):
    """Predictions, pickles and further training use the weights that were set."""
    X, y = TABLES[task]
    ours, theirs = pair(task)
    agree(ours, theirs, X)
    for estimator in (ours, theirs):
        change(estimator, np.random.default_rng(0))
    agree(ours, theirs, X)
    agree(pickle.loads(pickle.dumps(ours)), theirs, X)
    agree(ours.freeze(), theirs, X)
    for mine, other in zip(ours.coefs_ + ours.intercepts_, theirs.coefs_ + theirs.intercepts_, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6)
    loss = ours.loss_
    for estimator in (ours, theirs):
        estimator.partial_fit(X, y)
    assert abs(ours.loss_ - theirs.loss_) < 1e-6 * abs(theirs.loss_)
    assert ours.loss_ != loss


WRONG = [
    (lambda e: setattr(e, "coefs_", e.coefs_[:1]), r"coefs_ must have an array for each of 3 layers, got 1"),
    (
        lambda e: e.coefs_.__setitem__(1, np.zeros((2, 2))),
        r"coefs_\[1\] must be an array of real numbers of shape \(5, 4\), got float64 of shape \(2, 2\)",
    ),
    (
        lambda e: e.intercepts_.__setitem__(0, np.full(5, "a")),
        r"intercepts_\[0\] must be an array of real numbers of shape \(5,\), got <U1 of shape \(5,\)",
    ),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_weights_that_do_not_fit_change_nothing(change, message):
    ours, _ = pair("multiclass")
    before = [array.copy() for array in ours.coefs_ + ours.intercepts_]
    with pytest.raises(ValueError, match=message):
        change(ours)
    for array, expected in zip(ours.coefs_ + ours.intercepts_, before, strict=True):
        np.testing.assert_array_equal(array, expected)


LENGTHENED = [
    *(lambda w: w.append(w[0]), lambda w: w.extend(w), lambda w: w.insert(0, w[0]), lambda w: w.pop()),
    *(lambda w: w.remove(w[0]), lambda w: w.clear(), lambda w: w.sort(), lambda w: w.reverse()),
    *(lambda w: w.__delitem__(0), lambda w: operator.iadd(w, w), lambda w: operator.imul(w, 2)),
]


@pytest.mark.parametrize("name", ["coefs_", "intercepts_"])
@pytest.mark.parametrize("kind", [neural_network.MLPClassifier, sknet.MLPClassifier])
def test_layers_cannot_be_added_removed_or_moved(kind, name):
    X, y = TABLES["binary"]
    with quiet():
        clf = kind((3,), max_iter=2, random_state=0).fit(X, y)
    before = clf.predict_proba(X)
    for change in LENGTHENED:
        with pytest.raises(TypeError, match=rf"{name} has one array for each of 2 layers, so none can be"):
            change(getattr(clf, name))
    np.testing.assert_array_equal(clf.predict_proba(X), before)
    copied = copy.deepcopy(getattr(clf, name))
    copied.append(1)  # a copy is an independent list
    assert len(copied) == 3


def test_writing_into_averages_raises():
    with quiet():
        clf = sknet.MLPClassifier((3,), optimizer=EMA(Adam()), max_iter=2).fit(*TABLES["binary"])
    with pytest.raises(ValueError, match="read-only"):
        clf.coefs_[0][0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        clf.intercepts_[0] += 1.0
    clf.model_.module[0].weight.data = np.zeros((12, 3))


def test_averages_cannot_be_set():
    with quiet():
        clf = sknet.MLPClassifier((3,), optimizer=EMA(Adam()), max_iter=2).fit(*TABLES["binary"])
    with pytest.raises(ValueError, match="coefs_ are averages that EMA"):
        clf.coefs_[0] = clf.coefs_[0]


def test_without_a_fit_there_are_no_weights_to_set():
    clf = neural_network.MLPClassifier()
    assert not hasattr(clf, "coefs_")
    with pytest.raises(AttributeError, match="not fitted yet"):
        clf.coefs_ = []


def test_the_boltzmann_machine_is_scikit_learns():
    assert neural_network.BernoulliRBM is sklearn.neural_network.BernoulliRBM
    assert set(sklearn.neural_network.__all__) <= set(neural_network.__all__)


# -- scikit-learn's own tests ------------------------------------------------------------------------

DESELECTED = {
    "test_fit": "sets fitted attributes, _coef_grads and other private ones",
    "test_gradient": "calls _initialize, _backprop and _unpack",
    "test_learning_rate_warmstart": "reads _optimizer",
    "test_adaptive_learning_rate": "reads _optimizer",
    "test_n_iter_no_change": "reads _no_improvement_count",
    "test_n_iter_no_change_inf": "reads _no_improvement_count",
}
PRIVATE = re.compile(r"\b(?:mlp|clf|est|model|self)\w*\._(?!_)\w+")


def scikit_learns_tests():
    folder = Path(sklearn.neural_network.__file__).parent
    return (folder / "tests" / "test_mlp.py").read_text()


def test_deselected_tests_are_about_private_attributes():
    parts = re.split(r"^def (test_\w+)", scikit_learns_tests(), flags=re.MULTILINE)
    bodies = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert {name for name, body in bodies.items() if PRIVATE.search(body)} == set(DESELECTED)


def test_scikit_learns_tests_pass(tmp_path):
    source = scikit_learns_tests()
    there = "from sklearn.neural_network import MLPClassifier, MLPRegressor\n"
    assert source.count(there) == 1
    (tmp_path / "test_mlp.py").write_text(source.replace(there, there.replace("sklearn", "sknet")))
    (tmp_path / "conftest.py").write_text(
        "import pytest\n\n\n@pytest.fixture\ndef global_random_seed():\n    return 0\n"
    )
    deselected = [f"--deselect=test_mlp.py::{name}" for name in DESELECTED]
    found = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            *deselected,
            "test_mlp.py",
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout
    assert f"{len(DESELECTED)} deselected" in found.stdout


# -- what the deselected ones check ------------------------------------------------------------------


def test_the_worked_example():
    """One step of descent from given weights, with the numbers worked out in scikit-learn's test."""
    X, y = np.array([[0.6, 0.8, 0.7]]), np.array([0])
    clf = neural_network.MLPClassifier(
        2, "logistic", solver="sgd", learning_rate_init=0.1, alpha=0.1, momentum=0, random_state=1
    ).partial_fit(X, y, classes=[0, 1])
    state = clf.model_.state
    weights = [[[0.1, 0.2], [0.3, 0.1], [0.5, 0]], [0.1, 0.1], [[0.1], [0.2]], [1.0]]
    given = dict(zip(state.parameters, map(np.array, weights), strict=True))
    clf.model_.load(state._replace(parameters=given, progress=Progress()))
    clf.partial_fit(X, y)
    worked = [[[0.098, 0.195756], [0.2956664, 0.096008], [0.4939998, -0.002244]], [0.098333, 0.09626],
              [[0.04706], [0.154089]], [0.9235]]  # fmt: skip
    found = [clf.coefs_[0], clf.intercepts_[0], clf.coefs_[1], clf.intercepts_[1]]
    for mine, expected in zip(found, worked, strict=True):
        np.testing.assert_allclose(mine, expected, atol=5e-4)
    np.testing.assert_allclose(clf.predict_proba(X)[0, 1], 0.739, atol=5e-4)


def learning_rate(clf):
    return clf.model_.optimizer.learning_rate(clf.model_.progress)


@pytest.mark.parametrize("mode", ["constant", "invscaling"])
def test_learning_rate_over_warm_starts(mode):
    X, y = [[3, 2], [1, 6], [5, 6], [-2, -4]], [1, 1, 1, 0]
    clf = neural_network.MLPClassifier(
        4, solver="sgd", learning_rate=mode, max_iter=1, power_t=0.25, warm_start=True, random_state=0
    )
    with quiet():
        clf.fit(X, y).fit(X, y)
    later = {"constant": 0.001, "invscaling": 0.001 / (8 + 1) ** 0.25}
    assert learning_rate(clf) == pytest.approx(later[mode])
    during = {"constant": [0.001] * 2, "invscaling": [0.001, 0.001 / (4 + 1) ** 0.25]}
    assert clf.history_["lr"] == pytest.approx(during[mode])


def test_adaptive_learning_rate_ends_the_fit():
    clf = neural_network.MLPClassifier(
        tol=0.5, max_iter=3000, solver="sgd", learning_rate="adaptive", random_state=0
    ).fit([[3, 2], [1, 6]], [1, 0])
    assert clf.n_iter_ < clf.max_iter
    assert learning_rate(clf) < 1e-6
    assert np.unique(clf.history_["lr"])[::-1] == pytest.approx([0.001 / 5**k for k in range(6)])


def two_digits():
    X, y = load_digits(n_class=2, return_X_y=True)
    return X[:100] / 16, y[:100]


@pytest.mark.parametrize("patience", [2, 5, 10, 50])
def test_n_iter_no_change(patience):
    clf = neural_network.MLPClassifier(
        tol=0.01, max_iter=3000, solver="sgd", n_iter_no_change=patience, random_state=0
    ).fit(*two_digits())
    best, count = np.inf, 0
    for epoch, loss in enumerate(clf.loss_curve_, 1):
        count = count + 1 if loss > best - 0.01 else 0
        best = min(best, loss)
        assert (count > patience) == (epoch == clf.n_iter_)


def test_n_iter_no_change_inf():
    clf = neural_network.MLPClassifier(
        tol=1e9, max_iter=200, solver="sgd", n_iter_no_change=np.inf, random_state=0
    )
    with pytest.warns(sklearn.exceptions.ConvergenceWarning, match=r"Maximum iterations \(200\) reached"):
        clf.fit(*two_digits())
    assert clf.n_iter_ == 200


# -- verbose -----------------------------------------------------------------------------------------

VERBOSE = [
    (
        "binary",
        {"solver": "sgd", "learning_rate": "adaptive", "tol": 1e-2, "n_iter_no_change": 2, "max_iter": 60},
    ),
    ("binary", {"early_stopping": True, "n_iter_no_change": 3, "max_iter": 40}),
    ("regression", {"early_stopping": True, "solver": "sgd", "learning_rate": "adaptive", "max_iter": 30}),
    ("multiclass", {"tol": 1e9, "n_iter_no_change": np.inf, "max_iter": 5}),
    ("multilabel", {"max_iter": 5}),
    ("multioutput", {"max_iter": 50, "tol": 1e-2, "n_iter_no_change": 4}),
]


@pytest.mark.parametrize(("task", "params"), VERBOSE)
def test_verbose_prints_the_same_lines(task, params, capsys):
    X, y = TABLES[task]
    printed = []
    for module in (neural_network, sklearn.neural_network):
        kind = module.MLPClassifier if task in CLASSIFICATIONS else module.MLPRegressor
        with quiet():
            kind(hidden_layer_sizes=(10,), random_state=0, verbose=True, **params).fit(X, y)
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert "Iteration 5, loss = " in printed[0]


def test_early_stopping_is_ignored_by_lbfgs():
    X, y = TABLES["regression"]
    with quiet():
        a, b = (
            neural_network.MLPRegressor(solver="lbfgs", max_iter=5, early_stopping=stop, random_state=0).fit(
                X, y
            )
            for stop in (True, False)
        )
    assert np.array_equal(a.predict(X), b.predict(X))


def test_one_class_can_be_fitted():
    X, y = TABLES["binary"]
    with quiet():
        clf = neural_network.MLPClassifier(max_iter=2).fit(X, np.full(len(y), "a"))
    assert set(clf.predict(X)) == {"a"}


@pytest.mark.filterwarnings("error")
def test_log_probabilities_underflow_as_in_scikit_learn():
    X, y = TABLES["binary"]
    with quiet():
        ours, theirs = (
            module.MLPClassifier((5,), "identity", max_iter=2, random_state=0).fit(X, y)
            for module in (neural_network, sklearn.neural_network)
        )
    with np.errstate(divide="ignore"):
        mine, other = (e.predict_log_proba(1e4 * X) for e in (ours, theirs))
    assert np.isneginf(mine).any()
    # scikit-learn loses the small probability in 1 - p long before it underflows
    exact = np.isfinite(other) & (other > -10)
    np.testing.assert_allclose(mine[exact], other[exact], rtol=1e-6, atol=1e-15)
    assert np.isneginf(other[np.isneginf(mine)]).all()


# -- what is reported, and when a fit stops --------------------------------------------------------------

SOLVERS = {
    "adam": {"solver": "adam"},
    "sgd": {"solver": "sgd", "learning_rate_init": 1e-4},
    "adaptive": {"solver": "sgd", "learning_rate": "adaptive", "learning_rate_init": 1e-4},
    "lbfgs": {"solver": "lbfgs"},
    "early_stopping": {"early_stopping": True},
    "tol": {"tol": 0.5, "n_iter_no_change": 2},
}
ALIKE = {"float64": {"rtol": 1e-12, "atol": 1e-13}, "float32": {"rtol": 1e-4, "atol": 1e-5}}


def fitted_both(task, dtype, scale, weighted, **params):
    """Fit ours and scikit-learn's to inputs of another scale, where probabilities reach 0 and 1."""
    X, y = TABLES[task]
    X = (scale * X).astype(dtype)
    weight = {"sample_weight": np.random.default_rng(0).uniform(0.2, 2.0, len(X))} if weighted else {}
    kind = "MLPClassifier" if task in CLASSIFICATIONS else "MLPRegressor"
    with quiet():
        return X, *[
            getattr(module, kind)(hidden_layer_sizes=(7,), max_iter=12, random_state=0, **params).fit(
                X, y, **weight
            )
            for module in (neural_network, sklearn.neural_network)
        ]


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel", "regression"])
def test_losses_and_predictions_are_scikit_learns(task, solver, dtype, scale, weighted):
    X, ours, theirs = fitted_both(task, dtype, scale, weighted, **SOLVERS[solver])
    assert ours.n_iter_ == theirs.n_iter_
    alike = {"rtol": 1e-3, "atol": 1e-3} if (solver, dtype) == ("lbfgs", "float32") else ALIKE[dtype]
    if solver == "lbfgs":
        alike = {"rtol": 1e-9, "atol": 1e-10} if dtype == "float64" else alike  # its line searches add up
    for name in ("loss_curve_", "loss_", "best_loss_", "validation_scores_", "best_validation_score_"):
        expected = getattr(theirs, name, None)
        if expected is not None:
            np.testing.assert_allclose(getattr(ours, name), expected, err_msg=name, **alike)
    method = "predict_proba" if task in CLASSIFICATIONS else "predict"
    found, expected = (getattr(each, method)(X) for each in (ours, theirs))
    np.testing.assert_allclose(found, expected, rtol=1e2 * alike["rtol"], atol=1e2 * alike["atol"])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("z", [-800.0, -40.0, -36.0, -17.0, -1.0, 0.0, 3.0, 17.0, 36.0, 40.0, 800.0])
def test_reported_log_losses_are_clipped_and_their_gradients_are_not(dtype, z):
    eps = np.finfo(dtype).eps
    with np.errstate(over="ignore"):
        p = 1.0 / (1.0 + np.exp(np.array(-z, dtype)))
    _, ours, _ = fitted_both("multiclass", dtype, 1.0, False)
    loss = ours.model_.loss_function
    for y, of_truth in ((1.0, p), (0.0, 1.0 - p)):
        raw = Tensor(np.array([[z]], dtype), requires_grad=True)
        value = loss.values(raw, np.array([y], dtype))
        np.testing.assert_allclose(value.numpy(), -np.log(np.clip(of_truth, eps, 1.0 - eps)), rtol=2e-6)
        value.sum().backward()
        np.testing.assert_allclose(raw.grad.numpy(), [[p - y]], rtol=4 * eps, atol=1e-37)
        pair = Tensor(np.array([[0.0, z]], dtype), requires_grad=True)
        value = loss.values(pair, np.array([int(y)]))
        np.testing.assert_allclose(
            value.numpy(), np.clip(np.logaddexp(0, z if y == 0 else -z), -np.log1p(-eps), -np.log(eps)),
            rtol=2e-6, atol=eps,
        )  # fmt: skip
        value.sum().backward()
        np.testing.assert_allclose(pair.grad.numpy()[0, 1], p - y, rtol=4 * eps, atol=eps)


def test_a_fit_with_clipped_losses_is_saved(tmp_path):
    X, ours, _ = fitted_both("multiclass", "float64", 30.0, False)
    sknet.save(ours, tmp_path / "a")
    again = sknet.load(tmp_path / "a")
    assert again.predict_proba(X).tolist() == ours.predict_proba(X).tolist()
    assert (again.out_activation_, again.loss_) == ("softmax", ours.loss_)
