"""Products whose operands no strided product reads are given copies; all others read what there is."""

import numpy as np
import pytest

from sknet import ops
from sknet.compile import compile
from sknet.device import form_of
from tests.compile.executors.device.test_executor import off, on
from tests.trees import leaves

RNG = np.random.default_rng(0)
HEADS = RNG.normal(size=(5, 7, 3, 2, 4))  # samples, positions, one of three, heads, elements
X, Y = RNG.normal(size=(3, 2, 4, 5)), RNG.normal(size=(3, 2, 5, 6))


def attention(x):
    q, k, v = (ops.permute_dims(x[:, :, i], (0, 2, 1, 3)) for i in range(3))
    return ops.softmax(q @ ops.permute_dims(k, (0, 1, 3, 2))) @ v


def swapped(x):
    return ops.permute_dims(x, (1, 0, 2, 3))


def transposed(x):
    return ops.permute_dims(x, (0, 1, 3, 2))


CASES = {
    "attention": (attention, (HEADS,), 3),
    "the first": (lambda x, y: swapped(x) @ y, (X.swapaxes(0, 1).copy(), Y), 1),
    "the second": (lambda x, y: x @ swapped(y), (X, Y.swapaxes(0, 1).copy()), 1),
    "both, each once": (
        lambda x, y: (swapped(x) @ swapped(y), swapped(x) @ swapped(2 * y)),
        (X.swapaxes(0, 1).copy(), Y.swapaxes(0, 1).copy()),
        None,
    ),
    "nothing": (lambda x, y: (x @ y, transposed(y) @ transposed(x)), (X, Y), 0),
    "integers": (lambda x, y: ops.astype(swapped(x), "int64") @ ops.astype(swapped(y), "int32"),
                 (X.swapaxes(0, 1).copy(), Y.swapaxes(0, 1).copy()), 0),
    "broadcast": (lambda x, y: x @ y, (X[:, :1], Y[:1]), 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_products(name, fake_device):
    function, args, count = CASES[name]
    expected, found = compile(function, args)(*args), compile(function, on(fake_device, args))
    equations, views = found.plan.equations, found.plan.views
    copies = [e for e in equations if e.primitive.name == "copy"]
    assert count is None or len(copies) == count
    assert len({e.operands[0] for e in copies}) == len(copies)
    if copies:
        for e in equations:
            if e.primitive.name == "matmul":
                assert form_of(*map(views.ghost, (*e.variables, e.output)))
    for mine, theirs in zip(leaves(off(found(*on(fake_device, args)))), leaves(expected), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)
