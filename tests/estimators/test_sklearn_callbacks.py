"""scikit-learn's own callbacks on every estimator: alone, in a pipeline, in a search, and after errors."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sknet
from sknet import neural_network, nn
from sknet.callbacks import PrintLog

sklearn_callback = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
TARGET = X @ [1.0, -2.0, 0.5]
LABELS = np.where(TARGET > 0, "yes", "no")
EPOCHS = 3


class Net(nn.Module):
    def __init__(self, n_features, n_outputs):
        super().__init__()
        self.layer = nn.Linear(n_features, n_outputs)

    def forward(self, x):
        return self.layer(x)


ESTIMATORS = {
    "MLPClassifier": lambda **p: sknet.MLPClassifier((4,), max_iter=EPOCHS, random_state=0, **p),
    "MLPRegressor": lambda **p: sknet.MLPRegressor((4,), max_iter=EPOCHS, random_state=0, **p),
    "early stopping": lambda **p: sknet.MLPClassifier((4,), max_iter=EPOCHS, early_stopping=True, **p),
    "lbfgs": lambda **p: sknet.MLPRegressor((4,), max_iter=EPOCHS, optimizer="lbfgs", random_state=0, **p),
    "NetClassifier": lambda **p: sknet.NetClassifier(Net, max_iter=EPOCHS, random_state=0, **p),
    "NetRegressor": lambda **p: sknet.NetRegressor(Net, max_iter=EPOCHS, random_state=0, **p),
    "drop-in classifier": lambda **p: neural_network.MLPClassifier((4,), max_iter=EPOCHS, **p),
    "drop-in regressor": lambda **p: neural_network.MLPRegressor(max_iter=EPOCHS, **p),
    "drop-in lbfgs": lambda **p: neural_network.MLPClassifier((4,), solver="lbfgs", max_iter=EPOCHS, **p),
}
ALL = pytest.mark.parametrize("name", ESTIMATORS)


@pytest.fixture(autouse=True)
def unconverged():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*[Cc]onverge")
        yield


def made(name, **params):
    estimator = ESTIMATORS[name](**params)
    return estimator, LABELS if is_classifier(estimator) else TARGET


def test_an_ensemble_is_a_single_fit():
    recorder = Recorder()
    ESTIMATORS["MLPClassifier"](n_members=3).set_callbacks(recorder).fit(X, LABELS)
    assert recorder.log == [(hook, "fit") for hook in ("setup", "begin", "end", "teardown")]


class Recorder:
    """A callback of scikit-learn's protocol that records every call."""

    def __init__(self, error_in=None, stop_after=None):
        self.log, self.error_in, self.stop_after, self.seen = [], error_in, stop_after, []

    def _called(self, hook, context):
        self.log.append((hook, context.task_name))
        if hook == self.error_in:
            raise ZeroDivisionError(hook)

    def setup(self, estimator, context):
        self._called("setup", context)

    def teardown(self, estimator, context):
        self.log.append(("teardown", context.task_name))

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self._called("begin", context)
        if context.task_name == "epoch":
            fitted_estimator.predict(X)

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self._called("end", context)
        self.seen.append((len(X), fitted_estimator.score(X, y), metadata))
        return self.stop_after is not None and len(self.seen) >= self.stop_after


@ALL
def test_fits_and_epochs_are_tasks(name):
    estimator, y = made(name)
    recorder = Recorder()
    assert estimator.set_callbacks(recorder) is estimator
    assert estimator.fit(X, y) is estimator
    assert recorder.log == [
        ("setup", "fit"),
        ("begin", "fit"),
        *[("begin", "epoch"), ("end", "epoch")] * estimator.n_iter_,
        ("end", "fit"),
        ("teardown", "fit"),
    ]
    assert recorder.seen[-1][1] == estimator.score(X, y)
    rows = {54, 60} if name == "early stopping" else {60}
    assert {n for n, _, _ in recorder.seen} == rows
    assert not [key for key in vars(estimator) if "callback_ctx" in key or "teardown" in key]


@ALL
def test_the_fit_is_the_same_with_them(name):
    estimator, y = made(name)
    estimator.set_params(random_state=0)
    plain = clone(estimator).fit(X, y)
    watched = clone(estimator).set_callbacks(Recorder()).fit(X, y)
    np.testing.assert_array_equal(watched.predict(X), plain.predict(X))
    assert watched.loss_curve_ == plain.loss_curve_


@ALL
def test_a_scoring_monitor_alone(name):
    estimator, y = made(name)
    monitor = sklearn_callback.ScoringMonitor(scoring="accuracy" if is_classifier(estimator) else "r2")
    estimator.set_callbacks(monitor).fit(X, y)
    rows = monitor.get_logs().data
    scores = [row for row in rows if row["task_name"] == "epoch"]
    assert len(scores) == estimator.n_iter_
    (whole,) = (row for row in rows if row["task_name"] == "fit")
    assert whole["accuracy" if is_classifier(estimator) else "r2"] == estimator.score(X, y)


@ALL
def test_a_scoring_monitor_in_a_pipeline(name):
    estimator, y = made(name)
    monitor = sklearn_callback.ScoringMonitor(scoring="accuracy" if is_classifier(estimator) else "r2")
    pipeline = make_pipeline(StandardScaler(), estimator.set_callbacks(monitor))
    pipeline.fit(X, y)
    rows = monitor.get_logs().data
    assert sum(row["task_name"] == "epoch" for row in rows) == estimator.n_iter_
    assert len(rows[-1]["task_id_path"]) == 3  # pipeline, estimator, epoch


@ALL
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_scoring_monitor_in_a_search(name, n_jobs):
    estimator, y = made(name)
    if "Net" in name and n_jobs:
        return  # a class of this file is not found in another process
    monitor = sklearn_callback.ScoringMonitor(scoring="accuracy" if is_classifier(estimator) else "r2")
    search = GridSearchCV(estimator.set_callbacks(monitor), {"alpha": [0.0, 0.1]}, cv=2, n_jobs=n_jobs)
    search.fit(X, y)
    rows = monitor.get_logs().data
    epochs = [row for row in rows if row["task_name"] == "epoch"]
    assert len({row["parent_task_id_path"] for row in epochs}) == 5  # two candidates, two folds, the refit
    assert len(epochs) == 5 * EPOCHS


@ALL
def test_propagated_callbacks_of_a_pipeline_and_a_search(name):
    class Propagated(Recorder):
        max_propagation_depth = None

        def on_fit_task_begin(self, estimator, context):
            self._called("begin", context)

        def on_fit_task_end(self, estimator, context):
            self._called("end", context)

    estimator, y = made(name)
    recorder = Propagated()
    make_pipeline(StandardScaler(), estimator).set_callbacks(recorder).fit(X, y)
    assert recorder.log.count(("end", "epoch")) == estimator.n_iter_
    assert [hook for hook, _ in recorder.log].count("setup") == 1
    assert not hasattr(estimator, "_skl_callbacks")
    recorder = Propagated()
    GridSearchCV(clone(estimator), {"alpha": [0.0, 0.1]}, cv=2).set_callbacks(recorder).fit(X, y)
    assert recorder.log.count(("end", "epoch")) == 5 * EPOCHS


def test_scikit_learns_progress_bar(capsys):
    pytest.importorskip("rich", reason="scikit-learn's bar needs rich")
    for name in ESTIMATORS:
        estimator, y = made(name)
        estimator.set_callbacks(sklearn_callback.ProgressBar()).fit(X, y)
        shown = capsys.readouterr().out
        assert type(estimator).__name__ in shown
        assert "fit" in shown
        estimator, y = made(name)
        make_pipeline(StandardScaler(), estimator).set_callbacks(sklearn_callback.ProgressBar()).fit(X, y)
        shown = capsys.readouterr().out
        assert "Pipeline" in shown
        assert type(estimator).__name__ in shown
    for n_jobs in (None, 2):
        search = GridSearchCV(made("MLPClassifier")[0], {"alpha": [0.0, 0.1]}, cv=2, n_jobs=n_jobs)
        search.set_callbacks(sklearn_callback.ProgressBar(max_propagation_depth=None)).fit(X, LABELS)
        assert "GridSearchCV" in capsys.readouterr().out


@ALL
@pytest.mark.parametrize("hook", ["setup", "begin", "end"])
def test_an_error_leaves_the_estimator_as_it_was(name, hook):
    estimator, y = made(name)
    fitted = clone(estimator).fit(X, y)
    for subject in (estimator, fitted):
        recorder = Recorder(error_in=hook)
        before = {**vars(subject.set_callbacks(recorder))}
        with pytest.raises(ZeroDivisionError, match=hook):
            subject.fit(X, y)
        assert recorder.log[-1] == ("teardown", "fit")
        assert vars(subject) == before


@ALL
def test_a_callback_can_stop_the_fit(name):
    estimator, y = made(name)
    recorder = Recorder(stop_after=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a stopped fit does not warn
        estimator.set_callbacks(recorder).fit(X, y)
    assert estimator.n_iter_ == 2


def test_weights_are_metadata():
    estimator, y = made("early stopping")
    recorder = Recorder()
    estimator.set_callbacks(recorder).fit(X, y, sample_weight=np.arange(60) + 1.0)
    assert {len(metadata["sample_weight"]) for _, _, metadata in recorder.seen} == {54, 60}


def test_both_kinds_of_callbacks_and_pickles(capsys):
    estimator, y = made("MLPClassifier", callbacks=[PrintLog(report=lambda epoch, record: f"epoch {epoch}")])
    monitor = sklearn_callback.ScoringMonitor(scoring="accuracy")
    estimator.set_callbacks(monitor).fit(X, y)
    assert capsys.readouterr().out == "epoch 1\nepoch 2\nepoch 3\n"
    assert [type(callback) for callback in estimator.callbacks_] == [PrintLog]
    estimator.set_params(callbacks=None).fit(X, y)
    other = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(other.predict(X), estimator.predict(X))
    result = cross_validate(clone(estimator), X, y, cv=2)
    assert len(result["test_score"]) == 2
    assert len(monitor.get_logs("all")) == 4  # two fits, and two of the clones, which share it


def test_without_callbacks_there_are_no_tasks(monkeypatch):
    made_tasks = []
    subcontext = sklearn_callback.CallbackContext.subcontext

    def noted(self, task_name="", **more):
        made_tasks.append(task_name)
        return subcontext(self, task_name, **more)

    monkeypatch.setattr(sklearn_callback.CallbackContext, "subcontext", noted)
    estimator, y = made("MLPClassifier")
    make_pipeline(StandardScaler(), estimator).fit(X, y)
    assert made_tasks
    assert "epoch" not in made_tasks
    made_tasks.clear()
    estimator.set_callbacks(Recorder()).fit(X, y)
    assert made_tasks == ["epoch"] * EPOCHS


PARTS = [name for name in ESTIMATORS if "lbfgs" not in name and name != "early stopping"]
PART = [
    ("setup", "fit"),
    ("begin", "fit"),
    ("begin", "epoch"),
    ("end", "epoch"),
    ("end", "fit"),
    ("teardown", "fit"),
]


def part(estimator, y):
    classes = {"classes": ["no", "yes"]} if is_classifier(estimator) else {}
    return estimator.partial_fit(X, y, **classes)


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_a_training_is_a_fit_of_one_epoch(name):
    estimator, y = made(name)
    recorder = Recorder()
    estimator.set_params(random_state=0).set_callbacks(recorder)
    part(part(estimator, y), y)
    assert recorder.log == 2 * PART
    assert recorder.seen[-1][1] == estimator.score(X, y)
    plain = made(name)[0].set_params(random_state=0)
    part(part(plain, y), y)
    np.testing.assert_array_equal(estimator.predict(X), plain.predict(X))
    estimator.set_callbacks().fit(X, y)  # none: those that were set are removed
    assert recorder.log == 2 * PART


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("hook", ["setup", "begin", "end"])
def test_an_error_leaves_a_training_in_parts_as_it_was(name, hook):
    estimator, y = made(name)
    part(estimator, y)
    before, epochs = estimator.predict(X), estimator.history_.n_epochs
    with pytest.raises(ZeroDivisionError, match=hook):
        part(estimator.set_callbacks(Recorder(error_in=hook)), y)
    np.testing.assert_array_equal(estimator.predict(X), before)
    assert estimator.history_.n_epochs == epochs


def test_files_hold_them(tmp_path):
    estimator = ESTIMATORS["MLPClassifier"]().set_callbacks(Recorder())
    sknet.save(estimator, tmp_path / "it.safetensors")
    loaded = sknet.load(tmp_path / "it.safetensors", trusted=[Recorder])
    assert [type(each) for each in loaded._skl_callbacks] == [Recorder]
