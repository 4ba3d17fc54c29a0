"""Estimators in random sequences of user actions on a fitted estimator.

A compiled estimator and a twin whose model takes eager steps are fitted in parts, changed, written
to, pickled and used for prediction. After each action, batches, single rows, coefficients, pickles and
copies have to agree; the twins agree to rounding, since a compiled fit may fuse.

    python -m tests.fuzz.estimators --cases 2000 --seed 0
"""

import copy
import pickle
import sys
import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from sklearn.base import clone

from sknet import MLPClassifier, MLPRegressor, NetClassifier, NetRegressor, nn, ops
from sknet.exceptions import NonFiniteError
from sknet.losses import Focal, Ordinal, Quantile
from sknet.optim import EMA, SGD, Adam
from tests.fuzz.command import run

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 4))
Y = np.sin(X @ RNG.normal(size=(4, 2)))
LABELS = np.arange(24) % 3
NAMES, NOT_SORTED = np.array(["low", "mid", "top"]), np.array(["some", "more", "all"])


class Case(NamedTuple):
    """A loss, targets for it, arguments of the first partial_fit, and other parameters."""

    loss: Callable[[], Any]
    y: Any
    classes: Any = None
    more: Mapping[str, Any] = MappingProxyType({})

    @property
    def first(self) -> dict[str, Any]:
        return {} if self.classes is None else {"classes": self.classes}


class Table(nn.Module):
    """With a norm, whose buffers are trained too, and dropout."""

    def __init__(self, n_features, n_outputs, hidden=5):
        self.body = nn.Sequential(nn.Linear(n_features, hidden), nn.BatchNorm(hidden), nn.Tanh())
        self.head = nn.Linear(hidden, n_outputs)

    def forward(self, x):
        return self.head(self.body(x))


class Images(nn.Module):
    def __init__(self, n_outputs, channels=3):
        self.body = nn.Sequential(nn.LazyConv2d(channels, 2), nn.ReLU(), nn.Flatten())
        self.head = nn.LazyLinear(n_outputs)

    def forward(self, x):
        return self.head(self.body(x))


class Words(nn.Module):
    def __init__(self, n_outputs):
        self.words = nn.Embedding(5, 4)
        self.lstm = nn.LSTM(4, 3)
        self.head = nn.Linear(3, n_outputs)

    def forward(self, x):
        _, (last, _) = self.lstm(self.words(x))
        return self.head(last[-1])


class Both(nn.Module):
    def __init__(self, n_outputs):
        self.words = nn.Embedding(5, 4)
        self.head = nn.LazyLinear(n_outputs)

    def forward(self, words, numbers):
        return self.head(ops.concat([self.words(words).mean(axis=1), numbers], axis=1))


def ready(n_features: int, n_outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(n_features, 6), nn.GELU(), nn.Linear(6, n_outputs))


class Network(NamedTuple):
    """The parts of an estimator, and its inputs; without a module it is a perceptron."""

    X: Any
    module: Any = None

    def rows(self, chosen: Any) -> Any:
        return {k: x[chosen] for k, x in self.X.items()} if isinstance(self.X, dict) else self.X[chosen]

    @property
    def wrong(self) -> list[Any]:
        if isinstance(self.X, dict):
            return [self.X["words"], {**self.X, "numbers": X * np.nan}]
        return [self.X[:, :2, None], self.X * np.nan]


IDS = RNG.integers(0, 5, (24, 3))
NETWORKS = [
    *[Network(X)] * 5,
    Network(X, lambda: Table),
    Network(X, lambda: nn.ModuleFactory(Table, hidden=3)),
    Network(X, lambda: ready),
    Network(X.reshape(24, 1, 2, 2), lambda: Images),
    Network(IDS, lambda: Words),
    Network({"words": IDS, "numbers": X}, lambda: Both),
]

SCALED = MappingProxyType({"scale_target": True})
CASES = [
    Case(lambda: "log_loss", LABELS, [0, 1, 2]),
    Case(lambda: "log_loss", NAMES[LABELS], NAMES),
    Case(lambda: "log_loss", LABELS % 2, [0, 1]),
    Case(lambda: "log_loss", np.eye(3, dtype=int)[LABELS], [0, 1, 2]),
    Case(lambda: Focal(1.5), np.stack([LABELS, 3 + LABELS % 2], axis=1), [[0, 1, 2], [3, 4]]),
    Case(lambda: "hinge", np.stack([LABELS, LABELS], axis=1), [[0, 1, 2], [0, 1, 2]]),
    Case(Ordinal, LABELS, [0, 1, 2]),
    Case(lambda: Ordinal(NOT_SORTED), NOT_SORTED[LABELS], NOT_SORTED),
    Case(lambda: "squared_error", Y),
    Case(lambda: "squared_error", 1e3 * Y, more=SCALED),
    Case(lambda: "gaussian_nll", Y),
    Case(lambda: "gaussian_nll", 100 + Y[:, 0], more=SCALED),
    Case(lambda: Quantile([0.1, 0.5, 0.9]), Y),
    Case(lambda: Quantile([0.2, 0.3]), 50 * Y, more=SCALED),
    Case(lambda: "poisson", np.exp(3 * Y), more=SCALED),
]
METHODS = (
    *("predict", "predict_proba", "predict_log_proba", "decision_function"),
    *("predict_std", "predict_quantiles"),
)
LONGEST = 8

Act = Callable[[Any], Any]


def fit_part(rng: Generator) -> Act:
    rows, times = rng.integers(0, 24, 12), int(rng.integers(1, 3))

    def act(estimator: Any) -> Any:
        for _ in range(times):
            estimator.partial_fit(
                _network(estimator).rows(rows), _case(estimator).y[rows], **_case(estimator).first
            )
        return estimator

    return act


def warm_start(rng: Generator) -> Act:
    def act(estimator: Any) -> Any:
        estimator.set_params(warm_start=True, max_iter=2)
        return estimator.fit(_network(estimator).X, _case(estimator).y)

    return act


def fit_anew(rng: Generator) -> Act:
    def act(estimator: Any) -> Any:
        estimator.set_params(warm_start=False, max_iter=2)
        return estimator.fit(_network(estimator).X, _case(estimator).y)

    return act


def load_state_dict(rng: Generator) -> Act:
    seed = int(rng.integers(1 << 30))

    def act(estimator: Any) -> Any:
        draws, module = np.random.default_rng(seed), estimator.model_.module
        buffers = {name for name, _ in module.named_buffers()}  # counts, means and variances

        def new(name: str, array: Any) -> Any:
            if name in buffers:
                return array if array.dtype.kind != "f" else draws.uniform(0.5, 2, array.shape)
            return draws.normal(size=array.shape)

        module.load_state_dict({name: new(name, array) for name, array in module.state_dict().items()})
        return estimator

    return act


def write(rng: Generator) -> Act:
    value, index = float(rng.normal()), rng.random()

    def act(estimator: Any) -> Any:
        known = list(estimator.model_.module.parameters())
        parameter = known[int(index * len(known))]
        parameter.data = parameter.data * value
        return estimator

    return act


def freeze(rng: Generator) -> Act:
    mode = bool(rng.random() < 0.5)

    def act(estimator: Any) -> Any:
        next(estimator.model_.module.children()).requires_grad_(mode)
        return estimator

    return act


def patterns(rng: Generator) -> Act:
    index, is_none = rng.random(), bool(rng.random() < 0.4)

    def act(estimator: Any) -> Any:
        names = [name for name, _ in estimator.model_.module.named_parameters()]
        free = {name for name, p in estimator.model_.module.named_parameters() if p.requires_grad}
        chosen = names[int(index * len(names))]
        return estimator.set_params(frozen=None if is_none or free <= {chosen} else chosen)

    return act


def rate(rng: Generator) -> Act:
    lr = float(rng.uniform(0.001, 0.05))

    def act(estimator: Any) -> Any:
        optimizer = estimator.optimizer
        name = "optimizer__optimizer__lr" if isinstance(optimizer, EMA) else "optimizer__lr"
        return estimator.set_params(**{name: lr})

    return act


def pickled(rng: Generator) -> Act:
    return lambda estimator: pickle.loads(pickle.dumps(estimator))


def copied(rng: Generator) -> Act:
    return copy.deepcopy


def failing(rng: Generator) -> Act:
    def act(estimator: Any) -> Any:
        for wrong in _network(estimator).wrong:
            try:
                estimator.partial_fit(wrong, _case(estimator).y, **_case(estimator).first)
            except ValueError:
                continue
            raise AssertionError("a fit of wrong inputs passed")
        return estimator

    return act


ACTIONS = [
    *(fit_part, fit_part, fit_part, warm_start, fit_anew, load_state_dict, write, freeze, patterns, rate),
    *(pickled, copied, failing),
]


def _case(estimator: Any) -> Case:
    return CASES[estimator.number_of_case]


def _network(estimator: Any) -> Network:
    return NETWORKS[estimator.number_of_network]


def check(estimator: Any) -> None:
    """Assert that all ways to predict with an estimator agree."""
    frozen, network = estimator.freeze(), _network(estimator)
    five, is_net = network.rows(slice(0, 5)), network.module is not None
    for method in METHODS:
        if not hasattr(estimator, method):
            continue
        together = _asked(estimator, method, five)
        single = np.concatenate([_asked(estimator, method, network.rows([i])) for i in range(5)])
        close(single, together, f"{method} of single rows", estimator)
        close(_asked(frozen, method, five), together, f"{method} of a frozen predictor", estimator)
    model = estimator.model_
    if not is_net and not isinstance(estimator.optimizer, EMA):  # which predicts with averages
        module = model.module
        was = module._training
        mean, scale = np.zeros(4), np.ones(4)
        if estimator.scale_inputs:
            mean, scale = estimator.input_mean_, estimator.input_scale_
        found = module.eval()(np.asarray((X[:5] - mean) / scale, model.dtype))
        module.train(was)
        if isinstance(estimator, MLPRegressor):
            found = model.loss_function.predict(found)
        if not isinstance(estimator.loss, Ordinal):
            decided = _decided(estimator, X[:5])
            close(decided, found.numpy().reshape(decided.shape), "module", estimator)
        first, last = module[0].weight.numpy() / scale[:, np.newaxis], module[-1].weight.numpy()
        for shown, weight in ((estimator.coefs_[0], first), (estimator.coefs_[-1], last)):
            np.testing.assert_array_equal(shown, weight, err_msg="coefs_")
    together = estimator.predict(five)
    for other in (pickle.loads(pickle.dumps(estimator)), copy.deepcopy(estimator)):
        np.testing.assert_array_equal(other.predict(five), together, err_msg="copies")
    clone(estimator)


def _asked(estimator: Any, method: str, rows: Any) -> Any:
    """Return a method's result, concatenated if it is an array for each column."""
    found = getattr(estimator, method)(rows)
    return np.concatenate(found, axis=1) if isinstance(found, list) else found


def _decided(estimator: Any, rows: Any) -> Any:
    return _asked(
        estimator, "decision_function" if hasattr(estimator, "decision_function") else "predict", rows
    )


def close(a: Any, b: Any, what: str, estimator: Any) -> None:
    """Assert that two results are equal to rounding in the dtype of an estimator's network."""
    if np.asarray(a).dtype.kind not in "fc":
        np.testing.assert_array_equal(a, b, err_msg=what)
        return
    tolerance = 1e-3 if estimator.model_.dtype == np.float32 else 1e-7
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=what)


def drawn(rng: Generator) -> Callable[[], Any]:
    """Draw an estimator."""
    number = int(rng.integers(len(CASES)))
    case = CASES[number]
    which = int(rng.integers(len(NETWORKS)))
    module, is_regression = NETWORKS[which].module, case.classes is None
    optimizer = [lambda: Adam(0.01), lambda: SGD(0.01, momentum=0.9), lambda: EMA(Adam(0.01), 0.9)]
    chosen = optimizer[int(rng.integers(3))]
    activation = ["relu", "tanh", nn.PReLU(), nn.Sequential(nn.Linear(6, 6), nn.Tanh())][int(rng.integers(4))]
    settings = {
        "alpha": float(rng.choice([0.0, 0.01])),
        "batch_size": int(rng.choice([5, 12])),
        "max_iter": 2,
        "random_state": int(rng.integers(100)),
        "scale_inputs": bool(rng.random() < 0.7),
        **case.more,
    }

    def made() -> Any:
        common = {"optimizer": chosen(), "loss": case.loss(), **settings}
        if module is None:
            mlp = MLPRegressor if is_regression else MLPClassifier
            found = mlp((6,), activation=copy.deepcopy(activation), **common)
        else:
            found = (NetRegressor if is_regression else NetClassifier)(module(), **common)
        found.number_of_case, found.number_of_network = number, which  # they go with pickles and copies
        return found

    return made


def diverges(act: Callable[[Any], Any], eager: Any, seed: int) -> str | None:
    """Return what is wrong if eager steps do not diverge where compiled ones did, or None."""
    try:
        act(eager)
    except NonFiniteError:
        return None
    return f"case {seed}: the compiled twin alone diverged"


def mismatch(seed: int) -> str | None:
    """Run one case; return what went wrong, or None."""
    rng, done = np.random.default_rng([20260102, seed]), []
    made = drawn(rng)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            inputs = _network(made()).X
            compiled, eager = (made().fit(inputs, _case(made()).y) for _ in range(2))
            eager.model_.compile = False
            for _ in range(int(rng.integers(2, LONGEST))):
                function = ACTIONS[int(rng.integers(len(ACTIONS)))]
                done.append(function.__name__)
                act = function(rng)
                try:
                    compiled = act(compiled)
                except NonFiniteError:
                    return diverges(act, eager, seed)
                eager = act(eager)
                eager.model_.compile = False
                for each in (compiled, eager):
                    check(each)
                close(_decided(compiled, inputs), _decided(eager, inputs), "twins", compiled)
    except Exception as error:
        said = f"case {seed}: {type(error).__name__}: {str(error)[:500]}"
        return "\n    ".join([said, repr(made()), " ".join(done)])
    return None


if __name__ == "__main__":
    sys.exit(run(mismatch, __doc__, cases=200))
