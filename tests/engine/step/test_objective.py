"""The loss of held-out rows in parts: a weighted mean, as for all rows at once."""

import numpy as np
import pytest

from sknet import Model, nn
from sknet.engine import compiled_step
from sknet.losses import LogLoss
from sknet.optim import SGD

W = [0.2, 3.0, 1.0]
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", [LogLoss(class_weight=W), LogLoss(ignore_index=2), LogLoss()], ids=str)
def test_held_out_rows_in_parts(loss, weighted):
    X, y = RNG.normal(size=(30, 4)), np.repeat([0, 2, 1], 10)
    weight = RNG.uniform(0.1, 2, 30) if weighted else None
    held_out = {"X_val": X, "y_val": y, "sample_weight_val": weight}
    for size in (30, 7, 1):
        model = Model(nn.Linear(4, 3), loss, SGD(0.1), dtype="float64", random_state=0)
        found = model.fit(X, y, weight, epochs=2, batch_size=size, **held_out)["validation_loss"]
        np.testing.assert_allclose(found[-1], model.loss(model(X), y, weight).item(), rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", [LogLoss(ignore_index=2), LogLoss()], ids=str)
def test_penalties_of_any_strength_share_a_program(loss, weighted):
    """Each program has its own strength; the gradients are those of eager operations."""
    X, y = RNG.normal(size=(30, 4)), np.repeat([0, 2, 1], 10)
    weight = RNG.uniform(0.1, 2, 30) if weighted else None
    models = [Model(nn.Linear(4, 3), loss, alpha=a, dtype="float64", random_state=0) for a in (0.1, 3.0)]
    models.append(Model(nn.Linear(4, 3), loss, dtype="float64", random_state=0))
    programs = [compiled_step(model, X, y, weight).gradient for model in models]
    assert programs[0].plan is programs[1].plan
    assert programs[0].plan is not programs[2].plan
    for model, program in zip(models, programs, strict=True):
        inputs = program.slots
        inputs.X[...], inputs.y[...] = X, y
        if weighted:
            inputs.weight[...] = weight
        program.run()
        expected = model.backward(model.loss(model(X), y, weight))
        np.testing.assert_allclose(program.result.gradient, expected.flat, rtol=1e-12)


@pytest.mark.parametrize(("alpha", "strength"), [(1e300, np.inf), (1e-300, 0.0)])
def test_numpy_does_not_report_a_strength_out_of_range(alpha, strength):
    """As for the constant of eager operations: the loss, if it is not finite, is what the error is about."""
    model = Model(nn.Linear(4, 1), alpha=alpha, random_state=0)
    with np.errstate(all="raise"):
        step = compiled_step(model, np.ones((5, 4), "f4"), np.ones((5, 1), "f4"))
        assert step.gradient.slots.strength == strength
