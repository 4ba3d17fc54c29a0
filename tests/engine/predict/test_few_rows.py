"""Predictions of 2 to 16 rows: computed one operation after the other the first time, then by a program."""

import threading

import numpy as np
import pytest

from sknet import Model, Tensor, nn, ops
from sknet.engine import _network
from sknet.engine._network import FEW_ROWS, predict_rows
from tests.fuzz.same import assert_same

NETWORKS = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(7, 33), nn.Tanh(), nn.Linear(33, 3)), (7,)),
    "norms": (lambda: nn.Sequential(nn.Linear(7, 19), nn.BatchNorm(19), nn.GELU(), nn.LayerNorm(19)), (7,)),
    "softmax": (lambda: nn.Sequential(nn.Linear(7, 21), nn.Softmax()), (7,)),
    "dropout": (lambda: nn.Sequential(nn.Linear(7, 8), nn.Dropout(0.5), nn.Linear(8, 1)), (7,)),
    "images": (
        lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(1), nn.LazyLinear(2)),
        (2, 6, 5),
    ),
    "sequences": (lambda: nn.Sequential(nn.LSTM(4, 5), nn.Lambda(lambda found: found[0])), (6, 4)),
}


def eager(model, X, head):
    """Return the outputs for some rows without any program."""
    output = model(X, training=False).data
    return output if head is None else head(Tensor(output)).data


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("given", ["float32", "float64"])
@pytest.mark.parametrize("case", NETWORKS)
def test_rows_have_the_same_bits_whether_they_came_before(case, given, dtype):
    make, shape = NETWORKS[case]
    rng = np.random.default_rng(0)
    model = Model(make(), dtype=dtype, random_state=0).materialize((4, *shape))
    for rows in (2, 3, 5, 8, 15, FEW_ROWS):
        X = rng.normal(size=(rows, *shape)).astype(given)
        for head in (None, ops.exp):
            name = "raw" if head is None else "exp"
            wanted = eager(model, X.astype(dtype), head)
            for _ in range(3):
                assert_same(predict_rows(model, X, name, head), wanted, f"{rows} rows")


CHANGES = {
    "nothing": lambda model: None,
    "weights": lambda model: model.step(np.ones((4, 6), "f4"), np.ones((4, 2), "f4")),
    "an attribute": lambda model: setattr(model.module[1], "negative_slope", 0.5),
    "another layer": lambda model: model.module.__setitem__(1, nn.Tanh()),
    "a hook": lambda model: model.module[0].register_forward_hook(lambda module, args, output: output * 2.0),
    "values": lambda model: setattr(model.module[0].weight, "data", np.full((6, 5), 0.25, "f4")),
    "a frozen layer": lambda model: model.module[0].requires_grad_(False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_between_two_predictions_counts(change):
    network = nn.Sequential(nn.Linear(6, 5), nn.LeakyReLU(0.1), nn.BatchNorm(5), nn.Linear(5, 2))
    model = Model(network, random_state=0)
    X = np.random.default_rng(1).normal(size=(5, 6)).astype("f4")
    for _ in range(3):
        predict_rows(model, X)
    CHANGES[change](model)
    wanted = eager(model, X, None)
    for _ in range(3):
        assert_same(predict_rows(model, X), wanted, change)


@pytest.mark.parametrize("layout", ["columns", "every second row", "every second column"])
def test_other_layouts_are_computed_as_they_are(layout):
    model = Model(nn.Sequential(nn.Linear(8, 50), nn.Linear(50, 4)), random_state=0)
    X = np.random.default_rng(2).normal(size=(6, 8)).astype("f4")
    made = {
        "columns": np.asfortranarray(X),
        "every second row": np.repeat(X, 2, axis=0)[::2],
        "every second column": np.repeat(X, 2, axis=1)[:, ::2],
    }
    for _ in range(3):
        predict_rows(model, X)
    assert_same(predict_rows(model, made[layout]), eager(model, made[layout], None), layout)


def test_rows_that_are_computed_in_chunks_stay_so(monkeypatch):
    monkeypatch.setattr(_network, "CHUNK_ELEMENTS", 3 * 40)
    model = Model(nn.Sequential(nn.Linear(4, 40), nn.Linear(40, 40)), random_state=0)
    X = np.random.default_rng(3).normal(size=(8, 4)).astype("f4")
    wanted = np.concatenate([eager(model, X[start : start + 3], None) for start in (0, 3, 6)])
    for _ in range(3):
        assert_same(predict_rows(model, X), wanted, "chunks")


def test_threads_predict_at_the_same_time():
    model = Model(nn.Sequential(nn.Linear(4, 30), nn.Tanh(), nn.Linear(30, 3)), random_state=0)
    rng, wrong = np.random.default_rng(4), []
    inputs = [rng.normal(size=(rows, 4)).astype("f4") for rows in range(2, 10)]
    wanted = [eager(model, X, None) for X in inputs]

    def predicting(i):
        for _ in range(50):
            if predict_rows(model, inputs[i]).tobytes() != wanted[i].tobytes():
                wrong.append(i)

    threads = [threading.Thread(target=predicting, args=(i,)) for i in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong
