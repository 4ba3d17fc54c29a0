"""Round trips keep everything: the same predictions and further training, to the bit."""

import inspect
import pickle
import warnings
from functools import partial

import joblib
import numpy as np
import pandas
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator
from sklearn.model_selection import KFold

import sknet
from sknet import engine, losses, neural_network, nn, optim
from sknet.callbacks import EarlyStopping, EpochScoring, GradientMonitor, TimeLimit
from sknet.optim import EMA, SGD, SWA, Adam, Groups, ScheduleFreeAdamW, schedules
from sknet.tabular import Members
from tests.estimators.data import TABLES, TASKS, estimator_for, quiet, same_state
from tests.estimators.nets import LazyNet, Net, Normed, net_for, sequential
from tests.fuzz.estimators import Both, Images, Table, Words
from tests.fuzz.structured import classes
from tests.losses.test_contract import CASES as LOSS_CASES
from tests.nn.layers.test_contract import ROWS as LAYERS
from tests.project import shared_objects
from tests.test_pickling import BASES, assert_alike, assert_works_alike, made

EXPONENTIAL = schedules.Exponential(0.1, factor=0.5)
MINE = [Net, LazyNet, Normed, sequential, Table, Images, Words, Both]


def through_file(x, folder, **options):
    sknet.save(x, folder / "it.safetensors", **options)
    return sknet.load(folder / "it.safetensors", trusted=MINE)


def through_joblib(x, folder):
    joblib.dump(x, folder / "it.joblib", compress=3)
    return joblib.load(folder / "it.joblib")


WAYS = {
    "file": through_file,
    "pickle": lambda x, folder: pickle.loads(pickle.dumps(x)),
    "joblib": through_joblib,
}


# -- every public class -------------------------------------------------------------------------------------


def is_base(cls):
    return inspect.isabstract(cls) or cls in (optim.Combinator, optim.BaseOptimizer)


KNOWN = [*classes().values()]
STORED = {
    name: value
    for name, value in shared_objects().items()
    if isinstance(value, type) and any(value is known for known in KNOWN) and name not in BASES
}


def test_all_attributes_of_estimators_are_stored():
    bases = (nn.Module, losses.Loss, optim.BaseOptimizer, schedules.Schedule, nn.init.Initializer)
    bases += (sknet.callbacks.Callback, BaseEstimator, engine.Model, nn.StateDict)
    needed = {
        name
        for name, value in shared_objects().items()
        if isinstance(value, type)
        and issubclass(value, bases)
        and value.__module__.startswith("sknet")  # not scikit-learn's
        and not getattr(value, "__abstractmethods__", ())
    }
    left_out = (
        needed - STORED.keys() - BASES - {"sknet.callbacks._stopping.Plateau"}
    )  # which belongs to a running fit
    assert not left_out


@pytest.mark.parametrize("name", STORED)
def test_every_public_class(name, tmp_path):
    instance = made(STORED[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = through_file(instance, tmp_path)
    assert_alike(instance, other, set())
    assert_works_alike(instance, other)


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer(name, tmp_path):
    make, shape = LAYERS[name]
    x = np.random.default_rng(0).normal(size=(3, *shape)).astype("float32")
    for drawn in (True, False):
        layer = make()
        if drawn:
            layer.initialize(0)
        sknet.save(layer, tmp_path / "layer")
        other = sknet.load(tmp_path / "layer", trusted=[type(layer)])
        ours, theirs = (each.initialize(0).eval()(x) for each in (layer, other))
        assert_alike(ours, theirs, set())


# -- models: every loss, optimizer and schedule --------------------------------------------------------------


def concrete(package, base):
    found = [getattr(package, name) for name in package.__all__]
    kinds = [value for value in found if isinstance(value, type) and issubclass(value, base)]
    return [made(kind) for kind in kinds if not is_base(kind)]


SQUARED = next(case for case in LOSS_CASES if isinstance(case.loss, losses.SquaredError))
GROUPS = Groups({"*bias": SGD(0.1, 0.9), "*": Adam(EXPONENTIAL)})
OPTIMIZERS = [x for x in concrete(optim, optim.Optimizer) if type(x) is not Groups]
MODELS = {
    **{f"loss {i} {case.loss}": (case, {}) for i, case in enumerate(LOSS_CASES)},
    **{
        f"{x}": (SQUARED, {"optimizer": x}) for x in concrete(optim, optim.Optimizer) if type(x) is not Groups
    },
    **{f"{x}": (SQUARED, {"optimizer": SGD(x, 0.9)}) for x in concrete(schedules, schedules.Schedule)},
    "groups": (SQUARED, {"optimizer": GROUPS, "alpha": 0.1}),
}


def batches(case):
    """Return batches for a loss, and a network with buffers that takes them."""
    shape = next((shape for shape in case.shapes if len(shape) == 2 and shape[1] > 1), case.shapes[-1])
    drawn = [case.draw(shape, np.float32, seed) for seed in range(3)]
    X = [np.random.default_rng(seed).normal(size=(*shape[:-1], 4)).astype("float32") for seed in range(3)]
    last = [nn.Softmax()] if case.loss.of_probabilities else []
    network = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Dropout(0.2), nn.Linear(5, shape[-1]), *last)
    return network, [(x, y) for x, (_, y) in zip(X, drawn, strict=True)]


@pytest.mark.parametrize("name", MODELS)
def test_models(name, tmp_path):
    case, given = MODELS[name]
    network, drawn = batches(case)
    model = sknet.Model(network, case.loss, **given, random_state=0)
    model.train(drawn, epochs=2)
    model.epoch_ended(plateau=True)
    others = [through(model, tmp_path) for through in WAYS.values()]
    X = drawn[0][0]
    for other in others:
        assert_alike(model, other, set())
    curve = model.train(drawn, epochs=2)
    for other in others:
        assert other.train(drawn, epochs=2)["loss"] == curve["loss"]
        same_state(model.state, other.state)
        np.testing.assert_array_equal(model.predict(X), other.predict(X))
    slim = through_file(model, tmp_path, include="predict")
    np.testing.assert_array_equal(slim.predict(X), model.predict(X))
    slim.train(drawn)


def test_a_frozen_parameter_keeps_its_slots(tmp_path):
    X, y = np.eye(4, dtype="float32"), np.ones((4, 2), "float32")
    model = sknet.Model(
        nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)), optimizer=SGD(0.1, 0.9), random_state=0
    )
    model.step(X, y)
    model.module[0].weight.requires_grad = False
    model.step(X, y)
    other = through_file(model, tmp_path)
    for each in (model, other):
        each.module[0].weight.requires_grad = True
        each.step(X, y)
    same_state(model.state, other.state)


@pytest.mark.parametrize("is_frozen", [False, True])
@pytest.mark.parametrize("is_drawn", [False, True])
def test_weights_that_are_to_be_fitted_to_data(is_drawn, is_frozen, tmp_path):
    X, y = np.random.default_rng(0).normal(size=(9, 4)).astype("float32"), np.ones((9, 2), "float32")
    network = nn.Sequential(nn.Linear(4, 3, init="data"), nn.Linear(3, 2))
    network[0].weight.requires_grad = not is_frozen
    if is_drawn:
        network.initialize(0)
    other = through_file(network, tmp_path)
    other[0].weight.requires_grad = network[0].weight.requires_grad = True
    models = [sknet.Model(each, random_state=0) for each in (network, other)]
    models[1] = through_file(models[1], tmp_path)
    assert models[0].step(X, y).loss == models[1].step(X, y).loss
    trained = through_file(models[0], tmp_path)
    assert trained.step(X, y).loss == models[0].step(X, y).loss


def test_a_lazy_model(tmp_path):
    X, y = np.eye(4, dtype="float32"), np.ones((4, 2), "float32")
    model = sknet.Model(nn.Sequential(nn.LazyLinear(3), nn.LazyLinear(2)), random_state=0)
    other = through_file(model, tmp_path)
    assert model.step(X, y).loss == other.step(X, y).loss


def test_shared_objects_stay_shared(tmp_path):
    layer = nn.Linear(3, 3)
    network = through_file(nn.Sequential(layer, nn.Tanh(), layer), tmp_path)
    assert network[0] is network[2]
    random_state = np.random.RandomState(0)
    X, y = TABLES["regression"]
    with quiet():
        fitted = sknet.MLPRegressor((3,), max_iter=2, random_state=random_state).fit(X, y)
    other = through_file(fitted, tmp_path)
    assert other.random_state is other.model_.random_state


# -- fitted estimators --------------------------------------------------------------------------------------

NAMES = np.array(["low", "mid", "top"])
X, LABELS = TABLES["multiclass"]
TEXTS = (X, NAMES[LABELS])
OBJECTS = (X, NAMES[LABELS].astype(object))
IDS = np.random.default_rng(0).integers(0, 5, (len(X), 3))
MANY = {"words": IDS, "numbers": X}
KINDS = [sknet.MLPClassifier, sknet.MLPRegressor, neural_network.MLPClassifier, neural_network.MLPRegressor]
SMALL = {"max_iter": 3, "random_state": 0, "warm_start": True}
STOPS = {"early_stopping": True, "warm_start": True}


def perceptron(task, **params):
    return estimator_for(task, **{"dropout": 0.2, "warm_start": True} | params), *TABLES[task]


def frame():
    data = pandas.DataFrame(X, columns=[f"column {i}" for i in range(X.shape[1])])
    return sknet.MLPClassifier((3,), **SMALL), data, LABELS


def net(task, module=Net, data=None, **params):
    return net_for(task, module, **{"warm_start": True} | params), *(data or TABLES[task])


CALLBACKS = [
    EarlyStopping("loss"),
    TimeLimit(600.0),
    GradientMonitor(),
    EpochScoring("roc_auc"),
]
INNER = nn.Sequential(nn.Linear(8, 8), nn.PReLU(), nn.BatchNorm(8))


FITTED = {
    **{task: lambda task=task: perceptron(task) for task in TABLES if "counts" not in task},
    **{f"{task}, stopped": lambda task=task: perceptron(task, **STOPS) for task in TASKS},
    **{
        f"signature {i}": lambda i=i: (KINDS[i](hidden_layer_sizes=(4,), **SMALL), *TABLES["binary"])
        for i in range(4)
    },
    "average": lambda: perceptron("binary", optimizer=EMA(Adam(), 0.9)),
    "averages": lambda: perceptron("binary", optimizer=SWA(Adam()), early_stopping=True),
    "schedule free": lambda: perceptron("binary", optimizer=ScheduleFreeAdamW()),
    "lbfgs": lambda: perceptron("regression", optimizer="lbfgs", dropout=0.0),
    "float64": lambda: perceptron("regression", dtype="float64", alpha=np.float32(0.1)),
    "poisson": lambda: perceptron("counts", loss="poisson", scale_target=True),
    "gaussian": lambda: perceptron("regression", loss="gaussian_nll", scale_target=True),
    "quantiles": lambda: perceptron("regression", loss=losses.Quantile([0.1, 0.5, 0.9])),
    "calibrated": lambda: perceptron("columns", calibrate="temperature", validation_split=KFold(4)),
    "refit": lambda: perceptron("binary", early_stopping=True, refit_on_all=True),
    "scored": lambda: perceptron("binary", scoring={"auc": "roc_auc", "f": "f1"}, monitor="auc", **STOPS),
    "callbacks": lambda: perceptron("binary", callbacks=CALLBACKS, early_stopping=True),
    "class weights": lambda: perceptron("multiclass", class_weight={0: 1.0, 1: 2.0, 2: 0.5}),
    "unseeded": lambda: perceptron("binary", random_state=np.random.RandomState(3)),
    "texts": lambda: (sknet.MLPClassifier((3,), **SMALL), *TEXTS),
    "objects": lambda: (sknet.MLPClassifier((3,), **SMALL), *OBJECTS),
    "ordered": lambda: (sknet.MLPClassifier((3,), loss=losses.Ordinal(NAMES), **SMALL), *TEXTS),
    "sparse": lambda: (sknet.MLPClassifier((3,), **SMALL), csr_matrix(np.where(X > 0, X, 0)), LABELS),
    "frame": frame,
    "encoded": lambda: perceptron("binary", encoder="table"),
    "encoded, stopped": lambda: perceptron("regression", encoder=sknet.TableEncoder(n_bins=4), **STOPS),
    "members": lambda: perceptron("multiclass", n_members=2, warm_start=False),
    "members on samples": lambda: perceptron(
        "regression", n_members=2, bootstrap=True, early_stopping=True, warm_start=False
    ),
    "activation": lambda: perceptron(
        "binary", activation=nn.Sequential(nn.Linear(8, 8), nn.PReLU(), nn.BatchNorm(8))
    ),
    "frozen": lambda: perceptron("binary", frozen="0.*"),
    "class": lambda: net("binary"),
    "factory": lambda: net("multiclass", nn.ModuleFactory(Normed, hidden=5)),
    "function": lambda: net("regression", sequential),
    "lazy": lambda: net("multioutput", LazyNet, **STOPS),
    "ready": lambda: net("regression", sequential(12, 1)),
    "images": lambda: net("multiclass", Images, (X.reshape(-1, 1, 4, 3), LABELS)),
    "words": lambda: net("multiclass", Words, (IDS, LABELS)),
    "many inputs": lambda: net("multiclass", Both, (MANY, LABELS)),
    "autoencoder": lambda: (sknet.Autoencoder((6, 2), tied=True, noise=0.1, **SMALL), X, None),
    "transformer": lambda: (sknet.NetTransformer(sequential(12, 12), code=0, **SMALL), X, None),
}


METHODS = ("predict", "predict_proba", "decision_function", "predict_std", "predict_quantiles", "transform")


METHODS = ("predict", "predict_proba", "decision_function", "predict_std", "predict_quantiles", "transform")


def told(estimator, X, methods=METHODS):
    """Return all predictions of an estimator for X."""
    return {name: getattr(estimator, name)(X) for name in methods if hasattr(estimator, name)}


def assert_same(a, b, X):
    assert_alike(told(a, X), told(b, X), set())
    same_state(a.model_.state, b.model_.state)
    curves = [{k: v for k, v in e.history_.items() if k != "time"} for e in (a, b)]
    assert repr(curves[0]) == repr(curves[1])  # NaN for NaN


@pytest.mark.parametrize("name", FITTED)
def test_fitted_estimators(name, tmp_path):
    estimator, X, y = FITTED[name]()
    with quiet():
        estimator.fit(X, y)
    others = {way: through(estimator, tmp_path) for way, through in WAYS.items()}
    for other in others.values():
        assert_alike(estimator.get_params(), other.get_params(), set())
        assert_same(estimator, other, X)
    params = estimator.get_params()
    holds_out = params["early_stopping"] is True or params.get("validation_split")
    if hasattr(estimator, "partial_fit") and not holds_out:
        estimator.partial_fit(X, y)
        for way, other in others.items():
            other.partial_fit(X, y)
            assert_same(estimator, other, X)
            others[way] = WAYS[way](other, tmp_path)
    with quiet():
        estimator.fit(X, y)
    for other in others.values():
        with quiet():
            other.fit(X, y)
        assert_same(estimator, other, X)


@pytest.mark.parametrize("name", FITTED)
def test_predict_files(name, tmp_path):
    estimator, X, y = FITTED[name]()
    with quiet():
        estimator.fit(X, y)
    expected = told(estimator, X)
    slim = through_file(estimator, tmp_path, include="predict")
    for other in (slim, estimator.slim(), pickle.loads(pickle.dumps(estimator.slim()))):
        assert_alike(told(other, X), expected, set())
        assert other.history_ == {}
    with quiet():  # it can be trained further
        slim.set_params(warm_start=estimator.get_params().get("n_members", 1) == 1).fit(X, y)
    frozen = estimator.freeze()
    loaded = through_file(frozen, tmp_path)
    assert type(loaded) is type(frozen)
    expected = told(frozen, X)
    assert_alike(told(loaded, X, expected), expected, set())


@pytest.mark.parametrize("name", FITTED)
def test_unfitted_estimators(name, tmp_path):
    estimator, X, y = FITTED[name]()
    if isinstance(estimator.random_state, np.random.RandomState):
        estimator.set_params(random_state=0)  # which a fit draws from
    other = through_file(estimator, tmp_path)
    assert repr(other) == repr(estimator)
    for each in (estimator, other):
        with quiet():
            each.fit(X, y)
    assert_same(estimator, other, X)


def test_partial_fit_that_stops_early(tmp_path):
    """Patience and best weights are kept too."""
    X, y = TABLES["regression"]
    held_out = {"X_val": X[200:], "y_val": y[200:]}
    one = sknet.MLPRegressor((4,), early_stopping=True, n_iter_no_change=2, random_state=0)
    for _ in range(4):
        one.partial_fit(X[:200], y[:200], **held_out)
    other = through_file(one, tmp_path)
    for _ in range(4):
        for each in (one, other):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                each.partial_fit(X[:200], y[:200], **held_out)
        assert_same(one, other, X)
        assert one.stopped_early_ == other.stopped_early_


MEMBERS = {kind: Members(hidden_layer_sizes=[16]) for kind in ("smooth", "sharp")}
TABULAR = {"n_folds": 2, "budget": 0.02, "random_state": 0, **MEMBERS}
ROWS = {
    "classifier": lambda: sknet.TabularClassifier(**TABULAR).fit(*TEXTS),
    "regressor": lambda: sknet.TabularRegressor(**TABULAR).fit(X, X[:, 0]),
    "encoder": lambda: sknet.TableEncoder(random_state=0).fit(*TEXTS),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_reads_tables(name, tmp_path):
    estimator = ROWS[name]()
    frozen = estimator.freeze() if hasattr(estimator, "freeze") else sknet.freeze(estimator)
    for through in (*WAYS.values(), partial(through_file, include="predict")):
        for each in (estimator, frozen):
            assert_alike(told(through(each, tmp_path), X), told(each, X), set())
        again = through(estimator, tmp_path).fit(*(TEXTS if name != "regressor" else (X, X[:, 0])))
        assert_alike(told(again, X), told(estimator, X), set())


@pytest.mark.parametrize(
    ("kind", "task"), [(neural_network.MLPClassifier, "binary"), (neural_network.MLPRegressor, "regression")]
)
def test_drop_ins_are_loaded(kind, task, tmp_path):
    X, y = TABLES[task]
    with quiet():
        estimator = kind(hidden_layer_sizes=(3,), max_iter=2, random_state=0).fit(X, y)
    np.testing.assert_array_equal(through_file(estimator, tmp_path).predict(X), estimator.predict(X))
