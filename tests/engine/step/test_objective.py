"""The loss of held-out rows in parts: a weighted mean, as for all rows at once."""

import numpy as np
import pytest

from sknet import Model, nn
from sknet.engine import Accuracy, Batches
from sknet.engine.extend import Validation
from sknet.losses import LogLoss

W = [0.2, 3.0, 1.0]
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", [LogLoss(class_weight=W), LogLoss(ignore_index=2), LogLoss()], ids=str)
def test_held_out_rows_in_parts(loss, weighted):
    X, y = RNG.normal(size=(30, 4)), np.repeat([0, 2, 1], 10)
    weight = RNG.uniform(0.1, 2, 30) if weighted else None
    model = Model(nn.Linear(4, 3), loss, dtype="float64", random_state=0)
    found = [
        Validation(Batches(X, y, weight, size, model.dtype, model.device), Accuracy).evaluate(model)["loss"]
        for size in (30, 7, 1)
    ]
    np.testing.assert_allclose(found, model.loss(model(X), y, weight).item(), rtol=1e-12)
