"""Graphs in files: loaded graphs are bitwise identical, for every primitive, without the module's class."""

import subprocess
import sys
import tracemalloc
from collections import namedtuple

import numpy as np
import pytest

import sknet
from sknet import nn, ops
from sknet.compile import capture
from sknet.compile.passes import optimize
from sknet.core import PRIMITIVES, Tensor
from sknet.exceptions import LoadError
from sknet.graphs import export
from tests.contracts.rows import ROWS
from tests.contracts.table import drawn
from tests.fuzz.files import SPARE
from tests.fuzz.layout import apart, together
from tests.onnx.runtime import arrays_of

X = np.random.default_rng(0).normal(size=(5, 4)).astype("float32")
# Primitives that no graph in a file has.
NOT_SAVED = {
    "attach_aux": "it occurs on the tape only",
    "sparse_matmul": "a sparse matrix is frozen, or a slot that belongs to a batch",
}


def through_file(x, folder, **options):
    sknet.save(x, folder / "it.safetensors")
    return sknet.load(folder / "it.safetensors", **options)


def same(found, expected):
    for a, b in zip(arrays_of(found), arrays_of(expected), strict=True):
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


@pytest.mark.slow
def test_every_primitive_computes_the_same_from_a_file(tmp_path):
    seen = set()
    cases = [drawn(row, case, "float32") for row in ROWS if row.op != "sparse_matmul" for case in row.cases]
    graphs = [capture(function, *arrays) for function, arrays in cases]
    loaded = through_file(graphs, tmp_path)
    for graph, other, (function, arrays) in zip(graphs, loaded, cases, strict=True):
        seen |= {equation.primitive.name for equation in other.equations}
        assert str(other) == str(graph)
        same(other(*arrays), function(*map(Tensor, arrays)))
    assert seen == set(PRIMITIVES) - NOT_SAVED.keys()


def test_unsupported_objects_are_named(tmp_path):
    fast = optimize(capture(lambda x, i: ops.take_along_axis(x, i, 1), X, np.zeros((5, 1), int)))
    with pytest.raises(TypeError, match=r"its operation \w+ is one that a pass has put there"):
        sknet.save(fast, tmp_path / "x")
    slot = ops.SparseSlot((5, 4), "float32")
    with pytest.raises(TypeError, match=r"SparseSlot cannot be stored in a file"):
        sknet.save(capture(lambda y: ops.matmul(slot, y), X.T), tmp_path / "x")
    with pytest.raises(TypeError, match=r"<lambda>.*, which has no name that a file could store"):
        sknet.save(capture(lambda x: (x, lambda: 0), X), tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_save_is_a_method_too(tmp_path):
    graph = capture(nn.Linear(4, 2), X)
    graph.save(tmp_path / "graph")
    same(sknet.load(tmp_path / "graph")(X), graph(X))
    exported = nn.Linear(4, 2).export(X)
    exported.save(tmp_path / "module")
    same(sknet.load(tmp_path / "module")(X[:3]), exported(X[:3]))


Pair = namedtuple("Pair", "first second")


def test_trees_of_arguments_and_results(tmp_path):
    def function(x, options, scale):
        return {"a": Pair(x * scale, [x + options["y"], None]), 3: ("text", x)}

    args = (X, {"y": X, "unused": (X,)}, 2.0)
    found = through_file(capture(function, *args), tmp_path, trusted=[Pair])(*args)
    assert type(found["a"]) is Pair
    assert found["a"].second[1] is None
    assert found[3][0] == "text"
    same(found, function(*[Tensor(X), {"y": X}, 2.0]))
    with pytest.raises(LoadError, match=r"Pair, which is not part of sknet: load\(path, trusted=\[Pair\]\)"):
        sknet.load(tmp_path / "it.safetensors")


def test_repeated_constants_take_no_space(tmp_path):
    network = lambda x: x * np.ones((5, 4, 1000)).sum(-1)[..., None] + np.zeros((5, 4, 100_000))  # noqa: E731
    graph = capture(network, X[..., None])
    found = through_file(graph, tmp_path)
    assert (tmp_path / "it.safetensors").stat().st_size < 4096
    [value] = [value for value in found.constants.values() if value.ndim == 3 and value.shape[-1] > 1]
    assert not any(value.strides)


def changed(path, **parts):
    """Write the file of a graph again, with other constants, inputs, lines, ..."""
    header, document, arrays = apart(path.read_bytes())
    [(_, described)] = [x for x in document["objects"] if "symbolic" in x[1]["dict"]]
    symbolic = described["dict"]["symbolic"]["dict"]
    for name, change in parts.items():
        symbolic[name] = change(symbolic[name])
    path.write_bytes(together(header, document, arrays))


def with_param(value):
    def change(lines):
        [[name, operands, params], *rest] = lines
        return [[name, operands, {"dict": dict.fromkeys(params["dict"], value)}], *rest]

    return change


LARGE = {
    "a shape without end": (
        ops.reshape,
        (X, (4, 5)),
        {"lines": with_param({"range": [0, 2**70, 1]})},
        "has more than 1048576 numbers",
    ),
    "a huge result": (
        ops.broadcast_to,
        (X, (3, 5, 4)),
        {"lines": with_param({"tuple": [2**40, 5, 4]})},
        r"it has a value float32\[1099511627776,5,4\], which is larger than any memory",
    ),
    "a huge input": (
        lambda x: x[[0, 2]],
        (X,),
        {"inputs": lambda given: [[[2**30, 2**30], *given[0][1:]]]},
        r"it has a value float32\[1073741824,1073741824\], which is larger than any memory",
    ),
    "an object as a parameter": (
        ops.reshape,
        (X, (4, 5)),
        {"lines": with_param({"class": "sknet.nn.Linear"})},
        "type is no kind of parameter",
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_graphs_that_would_fill_the_memory_are_rejected(name, tmp_path):
    function, (x, *options), parts, message = LARGE[name]
    capture(lambda x: function(x, *options), x).save(tmp_path / "it")
    changed(tmp_path / "it", **parts)
    tracemalloc.start()
    with pytest.raises(LoadError, match=message):
        sknet.load(tmp_path / "it")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < SPARE


def test_a_graph_for_one_number_of_rows_counts_none(tmp_path):
    exported = export(lambda x: x[:, 0] + np.arange(x.shape[0], dtype="float32"), X)
    sknet.save([exported, capture(ops.tanh, X)], tmp_path / "it")
    header, document, arrays = apart((tmp_path / "it").read_bytes())
    states = [x[1]["dict"] for x in document["objects"] if "dict" in x[1]]
    counted, graph = [state for state in states if "symbolic" in state]
    graph["symbolic"] = counted["symbolic"]
    (tmp_path / "it").write_bytes(together(header, document, arrays))
    with pytest.raises(LoadError, match="a graph for one number of rows has lengths that depend on it"):
        sknet.load(tmp_path / "it")


SCRIPT = """
import sys
import numpy as np
import sknet

exported = sknet.load(sys.argv[1])
X = np.load(sys.argv[2])
assert type(exported).__module__ == "sknet.graphs._export"
np.save(sys.argv[3], exported(X).numpy())
values = dict(exported.named_parameters())
gradient = sknet.grad(lambda values: sknet.nn.functional_call(exported, values, X)[0].sum())(values)
np.savez(sys.argv[4], **{path: g.numpy() for path, g in gradient.items()})
"""


@pytest.mark.slow
def test_a_fresh_process_needs_no_class(tmp_path):
    class Mine(nn.Module):
        def __init__(self):
            self.body = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm(8), nn.GELU())
            self.head = nn.Linear(8, 2)

        def forward(self, x):
            return ops.softmax(self.head(self.body(x)) * x.shape[0], axis=-1).cumulative_sum(0)

    module = Mine().initialize(0)
    module(X)
    module.eval()
    module.export(X[:2]).save(tmp_path / "it")
    np.save(tmp_path / "X.npy", X)
    files = [str(tmp_path / name) for name in ("it", "X.npy", "Y.npy", "gradient.npz")]
    subprocess.run([sys.executable, "-c", SCRIPT, *files], check=True)
    np.testing.assert_array_equal(np.load(files[2]), module(X).numpy())
    values = dict(module.named_parameters())
    expected = sknet.grad(lambda v: nn.functional_call(module, v, X, training=False)[0].sum())(values)
    found = np.load(files[3])
    for path in values:
        np.testing.assert_array_equal(found[path], expected[path].numpy())
