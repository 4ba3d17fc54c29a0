"""Calls: what runs is what is printed."""

import ast

import numpy as np
import pytest

from sknet import ops
from sknet.compile import compile

X, W, B = np.random.default_rng(0).normal(size=(3, 12, 12)).astype("float32")
LABELS = (np.arange(12) % 3).reshape(12, 1)


def loss(w, b, x):
    hidden = ops.relu(x @ w + b[0])
    chosen = ops.take_along_axis(ops.log_softmax(hidden * 0.5, axis=-1), LABELS, axis=-1)
    return ops.sum(chosen), ops.sigmoid(hidden.T), hidden * 3.0


def statements(source):
    """The setup and the step of a source, as calls of Python's syntax tree."""
    tree = ast.parse(source)
    [step] = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [node for node in tree.body if isinstance(node, ast.Assign)], step.body


@pytest.mark.parametrize("exact", [True, False])
def test_the_lines_are_the_calls(exact):
    """Every line names the function that is called, and each name stands for one array."""
    made = compile(loss, (W, B, X), exact=exact)
    made(W, B, X)
    _, lines = statements(made.source)
    calls, arrays = made.calls(), {}
    assert len(lines) == len(calls) > 8
    for line, call in zip(lines, calls, strict=True):
        given = [x for x in call.args if isinstance(x, np.ndarray)]
        is_assigned = isinstance(line, ast.Assign)  # out[...] = function(...), out[index] = value
        shown = line.value
        assert isinstance(shown, ast.Call) or is_assigned
        names = [x for x in getattr(shown, "args", [shown]) if isinstance(x, ast.Name)]
        if is_assigned:
            names.insert(0, line.targets[0].value)
        elif isinstance(shown.func, ast.Attribute):  # a method of its first argument
            assert shown.func.attr == call.function.__name__
            names.insert(0, shown.func.value)
        names = [x.id for x in names]
        if len(names) != len(given):  # functions among the arguments
            continue
        for name, array in zip(names, given, strict=True):
            where = array.ctypes.data, array.shape, array.strides, array.dtype
            assert arrays.setdefault(name, where) == where, name


def test_calls_compute_what_a_run_computes():
    made = compile(loss, (W, B, X))
    expected = [np.array(x) for x in made(W, B, X)]
    made.poison()
    for call in made.calls():
        call.run()
    for x, y in zip(made.result, expected, strict=True):
        np.testing.assert_array_equal(x, y)


def test_blocks_are_calls_on_parts_of_arrays():
    x = np.linspace(-3, 3, 1 << 19).astype("float32").reshape(-1, 8)
    made = compile(lambda x: ops.relu(ops.softplus(x) * 2.0 - 1.0), (x,))
    _, [loop] = statements(made.source)
    assert isinstance(loop, ast.For)
    calls = made.calls()
    views = [line for line in loop.body if isinstance(line, ast.Assign)]  # made once, when memory is bound
    n_blocks, rest = divmod(len(calls), len(loop.body) - len(views))
    assert rest == 0
    assert n_blocks > 1
    expected = np.maximum(np.log1p(np.exp(x.astype(float))) * 2 - 1, 0)
    np.testing.assert_allclose(made(x), expected, rtol=1e-6, atol=1e-6)
