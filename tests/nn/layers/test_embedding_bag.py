"""Bags of embeddings, against PyTorch."""

import numpy as np
import pytest

from sknet import Tensor, nn
from sknet.compile import compile
from sknet.exceptions import DtypeError, ShapeError
from tests.combinations import every

torch = pytest.importorskip("torch", reason="needs PyTorch, a second opinion that sknet does not depend on")

RNG = np.random.default_rng(0)
ROWS = np.array([[1, 2, 2], [3, 3, 3], [5, 3, 0]])
FLAT = np.array([4, 1, 1, 3, 0, 5, 3])
OFFSETS = [[0], [0, 3], [0, 2, 2, 5], [0, 0, 7], [0, 7]]


def pair(mode, padding_idx=None):
    mine = nn.EmbeddingBag(6, 4, mode, padding_idx).to(dtype="float64").initialize(0)
    theirs = torch.nn.EmbeddingBag(6, 4, mode=mode, padding_idx=padding_idx).double()
    with torch.no_grad():
        theirs.weight.copy_(torch.tensor(mine.weight.numpy()))
    return mine, theirs


def assert_same(mine, theirs, args):
    weights = RNG.normal(size=(len(args[1]) if len(args) > 1 and args[1] is not None else len(args[0]), 4))
    given = [None if x is None else torch.tensor(x) for x in args]
    found, expected = mine(*args), theirs(*given)
    np.testing.assert_allclose(found.numpy(), expected.detach().numpy(), rtol=1e-12)
    mine.zero_grad()
    (found * weights).sum().backward()
    (expected * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(mine.weight.grad.numpy(), theirs.weight.grad.numpy(), rtol=1e-12)


@pytest.mark.parametrize("padding_idx", [None, 3, 0])
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_rows(mode, padding_idx):
    assert_same(*pair(mode, padding_idx), (ROWS,))
    if mode == "sum":
        assert_same(*pair(mode, padding_idx), (ROWS, None, RNG.normal(size=ROWS.shape)))


@pytest.mark.parametrize("padding_idx", [None, 3, 0])
def test_largest_of_rows(padding_idx):
    rows = np.array(
        [[1, 2, 4], [3, 5, 0], [3, 0, 5]]
    )  # no vector twice, since equal ones share the gradient here
    assert_same(*pair("max", padding_idx), (rows,))


@pytest.mark.parametrize("offsets", OFFSETS, ids=str)
@every(padding_idx=[None, 3], mode=["sum", "mean", "max"])
def test_offsets(offsets, mode, padding_idx):
    flat = np.array([4, 1, 2, 3, 0, 5, 3]) if mode != "max" else np.array([4, 1, 2, 3, 0, 5])
    offsets = np.minimum(offsets, len(flat))
    assert_same(*pair(mode, padding_idx), (flat, offsets))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_offsets_are_no_part_of_a_compiled_function(mode):
    mine, theirs = pair(mode)
    weight = mine.weight.numpy()

    def function(weight, x, offsets):
        return nn.functional_call(mine, {"weight": weight}, (x, offsets))[0]

    compiled = compile(function, (weight, FLAT, np.array([0, 1])))
    expected = theirs(torch.tensor(FLAT), torch.tensor([0, 4])).detach().numpy()
    np.testing.assert_allclose(compiled(weight, FLAT, np.array([0, 4])), expected, rtol=1e-12)


def test_empty_bags():
    for mode in ("sum", "mean", "max"):
        np.testing.assert_array_equal(
            nn.EmbeddingBag(3, 2, mode)(np.zeros((4, 0), int)).numpy(), np.zeros((4, 2))
        )


@pytest.mark.parametrize(
    ("mode", "args", "error", "message"),
    [
        (
            "sum",
            ([1, 2],),
            ShapeError,
            r"integers of shape \(n, length\), or \(total,\) and offsets",
        ),
        ("sum", ([[1, 2]], [0]), ShapeError, r"got shape \(1, 2\) and offsets"),
        ("mean", ([[1, 2]], None, [[1.0, 2.0]]), ValueError, "weights are for mode='sum'"),
        ("sum", ([[1, 2]], None, [1.0, 2.0]), ShapeError, r"expected weights of shape \(1, 2\), got \(2,\)"),
        ("sum", ([[0.5]],), DtypeError, "expected integers, got float64"),
    ],
)
def test_misfits(mode, args, error, message):
    with pytest.raises(error, match=message):
        nn.EmbeddingBag(3, 2, mode)(*args)
    with pytest.raises(ValueError, match="'mode' parameter of EmbeddingBag must be a str among"):
        nn.EmbeddingBag(3, 2, "median")
    assert isinstance(nn.EmbeddingBag(3, 2)([[1]]), Tensor)
