"""Estimators in tf32 and bfloat16, on a device that counts which products have which precision."""

import pickle

import numpy as np
import pytest
from sklearn import model_selection
from sklearn.base import clone

import sknet
from sknet import nn
from sknet.callbacks import Checkpoint
from sknet.optim import SGD
from tests.devices import fake
from tests.devices.rounding import BITS
from tests.estimators.data import TABLES, TASKS, estimator_for, outputs, quiet
from tests.estimators.nets import sequential

PRECISIONS = "float32", *BITS
X, Y = TABLES["multiclass"]
SINGLE = X.astype("float32")


def counted_in(fit):
    """Return in which precisions matrix products of float32 were computed."""
    with quiet(), fake.counted() as counts:
        fit()
    return set(counts.precisions)


def arrays_of(estimator):
    return [*estimator.coefs_, *estimator.intercepts_]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("dtype", BITS)
def test_fits_and_predictions(task, dtype, fake_device):
    X, y = TABLES[task]
    estimator = estimator_for(task, device="fake", dtype=dtype, early_stopping=True, dropout=0.1)
    assert counted_in(lambda: estimator.fit(X, y)) == {dtype}
    assert {array.dtype.name for array in arrays_of(estimator)} == {"float32"}
    assert counted_in(lambda: outputs(estimator, X)) == {dtype}
    assert outputs(estimator, X).dtype == "float32"
    with quiet():
        here = estimator_for(task, dtype="float32", early_stopping=True, dropout=0.1).fit(X, y)
    scale = np.abs(outputs(here, X)).max()
    np.testing.assert_allclose(outputs(estimator, X), outputs(here, X), rtol=0, atol=0.05 * scale)


OTHERS = {
    "autoencoder": lambda **more: sknet.Autoencoder((4,), **more),
    "transformer": lambda **more: sknet.NetTransformer(
        nn.Sequential(nn.Linear(12, 4), nn.Tanh(), nn.Linear(4, 12)), **more
    ),
    "classifier of a network": lambda **more: sknet.NetClassifier(sequential(12, 3), **more),
    "convolutions": lambda **more: sknet.NetClassifier(
        nn.Sequential(
            nn.Unflatten(1, (1, 12)), nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(40, 3)
        ),
        **more,
    ),
    "lbfgs": lambda **more: sknet.MLPClassifier((8,), optimizer="lbfgs", **more),
    "members": lambda **more: sknet.MLPClassifier((8,), n_members=3, **more),
    "a table": lambda **more: sknet.MLPClassifier((8,), encoder="table", **more),
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", BITS)
@pytest.mark.parametrize("name", OTHERS)
def test_other_estimators(name, dtype, fake_device):
    estimator = OTHERS[name](device="fake", dtype=dtype, max_iter=2, random_state=0)
    codes = name in ("autoencoder", "transformer")
    assert counted_in(lambda: estimator.fit(X, None if codes else Y)) == {dtype}
    predict = estimator.transform if codes else estimator.predict_proba
    assert counted_in(lambda: predict(X)) == {dtype}
    assert predict(X).dtype == "float32"


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_inputs_of_all_dtypes_are_float32(dtype):
    expected = outputs(fitted_here(X, dtype="float32"), X)
    for given in (X, SINGLE):
        estimator = fitted_here(given, dtype=dtype)
        assert estimator.coefs_[0].dtype == "float32"
        np.testing.assert_array_equal(outputs(estimator, given), expected)
    tags = estimator_for("multiclass", dtype=dtype).__sklearn_tags__()
    assert tags.transformer_tags.preserves_dtype == ["float32"]


def fitted_here(X, **params):
    with quiet():
        return estimator_for("multiclass", **params).fit(X, Y)


# -- sequences --------------------------------------------------------------------------------


def through_file(estimator, folder):
    sknet.save(estimator, folder / "it.safetensors")
    return sknet.load(folder / "it.safetensors")


WAYS = {"pickle": lambda x, folder: pickle.loads(pickle.dumps(x)), "file": through_file}


@pytest.mark.parametrize("way", WAYS)
def test_a_fit_in_tf32_goes_on_elsewhere(way, fake_device, tmp_path):
    params = {"device": "fake", "optimizer": SGD(0.01, momentum=0.0)}
    with quiet():
        first = estimator_for("multiclass", dtype="tf32", **params).fit(SINGLE, Y)
    loaded = WAYS[way](first, tmp_path)
    assert (loaded.dtype, loaded.model_.precision) == ("tf32", "tf32")
    np.testing.assert_array_equal(outputs(loaded, SINGLE), outputs(first, SINGLE))
    assert counted_in(lambda: loaded.partial_fit(SINGLE, Y)) == {"tf32"}
    for dtype in ("float32", "bfloat16", "tf32"):
        loaded.set_params(dtype=dtype)
        assert counted_in(lambda: loaded.partial_fit(SINGLE, Y)) == {dtype}
        assert loaded.model_.precision == dtype
    assert counted_in(lambda: clone(loaded).fit(SINGLE, Y)) == {"tf32"}
    loaded.set_params(dtype="float64")
    with pytest.raises(ValueError, match=r"dtype was 'tf32' .* and is 'float64' now"):
        loaded.partial_fit(SINGLE, Y)


def test_warm_start(fake_device):
    estimator = estimator_for("multiclass", dtype="bfloat16", device="fake", warm_start=True)
    assert counted_in(lambda: estimator.fit(SINGLE, Y)) == {"bfloat16"}
    before = estimator.model_
    assert counted_in(lambda: estimator.set_params(dtype="float32").fit(SINGLE, Y)) == {"float32"}
    assert (before.precision, estimator.model_.precision) == ("bfloat16", "float32")
    assert counted_in(lambda: estimator.set_params(dtype="float64", warm_start=False).fit(X, Y)) == set()
    assert estimator.coefs_[0].dtype == "float64"


def test_a_part_that_fails_leaves_the_precision(fake_device):
    estimator = estimator_for("multiclass", dtype="tf32", device="fake").partial_fit(
        SINGLE, Y, classes=[0, 1, 2]
    )
    estimator.set_params(dtype="bfloat16", optimizer=SGD(1e30))
    with pytest.raises(ValueError, match=r"non-finite|diverged"):
        estimator.partial_fit(1e9 * SINGLE, Y)
    assert estimator.model_.precision == "tf32"


@pytest.mark.parametrize("dtype", BITS)
def test_an_interrupted_fit_is_resumed_in_its_precision(dtype, fake_device, tmp_path):
    path = tmp_path / "fit.safetensors"
    params = {"device": "fake", "dtype": dtype, "max_iter": 4}
    with quiet():
        whole = estimator_for("multiclass", **params).fit(SINGLE, Y)
        estimator_for("multiclass", **params | {"max_iter": 2}).fit(SINGLE, Y, callbacks=[Checkpoint(path)])
    resumed = estimator_for("multiclass", **params)
    assert counted_in(lambda: resumed.fit(SINGLE, Y, resume_from=path)) == {dtype}
    for one, other in zip(arrays_of(whole), arrays_of(resumed), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("GridSearchCV", [model_selection.GridSearchCV, sknet.model_selection.GridSearchCV])
def test_a_search_over_precisions(GridSearchCV, fake_device):
    search = GridSearchCV(
        estimator_for("multiclass", device="fake"), {"dtype": [*PRECISIONS, "float64"]}, cv=2
    )
    assert counted_in(lambda: search.fit(SINGLE, Y)) == set(PRECISIONS)
    assert search.best_estimator_.model_.precision == search.best_params_["dtype"]


@pytest.mark.parametrize("dtype", BITS)
def test_frozen_predictors_compute_on_the_host_in_float32(dtype, fake_device):
    with quiet():
        estimator = estimator_for("multiclass", device="fake", dtype=dtype).fit(SINGLE, Y)
    frozen = estimator.freeze()
    assert counted_in(lambda: frozen.predict_proba(SINGLE)) == set()
    np.testing.assert_allclose(frozen.predict_proba(SINGLE), estimator.predict_proba(SINGLE), atol=0.02)
    assert frozen.predict_proba(SINGLE).dtype == "float32"


def test_the_summary_says_in_which_precision():
    assert "computes in: float32 on cpu" in str(fitted_here(SINGLE, dtype="tf32").summary())


def test_the_summary_names_the_precision_of_a_device(fake_device):
    with quiet():
        estimator = estimator_for("multiclass", device="fake", dtype="bfloat16").fit(SINGLE, Y)
    assert "computes in: bfloat16 on fake:0" in str(estimator.summary())
