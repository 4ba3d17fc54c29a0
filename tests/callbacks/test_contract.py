"""The contract of all callbacks, with one table row for each; a callback without a row fails."""

import copy
import pickle
import sys
import types
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import sknet.callbacks
from sknet import MLPClassifier
from sknet.callbacks import (
    Callback,
    Checkpoint,
    CSVLog,
    EarlyStopping,
    EpochScoring,
    GradientMonitor,
    LearningRateFinder,
    PrintLog,
    ProgressBar,
    Pruning,
    TensorBoardLog,
    TimeLimit,
)
from sknet.compile.native import NativeRun
from sknet.exceptions import InvalidParameterError
from tests.callbacks.helpers import Dies

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)).astype("float32")
Y = np.where(X[:, 0] + 0.3 * X[:, 1] > 0, "yes", "no")


class Writer:
    """Stands in for a writer of TensorBoard."""

    scalars: list[tuple[str, float, int]] = []

    def add_scalar(self, name, value, step):
        self.scalars.append((name, value, step))

    def flush(self):
        pass


class Trial:
    """Stands in for a trial of Optuna."""

    def report(self, value, step):
        pass

    def should_prune(self):
        return False


class Bar:
    """Stands in for a bar of tqdm."""

    n = 0

    def __init__(self, total, **kwargs):
        self.total = total

    def update(self, n):
        self.n += n

    def set_description_str(self, text, refresh):
        pass

    def set_postfix(self, numbers, refresh):
        pass

    def close(self):
        pass


class Row(NamedTuple):
    """A callback, and a parameter of it with another value.

    Attributes
    ----------
    make : callable
        ``make(folder)`` returns one.
    other : tuple of str and object, or None
        A parameter and a value for it; None if it has none.
    wrong : tuple of str and object, or None
        An invalid value.
    learns : tuple of str
        Attributes after a fit.
    """

    make: Any
    other: tuple[str, Any] | None
    wrong: tuple[str, Any] | None
    learns: tuple[str, ...] = ()


ROWS = {
    "CSVLog": Row(lambda folder: CSVLog(folder / "fit.csv"), ("path", "other.csv"), ("path", 3)),
    "Callback": Row(lambda folder: Callback(), None, None),
    "Checkpoint": Row(lambda folder: Checkpoint(folder / "fit"), ("every", 2), ("every", "never")),
    "EarlyStopping": Row(
        lambda folder: EarlyStopping("loss", patience=1, tol=0.0),
        ("patience", 3),
        ("patience", -1),
        ("best_", "best_epoch_", "best_step_"),
    ),
    "EpochScoring": Row(
        lambda folder: EpochScoring("f1_macro", on="training"), ("every", 2), ("on", "test"), ("name_",)
    ),
    "GradientMonitor": Row(
        lambda folder: GradientMonitor(), ("every", 2), ("every", 0), ("norms_", "weight_norms_", "epochs_")
    ),
    "LearningRateFinder": Row(
        lambda folder: LearningRateFinder(n_steps=10),
        ("max_lr", 2.0),
        ("min_lr", 0.0),
        ("rates_", "losses_", "suggestion_"),
    ),
    "PrintLog": Row(lambda folder: PrintLog(), ("every", 2), ("every", 1.5)),
    "ProgressBar": Row(lambda folder: ProgressBar(), ("description", "fit"), ("leave", "no")),
    "Pruning": Row(lambda folder: Pruning(Trial()), ("monitor", "score"), ("every", 0)),
    "TensorBoardLog": Row(
        lambda folder: TensorBoardLog(writer=Writer()), ("log_dir", "runs"), ("log_dir", 3)
    ),
    "TimeLimit": Row(lambda folder: TimeLimit(1e6), ("seconds", 5), ("seconds", -1)),
}
ENDS_IT = {"EarlyStopping"}
ALL = pytest.mark.parametrize("name", ROWS)


@pytest.fixture(autouse=True)
def optional_packages(monkeypatch):
    """Replace optional packages; their own tests use the real ones."""
    optuna = types.ModuleType("optuna")
    optuna.TrialPruned = type("TrialPruned", (Exception,), {})
    tqdm, auto = types.ModuleType("tqdm"), types.ModuleType("tqdm.auto")
    auto.tqdm = Bar
    for module in (optuna, tqdm, auto):
        monkeypatch.setitem(sys.modules, module.__name__, module)


def classifier(callbacks=None, **params):
    defaults = {"tol": 0, "n_iter_no_change": np.inf, "max_iter": 4, "random_state": 0, "batch_size": 16}
    return MLPClassifier((5,), callbacks=callbacks, **defaults | params)


@pytest.fixture(autouse=True)
def unconverged():
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*[Cc]onverge")
        yield


def test_every_callback_has_a_row():
    exported = {name: getattr(sknet.callbacks, name) for name in sknet.callbacks.__all__}
    assert {name for name, cls in exported.items() if issubclass(cls, Callback)} == set(ROWS)


@ALL
def test_it_is_cloned_pickled_compared_and_printed(name, tmp_path):
    made = ROWS[name].make(tmp_path)
    for other in (clone(made), copy.deepcopy(made), *(pickle.loads(pickle.dumps(made, p)) for p in range(6))):
        assert type(other) is type(made)
        if name not in ("Pruning", "TensorBoardLog"):  # whose stand-ins have no equality
            assert other == made
    assert repr(made).startswith(f"{name}(")
    assert made.get_params() == {**clone(made).get_params()}


@ALL
def test_a_parameter_is_set_through_the_estimator(name, tmp_path):
    row = ROWS[name]
    clf = classifier([PrintLog(), row.make(tmp_path)])
    assert clf.get_params()["callbacks__1"] is clf.callbacks[1]
    if row.other is None:
        return
    parameter, value = row.other
    clf.set_params(**{f"callbacks__1__{parameter}": value})
    assert getattr(clf.callbacks[1], parameter) == value
    assert clf.get_params()[f"callbacks__1__{parameter}"] == value


@ALL
def test_invalid_values_raise_on_use(name, tmp_path):
    row = ROWS[name]
    if row.wrong is None:
        return
    parameter, value = row.wrong
    clf = classifier([row.make(tmp_path).set_params(**{parameter: value})])
    with pytest.raises((InvalidParameterError, ValueError, TypeError), match=f"{parameter}"):
        clf.fit(X, Y)
    assert not hasattr(clf, "model_")


@ALL
def test_a_fit_with_it_stays_native_and_has_the_same_bits(name, tmp_path, monkeypatch):
    monkeypatch.setenv("SKNET_NATIVE", "always")
    native = []
    check = NativeRun.check  # after each call
    monkeypatch.setattr(NativeRun, "check", lambda self: native.append(1) or check(self))
    plain = classifier().fit(X, Y)
    assert native
    native.clear()
    clf = classifier([ROWS[name].make(tmp_path)]).fit(X, Y)
    assert native
    if name in ENDS_IT:
        plain = classifier(max_iter=clf.n_iter_).fit(X, Y)
    for ours, theirs in zip(clf.coefs_, plain.coefs_, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert clf.loss_curve_ == plain.loss_curve_
    assert clf.model_.random_state.rand() == plain.model_.random_state.rand()


@ALL
def test_the_given_object_is_not_changed(name, tmp_path):
    row = ROWS[name]
    made = row.make(tmp_path)
    before = dict(vars(made))
    clf = classifier([made]).fit(X, Y)
    assert vars(made) == before
    (used,) = clf.callbacks_
    assert used is not made
    assert type(used) is type(made)
    for attribute in row.learns:
        assert hasattr(used, attribute)
        assert attribute not in vars(made)


@ALL
def test_a_fitted_estimator_with_it_is_pickled_and_cloned(name, tmp_path):
    clf = classifier([ROWS[name].make(tmp_path)]).fit(X, Y)
    other = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(other.predict(X), clf.predict(X))
    assert type(other.callbacks_[0]) is type(clf.callbacks_[0])
    for attribute in ROWS[name].learns:
        np.testing.assert_equal(
            getattr(other.callbacks_[0], attribute), getattr(clf.callbacks_[0], attribute)
        )
    fresh = clone(clf)
    assert not hasattr(fresh, "callbacks_")
    assert type(fresh.fit(X, Y).callbacks_[0]) is type(clf.callbacks_[0])


def numbers(estimator):
    return {name: column for name, column in estimator.history_.items() if name != "time"}


@ALL
def test_it_continues_in_a_resumed_fit(name, tmp_path):
    whole = classifier([ROWS[name].make(tmp_path)]).fit(X, Y)
    part = classifier([ROWS[name].make(tmp_path)])
    with pytest.raises(RuntimeError, match="died"):
        part.fit(X, Y, callbacks=[Checkpoint(tmp_path / "saved"), Dies(2)])
    resumed = part.fit(X, Y, resume_from=tmp_path / "saved")
    assert resumed.n_iter_ == whole.n_iter_
    assert numbers(resumed) == numbers(whole)
    for ours, theirs in zip(resumed.coefs_, whole.coefs_, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for attribute in ROWS[name].learns:
        found, expected = (getattr(clf.callbacks_[0], attribute) for clf in (resumed, whole))
        np.testing.assert_equal(found, expected, err_msg=attribute)


@pytest.mark.slow
@ALL
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_search_takes_it(name, n_jobs, tmp_path):
    if name == "Pruning" and n_jobs:
        return  # a trial stays in its process
    grid = {"hidden_layer_sizes": [(2,), (3,)]}
    search = GridSearchCV(classifier([ROWS[name].make(tmp_path)]), grid, cv=2, n_jobs=n_jobs)
    if n_jobs == 2 and name == "ProgressBar":
        search.set_params(estimator__callbacks=[PrintLog()])  # the stand-in is not there; see its own tests
    assert search.fit(X, Y).best_score_ > 0.5


@ALL
def test_lbfgs_calls_it_too(name, tmp_path):
    if name in ("LearningRateFinder", "Checkpoint"):
        return  # each says that it needs steps; see their own tests
    clf = classifier([ROWS[name].make(tmp_path)], optimizer="lbfgs").fit(X, Y)
    plain = classifier(optimizer="lbfgs", max_iter=clf.n_iter_).fit(X, Y)
    np.testing.assert_array_equal(clf.coefs_[0], plain.coefs_[0])


@ALL
def test_partial_fit_and_warm_start_continue_with_it(name, tmp_path):
    if name != "Checkpoint":  # which is refused in parts; see its own tests
        clf = classifier([ROWS[name].make(tmp_path)])
        for _ in range(3):
            clf.partial_fit(X, Y, classes=["no", "yes"])
        assert len(clf.loss_curve_) == 3
    warm = classifier([ROWS[name].make(tmp_path)], warm_start=True, max_iter=2)
    assert len(warm.fit(X, Y).fit(X, Y).loss_curve_) in (3, 4)


@ALL
def test_a_class_is_not_a_callback(name):
    with pytest.raises(
        InvalidParameterError, match=r"callbacks\[0\] of MLPClassifier is a class. Pass an object"
    ):
        classifier([getattr(sknet.callbacks, name)]).fit(X, Y)


@pytest.mark.parametrize(
    ("made", "name"), [(CSVLog, "path"), (Checkpoint, "path"), (TensorBoardLog, "log_dir")]
)
def test_paths_have_no_nul(made, name):
    with pytest.raises(InvalidParameterError, match=f"'{name}' parameter of .* without a NUL character"):
        made("a\0b").validate()
