import pickle
import subprocess
import sys
import traceback
import warnings

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sknet import (
    Autoencoder,
    MLPClassifier,
    MLPRegressor,
    MultiHeadNet,
    NetRegressor,
    TabularClassifier,
    neural_network,
    nn,
    ops,
)
from sknet.callbacks import Callback, Checkpoint
from sknet.dask import batch_rows, fit
from sknet.exceptions import NonFiniteError
from sknet.optim import SGD, Adam

RTOL = 1e-5
SIZES = [53, 40, 61, 27, 33, 44, 29]


def rows(n_rows=287, seed=0, dtype="float32"):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6)).astype(dtype)
    return X, X[:, 0] - X[:, 1] * X[:, 2] + rng.normal(size=n_rows) * 0.1


def collections(X, y, sizes):
    return da.from_array(X, chunks=(tuple(sizes), X.shape[1])), da.from_array(y, chunks=(tuple(sizes),))


class Beginning(Callback):
    """Ends a fit before its first step, and keeps the model."""

    def on_fit_begin(self, fit):
        self.model_ = fit.model.copy()
        return "stop"


def begun(estimator, X):
    """Return a model as a fit begins with, and the seed that it draws then."""
    here = clone(estimator).set_params(callbacks=[Beginning()], early_stopping=False)
    with warnings.catch_warnings(action="ignore"):
        model = here.fit(X, np.arange(len(X)) % 2).callbacks_[0].model_
    return model, int(model.random_state.randint(2**31))


def local_twin(estimator, X, targets, sizes, batch_size, order=lambda rows: rows):
    """Train a model in this process on the batches of a fit over workers, with rows in some order."""
    model, seed = begun(estimator, X)
    losses = []
    for epoch in range(1, estimator.max_iter + 1):
        batches = batch_rows(sizes, batch_size, seed=seed, epoch=epoch, shuffle=estimator.shuffle)
        batches = [order(rows) for rows in batches]
        found = [(model.step(X[rows], targets[rows]).loss, len(rows)) for rows in batches]
        losses.append(np.average([loss for loss, _ in found], weights=[n for _, n in found]))
    return model, losses


def raw(kind):
    """Return the parameters of a fit on the numbers as they are, with a small penalty."""
    return {"scale_inputs": False, "alpha": 1e-4} | ({"scale_target": False} if kind is MLPRegressor else {})


CASES = {
    "adam": (MLPClassifier, {"optimizer": Adam(lr=1e-2)}),
    "sgd with penalty": (MLPClassifier, {"optimizer": SGD(lr=0.1), "alpha": 1.0}),
    "regression": (MLPRegressor, {"optimizer": Adam(lr=1e-2), "alpha": 0.1}),
    "in order": (MLPRegressor, {"optimizer": SGD(lr=0.05), "shuffle": False}),
}


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("sizes", [[140, 147], SIZES], ids=["two workers", "four workers"])
@pytest.mark.parametrize("case", CASES)
def test_it_is_the_local_fit_on_the_same_batches(client, case, sizes):
    kind, params = CASES[case]
    estimator = kind((16, 8), batch_size=57, max_iter=4, random_state=3, **(raw(kind) | params))
    X, y = rows()
    y = y if kind is MLPRegressor else (y > 0).astype(int)
    targets = y.astype("float32").reshape(-1, 1)
    estimator.fit(*collections(X, y, sizes))
    model, losses = local_twin(estimator, X, targets, sizes, 57)
    assert model.progress.step == estimator.model_.progress.step == 24
    for name, array in model.parameters.items():
        scale = np.abs(array).max()
        np.testing.assert_allclose(estimator.model_.parameters[name], array, rtol=RTOL, atol=RTOL * scale)
    np.testing.assert_allclose(estimator.loss_curve_, losses, rtol=RTOL)


def mean_difference(parameters, others):
    """Return the mean over all parameters, each relative to the largest of its array."""
    parts = [np.abs(parameters[name] - x).ravel() / np.abs(x).max() for name, x in others.items()]
    return np.concatenate(parts).mean()


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("optimizer", [Adam(lr=1e-3), SGD(lr=0.02, momentum=0.9)], ids=["Adam", "SGD"])
def test_the_difference_is_that_of_rows_in_another_order(client, optimizer):
    """Adam divides by the root of the squared gradient: one that is rounding alone makes a full step."""
    sizes = [512] * 4
    params = {"batch_size": 512, "max_iter": 5, "random_state": 0, **raw(MLPRegressor)}
    estimator = MLPRegressor((64, 48), optimizer=optimizer, **params)
    draws = np.random.default_rng(1)

    def fits(dtype, n_orders):
        X, y = rows(2048, dtype=dtype)
        y = y.astype(dtype)
        over_workers = clone(estimator).fit(*collections(X, y, sizes)).model_.parameters
        orders = [lambda rows: rows, *[draws.permutation] * n_orders]
        local = [local_twin(estimator, X, y[:, None], sizes, 512, order)[0].parameters for order in orders]
        return over_workers, local

    over_workers, (local, *_) = fits("float64", 0)
    for name, array in local.items():
        np.testing.assert_allclose(over_workers[name], array, rtol=1e-9, atol=1e-12 * np.abs(array).max())
    over_workers, (local, *permuted) = fits("float32", 5)
    typical = max(mean_difference(each, local) for each in permuted)
    assert 0 < mean_difference(over_workers, local) < 3 * typical


# -- what workers know of each other's rows -------------------------------------------------------------


def quiet(estimator, X, y, sample_weight=None, **options):
    """Fit for a given number of epochs, which do not converge."""
    with pytest.warns(match="Maximum iterations"):
        fit(estimator, X, y, sample_weight, **options) if options else estimator.fit(X, y, sample_weight)
    return estimator


def small(kind=MLPClassifier, **params):
    return kind(
        (8,), **{"batch_size": 50, "max_iter": 3, "random_state": 0, "optimizer": Adam(lr=0.01), **params}
    )


def assert_alike(one, other, rtol=RTOL):
    for name, array in other.model_.parameters.items():
        scale = np.abs(array).max()
        np.testing.assert_allclose(one.model_.parameters[name], array, rtol=rtol, atol=rtol * scale)
    np.testing.assert_allclose(one.loss_curve_, other.loss_curve_, rtol=rtol)


def test_labels_of_all_partitions_are_classes(client):
    X, y = rows()
    labels = np.where(np.arange(len(y)) < 53, "first", np.where(y > 0, "up", "down"))
    clf = quiet(small(), *collections(X, labels, SIZES))  # the first partition has one label only
    assert clf.classes_.tolist() == ["down", "first", "up"]
    assert clf.n_features_in_ == 6
    assert set(clf.predict(X)) <= set(clf.classes_)


@pytest.mark.parametrize("kind", [MLPClassifier, MLPRegressor])
def test_the_result_does_not_depend_on_who_has_which_rows(client, kind):
    """Partitions of the same rows, moved to one worker, to two, and wherever they are."""
    X, y = rows()
    y = y if kind is MLPRegressor else (y > 0).astype(int)
    given = collections(X, y, SIZES)
    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
    fits = []
    for some in (workers[:1], workers[:2], workers):
        parts = client.persist(list(given), workers=some)
        fits.append(quiet(small(kind, alpha=0.5), *parts))
        del parts
    for other in fits[1:]:
        assert_alike(other, fits[0])


@pytest.mark.parametrize("kind", [MLPClassifier, MLPRegressor])
def test_weights_are_those_of_repeated_rows(client, kind):
    X, y = rows(200)
    y = y if kind is MLPRegressor else (y > 0).astype(int)
    counts = np.random.default_rng(1).integers(0, 3, 200).astype(float)
    counts[:50] = 0.0  # a partition without any weight
    one = collections(X, y, [200])
    parts = collections(X, y, [50] * 4)
    weight = da.from_array(counts, chunks=50)
    # A batch of all rows is the same however they are divided.
    params = {"batch_size": 200, "alpha": 0.3, "max_iter": 5}
    weighted = quiet(small(kind, **params), *parts, weight)
    repeated = np.repeat(np.arange(200), counts.astype(int))
    local = small(kind, **{**params, "batch_size": len(repeated)})
    with pytest.warns(match="Maximum iterations"):
        local.fit(X[repeated], y[repeated])
    assert_alike(weighted, local, 1e-4)
    assert_alike(quiet(small(kind, **params), *one, counts), local, 1e-4)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_balanced_classes_are_counted_over_all_partitions(client):
    X, y = rows()
    labels = (y > 1.0).astype(int)
    params = {"class_weight": "balanced", "batch_size": len(X), "max_iter": 5}
    over_workers = small(**params).fit(*collections(X, labels, SIZES))
    assert_alike(over_workers, small(**params).fit(X, labels), 1e-4)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_targets_are_scaled_by_mean_and_deviation_of_all(client):
    X, y = rows()
    y = 1000 + 50 * y
    params = {"scale_target": True, "batch_size": len(X), "max_iter": 10, "alpha": 0.2}
    over_workers = small(MLPRegressor, **params).fit(*collections(X, y, SIZES))
    local = small(MLPRegressor, **params).fit(X, y)
    assert_alike(over_workers, local, 1e-4)
    np.testing.assert_allclose(over_workers.history_["score"], local.history_["score"], atol=1e-4)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_inputs_are_scaled_by_mean_and_deviation_of_all(client):
    X, y = rows(6000, dtype="float64")
    X = 1000 + X * np.geomspace(1e-3, 1e3, 6)
    X[:, 2:4] = 0.1, 7.7  # constants, of which a mean of plain sums has an error
    sizes = [3000, 1, 2900, 99]
    net = small(MLPRegressor, max_iter=1).fit(*collections(X, y, sizes))
    scale = X.std(axis=0)
    scale[2:4] = 1.0
    np.testing.assert_allclose(net.input_mean_, X.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(net.input_scale_, scale, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_frames_are_fitted_by_their_columns(client):
    X, y = rows(120)
    table = pd.DataFrame(X.astype("f8"), columns=list("abcdef"))
    frame = dd.from_pandas(table, npartitions=3)
    target = dd.from_pandas(pd.Series(y), npartitions=3)
    net = small(MLPRegressor, batch_size=120).fit(frame, target)
    assert net.feature_names_in_.tolist() == list("abcdef")
    assert net.model_.dtype == np.float64
    local = small(MLPRegressor, batch_size=120).fit(table, y)
    assert_alike(net, local, 1e-9)
    predicted = net.predict(frame)
    assert isinstance(predicted, da.Array)
    np.testing.assert_allclose(predicted.compute(), local.predict(table), rtol=1e-6)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_fits_go_on_where_others_have_ended(client):
    X, y = rows()
    labels = (y > 0).astype(int)
    parts = collections(X, labels, SIZES)
    clf = small(warm_start=True).fit(*parts)
    assert clf.fit(*parts).n_iter_ == 3
    assert clf.t_ == 6 * len(X)
    assert clf.history_.n_epochs == 6
    part = small().partial_fit(*parts, classes=[0, 1, 2]).partial_fit(*parts)
    assert part.t_ == 2 * len(X)
    assert part.classes_.tolist() == [0, 1, 2]
    part.partial_fit(X, labels)  # and in this process
    assert part.t_ == 3 * len(X)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_a_fitted_estimator_is_an_ordinary_one(client):
    X, y = rows(100)
    clf = small().fit(*collections(X, (y > 0).astype(int), [50, 50]))
    stored = pickle.dumps(clf)
    script = (
        "import pickle, sys, numpy\n"
        "clf = pickle.loads(sys.stdin.buffer.read())\n"
        "print(clf.predict(numpy.zeros((1, 6), 'f4')), {'dask', 'distributed'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], input=stored, capture_output=True, check=True)
    assert done.stdout.decode().split()[-1] == "set()"
    np.testing.assert_array_equal(clf.freeze().predict_proba(X), clf.predict_proba(X))


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_networks_with_statistics_and_masks(client):
    X, y = rows()
    factory = nn.ModuleFactory(Normalized)
    params = {"batch_size": 72, "max_iter": 8, "random_state": 0, "optimizer": Adam(lr=0.02)}
    # Masks, and the rows that a layer takes statistics of, are those of the worker that has the rows.
    given = client.persist(list(collections(X, y, SIZES)), workers=sorted(client.nthreads())[:1])
    nets = [NetRegressor(factory, **params).fit(*given) for _ in range(2)]
    assert_alike(*nets, 1e-6)
    buffers = nets[0].model_.buffers
    assert int(buffers["norm.num_batches"]) == 8 * 4
    assert np.isfinite(buffers["norm.running_mean"]).all()
    assert np.ptp(buffers["norm.running_mean"]) > 0
    assert nets[0].score(X, y) > 0.3


class Normalized(nn.Module):
    def __init__(self, n_features, n_outputs):
        super().__init__()
        self.first, self.norm = nn.Linear(n_features, 16), nn.BatchNorm(16)
        self.drop, self.last = nn.Dropout(0.1), nn.Linear(16, n_outputs)

    def forward(self, x):
        return self.last(self.drop(ops.relu(self.norm(self.first(x)))))


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_rates_follow_what_happens_here(client):
    """A schedule lowers the rate when the loss stops improving; a callback changes the weights in between."""
    X, y = rows()
    params = {"solver": "sgd", "learning_rate": "adaptive", "tol": 10.0, "n_iter_no_change": 1, "max_iter": 6}
    given = collections(X, (y > 0).astype(int), SIZES)
    clf = neural_network.MLPClassifier((4,), **params, random_state=0).fit(*given)
    assert clf.history_["lr"][-1] < 0.3 * clf.history_["lr"][0]
    net = quiet(small(max_iter=2, callbacks=[Zeroing()]), *given)
    assert net.loss_curve_[1] == pytest.approx(np.log(2), rel=0.05)


class Zeroing(Callback):
    def on_epoch_end(self, fit):
        if fit.epoch == 1:
            fit.model.memory.flat[:] = 0.0


# -- steps of their own ------------------------------------------------------------------------------------


def averaged_twin(estimator, X, targets, sizes, batch_size, every):
    """Train a model for each partition, and average them as a fit with `sync_every` does."""
    models = [begun(estimator, X)[0] for _ in sizes]
    seed = begun(estimator, X)[1]
    shares = np.array(sizes) / sum(sizes)
    starts = np.cumsum([0, *sizes])
    for epoch in range(1, estimator.max_iter + 1):
        batches = batch_rows(sizes, batch_size, seed=seed, epoch=epoch)
        for number, chosen in enumerate(batches):
            for model, start, stop in zip(models, starts[:-1], starts[1:], strict=True):
                own = chosen[(chosen >= start) & (chosen < stop)]
                model.step(X[own], targets[own])
            if (number + 1) % every == 0 or number + 1 == len(batches):
                for arrays in zip(*[[m.memory.flat, *m.memory.slots.values()] for m in models], strict=True):
                    mean = np.tensordot(shares, np.stack(arrays), 1)
                    for array in arrays:
                        array[...] = mean
                for model in models:
                    model.memory.note_written("the test")
    return models[0]


@pytest.mark.parametrize("every", [2, 3, 100])
@pytest.mark.parametrize("optimizer", [Adam(lr=1e-2), SGD(lr=0.05)], ids=["adam", "sgd"])
def test_weights_are_averaged_after_steps_of_their_own(client, every, optimizer):
    sizes = [90, 60, 50, 80]  # one for each worker
    X, y = rows(280, dtype="float64")
    params = {**raw(MLPRegressor), "alpha": 0.0, "optimizer": optimizer}
    net = quiet(small(MLPRegressor, **params), *collections(X, y, sizes), sync_every=every)
    twin = averaged_twin(small(MLPRegressor, **params), X, y[:, None], sizes, 50, every)
    for name, array in twin.parameters.items():
        np.testing.assert_allclose(net.model_.parameters[name], array, rtol=1e-8, atol=1e-10)
    assert net.model_.progress.step == 3 * 6


# -- what is refused -----------------------------------------------------------------------------------------


def parts():
    X, y = rows(60)
    return collections(X, (y > 0).astype(int), [30, 30])


REFUSED = {
    "members": (lambda: small(n_members=3), {}, "n_members.*one by one"),
    "a table encoder": (lambda: small(encoder="table"), {}, "encoder.*map_partitions"),
    "lbfgs": (lambda: small(optimizer="lbfgs"), {}, "lbfgs.*such as Adam"),
    "a split": (lambda: small(early_stopping=True, validation_split=([0], [1])), {}, "validation_split"),
    "a second training": (lambda: small(early_stopping=True, refit_on_all=True), {}, "refit_on_all"),
    "heads": (lambda: MultiHeadNet(nn.Linear(6, 1), {"a": "log_loss"}), {}, "several heads.*in memory"),
    "a sampler": (lambda: small(sampler="balanced"), {}, "sampler.*set class_weight"),
    "calibration": (lambda: small(early_stopping=True, calibrate="temperature"), {}, "calibrate"),
    "scorers": (lambda: small(scoring="roc_auc"), {}, "scoring.*score later"),
    "a GPU": (lambda: small(device="cuda"), {}, "device='cuda'.*set 'cpu'"),
    "given validation": (small, {"X_val": np.zeros((2, 6)), "y_val": [0, 1]}, "X_val.*early_stopping=True"),
    "groups": (lambda: small(early_stopping=True), {"groups": np.zeros(60)}, "groups"),
    "an interrupted fit": (small, {"resume_from": "fit.sknet"}, "resume_from.*warm_start=True"),
    "a checkpoint": (small, {"callbacks": [Checkpoint("a folder")]}, "has no state to save in between"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_workers_cannot_do_is_refused(client, case):
    make, options, message = REFUSED[case]
    estimator = make()
    with pytest.raises(ValueError, match=message):
        estimator.fit(*parts(), **options)
    assert not hasattr(estimator, "model_")


@pytest.mark.parametrize("every", [0, 1.5, True, "2"])
def test_sync_every_is_a_positive_int(every):
    with pytest.raises(ValueError, match=r"sync_every.*must be an int >= 1"):
        fit(small(), *parts(), sync_every=every)


def test_options_are_for_collections():
    with pytest.raises(TypeError, match="X must be a Dask collection, got ndarray: fit what is in memory"):
        fit(small(), *rows())


def weighted(n_rows=60, size=20, weight=None, y=None):
    """Return collections of three partitions, of which it is unknown how many rows they have."""
    X, target = rows(n_rows)
    target = target if y is None else y
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcdef")), npartitions=3)
    return frame, dd.from_pandas(pd.Series(target), npartitions=3), weight


def with_one(value, at=25, n_rows=60, dtype=float):
    found = np.ones(n_rows, dtype)
    found[at] = value
    return found


WRONG_ROWS = {
    "NaN": ({"y": with_one(np.nan)}, "partition 1: y contains NaN"),
    "infinity": ({"y": with_one(np.inf)}, "partition 1: y contains infinity"),
    "None": ({"y": with_one(None, dtype=object)}, "partition 1: y contains missing values, NaN or None"),
    "NaN weights": ({"weight": with_one(np.nan)}, "partition 1: sample_weight must be finite .*got nan"),
    "negative": ({"weight": with_one(-2)}, "partition 1: sample_weight must be .* not negative, got -2"),
    "zeros": ({"weight": np.zeros(60)}, "at least one weight must be positive, got zeros only"),
    "no weights": (
        {"weight": np.ones(57)},
        r"partition 0: sample_weight has shape \(19,\), and X has 20 rows",
    ),
}


@pytest.mark.parametrize("case", WRONG_ROWS)
@pytest.mark.parametrize("scaled", [False, True])
def test_wrong_targets_and_weights_are_refused_before_training(client, case, scaled):
    changes, message = WRONG_ROWS[case]
    X, y, weight = weighted(**changes)
    weight = None if weight is None else da.from_array(weight, chunks=len(weight) // 3)
    net = small(MLPRegressor, scale_target=scaled)
    with pytest.raises(ValueError, match=message):
        net.fit(X, y, weight)
    assert not hasattr(net, "model_")


def test_one_weight_for_all_rows(client):
    X, y, _ = weighted()
    net = small(MLPRegressor, alpha=1e-4)  # a weight of 2 halves the part of a penalty
    assert_alike(quiet(clone(net), X, y, 2.0), quiet(net, X, y))


LABELS = {
    "None": (with_one(None, dtype=object), "partition 1: y contains missing values, NaN or None"),
    "NaN": (with_one(np.nan), "partition 1: y contains NaN"),
    "mixed": (with_one("a", dtype=object), "partition 1: y has labels of types int and str: convert them"),
    "other": (
        np.array([1] * 20 + ["a"] * 40, object),
        "partition 0 has labels that are numbers, and partition 1",
    ),
}


@pytest.mark.parametrize("case", LABELS)
def test_labels_that_cannot_be_compared_name_their_partition(client, case):
    labels, message = LABELS[case]
    X, _ = rows(60)
    with pytest.raises(ValueError, match=message):
        small().fit(da.from_array(X, chunks=(20, 6)), da.from_array(labels, chunks=20))


def test_a_column_of_labels_is_one_label_a_row(client):
    X, y, _ = weighted(y=(rows(60)[1] > 0).astype(int))
    fits = [quiet(small(class_weight="balanced"), X, each) for each in (y, y.to_frame())]
    assert_alike(*fits)


def test_other_estimators_are_refused_by_name(client):
    for other in (LogisticRegression(), make_pipeline(StandardScaler(), small()), TabularClassifier()):
        message = f"MLPRegressor, NetClassifier.*sknet.neural_network, got {type(other).__name__}.*compute"
        with pytest.raises(TypeError, match=message):
            fit(other, *parts())


def test_targets_are_not_the_inputs(client):
    X, y = parts()
    for ask in (lambda: Autoencoder((2,)).fit(X, y), lambda: fit(Autoencoder((2,)), X, y)):
        with pytest.raises(ValueError, match=r"Autoencoder does not support targets that are X.*compute\(\)"):
            ask()
    with pytest.raises(ValueError, match=r"MLPClassifier does not support y=None.*give the targets"):
        fit(small(), X, None)


def bad(X=None, y=None):
    """Return collections of three partitions, the second of which is this."""
    first, third = (np.ones((20, 6), "f4"), np.arange(20) % 2), (np.zeros((20, 6), "f4"), np.arange(20) % 2)
    second = (first[0] if X is None else X, first[1] if y is None else y)
    made = [[da.from_array(array, chunks=array.shape) for array in part] for part in (first, second, third)]

    def joined(which, shape):
        blocks = [
            dask.delayed(array.compute(scheduler="synchronous")) for array in (part[which] for part in made)
        ]
        lazy = [da.from_delayed(block, (np.nan, *shape), dtype=made[0][which].dtype) for block in blocks]
        return da.concatenate(lazy, allow_unknown_chunksizes=True)

    return joined(0, (6,)), joined(1, ())


BAD = {
    "columns": ({"X": np.ones((20, 5), "f4")}, r"partition 0 has rows of shape \(6,\), and partition 1"),
    "precision": (
        {"X": np.ones((20, 6))},
        "partition 0 has dtype float32, and partition 1 has dtype float64",
    ),
    "NaN": ({"X": np.full((20, 6), np.nan, "f4")}, "partition 1: Input X contains NaN"),
    "rows": ({"y": np.arange(19) % 2}, "partition 1 has 20 rows of X and 19 of y"),
}


@pytest.mark.parametrize("case", BAD)
def test_partitions_that_do_not_fit_are_named(client, case):
    changes, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        small().fit(*bad(**changes))


def test_partitions_are_counted_with_those_that_are_empty(client):
    X, y = bad(X=np.ones((0, 6), "f4"), y=np.zeros(0, int))
    wrong = X.map_blocks(lambda x: np.where(x == 0, np.float32(np.nan), x), dtype="f4")
    with pytest.raises(ValueError, match="partition 2: Input X contains NaN") as caught:
        small(batch_size=40).fit(wrong, y)
    assert "No worker found" not in "".join(traceback.format_exception(caught.value))


def test_empty_partitions_are_left_out(client):
    X, y = bad(X=np.ones((0, 6), "f4"), y=np.zeros(0, int))
    clf = quiet(small(batch_size=40), X, y)
    assert clf.t_ == 3 * 40
    assert clf.predict(X).compute().shape == (40,)
    nothing = da.zeros((0, 6), chunks=(0, 6)), da.zeros(0, chunks=0)
    with pytest.raises(ValueError, match="X has no rows: all of its partitions are empty"):
        small().fit(*nothing)


def test_sparse_partitions_are_refused(client):
    X, y = parts()
    with pytest.raises(ValueError, match=r"partition 0 of X is sparse.*toarray"):
        small().fit(X.map_blocks(csr_array, dtype=X.dtype, meta=X._meta), y)


def test_a_diverging_fit_names_epoch_and_parameter(client):
    X, y = rows()
    net = small(MLPRegressor, optimizer=SGD(lr=1e20, momentum=0.0))
    with pytest.raises(NonFiniteError, match=r"diverged in epoch 1, batch .* of 6.*gradient of parameter"):
        net.fit(*collections(X, y, SIZES))
    assert not hasattr(net, "model_")
