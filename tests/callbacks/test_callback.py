"""Custom callbacks of estimators, and the estimator after callbacks that fail."""

import pickle
import signal
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sknet import MLPClassifier, NetClassifier, neural_network, nn
from sknet.callbacks import (
    Callback,
    EarlyStopping,
    EpochScoring,
    GradientMonitor,
    LearningRateFinder,
    PrintLog,
    TimeLimit,
)
from sknet.exceptions import CallbackWarning, FitInterruptedWarning, InvalidParameterError
from tests.callbacks.helpers import X, Y, classifier, fitted, unconverged
from tests.threads import run_in_threads

HOOKS = ("on_fit_begin", "on_epoch_begin", "on_block_end", "on_epoch_end", "on_fit_end")


class Error(Exception):
    pass


class Acting(Callback):
    """Does something in one hook of the second epoch, or before and after all of them."""

    def __init__(self, hook=None, action=None):
        self.hook, self.action = hook, action

    def _called(self, hook, fit):
        self.calls_ = [*getattr(self, "calls_", []), hook]
        late = fit.epoch == 2 or hook in ("on_fit_begin", "on_fit_end")
        if hook == self.hook and late:
            if self.action == "raise":
                raise Error(f"in {hook}")
            return self.action
        return None

    def on_fit_begin(self, fit):
        return self._called("on_fit_begin", fit)

    def on_epoch_begin(self, fit):
        return self._called("on_epoch_begin", fit)

    def on_block_end(self, fit):
        return self._called("on_block_end", fit)

    def on_epoch_end(self, fit):
        return self._called("on_epoch_end", fit)

    def on_fit_end(self, fit):
        self.failed_ = fit.failed
        return self._called("on_fit_end", fit)


class Keeping(Acting):
    keeps_result = True


ENDED = []


class Ending(Callback):
    """Records calls of on_fit_end, even if the estimator does not see them."""

    def __init__(self, name, hook=None):
        self.name, self.hook = name, hook

    def on_fit_begin(self, fit):
        if self.hook == "on_fit_begin":
            raise Error("in on_fit_begin")

    def on_epoch_end(self, fit):
        if self.hook == "on_epoch_end":
            raise Error("in on_epoch_end")

    def on_fit_end(self, fit):
        ENDED.append(self.name)
        if self.hook == "on_fit_end":
            raise Error("in on_fit_end")


def same_predictions(clf, other):
    np.testing.assert_array_equal(clf.predict_proba(X), other.predict_proba(X))


def refit(clf, way):
    """Fit a fitted estimator again, in one of three ways."""
    if way == "partial_fit":
        return clf.partial_fit(X, Y)
    return clf.set_params(warm_start=way == "warm_start").fit(X, Y)


WAYS = ["fit", "warm_start", "partial_fit"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("hook", HOOKS)
def test_an_error_in_any_hook_of_any_callback_leaves_a_fitted_estimator_as_it_was(hook, number, way):
    clf = fitted()
    before, attributes = pickle.loads(pickle.dumps(clf)), dict(vars(clf))
    callbacks = [Acting(), Acting()]
    if way == "partial_fit" and hook not in ("on_fit_begin", "on_fit_end"):
        callbacks[number] = FirstEpoch(hook)
    else:
        callbacks[number] = Acting(hook, "raise")
    clf.set_params(callbacks=callbacks)
    attributes = dict(vars(clf))
    with pytest.raises(Error, match=f"in {hook}"), unconverged():
        refit(clf, way)
    attributes["warm_start"] = clf.warm_start
    assert vars(clf).keys() == attributes.keys()
    assert all(vars(clf)[name] is value for name, value in attributes.items())
    same_predictions(clf, before)
    clf.set_params(callbacks=None)
    with unconverged():
        same_predictions(refit(clf, way), refit(before, way))  # and it continues as if nothing had happened


class FirstEpoch(Acting):
    """Raises in a hook of the first epoch."""

    def __init__(self, hook):
        super().__init__(hook, "raise")

    def _called(self, hook, fit):
        if hook == self.hook:
            raise Error(f"in {hook}")


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("hook", ["on_fit_begin", "on_epoch_end", "on_fit_end"])
def test_which_callbacks_get_on_fit_end(hook, number):
    ENDED.clear()
    callbacks = [Ending(name, hook if i == number else None) for i, name in enumerate("ab")]
    with pytest.raises(Error, match=f"in {hook}"):
        fitted(*callbacks)
    assert (["a"] if (hook, number) == ("on_fit_begin", 0) else ["b", "a"]) == ENDED


@pytest.mark.parametrize("optimizer", ["adam", "lbfgs"])
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(("hook", "epochs"), list(zip(HOOKS[:4], [0, 1, 2, 2], strict=True)))
def test_stop_in_any_hook_of_any_callback_ends_the_fit_in_order(hook, epochs, number, optimizer):
    callbacks = [Acting(), Acting()]
    callbacks[number] = Acting(hook, "stop")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = classifier(*callbacks, optimizer=optimizer).fit(X, Y)
    assert clf.n_iter_ == epochs == clf.history_.n_epochs
    assert clf.predict(X).shape == Y.shape
    for callback in clf.callbacks_:
        assert callback.calls_[-1] == "on_fit_end"
        assert callback.calls_.count("on_fit_end") == 1
        assert not callback.failed_
    if hook in ("on_epoch_begin", "on_epoch_end"):
        same_predictions(clf, fitted(max_iter=epochs, optimizer=optimizer))


@pytest.mark.parametrize("hook", HOOKS[1:])
def test_the_result_is_kept_with_keeps_result(hook):
    with pytest.warns(CallbackWarning, match=rf"Keeping.{hook} raised Error\('in {hook}'\)"):
        clf = fitted(Keeping(hook, "raise"))
    epochs = {"on_epoch_end": 2, "on_fit_end": 6}.get(hook, 1)
    assert clf.n_iter_ == epochs
    if hook != "on_block_end":
        same_predictions(clf, fitted(max_iter=epochs))


@pytest.mark.parametrize("make", [list, tuple])
def test_for_one_fit_besides_those_of_the_estimator(make, capsys):
    with pytest.raises(ValueError, match=r"'report' parameter of PrintLog .* takes an epoch and its record"):
        PrintLog(report=lambda epoch: "mine").validate()
    with pytest.raises(ValueError, match=r"takes an epoch and its record or None. Got Linear\(2, 2\)"):
        PrintLog(report=nn.Linear(2, 2)).validate()
    failing = classifier(PrintLog(report=np.add), max_iter=1)
    with pytest.raises(TypeError) as caught:
        failing.fit(X, Y)
    assert caught.value.__notes__ == ["in the report of PrintLog, called as report(epoch, record)"]
    clf = classifier(PrintLog(report=lambda epoch, record: "mine"), max_iter=1)
    with unconverged():
        clf.fit(X, Y, callbacks=make([PrintLog(report=lambda epoch, record: "once")]))
        assert capsys.readouterr().out == "mine\nonce\n"
        assert len(clf.callbacks_) == 2
        clf.fit(X, Y)
    assert capsys.readouterr().out == "mine\n"
    assert len(clf.callbacks_) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda callbacks: (neural_network.MLPClassifier((4,), max_iter=2), {"callbacks": callbacks}),
        lambda callbacks: (NetClassifier(nn.Linear(3, 1), max_iter=2, callbacks=callbacks), {}),
        lambda callbacks: (MLPClassifier((4,), max_iter=2, callbacks=callbacks), {}),
    ],
)
def test_every_estimator_takes_them(make):
    clf, more = make([EpochScoring("roc_auc", on="training")])
    with unconverged():
        clf.fit(X, Y, **more)
    assert len(clf.history_["roc_auc"]) == 2


@pytest.mark.parametrize(
    ("callbacks", "message"),
    [
        (
            [PrintLog, EarlyStopping()],
            r"callbacks\[0\] of MLPClassifier is a class. Pass an object: Print",
        ),
        (
            [PrintLog(), 3],
            r"callbacks\[1\] of MLPClassifier is 3, which is not a callback: see sknet.callbacks",
        ),
        (PrintLog(), r"'callbacks' parameter of MLPClassifier must be a list. Got .* pass \[PrintLog\(\)\]"),
        ("PrintLog", "must be a list of callbacks or None. Got 'PrintLog' instead"),
        (
            [type("Duck", (), {"on_epoch_end": print})()],
            "which has hooks but is not a Callback: derive its",
        ),
        (
            [type("Theirs", (), {"on_fit_task_begin": print})()],
            "callback of scikit-learn: pass it to set_",
        ),
    ],
)
def test_invalid_lists_of_callbacks(callbacks, message):
    with pytest.raises(InvalidParameterError, match=message):
        MLPClassifier(callbacks=callbacks).fit(X, Y)
    with pytest.raises(InvalidParameterError, match=message.replace("MLPClassifier", "MLPClassifier.fit")):
        MLPClassifier().fit(X, Y, callbacks=callbacks)


# -- one object, many fits -------------------------------------------------------------------------------


def test_one_object_in_two_fits_has_separate_results():
    stopping = EarlyStopping("score", patience=1)
    first, second = fitted(stopping), fitted(stopping, random_state=1)
    assert first.callbacks_[0].best_ == max(first.history_["score"])
    assert second.callbacks_[0].best_ == max(second.history_["score"])
    assert np.isnan(stopping.best_)
    assert stopping.best_epoch_ == 0


def test_one_object_in_fits_of_several_threads():
    stopping = EarlyStopping("score", patience=2)
    alone = [fitted(stopping, random_state=seed, max_iter=30) for seed in range(6)]
    together = [classifier(stopping, random_state=seed, max_iter=30) for seed in range(6)]
    with unconverged():
        run_in_threads(lambda clf: clf.fit(X, Y), [(clf,) for clf in together])
    for ours, theirs in zip(together, alone, strict=True):
        same_predictions(ours, theirs)
        assert ours.callbacks_[0].best_epoch_ == theirs.callbacks_[0].best_epoch_


def test_a_pickled_estimator_continues_with_its_callbacks():
    clf = classifier(EarlyStopping("loss", patience=np.inf))
    whole = classifier(EarlyStopping("loss", patience=np.inf))
    with unconverged():
        for _ in range(3):
            whole.partial_fit(X, Y, classes=["no", "yes"])
            clf = pickle.loads(pickle.dumps(clf.partial_fit(X, Y, classes=["no", "yes"])))
    same_predictions(clf, whole)
    assert clf.callbacks_[0].best_ == whole.callbacks_[0].best_ == min(clf.loss_curve_)


def test_a_continued_fit_passes_the_state_on():
    class Counting(Callback):
        def on_fit_begin(self, fit):
            self.epochs_ = getattr(self, "epochs_", 0)

        def on_epoch_end(self, fit):
            self.epochs_ += 1

        def state(self):
            return {"epochs": self.epochs_}

        def load_state(self, state):
            self.epochs_ = state["epochs"]

    class Other(Callback):
        loaded_ = None

        def load_state(self, state):
            self.loaded_ = state

    clf = classifier(Counting(), max_iter=2, warm_start=True)
    with unconverged():
        clf.fit(X, Y).fit(X, Y).partial_fit(X, Y)
        assert clf.callbacks_[0].epochs_ == 5
        clf.set_params(warm_start=False).fit(X, Y)
    assert clf.callbacks_[0].epochs_ == 2
    with unconverged():
        clf.set_params(callbacks=[Other()], warm_start=True).fit(X, Y)
    assert clf.callbacks_[0].loaded_ is None  # another class starts with fresh state


def test_patience_counts_over_calls_of_partial_fit():
    clf = classifier(EarlyStopping("loss", patience=3, tol=1e3))
    counts = []
    for _ in range(5):
        clf.partial_fit(X, Y, classes=["no", "yes"])
        counts.append(clf.callbacks_[0].state()["count"])
    assert counts == [0, 1, 2, 3, 4]


# -- parameters ------------------------------------------------------------------------------------------


def test_a_grid_reaches_into_callbacks():
    clf = classifier(EarlyStopping("loss", patience=5), TimeLimit(100), max_iter=40)
    grid = {"callbacks__0__patience": [0, 30], "callbacks__0__tol": [0.1]}
    with unconverged():
        search = GridSearchCV(clf, grid, cv=2).fit(X, Y)
        for patience in (0, 30):
            by_hand = classifier(EarlyStopping("loss", patience=patience, tol=0.1), max_iter=40)
            rank = search.cv_results_["param_callbacks__0__patience"].tolist().index(patience)
            scores = GridSearchCV(by_hand, {}, cv=2).fit(X, Y).cv_results_["mean_test_score"]
            assert search.cv_results_["mean_test_score"][rank] == scores[0]
    assert clf.callbacks[0].patience == 5


def test_a_callback_in_a_list_can_be_replaced():
    given = [EarlyStopping(), PrintLog()]
    clf, other = MLPClassifier(callbacks=given), MLPClassifier(callbacks=given)
    clf.set_params(callbacks__1=TimeLimit(3), callbacks__1__seconds=5)
    assert clf.callbacks == [EarlyStopping(), TimeLimit(5)]
    assert other.callbacks is given
    assert given == [EarlyStopping(), PrintLog()]
    clf.set_params(callbacks=[PrintLog()], callbacks__0__every=7)
    assert clf.callbacks == [PrintLog(every=7)]
    assert clone(clf).callbacks == clf.callbacks
    assert clone(clf).callbacks[0] is not clf.callbacks[0]
    pipeline = make_pipeline(StandardScaler(), clf).set_params(mlpclassifier__callbacks__0__every=9)
    assert pipeline.get_params()["mlpclassifier__callbacks__0__every"] == 9


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"callbacks__2__every": 3}, r"reached by number, from callbacks__0 to callbacks__1"),
        (
            {"callbacks__first__every": 3},
            r"Invalid parameter 'callbacks__first__every' for estimator MLP",
        ),
        ({"callbacks": [], "callbacks__0__every": 3}, "by number, none, as it is empty"),
        ({"callbacks__0__evry": 3}, "evry"),
        ({"callbacks__0__every": 3, "callbacks__1__evry": 3}, "evry"),
    ],
)
def test_parameters_that_do_not_exist_change_nothing(params, message):
    clf = MLPClassifier(callbacks=[PrintLog(), PrintLog()])
    with pytest.raises(ValueError, match=message):
        clf.set_params(**params)
    assert clf.callbacks == [PrintLog(), PrintLog()]


def test_callbacks_do_not_change_the_repr():
    clf = MLPClassifier(callbacks=[EarlyStopping(patience=3)])
    assert repr(clf) == "MLPClassifier(callbacks=[EarlyStopping(patience=3)])"
    assert "EarlyStopping" in clf._repr_html_()


def test_a_snapshot_predicts_as_the_estimator_would():
    found = []

    class Predicting(Callback):
        def on_epoch_end(self, fit):
            found.append(fit.estimator.predict_proba(X))
            assert fit.estimator.n_iter_ == fit.epoch

    clf = fitted(Predicting())
    for epochs in (1, 3, 6):
        np.testing.assert_array_equal(found[epochs - 1], fitted(max_iter=epochs).predict_proba(X))
    assert len(found) == clf.n_iter_


# -- Ctrl-C ----------------------------------------------------------------------------------------------


class Pressing(Callback):
    """Presses Ctrl-C in a hook of the second epoch, so often."""

    steps_per_block = 1

    def __init__(self, hook, times=1):
        self.hook, self.times = hook, times

    def _press(self, hook, fit):
        if hook == self.hook and fit.epoch == 2 and not hasattr(self, "pressed_"):
            self.pressed_ = True
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)
            self.went_on_ = True

    def on_epoch_begin(self, fit):
        self._press("on_epoch_begin", fit)

    def on_block_end(self, fit):
        self._press("on_block_end", fit)

    def on_epoch_end(self, fit):
        self._press("on_epoch_end", fit)

    def on_fit_end(self, fit):
        ENDED.append(type(fit.exception))


@pytest.mark.parametrize(
    ("hook", "epochs"), [("on_epoch_begin", 1), ("on_block_end", 1), ("on_epoch_end", 2)]
)
def test_ctrl_c_in_a_callback_waits_for_it_and_keeps_the_result(hook, epochs):
    ENDED.clear()
    with pytest.warns(
        FitInterruptedWarning, match=f"by user after {epochs} whole epochs; what was learned is"
    ):
        clf = fitted(Pressing(hook))
    assert clf.n_iter_ == epochs
    assert clf.callbacks_[0].went_on_
    assert [KeyboardInterrupt] == ENDED


def test_a_second_ctrl_c_ends_the_callback_and_undoes_the_fit():
    ENDED.clear()
    clf = fitted()
    before = pickle.loads(pickle.dumps(clf))
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, Y, callbacks=[Pressing("on_epoch_end", times=2)])
    same_predictions(clf, before)
    assert [KeyboardInterrupt] == ENDED


# -- other kinds of data -----------------------------------------------------------------------------------


class TwoInputs(nn.Module):
    def __init__(self, n_outputs):
        super().__init__()
        self.left, self.right = nn.Linear(2, n_outputs), nn.Linear(1, n_outputs)

    def forward(self, left, right):
        return self.left(left) + self.right(right)


def test_callbacks_take_rows_of_several_inputs():
    inputs = {"left": X[:, :2], "right": X[:, 2:]}
    callbacks = [
        GradientMonitor(),
        LearningRateFinder(n_steps=20),
        EpochScoring("accuracy"),
        EpochScoring("f1_macro", on="training"),
    ]
    clf = NetClassifier(TwoInputs, max_iter=3, early_stopping=True, random_state=0, callbacks=callbacks)
    with unconverged():
        clf.fit(inputs, Y)
    assert len(clf.callbacks_[0].norms_["left.weight"]) == 3
    assert len(clf.callbacks_[1].rates_) == 20
    assert clf.history_["validation_accuracy"] == clf.history_["validation_score"]


@pytest.mark.parametrize("make", [scipy.sparse.csr_array, lambda X: pd.DataFrame(X, columns=["a", "b", "c"])])
def test_callbacks_take_sparse_rows_and_frames(make):
    callbacks = [GradientMonitor(), LearningRateFinder(n_steps=20), EpochScoring("accuracy")]
    clf = classifier(*callbacks, early_stopping=True)
    with unconverged():
        clf.fit(make(X), Y)
    assert clf.history_["validation_accuracy"] == clf.history_["validation_score"]
    assert np.isfinite(clf.history_["gradient_norm"]).all()
