"""Fits with frozen parameters: native, planned, eager and device steps skip them, and see new values."""

import numpy as np
import pytest

from sknet import Model, nn
from sknet.optim import EMA, SGD, Adam
from tests.engine.helpers import CLASSES, X, network


def fit(model, epochs=2):
    model.fit(X, CLASSES, epochs=epochs, batch_size=5, scores="accuracy")


def fitted(optimizer, compile, device="cpu"):
    """Train everything, freeze and overwrite a layer, train, unfreeze, and train everything again."""
    model = Model(
        network(3),
        "log_loss",
        optimizer,
        alpha=0.1,
        dtype="float64",
        device=device,
        random_state=0,
        compile=compile,
    )
    fit(model)
    frozen = model.module[0]
    frozen.requires_grad_(False)
    frozen.weight.data = np.full((4, 8), 0.25)
    fit(model)
    np.testing.assert_array_equal(frozen.weight.numpy(), np.full((4, 8), 0.25))
    frozen.weight.data = np.eye(4, 8)
    fit(model)
    np.testing.assert_array_equal(frozen.weight.numpy(), np.eye(4, 8))
    frozen.requires_grad_(True)
    model.module[-1] = nn.Linear(8, 3)
    fit(model)
    assert not np.array_equal(frozen.weight.numpy(), np.eye(4, 8))
    return {name: parameter.numpy() for name, parameter in model.module.named_parameters()}


KINDS = [
    ("planned", Adam(0.01)),
    ("planned", SGD(0.01, momentum=0.9)),
    ("planned", EMA(Adam(0.01), 0.9)),
    ("device", Adam(0.01)),
]


@pytest.mark.parametrize(("kind", "optimizer"), KINDS)
def test_all_kinds_of_steps_agree(kind, optimizer, monkeypatch, request):
    monkeypatch.setenv("SKNET_NATIVE", "never")
    expected = fitted(optimizer, compile=False)
    device = request.getfixturevalue("fake_device") if kind == "device" else "cpu"
    found = fitted(optimizer, compile=True, device=device)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-7, atol=1e-9, err_msg=name)


def test_native_steps_read_what_is_frozen():
    pytest.importorskip("sknet._native._core", reason="native code was not built")
    models = [
        Model(network(3), "log_loss", Adam(0.01), dtype="float64", random_state=0, compile=mode)
        for mode in (True, False)
    ]
    for model in models:
        frozen = model.module[0].requires_grad_(False)
        for values in (np.full((4, 8), 0.25), np.eye(4, 8)):  # by one program
            frozen.weight.data = values
            fit(model)
            np.testing.assert_array_equal(frozen.weight.numpy(), values)
    for name, array in models[1].parameters.items():
        np.testing.assert_allclose(models[0].parameters[name], array, rtol=1e-9, atol=1e-12)
