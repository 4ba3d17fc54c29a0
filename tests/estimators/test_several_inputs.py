"""Networks with several inputs, compared in every case with the same network on one array."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
import scipy.sparse
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from sknet import NetClassifier, nn, ops
from sknet.engine import Batches
from tests.estimators.data import quiet

RNG = np.random.default_rng(0)
N, LEFT, RIGHT, HIDDEN = 90, 3, 4, 5
TABLE = np.where(RNG.uniform(size=(N, LEFT + RIGHT)) < 0.6, RNG.normal(size=(N, LEFT + RIGHT)), 0.0)
LABELS = RNG.integers(0, 3, N)
WEIGHT = RNG.uniform(0.2, 2.0, N)
ROWS, HELD_OUT = slice(0, 60), slice(60, None)
WEIGHTS = [RNG.normal(size=shape) for shape in ((LEFT + RIGHT, HIDDEN), (HIDDEN,), (HIDDEN, 3), (3,))]


class Whole(nn.Module):
    """Reads the table as one array."""

    def __init__(self):
        self.first, self.last = nn.Linear(LEFT + RIGHT, HIDDEN), nn.Linear(HIDDEN, 3)

    def forward(self, x):
        return self.last(ops.tanh(self.first(x)))


class Joined(Whole):
    """Concatenates the parts of the table, and continues in the same way."""

    def forward(self, left, right):
        return super().forward(ops.concat([left, right], axis=1))


class Added(nn.Module):
    """Has a layer for each part of the table: the product with the table as a sum of two."""

    def __init__(self):
        self.left, self.right = nn.Linear(LEFT, HIDDEN), nn.Linear(RIGHT, HIDDEN, bias=False)
        self.last = nn.Linear(HIDDEN, 3)

    def forward(self, left, right):
        return self.last(ops.tanh(self.left(left) + self.right(right)))


def ready(kind):
    """Return a network with the common weights."""
    first, bias, last, last_bias = WEIGHTS
    module = kind().initialize(0).to(dtype="float64")
    if kind is Added:
        values = [first[:LEFT], bias, first[LEFT:], last, last_bias]
    else:
        values = [first, bias, last, last_bias]
    for (_, parameter), value in zip(module.named_parameters(), values, strict=True):
        parameter.data = value.copy()
    return module


def table(net):
    """Return the weights as those of `Whole`."""
    found = {name: np.array(array) for name, array in net.model_.evaluation_parameters.items()}
    if "left.weight" in found:
        found["first.weight"] = np.vstack([found.pop("left.weight"), found.pop("right.weight")])
        found["first.bias"] = found.pop("left.bias")
    return found


def halves(X):
    return {"left": X[:, :LEFT], "right": np.ascontiguousarray(X[:, LEFT:])}


def sparse(X):
    return {"left": scipy.sparse.csr_array(X[:, :LEFT]), "right": X[:, LEFT:]}


def other_order(X):
    return dict(reversed(halves(X).items()))


def fit(net, given, **more):
    return net.fit(given(TABLE), LABELS, **more)


def fit_with_validation(net, given, **more):
    held_out = {"X_val": given(TABLE[HELD_OUT]), "y_val": LABELS[HELD_OUT]}
    return net.fit(given(TABLE[ROWS]), LABELS[ROWS], **held_out, **more)


def fit_in_parts(net, given):
    for part in (slice(0, 50), slice(50, 90), slice(20, 70)):
        net.partial_fit(given(TABLE[part]), LABELS[part], classes=[0, 1, 2])
    return net


def fit_in_parts_with_validation(net, given):
    for _ in range(2):
        net.partial_fit(
            given(TABLE[ROWS]),
            LABELS[ROWS],
            X_val=given(TABLE[HELD_OUT]),
            y_val=LABELS[HELD_OUT],
            classes=[0, 1, 2],
        )
    return net


def fit_twice(net, given):
    return net.fit(given(TABLE), LABELS).fit(given(TABLE[ROWS]), LABELS[ROWS])


def fit_again_after(way, net, given):
    net.partial_fit(given(TABLE), LABELS, classes=[0, 1, 2])
    return way(net).partial_fit(given(TABLE), LABELS)


def pickled(net):
    return pickle.loads(pickle.dumps(net))


ACTIONS = {
    "fit": (fit, {}),
    "in the order of the data": (fit, {"shuffle": False}),
    "all rows at once": (fit, {"batch_size": N}),
    "sample weights": (partial(fit, sample_weight=WEIGHT), {}),
    "class weights": (fit, {"class_weight": "balanced", "shuffle": False}),
    "early stopping": (fit, {"early_stopping": True, "n_iter_no_change": 1, "max_iter": 9}),
    "refit": (fit, {"early_stopping": True, "refit_on_all": True}),
    "validation": (fit_with_validation, {"early_stopping": True, "scoring": ["accuracy", "loss"]}),
    "partial_fit": (fit_in_parts, {}),
    "partial_fit with validation": (fit_in_parts_with_validation, {"early_stopping": True}),
    "warm start": (fit_twice, {"warm_start": True}),
    "pickled": (partial(fit_again_after, pickled), {}),
    "copied": (partial(fit_again_after, copy.deepcopy), {}),
    "frozen": (fit, {"frozen": "last.*"}),
    "lbfgs": (fit, {"optimizer": "lbfgs"}),
}


def fitted(kind, action, given, **more):
    act, params = ACTIONS[action]
    settings = {"max_iter": 4, "batch_size": 16, "random_state": 0} | params | more
    with quiet():
        return act(NetClassifier(ready(kind), **settings), given)


WAYS = {
    "native": (halves, "always"),
    "halves": (halves, "never"),
    "sparse": (sparse, "auto"),
    "order": (other_order, "never"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("action", ACTIONS)
def test_a_sum_of_products_is_the_product_with_the_table(action, way, monkeypatch):
    given, native = WAYS[way]
    monkeypatch.setenv("SKNET_NATIVE", native)
    net, whole = fitted(Added, action, given), fitted(Whole, action, np.asarray)
    rtol = 1e-3 if action == "lbfgs" else 1e-8
    for name, array in table(whole).items():
        np.testing.assert_allclose(table(net)[name], array, rtol=rtol, atol=rtol)
    assert net.history_.keys() == whole.history_.keys()
    for name in net.history_.keys() - {"time"}:
        np.testing.assert_allclose(net.history_[name], whole.history_[name], rtol=rtol)
    expected = whole.predict_proba(TABLE)
    for one in (net, net.freeze(), pickled(net), pickled(net.freeze())):
        np.testing.assert_allclose(one.predict_proba(given(TABLE)), expected, rtol=rtol)
        np.testing.assert_allclose(one.predict_proba(given(TABLE[7:8])), expected[7:8], rtol=rtol)


@pytest.mark.parametrize("action", ACTIONS)
def test_concatenated_inputs_are_bitwise_identical_to_the_table(action, monkeypatch):
    monkeypatch.setenv("SKNET_NATIVE", "never")
    net, whole = fitted(Joined, action, halves), fitted(Whole, action, np.asarray)
    for name, array in table(whole).items():
        assert np.array_equal(table(net)[name], array)
    assert np.array_equal(net.predict_proba(halves(TABLE)), whole.predict_proba(TABLE))


@pytest.mark.parametrize("params", [{}, {"shuffle": False}, {"early_stopping": True}], ids=str)
def test_on_a_device_as_on_the_host(params, fake_device):
    there, here = (fitted(Added, "fit", halves, device=place, **params) for place in ("fake", "cpu"))
    for name, array in here.model_.parameters.items():
        np.testing.assert_allclose(there.model_.module.state_dict()[name], array, rtol=1e-7)
    np.testing.assert_allclose(there.predict_proba(halves(TABLE)), here.predict_proba(halves(TABLE)))


# -- in native code, and one row by a compiled pass -------------------------------------------------


def gathered(kind, given, monkeypatch):
    """Return how many batches of a fit NumPy has gathered."""
    count, take_into = 0, Batches.take_into

    def counting(self, *args):
        nonlocal count
        count += 1
        return take_into(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Batches, "take_into", counting)
        fitted(kind, "fit", given, max_iter=20)
    return count


def test_inputs_by_name_are_gathered_as_often_as_a_table(monkeypatch):
    counts = [gathered(*case, monkeypatch) for case in ((Added, halves), (Whole, lambda X: X))]
    assert counts[0] == counts[1]


def test_rows_in_order_are_read_where_they_are(monkeypatch):
    expected = fitted(Added, "in the order of the data", halves, dtype="float64")
    monkeypatch.setenv("SKNET_NATIVE", "never")
    gathered = fitted(Added, "in the order of the data", halves, dtype="float64")
    monkeypatch.setattr(Batches, "take_into", None)  # gathering fails
    found = fitted(Added, "in the order of the data", lambda X: {n: x.copy() for n, x in halves(X).items()})
    for name, array in gathered.model_.parameters.items():
        assert np.array_equal(found.model_.parameters[name], array)
        np.testing.assert_allclose(expected.model_.parameters[name], array, rtol=1e-9)


class Counted(Added):
    """Counts how often its Python is run."""

    calls = 0

    def forward(self, left, right):
        Counted.calls += 1
        return super().forward(left, right)


@pytest.mark.parametrize("freezes", [False, True])
def test_one_row_runs_no_python_of_the_network(freezes):
    with quiet():
        net = NetClassifier(Counted, max_iter=2, random_state=0).fit(halves(TABLE), LABELS)
    net = net.freeze() if freezes else net
    expected = net.predict_proba(halves(TABLE))
    net.predict_proba(halves(TABLE[:1]))
    before = Counted.calls
    found = np.concatenate([net.predict_proba(halves(TABLE[i : i + 1])) for i in range(9)])
    np.testing.assert_allclose(found, expected[:9], rtol=1e-9)
    assert Counted.calls == before


@pytest.mark.parametrize(
    ("left", "message"),
    [
        (np.full((1, LEFT), np.nan), "input 'left' contains NaN or infinity"),
        (np.full((1, LEFT), 1e308), None),  # the sum overflows, no number does
        (np.zeros((2, LEFT)), "inconsistent numbers of samples"),
        (np.zeros((1, 1, LEFT)), "input 'left' must have 2 axes"),
        (np.zeros((1, LEFT), int), None),
        (np.zeros((1, LEFT), "U1"), "input 'left' must be an array of numbers"),
    ],
)
def test_quick_checks_find_every_error(left, message):
    net = fitted(Added, "fit", halves)
    given = halves(TABLE[:1]) | {"left": left}
    if message is None:
        assert np.isfinite(net.predict_proba(given)).all()
    else:
        with pytest.raises(ValueError, match=message):
            net.predict_proba(given)


def test_columns_by_a_column_transformer_are_the_dict(monkeypatch):
    pandas = pytest.importorskip("pandas")
    monkeypatch.setenv("SKNET_NATIVE", "never")
    frame = pandas.DataFrame(TABLE, columns=[f"column {i}" for i in range(LEFT + RIGHT)])
    parts = [
        ("left", "passthrough", list(frame.columns[:LEFT])),
        ("right", StandardScaler(), list(frame.columns[LEFT:])),
    ]
    columns = ColumnTransformer(parts).set_output(transform="pandas")
    right = StandardScaler().fit(frame.iloc[ROWS, LEFT:]).transform(frame.iloc[:, LEFT:])
    halved = {"left": TABLE[:, :LEFT], "right": right}

    def rows(chosen):
        return {name: x[chosen] for name, x in halved.items()}

    params = {"max_iter": 4, "random_state": 0, "early_stopping": True}
    pipeline = Pipeline(
        [("columns", columns), ("net", NetClassifier(ready(Added), **params))], transform_input=["X_val"]
    )
    held_out = {"y_val": LABELS[HELD_OUT]}
    with sklearn.config_context(enable_metadata_routing=True), quiet():
        pipeline[-1].set_fit_request(X_val=True, y_val=True)
        pipeline.fit(frame[ROWS], LABELS[ROWS], X_val=frame[HELD_OUT], **held_out)
    with quiet():
        net = NetClassifier(ready(Added), **params)
        net.fit(rows(ROWS), LABELS[ROWS], X_val=rows(HELD_OUT), **held_out)
    assert np.array_equal(pipeline.predict_proba(frame), net.predict_proba(halved))
    np.testing.assert_allclose(pipeline.predict_proba(frame[:1]), net.predict_proba(rows(slice(0, 1))))
    assert pipeline[-1].history_["validation_loss"] == net.history_["validation_loss"]


# -- sparse inputs ------------------------------------------------------------------------------------


class ByTanh(nn.Module):
    def __init__(self, n_outputs):
        self.first, self.head = nn.LazyLinear(4), nn.LazyLinear(n_outputs)

    def forward(self, left, right):
        return self.head(self.first(left) + self.first(ops.tanh(right)))


class BySlice(nn.Module):
    def __init__(self, n_outputs):
        self.head = nn.LazyLinear(n_outputs)

    def forward(self, x):
        return self.head(x[:, :3])


@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.csr_matrix, scipy.sparse.csc_array])
@pytest.mark.parametrize("params", [{}, {"optimizer": "lbfgs"}], ids=str)
def test_an_input_that_cannot_be_sparse_is_named(kind, params):
    halved = {"left": kind(TABLE[:, :3]), "right": kind(TABLE[:, 3:6])}
    net = NetClassifier(ByTanh, **params)
    with pytest.raises(TypeError, match=r"cannot read input 'right' as a sparse matrix: .* Only a product"):
        net.fit(halved, LABELS)
    assert not hasattr(net, "model_")
    with quiet():
        net.set_params(max_iter=2).fit(halved | {"right": TABLE[:, 3:6]}, LABELS)


def test_other_uses_of_sparse_rows_are_not_compiled():
    net = NetClassifier(BySlice, max_iter=2, random_state=0)
    with pytest.warns(UserWarning, match="is known only when the captured function runs"), quiet():
        net.fit(scipy.sparse.csr_array(TABLE), LABELS)
    np.testing.assert_allclose(net.predict_proba(scipy.sparse.csr_array(TABLE)), net.predict_proba(TABLE))
