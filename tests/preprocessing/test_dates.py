"""Dates, compared with the calendar of the standard library."""

import datetime
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sknet.preprocessing import TableEncoder


def stamps(n=400, seconds=3_600 * 7):
    start = datetime.datetime(2023, 1, 30, 22, 15)
    return [start + datetime.timedelta(seconds=i * seconds) for i in range(n)]


def turn(share):
    return [math.sin(2 * math.pi * share), math.cos(2 * math.pi * share)]


def by_hand(t):
    day = (t.hour * 3600 + t.minute * 60 + t.second) / 86400
    following = datetime.datetime(t.year + t.month // 12, t.month % 12 + 1, 1)
    first = datetime.datetime(t.year, t.month, 1)
    new_year, next_year = datetime.datetime(t.year, 1, 1), datetime.datetime(t.year + 1, 1, 1)
    shares = [
        day,
        (t.weekday() + day) / 7,
        (t - first) / (following - first),
        (t - new_year) / (next_year - new_year),
    ]
    return [part for share in shares for part in turn(share)]


NAMES = [f"t_{period}_{part}" for period in ("day", "week", "month", "year") for part in ("sin", "cos")]


@pytest.mark.parametrize(
    "frame",
    [
        lambda t: pd.DataFrame({"t": pd.Series(t)}),
        lambda t: pd.DataFrame({"t": pd.Series(t, dtype="datetime64[s]")}),
        lambda t: pd.DataFrame({"t": pd.Series(t).dt.tz_localize("Asia/Tokyo")}),
        lambda t: pl.DataFrame({"t": t}),
    ],
    ids=["pandas", "seconds", "zone", "polars"],
)
def test_periods(frame):
    t = stamps()
    X = frame(t)
    encoder = TableEncoder(piecewise=None, dtype="float64").fit(X)
    assert encoder.get_feature_names_out().tolist() == ["t", *NAMES]
    found = encoder.transform(X)
    np.testing.assert_allclose(found[:, 1:], [by_hand(each) for each in t], atol=1e-9)
    assert (np.diff(found[:, 0]) > 0).all()
    np.testing.assert_allclose(encoder.transform(X[:1]), found[:1], rtol=0, atol=0)


def test_an_array_of_dates():
    t = np.array(stamps(), dtype="datetime64[ns]").reshape(-1, 1)
    found = TableEncoder(piecewise=None, dtype="float64").fit_transform(t)
    np.testing.assert_allclose(found[:, 1:], [by_hand(each) for each in stamps()], atol=1e-9)


@pytest.mark.parametrize(
    ("seconds", "periods"),
    [(86400, {"week", "month", "year"}), (60, {"day"}), (7 * 86400, {"month", "year"})],
)
def test_only_informative_periods(seconds, periods):
    X = pd.DataFrame({"t": stamps(n=400, seconds=seconds)})
    names = TableEncoder(piecewise=None).fit(X).get_feature_names_out()
    assert {name.split("_")[1] for name in names[1:]} == periods


def test_missing_dates_have_a_flag_and_no_phase():
    t = [None if i % 10 == 0 else x for i, x in enumerate(stamps())]
    X = pd.DataFrame({"t": pd.Series(t, dtype="datetime64[ns]")})
    encoder = TableEncoder(piecewise=None).fit(X)
    assert encoder.get_feature_names_out().tolist() == ["t", *NAMES, "t_missing"]
    assert encoder.transform(X)[0].tolist() == [0.0] * 9 + [1.0]


def test_elapsed_time_is_a_number():
    delta = pd.to_timedelta(np.arange(50.0) ** 2, unit="s")
    numbers = TableEncoder().fit(np.arange(50.0).reshape(-1, 1) ** 2)
    encoder = TableEncoder().fit(pd.DataFrame({"d": delta}))
    X = pd.DataFrame({"d": delta})
    np.testing.assert_array_equal(
        encoder.transform(X), numbers.transform(np.arange(50.0).reshape(-1, 1) ** 2)
    )
    np.testing.assert_array_equal(encoder.transform(X[7:8]), encoder.transform(X)[7:8])
