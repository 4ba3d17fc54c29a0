"""Products: vectors, operators, mixed dtypes, and a sparse first factor."""

import numpy as np
import pytest
import scipy.sparse

from sknet import Tensor, grad, ops
from sknet.autograd import gradcheck
from sknet.device import Device, MetaArray, to_device
from sknet.exceptions import DeviceError, DtypeError, ShapeError


@pytest.fixture
def matrix():
    return scipy.sparse.random_array((5, 4), density=0.5, rng=np.random.default_rng(0), format="csr")


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (
            (2, 3),
            (2, 3),
            r"matmul: shapes \(2, 3\) and \(2, 3\) do not fit: .* the last but one of the second 2",
        ),
        (
            (3,),
            (4,),
            r"matmul: shapes \(3,\) and \(4,\) do not fit: .* 3 elements, the only axis of",
        ),
        ((), (3,), r"matmul: expected operands with at least 1 axis, got shapes \(\) and \(3,\)"),
        ((2, 1, 3), (3, 3, 1), r"matmul: shapes \(2,\) and \(3,\) do not broadcast together"),
    ],
)
def test_refused(x, y, message):
    for operands in ((np.ones(x), np.ones(y)), (MetaArray(x, float), MetaArray(y, float))):
        with pytest.raises(ShapeError, match=message):
            ops.matmul(*operands)
        with pytest.raises(ShapeError, match=message):
            Tensor(operands[0]) @ operands[1]


def test_a_number_is_not_a_factor():
    with pytest.raises(
        ShapeError, match=r"matmul: expected operands with at least 1 axis, got shapes \(2,\) and \(\)"
    ):
        Tensor([1.0, 2.0]) @ 2.0
    with pytest.raises(ShapeError, match="matmul: expected operands with at least 1 axis"):
        2.0 @ Tensor([1.0, 2.0])


@pytest.mark.parametrize(
    "shapes", [((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((4, 2, 3), (3,)), ((3,), (4, 3, 2))]
)
def test_the_operator_has_gradients_of_vectors(shapes):
    rng = np.random.default_rng(0)
    assert gradcheck(lambda x, y: x @ y, [rng.standard_normal(shape) for shape in shapes])


def test_arrays_on_either_side():
    x = np.arange(6.0).reshape(2, 3)
    assert isinstance(x @ Tensor(x.T), Tensor)
    np.testing.assert_array_equal((x @ Tensor(x.T)).numpy(), x @ x.T)
    np.testing.assert_array_equal((Tensor(x) @ x.T).numpy(), x @ x.T)


def test_mixed_dtypes():
    x, y = np.ones((2, 3), "float32"), np.ones((3, 2))
    first, second = grad(lambda a, b: (a @ b).sum(), argnums=(0, 1))(Tensor(x), Tensor(y))
    assert (ops.matmul(x, y).dtype, first.dtype, second.dtype) == ("float64", "float32", "float64")


class TestSparse:
    @pytest.mark.parametrize("form", ["csr_array", "csr_matrix", "csc_array", "coo_array"])
    def test_agrees_with_the_dense_product(self, matrix, form):
        weight = np.random.default_rng(0).standard_normal((4, 3))
        sparse = getattr(scipy.sparse, form)(matrix)
        value = ops.matmul(sparse, weight)
        np.testing.assert_allclose(value.numpy(), matrix.toarray() @ weight)
        slope = grad(lambda w: (ops.matmul(sparse, w) ** 2).sum())
        dense = grad(lambda w: (ops.matmul(matrix.toarray(), w) ** 2).sum())
        np.testing.assert_allclose(slope(Tensor(weight)).numpy(), dense(Tensor(weight)).numpy())
        assert gradcheck(lambda w: ops.matmul(sparse, w), [weight])

    def test_is_never_made_dense(self):
        n = 10**6  # n * n numbers would not fit anywhere
        matrix = scipy.sparse.csr_array(([3.0], ([n - 1], [1])), shape=(n, n))
        slope = grad(lambda x: ops.matmul(matrix, x).sum())(Tensor(np.ones(n)))
        assert ops.matmul(matrix, np.ones(n)).numpy()[-1] == 3.0
        assert slope.numpy()[1] == slope.numpy().sum() == 3.0

    def test_is_recognised(self, matrix):
        assert ops.is_sparse(matrix)
        assert ops.is_sparse(matrix.tocoo())
        for dense in (matrix.toarray(), Tensor([1.0]), [1.0], 1.0, "x", None):
            assert not ops.is_sparse(dense)

    def test_dtypes_have_to_agree(self, matrix):
        message = "matmul: a sparse matrix of float64 does not fit an operand of float32: convert one of them"
        with pytest.raises(DtypeError, match=message):
            ops.matmul(matrix, np.ones((4, 2), "float32"))

    def test_shapes_have_to_fit(self, matrix):
        message = (
            r"matmul: a sparse matrix of shape \(5, 4\) does not fit an operand of shape {}: expected \(4,\)"
        )
        with pytest.raises(ShapeError, match=message.format(r"\(5, 2\)")):
            ops.matmul(matrix, np.ones((5, 2)))
        with pytest.raises(ShapeError, match=message.format(r"\(4, 2, 2\)")):
            ops.matmul(matrix, np.ones((4, 2, 2)))

    def test_devices_have_to_agree(self, matrix, fake_device):
        weight = Tensor(np.ones((4, 2)), device=fake_device)
        with pytest.raises(
            DeviceError, match="a sparse matrix on device 'cpu' does not fit an operand on 'fake:0': move"
        ):
            ops.matmul(matrix, weight)
        assert ops.matmul(to_device(matrix, fake_device), weight).device == fake_device
        with pytest.raises(
            DeviceError, match="a sparse matrix on device 'fake:1' does not fit an operand on 'fake:0'"
        ):
            ops.matmul(to_device(matrix, Device("fake", 1)), weight)

    def test_on_meta(self, matrix):
        out = ops.matmul(matrix, Tensor(np.ones((4, 2)), device="meta"))
        assert (out.shape, out.device.kind) == ((5, 2), "meta")

    def test_is_not_a_tensor(self, matrix):
        message = (
            r"a tensor is dense, got a sparse matrix of shape \(5, 4\): pass it to sknet.ops.matmul as it is"
        )
        with pytest.raises(TypeError, match=message):
            Tensor(matrix)
        with pytest.raises(TypeError, match=message):
            Tensor(np.ones((2, 5))) @ matrix


def test_an_empty_slot_is_refused():
    with pytest.raises(ValueError, match=r"SparseSlot\(\(2, 3\), float64\) is empty: set its `matrix`"):
        ops.matmul(ops.SparseSlot((2, 3), "float64"), np.ones(3))
