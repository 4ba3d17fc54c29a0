"""A step allocates no arrays: outputs and scratch memory belong to the plan."""

import tracemalloc

import numpy as np
import pytest

from sknet import nn, ops
from sknet.compile import compile
from sknet.core import gradients
from tests.combinations import every

ROWS = np.random.default_rng(0).standard_normal((2000, 50))
TABLE = np.random.default_rng(1).standard_normal((3000, 50))
INDICES = np.random.default_rng(2).integers(3000, size=200)
EACH = np.random.default_rng(3).integers(0, 50, (2000, 3))
FIXED = np.arange(0, 2000, 3)
BUFFER = ROWS.nbytes // 4  # NumPy has buffers of 8192 elements, one for each strided operand

FUNCTIONS = {
    "softmax": lambda x: ops.softmax(x),
    "log_softmax": lambda x: ops.log_softmax(x),
    "logsumexp": lambda x: ops.logsumexp(x),
    "logsumexp of columns": lambda x: ops.logsumexp(x, 0, keepdims=True),
    "sum_squares": lambda x: ops.sum_squares(x, x),
    "take_along_axis": lambda x: ops.take_along_axis(x, EACH),
    "rows": lambda x: x[FIXED],
    "pairs": lambda x: x[FIXED, FIXED % 50],
    "slices": lambda x: x[::2, 1:],
    "columns": lambda x: ops.take(x, FIXED % 50, 1),
    "padding": lambda x: ops.pad(x, ((2, 1), (3, 0))),
    "mirrored": lambda x: ops.pad(x, ((0, 0), (3, 3)), "reflect"),
    "sort": lambda x: ops.sort(x),
    "scan": lambda x: ops.cumulative_sum(x, 1),
    "product": lambda x: ops.prod(x, 1),
    "places": lambda x: ops.argmax(x, 1),
    "sides": lambda x: ops.concat([x, x], 1),
    "triangle": lambda x: ops.tril(x),
    "einsum": lambda x: ops.einsum("ij,ik->jk", x, x),
}
SPECIAL = {"sort": ROWS.nbytes}  # its gradient finds the order, an array of whole numbers


def peak_of(compiled, *args):
    compiled(*args)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        compiled.run()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@every(exact=[True, False], name=FUNCTIONS)
def test_forward(name, exact):
    compiled = compile(FUNCTIONS[name], (ROWS,), exact=exact)
    assert peak_of(compiled, ROWS) < BUFFER


@every(exact=[True, False], name=[name for name in FUNCTIONS if name not in ("places", "product")])
def test_backward(name, exact):
    def slope(x):
        x.requires_grad = True
        out = FUNCTIONS[name](x)
        return gradients((out * out).sum(), [x])[0]

    compiled = compile(slope, (ROWS,), exact=exact)
    assert peak_of(compiled, ROWS) < BUFFER + SPECIAL.get(name, 0)


@pytest.mark.parametrize("exact", [True, False])
def test_a_table_and_its_gradient(exact):
    def slope(table, indices):
        table.requires_grad = True
        rows = ops.embedding(indices, table)
        return rows, gradients((rows * rows).sum(), [table])[0]

    compiled = compile(slope, (TABLE, INDICES), exact=exact)
    assert peak_of(compiled, TABLE, INDICES) < BUFFER


@pytest.mark.parametrize("exact", [True, False])
def test_dropout(exact):
    def draws(x, step):
        return nn.functional_call(nn.Dropout(0.5), {}, x, key=(1, 2), step=step)[0]

    compiled = compile(draws, (ROWS, np.array(0)), exact=exact)
    assert peak_of(compiled, ROWS, np.array(3)) < BUFFER
