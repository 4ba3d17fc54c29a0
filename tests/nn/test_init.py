"""Initializers: their distributions, their names, and their use as parameter objects."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone

from sknet import MLPClassifier, nn
from sknet.exceptions import ShapeError
from sknet.nn import init

SHAPE, FANS = (300, 200), {"fan_in": 300, "fan_out": 200}
EXPECTED_STD = {
    "constant": 0.0,
    "data": 1.0,
    "glorot_normal": np.sqrt(2 / 500),
    "glorot_uniform": np.sqrt(2 / 500),
    "he_normal": np.sqrt(2 / 300),
    "he_uniform": np.sqrt(2 / 300),
    "lecun_normal": np.sqrt(1 / 300),
    "normal": 0.05,
    "ones": 0.0,
    "orthogonal": np.sqrt(1 / 300),
    "uniform": 0.1 / np.sqrt(12),
    "zeros": 0.0,
}
EACH = pytest.mark.parametrize("name", init.INITIALIZERS)


def test_every_initialiser_has_a_name_and_a_row():
    classes = {
        value
        for value in vars(init).values()
        if isinstance(value, type) and issubclass(value, init.Initializer)
    }
    assert classes - {init.Initializer} == set(init.INITIALIZERS.values())
    assert set(EXPECTED_STD) == set(init.INITIALIZERS)


@EACH
def test_moments(name):
    drawn = init.INITIALIZERS[name]().draw(np.random.RandomState(0), SHAPE, **FANS)
    assert drawn.shape == SHAPE
    assert drawn.dtype == np.float64
    np.testing.assert_allclose(drawn.std(), EXPECTED_STD[name], rtol=0.01, atol=1e-12)
    assert abs(drawn.mean() - (name == "ones")) <= 4 * EXPECTED_STD[name] / np.sqrt(drawn.size)


@EACH
def test_bias(name):
    drawn = init.INITIALIZERS[name]().draw_bias(np.random.RandomState(0), (200,), **FANS)
    assert drawn.shape == (200,)
    assert drawn.any() == (name == "glorot_uniform")


@EACH
def test_a_layer_takes_it(name):
    by_name = nn.Linear(5, 4, init=name).initialize(0)
    by_object = nn.Linear(5, 4, init=init.INITIALIZERS[name]()).initialize(0)
    np.testing.assert_array_equal(by_name.weight.numpy(), by_object.weight.numpy())


@EACH
def test_parameter_object(name):
    made = init.INITIALIZERS[name]()
    assert clone(made) == made == pickle.loads(pickle.dumps(made))
    made.validate()


@pytest.mark.parametrize("bound", ["glorot_uniform", "he_uniform"])
def test_uniform_bounds(bound):
    drawn = init.INITIALIZERS[bound](factor=1.5).draw(np.random.RandomState(0), SHAPE, **FANS)
    limit = np.sqrt(1.5 / (500 if bound == "glorot_uniform" else 300))
    assert 0.99 * limit < np.abs(drawn).max() <= limit


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (2, 3, 4)])
def test_orthogonal(shape):
    drawn = init.Orthogonal(gain=2.0).draw(np.random.RandomState(0), shape, fan_in=1, fan_out=1)
    matrix = drawn.reshape(-1, shape[-1])
    product = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    np.testing.assert_allclose(product, 4.0 * np.eye(min(matrix.shape)), atol=1e-12)


def test_orthogonal_draws_matrices():
    with pytest.raises(ShapeError, match=r"expected a shape with at least 2 axes, got \(3,\)"):
        init.Orthogonal().draw(np.random.RandomState(0), (3,), fan_in=1, fan_out=1)


def test_values():
    np.testing.assert_array_equal(init.Constant(2).draw(None, (2,), 1, 1), [2.0, 2.0])
    uniform = init.Uniform(2.0, 3.0).draw(np.random.RandomState(0), (1000,), 1, 1)
    assert uniform.min() >= 2.0
    assert uniform.max() < 3.0
    assert init.Normal(std=0.0, mean=3.0).draw(np.random.RandomState(0), (1,), 1, 1) == 3.0


@pytest.mark.parametrize(
    ("bad", "name"),
    [
        (init.GlorotUniform(0.0), "factor"),
        (init.HeNormal(-1.0), "factor"),
        (init.Normal(std=-1.0), "std"),
        (init.Constant(np.inf), "value"),
        (init.Uniform("a"), "low"),
        (init.Orthogonal(0), "gain"),
    ],
)
def test_wrong_parameters(bad, name):
    with pytest.raises(ValueError, match=f"The {name!r} parameter of {type(bad).__name__} must be"):
        nn.Linear(2, 1, init=bad)


# -- versions -----------------------------------------------------------------------------------


def test_the_first_version_is_scikit_learns():
    with init.version(1):
        layer = nn.Linear(5, 4)
    asked = nn.Linear(5, 4, init=init.GlorotUniform())
    for a, b in zip(layer.initialize(0).parameters(), asked.initialize(0).parameters(), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert (layer.init_versions(), asked.init_versions()) == ({"": 1}, {})


def test_the_newest_version_is_the_default():
    layer, asked = nn.Linear(5, 4), nn.Linear(5, 4, init="he_normal")
    for a, b in zip(layer.initialize(0).parameters(), asked.initialize(0).parameters(), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert layer.init_versions() == {"": init.VERSION}
    assert not layer.bias.numpy().any()


def test_versions_are_remembered_and_nest():
    with init.version(1):
        with init.version(2):
            inner = nn.Linear(2, 2)
        outer = nn.Linear(2, 2)
    net = nn.Sequential(inner, outer, nn.ReLU(), nn.Linear(2, 2, init="zeros"), nn.Linear(2, 2))
    expected = {"0": 2, "1": 1, "4": 2}
    for twin in (net, net.copy(), pickle.loads(pickle.dumps(net))):
        assert twin.init_versions() == expected
    assert net.state_dict().metadata["init_versions"] == expected


def test_a_version_is_asked_for_in_one_thread_only():
    with init.version(1), ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: nn.Linear(1, 1).init_versions()).result() == {"": 2}


@pytest.mark.parametrize("number", [0, init.VERSION + 1, 1.5, "1", None])
def test_unknown_versions(number):
    context = init.version(number)
    with pytest.raises(ValueError, match=rf"no version {number!r} of the initial weights: expected an int"):
        context.__enter__()


def test_every_kind_has_a_scheme_for_every_version():
    for schemes in init.SCHEMES.values():
        assert min(schemes) == 1
        assert max(schemes) <= init.VERSION
        assert all(isinstance(scheme, init.Initializer) for scheme in schemes.values())


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("number", [1, 2])
def test_estimators_draw_as_scikit_learn_in_every_version(number):
    X, y = np.eye(6), np.arange(6) % 2
    weights = MLPClassifier((3,), max_iter=1, random_state=0).fit(X, y).coefs_
    with init.version(number):
        again = MLPClassifier((3,), max_iter=1, random_state=0).fit(X, y).coefs_
    for a, b in zip(weights, again, strict=True):
        np.testing.assert_array_equal(a, b)
