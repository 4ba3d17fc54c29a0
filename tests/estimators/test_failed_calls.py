"""A call that fails leaves every kind of estimator, and the process, as they were."""

import threading
from copy import deepcopy

import joblib
import numpy as np
import pytest
import sklearn
import threadpoolctl

import sknet
from sknet import neural_network, nn
from sknet.callbacks import Callback
from sknet.model_selection import GridSearchCV, HalvingGridSearchCV, HyperbandSearchCV
from sknet.tabular import Members
from tests.estimators.data import quiet

X = np.random.default_rng(0).normal(size=(40, 3))
LABELS = np.arange(40) % 2
COMMON = {"max_iter": 2, "random_state": 0}
FEW = Members(hidden_layer_sizes=[4], epochs=1, per_fold=1)
TABULAR = {"n_folds": 2, "smooth": FEW, "sharp": FEW, "n_jobs": 1, "random_state": 0}


class Heads(nn.Module):
    """A network with two outputs by name."""

    def __init__(self):
        self.number, self.label = nn.LazyLinear(1), nn.LazyLinear(1)

    def forward(self, x):
        return {"number": self.number(x), "label": self.label(x)}


class Raises(Callback):
    """A callback that raises an error in one of its hooks."""

    def __init__(self, hook):
        self.hook = hook

    def _at(self, hook):
        if hook == self.hook:
            raise MemoryError(hook)

    def on_fit_begin(self, fit):
        self._at("on_fit_begin")

    def on_epoch_begin(self, fit):
        self._at("on_epoch_begin")

    def on_block_end(self, fit):
        self._at("on_block_end")

    def on_epoch_end(self, fit):
        self._at("on_epoch_end")

    def on_fit_end(self, fit):
        self._at("on_fit_end")


def fails(*_, **__):
    raise MemoryError("no memory")


def network():
    return nn.Sequential(nn.LazyLinear(3), nn.Dropout(0.5), nn.Tanh(), nn.LazyLinear(1))


def code():
    return nn.Sequential(nn.LazyLinear(2), nn.LazyLinear(3))


def search(cls=GridSearchCV, **params):
    estimator = sknet.MLPClassifier((3,), early_stopping=True, **COMMON)
    return cls(estimator, {"alpha": [0.1, 0.2, 0.3]}, cv=2, error_score="raise", **params)


MAKERS = {
    "MLPClassifier": lambda: sknet.MLPClassifier((3,), dropout=0.5, **COMMON),
    "MLPRegressor": lambda: sknet.MLPRegressor(
        (3,), n_members=2, **{**COMMON, "random_state": np.random.RandomState(0)}
    ),
    "NetClassifier": lambda: sknet.NetClassifier(network(), warm_start=True, **COMMON),
    "NetRegressor": lambda: sknet.NetRegressor(network(), scale_target=True, **COMMON),
    "NetTransformer": lambda: sknet.NetTransformer(code(), **COMMON),
    "Autoencoder": lambda: sknet.Autoencoder((2,), **COMMON),
    "MultiHeadNet": lambda: sknet.MultiHeadNet(
        Heads(), loss={"number": "squared_error", "label": "log_loss"}, **COMMON
    ),
    "TabularClassifier": lambda: sknet.TabularClassifier(**TABULAR),
    "TabularRegressor": lambda: sknet.TabularRegressor(**TABULAR),
    "drop-in adam": lambda: neural_network.MLPClassifier((3,), early_stopping=True, **COMMON),
    "drop-in lbfgs": lambda: neural_network.MLPRegressor(hidden_layer_sizes=(3,), solver="lbfgs", **COMMON),
    "GridSearchCV": search,
    "HalvingGridSearchCV": lambda: search(HalvingGridSearchCV, max_resources=3, random_state=0),
    "HyperbandSearchCV": lambda: search(HyperbandSearchCV, max_resources=3, random_state=0),
}


def targets(name):
    if name == "MultiHeadNet":
        return ({"number": X[:, 0], "label": LABELS},)
    if name in ("NetTransformer", "Autoencoder"):
        return ()
    return (X[:, 0] if "Regressor" in name or "lbfgs" in name else LABELS,)


def holes():
    found = X.copy()
    found[3, 1] = np.inf
    return found


BAD = {
    "texts": lambda y: ("table", *y),
    "no rows": lambda y: (X[:0], *y),
    "infinite": lambda y: (holes(), *y),
    "fewer rows": lambda y: (X[:-1], *y) if y else (X[0],),
    "three axes": lambda y: (X[None, None], *y),
    "no targets": lambda y: (X, "none"),
}
UNBOUND = {  # what is no error
    "TabularRegressor": ("infinite", "scoring"),
    "TabularClassifier": ("infinite",),
    "NetTransformer": ("three axes",),
    "MultiHeadNet": ("loss",),
}
HOOKS = ("on_fit_begin", "on_epoch_begin", "on_block_end", "on_epoch_end", "on_fit_end")


def failures(name, estimator, y):
    """Yield names of failures, parameters that cause them, and calls that fail."""
    calls = {"fit": lambda e, *a, **more: e.fit(*(a or (X, *y)), **more)}
    if hasattr(estimator, "partial_fit"):
        calls["partial_fit"] = lambda e, *a: e.partial_fit(*(a or (X, *y)))
    yield from by_arguments(name, estimator, y, calls)
    yield from by_parameters(name, estimator.get_params(), calls)
    if "early_stopping" in estimator.get_params() and "drop-in" not in name:
        more = {"y_val": y[0]} if y else {}
        yield "fit: X_val", {}, lambda e: e.fit(X, *y, X_val=X[:, :2], **more)


def by_arguments(name, estimator, y, calls):
    for bad, arguments in BAD.items():
        for method, call in calls.items():
            if (y or bad != "no targets") and bad not in UNBOUND.get(name, ()):
                yield f"{method}: {bad}", {}, lambda e, c=call, a=arguments: c(e, *a(y))
        for method in ("predict", "transform"):
            if hasattr(estimator, method) and bad in ("texts", "no rows", "three axes"):
                yield f"{method}: {bad}", {}, lambda e, m=method, a=arguments: getattr(e, m)(a(())[0])


def by_parameters(name, params, calls):
    inner = "estimator__" if "Search" in name else ""
    for method, call in calls.items():
        for cause in ("sampler", "loss", "scoring"):
            if inner + cause in params and cause not in UNBOUND.get(name, ()):
                yield f"{method}: {cause}", {inner + cause: fails}, call
        for hook in HOOKS if method == "fit" else HOOKS[-1:]:
            if "callbacks" in params:
                yield f"{method}: {hook}", {"callbacks": [Raises(hook)]}, call
    if "refit" in params:
        grid = "param_grid" if "param_grid" in params else "param_distributions"
        yield "fit: the search's scorer", {"scoring": fails}, calls["fit"]
        yield "fit: a candidate", {grid: {"alpha": [0.1, 0.2, -1]}}, calls["fit"]


def process_state():
    return {
        "threads": threading.active_count(),
        "BLAS": [each["num_threads"] for each in threadpoolctl.threadpool_info()],
        "scikit-learn": sklearn.get_config(),
        "sknet": sknet.get_config(),
        "NumPy": np.geterr(),
        "random": joblib.hash(np.random.mtrand._rand.get_state()),
    }


def predictions(estimator):
    names = ("predict", "predict_proba", "transform")
    return joblib.hash([getattr(estimator, name)(X) for name in names if hasattr(estimator, name)])


def state(estimator):
    return {
        "attributes": {key: id(value) for key, value in vars(estimator).items()},
        "predictions": predictions(estimator),
        "random state": joblib.hash(estimator.get_params().get("random_state")),
        **process_state(),
    }


@pytest.mark.parametrize("name", MAKERS)
def test_a_failed_call_changes_nothing(name):
    y = targets(name)
    with quiet():
        estimator = MAKERS[name]().fit(X, *y)
        twin = deepcopy(estimator)
        for failure, params, call in failures(name, estimator, y):
            own = {key: estimator.get_params()[key] for key in params}
            before = state(estimator.set_params(**params))
            with pytest.raises((ValueError, TypeError, MemoryError)):
                call(estimator)
            after = state(estimator)
            assert {key for key in before if after[key] != before[key]} == set(), failure
            estimator.set_params(**own)
        again = "partial_fit" if hasattr(estimator, "partial_fit") and "drop-in" not in name else "fit"
        assert predictions(getattr(estimator, again)(X, *y)) == predictions(getattr(twin, again)(X, *y))
