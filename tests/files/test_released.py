"""Files of every format load, with unchanged predictions.

    python -m tests.files.test_released

writes the files; once there is a release, they are written once per format, and never again.
"""

from pathlib import Path

import numpy as np
import pytest

import sknet
from sknet import nn
from sknet.optim import EMA, Adam
from sknet.optim.schedules import Cosine
from tests.estimators.data import TABLES, outputs, quiet
from tests.estimators.nets import Net

FOLDER = Path(__file__).parent / "released"
FORMATS = {1: "all", 2: "predict"}  # what a file of it includes
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


if __name__ == "__main__":
    written = objects()
    for number, include in FORMATS.items():
        for name, each in written.items():
            sknet.save(each, FOLDER / f"{name}-{number}.safetensors", include=include)
        np.savez(FOLDER / f"outputs-{number}.npz", **{name: outputs(x, X) for name, x in written.items()})
