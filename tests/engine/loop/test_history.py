"""The history of a fit."""

import pickle
import sys
from html.parser import HTMLParser
from types import ModuleType

import pandas
import pytest

from sknet.engine import History


def filled():
    history = History()
    for loss in (0.5, 0.25):
        history.append(loss=loss, time=1.0)
    return history


def test_it_is_a_mapping_of_lists():
    history = filled()
    assert dict(history) == {"loss": [0.5, 0.25], "time": [1.0, 1.0]}
    assert history.get("score") is None
    assert len(history) == 2
    assert len(History()) == 0


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("val_loss", r"Did you mean 'validation_loss' or 'loss'\?"),
        ("los", "Did you mean 'loss'"),
        ("accuracy", "Its columns are 'loss', 'validation_loss'"),
        (-1, "Its columns are 'loss', 'validation_loss'"),
    ],
)
def test_an_unknown_column_names_those_that_are_known(name, hint):
    history = History({"loss": [1.0], "validation_loss": [2.0]})
    with pytest.raises(KeyError, match=rf"a history has no column {name!r}\. {hint}"):
        history[name]
    assert name not in history


def test_a_copy_goes_its_own_way():
    history = filled()
    copy = history.copy()
    copy.append(loss=0.1, time=1.0)
    assert history["loss"] == [0.5, 0.25]
    assert pickle.loads(pickle.dumps(copy))["loss"] == [0.5, 0.25, 0.1]


def of_epochs(n):
    history = History()
    for epoch in range(n):
        history.append(loss=0.5**epoch, lr=0.1)
    return history


def test_repr_is_a_table():
    assert repr(filled()) == ("History of 2 epochs\nepoch  loss  time\n    1   0.5     1\n    2  0.25     1")
    assert repr(of_epochs(1)).startswith("History of 1 epoch\n")
    assert repr(History()) == "History of 0 epochs"


@pytest.mark.parametrize("n", [1, 9, 10, 11, 500])
def test_a_long_history_shows_its_beginning_and_end(n):
    lines = repr(of_epochs(n)).splitlines()[2:]
    shown = [line.split()[0] for line in lines]
    everything = [str(epoch) for epoch in range(1, n + 1)]
    assert shown == (everything if n <= 10 else [*everything[:5], "...", *everything[-5:]])


class Cells(HTMLParser):
    """Collects the cells of a table, row by row."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.open = [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] in ("td", "th"):
            self.rows[-1].append(data)


@pytest.mark.parametrize("n", [0, 1, 10, 25])
def test_notebooks_show_the_same_table(n):
    history = of_epochs(n)
    if n:
        history["a < b"] = [1.0] * n
    found = Cells(history._repr_html_()).rows
    if n:
        table = repr(history).replace("a < b", "a_<_b").splitlines()[1:]
        assert [[cell.replace(" ", "_") for cell in row] for row in found] == [line.split() for line in table]
    assert f"<caption>History of {n} epoch" in history._repr_html_()


# -- frames ----------------------------------------------------------------------------------------------


def test_pandas():
    frame = filled().to_frame("pandas")
    assert list(frame.columns) == ["loss", "time"]
    assert list(frame.index) == [1, 2]
    assert frame.index.name == "epoch"
    assert frame["loss"].tolist() == [0.5, 0.25]
    assert len(History().to_frame("pandas")) == 0


class Polars(ModuleType):
    """Takes columns by name, like `polars.DataFrame`."""

    @staticmethod
    def DataFrame(columns):  # noqa: N802  as in polars
        assert all(isinstance(name, str) and type(values) is list for name, values in columns.items())
        return columns


def test_polars(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", Polars("polars"))
    frame = filled().to_frame("polars")
    assert frame == {"epoch": [1, 2], "loss": [0.5, 0.25], "time": [1.0, 1.0]}


def test_the_library_is_the_one_that_is_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", Polars("polars"))
    assert isinstance(filled().to_frame(), pandas.DataFrame)
    monkeypatch.setitem(sys.modules, "pandas", None)  # an import of it fails
    assert isinstance(filled().to_frame(), dict)
    with pytest.raises(ImportError, match="to_frame needs pandas, which is not installed: pip"):
        filled().to_frame("pandas")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="to_frame needs pandas or polars"):
        filled().to_frame()
    with pytest.raises(ValueError, match=r"library must be 'pandas', 'polars' or None\. Got 'dask' instead"):
        filled().to_frame("dask")
