"""Model.fit: training on rows with the estimators' loop."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from sknet import MLPClassifier, Model, nn
from sknet.callbacks import Callback, Checkpoint, EarlyStopping
from sknet.exceptions import DtypeError, NonFiniteError, ShapeError
from sknet.optim import LBFGS, SGD, Adam
from sknet.optim.schedules import Cosine, Exponential
from tests.engine.helpers import assert_same_state

RNG = np.random.default_rng(0)
X, CLASSES = RNG.normal(size=(103, 5)).astype("f4"), RNG.integers(0, 3, 103)
REAL = RNG.normal(size=(103, 2)).astype("f4")
WEIGHT = RNG.uniform(0.5, 2, 103).astype("f4")


def new(loss="log_loss", **params):
    n_outputs = 3 if loss == "log_loss" else 2
    net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm(8), nn.Tanh(), nn.Linear(8, n_outputs))
    return Model(net, loss, **{"optimizer": Adam(0.02), "random_state": 0} | params)


def by_hand(model, X, y, weight, epochs, size, rows):
    """Do the same by steps; return the mean loss of every epoch."""
    losses = []
    for _ in range(epochs):
        total = 0.0
        with model.epoch():
            for start in range(0, len(X), size):
                part = rows[start : start + size]
                result = model.step(X[part], y[part], None if weight is None else weight[part])
                n_outputs = result.output.shape[-1] if model.loss_function.mean_over_outputs else 1
                total += (result.data_loss / n_outputs + result.penalty) * len(part)
        losses.append(total / len(X))
    return losses


@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize(("loss", "y"), [("log_loss", CLASSES), ("squared_error", REAL)])
def test_a_fit_is_the_steps_on_its_batches(loss, y, weight, compile):
    params = {"alpha": 0.01, "optimizer": SGD(0.1, momentum=0.9)}  # the biases before the norm do not matter
    fitted, stepped = new(loss, compile=compile, **params), new(loss, compile=False, **params)
    history = fitted.fit(X, y, weight, epochs=3, batch_size=20, shuffle=False)
    losses = by_hand(stepped, X, y, weight, 3, 20, np.arange(len(X)))
    np.testing.assert_allclose(history["loss"], losses, rtol=1e-5)
    for name, array in stepped.parameters.items():
        np.testing.assert_allclose(fitted.parameters[name], array, rtol=1e-3, atol=1e-5)
    assert fitted.progress[:3] == stepped.progress[:3]


def test_two_arguments_are_enough_and_another_call_continues():
    model = new()
    first, second = model.fit(X, CLASSES), model.fit(X, CLASSES)
    assert first.n_epochs == second.n_epochs == 10
    assert second["loss"][-1] < first["loss"][-1] < first["loss"][0]
    assert model.progress.epoch == 20


def test_bits_are_those_of_an_estimator():
    """An estimator that continues, and its model alone, with the same rows."""
    clf = MLPClassifier(
        (8,),
        activation="tanh",
        alpha=0.0,
        scale_inputs=False,
        random_state=3,
        max_iter=4,
        warm_start=True,
    )
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        model = clf.fit(X, CLASSES).model_.copy()
        history = model.fit(X, CLASSES, epochs=4)
        clf.fit(X, CLASSES)
    assert history["loss"] == clf.history_["loss"][-4:]
    assert_same_state(model.state, clf.model_.state)


@pytest.mark.parametrize(
    "inputs",
    [
        X.astype("f8"),
        X.tolist(),
        np.asfortranarray(X),
        scipy.sparse.csr_array(X),
        scipy.sparse.csc_array(X),
        pd.DataFrame(X),
    ],
)
def test_inputs_of_every_kind(inputs):
    model, other = [Model(nn.Linear(5, 3), "log_loss", random_state=0, compile=False) for _ in range(2)]
    model.fit(inputs, CLASSES.tolist(), epochs=2, batch_size=30)
    other.fit(X, CLASSES, epochs=2, batch_size=30)
    for name, array in model.parameters.items():
        np.testing.assert_allclose(array, other.parameters[name], rtol=1e-5, atol=1e-6)


def test_integers_stay_integers():
    model = Model(
        nn.Sequential(nn.Embedding(7, 4), nn.Flatten(), nn.LazyLinear(3)), "log_loss", random_state=0
    )
    history = model.fit(RNG.integers(0, 7, (50, 2)), CLASSES[:50], epochs=2, scores="accuracy")
    assert history.n_epochs == 2


def test_held_out_rows_are_scored_and_early_stopping_goes_by_their_loss():
    model = new()
    stopping = EarlyStopping(patience=3, tol=0.0)
    held_out = {"X_val": X[80:], "y_val": CLASSES[80:]}
    more = {"scores": ["accuracy"], "callbacks": [stopping]}
    history = model.fit(X[:80], CLASSES[:80], epochs=200, **held_out, **more)
    assert list(history) == ["loss", "accuracy", "lr", "validation_loss", "validation_accuracy", "time"]
    assert history.n_epochs < 200
    best = int(np.argmin(history["validation_loss"]))
    assert stopping.best_epoch_ == best + 1
    assert stopping.best_ == history["validation_loss"][best]
    output = model(X[80:], training=False)
    assert model.loss(output, CLASSES[80:]).item() == pytest.approx(stopping.best_, rel=1e-5)
    again = model.fit(X, CLASSES, epochs=2, callbacks=[stopping])  # one object serves many fits
    assert stopping.best_epoch_ == 1 + int(np.argmin(again["loss"]))


def test_callbacks_see_the_rows_as_given():
    seen = []

    class Looking(Callback):
        def on_epoch_end(self, fit):
            seen.append((fit.training.X, fit.validation.y, fit.estimator, fit.model, fit.monitor))
            return "stop"

    model, frame = new(), pd.DataFrame(X)
    history = model.fit(frame, CLASSES, X_val=X[:9], y_val=CLASSES[:9], callbacks=[Looking()])
    assert history.n_epochs == 1
    [(rows, y_val, estimator, trained, monitor)] = seen
    assert rows is frame
    np.testing.assert_array_equal(y_val, CLASSES[:9])
    assert (estimator, trained, monitor) == (None, model, "validation_loss")


def test_hyperparameters_that_change_between_fits():
    states = []
    for copied in (lambda model: model, Model.copy, lambda model: pickle.loads(pickle.dumps(model))):
        model = new()
        model.fit(X, CLASSES, epochs=2, batch_size=50)
        model.optimizer.set_params(lr=0.5)
        model = copied(model)
        model.fit(X, CLASSES, epochs=2, batch_size=50)
        model.alpha, model.optimizer = 0.1, SGD(0.1)
        model = copied(model)
        model.fit(X, CLASSES, epochs=1, batch_size=30)
        model.module[0].requires_grad_(False)
        before = model.module[0].weight.numpy().copy()
        model.fit(X, CLASSES, epochs=1, batch_size=30)
        np.testing.assert_array_equal(model.module[0].weight.numpy(), before)
        states.append(model.state)
    for state in states[1:]:
        assert_same_state(state, states[0])


def test_schedules_know_epochs_and_length():
    model = new(optimizer=SGD(Cosine(0.1)))
    history = model.fit(X, CLASSES, epochs=5, batch_size=103)
    assert history["lr"][-1] == pytest.approx(0.0, abs=1e-12)
    model = new(optimizer=SGD(Exponential(0.1, factor=0.5)))
    assert model.fit(X, CLASSES, epochs=3)["lr"] == pytest.approx([0.1, 0.05, 0.025])


def test_a_fit_is_resumed(tmp_path):
    class Ending(Callback):
        def on_epoch_end(self, fit):
            return "stop" if fit.epoch == 3 else None

    whole, part, rest = new(), new(), new()
    expected = whole.fit(X, CLASSES, epochs=6, batch_size=20)
    path = tmp_path / "fit.ckpt"
    part.fit(X, CLASSES, epochs=6, batch_size=20, callbacks=[Checkpoint(path), Ending()])
    history = rest.fit(X, CLASSES, epochs=6, batch_size=20, resume_from=path, callbacks=[Checkpoint(path)])
    assert history["loss"] == expected["loss"]
    assert_same_state(rest.state, whole.state)


def test_lbfgs_sees_all_rows():
    model = new(optimizer=LBFGS())
    with pytest.warns(ConvergenceWarning):
        history = model.fit(X, CLASSES, epochs=15)
    assert history["loss"][-1] < history["loss"][0]
    with pytest.raises(ValueError, match=r"Model.fit got scores, which needs a stochastic optimizer"):
        model.fit(X, CLASSES, scores="accuracy")


def test_verbose(capsys):
    new().fit(X, CLASSES, epochs=2, verbose=True)
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == [
        "Iteration 1",
        "Iteration 2",
    ]
    with pytest.raises(ValueError, match=r"'verbose' parameter of Model.fit must be True, False or 'bar'"):
        new().fit(X, CLASSES, verbose="loud")


BAD = [
    ({"y": CLASSES[:-1]}, ShapeError, r"X has 103 rows, but y has shape \(102,\)"),
    ({"y": None}, TypeError, r"y is missing: pass the targets of X"),
    ({"X": X[:0], "y": CLASSES[:0]}, ShapeError, r"X must have at least one row, got shape \(0, 5\)"),
    ({"X": [[1.0], [1.0, 2.0]], "y": [0, 1]}, ShapeError, r"X must be rectangular"),
    ({"y": ["a"] * 103}, DtypeError, r"y must be numeric, got dtype <U1: encode classes as integers"),
    ({"y": CLASSES - 1}, ValueError, r"y must"),
    ({"sample_weight": -WEIGHT}, ValueError, r"sample_weight must have a positive sum"),
    ({"sample_weight": 0 * WEIGHT}, ValueError, r"sample_weight: at least one weight must be positive"),
    ({"sample_weight": [*WEIGHT[1:], np.nan]}, ValueError, r"sample_weight\[102\] is nan"),
    ({"sample_weight": WEIGHT[1:]}, ShapeError, r"X has 103 rows, but sample_weight has shape \(102,\)"),
    ({"X_val": X, "y_val": CLASSES[1:]}, ShapeError, r"X_val has 103 rows, but y_val has shape \(102,\)"),
    (
        {"X_val": X, "y_val": CLASSES, "sample_weight_val": WEIGHT * np.inf},
        ValueError,
        r"sample_weight_val must be finite",
    ),
    ({"X_val": X}, TypeError, r"y_val is missing: pass the targets of X_val"),
    ({"y_val": CLASSES}, TypeError, r"X_val is missing"),
    ({"epochs": 0}, ValueError, r"'epochs' parameter of Model.fit must be a positive int. Got 0 instead"),
    ({"batch_size": 0}, ValueError, r"'batch_size' parameter of Model.fit must be a positive int or 'auto'"),
    ({"batch_size": "all"}, ValueError, r"'batch_size' parameter .* Got 'all' instead"),
    ({"callbacks": [EarlyStopping]}, ValueError, r"callbacks\[0\] of Model.fit is a class"),
]


@pytest.mark.parametrize(("params", "error", "message"), BAD)
def test_bad_use_changes_nothing(params, error, message):
    model = new()
    before = model.state
    with pytest.raises(error, match=message):
        model.fit(**{"X": X, "y": CLASSES} | params)
    assert_same_state(model.state, before)


def test_a_fit_that_diverges_says_where():
    model = new("squared_error", optimizer=SGD(1e30))
    with pytest.raises(NonFiniteError, match=r"training diverged in epoch \d+, batch \d of 6"):
        model.fit(X, REAL, epochs=5, batch_size=20)
