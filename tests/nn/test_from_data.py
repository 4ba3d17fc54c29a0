"""Data-dependent initialization without a model: an independent computation, degenerate data."""

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse

from sknet import Tensor, nn
from sknet.exceptions import InvalidParameterError, ShapeError, StateError
from sknet.nn.init import FromData, from_data
from tests.combinations import every

X = np.random.default_rng(0).normal(3.0, 5.0, size=(300, 6))


def linear(n_in, n_out, bias="he+5", n_rows=2000, **options):
    return nn.Linear(n_in, n_out, init=FromData(bias, n_rows), **options)


def network(**options):
    return nn.Sequential(linear(6, 8, **options), nn.Tanh(), linear(8, 3, **options)).to(dtype="float64")


def by_hand(X, seed, widths, ntp, bias, n_rows):
    """The same in NumPy, from the same draws in the same order."""
    source = np.random.RandomState(seed)
    weights = [source.normal(size=(n, m)) for n, m in pairwise(widths)]
    if len(X) > n_rows:
        X = X[np.sort(source.choice(len(X), n_rows, replace=False))]
    layers = []
    for i, W in enumerate(weights):
        out = X @ W / (np.sqrt(len(W)) if ntp else 1.0)
        W, out = W / out.std(axis=0), out / out.std(axis=0)
        b = np.zeros(W.shape[1])
        if bias == "he+5":
            rows, shares = source.randint(len(X), size=(5, len(b))), source.exponential(size=(5, len(b)))
            b = -np.array([np.average(out[rows[:, j], j], weights=shares[:, j]) for j in range(W.shape[1])])
        layers.append((W, b))
        X = np.tanh(out + b) if i < len(weights) - 1 else out + b
    return layers, X


@every(n_rows=[2000, 300, 50], bias=["he+5", "zeros"], parametrization=["standard", "ntp"], seed=range(3))
def test_by_an_own_computation(seed, parametrization, bias, n_rows):
    net = from_data(network(parametrization=parametrization, bias=bias, n_rows=n_rows), X, random_state=seed)
    expected, outputs = by_hand(X, seed, [6, 8, 3], parametrization == "ntp", bias, n_rows)
    for layer, (weight, offset) in zip((net[0], net[2]), expected, strict=True):
        np.testing.assert_allclose(layer.weight.numpy(), weight, rtol=1e-12)
        np.testing.assert_allclose(layer.bias.numpy(), offset, rtol=1e-10, atol=1e-14)
    if n_rows >= len(X):
        np.testing.assert_allclose(net(X).numpy(), outputs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_every_output_has_deviation_one_and_a_zero_among_the_data(seed):
    rng = np.random.default_rng(seed)
    widths = [4, *rng.integers(1, 9, size=rng.integers(1, 4)).tolist(), 2]
    layers = []
    for n, m in pairwise(widths):
        form = rng.choice(["standard", "ntp"])
        layers += [nn.Linear(n, m, init="data", parametrization=str(form)), nn.Dropout(0.5), nn.SELU()]
    net = nn.Sequential(*layers).to(dtype="float64")
    data = rng.normal(rng.normal(size=4) * 5, np.exp(rng.normal(size=4)), size=(200, 4))
    from_data(net, data, random_state=seed).eval()
    x = Tensor(data)
    for layer in net:
        x = layer(x)
        if isinstance(layer, nn.Linear):
            out = x.numpy()
            np.testing.assert_allclose(out.std(axis=0), 1.0, rtol=1e-9)
            assert (out.min(axis=0) <= 0).all()
            assert (out.max(axis=0) >= 0).all()


@pytest.mark.parametrize(
    "data",
    [
        np.zeros((5, 3)),
        np.ones((5, 3)),
        np.ones((1, 3)),
        np.ones((0, 3)),
        np.full((4, 3), np.nan),
        np.array([[np.inf, 1, 1], [0, 1, 1]]),
        np.full((3, 3), 1e300) * [[1], [-1], [1]],
        np.array([[1e-300, 0, 0], [0, 0, 0]]),
    ],
    ids=["zeros", "constant", "one row", "no rows", "nan", "inf", "huge", "tiny"],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_whatever_the_data_weights_are_finite(data, dtype):
    layer = linear(3, 4).to(dtype=dtype)
    with np.errstate(all="ignore"):
        from_data(layer, data.astype(dtype), random_state=0)
    assert all(np.isfinite(parameter.numpy()).all() for parameter in layer.parameters())
    assert not layer.awaits_data


def test_sparse_rows_are_seen_as_they_are():
    dense = X * (np.abs(X) > 4)
    found = from_data(network(), scipy.sparse.csr_array(dense), random_state=0)
    expected = from_data(network(), dense, random_state=0)
    for mine, theirs in zip(found.parameters(), expected.parameters(), strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-9)


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("parametrization", ["standard", "ntp"])
def test_divisors_have_a_floor(kind, parametrization):
    few = np.zeros((60, 3))
    few[:20, :2] = 1.0, 2.0
    layer = nn.Linear(3, 500, init=FromData("zeros", least=0.5), parametrization=parametrization)
    from_data(layer.to(dtype="float64"), kind(few), random_state=0)
    factor = 3**-0.5 if parametrization == "ntp" else 1.0
    outputs = few @ np.random.RandomState(0).normal(size=(3, 500)) * factor
    expected = np.sqrt(few.var(axis=0).sum()) * factor  # as each weight has a variance of one
    divisors = np.maximum(outputs.std(axis=0), 0.5 * expected)
    np.testing.assert_allclose(layer(few).numpy(), outputs / divisors, rtol=1e-10)
    assert 0.2 < (divisors == 0.5 * expected).mean() < 0.5


def test_more_axes_are_more_rows():
    layer = from_data(linear(6, 2).to(dtype="float64"), X.reshape(50, 6, 6), random_state=0)
    np.testing.assert_allclose(layer(X).numpy().std(axis=0), 1.0)


def test_several_inputs_by_name():
    class Two(nn.Module):
        def __init__(self):
            self.a, self.b = linear(6, 2), linear(3, 2)

        def forward(self, left, right):
            return self.a(left) + self.b(right)

    net = from_data(Two().to(dtype="float64"), left=X, right=X[:, :3], random_state=0)
    np.testing.assert_allclose(net.a(X).numpy().std(axis=0), 1.0)
    np.testing.assert_allclose(net.b(X[:, :3]).numpy().std(axis=0), 1.0)


def changed(net, action):
    before = [parameter.numpy().copy() for parameter in net.parameters()]
    action(net)
    from_data(net, X, random_state=1)
    return any((a != b.numpy()).any() for a, b in zip(before, net.parameters(), strict=True))


LOADED = network().initialize(5).state_dict()


def assign(net):
    for parameter in net.parameters():
        parameter.data = np.full(parameter.shape, 0.5)


WAYS = {
    "seen before": lambda net: from_data(net, X, random_state=0),
    "loaded": lambda net: net.load_state_dict(LOADED),
    "from PyTorch": lambda net: nn.from_torch(nn.to_torch(network().initialize(5)), net),
    "assigned": assign,
    "written in place": lambda net: [p.data.__imul__(2.0) for p in net.parameters()],
    "frozen": lambda net: net.requires_grad_(False),
}
COPIES = {
    "itself": lambda net: net,
    "copy": lambda net: net.copy(),
    "deepcopy": copy.deepcopy,
    "pickle": lambda net: pickle.loads(pickle.dumps(net)),
    "float32 and back": lambda net: net.to(dtype="float32").to(dtype="float64"),
}


@pytest.mark.parametrize("twin", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("drawn", [True, False], ids=["drawn", "not drawn"])
@every(way=WAYS)
def test_only_initial_weights_are_fitted(way, drawn, twin):
    net = network()
    if drawn or way in ("written in place", "frozen"):
        net.initialize(0)
    fresh = twin(net)
    assert fresh[0].awaits_data
    assert fresh[2].awaits_data
    WAYS[way](net)
    kept = twin(net)
    if way != "seen before" or twin is not COPIES["float32 and back"]:
        before = [parameter.numpy().copy() for parameter in kept.parameters()]
        from_data(kept, X, random_state=1)
        for old, parameter in zip(before, kept.parameters(), strict=True):
            np.testing.assert_array_equal(parameter.numpy(), old)


@pytest.mark.parametrize("twin", COPIES.values(), ids=COPIES)
def test_copies_wait_as_the_original_does(twin):
    net = twin(network().initialize(0))
    assert all(layer.awaits_data for layer in (net[0], net[2]))
    from_data(net, X, random_state=1)
    np.testing.assert_allclose(net[0](X).numpy().std(axis=0), 1.0, rtol=1e-5)
    assert not any(layer.awaits_data for layer in (twin(net)[0], twin(net)[2]))


def test_a_bias_that_was_set_is_left():
    layer = linear(6, 2).initialize(0)
    layer.bias.data = np.array([1.0, 2.0], np.float32)
    before = layer.weight.numpy().copy()
    from_data(layer, X.astype("float32"), random_state=0)
    np.testing.assert_array_equal(layer.bias.numpy(), [1.0, 2.0])
    assert (layer.weight.numpy() != before).all()


def test_a_layer_that_is_used_twice_sees_its_first_input():
    layer = linear(6, 6).to(dtype="float64")
    net = from_data(nn.Sequential(layer, nn.Tanh(), layer), X, random_state=0)
    np.testing.assert_allclose(net[0](X).numpy().std(axis=0), 1.0)


def test_a_weight_that_two_layers_share_is_fitted_once():
    first, second = linear(6, 6), linear(6, 6, bias="zeros")
    second.weight = first.weight
    net = from_data(nn.Sequential(first, nn.Tanh(), second).to(dtype="float64"), X, random_state=0)
    assert net[0].weight is net[2].weight
    np.testing.assert_allclose(net[0](X).numpy().std(axis=0), 1.0)


def test_buffers_stay_and_nothing_is_dropped():
    net = nn.Sequential(nn.BatchNorm(6), linear(6, 4), nn.Dropout(0.9)).to(dtype="float64")
    from_data(net, X, random_state=0)
    np.testing.assert_array_equal(net[0].running_mean.numpy(), np.zeros(6))
    np.testing.assert_allclose(net.eval()(X).numpy().std(axis=0), 1.0)


def test_an_error_changes_nothing():
    net = nn.Sequential(linear(6, 8), linear(7, 2)).to(dtype="float64").initialize(0)
    before = net.state_dict()
    with pytest.raises(ShapeError, match=r"expected an input of shape \(\.\.\., 7\), got \(300, 8\)"):
        from_data(net, X, random_state=1)
    for path, value in net.state_dict().items():
        np.testing.assert_array_equal(value, before[path])
    assert net[0].awaits_data
    assert net[1].awaits_data


def test_a_custom_layer():
    class Centred(nn.Module):
        def __init__(self):
            self.mean = nn.Parameter(np.zeros(6))
            self.mean.await_data()

        @property
        def awaits_data(self):
            return self.mean.awaits_data

        def see_data(self, x, random_state):
            self.mean.data = np.asarray(x).mean(axis=0)

        def forward(self, x):
            return x - self.mean

    net = from_data(nn.Sequential(Centred(), linear(6, 2)).to(dtype="float64"), X, random_state=0)
    np.testing.assert_allclose(net[0].mean.numpy(), X.mean(axis=0))
    assert not net[0].awaits_data


def test_without_such_layers_nothing_more_is_drawn():
    source = np.random.RandomState(0)
    from_data(nn.Sequential(nn.Linear(6, 2), nn.Scale(2)), X, random_state=source)
    twin = np.random.RandomState(0)
    nn.Linear(6, 2).initialize(twin)
    assert source.randint(10**6) == twin.randint(10**6)


def test_a_lazy_module_is_refused():
    with pytest.raises(StateError, match=r"nn\.materialize"):
        from_data(nn.LazyLinear(2, init="data"), X)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Conv1d(2, 3, 2, init="data"),
        lambda: nn.Embedding(2, 3, init=FromData()),
        lambda: nn.Scale(2, init="data"),
    ],
)
def test_layers_that_see_no_data(make):
    with pytest.raises(InvalidParameterError, match=r"draws without data\. Got .* such as Linear"):
        make()


@pytest.mark.parametrize("arguments", [{"bias": "he"}, {"n_rows": 0}])
def test_wrong_parameters(arguments):
    with pytest.raises(InvalidParameterError, match=f"The '{next(iter(arguments))}' parameter of FromData"):
        FromData(**arguments).validate()
