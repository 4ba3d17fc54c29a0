"""One random_state determines everything: the same bits again, in another process, and under n_jobs."""

import hashlib
import os
import subprocess
import sys

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from sknet import NetClassifier, config_context, neural_network, nn
from sknet.optim import SGD
from sknet.tabular import TabularClassifier
from tests.estimators.data import TABLES, TASKS, WEIGHTS, estimator_for, outputs, same_bits
from tests.project import ROOT

# A context that ignores them is for one thread only.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

CONFIGURATIONS = [
    {"dropout": 0.3},
    {"dropout": 0.3, "early_stopping": True, "dtype": "float32"},
    {"dropout": 0.3, "optimizer": SGD(0.01, 0.9), "activation": "gelu"},
    {"optimizer": "lbfgs", "max_iter": 5},
]


def fitted(task, params):
    return estimator_for(task, **params).fit(*TABLES[task], WEIGHTS)


def digest(task, params):
    """Return a checksum over all weights, the loss curve and the predictions."""
    estimator = fitted(task, params)
    found = hashlib.sha256()
    for array in (*estimator.coefs_, *estimator.intercepts_, np.array(estimator.loss_curve_)):
        found.update(np.ascontiguousarray(array).tobytes())
    found.update(np.ascontiguousarray(outputs(estimator, TABLES[task][0])).tobytes())
    return found.hexdigest()


@pytest.mark.parametrize("params", CONFIGURATIONS, ids=str)
@pytest.mark.parametrize("task", TASKS)
def test_a_second_run(task, params):
    assert same_bits(fitted(task, params), fitted(task, params))
    if params.get("optimizer") != "lbfgs":
        assert not same_bits(fitted(task, params), fitted(task, params | {"random_state": 1}))


def test_random_states_of_every_kind():
    seeded = fitted("binary", {"random_state": 5})
    assert same_bits(seeded, fitted("binary", {"random_state": np.random.RandomState(5)}))
    assert not same_bits(fitted("binary", {"random_state": None}), fitted("binary", {"random_state": None}))


ALL = [(task, params) for task in ("multiclass", "multioutput") for params in CONFIGURATIONS]
SCRIPT = """
import warnings
warnings.simplefilter("ignore")
from tests.estimators.test_reproducible import ALL, digest
for task, params in ALL:
    print(digest(task, params))
"""


@pytest.mark.slow
def test_another_process():
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "1"}
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == [digest(*case) for case in ALL]


@pytest.mark.parametrize("prefer", ["processes", "threads"])
def test_under_n_jobs(prefer):
    there = joblib.Parallel(n_jobs=2, prefer=prefer)(joblib.delayed(digest)(*case) for case in ALL)
    assert there == [digest(*case) for case in ALL]


def test_an_estimator_does_not_touch_numpys_global_state():
    np.random.seed(3)  # noqa: NPY002  that is what is tested
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    fitted("binary", {"dropout": 0.5, "early_stopping": True})
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_fits_in_threads_are_independent():
    """Every thread has its own dropout, batch order and buffers."""
    jobs = [("binary", {"dropout": 0.5, "random_state": seed, "max_iter": 10}) for seed in range(8)]
    there = joblib.Parallel(n_jobs=4, prefer="threads")(joblib.delayed(digest)(*job) for job in jobs)
    assert there == [digest(*job) for job in jobs]


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps, self.last = nn.LSTM(5, 24), nn.Linear(24, 3)

    def forward(self, x):
        return self.last(self.steps(x)[0][:, -1])


NETWORKS = {
    (40, 30): nn.Sequential(nn.Linear(30, 100), nn.ReLU(), nn.Linear(100, 3)),
    (256, 54): nn.Sequential(
        nn.Linear(54, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 3)
    ),
    (64, 1, 12, 12): nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm(8), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.Flatten(), nn.Linear(1024, 3)
    ),
    (64, 12, 5): Recurrent(),
}
# Sums over long lengths, which BLAS's own threads make in another order than one thread.
LONG = {
    (200, 784): nn.Sequential(nn.Linear(784, 256), nn.Tanh(), nn.Dropout(0.3), nn.Linear(256, 3)),
    (200, 1000): nn.Sequential(nn.Linear(1000, 30), nn.ReLU(), nn.Linear(30, 3)),
    (100, 1, 28, 28): nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1352, 200), nn.Linear(200, 3)
    ),
}


@pytest.mark.parametrize(
    ("shape", "native"),
    [*[(shape, native) for shape in NETWORKS for native in ("auto", "never")], *[(x, "auto") for x in LONG]],
    ids=str,
)
def test_any_number_of_threads(shape, native):
    """On NumPy's plan only sums of few terms: BLAS's own threads add long ones in another order."""
    if shape in LONG:
        pytest.importorskip("sknet._native._core", reason="native code was not built")
    X, y = np.random.default_rng(0).normal(size=shape).astype(np.float32), np.arange(shape[0]) % 3
    found = []
    for count in (1, 2, 4):
        with threadpool_limits(count, "blas"), config_context(native=native):
            module = {**NETWORKS, **LONG}[shape]
            net = NetClassifier(module, max_iter=2, batch_size=shape[0] // 2, random_state=0)
            parameters = net.fit(X, y).model_.module.named_parameters()
            found.append({name: x.numpy().tobytes() for name, x in parameters})
    assert found[0] == found[1] == found[2]


def test_tables_of_any_number_of_threads():
    pytest.importorskip("sknet._native._core", reason="native code was not built")
    X = np.random.default_rng(0).normal(size=(700, 40))
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
    found = []
    for count in (1, 2, 4):
        with threadpool_limits(count, "blas"), config_context(native="auto"):
            model = TabularClassifier(n_folds=2, members=1, budget=0.02, random_state=0).fit(X, y)
            found.append(model.oof_prediction_.tobytes())
    assert found[0] == found[1] == found[2]


def test_scikit_learns_signature():
    X, y = TABLES["binary"]
    a, b = (neural_network.MLPClassifier(max_iter=3, random_state=0).fit(X, y) for _ in range(2))
    assert same_bits(a, b)
