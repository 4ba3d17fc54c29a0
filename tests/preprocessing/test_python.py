"""Encoders written as Python encode like the encoder, to the bit."""

import pathlib
import warnings

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
import scipy.sparse

import sknet
from sknet.exceptions import CaptureError
from tests.freezing.test_python import dense, module_of
from tests.fuzz.tables import drawn, harmed

N_CASES, MOST_REFUSED = 60, 15


def written(encoder, folder):
    path = folder / "written.py"
    sknet.freeze(encoder).to_python(path)
    return module_of(path)


def same(found, expected):
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
def test_random_tables(tmp_path):
    refused = compared = 0
    for seed in range(N_CASES):
        X, y = drawn(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pandas, about mixed columns
            try:
                encoder = sknet.TableEncoder(random_state=0).fit(X, y)
            except ValueError:
                continue  # nothing can be learned from it
            try:
                module = written(encoder, tmp_path)
            except CaptureError as error:
                assert "a level" in str(error)  # noqa: PT017
                refused += 1
                continue
            for table in (X, X[:1], harmed(X, seed)):
                same(module.transform(table), dense(encoder.transform(table)))
                compared += 1
    assert refused <= MOST_REFUSED
    assert compared > 2 * (N_CASES - MOST_REFUSED)


N = 40
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "size": np.where(RNG.random(N) < 0.2, np.nan, RNG.normal(size=N)),
        "when": pd.date_range("2024-01-01", periods=N, freq="31h"),
        "took": pd.to_timedelta(RNG.integers(0, 9, N), unit="h"),
        "city": RNG.choice(np.array(["Bern", "Oslo", None], dtype=object), N),
        "is_on": RNG.random(N) < 0.5,
        "floor": RNG.choice([1.5, np.inf, -np.inf], N),
    }
)
FRAME["floor"] = FRAME["floor"].astype("category")
Y = RNG.normal(size=N)


def test_containers(tmp_path):
    encoder = sknet.TableEncoder().fit(FRAME, Y)
    module, expected = written(encoder, tmp_path), encoder.transform(FRAME)
    columns = {name: FRAME[name].to_numpy() for name in FRAME}
    same(module.transform(FRAME[FRAME.columns[::-1]]), expected)
    same(module.transform(columns), expected)
    same(module.transform(FRAME.to_numpy(dtype=object).tolist()), expected)
    lists = {name: [None if x is pd.NaT or x != x else x for x in FRAME[name].tolist()] for name in FRAME}
    same(module.transform(lists), expected)
    same(module.transform(polars.DataFrame(lists, strict=False)), expected)


def test_time_zones_and_texts_are_dates(tmp_path):
    local = FRAME.assign(when=FRAME["when"].dt.tz_localize("Asia/Tokyo"))
    encoder = sknet.TableEncoder().fit(local, Y)
    module = written(encoder, tmp_path)
    same(module.transform(local), encoder.transform(local))
    for zone in ("Asia/Tokyo", "+09:00", "UTC"):
        other = pyarrow.Table.from_pandas(local.assign(when=local["when"].dt.tz_convert(zone)))
        same(module.transform(other), encoder.transform(local))
    texts = [x.isoformat() for x in local["when"].dt.tz_convert("UTC")]
    same(module.transform({**local, "when": texts}), encoder.transform(local))
    naive, texts = sknet.TableEncoder().fit(FRAME, Y), [str(x) for x in FRAME["when"]]
    same(written(naive, tmp_path).transform({**FRAME, "when": texts}), naive.transform(FRAME))


def test_periods_are_dates(tmp_path):
    several = FRAME.assign(when=pd.period_range("2024-01", periods=N, freq="M"))
    several.loc[3, "when"] = pd.NaT
    encoder = sknet.TableEncoder().fit(several, Y)
    same(written(encoder, tmp_path).transform(several), encoder.transform(several))


def test_sparse_matrices_are_arrays_in_the_file(tmp_path):
    X = np.where(RNG.random((N, 3)) < 0.6, 0.0, RNG.normal(size=(N, 3)))
    X[0, 0] = np.nan
    encoder = sknet.TableEncoder().fit(scipy.sparse.csr_array(X))
    module, expected = written(encoder, tmp_path), encoder.transform(scipy.sparse.csr_array(X)).toarray()
    for table in (X, scipy.sparse.csr_array(X), scipy.sparse.csc_matrix(X)):
        same(module.transform(table), expected)


def test_what_a_file_refuses(tmp_path):
    module = written(sknet.TableEncoder().fit(FRAME, Y), tmp_path)
    for wrong, message in (
        (FRAME.drop(columns="city"), "X has no column 'city': expected .*, got"),
        (FRAME.assign(size="big"), "column 'size': expected numbers, got 'big' in row 0"),
        (FRAME[:0], "at least one"),
    ):
        with pytest.raises(ValueError, match=message):
            module.transform(wrong)
    with pytest.raises(TypeError, match="column 'city': expected a string or a number, got \\[1\\] in row 1"):
        module.transform({**FRAME[:2], "city": np.array(["Bern", [1]], dtype=object)})
    times = pd.DataFrame({"at": [pathlib.PurePosixPath("a"), pathlib.PurePosixPath("b")] * 9})
    with pytest.raises(CaptureError, match=r"column 'at': a level PurePosixPath.* cannot be written"):
        written(sknet.TableEncoder().fit(times), tmp_path)


@pytest.mark.parametrize("fitted", ["numbers", "texts"])
def test_levels_of_another_type_are_told(fitted, tmp_path):
    codes = np.arange(40) % 4
    tables = {"numbers": codes.astype(object), "texts": np.array([f"{x}.0" for x in codes], dtype=object)}
    other = tables["texts" if fitted == "numbers" else "numbers"]
    encoder = sknet.TableEncoder(categorical_features=[0]).fit(tables[fitted][:, None])
    module = written(encoder, tmp_path)
    for rows in (slice(None), slice(1)):
        with pytest.warns(UserWarning, match="column 0: all levels are unseen, since they are") as told:
            encoder.transform(other[rows, None])
        with pytest.warns(UserWarning, match="column 0: all levels are unseen") as here:
            module.transform(other[rows, None])
        assert str(here[0].message) == str(told[0].message)
        module.transform(tables[fitted][rows, None])
    module.transform(np.array([[9 if fitted == "numbers" else "9"]], dtype=object))
