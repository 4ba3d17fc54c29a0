"""Time zones: dates are the local times of the zone that their column had in the fit, in every container."""

import datetime
import re
import warnings
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sknet
from sknet.persistence import read_any, write
from tests.estimators.data import quiet
from tests.files.test_fields import edited, put
from tests.freezing.test_python import module_of

ZONE = "Europe/Berlin"
N = 60
# Through both changes of the clocks, hour by hour, and some days apart.
UTC = [
    *(datetime.datetime(2024, 3, 31, 0) + datetime.timedelta(hours=i) for i in range(6)),
    *(datetime.datetime(2024, 10, 26, 22) + datetime.timedelta(hours=i) for i in range(6)),
    *(datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=131 * i) for i in range(N - 12)),
]
AWARE = [t.replace(tzinfo=datetime.UTC).astimezone(ZoneInfo(ZONE)) for t in UTC]
SIZE = np.random.default_rng(0).normal(size=N)
FRAME = pd.DataFrame({"when": pd.Series(AWARE).astype(f"datetime64[us, {ZONE}]"), "size": SIZE})
LABELS = np.array([t.hour > 11 for t in AWARE]).astype(int)


def objects(values):
    found = np.empty((N, 2), dtype=object)
    found[:, 0], found[:, 1] = values, SIZE
    return found


def frame(when):
    return pd.DataFrame({"when": when, "size": SIZE})


def as_objects(zone):
    return [t.astimezone(zone) for t in AWARE]


TOKYO, WEST = ZoneInfo("Asia/Tokyo"), datetime.timezone(datetime.timedelta(hours=-3))
SEVERAL = [*as_objects(TOKYO)[:9], *AWARE[9:]]
# Whether the dates have the zone of the fit, and a table.
CONTAINERS = {
    "pandas in s": (True, lambda: frame(FRAME["when"].astype(f"datetime64[s, {ZONE}]"))),
    "pandas in ms": (True, lambda: frame(FRAME["when"].astype(f"datetime64[ms, {ZONE}]"))),
    "pandas in ns": (True, lambda: frame(FRAME["when"].astype(f"datetime64[ns, {ZONE}]"))),
    "pandas, UTC": (False, lambda: frame(FRAME["when"].dt.tz_convert("UTC"))),
    "pandas, Tokyo": (False, lambda: frame(FRAME["when"].dt.tz_convert("Asia/Tokyo"))),
    "pandas, an offset": (False, lambda: frame(FRAME["when"].dt.tz_convert(WEST))),
    "pandas of Arrow": (True, lambda: frame(FRAME["when"].astype(pd.ArrowDtype(pa.timestamp("us", ZONE))))),
    "pandas of Arrow, UTC": (
        False,
        lambda: frame(FRAME["when"].astype(pd.ArrowDtype(pa.timestamp("us", "UTC")))),
    ),
    "objects": (True, lambda: frame(FRAME["when"].astype(object))),
    "objects of datetime": (True, lambda: frame(pd.Series(AWARE, dtype=object))),
    "objects in several zones": (False, lambda: frame(pd.Series(SEVERAL, dtype=object))),
    "texts": (
        False,
        lambda: frame(pd.Series([t.isoformat() for t in as_objects(datetime.UTC)], dtype=object)),
    ),
    "records": (True, lambda: pd.DataFrame(FRAME.to_dict("records"))),
    "Arrow": (True, lambda: pa.Table.from_pandas(FRAME)),
    "Arrow, UTC": (False, lambda: pa.Table.from_pandas(frame(FRAME["when"].dt.tz_convert("UTC")))),
    "polars": (True, lambda: polars_frame(AWARE)),
    "polars, UTC": (False, lambda: polars_frame(as_objects(datetime.UTC))),
    "polars in ms": (
        True,
        lambda: polars_frame(AWARE).with_columns(pl.col("when").dt.cast_time_unit("ms")),
    ),
}


def polars_frame(when):
    return pl.DataFrame({"when": when, "size": SIZE})


def classifier(X):
    clf = sknet.MLPClassifier((8,), encoder="table", max_iter=5, random_state=0)
    with quiet():
        return clf.fit(X, LABELS)


def by_hand(t):
    seconds = t.hour * 3600 + t.minute * 60
    return np.sin(2 * np.pi * seconds / 86400), np.cos(2 * np.pi * (seconds / 86400 + t.weekday()) / 7)


@pytest.mark.parametrize("container", CONTAINERS)
def test_dates_are_local_times_in_every_container(container):
    has_zone, make = CONTAINERS[container]
    X = make()
    encoder = sknet.TableEncoder(piecewise=None, dtype="float64").fit(FRAME)
    expected = encoder.transform(FRAME)
    names = encoder.get_feature_names_out().tolist()
    places = [names.index("when_day_sin"), names.index("when_week_cos")]
    np.testing.assert_allclose(expected[:, places], [by_hand(t) for t in AWARE], atol=1e-9)
    np.testing.assert_array_equal(encoder.transform(X), expected)
    if has_zone:
        again = sknet.TableEncoder(piecewise=None, dtype="float64").fit(X)
        np.testing.assert_array_equal(again.transform(FRAME), expected)


@pytest.mark.slow
@pytest.mark.parametrize("container", CONTAINERS)
def test_predictors_files_and_python(container, tmp_path):
    clf = classifier(FRAME)
    expected = clf.predict_proba(FRAME)
    X = CONTAINERS[container][1]()
    sknet.save(clf, tmp_path / "saved")
    frozen = clf.freeze()
    for each in (clf, frozen, sknet.load(tmp_path / "saved")):
        np.testing.assert_array_equal(each.predict_proba(X), expected)
    frozen.to_python(tmp_path / "written.py")
    module = module_of(tmp_path / "written.py")
    if not container.startswith("Arrow"):  # files read arrays, lists of rows, frames and dicts
        np.testing.assert_allclose(module.predict_proba(X), expected, rtol=1e-6)
        np.testing.assert_allclose(
            module.predict_proba({n: X[n] for n in ("when", "size")}), expected, rtol=1e-6
        )
    rows = [list(row) for row in zip(as_objects(TOKYO), SIZE.tolist(), strict=True)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows have no names
        for each in (clf, frozen, module):
            np.testing.assert_allclose(each.predict_proba(rows[:1]), expected[:1], rtol=1e-6)
            np.testing.assert_allclose(each.predict_proba(rows), expected, rtol=1e-6)


def test_arrays_of_objects_have_dates_and_a_zone():
    X = objects(AWARE)
    encoder = sknet.TableEncoder(piecewise=None, dtype="float64").fit(X)
    assert "x0_day_sin" in encoder.get_feature_names_out().tolist()
    expected = sknet.TableEncoder(piecewise=None, dtype="float64").fit(FRAME).transform(FRAME)
    np.testing.assert_array_equal(encoder.transform(X), expected)
    np.testing.assert_array_equal(encoder.transform(objects(as_objects(datetime.UTC))), expected)
    naive = objects([t.replace(tzinfo=None) for t in AWARE])
    encoder = sknet.TableEncoder(piecewise=None, dtype="float64").fit(naive)
    np.testing.assert_array_equal(encoder.transform(naive), expected)


def test_a_zone_that_is_a_distance_from_utc(tmp_path):
    distance = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
    X = frame(pd.Series(as_objects(distance)))
    clf = classifier(X)
    sknet.save(clf, tmp_path / "saved")
    clf.freeze().to_python(tmp_path / "written.py")
    for each in (clf, sknet.load(tmp_path / "saved"), module_of(tmp_path / "written.py")):
        np.testing.assert_allclose(each.predict_proba(FRAME), clf.predict_proba(X), rtol=1e-6)


def test_mixtures_are_errors(tmp_path):
    naive = FRAME.assign(when=FRAME["when"].dt.tz_localize(None))
    for fitted, other, message in (
        (
            FRAME,
            naive,
            r"column 'when': the dates of the fit have the time zone 'Europe/Berlin', got .* row 0",
        ),
        (naive, FRAME, r"column 'when': the dates of the fit have no time zone, got .* of 'Europe/Berlin'"),
    ):
        clf = classifier(fitted)
        clf.freeze().to_python(tmp_path / "written.py")
        module = module_of(tmp_path / "written.py")
        polars = pl.from_pandas(other)
        for each in (clf, clf.freeze(), module):
            for X in (other, other.astype(object), polars, other[:1]):
                with pytest.raises(ValueError, match=message):
                    each.predict(X)
        nothing = [X.assign(when=pd.Series([pd.NaT] * N, dtype=X["when"].dtype)) for X in (fitted, other)]
        np.testing.assert_array_equal(*map(clf.predict, nothing))
    mixed = frame(pd.Series([*AWARE[:5], *naive["when"][5:]], dtype=object))
    several = frame(pd.Series([*as_objects(datetime.UTC)[:5], *AWARE[5:]], dtype=object))
    for X in (mixed, several):
        with pytest.raises(
            ValueError, match="column 'when': all dates must have one time zone, or none, got"
        ):
            sknet.TableEncoder().fit(X)
    with pytest.raises(ValueError, match=r"the dates of the fit have the time zone .* in row 5"):
        sknet.TableEncoder().fit(FRAME).transform(mixed)


class Nameless(datetime.tzinfo):
    def utcoffset(self, when):
        return None if when is None else datetime.timedelta(hours=1)

    def dst(self, when):
        return None


def test_zones_that_cannot_be_stored_or_found():
    X = frame(pd.Series([t.replace(tzinfo=Nameless()) for t in AWARE], dtype=object))
    with pytest.raises(ValueError, match=r"column 'when': the time zone .* has no name by which it could be"):
        sknet.TableEncoder().fit(X)


@pytest.mark.parametrize("zone", ["UTC+99:99", "UTC+", "Asia", "Nowhere/City", "/etc/passwd", "a\0b"])
def test_zones_that_a_file_names_and_nobody_knows(zone, tmp_path):
    sknet.save(sknet.TableEncoder().fit(FRAME[["when"]]), tmp_path / "it")
    kind, document = read_any(tmp_path / "it")
    write(tmp_path / "it", edited(document, "Feature", put(["zone"], zone)), kind)
    encoder = sknet.load(tmp_path / "it")  # the zone may be known elsewhere
    with pytest.raises(ValueError, match=f"the time zone {re.escape(repr(zone))} is not known here: install"):
        encoder.transform(FRAME[["when"]])


def test_texts_with_a_zone_that_nobody_understands():
    encoder = sknet.TableEncoder().fit(FRAME)
    X = frame(pd.Series(["2024-13-01T10:00:00+01:00"] * N, dtype=object))
    with pytest.raises(TypeError, match="column 'when': expected dates, as in the fit, got '2024-13"):
        encoder.transform(X)
