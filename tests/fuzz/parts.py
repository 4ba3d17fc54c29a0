"""Random streams of `partial_fit`, whose calls remember what has not changed since the call before.

Between two parts, anything that a user may change is changed. A twin does the same, but is copied before
every part, and its class is not sknet's, so that nothing is remembered for it. After each part both are
bitwise identical, and have raised the same errors; a call that fails leaves everything as it was.

    python -m tests.fuzz.parts --cases 2000 --seed 0
"""

import contextlib
import copy
import pickle
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import sklearn
from numpy.random import Generator
from scipy import sparse
from sklearn.base import clone

import sknet
from sknet import nn
from sknet.callbacks import Callback
from sknet.losses import Focal, LogLoss
from sknet.optim import EMA, SGD, Adam
from tests.fuzz.command import run, wrong_in
from tests.fuzz.same import assert_same

ROWS, WIDTH, LONGEST = 40, 4, 12
Act = Callable[[Any], Any]


class MLPClassifier(sknet.MLPClassifier):
    """Not a class of sknet's own."""


class MLPRegressor(sknet.MLPRegressor):
    """Not a class of sknet's own."""


TWINS: dict[type, type] = {sknet.MLPClassifier: MLPClassifier, sknet.MLPRegressor: MLPRegressor}


class Raises(Callback):
    """Raises an error in one hook, in the middle of a part."""

    def __init__(self, hook: str = "on_epoch_end") -> None:
        self.hook = hook

    def _raise(self, hook: str, fit: Any) -> None:
        if hook == self.hook:
            if hook == "on_epoch_end":
                fit.record["loss"] = 7.0
                fit.model.random_state.normal()
            raise RuntimeError(f"raised in {hook}")

    def on_epoch_begin(self, fit: Any) -> None:
        self._raise("on_epoch_begin", fit)

    def on_block_end(self, fit: Any) -> None:
        self._raise("on_block_end", fit)

    def on_epoch_end(self, fit: Any) -> None:
        self._raise("on_epoch_end", fit)


# -- what is done between two parts ------------------------------------------------------------------------


def _set(name: str, *values: Any) -> Callable[[Generator], Act]:
    def drawn(rng: Generator) -> Act:
        value = values[int(rng.integers(len(values)))]
        return lambda net: net.set_params(**{name: copy.deepcopy(value)})

    return drawn


def _fixed(act: Act) -> Callable[[Generator], Act]:
    return lambda rng: act


def _set_rate(net: Any) -> None:
    net.model_.optimizer.lr = 0.05


def _set_slope(net: Any) -> None:
    for layer in net.model_.module.modules():
        if isinstance(layer, nn.LeakyReLU):
            layer.negative_slope += 0.125


def _halve(net: Any) -> None:
    module = net.model_.module
    module.load_state_dict({name: value.numpy() * 0.5 for name, value in module.state_dict().items()})


def _write(net: Any) -> None:
    net.coefs_[0] = np.asarray(net.coefs_[0]) * 0.75


def _freeze(net: Any) -> None:
    bias = next(iter(net.model_.module.named_parameters()))[1]
    bias.requires_grad = not bias.requires_grad


def _replace_layer(net: Any) -> None:
    net.model_.module[1] = nn.Tanh()


def _hook(net: Any) -> None:
    net.model_.module[0].register_forward_hook(lambda module, args, output: output * 0.5)


def _change_hyper(net: Any) -> None:
    net.model_.alpha = 0.25


def _fit_more(net: Any) -> None:
    rng = np.random.default_rng(7)
    net.set_params(warm_start=True, max_iter=2)
    net.fit(rng.normal(size=(ROWS, WIDTH)), np.arange(ROWS) % 3)


def _draw(net: Any) -> None:
    net.model_.random_state.normal(size=3)


BETWEEN: dict[str, Callable[[Generator], Act]] = {
    "alpha": _set("alpha", 0.0, 0.01, 0, 1, True),
    "optimizer": _set(
        "optimizer", "adam", "sgd", Adam(0.01), SGD(0.1, momentum=0.9), EMA(Adam(0.01), 0.9), Adam
    ),
    "lr": _set("optimizer__lr", 0.1, 0.02, -1.0),
    "loss": _set("loss", "log_loss", "squared_error", "hinge", LogLoss(), Focal(1.0)),
    "batch_size": _set("batch_size", 7, 16, 40, "auto", 7.0),
    "shuffle": _set("shuffle", True, False),
    "frozen": _set("frozen", None, "0.*", "*.bias", "no such"),
    "tol": _set("tol", 0.0, 1e-3, -1),
    "activation": _set("activation", "relu", "tanh"),
    "verbose": _set("verbose", False, 0),
    "random_state": _set("random_state", 0, 5),
    "hidden": _set("hidden_layer_sizes", (5,), [5], (6,)),
    "callbacks": _set(
        "callbacks", None, [], [Raises("on_block_end")], [Raises()], [Raises("on_epoch_begin")]
    ),
    "rate": _fixed(_set_rate),
    "slope": _fixed(_set_slope),
    "halve": _fixed(_halve),
    "write": _fixed(_write),
    "freeze": _fixed(_freeze),
    "layer": _fixed(_replace_layer),
    "hook": _fixed(_hook),
    "hyper": _fixed(_change_hyper),
    "draw": _fixed(_draw),
    "fit": _fixed(_fit_more),
    "predict": _fixed(lambda net: net.predict(np.zeros((3, WIDTH)))),
    "clone": _fixed(lambda net: clone(net)),
    "pickle": _fixed(lambda net: pickle.dumps(net)),
    "step": _fixed(lambda net: net.model_.step(np.ones((4, WIDTH)), np.ones((4, net.n_outputs_))).loss),
    "load": _fixed(lambda net: net.model_.load(net.model_.state)),
}


Context = Callable[[], contextlib.AbstractContextManager[Any]]
CONTEXTS: tuple[Context, ...] = (
    lambda: sknet.config_context(native="never"),
    lambda: sknet.config_context(native="always"),
    lambda: sklearn.config_context(assume_finite=True),
)


def _rows(rng: Generator, is_classifier: bool) -> tuple[Any, Any, dict[str, Any]]:
    """Return rows of a part: most often of the same form."""
    n = ROWS if rng.random() < 0.7 else int(rng.choice([1, 7, 13]))
    X = rng.normal(size=(n, WIDTH)).astype(rng.choice(["f4", "f4", "f4", "f8"]))
    y: Any = rng.integers(3, size=n) if is_classifier else rng.normal(size=n).astype(X.dtype)
    kind = rng.random()
    if kind < 0.06:
        X = np.asfortranarray(X)
    elif kind < 0.12:
        X = np.repeat(X, 2, axis=0)[::2]
    elif kind < 0.18:
        X[int(rng.integers(n)), 1] = rng.choice([np.nan, np.inf, 1e30])
    elif kind < 0.22:
        y = y + 2 if is_classifier else y * np.nan
    elif kind < 0.26:
        y = [int(each) for each in y] if is_classifier else y.tolist()
    elif kind < 0.30:
        X = X[:, :3]
    elif kind < 0.35:
        X = sparse.csr_array(X * (X > 0))
    elif kind < 0.40:
        X = pd.DataFrame(X, columns=list("abcd") if rng.random() < 0.7 else list("abdc"))
    more = {}
    if rng.random() < 0.15:
        more["sample_weight"] = rng.uniform(0, 1, n).round()
    return X, y, more


def _same_rows(rng: Generator, is_classifier: bool) -> tuple[Any, Any, dict[str, Any]]:
    """Return rows of a part that has the form of all others."""
    return rng.normal(size=(ROWS, WIDTH)).astype("f4"), rng.integers(3, size=ROWS), {}


class Case:
    """A stream of parts, drawn from a seed, for an estimator and its twin.

    In every second stream nothing changes but what is drawn between the parts.
    """

    def __init__(self, seed: int) -> None:
        rng = self._rng = np.random.default_rng([20261123, seed])
        self.done: list[str] = []
        kind = (sknet.MLPClassifier, sknet.MLPRegressor)[int(rng.integers(2))]
        self.first = {"classes": [0, 1, 2]} if kind is sknet.MLPClassifier else {}
        source: Any = int(rng.integers(100)) if rng.random() < 0.7 else np.random.RandomState(3)
        params = {
            "hidden_layer_sizes": (5,),
            "activation": "relu" if rng.random() < 0.7 else nn.LeakyReLU(0.1),
            "dropout": 0.0 if rng.random() < 0.7 else 0.25,
            "batch_size": [40, 16, "auto"][int(rng.integers(3))],
        }
        self.nets = [
            each(**copy.deepcopy(params), random_state=copy.deepcopy(source)) for each in (kind, TWINS[kind])
        ]

    def run(self) -> None:
        """Go through the stream.

        Raises
        ------
        AssertionError
            Where the two differ.
        """
        rng, more = self._rng, self.first
        is_calm = rng.random() < 0.5
        for _ in range(int(rng.integers(3, LONGEST))):
            X, y, weights = (_same_rows if is_calm else _rows)(rng, bool(self.first))
            in_thread = not is_calm and rng.random() < 0.1
            contexts = [each for each in CONTEXTS if not is_calm and rng.random() < 0.1]
            self.done.append(f"part{X.shape}{type(X).__name__}")
            self.nets[1] = copy.deepcopy(self.nets[1])
            outcomes = [self._part(net, X, y, {**weights, **more}, in_thread, contexts) for net in self.nets]
            assert_same(outcomes[0], outcomes[1], "outcome")
            assert_same(*map(contents, self.nets), "state")
            if not hasattr(self.nets[0], "model_"):
                continue
            more = {}
            while rng.random() < 0.4:
                name = str(rng.choice(list(BETWEEN)))
                self.done.append(name)
                act = BETWEEN[name](rng)
                found = [_said(act, net) for net in self.nets]
                assert_same(found[0], found[1], name)
                assert_same(*map(contents, self.nets), f"state after {name}")

    @staticmethod
    def _part(
        net: Any, X: Any, y: Any, more: dict[str, Any], in_thread: bool, contexts: list[Context]
    ) -> Any:
        before, found = contents(net), []

        def fit() -> None:
            with contextlib.ExitStack() as stack:
                for context in contexts:
                    stack.enter_context(context())
                found.append(_said(lambda each: each.partial_fit(X, y, **more), net))

        if in_thread:
            thread = threading.Thread(target=fit)
            thread.start()
            thread.join()
        else:
            fit()
        if isinstance(found[0], str):
            assert_same(before, contents(net), f"after {found[0]}")
        return found[0]


def _said(act: Act, net: Any) -> Any:
    """Return the text of an error, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            act(net)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return None


def contents(net: Any) -> dict[str, Any]:
    """Return all that a part changes."""
    if not hasattr(net, "model_"):
        return {"attributes": sorted(name for name in vars(net) if name != "random_state")}
    state = net.model_.state
    found = {f"parameter {name}": p.numpy().copy() for name, p in net.model_.module.named_parameters()}
    found |= {f"slot {name}": array.copy() for name, array in state.optimizer.slots.items()}
    found |= {f"column {name}": list(x) for name, x in net.history_.items() if name != "time"}
    found["progress"] = tuple(state.progress)
    found["drawn"] = net.model_.random_state.get_state()[1].copy()
    found["normal"] = net.model_.random_state.get_state()[3:]
    found["attributes"] = sorted(vars(net))
    found["counts"] = [net.t_, net.n_iter_, net.loss_, net.best_loss_, repr(net.model_.optimizer)]
    found["outputs"] = net.model_.predict(np.ones((2, net.n_features_in_)))
    return found


def mismatch(seed: int) -> str | None:
    """Run one case; return what went wrong, or None."""
    with np.errstate(all="ignore"):
        return wrong_in(Case, seed)


if __name__ == "__main__":
    sys.exit(run(mismatch, __doc__, cases=1000))
