"""Inspecting an estimator computes nothing and never fails, whatever its state."""

import copy
import inspect
import json
import pickle
import time
import warnings

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sknet
from sknet import Model, nn, ops
from sknet.engine import compiled_step
from sknet.exceptions import CaptureError
from tests.estimators.data import TABLES, estimator_for, first_part, quiet


class Counting(nn.Module):
    """Counts its calls, including captures."""

    calls = 0

    def forward(self, x):
        Counting.calls += 1
        return ops.tanh(x)


class Reading(nn.Module):
    """Cannot be captured."""

    def forward(self, x):
        Counting.calls += 1
        return ops.relu(x) if ops.sum(x).item() > -1e9 else x


def unfitted(task, **params):
    return estimator_for(task, **params)


def fitted(task, **params):
    X, y = TABLES[task]
    with quiet(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the training step is not compiled")
        return estimator_for(task, **params).fit(X, y)


def failed(task, **params):
    X, y = TABLES[task]
    estimator = estimator_for(task, **params).set_params(hidden_layer_sizes=(-1,))
    with pytest.raises(ValueError, match="hidden_layer_sizes must be > 0"):
        estimator.fit(X, y)
    return estimator


def in_parts(task, **params):
    X, y = TABLES[task]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the training step is not compiled")
        return first_part(task, estimator_for(task, **params), X, y)


def loaded(task, **params):
    return pickle.loads(pickle.dumps(fitted(task, **params)))


STATES = [unfitted, fitted, failed, in_parts, loaded]
ACTIVATIONS = {"name": "relu", "captured": Counting(), "not captured": Reading()}


def look(estimator):
    """Inspect everything, as notebooks and editors do."""
    inspect.getmembers(estimator)
    for name in dir(estimator):
        hasattr(estimator, name)
        getattr(estimator, name, None)
    repr(estimator), str(estimator)
    assert estimator._repr_html_()
    assert ("Network of" in estimator._repr_html_()) == hasattr(estimator, "model_")
    assert "text/html" in estimator._repr_mimebundle_()
    estimator.get_params(deep=True)
    copy.copy(estimator), clone(estimator)


def test_the_panel_of_a_predictor_has_no_output_features():
    """Those of hidden layers are not what it predicts; a transformer shows its own."""
    X, y = TABLES["binary"]
    params = {"hidden_layer_sizes": (8, 3), "max_iter": 2}
    with quiet():
        clf, coder = sknet.MLPClassifier(**params).fit(X, y), sknet.Autoencoder(**params).fit(X)
    assert "mlpclassifier0" not in clf._repr_html_()
    assert "autoencoder0" in coder._repr_html_()
    assert clf.get_feature_names_out().tolist() == ["mlpclassifier0", "mlpclassifier1", "mlpclassifier2"]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("task", ["binary", "multioutput"])
def test_inspection_computes_nothing(task, state, activation):
    estimator = state(task, activation=ACTIVATIONS[activation])
    before, calls = set(vars(estimator)), Counting.calls
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        look(estimator)
        make_pipeline(StandardScaler(), estimator)._repr_html_()
    assert Counting.calls == calls
    assert set(vars(estimator)) == before


@pytest.mark.parametrize("optimizer", ["lbfgs", "sgd"])
def test_looking_at_every_kind_of_fit(optimizer):
    look(fitted("multiclass", optimizer=optimizer))
    inspect.getmembers(fitted("multiclass", optimizer=optimizer).freeze())


# -- the compiled step ---------------------------------------------------------------------------------


def test_a_step_that_cannot_be_captured_has_no_source():
    estimator = fitted("binary", activation=Reading())
    assert hasattr(estimator, "compiled_step_")
    step = estimator.compiled_step_
    for name in ("source", "gradient", "update"):
        assert not hasattr(step, name)
    with pytest.raises(AttributeError, match=r"this step is not compiled: .*item"):
        _ = step.source
    with pytest.raises(CaptureError, match="item"):
        compiled_step(estimator.model_, *TABLES["binary"][0:1], TABLES["binary"][1][:, None] * 1.0)


def test_a_step_is_captured_when_its_source_is_read():
    estimator = fitted("binary", activation=Counting())
    step, calls = estimator.compiled_step_, Counting.calls
    assert repr(step) == "CompiledStep(X: float64[64,12], y: float64[64,1]; print its source)"
    assert Counting.calls == calls
    assert "tanh" in step.source
    assert Counting.calls > calls


# -- reprs ---------------------------------------------------------------------------------------------


def deep():
    layers = [nn.Linear(4, 4) for _ in range(20)]
    return Model(nn.Sequential(*layers, nn.BatchNorm(4), nn.Linear(4, 1)), random_state=0)


def test_reprs_are_short():
    model = deep()
    result = model.step(np.ones((3, 4), "f4"), np.ones((3, 1), "f4"))
    shown = repr(result)
    assert "\n" not in shown
    assert len(shown) < 600
    assert shown.startswith(f"StepResult(loss={result.loss:.6g}, gradient=Gradient({{'0.weight': (4, 4), ")
    assert "... 38 more" in shown
    assert "output=<(3, 1) float32>" in shown
    state = repr(model.state)
    assert "\n" not in state
    assert len(state) < 700
    assert state.startswith("ModelState(parameters={'0.weight': (4, 4), '0.bias': (4,), ")
    assert "optimizer=<slots " in state
    assert "step=1" in state


def test_a_history_is_a_dict_of_plain_numbers():
    estimator = fitted("binary", early_stopping=True, max_iter=3)
    names = {"loss", "score", "lr", "validation_loss", "validation_score", "time"}
    table = pandas.DataFrame(estimator.history_)
    assert set(table.columns) == names
    assert len(table) == 3
    assert json.loads(json.dumps(estimator.history_)) == estimator.history_
    for column in estimator.history_.values():
        assert {type(value) for value in column} == {float}


def test_a_history_of_different_fits_is_a_table_too():
    estimator = fitted("binary", early_stopping=True, max_iter=3, warm_start=True)
    with quiet():
        estimator.set_params(early_stopping=False).fit(*TABLES["binary"])
    table = pandas.DataFrame(estimator.history_)
    assert len(table) == 6
    assert table["validation_loss"].isna().tolist() == [False] * 3 + [True] * 3
    assert not table["loss"].isna().any()


@pytest.mark.parametrize("task", ["binary", "multioutput"])
@pytest.mark.parametrize("module", [sknet, sknet.neural_network])
def test_lbfgs_keeps_its_loss_curve(module, task):
    kind = module.MLPClassifier if task == "binary" else module.MLPRegressor
    name = "optimizer" if module is sknet else "solver"
    with quiet():
        estimator = kind(hidden_layer_sizes=(5,), max_iter=30, random_state=0, **{name: "lbfgs"})
        estimator.fit(*TABLES[task])
    assert len(estimator.loss_curve_) == estimator.n_iter_ == len(estimator.history_["time"])
    assert estimator.loss_curve_[-1] == pytest.approx(estimator.loss_, rel=1e-9)
    assert estimator.loss_curve_[0] > 1.2 * estimator.loss_curve_[-1]
    assert sorted(estimator.loss_curve_, reverse=True) == estimator.loss_curve_
    with quiet():
        first = clone(estimator).set_params(max_iter=1).fit(*TABLES[task])
    assert first.loss_ == pytest.approx(estimator.loss_curve_[0], rel=1e-9)


@pytest.mark.parametrize("early_stopping", [False, True])
def test_verbose_shows_an_epoch_in_a_line(early_stopping, capsys):
    started = time.perf_counter()
    estimator = fitted("binary", verbose=True, early_stopping=early_stopping, max_iter=3)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    for i, line in enumerate(lines):
        at = {name: column[i] for name, column in estimator.history_.items()}
        said = [f"Iteration {i + 1}, loss = {at['loss']:.8f}, score = {at['score']:.4f}"]
        if early_stopping:
            said.append(f"validation loss = {at['validation_loss']:.8f}")
            said.append(f"validation score = {at['validation_score']:.4f}")
        said.append(f"learning rate = {at['lr']:g}, time = {at['time']:.3f} s")
        assert line == ", ".join(said)
        assert 0 < at["time"] < time.perf_counter() - started


# -- custom networks -----------------------------------------------------------------------------------


class Own(nn.Module):
    """Computes with values, and counts that, except in a shape pass."""

    computed = 0

    def __init__(self, n_outputs):
        self.hidden = nn.LazyLinear(5)
        self.last = nn.LazyLinear(n_outputs)

    def forward(self, x):
        Own.computed += isinstance(x.data, np.ndarray)
        return self.last(self.hidden(x).tanh())


class Failing(Own):
    """Was changed after the fit, and no longer runs."""

    broken = False

    def forward(self, x):
        if Failing.broken:
            raise ZeroDivisionError("broken")
        return super().forward(x)


class ReadsValues(Own):
    def __init__(self, n_features, n_outputs):
        self.hidden = nn.Linear(n_features, 5)
        self.last = nn.Linear(5, n_outputs)

    def forward(self, x):
        y = super().forward(x)
        return y if float(ops.sum(y).item()) > -1e9 else -y


class Deep(Own):
    """The output of the last hidden layer is not a table."""

    def forward(self, x):
        return self.last(ops.reshape(self.hidden(x), (-1, 1, 5)).tanh())[:, 0]


def own(kind, module):
    X, y = TABLES["binary"]
    with quiet(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the training step is not compiled")
        net = kind(module, max_iter=2, random_state=0)
        return net.fit(X) if kind is sknet.NetTransformer else net.fit(X, y)


KINDS = [sknet.NetClassifier, sknet.NetRegressor]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("module", [Own, Failing, ReadsValues, Deep])
def test_looking_at_networks_of_ones_own(kind, module, monkeypatch):
    look(kind(module))
    fitted = own(kind, module)
    others = pickle.loads(pickle.dumps(fitted)), fitted.layer("hidden")
    monkeypatch.setattr(Failing, "broken", True)
    for estimator in (fitted, *others):
        before = Own.computed
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            look_at_html(estimator)
            make_pipeline(StandardScaler(), estimator)._repr_html_()
        assert Own.computed == before or module is ReadsValues


def look_at_html(estimator):
    assert estimator._repr_html_()
    assert repr(estimator)
    for name in dir(estimator):
        hasattr(estimator, name)


@pytest.mark.parametrize("kind", KINDS)
def test_names_of_columns_are_found_by_shapes(kind):
    net, before = own(kind, Own), Own.computed
    assert len(net.get_feature_names_out()) == 5
    assert len(net.get_feature_names_out(layer=-1)) == net.n_outputs_
    assert Own.computed == before
    assert f"{kind.__name__.lower()}4" not in net._repr_html_()  # what it predicts are no output features
