"""Many fits on a GPU as one program: each as its own fit, in everything but the last digits."""

import numpy as np
import pytest

from sknet import MLPClassifier, Model, nn
from sknet.device import Device, to_host
from sknet.engine import fit_many
from sknet.model_selection import GridSearchCV
from sknet.optim import Adam
from tests.gpu.test_graphs import CLASSES, NETWORKS, WEIGHT, X

__all__ = ["made"]

pytestmark = pytest.mark.gpu
CUDA = Device("cuda")


def made(layers, count, dtype="float32"):
    return [
        Model(
            nn.Sequential(*layers()), "log_loss", Adam(0.01 * (i + 1)), alpha=1e-3 * (i + 1),
            random_state=i, dtype=dtype, device=CUDA,
        )
        for i in range(count)
    ]  # fmt: skip


def fitted_and_expected(network, rows=None, **options):
    """Fit models together, and each by itself; return pairs of models, and of histories."""
    joint, alone = (made(NETWORKS[network], 3, "float64") for _ in range(2))
    options = {"epochs": 2, "batch_size": 16, "scores": "accuracy"} | options
    weight = options.pop("sample_weight", None)
    parts = [np.arange(100)] * 3 if rows is None else rows
    found = fit_many(joint, X, CLASSES, weight, rows=rows, **options)
    expected = [
        model.fit(X[part], CLASSES[part], None if weight is None else weight[part], **options)
        for model, part in zip(alone, parts, strict=True)
    ]
    return zip(joint, alone, strict=True), zip(found, expected, strict=True)


def assert_alike(models, histories):
    for found, expected in histories:
        np.testing.assert_allclose(found["loss"], expected["loss"], rtol=1e-9)
        np.testing.assert_allclose(found["accuracy"], expected["accuracy"])
    for joint, alone in models:
        flats = [(joint.weights().flat, alone.weights().flat)]
        for mine, theirs in (*flats, *zip(joint.buffers.values(), alone.buffers.values(), strict=True)):
            np.testing.assert_allclose(to_host(mine), to_host(theirs), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weighted"])
@pytest.mark.parametrize("network", NETWORKS)
def test_each_is_its_own_fit(network, weight):
    assert_alike(*fitted_and_expected(network, sample_weight=weight))


def test_parts_of_rows():
    rows = [np.arange(80), np.arange(20, 100), np.arange(100)[::-1][:80]]
    assert_alike(*fitted_and_expected("dense", rows))


def test_rows_in_order():
    assert_alike(*fitted_and_expected("dropout", shuffle=False, check_finite=False))


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_a_search_has_the_scores_of_one_on_the_host():
    rates = {"optimizer__lr": [1e-3, 1e-2, 1e-1]}
    settings = {"hidden_layer_sizes": (5,), "max_iter": 3, "batch_size": 16, "dtype": "float64"}
    told = {"cv": 2, "scoring": "neg_log_loss", "return_train_score": True, "error_score": "raise"}
    found, expected = (
        GridSearchCV(
            MLPClassifier(**settings, optimizer="adam", random_state=0, device=device), rates, **told
        )
        for device in ("cuda", "cpu")
    )
    found.fit(X, CLASSES), expected.fit(X, CLASSES)
    for name in ("mean_test_score", "mean_train_score", "rank_test_score"):
        np.testing.assert_allclose(found.cv_results_[name], expected.cv_results_[name], rtol=1e-9)
    assert found.best_params_ == expected.best_params_
