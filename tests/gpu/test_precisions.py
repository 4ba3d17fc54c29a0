"""Fits in tf32 and bfloat16 on a GPU, which may round by rules of its own: near what they are by hand."""

import numpy as np
import pytest

from sknet import MLPClassifier
from sknet.device import Device
from tests.engine.precisions import FITTING, PRECISIONS, by_hand, host, model_on, rows
from tests.estimators.data import TABLES, quiet

pytestmark = pytest.mark.gpu

CUDA = Device("cuda")
X, Y = rows()
TOLERANCES = {"float32": 1e-5, "tf32": 5e-4, "bfloat16": 1e-2}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_fit(precision):
    model = model_on(CUDA, precision)
    start = host(model)
    model.fit(X, Y, epochs=4, **FITTING)
    found, expected = host(model), by_hand(start, "float32", 4)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=0, atol=TOLERANCES[precision])
    if precision != "float32":
        assert abs(found["0.weight"] - expected["0.weight"]).max() > 1e-6


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_scores_are_those_of_float32(dtype):
    X, y = TABLES["multiclass"]
    with quiet():
        here, there = (
            MLPClassifier((64,), device=device, dtype=each, max_iter=20, batch_size=32, random_state=0).fit(
                X, y
            )
            for device, each in (("cpu", "float32"), ("cuda", dtype))
        )
    assert abs(here.score(X, y) - there.score(X, y)) < 0.03
    assert np.abs(here.predict_proba(X) - there.predict_proba(X)).max() < 0.1
