"""The curves written for TensorBoard."""

import sys

import pytest
from sklearn.base import clone

from sknet.callbacks import TensorBoardLog
from sknet.exceptions import CallbackWarning
from tests.callbacks.helpers import X, Y, classifier, fitted, unconverged


class Writer:
    """Stands in for a SummaryWriter."""

    made = []

    def __init__(self, log_dir=None):
        self.log_dir, self.scalars, self.flushed, self.closed = log_dir, [], 0, 0
        self.made.append(self)

    def add_scalar(self, name, value, step):
        self.scalars.append((name, value, step))

    def flush(self):
        self.flushed += 1

    def close(self):
        self.closed += 1


def curves(history):
    return {(name, value, i + 1) for name, values in history.items() for i, value in enumerate(values)}


def test_every_number_is_a_curve():
    writer = Writer()
    clf = fitted(TensorBoardLog(writer=writer), early_stopping=True)
    assert set(writer.scalars) == curves(clf.history_)
    assert (writer.flushed, writer.closed) == (6, 0)


def test_a_continued_fit_continues_the_curves():
    writer = Writer()
    clf = classifier(TensorBoardLog(writer=writer))
    with unconverged():
        for _ in range(3):
            clf.partial_fit(X, Y, classes=["no", "yes"])
    assert set(writer.scalars) == curves(clf.history_)


def test_a_writer_is_shared_by_clones():
    log = TensorBoardLog(writer=Writer())
    assert clone(log).writer is log.writer
    assert clone(classifier(log)).callbacks[0].writer is log.writer


def test_a_folder_has_its_own_writer(monkeypatch, tmp_path):
    module = type(sys)("tensorboardX")
    module.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "tensorboardX", module)
    monkeypatch.setattr(Writer, "made", [])
    clf = fitted(TensorBoardLog(tmp_path))
    (writer,) = Writer.made
    assert writer.log_dir == str(tmp_path)
    assert set(writer.scalars) == curves(clf.history_)
    assert writer.closed == 1


def test_a_writer_that_fails_does_not_cost_the_fit():
    class Full(Writer):
        def add_scalar(self, name, value, step):
            raise OSError("no space left")

    with pytest.warns(CallbackWarning, match="TensorBoardLog.on_epoch_end raised OSError.* learned is kept"):
        clf = fitted(TensorBoardLog(writer=Full()))
    assert clf.n_iter_ == 1


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    message = (
        r'TensorBoardLog without a writer needs tensorboardX, .*: pip install "scikit-neural\[tensorboard\]"'
    )
    with pytest.raises(ImportError, match=message):
        fitted(TensorBoardLog())


def test_the_real_one(tmp_path):
    pytest.importorskip("tensorboardX", reason="TensorBoardLog needs tensorboardX")
    fitted(TensorBoardLog(tmp_path))
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    assert file.name.startswith("events.out.tfevents")
    for name in (b"loss", b"score", b"lr", b"time"):
        assert content.count(name) >= 6
