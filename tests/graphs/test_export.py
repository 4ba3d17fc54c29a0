"""Exported modules take any number of rows, and are bitwise identical to the original module."""

import pickle

import numpy as np
import pytest

import sknet
from sknet import Tensor, nn, ops
from sknet.compile import Variable, capture
from sknet.exceptions import CaptureError, DtypeError, GraphError, ShapeError, StateError
from sknet.graphs import GraphModule, export
from tests.estimators.data import quiet
from tests.fuzz.tangles import KINDS, Tangle, written_in_place
from tests.nn.layers.test_contract import ROWS
from tests.onnx.runtime import arrays_of, run

RNG = np.random.default_rng(0)
PURE = [kind for kind in KINDS if kind is not written_in_place]
X = RNG.normal(size=(5, 4)).astype("float32")


def same(found, expected):
    for a, b in zip(arrays_of(found), arrays_of(expected), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_array_equal(a, b)


def network():
    layers = (nn.Linear(4, 3), nn.BatchNorm(3), nn.Tanh(), nn.Dropout(0.5), nn.Linear(3, 2))
    net = nn.Sequential(*layers).initialize(0)
    net(X)
    return net


def test_every_layer_takes_any_number_of_rows():
    for name, (make, shape) in ROWS.items():
        layer = make()
        layer(RNG.normal(size=(4, *shape)).astype("float32"))
        exported = layer.train().export(np.zeros((2, *shape), "float32"))
        for n_rows in (4, 1, 9):
            x = RNG.normal(size=(n_rows, *shape)).astype("float32")
            try:
                same(exported(x), layer.eval()(Tensor(x)))
            except BaseException as error:
                error.add_note(f"{name}, {n_rows} rows")
                raise


@pytest.mark.parametrize("kind", ["parameter", "buffer", "child"])
def test_names_that_the_graphs_module_has_itself(kind, tmp_path):
    names = {*dir(GraphModule), *vars(GraphModule), "symbolic", "n_rows"} - {*dir(nn.Module)}
    assert {"graph", "symbolic", "n_rows", "input_names", "save"} <= names

    class Net(nn.Module):
        def __init__(self):
            for name in sorted(names):
                if kind == "buffer":
                    self.register_buffer(name, RNG.normal(size=(4, 2)))
                else:
                    setattr(self, name, nn.Linear(4, 2) if kind == "child" else nn.Parameter(np.ones((4, 2))))

        def forward(self, x):
            values = [getattr(self, name) for name in sorted(names)]
            return sum(value(x) if kind == "child" else x @ value for value in values)

    net = Net().initialize(0)
    exported, file = net.export(X), tmp_path / "net"
    sknet.save(exported, file)
    expected = net(X)
    for found in (exported, exported.copy(), pickle.loads(pickle.dumps(exported)), sknet.load(file)):
        same(found(X), expected)
        assert found.state_dict().keys() == net.state_dict().keys()
        same(found.graph(X, values=found.graph.values), expected)
        assert repr(found) == repr(exported)


def test_an_exported_module_is_independent():
    net = network()
    exported = net.export(X)
    assert [p for p, _ in exported.named_parameters()] == [p for p, _ in net.named_parameters()]
    assert dict(exported.named_buffers()).keys() == dict(net.named_buffers()).keys()
    expected = net.eval()(X).numpy()
    net.load_state_dict({k: v + 1 for k, v in net.state_dict().items()})
    same(exported(X), Tensor(expected))
    exported.load_state_dict(net.state_dict())
    same(exported(X), net(X))
    same(exported.copy().train()(X), net(X))
    assert repr(exported) == "GraphModule(12 operations, x: float32[n,4])"
    assert str(exported.graph).startswith("graph(0.weight: float32[4,3], ")
    same(exported.graph(X), net(X))


def test_shared_and_frozen_parameters_stay_shared_and_frozen():
    class Tied(nn.Module):
        def __init__(self):
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
            self.second.weight = self.first.weight
            self.first.bias.requires_grad = False

        def forward(self, x):
            return self.second(self.first(x))

    exported = Tied().initialize(0).export(X)
    assert [path for path, _ in exported.named_parameters()] == ["first.weight", "first.bias", "second.bias"]
    assert [p.requires_grad for p in exported.parameters()] == [True, False, True]


def test_it_is_trained_as_the_module_is():
    y = X @ RNG.normal(size=(4, 2)).astype("float32")
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)).initialize(0)
    models = [sknet.Model(module, loss="squared_error", random_state=0) for module in (net.export(X), net)]
    for _ in range(4):  # the third step is compiled
        a, b = [model.step(X, y) for model in models]
        assert a.loss == b.loss
    for a, b in zip(*(model.module.parameters() for model in models), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    labels = np.arange(5) % 2
    with quiet():
        found = sknet.NetClassifier(network().export(X), max_iter=3, random_state=0).fit(X, labels)
    assert found.predict_proba(X[:3]).shape == (3, 2)


def test_random_modules():
    for seed in range(12):
        tangle = Tangle(seed, 4, 3, 8, "float32", PURE)
        tangle.initialize(seed)
        try:
            exported = tangle.export(X)
        except CaptureError as error:
            assert "number of rows" in str(error), seed  # noqa: PT017
            continue
        for n_rows in (5, 2, 30):
            x = RNG.normal(size=(n_rows, 4)).astype("float32")
            same(exported(x), tangle.eval()(Tensor(x)))


def test_several_inputs_by_position_and_name():
    class Two(nn.Module):
        def __init__(self):
            self.linear = nn.Linear(4, 2)

        def forward(self, x, factor):
            return {"y": self.linear(x) * factor, "n": x.shape[1]}

    module = Two().initialize(0)
    exported = module.export(X, X[:, :1])
    same(exported(X[:3], factor=X[:3, :1])["y"], module(X[:3], X[:3, :1])["y"])
    assert exported(X, X[:, :1])["n"] == 4
    assert exported.input_names == ["x", "factor"]
    with pytest.raises(TypeError, match=r"the graph takes \['x', 'factor'\], got 1 of them and \['z'\]"):
        exported(X, z=X)
    with pytest.raises(ShapeError, match=r"factor must have shape \(3, 1\), got \(5, 1\)"):
        exported(X[:3], X[:, :1])


def test_functions_are_exported_too():
    exported = export(lambda x, power: ops.mean(x**power, axis=0), X, 2.0)
    same(exported(X[:2], 2.0), ops.mean(Tensor(X[:2]) ** 2.0, axis=0))
    with pytest.raises(CaptureError, match=r"argument 1 was 2\.0"):
        exported(X, 3.0)


def test_misfits_are_named():
    exported = network().export(X)
    with pytest.raises(ShapeError, match=r"x must have shape \(7, 4\), got \(7, 3\)"):
        exported(np.zeros((7, 3), "float32"))
    with pytest.raises(DtypeError, match="x must be float32, got int64"):
        exported(np.zeros((7, 4), "int64"))
    with pytest.raises(ShapeError, match="x must have an axis of rows first, got a number"):
        exported(np.float32(1))
    with pytest.raises(StateError, match="LazyLinear"):
        nn.LazyLinear(3).export(X)
    with pytest.raises(GraphError, match=r"the graph needs values of \['weight', 'bias'\], got \['weight'\]"):
        GraphModule(nn.Linear(4, 2).export(X).symbolic, {"weight": nn.Parameter(X.T[:, :2])})
    values = {"weight": nn.Parameter(X.T[:, :2]), "bias": nn.Parameter(np.zeros(3, "float32"))}
    with pytest.raises(GraphError, match=r"the graph needs bias: float32\[2\], got an array float32\[3\]"):
        GraphModule(nn.Linear(4, 2).export(X).symbolic, values)


def test_what_depends_on_the_rows_is_for_the_example_alone():
    class Loops(nn.Module):
        def forward(self, x):
            total = x[0]
            for row in x[1:]:
                total = ops.tanh(total) + row
            return total

    with pytest.raises(CaptureError, match="the operations of this function depend on the number of rows"):
        Loops().export(X)
    exported = Loops().export(X, any_rows=False)
    same(exported(X), Loops()(Tensor(X)))
    with pytest.raises(ShapeError, match=r"x must have shape \(5, 4\), got \(6, 4\)"):
        exported(np.zeros((6, 4), "float32"))


def test_onnx_of_a_graph_needs_no_example(tmp_path):
    net = network()
    exported = net.export(X)
    exported.save(tmp_path / "it")
    for module in (exported, sknet.load(tmp_path / "it")):
        model = sknet.onnx.export(module)
        assert [x.name for x in model.graph.input] == ["x"]
        x = RNG.normal(size=(9, 4)).astype("float32")
        np.testing.assert_allclose(run(model, x)[0], net.eval()(x).numpy(), rtol=1e-5, atol=1e-6)
    graph = sknet.compile.capture(net.forward, X)
    [found] = run(sknet.onnx.export(graph, tmp_path / "graph.onnx"), X)
    np.testing.assert_allclose(found, net(X).numpy(), rtol=1e-5, atol=1e-6)
    fixed = sknet.onnx.export(net.export(X, any_rows=False))
    assert [d.dim_value for d in fixed.graph.input[0].type.tensor_type.shape.dim] == [5, 4]
    options = export(lambda x, o: x * o["scale"] + o["add"], X, {"scale": 2.0, "add": X})
    [found] = run(sknet.onnx.export(options), X, X)
    np.testing.assert_allclose(found, 3 * X, rtol=1e-6)


# -- values that Python reads ------------------------------------------------------------------


class Reads(nn.Module):
    """Branches, loops and numbers that depend on values."""

    def __init__(self):
        self.linear = nn.Linear(4, 4)
        self.register_buffer("n_steps", np.array(3))

    def forward(self, x):
        for _ in range(int(self.n_steps)):
            x = ops.tanh(self.linear(x))
        if x.sum() > 0:
            x = x * float(x.max())
        largest = x[0].numpy().argmax()
        return x[:, largest] + x[x.argmax(axis=0)][:, 0].sum() * x[:, [int(i) for i in x[0].argsort()]][:, 1]


def test_values_are_read_only_with_unroll():
    module = Reads().initialize(0)
    with pytest.raises(CaptureError, match=r"test_export.py, line \d+: `for _ in range\(int\(self.n_steps"):
        module.export(X)
    exported = module.export(X, unroll=True)
    same(exported(X), module(Tensor(X)))
    assert sum(line.primitive == "tanh" for line in exported.symbolic.lines) == 3
    found, expected = (dict(gradients(m)) for m in (exported, module.eval()))
    for path in expected:
        np.testing.assert_array_equal(found[path], expected[path])
    with pytest.raises(ShapeError, match=r"x must have shape \(5, 4\), got \(2, 4\)"):
        exported(X[:2])
    other = X + RNG.normal(size=X.shape).astype("float32")  # another input runs what the example ran
    assert exported(other).shape == (5,)
    with pytest.raises(CaptureError, match=r"reads the example's values, and an array of shape \(5, 4\) has"):
        capture(module, Variable((5, 4), "float32"), unroll=True)


def gradients(module):
    module.zero_grad()
    module(Tensor(X)).sum().backward()
    return [(path, parameter.grad.numpy()) for path, parameter in module.named_parameters()]


def test_the_line_that_depends_on_the_rows_is_named():
    class Recurs(nn.Module):
        def forward(self, x):
            total = ops.exp(x[0])
            for row in x:
                total = total + ops.sin(row)
            return total

    class Shifts(nn.Module):
        def forward(self, x):
            return ops.pad(ops.tanh(x), ((0, 0), (0, x.shape[0] ** 2)))

    with pytest.raises(CaptureError, match=r"there are more.*test_export.py, line \d+: `for row in x:`"):
        Recurs().export(X)
    with pytest.raises(CaptureError, match=r"pad differs.*test_export.py, line \d+: `return ops.pad"):
        Shifts().export(X)
