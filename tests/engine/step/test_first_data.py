"""Data-dependent initialization in a model: once, before its first step, on training rows."""

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse

from sknet import Model, NetClassifier, nn
from sknet.nn.init import FromData
from sknet.optim import LBFGS, SGD

RNG = np.random.default_rng(0)
X = RNG.normal(3.0, 5.0, size=(120, 4))
Y = RNG.normal(size=(120, 2))
SEEN = []  # for each layer that was fitted: how many rows it saw


class Counted(FromData):
    def fitted(self, random_state, weight, outputs, *others):
        SEEN.append(len(outputs))
        return super().fitted(random_state, weight, outputs, *others)


@pytest.fixture(autouse=True)
def _forget():
    SEEN.clear()


def network(n_layers=2, n_rows=2000):
    scheme = Counted(n_rows=n_rows)
    widths = [4, *[5] * (n_layers - 1), 2]
    layers = [nn.Linear(n, m, init=scheme) for n, m in pairwise(widths)]
    return nn.Sequential(*layers)


def model(module=None, **options):
    options = {"random_state": 0, "dtype": "float64", "optimizer": SGD(1e-3), **options}
    return Model(network() if module is None else module, **options)


def has_deviation_one(module, data):
    return bool(np.allclose(module[0](data).numpy().std(axis=0), 1.0, rtol=1e-4))


FIRST = {
    "step": lambda m: m.step(X, Y),
    "fit": lambda m: m.fit(X, Y, epochs=1, batch_size=50),
    "train": lambda m: m.train([(X[:60], Y[:60]), (X[60:], Y[60:])], epochs=2),
    "in pieces": lambda m: m.update(m.backward(m.loss(m(X), Y))),
    "a pass in training": lambda m: m(X),
}


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("compile", [True, False])
def test_the_first_call_shows_the_data_once(first, compile):
    made = model(compile=compile)
    FIRST[first](made)
    assert SEEN == [60, 60] if first == "train" else SEEN == [120, 120]
    for action in FIRST.values():
        action(made)
    assert len(SEEN) == 2


def test_predictions_show_nothing():
    made = model()
    made.predict(X)
    made(X, training=False)
    assert SEEN == []
    made.step(X, Y)
    assert SEEN == [120, 120]


def test_weights_are_those_of_from_data():
    made, source = model(optimizer=SGD(1e-12)), np.random.RandomState(0)
    twin = network().to(dtype="float64").initialize(source)
    source.set_state(made.random_state.get_state())
    made.step(X, Y)
    nn.init.from_data(twin, X, random_state=source)
    for mine, theirs in zip(made.module.parameters(), twin.parameters(), strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-6, atol=1e-9)


# Actions on a model, and whether its layers have seen data afterwards, if they had or had not before.
def put_in(m):
    m.module[1] = nn.Linear(5, 2, init=Counted())
    return m


ACTIONS = {
    "step": lambda m, other: (m.step(X, Y), m)[1],
    "fit": lambda m, other: (m.fit(X, Y, epochs=1, batch_size=40), m)[1],
    "predict": lambda m, other: (m(X, training=False), m)[1],
    "copy": lambda m, other: m.copy(),
    "deepcopy": lambda m, other: copy.deepcopy(m),
    "pickle": lambda m, other: pickle.loads(pickle.dumps(m)),
    "load": lambda m, other: (m.module.load_state_dict(other.module.state_dict()), m)[1],
    "replace": lambda m, other: m.replace(other.state),
    "other optimizer": lambda m, other: (m.adopt(SGD(1e-4), m.loss_function, 0.0), m)[1],
    "freeze": lambda m, other: (
        m.module.requires_grad_(False),
        m.module[1].bias.__setattr__("requires_grad", True),
        m,
    )[2],
    "thaw": lambda m, other: (m.module.requires_grad_(True), m)[1],
    "put in": lambda m, other: put_in(m),
}


@pytest.mark.parametrize("seed", range(30))
def test_sequences(seed):
    """Layers see data when they are first trained, unless they were loaded before; and never again."""
    rng = np.random.default_rng(seed)
    other = model(random_state=1)
    other.step(X, Y)
    made, waiting, frozen = model(compile=bool(rng.integers(2))), [True, True], False
    for name in rng.choice(list(ACTIONS), size=14).tolist():
        SEEN.clear()
        trains = name in ("step", "fit")
        expected = sum(waiting) if trains and not frozen else 0
        if frozen and name == "replace":  # a state has the trained parameters
            made.module.requires_grad_(True)
        made = ACTIONS[name](made, other)
        assert len(SEEN) == expected, name
        if trains and not frozen:
            waiting = [False, False]
        elif name in ("load", "replace"):
            waiting = [False, False]
            frozen = frozen and name == "load"
        elif name == "put in":
            waiting[1] = True
            frozen = frozen and None  # the new layer is trained, the first stays frozen
        elif name in ("freeze", "thaw"):
            frozen = name == "freeze"
        if frozen is None:
            ACTIONS["thaw"](made, other)
            frozen = False
        assert [layer.awaits_data for layer in made.module] == [w and not frozen for w in waiting], name


@pytest.mark.parametrize("n_rows", [30, 119])
def test_of_more_rows_some_are_drawn(n_rows):
    made = model(network(n_rows=n_rows))
    made.fit(X, Y, epochs=1)
    assert [n_rows, n_rows] == SEEN


def test_an_error_leaves_the_model_as_it_was():
    made = model(nn.Sequential(nn.Linear(4, 5, init="data"), nn.Linear(6, 2, init="data")))
    before, drawn = made.state, made.random_state.get_state()[2]
    with pytest.raises(ValueError, match=r"expected an input of shape \(\.\.\., 6\)"):
        made.step(X, Y)
    assert made.random_state.get_state()[2] == drawn
    for name, value in made.state.parameters.items():
        np.testing.assert_array_equal(value, before.parameters[name])


LABELS = (X[:, 0] > 3).astype(int)


def classifier(**options):
    raw = {"scale_inputs": False, "optimizer": SGD(1e-3)}
    options = {"max_iter": 3, "random_state": 0, "batch_size": 30, **raw, **options}
    module = nn.Sequential(nn.Linear(4, 5, init=Counted()), nn.ReLU(), nn.Linear(5, 1, init=Counted()))
    return NetClassifier(module, **options)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
class TestEstimators:
    def test_only_training_rows_are_seen(self):
        fitted = classifier(early_stopping=True, validation_fraction=0.25, max_iter=1).fit(X, LABELS)
        assert SEEN == [90, 90]
        assert fitted.n_iter_ == 1

    def test_the_same_seed_has_the_same_bits(self):
        first, second = (classifier().fit(X, LABELS).predict_proba(X) for _ in range(2))
        np.testing.assert_array_equal(first, second)
        other = classifier(random_state=1).fit(X, LABELS).predict_proba(X)
        assert (first != other).any()

    def test_continued_fits_show_no_data(self):
        fitted = classifier(warm_start=True).fit(X, LABELS)
        assert len(SEEN) == 2
        fitted.fit(X, LABELS).partial_fit(X, LABELS)
        assert len(SEEN) == 2
        pickle.loads(pickle.dumps(fitted)).partial_fit(X, LABELS)
        assert len(SEEN) == 2
        fitted.set_params(warm_start=False).fit(X, LABELS)
        assert len(SEEN) == 4

    def test_partial_fit_sees_its_first_rows(self):
        fitted = classifier().partial_fit(X[:50], LABELS[:50], classes=[0, 1])
        assert SEEN == [50, 50]
        fitted.partial_fit(X[50:], LABELS[50:])
        assert len(SEEN) == 2

    def test_lbfgs(self):
        fitted = classifier(optimizer=LBFGS(), max_iter=2)
        with pytest.warns(Warning, match="limit|LIMIT|ITERATIONS|terations"):
            fitted.fit(X, LABELS)
        assert SEEN == [120, 120]

    def test_sparse_rows(self):
        sparse = scipy.sparse.csr_array(X)
        found = classifier().fit(sparse, LABELS).predict_proba(sparse)
        np.testing.assert_allclose(found, classifier().fit(X, LABELS).predict_proba(X), rtol=1e-5)


def test_compiled_or_not():
    found = []
    for compile in (True, False):
        made = model(compile=compile)
        made.fit(X, Y, epochs=5, batch_size=30)
        found.append(made.predict(X))
    np.testing.assert_allclose(*found, rtol=1e-9)
