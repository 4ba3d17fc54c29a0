"""Invalid notation, axes that do not fit, the order of contraction, and the operations used."""

import numpy as np
import pytest

from sknet import Tensor, ops
from sknet.compile import capture
from sknet.exceptions import ShapeError

x, y = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize(
    ("subscripts", "operands", "error", "message"),
    [
        ("ij,jk->ik", [x], ValueError, "einsum: 'ij,jk->ik' is for 2 operands, got 1"),
        ("i1->i", [x], ValueError, r"einsum: cannot read 'i1' in 'i1->i': expected letters and one '\.\.\.'"),
        ("i..j", [x], ValueError, r"einsum: cannot read 'i\.\.j'"),
        ("...i...", [x], ValueError, r"einsum: cannot read '\.\.\.i\.\.\.'"),
        ("ij->i->j", [x], ValueError, "einsum: cannot read 'i->j'"),
        ("ij->ii", [x], ValueError, "einsum: 'i' after '->' in 'ij->ii' must occur there once"),
        ("ij->k", [x], ValueError, "einsum: 'k' after '->' in 'ij->k' must occur there once, and before"),
        ("i,j->ij", [x, y], ShapeError, "einsum: 'i' in 'i,j->ij' does not fit an operand with 2 axes"),
        ("ijk", [x], ShapeError, "einsum: 'ijk' in 'ijk' does not fit an operand with 2 axes"),
        (
            "...ijk",
            [x],
            ShapeError,
            r"einsum: '\.\.\.ijk' in '\.\.\.ijk' does not fit an operand with 2 axes",
        ),
        (
            "ij,ij->ij",
            [x, y],
            ShapeError,
            r"einsum: 'i' in 'ij,ij->ij' has the lengths 2 and 3, got shapes \[\(2, 3\), \(3, 4\)\]",
        ),
        ("ii", [x], ShapeError, r"einsum: 'i' names axes of different lengths of shape \(2, 3\)"),
    ],
)
def test_refused(subscripts, operands, error, message):
    with pytest.raises(error, match=message):
        ops.einsum(subscripts, *operands)


def primitives(function, *shapes):
    return [e.primitive.name for e in capture(function, *[np.ones(shape) for shape in shapes]).equations]


def test_a_matrix_product_is_one():
    assert primitives(lambda x, y: ops.einsum("ij,jk->ik", x, y), (2, 3), (3, 4)).count("matmul") == 1
    attention = primitives(lambda q, k: ops.einsum("bhqd,bhkd->bhqk", q, k), (2, 2, 3, 4), (2, 2, 5, 4))
    assert [name for name in attention if name not in ("permute_dims", "reshape")] == ["matmul"]


def test_small_products_come_first():
    """A chain with a vector at its end: no product of two matrices."""
    graph = capture(
        lambda a, b, c: ops.einsum("ij,jk,k->i", a, b, c), np.ones((50, 60)), np.ones((60, 70)), np.ones(70)
    )
    assert max(e.output.size for e in graph.equations if e.primitive.name == "matmul") == 60


def test_integers_and_precision():
    assert ops.einsum("ij,j", [[1, 2]], [3, 4]).numpy().tolist() == [11]
    assert ops.einsum("ij,j", x.astype("float32"), np.ones(3, "float32")).dtype == "float32"


def test_tensors_of_a_device(fake_device):
    out = ops.einsum("ij,jk,kl->il", *[Tensor(v, device=fake_device) for v in (x, y, y.T)])
    assert out.device == fake_device
    np.testing.assert_allclose(out.numpy(), x @ y @ y.T)


def test_many_random_expressions():
    rng = np.random.default_rng(0)
    lengths = dict(zip("abcdef", (2, 3, 1, 4, 2, 3), strict=True))
    for _ in range(200):
        terms = ["".join(rng.choice(list("abcdef"), rng.integers(0, 4))) for _ in range(rng.integers(1, 5))]
        every = sorted(set("".join(terms)))
        output = "".join(rng.permutation(every)[: rng.integers(0, len(every) + 1)])
        operands = [rng.standard_normal([lengths[label] for label in term]) for term in terms]
        subscripts = f"{','.join(terms)}->{output}"
        expected = np.einsum(subscripts, *operands)
        np.testing.assert_allclose(
            ops.einsum(subscripts, *operands).numpy(), expected, rtol=1e-10, atol=1e-10
        )


class TestRelatives:
    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: ops.outer(x, y), r"outer: expected two vectors, got shapes \(2, 3\) and \(3, 4\)"),
            (
                lambda: ops.vecdot(x, y),
                r"vecdot: shapes \(2, 3\) and \(3, 4\) do not have an axis -1 of one length",
            ),
            (lambda: ops.vecdot(x, x, 0), "vecdot: .* axis 0 of one length: .* as a negative number"),
            (
                lambda: ops.tensordot(x, y, 2),
                r"tensordot: axes \(-2, -1\) of shape \(2, 3\) and \(-2, -1\) of",
            ),
            (lambda: ops.tensordot(x, y, 3), "tensordot: axis -3 does not exist in an array with 2 axes"),
            (lambda: ops.tensordot(x, y, ((1,), (0, 1))), "tensordot: .* differ in length"),
            (lambda: ops.diagonal([1.0]), r"diagonal: expected at least 2 axes, got shape \(1,\)"),
            (lambda: ops.trace([1.0]), r"diagonal: expected at least 2 axes, got shape \(1,\)"),
        ],
    )
    def test_refused(self, call, message):
        with pytest.raises(ShapeError, match=message):
            call()

    @pytest.mark.parametrize("offset", range(-4, 6))
    @pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4)])
    def test_every_diagonal(self, shape, offset):
        z = np.arange(float(np.prod(shape))).reshape(shape)
        np.testing.assert_array_equal(ops.diagonal(z, offset).numpy(), np.diagonal(z, offset))
