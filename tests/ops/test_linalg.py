"""Linear algebra where matrices are singular, or values coincide, and its messages."""

import numpy as np
import pytest

from sknet import Tensor, grad, ops
from sknet.exceptions import DtypeError, ShapeError

linalg = ops.linalg
RNG = np.random.default_rng(0)
# Two equal eigenvalues, exactly: a sum of projections would round.
TWICE = np.diag([2.0, 2.0, 5.0])
SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])


class TestEqualValues:
    """Functions of the values have a derivative; functions of the vectors have none."""

    @pytest.mark.parametrize(
        ("function", "derivative"),
        [
            (lambda x: linalg.eigvalsh(x).sum(), np.eye(3)),
            (lambda x: (linalg.eigvalsh(x) ** 2).sum(), 2 * TWICE),
            (lambda x: linalg.svdvals(x).sum(), np.eye(3)),
            (lambda x: (linalg.svdvals(x) ** 3).sum(), 3 * TWICE @ TWICE),
        ],
    )
    def test_values(self, function, derivative):
        np.testing.assert_allclose(grad(function)(Tensor(TWICE)).numpy(), derivative, rtol=1e-12, atol=1e-12)

    def test_the_second_derivative_of_values(self):
        # The sum of squared singular values is that of squared elements.
        slope = grad(lambda x: (grad(lambda y: (linalg.svdvals(y) ** 2).sum())(x) * x).sum())
        np.testing.assert_allclose(slope(Tensor(TWICE)).numpy(), 4 * TWICE, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize(
        "function",
        [
            lambda x: (linalg.eigh(x)[1] * Tensor(RNG.standard_normal((3, 3)))).sum(),
            lambda x: (linalg.svd(x)[0] * Tensor(RNG.standard_normal((3, 3)))).sum(),
        ],
    )
    def test_vectors(self, function):
        with np.errstate(divide="ignore", invalid="ignore"):
            found = grad(function)(Tensor(TWICE)).numpy()
        assert not np.isfinite(found).all()

    def test_a_matrix_that_is_not_square_and_has_no_full_rank(self):
        x = np.outer([1.0, 2.0, 3.0], [1.0, 1.0])
        np.testing.assert_allclose(
            grad(lambda x: (linalg.svdvals(x) ** 2).sum())(Tensor(x)).numpy(), 2 * x, rtol=1e-12, atol=1e-12
        )


class TestSingular:
    @pytest.mark.parametrize("function", [linalg.inv, lambda x: linalg.solve(x, [1.0, 2.0])])
    def test_no_inverse(self, function):
        with pytest.raises(ValueError, match=r"cannot compute with .*64\(2, 2\).*: Singular matrix"):
            function(SINGULAR)

    @pytest.mark.parametrize("function", [linalg.det, lambda x: linalg.slogdet(x)[1]])
    def test_no_gradient_of_the_determinant(self, function):
        with np.errstate(divide="ignore"):
            out = function(Tensor(SINGULAR, requires_grad=True))
        with pytest.raises(ValueError, match=r"inv: .* Singular matrix"):
            out.backward()

    def test_not_positive_definite(self):
        with pytest.raises(ValueError, match=r"cholesky: .* not positive definite"):
            linalg.cholesky([[1.0, 2.0], [2.0, 1.0]])

    @pytest.mark.parametrize("rank", [1, 2])
    def test_the_pseudoinverse_of_any_rank(self, rank):
        x = RNG.standard_normal((4, rank)) @ RNG.standard_normal((rank, 3))
        out = linalg.pinv(x).numpy()
        np.testing.assert_allclose(x @ out @ x, x, atol=1e-12)
        np.testing.assert_allclose(out, np.linalg.pinv(x, rcond=1e-10), atol=1e-12)

    def test_the_gradient_of_the_pseudoinverse_along_its_rank(self):
        """Central differences of a function of one parameter that keeps the rank."""
        a, b, c = RNG.standard_normal((3, 4, 2)), RNG.standard_normal((2, 3)), RNG.standard_normal((3, 4))

        def function(t):
            x = ops.matmul(Tensor(a[0]) + t * Tensor(a[1]), Tensor(b))
            return (linalg.pinv(x, rtol=1e-10) * Tensor(c)).sum()

        step = 1e-6
        expected = (function(Tensor(step)).item() - function(Tensor(-step)).item()) / (2 * step)
        assert grad(function)(Tensor(0.0)).item() == pytest.approx(expected, rel=1e-6)


class TestProperties:
    @pytest.mark.parametrize("shape", [(3, 3), (5, 2), (2, 5), (2, 4, 3)])
    def test_decompositions_multiply_to_what_they_decompose(self, shape):
        x = RNG.standard_normal(shape)
        left, values, right = linalg.svd(x)
        np.testing.assert_allclose(((left * values[..., None, :]) @ right).numpy(), x, atol=1e-12)
        q, r = linalg.qr(x)
        np.testing.assert_allclose((q @ r).numpy(), x, atol=1e-12)
        square = x @ np.swapaxes(x, -1, -2) + np.eye(shape[-2])
        values, vectors = linalg.eigh(square)
        back = ops.matrix_transpose(vectors)
        np.testing.assert_allclose(((vectors * values[..., None, :]) @ back).numpy(), square, atol=1e-12)
        factor = linalg.cholesky(square)
        np.testing.assert_allclose((factor @ ops.matrix_transpose(factor)).numpy(), square, atol=1e-12)

    def test_integers_are_computed_with_as_float64(self):
        assert linalg.det(np.array([[2, 1], [1, 3]], np.int8)).dtype == np.float64
        np.testing.assert_allclose(linalg.solve([[2, 0], [0, 4]], [2, 2]).numpy(), [1.0, 0.5])


HALF = np.eye(2, dtype=np.float16)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: linalg.inv(np.ones((2, 3))),
            ShapeError,
            r"inv: expected matrices of shape \(\.\.\., n, n\)",
        ),
        (lambda: linalg.inv([1.0]), ShapeError, r"got \(1,\)"),
        (lambda: linalg.svd([1.0]), ShapeError, r"svd: expected matrices of shape \(\.\.\., m, n\)"),
        (lambda: linalg.matrix_power(np.ones((2, 3)), 2), ShapeError, "matrix_power: expected matrices"),
        (lambda: linalg.det(HALF), DtypeError, "det: expected float32 or float64, got float16: use .astype"),
        (lambda: linalg.qr(HALF), DtypeError, "qr: expected float32"),
        (lambda: linalg.solve(np.eye(3), np.ones(2)), ShapeError, "solve: 3 equations .* do not fit 2 right"),
        (lambda: linalg.solve(np.ones((2, 3, 3)), np.ones((4, 3, 1))), ShapeError, "do not broadcast"),
    ],
)
def test_messages(call, error, message):
    with pytest.raises(error, match=message):
        call()
