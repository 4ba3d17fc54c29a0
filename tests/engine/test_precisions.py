"""Models in tf32 and bfloat16 on a device: products of rounded factors, and float32 in everything else."""

import pickle

import numpy as np
import pytest

import sknet
from sknet import Model, nn
from sknet.callbacks import Callback
from sknet.device import to_device
from sknet.engine import fit_many
from sknet.exceptions import DtypeError
from tests.devices.rounding import BITS, rounded
from tests.engine.precisions import FITTING, PRECISIONS, assert_close, by_hand, host, model_on, rows

X, Y = rows()


# -- numbers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_fit_is_that_by_hand(place, precision):
    model = model_on(place, precision)
    start = host(model)
    model.fit(X, Y, epochs=4, **FITTING)
    assert_close(host(model), by_hand(start, precision, 4))
    others = [by_hand(start, other, 4) for other in PRECISIONS if other != precision]
    for other in others:
        assert abs(host(model)["0.weight"] - other["0.weight"]).max() > 1e-5
    memory = model.memory
    assert {str(x.dtype) for x in (*model.parameters.values(), memory.flat)} == {"float32"}
    assert (str(model.dtype), model.precision) == ("float32", precision)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_single_steps_are_too(place, precision):
    model = model_on(place, precision)
    start = host(model)
    for first in (0, 20, 40):
        model.step(to_device(X[first : first + 20], place), to_device(Y[first : first + 20], place))
    assert_close(host(model), by_hand(start, precision, 1))


@pytest.mark.parametrize("precision", BITS)
def test_small_updates_are_not_lost(place, precision):
    """Each is less than half a unit of a weight with so few bits, and would vanish there."""
    lr, epochs = 1e-5, 10
    model = model_on(place, precision, lr)
    start = host(model)
    model.fit(X, Y, epochs=epochs, **FITTING)
    after, expected = host(model), by_hand(start, precision, epochs, lr)
    lost = start
    for _ in range(epochs):
        lost = {name: rounded(x, 7) for name, x in by_hand(lost, precision, 1, lr).items()}
    assert_close(after, expected, 2e-8)
    weight = start["2.weight"]
    learned = abs(expected["2.weight"] - weight)
    assert learned.max() > 20 * abs(after["2.weight"] - expected["2.weight"]).max()
    assert np.mean(rounded(lost["2.weight"], 7) == rounded(weight, 7)) > 0.9


def test_on_the_host_all_are_float32():
    fits = {}
    for precision in PRECISIONS:
        model = model_on("cpu", precision)
        model.fit(X, Y, epochs=2, **FITTING)
        fits[precision] = [*host(model).values(), model.predict(X)]
    for precision in BITS:
        for one, other in zip(fits["float32"], fits[precision], strict=True):
            np.testing.assert_array_equal(one, other)


# -- sequences --------------------------------------------------------------------------------


def continued(start, *parts):
    """Return parameters by hand, after some epochs in each of some precisions."""
    for precision, epochs in parts:
        start = by_hand(start, precision, epochs)
    return start


def through_file(model, folder):
    sknet.save(model, folder / "it.safetensors")
    return sknet.load(folder / "it.safetensors")


WAYS = {
    "copy": lambda model, folder: model.copy(),
    "pickle": lambda model, folder: pickle.loads(pickle.dumps(model)),
    "file": through_file,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_goes_on_in_its_precision_or_another(place, way, tmp_path):
    model = model_on(place, "bfloat16")
    start = host(model)
    model.fit(X, Y, epochs=2, **FITTING)
    twin = WAYS[way](model, tmp_path)
    assert (twin.precision, twin.device, str(twin.dtype)) == ("bfloat16", model.device, "float32")
    twin.fit(X, Y, epochs=1, **FITTING)
    assert_close(host(twin), continued(start, ("bfloat16", 3)))
    twin.precision = "tf32"
    twin.fit(X, Y, epochs=1, **FITTING)
    twin.precision = "float32"
    twin.fit(X, Y, epochs=1, **FITTING)
    assert_close(host(twin), continued(start, ("bfloat16", 3), ("tf32", 1), ("float32", 1)))
    assert model.precision == "bfloat16"
    assert_close(host(model), continued(start, ("bfloat16", 2)))


def test_a_model_of_before_has_the_precision_of_its_dtype():
    model = Model(nn.Linear(2, 1), dtype="float64", random_state=0)
    state = {name: value for name, value in model.__getstate__().items() if name != "_rounded"}
    other = Model.__new__(Model)
    other.__setstate__(state)
    assert other.precision == "float64"


class Changes(Callback):
    """Assigns the next precision after each epoch."""

    def __init__(self, precisions):
        self.precisions = precisions

    def on_epoch_end(self, fit):
        if (
            fit.history["epoch"]
            if "epoch" in fit.history
            else len(fit.history["loss"]) <= len(self.precisions)
        ):
            fit.model.precision = self.precisions[len(fit.history["loss"]) - 1]


def test_a_fit_follows_a_precision_that_is_assigned(place):
    model = model_on(place, "float32")
    start = host(model)
    model.fit(X, Y, epochs=3, callbacks=[Changes(["bfloat16", "tf32"])], **FITTING)
    expected = continued(start, ("float32", 1), ("bfloat16", 1), ("tf32", 1))
    assert_close(host(model), expected)


def test_many_fits(place):
    """Those of one precision are one program; each is what it would be alone."""
    given = [PRECISIONS[i % 3] for i in range(6)]
    models = [model_on(place, precision, seed=i) for i, precision in enumerate(given)]
    starts = [host(model) for model in models]
    fit_many(models, X, Y, epochs=2, **FITTING)
    for model, start, precision in zip(models, starts, given, strict=True):
        assert model.precision == precision
        assert_close(host(model), by_hand(start, precision, 2))


# -- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bf16", None])
def test_other_names_are_refused(dtype):
    expected = r"dtype of a Model must be one of \['float32', 'float64', 'tf32', 'bfloat16', 'tf32x3'\], got"
    with pytest.raises(DtypeError, match=expected):
        Model(nn.Linear(2, 1), dtype=dtype)
    model = Model(nn.Linear(2, 1), dtype="tf32")
    with pytest.raises(DtypeError, match=expected):
        model.precision = dtype
    assert model.precision == "tf32"


KEPT = [("tf32", "float64"), ("float64", "bfloat16"), ("float64", "float32")]


@pytest.mark.parametrize(("dtype", "other"), KEPT)
def test_arrays_keep_their_dtype(dtype, other):
    model = Model(nn.Linear(2, 1), dtype=dtype)
    expected = rf"arrays of this Model are float.*make a new Model with dtype='{other}'"
    with pytest.raises(DtypeError, match=expected):
        model.precision = other
    assert model.precision == dtype


# -- what is asked of the device --------------------------------------------------------------
