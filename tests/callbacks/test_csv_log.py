"""The file holds the history, whatever happens to the fit."""

import pandas as pd
import pytest

from sknet.callbacks import Callback, CSVLog, EpochScoring
from sknet.exceptions import CallbackWarning
from tests.callbacks.helpers import X, Y, classifier, fitted, unconverged


def assert_is_history(path, history):
    table = pd.read_csv(path)
    assert list(table.columns) == ["epoch", *history]
    assert table["epoch"].tolist() == list(range(1, history.n_epochs + 1))
    pd.testing.assert_frame_equal(table.drop(columns="epoch"), pd.DataFrame(dict(history)), check_exact=True)


@pytest.mark.parametrize("early_stopping", [False, True])
def test_the_file_is_the_history(early_stopping, tmp_path):
    path = tmp_path / "fit.csv"
    clf = fitted(CSVLog(path), early_stopping=early_stopping)
    assert_is_history(path, clf.history_)


def test_columns_that_come_later(tmp_path):
    path = str(tmp_path / "fit.csv")
    clf = fitted(CSVLog(path), EpochScoring("accuracy", on="training", every=4))
    assert_is_history(path, clf.history_)


def test_it_is_written_after_every_epoch(tmp_path):
    path, lines = tmp_path / "fit.csv", []

    class Reading(Callback):
        order = 2

        def on_epoch_end(self, fit):
            lines.append(len(path.read_text().splitlines()))

    fitted(CSVLog(path), Reading())
    assert lines == [2, 3, 4, 5, 6, 7]


def test_a_continued_fit_continues_the_table(tmp_path):
    clf = classifier(CSVLog(tmp_path / "fit.csv"), warm_start=True, max_iter=2)
    with unconverged():
        clf.fit(X, Y).fit(X, Y)
        assert_is_history(tmp_path / "fit.csv", clf.history_)
        for _ in range(2):
            clf.partial_fit(X, Y)
    assert clf.history_.n_epochs == 6
    assert_is_history(tmp_path / "fit.csv", clf.history_)


def test_a_new_fit_overwrites_the_file(tmp_path):
    clf = classifier(CSVLog(tmp_path / "fit.csv"))
    with unconverged():
        clf.fit(X, Y)
        clf.set_params(max_iter=2).fit(X, Y)
    assert_is_history(tmp_path / "fit.csv", clf.history_)


def test_a_file_that_cannot_be_written_does_not_cost_the_fit(tmp_path):
    with pytest.raises(FileNotFoundError):
        fitted(CSVLog(tmp_path / "no" / "fit.csv"))

    class Removing(Callback):
        def on_epoch_end(self, fit):
            if fit.epoch == 3:
                (tmp_path / "fit").rename(tmp_path / "gone")

    (tmp_path / "fit").mkdir()
    with pytest.warns(CallbackWarning, match="CSVLog.on_epoch_end raised .*after 3 whole epochs"):
        clf = fitted(Removing(), CSVLog(tmp_path / "fit" / "fit.csv"))
    assert clf.n_iter_ == 3
    assert clf.predict(X).shape == Y.shape
