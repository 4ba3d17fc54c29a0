"""The progress bar: its text, its position, and when it is silent."""

import io
import re
import sys

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from sknet import MLPClassifier, NetClassifier, neural_network, nn
from sknet.callbacks import ProgressBar, TimeLimit
from tests.callbacks.helpers import X, Y, classifier, fitted, unconverged


class Bar:
    """Replaces a tqdm bar, and records calls."""

    made = []

    def __init__(self, total, desc, **settings):
        self.total, self.n, self.closed, self.settings = total, 0, False, settings
        self.said, self.numbers = [desc], {}
        self.made.append(self)

    def update(self, n):
        assert not self.closed
        self.n += n

    def set_description_str(self, text, refresh):
        self.said.append(text)

    def set_postfix(self, numbers, refresh):
        self.numbers = numbers

    def close(self):
        self.closed = True


@pytest.fixture
def bars(monkeypatch):
    auto = type(sys)("tqdm.auto")
    auto.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm", type(sys)("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", auto)
    monkeypatch.setattr(Bar, "made", [])
    return Bar.made


def test_it_shows_epochs_loss_and_scores(bars):
    clf = fitted(ProgressBar("mine"), early_stopping=True)
    (bar,) = bars
    assert bar.said[0] == "mine: epoch 0/6"
    assert bar.said[-1] == "mine: epoch 6/6"
    history = clf.history_
    assert bar.numbers == {
        name: f"{history[name][-1]:.4f}" for name in ("loss", "score", "validation_loss", "validation_score")
    }
    assert bar.n == bar.total
    assert bar.closed


def test_a_fit_that_is_stopped_leaves_the_bar_where_it_was(bars):
    clf = fitted(ProgressBar(), tol=10.0, n_iter_no_change=1)
    (bar,) = bars
    assert clf.n_iter_ < 6
    assert bar.n == clf.n_iter_ * bar.total / 6
    assert bar.closed
    fitted(ProgressBar(), TimeLimit(0.0))
    assert bars[1].n <= bars[1].total / 6


def test_rows_of_zero_weight_count_as_progress(bars):
    with unconverged():
        classifier(ProgressBar(), shuffle=False).fit(X, Y, np.arange(120) >= 32)
    assert bars[0].n == bars[0].total


def test_a_fit_that_fails_closes_it(bars):
    def fails(epoch, record):
        raise ZeroDivisionError

    from sknet.callbacks import PrintLog

    with pytest.raises(ZeroDivisionError):
        fitted(ProgressBar(), PrintLog(report=fails))
    assert bars[0].closed


ESTIMATORS = {
    "MLPClassifier": lambda **p: MLPClassifier((3,), max_iter=3, **p),
    "lbfgs": lambda **p: MLPClassifier((3,), max_iter=3, optimizer="lbfgs", **p),
    "NetClassifier": lambda **p: NetClassifier(nn.Linear(3, 1), max_iter=3, **p),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_verbose_is_the_bar(name, bars, capsys):
    with unconverged():
        clf = ESTIMATORS[name](verbose="bar").fit(X, Y)
    (bar,) = bars
    assert bar.said[-1] == f"epoch {clf.n_iter_}/3"
    assert bar.closed
    assert capsys.readouterr().out == ""
    assert clf.callbacks_ == []


def test_scikit_learns_signature_has_no_such_verbose():
    with pytest.raises(ValueError, match="The 'verbose' parameter of MLPClassifier must be"):
        neural_network.MLPClassifier(verbose="bar").fit(X, Y)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_it_is_silent_in_workers(backend, bars, capfd):
    import joblib

    search = GridSearchCV(classifier(ProgressBar()), {"alpha": [0.0, 0.1]}, cv=2, n_jobs=2, refit=False)
    with joblib.parallel_config(backend=backend), unconverged():
        search.fit(X, Y)
    assert bars == []
    assert "epoch" not in capfd.readouterr().err


def test_a_single_job_is_not_a_worker(bars):
    with unconverged():
        GridSearchCV(classifier(ProgressBar()), {"alpha": [0.0, 0.1]}, cv=2, refit=False).fit(X, Y)
    assert len(bars) == 4


def test_without_tqdm_it_says_what_to_install(monkeypatch):
    for module in ("tqdm", "tqdm.auto"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        ImportError,
        match=r'ProgressBar needs tqdm, which is not installed: pip install "scikit-neural\[progress\]"',
    ):
        fitted(ProgressBar())


def test_a_line_in_a_terminal(monkeypatch):
    pytest.importorskip("tqdm", reason="the bar needs tqdm")
    terminal = io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    with pytest.warns(ConvergenceWarning):
        classifier(ProgressBar()).fit(X, Y)
    text = terminal.getvalue()
    assert text.count("\n") == 1
    assert text.endswith("\n")
    last = text.rstrip("\n").split("\r")[-1]
    assert re.search(r"epoch 6/6 100%\|.*\| \d\d:\d\d<\d\d:\d\d, loss=\d\.\d{4}, score=\d\.\d{4}", last)
