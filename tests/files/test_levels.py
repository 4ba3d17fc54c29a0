"""Levels of categories in files: texts, numbers, and dates, times, spans and bytes."""

import datetime

import numpy as np
import pandas as pd
import pytest

import sknet
from sknet.exceptions import LoadError
from tests.fuzz.layout import apart, together

DAY = datetime.date(2024, 2, 29)
NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 7)
ZONE = datetime.timezone(datetime.timedelta(hours=-3, minutes=-30))
LEVELS = {
    "dates": [DAY, DAY + datetime.timedelta(1)],
    "old dates": [datetime.date.min, datetime.date.max],
    "moments": [NOON, NOON.replace(year=4)],
    "moments of zones": [NOON.replace(tzinfo=ZONE), NOON.replace(tzinfo=datetime.UTC)],
    "times": [datetime.time(1, 2, 3, 4), datetime.time(1, tzinfo=ZONE)],
    "spans": [datetime.timedelta(-1, 2, 3), datetime.timedelta.max],
    "bytes": [b"", b"a\x00\xff"],
    "stamps of pandas": [pd.Timestamp(NOON), pd.Timestamp("2024-01-01", tz="Asia/Tokyo")],
    "spans of pandas": [pd.Timedelta("1 day"), pd.Timedelta("-3us")],
}


PLAIN = {  # which the first version of documents holds
    "tuples": [(), (1, ("a", None))],
    "sets": [frozenset({1, None}), frozenset()],
    "ranges": [range(2), ...],
}


@pytest.mark.parametrize("include", ["all", "predict"])
@pytest.mark.parametrize("name", [*LEVELS, *PLAIN])
def test_levels_come_back(name, include, tmp_path):
    column = pd.Series([*(LEVELS | PLAIN)[name], "text", 1.5] * 10, dtype=object)
    rows = pd.DataFrame({"level": column, "number": np.arange(40.0)})
    encoder = sknet.TableEncoder(random_state=0).fit(rows, np.arange(40) % 4)
    sknet.save(encoder, tmp_path / "it", include)
    assert apart((tmp_path / "it").read_bytes())[1]["schema"] == (1 if name in PLAIN else 2)
    found = sknet.load(tmp_path / "it")
    np.testing.assert_array_equal(found.transform(rows), encoder.transform(rows))
    others = rows.assign(level="new")
    assert (found.transform(rows) != found.transform(others)).any(axis=1).all()


def test_documents_without_them_have_the_former_version(tmp_path):
    rows = pd.DataFrame({"level": ["a", "b"] * 20})
    sknet.save(sknet.TableEncoder().fit(rows, np.arange(40) % 2), tmp_path / "it")
    assert apart((tmp_path / "it").read_bytes())[1]["schema"] == 1


def test_intervals_are_refused_and_can_be_texts(tmp_path):
    rows = pd.DataFrame({"level": pd.cut(np.arange(40.0), 4)})
    encoder = sknet.TableEncoder(sparse_output=False).fit(rows, np.arange(40) % 2)
    with pytest.raises(TypeError, match=r"levels\[0\]: objects of class Interval .* as by .astype\(str\)"):
        sknet.save(encoder, tmp_path / "it")
    encoder.fit(rows.astype(str), np.arange(40) % 2)
    sknet.save(encoder, tmp_path / "it")
    found = sknet.load(tmp_path / "it").transform(rows.astype(str))
    np.testing.assert_array_equal(found, encoder.transform(rows.astype(str)))


def test_what_is_finer_than_microseconds_is_refused(tmp_path):
    column = pd.Series([pd.Timestamp(2024, 1, 1, nanosecond=i % 2 + 1) for i in range(40)], dtype="category")
    encoder = sknet.TableEncoder().fit(pd.DataFrame({"level": column}), np.arange(40) % 2)
    with pytest.raises(
        TypeError, match=r"levels\[0\] is Timestamp\(.* which a file cannot hold: it is missing, or"
    ):
        sknet.save(encoder, tmp_path / "it")
    assert not list(tmp_path.iterdir())


WRONG = [
    *(
        {"date": "2024-02-30"},
        {"date": 5},
        {"datetime": "noon"},
        {"time": "25:00"},
        {"bytes": "0"},
        {"bytes": [1]},
    ),
    *({"timedelta": [10**12, 0, 0]}, {"timedelta": ["x"]}, {"timedelta": 3}, {"timedelta": [0] * 9}),
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_wrong_ones_are_refused(wrong, tmp_path):
    rows = pd.DataFrame({"level": [DAY, "a"] * 20})
    sknet.save(sknet.TableEncoder().fit(rows, np.arange(40) % 2), tmp_path / "it")
    header, document, arrays = apart((tmp_path / "it").read_bytes())
    text = str(document).replace("{'date': '2024-02-29'}", str(wrong))
    assert text != str(document)
    (tmp_path / "it").write_bytes(together(header, eval(text), arrays))
    with pytest.raises(LoadError, match="cannot be loaded"):
        sknet.load(tmp_path / "it")
