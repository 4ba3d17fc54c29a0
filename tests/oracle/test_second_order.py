"""Second gradients of linear algebra and distances against PyTorch's, in float64."""

import numpy as np
import pytest

from sknet import ops
from sknet.core import Tensor, gradients
from tests.contracts import rows_distance, rows_linalg
from tests.contracts.rows import name

torch = pytest.importorskip("torch", reason="needs PyTorch, a second opinion that sknet does not depend on")

NOT_THERE = {"cdist"}  # PyTorch's own has no second gradient
CONSTANT = ({"n": 0}, {"ord": 0, "axis": 0})  # powers and norms without a gradient
CASES = [
    pytest.param(row, case, id=name(row, case))
    for row in [*rows_linalg.ROWS, *rows_distance.ROWS]
    for case in row.cases
    if row.order == 2 and row.op not in NOT_THERE and case.params not in CONSTANT
    if all(x.size for x in case.draw() if isinstance(x, np.ndarray))
]


def weights(shape, seed):
    return np.random.default_rng(seed).uniform(0.5, 1.5, shape)


@pytest.mark.parametrize(("row", "case"), CASES)
def test_gradient_of_a_gradient(row, case):
    operands = case.draw()
    mine = [Tensor(x, requires_grad=True) if isinstance(x, np.ndarray) else x for x in operands]
    theirs = [torch.tensor(x, requires_grad=isinstance(x, np.ndarray)) for x in operands]
    leaves = [x for x in mine if isinstance(x, Tensor)]
    torch_leaves = [x for x in theirs if x.requires_grad]

    out = row(*mine, **case.params)
    first = gradients((out * out * Tensor(weights(out.shape, 1))).sum(), leaves, create_graph=True)
    parts = [(g * Tensor(weights(g.shape, i))).sum() for i, g in enumerate(first, 2)]
    found = gradients(sum(parts[1:], start=parts[0]), leaves)

    params = {key: torch.tensor(x) if isinstance(x, np.ndarray) else x for key, x in case.params.items()}
    out = row.torch(*theirs, **params)
    scalar = (out * out * torch.tensor(weights(out.shape, 1))).sum()
    first = torch.autograd.grad(scalar, torch_leaves, create_graph=True)
    total = sum((g * torch.tensor(weights(g.shape, i))).sum() for i, g in enumerate(first, 2))
    expected = torch.autograd.grad(total, torch_leaves, allow_unused=True)
    for x, g, other in zip(leaves, found, expected, strict=True):
        other = np.zeros(x.shape) if other is None else other.numpy()
        np.testing.assert_allclose(g.numpy(), other, rtol=1e-8, atol=1e-9)


BINARY = ["add", "atan2", "copysign", "divide", "hypot", "logaddexp", "maximum", "minimum", "multiply", "pow",
          "remainder", "subtract", "xlogy"]  # fmt: skip
# No real number is the limit there: around a negative base x ** y is real for integers y alone, around x = 0
# x * log(y) is not real for a negative y. PyTorch counts the function's own value there as a constant.
UNDEFINED = {"pow": lambda x, y: (x < 0) & (y == 0), "xlogy": lambda x, y: (x == 0) & (y < 0)}


def first_and_second(take, total, x, y):
    first = take(total, (x, y))
    rest = [take(g.sum(), (x, y)) for g in first]
    return [*first, *rest[0], *rest[1]]


def of_sknet(function, x, y):
    leaves = Tensor(x, requires_grad=True), Tensor(y, requires_grad=True)

    def take(total, operands):
        if not total.requires_grad:
            return [Tensor(np.zeros_like(x))] * 2
        return gradients(total, operands, create_graph=True)

    return [g.numpy() for g in first_and_second(take, function(*leaves).sum(), *leaves)]


def of_torch(function, x, y):
    leaves = torch.tensor(x, requires_grad=True), torch.tensor(y, requires_grad=True)

    def take(total, operands):
        if not total.requires_grad:
            return [torch.zeros_like(g) for g in operands]
        found = torch.autograd.grad(total, operands, create_graph=True, allow_unused=True)
        return [torch.zeros_like(x) if g is None else g for x, g in zip(operands, found, strict=True)]

    return [g.detach().numpy() for g in first_and_second(take, function(*leaves).sum(), *leaves)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", BINARY)
def test_edges_of_functions_of_two_operands(name, dtype):
    limits = np.finfo(dtype)
    small = [float(x) for x in (limits.tiny, limits.tiny / 4, limits.smallest_subnormal, limits.tiny**0.5)]
    large = [float(limits.max) / 2, float(limits.max) ** 0.5 * 2]
    values = [0.0, -0.0, 0.5, 1.0, 2.0, 3.0, 40.0, 1e3, *small, *large]
    values = np.array([*values, *(-v for v in values if v)], dtype)
    x, y = (grid.ravel() for grid in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        found = of_sknet(getattr(ops, name), x, y)
    for mine, theirs in zip(found, of_torch(getattr(torch, name), x, y), strict=True):
        worse = np.isnan(mine) & np.isfinite(theirs) & ~UNDEFINED.get(name, lambda x, y: False)(x, y)
        assert not worse.any(), list(zip(x[worse], y[worse], theirs[worse], strict=True))
