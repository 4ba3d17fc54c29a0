"""Rows that are encoded when they are read, compared with arrays of encoded rows."""

import numpy as np
import pandas as pd
import pytest

from sknet.losses import LogLoss
from sknet.preprocessing import TableEncoder
from sknet.tabular._members import setting_of
from sknet.tabular._rows import MOST_BYTES, EncodedRows, encoded_rows
from sknet.tabular._training import Rows, train_member


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 2500
    X = pd.DataFrame(
        {"a": rng.normal(size=n), "b": rng.integers(0, 60, n).astype(str), "c": rng.integers(0, 9, n)}
    )
    y = (X["a"] * (X["c"] - 4) > 0).to_numpy().astype(int)
    encoder = TableEncoder(sparse_output=False, random_state=0)
    expected = encoder.fit_transform(X, y)
    read = encoder.read(X)
    fitted = {0: expected[:, encoder.get_feature_names_out().tolist().index("b_target")][:, np.newaxis]}
    return encoder, read, fitted, expected, y


def test_any_rows_are_those_of_the_array(table):
    encoder, read, fitted, expected, _ = table
    rows = EncodedRows(encoder, read, fitted)
    assert (rows.shape, rows.dtype, rows.ndim, len(rows)) == (
        expected.shape,
        expected.dtype,
        2,
        len(expected),
    )
    for chosen in (slice(3, 900), np.array([5, 5, 2, 2499]), np.array([7]), slice(0, 0)):
        np.testing.assert_array_equal(rows[chosen], expected[chosen])
    chosen, out = np.array([9, 1, 1]), np.empty((3, expected.shape[1]), "float32")
    np.testing.assert_array_equal(rows.take(chosen, axis=0), expected[chosen])
    rows.take(chosen, axis=0, out=out, mode="clip")
    np.testing.assert_array_equal(out, expected[chosen])


@pytest.mark.parametrize("kind", ["smooth", "sharp"])
def test_members_are_those_of_the_array(table, kind):
    encoder, read, fitted, expected, y = table
    setting = setting_of(kind, "auto", "binary", len(y), 1).times(0.2)
    members = []
    for X in (expected, EncodedRows(encoder, read, fitted)):
        training = Rows(X, y[:, np.newaxis].astype("float32"), None)
        held_out = Rows(X[:50], training.y[:50], None)
        members.append(train_member(setting, training, held_out, LogLoss(), 1, seed=3)[0])
    for one, other in zip(*(model.module.parameters() for model in members), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_large_tables_are_encoded_when_they_are_read():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1000, 40)), rng.integers(0, 2, 1000)
    encoder = TableEncoder(sparse_output=False).fit(X, y)
    few, many = encoder.read(X), encoder.read(np.tile(X, (60, 1)))
    assert isinstance(encoded_rows(encoder, few), np.ndarray)
    assert many.n_rows * encoder.n_features_out_ * 4 > MOST_BYTES
    assert isinstance(encoded_rows(encoder, many), EncodedRows)
    encoder.set_params(sparse_output=True)
    assert not isinstance(encoded_rows(encoder, few), EncodedRows)
