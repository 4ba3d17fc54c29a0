"""Files of every released format load, with unchanged predictions.

    python -m tests.files.test_released

writes files in the current format; they are written once per format, and never again.
"""

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import sknet
from sknet import nn
from sknet.optim import EMA, Adam
from sknet.optim.schedules import Cosine
from tests.estimators.data import TABLES, outputs, quiet
from tests.estimators.nets import Net

FOLDER = Path(__file__).parent / "released"
FORMATS = (1, 2)  # 2: of include="predict"
X = np.linspace(-2.0, 2.0, 36).reshape(3, 12)


def objects():
    small = {"max_iter": 2, "random_state": 0, "batch_size": 64}
    classifier = sknet.MLPClassifier((3,), optimizer=EMA(Adam(Cosine(0.1))), early_stopping=True, **small)
    regressor = sknet.NetRegressor(nn.ModuleFactory(Net, hidden=3, dropout=0.1), loss="huber", **small)
    with quiet():
        classifier.fit(*TABLES["binary"])
        regressor.fit(*TABLES["regression"])
    return {"classifier": classifier, "regressor": regressor, "frozen": classifier.freeze()}


@pytest.mark.parametrize("number", FORMATS)
@pytest.mark.parametrize("name", ["classifier", "regressor", "frozen"])
def test_a_file_of_each_format_loads(name, number):
    found = sknet.load(FOLDER / f"{name}-{number}.safetensors", trusted=[Net])
    expected = np.load(FOLDER / f"outputs-{number}.npz")[name]
    np.testing.assert_allclose(outputs(found, X), expected, rtol=1e-5, atol=1e-7)  # on any processor
    if name == "regressor":
        before = sknet.load(FOLDER / f"{name}-{number}.safetensors", trusted=[Net])
        for each in (found, before):
            each.partial_fit(*TABLES["regression"])
        np.testing.assert_array_equal(found.predict(X), before.predict(X))


def test_an_ensemble_from_before_embeddings_loads():
    """It has no vectors of levels, and keeps its options."""
    found = sknet.load(FOLDER / "ensemble-2.safetensors")
    expected = np.load(FOLDER / "ensemble-outputs-2.npz")
    for other in (found, found.freeze(), found.slim()):
        np.testing.assert_allclose(other.predict_proba(expected["X"]), expected["outputs"], rtol=1e-5)
    assert clone(found).get_params()["sharp__embeddings"] is False
    labels = np.arange(60) % 2
    assert (
        found.fit(np.c_[labels, np.arange(60.0)], labels).score(np.c_[labels, np.arange(60.0)], labels) > 0.5
    )


if __name__ == "__main__":
    written = objects()
    for name, each in written.items():
        sknet.save(each, FOLDER / f"{name}-{FORMATS[-1]}.safetensors", include="predict")
    np.savez(FOLDER / f"outputs-{FORMATS[-1]}.npz", **{name: outputs(x, X) for name, x in written.items()})
