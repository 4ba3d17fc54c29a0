"""`backward` with `inputs` and `retain_graph` against PyTorch's, on random graphs, in float64."""

import numpy as np
import pytest

import sknet.ops  # noqa: F401
from sknet import Tensor
from tests.combinations import every

torch = pytest.importorskip("torch", reason="needs PyTorch, a second opinion that sknet does not depend on")

UNARY = [lambda x: x * 2.0, lambda x: x * x, lambda x: x.exp() * 0.1, lambda x: x / 2.0]
BINARY = [lambda x, y: x * y, lambda x, y: x + y, lambda x, y: x - y * y]


def drawn(seed):
    """Draw the same graph for each library: leaves, intermediates, and two scalars."""
    for make in (
        lambda x: Tensor(x, requires_grad=True),
        lambda x: torch.tensor(x, requires_grad=True),
    ):
        rng = np.random.default_rng(seed)
        leaves = [make(rng.uniform(-1, 1, 3)) for _ in range(3)]
        values = list(leaves)
        for _ in range(6):
            if rng.random() < 0.5:
                values.append(UNARY[rng.integers(len(UNARY))](values[rng.integers(len(values))]))
            else:
                one, other = rng.integers(len(values), size=2)
                values.append(BINARY[rng.integers(len(BINARY))](values[one], values[other]))
        first, second = values[-1].sum(), (values[-2] * values[3]).sum()
        yield leaves, values, (first, second), rng


def walk(graph):
    """Call `backward` several times in random ways, the last time freeing the tape; return all gradients.

    Only the last call fills non-leaves: PyTorch would fill them in later calls too.
    """
    leaves, values, outputs, rng = graph
    for retain in (True, True, True, False):
        output = outputs[rng.integers(2)]
        among = leaves if retain else values
        chosen = sorted(set(rng.integers(len(among), size=rng.integers(1, 4)).tolist()))
        inputs = [among[i] for i in chosen] if rng.random() < 0.6 else None
        output.backward(retain_graph=retain, inputs=inputs)
    return [x.grad for x in values]


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@every(seed=range(60))
def test_random_graphs(seed):
    mine, theirs = (walk(graph) for graph in drawn(seed))
    assert any(x is not None for x in mine)
    for found, expected in zip(mine, theirs, strict=True):
        assert (found is None) == (expected is None)
        if found is not None:
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9, atol=1e-12)
