"""Pickles written with the oldest and newest supported scikit-learn and NumPy have unchanged predictions."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sknet
from tests.pickles.write import data, estimators
from tests.project import ROOT

HERE = Path(__file__).parent / "pickles"
VERSIONS = sorted(path.stem for path in HERE.glob("*.pickle"))
X, Y, _ = data()
METHODS = {"regressor": "predict", "autoencoder": "transform", "encoder": "transform"}


def test_there_are_files_of_the_oldest_versions_and_of_newer_ones():
    oldest = (ROOT / "pyproject.toml").read_text()
    assert '"scikit-learn>=1.7"' in oldest
    assert '"numpy>=2.0"' in oldest
    assert "sklearn-1.7.0-numpy-2.0.0" in VERSIONS
    assert len(VERSIONS) >= 2


@pytest.mark.parametrize("version", VERSIONS)
def test_predictions_have_not_changed(version):
    found = pickle.loads((HERE / f"{version}.pickle").read_bytes())
    with np.load(HERE / f"{version}.npz") as outputs:
        assert found.keys() == set(outputs.files)
        for name, estimator in found.items():
            result = np.asarray(getattr(estimator, METHODS.get(name, "predict_proba"))(X))
            assert result.dtype == outputs[name].dtype, name
            np.testing.assert_allclose(result, outputs[name], rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("version", VERSIONS)
def test_training_can_be_continued(version):
    found = pickle.loads((HERE / f"{version}.pickle").read_bytes())
    for name in ("network", "scikit-learn's"):
        before = found[name].predict_proba(X)
        after = found[name].partial_fit(X, Y).predict_proba(X)
        assert np.isfinite(after).all()
        assert (after != before).any(), name


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer", "ignore:lbfgs failed")
def test_every_kind_of_estimator_is_in_every_file():
    names = {name for name, _, _ in estimators()}
    for version in VERSIONS:
        assert pickle.loads((HERE / f"{version}.pickle").read_bytes()).keys() == names


WITHOUT_CUPY = """
import pickle, sys, warnings

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("cupy", "cupyx", "cupy_backends"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
warnings.simplefilter("error")
import numpy as np

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with open(sys.argv[1], "rb") as file:
        estimator, frozen, X, expected = pickle.load(file)
assert {"computes on the CPU instead" in str(w.message) for w in caught} == {True}, caught
found = estimator.predict_proba(X)
np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
np.testing.assert_allclose(frozen.predict_proba(X), expected, rtol=1e-6, atol=1e-9)
assert not [name for name in sys.modules if name.startswith("cupy")]
assert not [name for name in sys.modules if name.startswith("tests")]
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_estimators_fitted_on_a_device_are_unpickled_without_its_package(fake_device, tmp_path):
    clf = sknet.MLPClassifier((4,), max_iter=3, random_state=0, device="fake").fit(X, Y)
    assert clf.model_.device.kind == "fake"
    path = tmp_path / "fitted.pickle"
    path.write_bytes(pickle.dumps((clf, clf.freeze(), X, np.asarray(clf.predict_proba(X)))))
    command = [sys.executable, "-c", WITHOUT_CUPY, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
