"""A single row is encoded as it is among other rows, by one encoder or by several at once."""

import numpy as np
import pytest

from sknet.preprocessing import TableEncoder
from sknet.preprocessing.extend import OneRow, Schema, fit_encoder
from tests.fuzz.tables import drawn, harmed


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_several_encoders_at_once(dtype):
    compared = 0
    for seed in range(40):
        rows, _ = drawn(seed)
        kinds = [
            TableEncoder(n_bins=4),
            TableEncoder(piecewise=None, min_count=1),
            TableEncoder(max_levels=2),
        ]
        owner = TableEncoder()
        schema, table = Schema.learn(owner, rows, "from_dtype")
        try:
            fitted = [
                fit_encoder(kind, owner, schema, table, None, np.random.RandomState(0))[0] for kind in kinds
            ]
        except ValueError:
            continue
        together = OneRow([encoder.plan for encoder in fitted])
        for frame in (rows, harmed(rows, seed)):
            read = fitted[0].read(frame)
            expected = np.concatenate([encoder.plan.dense(read, dtype) for encoder in fitted], axis=1)
            for i in range(3):
                found = together(read.take([i]), dtype)
                assert found.dtype == dtype
                np.testing.assert_array_equal(found, expected[i : i + 1])
                compared += 1
    assert compared > 150
