"""Second gradients of linear algebra and distances against PyTorch's, in float64."""

import numpy as np
import pytest

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
