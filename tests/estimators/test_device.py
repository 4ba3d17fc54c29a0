"""Whole fits on a fake device, whose arrays NumPy cannot read: code that runs there would run on a GPU."""

import pickle

import numpy as np
import pytest
import scipy.sparse

import sknet
from sknet import neural_network, nn
from sknet.core import Tensor
from sknet.device import Device, active, to_device, to_host
from sknet.losses import Ordinal, Quantile, SquaredError
from sknet.optim import EMA, SGD, Adam
from tests.devices.fake import FakeArray, counted
from tests.estimators.data import TABLES, TASKS, WEIGHTS, estimator_for, first_part, quiet

RTOL = 1e-7
FITS = {
    "plain": {},
    "early stopping and dropout": {"early_stopping": True, "dropout": 0.3, "activation": "gelu"},
    "momentum": {"optimizer": SGD(0.01, 0.9, True), "shuffle": False},
    "lbfgs": {"optimizer": "lbfgs", "max_iter": 5},
    "rows drawn by weight": {"sampler": "weight"},
}


@pytest.fixture(params=["fake", "fake:1"])
def place(request, fake_device):
    return Device.parse(request.param)


def assert_agree(there, here, rtol=RTOL):
    for mine, other in zip(
        [*there.coefs_, *there.intercepts_], [*here.coefs_, *here.intercepts_], strict=True
    ):
        assert isinstance(mine, np.ndarray)
        np.testing.assert_allclose(mine, other, rtol=0, atol=rtol * np.abs(other).max())
    np.testing.assert_allclose(there.loss_curve_, here.loss_curve_, rtol=rtol)


def methods(estimator):
    names = ("predict", "predict_proba", "predict_log_proba", "decision_function", "transform")
    names += ("predict_std", "predict_quantiles", "predict_interval")
    return [name for name in names if hasattr(estimator, name)]


# What is right on the second device, which is not the current one, is right on the first.
ELSEWHERE = [("fake:1", name) for name in FITS]


@pytest.mark.parametrize(("place", "kind"), [("fake", "plain"), *ELSEWHERE], indirect=["place"])
@pytest.mark.parametrize("task", TASKS)
def test_device_by_name(task, kind, place):
    X, y = TABLES[task]
    params = FITS[kind]
    common = {"dtype": "float64"} | params
    with quiet():
        there = estimator_for(task, device=str(place), **common).fit(X, y, WEIGHTS)
        here = estimator_for(task, **common).fit(X, y, WEIGHTS)
    assert there.model_.device == place
    assert all(isinstance(array, FakeArray) for array in there.model_.parameters.values())
    rtol = 1e-4 if params.get("optimizer") == "lbfgs" else RTOL
    assert_agree(there, here, rtol)
    for name in methods(here):
        found = getattr(there, name)(X)
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, getattr(here, name)(X), rtol=rtol, atol=100 * rtol)


CALIBRATED = {"calibrate": "temperature", "early_stopping": True, "max_iter": 20, "optimizer": Adam(0.02)}
HEADS = {
    "columns": ("columns", {}),
    "columns, calibrated": ("columns", CALIBRATED),
    "multiclass, calibrated": ("multiclass", CALIBRATED),
    "ordinal": ("ordinal", CALIBRATED),
    "another order": ("multiclass", {"loss": Ordinal([2, 0, 1])}),
    "quantiles": ("multioutput", {"loss": Quantile([0.1, 0.5, 0.9])}),
    "deviations": ("regression", {"loss": "gaussian_nll", "scale_target": True}),
    "scaled quantiles": ("multioutput", {"loss": Quantile([0.1, 0.9]), "scale_target": True}),
    "scaled": ("multioutput", {"scale_target": True, "early_stopping": True}),
    "scaled counts": ("many counts", {"loss": "poisson", "scale_target": True, "optimizer": "lbfgs"}),
}


@pytest.mark.parametrize("place", ["fake:1"], indirect=True)
@pytest.mark.parametrize("case", HEADS)
def test_heads(case, place):
    task, params = HEADS[case]
    X, y = TABLES[task]
    given = [to_device(array, place) for array in (X, y, WEIGHTS)]
    with quiet():
        there, here = (estimator_for(task, **params).fit(*rows) for rows in (given, (X, y, WEIGHTS)))
    assert there.model_.device == place
    rtol = 1e-4 if params.get("optimizer") == "lbfgs" else 1e-6
    assert_agree(there, here, rtol)
    for name in methods(here):
        for rows in (given[0], X):
            found, expected = getattr(there, name)(rows), getattr(here, name)(X)
            found, expected = ([r] if not isinstance(r, list) else r for r in (found, expected))
            for mine, other in zip(found, expected, strict=True):
                assert isinstance(mine, FakeArray if rows is given[0] else np.ndarray)
                np.testing.assert_allclose(to_host(mine), other, rtol=rtol, atol=1e-6)
    if hasattr(here, "predict_std"):
        assert all(isinstance(found, FakeArray) for found in there.predict(given[0], return_std=True))
    assert there.score(*given[:2]) == pytest.approx(here.score(X, y))


OFFSETS = {
    "columns": CALIBRATED | {"calibrate": None},
    "multiclass": CALIBRATED,
    "multioutput": {"scale_target": True, "early_stopping": True},
    "many counts": {"loss": "poisson", "scale_target": True},
}


@pytest.mark.parametrize("task", OFFSETS)
def test_offsets(task, place):
    X, y = TABLES[task]
    with quiet():
        n_outputs = estimator_for(task).fit(X, y).n_outputs_
        offset = np.random.default_rng(0).normal(size=(len(X), n_outputs))
        fits = [estimator_for(task, **OFFSETS[task], device=device) for device in (str(place), "cpu")]
        there, here = (each.fit(X, y, WEIGHTS, offset=offset) for each in fits)
    assert_agree(there, here, 1e-6)
    assert there.history_["score"] == pytest.approx(here.history_["score"])
    for rows, given in ((X, offset), (to_device(X, place), to_device(offset, place))):
        found = (
            there.predict_proba(rows, offset=given)
            if y.dtype.kind == "i"
            else there.predict(rows, offset=given)
        )
        expected = (
            here.predict_proba(X, offset=offset) if y.dtype.kind == "i" else here.predict(X, offset=offset)
        )
        pairs = zip(found, expected, strict=True) if isinstance(found, list) else [(found, expected)]
        for mine, other in pairs:
            np.testing.assert_allclose(to_host(mine), other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("params", FITS.values(), ids=FITS)
@pytest.mark.parametrize("task", TASKS)
def test_the_host_computes_with_data_of_a_device(task, params, place):
    """With ``device="cpu"``, wherever the data is; results are returned where the input is."""
    X, y = TABLES[task]
    given = [to_device(array, place) for array in (X, y, WEIGHTS)]
    with quiet():
        there = estimator_for(task, device="cpu", **params).fit(*given)
        here = estimator_for(task, device="cpu", **params).fit(X, y, WEIGHTS)
    assert there.model_.device == Device("cpu")
    for mine, other in zip(there.coefs_, here.coefs_, strict=True):
        np.testing.assert_array_equal(mine, other)
    for name in methods(here):
        found = getattr(there, name)(given[0])
        assert isinstance(found, FakeArray)
        np.testing.assert_array_equal(to_host(found), getattr(here, name)(X))
    assert there.score(*given) == here.score(X, y, WEIGHTS)


@pytest.mark.parametrize("task", TASKS)
def test_device_follows_the_data(task, place):
    X, y = TABLES[task]
    given = [to_device(array, place) for array in (X, y, WEIGHTS)]
    with quiet():
        there, here = (
            estimator_for(task, early_stopping=True).fit(*given),
            estimator_for(task, early_stopping=True).fit(X, y, WEIGHTS),
        )
    assert there.model_.device == place
    assert_agree(there, here)
    for name in methods(here):
        found = getattr(there, name)(given[0])
        assert isinstance(found, FakeArray)
        np.testing.assert_allclose(to_host(found), getattr(here, name)(X), rtol=RTOL, atol=1e-9)
        assert isinstance(getattr(there, name)(X), np.ndarray)
        assert isinstance(getattr(here, name)(given[0]), FakeArray)


@pytest.mark.parametrize("task", TASKS)
def test_scores(task, place):
    X, y = TABLES[task]
    given = [to_device(array, place) for array in (X, y, WEIGHTS)]
    with quiet():
        there, here = (estimator_for(task, dtype="float64").fit(*data) for data in (given, (X, y, WEIGHTS)))
    for data in (given, given[:2]):
        found = there.score(*data)
        assert type(found) is float
        np.testing.assert_allclose(found, here.score(*map(to_host, data)), rtol=1e-6)
        assert there.score(*map(to_host, data)) == found


def test_a_layer_on_its_own(place):
    X, y = TABLES["multiclass"]
    with quiet():
        there = estimator_for("multiclass").fit(to_device(X, place), y)
    found = there.layer(0).transform(to_device(X, place))
    assert isinstance(found, FakeArray)
    np.testing.assert_allclose(to_host(found), there.transform(X, layer=0), rtol=1e-6, atol=1e-12)


def test_words_stay_on_the_host(place):
    X, y = TABLES["binary"]
    with quiet():
        estimator = estimator_for("binary").fit(to_device(X, place), np.array(["no", "yes"])[y])
    assert set(estimator.predict(to_device(X, place))) == {"no", "yes"}


@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_parts_and_warm_starts(task, place):
    X, y = TABLES[task]
    pair = [estimator_for(task, device=device, warm_start=True) for device in (str(place), "cpu")]
    for estimator in pair:
        for _ in range(2):
            first_part(task, estimator, X, y, WEIGHTS)
        with quiet():
            estimator.fit(X, y)
    assert_agree(*pair)


def test_sparse_rows(place):
    X, y = TABLES["multiclass"]
    data = scipy.sparse.csr_array(np.where(X > 0, X, 0))
    with quiet():
        here = estimator_for("multiclass").fit(data, y)
        named = estimator_for("multiclass", device=str(place)).fit(data, y)
        following = estimator_for("multiclass").fit(to_device(data, place), y)
    for there in (named, following):
        assert there.model_.device == place
        assert_agree(there, here)
    np.testing.assert_allclose(
        to_host(following.predict_proba(to_device(data, place))), here.predict_proba(data), rtol=1e-6
    )


def test_a_frozen_predictor_computes_on_the_host(place):
    X, y = TABLES["multiclass"]
    with quiet():
        estimator = estimator_for("multiclass", device=str(place)).fit(X, y)
    expected, frozen = estimator.predict_proba(X[:3]), estimator.freeze()
    with counted() as counts:
        found = frozen.predict_proba(X[:3])
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert (counts.launches, counts.kernels, counts.reads) == (0, 0, 0)


def test_one_chunk_of_rows_after_several(place, limits):
    """The program of a whole chunk is on the device, where nothing takes the rows unchecked."""
    limits("elements of a chunk of predictions", 1 << 6)
    X, y = TABLES["multiclass"]
    with quiet():
        there, here = (estimator_for("multiclass", device=d).fit(X, y) for d in (str(place), "cpu"))
    for n in (len(X), *range(1, 13)):
        for _ in range(2):
            np.testing.assert_allclose(there.predict_proba(X[:n]), here.predict_proba(X[:n]), rtol=1e-4)


FEW = "multiplications of rows predicted on the host"


def assert_counts(call, launches, reads):
    """Call what may have been called before; return the result."""
    call()
    with counted() as counts:
        found = call()
    assert (counts.launches > 0, counts.allocations > 0, counts.reads) == (launches, launches, reads)
    return found


@pytest.mark.parametrize(
    ("task", "dtype"), [*((task, "float32") for task in TASKS), ("binary", "float64"), ("binary", "tf32x3")]
)
def test_few_rows_of_the_host_are_predicted_there(task, dtype, place, limits):
    """From parameters that are read at once; others wait for launches, and for the result and its check."""
    X, y = TABLES[task]
    with quiet():
        there = estimator_for(task, device=str(place), dtype=dtype).fit(X, y)
    name = "predict_proba" if hasattr(there, "predict_proba") else "predict"
    of_device = {n: getattr(there, name)(X[:n]) for n in (1, 7, len(X))}
    limits(FEW, 1 << 20)
    rtol = 1e-12 if dtype == "float64" else 2e-6
    for n, expected in of_device.items():
        found = assert_counts(lambda n=n: getattr(there, name)(X[:n]), launches=False, reads=1)
        assert type(found) is np.ndarray
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=10 * rtol)
    rows = to_device(X[:3], place)
    with counted() as counts:
        found = getattr(there, name)(rows)
    assert counts.launches
    np.testing.assert_allclose(to_host(found), of_device[7][:3], rtol=rtol, atol=10 * rtol)
    limits(FEW, 7 * there.model_.memory.flat.size)
    assert_counts(lambda: getattr(there, name)(X[:7]), launches=False, reads=1)
    assert_counts(lambda: getattr(there, name)(X[:8]), launches=True, reads=2)


def write(estimator):
    with active(estimator.model_.device):
        estimator.model_.parameters["0.weight"][...] = 0.25


def replace(estimator):
    weight = estimator.model_.module[0].weight
    weight.data = to_device(np.full(weight.shape, 0.25, "float32"), estimator.model_.device)


CHANGES = {
    "an array": write,
    "another array": replace,
    "another fit": lambda estimator: estimator.set_params(warm_start=True).fit(*TABLES["multiclass"]),
    "a part": lambda estimator: estimator.partial_fit(*TABLES["multiclass"]),
    "a layer": lambda estimator: setattr(estimator.model_.module, "1", nn.Tanh()),
    "a hook": lambda estimator: estimator.model_.module.register_forward_hook(
        lambda module, args, output: 2 * output
    ),
    "a precision": lambda estimator: setattr(estimator.model_, "precision", "bfloat16"),
}


@pytest.mark.parametrize("optimizer", [Adam(0.05), EMA(Adam(0.05), 0.9)], ids=["adam", "average"])
@pytest.mark.parametrize("change", CHANGES)
def test_few_rows_are_predicted_by_the_model_of_now(change, optimizer, place, limits):
    X, y = TABLES["multiclass"]
    with quiet():
        there = estimator_for("multiclass", device=str(place), dtype="float32", optimizer=optimizer).fit(X, y)
        limits(FEW, 1 << 20)
        before = there.predict_proba(X[:3])
        CHANGES[change](there)
        found = there.predict_proba(X[:3])
        limits(FEW, 0)
        expected = there.predict_proba(X[:3])
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7)
    if not (isinstance(optimizer, EMA) and "array" in change):  # it predicts with others
        assert np.abs(found - before).max() > 1e-5


@pytest.mark.parametrize("name", ["statistics", "a user's function", "frozen", "many parameters", "images"])
def test_other_rows_are_predicted_on_the_device(name, place, limits):
    X, y = TABLES["multiclass"]
    layers, more, few = [nn.LazyLinear(8), nn.ReLU()], {}, 4
    if name == "statistics":
        layers.insert(1, nn.BatchNorm(8))
    elif name == "a user's function":
        layers.append(nn.Lambda(lambda x: 2 * x))
    elif name == "frozen":
        more = {"frozen": ["0"]}
    elif name == "many parameters":
        layers = [nn.LazyLinear(1 << 11), nn.ReLU()]
    else:  # of which a filter reads many positions
        X, few = np.random.default_rng(0).normal(size=(len(y), 1, 48, 48)), 64
        layers = [nn.Conv2d(1, 4, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    limits(FEW, 1 << 20)
    with quiet():
        there = sknet.NetClassifier(
            nn.Sequential(*layers, nn.LazyLinear(3)), device=str(place), max_iter=1, **more
        )
        there.fit(X, y)
    assert_counts(lambda: there.predict_proba(X[:few]), launches=True, reads=2)
    if name == "images":
        assert_counts(lambda: there.predict_proba(X[:1]), launches=False, reads=1)


def test_losses_of_users_and_frozen_networks_are_predicted_on_the_device(place, limits):
    X, y = TABLES["regression"]
    limits(FEW, 1 << 20)
    factor = to_device(np.full(1, 2.0, "float32"), place)

    class DoubledError(SquaredError):
        def predict(self, output):
            return output * Tensor(factor)

    with quiet():
        there = estimator_for("regression", device=str(place), dtype="float32", loss=DoubledError()).fit(X, y)
    few = there.predict(X[:3])
    np.testing.assert_allclose(few, there.predict(X)[:3], rtol=1e-5)
    for parameter in there.model_.module.parameters():
        parameter.requires_grad = False
    np.testing.assert_allclose(there.predict(X[:3]), few, rtol=1e-6)


def test_pickles_hold_the_hosts_arrays(place):
    X, y = TABLES["multiclass"]
    with quiet():
        estimator = estimator_for("multiclass", device=str(place), warm_start=True).fit(X, y)
    other = pickle.loads(pickle.dumps(estimator))
    assert other.model_.device == place
    np.testing.assert_array_equal(other.predict_proba(X), estimator.predict_proba(X))
    for e in (other, estimator):
        e.partial_fit(X, y)
    np.testing.assert_array_equal(other.predict_proba(X), estimator.predict_proba(X))


def test_scikit_learns_signature_follows_the_data(place):
    X, y = TABLES["binary"]
    with quiet():
        there = neural_network.MLPClassifier(max_iter=3, random_state=0).fit(
            to_device(X, place), to_device(y, place)
        )
        here = neural_network.MLPClassifier(max_iter=3, random_state=0).fit(X, y)
    assert_agree(there, here)


BAD = [
    (lambda X: X[0], r"Expected 2D array, got 1D array of shape \(12,\) instead: reshape"),
    (lambda X: X[:0], r"Found array with 0 sample\(s\) and 12 feature\(s\) while a minimum of 1"),
    (lambda X: X[:, :0], r"0 feature\(s\)"),
    (lambda X: X * np.nan, "Input X contains NaN or infinity; MLPClassifier does not accept"),
    (lambda X: X * np.inf, "Input X contains NaN or infinity"),
    (lambda X: X + 0j, "MLPClassifier needs real numbers, got X of dtype complex128"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_input(change, message, place):
    X, y = TABLES["multiclass"]
    estimator = estimator_for("multiclass")
    with pytest.raises(ValueError, match=message):
        estimator.fit(to_device(change(X), place), y)
    assert not hasattr(estimator, "model_")
    with quiet():
        estimator.fit(to_device(X, place), y)
    with pytest.raises(ValueError, match="X has 5 features, but MLPClassifier is expecting 12 features"):
        estimator.predict(to_device(X[:, :5], place))
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[230, 4\]"):
        estimator.fit(to_device(X, place), y[:4])


def test_integers_are_converted(place):
    X, y = TABLES["multiclass"]
    with quiet():
        there = sknet.MLPClassifier((5,), max_iter=2, random_state=0).fit(
            to_device((4 * X).astype(int), place), y
        )
        here = sknet.MLPClassifier((5,), max_iter=2, random_state=0).fit((4 * X).astype(int), y)
    assert there.coefs_[1].dtype == here.coefs_[1].dtype == "float32"
    assert_agree(there, here, 1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("params", FITS.values(), ids=FITS)
@pytest.mark.parametrize("task", TASKS)
def test_gpu(task, params):
    import cupy

    X, y = TABLES[task]
    common = {"dtype": "float64"} | params
    with quiet():
        there = estimator_for(task, **common).fit(cupy.asarray(X), cupy.asarray(y), cupy.asarray(WEIGHTS))
        here = estimator_for(task, **common).fit(X, y, WEIGHTS)
    assert there.model_.device.kind == "cuda"
    rtol = 1e-3 if params.get("optimizer") == "lbfgs" else 1e-6
    assert_agree(there, here, rtol)
    for name in methods(here):
        found = getattr(there, name)(cupy.asarray(X))
        assert isinstance(found, cupy.ndarray)
        np.testing.assert_allclose(found.get(), getattr(here, name)(X), rtol=rtol, atol=100 * rtol)
    other = pickle.loads(pickle.dumps(there))
    np.testing.assert_array_equal(other.predict(X), there.predict(X))
