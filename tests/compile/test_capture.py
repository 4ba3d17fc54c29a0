"""Captured modules: their state becomes named inputs, and the graph computes the same."""

import pickle

import numpy as np
import pytest

from sknet import Tensor, grad, nn, ops
from sknet.compile import capture, compile
from sknet.compile.passes import optimize
from sknet.exceptions import (
    CaptureError,
    DtypeError,
    GradientError,
    GraphError,
    ShapeError,
    StateError,
)
from tests.nn.layers.test_contract import ROWS
from tests.onnx.runtime import arrays_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 4)).astype("float32")


def network():
    layers = (nn.Linear(4, 3), nn.BatchNorm(3), nn.Tanh(), nn.Dropout(0.5), nn.Linear(3, 2))
    net = nn.Sequential(*layers).initialize(0)
    net(X)
    return net.train()


def same(found, expected):
    for a, b in zip(arrays_of(found), arrays_of(expected), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_array_equal(a, b)


def test_parameters_and_buffers_are_named_inputs():
    graph = capture(nn.Linear(3, 2).forward, np.ones((5, 3), "float32"))
    assert str(graph) == (
        "graph(weight: float32[3,2], bias: float32[2], x: float32[5,3]):\n"
        "  v3: float32[5,2] = matmul x weight\n"
        "  v4: float32[5,2] = add v3 bias\n"
        "  return v4"
    )
    assert not graph.constants
    net = network()
    assert list(capture(net, X).values) == list(nn.bindings(net))


def test_names_of_arguments_differ_from_those_of_parameters():
    class Scaled(nn.Module):
        def __init__(self):
            self.x = nn.Parameter(np.ones(3))

        def forward(self, x, *others, **options):
            return self.x * x * others[0]["a"] * others[1]

    graph = capture(Scaled(), np.ones(3), {"a": np.ones(3)}, np.ones(3))
    assert [graph.names()[v] for v in graph.inputs] == ["x", "x_", "others_0.a", "others_1"]


@pytest.mark.parametrize("through", [lambda m: m, lambda m: m.forward], ids=["module", "method"])
def test_every_layer_computes_the_same_from_its_graph(through):
    for name, (make, shape) in ROWS.items():
        layer = make()
        x = RNG.normal(size=(4, *shape)).astype("float32")
        layer(x)
        graph = capture(through(layer.train()), x)
        assert layer.training, name
        expected = layer.eval()(Tensor(x))
        same(graph(x), expected)
        same(optimize(graph, exact=True)(x), expected)


def test_values_are_those_of_the_capture_unless_others_are_given():
    net = network()
    graph = capture(net, X)
    expected = net.eval()(X)
    for _, parameter in net.named_parameters():
        parameter.data = parameter.data + 1
    same(graph(X), expected)
    same(graph(X, values=dict(net.named_parameters())), net(X))
    with pytest.raises(ValueError, match="read-only"):
        graph.values["0.weight"][...] = 0


def test_passes_keep_names_and_values():
    graph = optimize(capture(network(), X))
    assert str(graph).startswith("graph(0.weight: float32[4,3], 0.bias: ")
    assert graph.values.keys() == capture(network(), X).values.keys()


def test_gradients_are_those_of_the_module():
    net = network().eval()
    graph = capture(net, X)
    loss = lambda call: ops.sum(ops.exp(call))  # noqa: E731
    weights = {path: np.array(p.data) for path, p in net.named_parameters()}
    found = grad(lambda values, x: loss(graph(x, values=values)), (0, 1))(weights, X)
    expected = grad(lambda values, x: loss(nn.functional_call(net, values, x, training=False)[0]), (0, 1))(
        weights, X
    )
    assert found[0].keys() == weights.keys()
    for a, b in zip([*found[0].values(), found[1]], [*expected[0].values(), expected[1]], strict=True):
        same(a, b)


def test_a_graph_is_captured_and_compiled_like_any_function():
    net = network()
    graph = capture(net, X)
    run = compile(lambda values, x: graph(x, values=values), (dict(graph.values), X), exact=True)
    np.testing.assert_array_equal(run(dict(graph.values), X), net.eval()(X).numpy())
    np.testing.assert_allclose(compile(graph, (X,))(X), net(X).numpy(), rtol=1e-5, atol=1e-6)


def test_a_graph_is_pickled_with_its_values():
    net = network()
    graph = pickle.loads(pickle.dumps(capture(net, X)))
    same(graph(X), net.eval()(X))


def test_trees_of_arguments_and_results():
    def function(x, options, scale):
        return {"a": x * scale, "b": (x + options["y"], None, "text")}

    graph = capture(function, X, {"y": X}, 2.0)
    found = graph(X.tolist(), {"y": Tensor(X)}, 2.0)
    same(found["a"], Tensor(X.astype("float64") * 2))
    assert found["b"][1:] == (None, "text")
    with pytest.raises(CaptureError, match=r"leaves at \['0', '1.y', '2'\], got \['0', '1.z', '2'\]"):
        graph(X, {"z": X}, 2.0)
    with pytest.raises(CaptureError, match=r"argument 2 was 2.0 .* and is 3.0 now.*capture it again"):
        graph(X, {"y": X}, 3.0)


def test_misfits_are_named():
    graph = capture(network(), X)
    with pytest.raises(ShapeError, match=r"x must have shape \(5, 4\), got \(4, 4\)"):
        graph(X[:4])
    with pytest.raises(DtypeError, match="x must be float32, got int64"):
        graph(np.zeros((5, 4), "int64"))
    with pytest.raises(ShapeError, match=r"0.bias must have shape \(3,\), got \(4,\)"):
        graph(X, values={"0.bias": np.ones(4)})
    with pytest.raises(StateError, match=r"the graph has no '0.biass', only \['0.weight', "):
        graph(X, values={"0.biass": np.ones(3)})
    with pytest.raises(GraphError, match="not captured from a function"):
        graph.replaced(signature=None)(X)


def test_primitives_inserted_by_passes_have_no_gradient():
    rows = np.arange(5)
    fast = optimize(capture(lambda x, i: ops.take_along_axis(x, i[:, None], 1), X, rows % 4))
    same(fast(X, rows % 4), Tensor(X[rows, rows % 4][:, None]))
    with pytest.raises(GradientError, match="has no gradient: a pass has put it into the graph"):
        fast(Tensor(X, requires_grad=True), rows % 4)


def test_side_effects_of_modules_raise():
    class Counts(nn.Module):
        def __init__(self):
            self.register_buffer("count", np.zeros(()))

        def forward(self, x):
            self.count = self.count + 1
            return x

    with pytest.raises(CaptureError, match="Counts sets its buffer 'count' in evaluation mode"):
        capture(Counts(), X)
    hooked = nn.Linear(4, 2)
    hooked.register_forward_hook(lambda *_: None)
    with pytest.raises(CaptureError, match="hook"):
        capture(hooked, X)
    with pytest.raises(StateError, match="LazyLinear"):
        capture(nn.LazyLinear(3), X)


def halved(x):
    n_steps = 0
    while float(abs(x).max()) > 0.1:
        x, n_steps = x * 0.5, n_steps + 1
    return x * n_steps


READ = {
    "mask": lambda x: x[x > 0].sum(),
    "mask of NumPy": lambda x: x[x.numpy() > 0].sum(),
    "item": lambda x: x * x.max().item(),
    "int": lambda x: x[int(x.argmax()) // 4],
    "while": halved,
    "sorted": lambda x: x[:, sorted(range(4), key=lambda i: float(x[0, i]))],
    "array": lambda x: x * np.asarray(x).mean(),
    "list": lambda x: ops.stack([row for row in x if row.sum() > 0]).sum(),
    "tolist": lambda x: x * x.sum(axis=0).tolist()[1],
    "branch": lambda x: ops.exp(x) if (x > 0).any() else -x,
    "max": lambda x: max(x[0, 0], x[0, 1]),
}


@pytest.mark.parametrize("function", READ.values(), ids=READ)
def test_values_read_by_python_raise_or_come_from_the_example(function):
    x = np.random.default_rng(0).normal(size=(5, 4)).astype("float32")
    with pytest.raises(CaptureError, match=r"test_capture.py, line \d+: `"):
        capture(function, x)
    unrolled = capture(function, x, unroll=True)
    expected = function(Tensor(x)).numpy()
    np.testing.assert_array_equal(unrolled(x).numpy(), expected)
    assert unrolled(-x).shape == expected.shape  # does what it did for the example
