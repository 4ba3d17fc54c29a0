"""Reports to an Optuna trial, a fake one and the real one."""

import sys
from enum import Enum

import pytest
from sklearn.base import clone

from sknet.callbacks import Pruning
from tests.callbacks.helpers import X, Y, classifier, fitted, unconverged


class PrunedError(Exception):
    pass


class Direction(Enum):
    MINIMIZE = 1
    MAXIMIZE = 2


class Study:
    def __init__(self, *directions):
        self.directions = directions


class Trial:
    """A fake Optuna trial."""

    def __init__(self, prune_at=None, study=None):
        self.reports, self.prune_at = [], prune_at
        if study is not None:
            self.study = study

    def report(self, value, step):
        self.reports.append((step, value))

    def should_prune(self):
        return self.prune_at is not None and self.reports[-1][0] >= self.prune_at


@pytest.fixture
def optuna(monkeypatch):
    module = type(sys)("optuna")
    module.TrialPruned = PrunedError
    monkeypatch.setitem(sys.modules, "optuna", module)


@pytest.mark.usefixtures("optuna")
def test_every_epoch_is_reported():
    trial = Trial()
    clf = fitted(Pruning(trial))
    assert trial.reports == list(enumerate(clf.loss_curve_, 1))
    trial = Trial()
    clf = fitted(Pruning(trial), early_stopping=True)
    assert trial.reports == list(enumerate(clf.history_[clf.monitor_], 1))
    trial = Trial()
    clf = fitted(Pruning(trial, "score", every=2))
    assert trial.reports == list(enumerate(clf.history_["score"], 1))[1::2]


@pytest.mark.usefixtures("optuna")
def test_a_pruned_fit_raises_and_leaves_the_estimator_as_it_was():
    clf = fitted()
    before = clf.predict_proba(X)
    clf.set_params(callbacks=[Pruning(Trial(prune_at=3))], random_state=1)
    with pytest.raises(PrunedError, match=r"pruned after epoch 3, with loss = 0\.\d+"):
        clf.fit(X, Y)
    assert (clf.predict_proba(X) == before).all()


@pytest.mark.usefixtures("optuna")
def test_clones_share_the_trial():
    trial = Trial()
    pruning = Pruning(trial)
    assert clone(pruning).trial is trial
    assert clone(classifier(pruning)).callbacks[0].trial is trial


@pytest.mark.usefixtures("optuna")
@pytest.mark.parametrize(
    ("direction", "monitor", "message"),
    [
        (Direction.MAXIMIZE, "loss", "reports 'loss', which is to minimize, to a study that is to maximize"),
        (
            Direction.MINIMIZE,
            "score",
            "reports 'score', which is to maximize, to a study that is to min",
        ),
    ],
)
def test_a_study_with_the_other_direction(direction, monitor, message):
    with pytest.raises(ValueError, match=message):
        fitted(Pruning(Trial(study=Study(direction)), monitor))
    (other,) = set(Direction) - {direction}
    fitted(Pruning(Trial(study=Study(other)), monitor))


@pytest.mark.usefixtures("optuna")
def test_invalid_trials_and_monitors():
    with pytest.raises(TypeError, match=r"needs a trial of Optuna, with report and should_prune, got 3"):
        fitted(Pruning(3))
    with pytest.raises(ValueError, match=r"Pruning\(monitor='los'\): this fit has no such number.*'loss'"):
        fitted(Pruning(Trial(), "los"))


def test_without_optuna_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(
        ImportError,
        match=r'Pruning needs optuna, which is not installed: pip install "scikit-neural\[optuna\]"',
    ):
        fitted(Pruning(Trial()))


@pytest.mark.filterwarnings("ignore")  # of Optuna's own
def test_the_real_one():
    optuna = pytest.importorskip("optuna", reason="Pruning needs Optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def objective(trial):
        lr = trial.suggest_categorical("lr", [1e-9, 1e-2])
        clf = classifier(Pruning(trial))
        clf.set_params(max_iter=10, optimizer__lr=lr)
        with unconverged():
            return clf.fit(X, Y).loss_

    sampler = optuna.samplers.GridSampler({"lr": [1e-2, 1e-9]}, seed=0)
    pruner = optuna.pruners.ThresholdPruner(upper=0.5, n_warmup_steps=8)
    study = optuna.create_study(direction="minimize", sampler=sampler, pruner=pruner)
    study.optimize(objective, n_trials=2)
    states = {trial.params["lr"]: trial.state.name for trial in study.trials}
    assert states == {1e-2: "COMPLETE", 1e-9: "PRUNED"}
    assert {len(trial.intermediate_values) for trial in study.trials} == {10, 8}
