"""Values and gradients of every op against PyTorch's, in float64."""

import numpy as np
import pytest

from tests.contracts.checks import value_and_gradients
from tests.contracts.rows import ROWS, every_case

torch = pytest.importorskip("torch", reason="needs PyTorch, a second opinion that sknet does not depend on")


def test_exceptions_have_a_reason():
    assert {row.op: row.torch for row in ROWS if not callable(row.torch)} == {
        "astype": "a cast",
        "channel_norm_gradient": "the gradient of channel_norm, compared there",
        "conv_weight": "the gradient of conv2d, compared there",
        "dropout": "a stream of its own",
        "dropout_mask": "a stream of its own",
        "uniform_draws": "a stream of its own",
        "gelu_tanh_gradient": "the gradient of gelu_tanh, compared there",
        "layer_norm_gradient": "the gradient of layer_norm, compared there",
        "paired_matmul": "no counterpart",
        "put": "the adjoint of take, compared there",
        "max_pool_put": "the gradient of max_pool2d, compared there",
        "max_pool_take": "the second gradient of max_pool2d",
        "put_along_axis": "the adjoint of take_along_axis, compared there",
        "recurrence": "the recurrent networks, compared there",
        "recurrence_gradient": "the gradient of the recurrent networks, compared there",
        "recurrence_outputs": "what the recurrent networks give without gradients, compared there",
        "recurrence_tape": "what the recurrent networks keep, compared there",
        "scatter_add": "the adjoint of indexing, compared there",
        "sum_pool": "avg_pool2d without its divisor, compared there",
        "sum_pool_spread": "the gradient of avg_pool2d, compared there",
    }


def as_torch(x):
    if isinstance(x, tuple):
        return tuple(map(as_torch, x))
    return torch.tensor(x, requires_grad=x.dtype.kind == "f") if isinstance(x, np.ndarray) else x


@pytest.mark.filterwarnings(r"ignore:var\(\)")  # PyTorch's, of no rows at all
@every_case(lambda row, case: callable(row.torch))
def test_values_and_gradients(row, case):
    operands = case.draw()
    theirs = [as_torch(x) if isinstance(x, np.ndarray) else torch.tensor(x) for x in operands]
    expected = row.torch(*theirs, **{name: as_torch(value) for name, value in case.params.items()})
    value, found = value_and_gradients(row, operands, case.params)
    np.testing.assert_allclose(value, expected.detach().numpy(), rtol=1e-9, atol=1e-12)
    if not found:
        return
    weights = np.random.default_rng(1).uniform(0.5, 1.5, value.shape)
    (expected * torch.tensor(weights)).sum().backward()
    leaves = [x for x in theirs if x.requires_grad]
    for mine, leaf in zip(found, leaves, strict=True):
        their = np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.numpy()
        np.testing.assert_allclose(mine, their, rtol=1e-9, atol=1e-12)
