"""Short rows in one kernel, where lanes exchange elements: against the host, with threads in two orders."""

import numpy as np
import pytest

from sknet import ops
from sknet.autograd import value_and_grad
from sknet.compile import compile
from sknet.core import Tensor
from sknet.device import to_host
from tests.compile.executors.device.test_executor import on
from tests.compile.executors.device.test_reductions import drawn, replayed


def cross_entropy(logits, bias, classes):
    rows = ops.log_softmax(logits + bias, -1)
    return -ops.mean(ops.take_along_axis(rows, ops.reshape(classes, (-1, 1)), -1))


@pytest.mark.parametrize("n", [1, 5, 32, 300])
@pytest.mark.parametrize("k", [2, 3, 7, 16, 17, 32, 33])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-12)])
def test_cross_entropy_with_its_gradient(n, k, dtype, tolerance, fake_device):
    arrays = drawn((n, k), dtype), drawn((k,), dtype, 1), np.arange(n) * 5 % k
    function = value_and_grad(cross_entropy, (0, 1))
    found, compiled = replayed(
        lambda x, b, y: [*function(x, b, y)[1], function(x, b, y)[0]], *arrays, device=fake_device
    )
    loss, gradients = function(*map(Tensor, arrays))
    for result, expected in zip(found, [*gradients, loss], strict=True):
        np.testing.assert_allclose(result, expected.numpy(), rtol=tolerance, atol=tolerance)
    groups = [g for g in compiled.plan.groups if {"max", "sum"} <= {e.primitive.name for e in g.reductions}]
    assert len(groups) == (k <= 32)
    if groups and n > 1:  # from the bias to the gradient of the logits
        assert {"add", "exp", "log", "take_at", "subtract_at"} <= {e.primitive.name for e in groups[0].maps}


@pytest.mark.parametrize("n", [3, 8, 32])
def test_totals_of_as_many_rows_as_columns(n, fake_device):
    """A vector of totals that is added to the matrix is added to each row; that is computed later."""
    x = drawn((n, n), "float64")

    def function(x):
        totals = ops.sum(ops.exp(x), -1) * 2.0
        return x + totals, x + totals[:, None], ops.exp(x) + ops.max(ops.exp(x), -1)

    found, _ = replayed(function, x, device=fake_device)
    for result, expected in zip(found, function(Tensor(x)), strict=True):
        np.testing.assert_allclose(result, expected.numpy(), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64"])
def test_rows_of_whole_numbers(dtype, fake_device):
    x = drawn((50, 6), dtype)

    def function(x):
        most = ops.max(x, -1, keepdims=True)
        return (
            most,
            ops.equal(x, most),
            ops.any(x, -1),
            ops.sum(ops.where(ops.equal(x, most), 1, 0), -1),
            ops.min(x, -1),
        )

    found, compiled = replayed(function, x, device=fake_device)
    for result, expected in zip(found, function(Tensor(x)), strict=True):
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected.numpy())
    assert "rows0" in compiled.source


def test_an_operand_of_rows_may_be_overwritten(fake_device):
    """All lanes of a row read its element before the first of them writes there."""
    x, row = drawn((100, 5), "float64"), drawn((100, 1), "float64", 1)

    def function(x, row):
        return ops.exp(row) + ops.sum(x * row, -1, keepdims=True), ops.tanh(x * row)

    expected = [y.numpy() for y in function(Tensor(x), Tensor(row))]
    compiled = compile(function, on(fake_device, (x, row)), donate=(1,))
    for _ in range(2):
        compiled.poison()
        for result, y in zip(compiled(*on(fake_device, (x, row))), expected, strict=True):
            np.testing.assert_allclose(to_host(result), y, rtol=1e-12)


def random_rows(seed):
    """Return a function of a matrix, a row, a column and a vector, and its arguments."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.choice([1, 3, 6, 40])), int(rng.choice([2, 3, 6, 31, 40]))
    shapes = [(n, k), (k,), (n, 1), (n,)]
    arrays = [rng.normal(size=shape) for shape in shapes]
    choices = rng.integers(0, 1 << 30, 60).tolist()

    def function(*operands):
        values, rest = list(operands), iter(choices)
        while (choice := next(rest, None)) is not None:
            x, y = (values[next(rest, 0) % len(values)] for _ in range(2))
            kind = choice % 7
            if kind < 2 and x.ndim:
                total = (ops.sum, ops.max)[kind]
                values.append(ops.tanh(total(x, -1 if next(rest, 0) % 4 else 0, keepdims=bool(choice % 2))))
            elif kind == 2:
                values.append(ops.tanh(x))
            elif kind == 3 and x.ndim == 2:
                values.append(ops.exp(-ops.abs(x)))
            elif x.ndim == y.ndim or (x.ndim == 2 and y.shape == (x.shape[1],)):
                try:
                    values.append((ops.add, ops.multiply, ops.maximum)[kind % 3](x, y))
                except ValueError:
                    continue
        return [value for value in values[4:] if value.size <= n * k]

    return function, arrays


@pytest.mark.parametrize("seed", range(40))
def test_random_rows(seed, fake_device):
    function, arrays = random_rows(seed)
    expected = [x.numpy() for x in function(*map(Tensor, arrays))]
    found, _ = replayed(function, *arrays, device=fake_device)
    for result, value in zip(found, expected, strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-10, atol=1e-10)
