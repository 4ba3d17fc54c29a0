"""NaN in the inputs of networks that look for it: the same as of a network with a mask as an input."""

import importlib.util
import pickle

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

import sknet
from sknet import Autoencoder, MLPClassifier, NetClassifier, NetRegressor, nn, ops
from tests.estimators.data import quiet

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
RNG = np.random.default_rng(0)
FULL = RNG.normal(size=(200, 3)) * [1.0, 10.0, 1e5] + [0.0, 5.0, 1e6]
MISSING = RNG.random(FULL.shape) < 0.25
X = np.where(MISSING, np.nan, FULL)
Y = (FULL[:, 0] > 0).astype(int)


class Masked(nn.Module):
    """Reads inputs and a mask of those that are missing."""

    def __init__(self, n_outputs):
        self.hidden, self.last = nn.Linear(6, 8), nn.Linear(8, n_outputs)

    def forward(self, x, missing):
        return self.last(ops.tanh(self.hidden(ops.concat([x, missing], axis=1))))


class Aware(Masked):
    """Finds out which inputs are missing."""

    def forward(self, x):
        return super().forward(ops.nan_to_num(x), ops.astype(ops.isnan(x), x.dtype))


class Saying(nn.Module):
    """Does not look for NaN, and says that it takes it: comparisons with NaN are false."""

    allow_nan = True

    def __init__(self, n_outputs):
        self.last = nn.Linear(3, n_outputs)

    def forward(self, x):
        return self.last(ops.where(ops.greater(x, 0.0), 1.0, 0.0))


def module_of(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def standardized():
    mean, scale = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    return np.clip((X - mean) / scale, -5.0, 5.0), mean, scale


def test_fit_equals_one_with_a_mask_as_an_input():
    z, mean, scale = standardized()
    options = {"max_iter": 8, "random_state": 0, "dtype": "float64"}
    net = NetClassifier(Aware, **options).fit(X, Y)
    np.testing.assert_allclose(net.input_mean_, mean)
    np.testing.assert_allclose(net.input_scale_, scale)
    masked = NetClassifier(Masked, scale_inputs=False, **options)
    masked.fit({"x": np.nan_to_num(z), "missing": MISSING.astype(float)}, Y)
    expected = masked.predict_proba({"x": np.nan_to_num(z), "missing": MISSING.astype(float)})
    np.testing.assert_allclose(net.predict_proba(X), expected, rtol=1e-10)


def test_weighted_units_are_those_of_the_numbers_that_are_there():
    weight = RNG.integers(1, 4, len(X))
    net = NetRegressor(Aware, max_iter=1, random_state=0).fit(X, FULL[:, 0], sample_weight=weight)
    repeated = np.repeat(X, weight, axis=0)
    np.testing.assert_allclose(net.input_mean_, np.nanmean(repeated, axis=0))
    np.testing.assert_allclose(net.input_scale_, np.nanstd(repeated, axis=0))


def test_column_without_numbers():
    gone = X.copy()
    gone[:, 1] = np.nan
    net = NetClassifier(Aware, max_iter=2, random_state=0).fit(gone, Y)
    assert (net.input_mean_[1], net.input_scale_[1]) == (0.0, 1.0)
    assert np.isfinite(net.predict_proba(gone)).all()


@pytest.mark.parametrize("module", [Aware, nn.ModuleFactory(Aware), Saying])
def test_continued_saved_frozen_and_exported(module, tmp_path):
    net = NetClassifier(module, max_iter=3, random_state=0, n_members=1)
    net.fit(X, Y, X_val=X[:50], y_val=Y[:50]).partial_fit(X, Y)
    expected = net.predict_proba(X)
    assert np.isfinite(expected).all()
    sknet.save(net, tmp_path / "net.safetensors")
    frozen = net.freeze()
    sknet.save(frozen, tmp_path / "frozen.safetensors")
    frozen.to_python(tmp_path / "exported.py")
    others = [
        sknet.load(tmp_path / "net.safetensors", trusted=[Aware, Saying]),
        sknet.load(tmp_path / "frozen.safetensors"),
        pickle.loads(pickle.dumps(net)),
        frozen,
        module_of(tmp_path / "exported.py"),
    ]
    for other in others:
        np.testing.assert_array_equal(other.predict_proba(X), expected)
        np.testing.assert_array_equal(other.predict_proba(X[:1]), net.predict_proba(X[:1]))
        with pytest.raises(ValueError, match="infinity"):
            other.predict_proba(np.where(MISSING, np.inf, FULL))
    assert net.__sklearn_tags__().input_tags.allow_nan


@pytest.mark.parametrize("module", [Aware, Aware(2), nn.ModuleFactory(Aware)])
def test_nothing_missing_in_the_fit(module, tmp_path):
    few = {"max_iter": 2, "random_state": 0}
    net = NetClassifier(module, **few).fit(FULL, Y)
    same = type("Told", (Aware,), {"allow_nan": True})
    if module is Aware:
        told = NetClassifier(same, **few).fit(FULL, Y)
        np.testing.assert_array_equal(net.predict_proba(X), told.predict_proba(X))
        folds = [(np.flatnonzero(~MISSING.any(axis=1)), np.flatnonzero(MISSING.any(axis=1)))]
        assert np.isfinite(cross_val_score(net, X, Y, cv=folds, error_score="raise")).all()
    net.freeze().to_python(tmp_path / "exported.py")
    for other in (net.freeze(), module_of(tmp_path / "exported.py")):
        np.testing.assert_array_equal(other.predict_proba(X), net.predict_proba(X))
    assert np.isfinite(net.partial_fit(X, Y).predict_proba(X)).all()
    net.fit(FULL, Y, X_val=X, y_val=Y)


def test_export_to_onnx():
    runtime = pytest.importorskip("onnxruntime", reason="it runs the exported file")
    from sknet import onnx

    net = NetClassifier(Aware, max_iter=3, random_state=0).fit(X, Y)
    session = runtime.InferenceSession(onnx.export(net).SerializeToString())
    found = session.run(None, {session.get_inputs()[0].name: X.astype(np.float32)})[1]
    np.testing.assert_allclose(found, net.predict_proba(X.astype(np.float32)), atol=1e-5)


def test_ensemble_sequences_and_several_inputs():
    with quiet():
        net = NetClassifier(Aware, n_members=2, max_iter=2, random_state=0).fit(X, Y)
        assert np.isfinite(net.predict_proba(X)).all()
        np.testing.assert_array_equal(net.freeze().predict_proba(X), net.predict_proba(X))

        class Steps(nn.Module):
            def __init__(self, n_outputs):
                self.inner = Aware(n_outputs)

            def forward(self, steps, extra):
                return self.inner(ops.mean(ops.nan_to_num(steps), axis=1)) + ops.nan_to_num(extra)[:, :1]

        inputs = {"steps": np.stack([X, FULL], axis=1), "extra": X}
        net = NetClassifier(Steps, max_iter=2, random_state=0).fit(inputs, Y)
        assert np.isfinite(net.predict_proba(inputs)).all()
        np.testing.assert_array_equal(net.freeze().predict_proba(inputs), net.predict_proba(inputs))


def test_tag_of_an_estimator():
    class Tagged(MLPClassifier):
        def __sklearn_tags__(self):
            tags = super().__sklearn_tags__()
            tags.input_tags.allow_nan = True
            return tags

    clf = Tagged((4,), max_iter=2, random_state=0).fit(FULL, Y)
    assert np.isnan(clf.decision_function(X[MISSING.any(axis=1)])).all()


@pytest.mark.parametrize("kind", [lambda: NetClassifier(nn.Sequential(nn.LazyLinear(1)), max_iter=1)])
def test_network_that_does_not_say_so(kind):
    with pytest.raises(ValueError, match=r"does not say that it takes missing values.*ops.isnan"):
        kind().fit(X, Y)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        kind().fit(FULL, Y).predict(X)


@pytest.mark.parametrize("kind", [MLPClassifier((4,), max_iter=1), Autoencoder((2,), max_iter=1)])
def test_estimators_of_perceptrons_refuse_missing_values(kind):
    with pytest.raises(ValueError, match="contains NaN"):
        kind.fit(X, Y)
