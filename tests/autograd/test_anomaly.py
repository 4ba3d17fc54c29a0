"""Anomaly mode names the operation and the line where a NaN or an infinity first appears."""

import threading

import numpy as np
import pytest

from sknet import Function, Tensor, no_grad, ops
from sknet.autograd import checkpoint, detect_anomaly, once_differentiable
from sknet.core import Primitive
from sknet.exceptions import NonFiniteError, ShapeError


def leaf(*values):
    return Tensor(np.array(values), requires_grad=True)


class TestForward:
    @pytest.mark.parametrize(
        ("function", "message"),
        [
            (
                lambda x: ops.log(x - 1),
                r"log: inf comes from finite operands float64\(2,\), in .*lambda x: ops.log",
            ),
            (lambda x: ops.log(-x), "log: nan comes from"),
            (
                lambda x: (x * 0) / (x * 0),
                r"divide: nan comes from finite operands float64\(2,\), float64\(2,\)",
            ),
            (lambda x: ops.exp(x * 1000), "exp: inf comes from"),
            (lambda x: x * 1e308 * 1e308, "multiply: inf comes from"),
        ],
    )
    def test_names_operation_and_line(self, function, message):
        for x in (leaf(1.0, 2.0), Tensor([1.0, 2.0])):
            with detect_anomaly(), pytest.raises(NonFiniteError, match=message):
                function(x)
        with detect_anomaly(), no_grad(), pytest.raises(NonFiniteError, match=r"test_anomaly.py, line \d+"):
            function(leaf(1.0, 2.0))

    def test_nan_in_the_data_is_not_reported(self):
        with detect_anomaly():
            assert np.isnan((Tensor([np.nan, 1.0]) * 2 + 1).numpy()[0])
            masked = ops.where(np.array([True, False]), leaf(1.0, 2.0), -np.inf)
            assert ops.softmax(masked).numpy().tolist() == [1.0, 0.0]

    def test_infinities_can_produce_nan(self):
        infinite = Tensor([np.inf])
        with detect_anomaly(), pytest.raises(NonFiniteError, match="subtract: nan"):
            infinite - infinite

    def test_on_another_device(self, fake_device):
        x = Tensor([0.0], requires_grad=True, device=fake_device)
        with detect_anomaly(), pytest.raises(NonFiniteError, match="log: inf"):
            ops.log(x)
        with detect_anomaly():
            ops.exp(x).sum().backward()
            (Tensor([1.0], device="meta") / 0.0).sum()

    def test_other_errors_are_unchanged(self):
        with detect_anomaly(), pytest.raises(ShapeError, match=r"add: shapes \(2,\) and \(3,\)"):
            leaf(1.0, 2.0) + np.ones(3)


class TestBackward:
    def test_names_the_line_of_the_forward_operation(self):
        with detect_anomaly():
            x = leaf(1.0, 0.0)
            root = x.sqrt()  # here
            message = (
                r"gradient of sqrt, recorded in .*test_anomaly.py, line \d+: `root = x.sqrt\(\)  # here`: "
            )
            with pytest.raises(
                NonFiniteError, match=message + r"divide: inf .*line \d+: `root.sum\(\).backward"
            ):
                root.sum().backward()

    def test_recorded_before_it_was_enabled(self):
        total = leaf(1.0, 0.0).sqrt().sum()
        message = "gradient of sqrt, recorded before anomaly mode was on: divide: inf"
        with detect_anomaly(), pytest.raises(NonFiniteError, match=message):
            total.backward()

    def test_of_a_function_that_computes_elsewhere(self):
        class Root(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x.sqrt()

            @staticmethod
            @once_differentiable
            def backward(ctx, gradient):
                with np.errstate(divide="ignore"):
                    return gradient.data / (2 * np.sqrt(ctx.saved_tensors[0].data))

        message = r"gradient of Root, recorded in .*: inf in the gradient of input 0"
        with detect_anomaly(), pytest.raises(NonFiniteError, match=message):
            Root.apply(leaf(0.0)).sum().backward()

    def test_inside_a_checkpoint(self):
        message = r"gradient of checkpoint, recorded in .*: gradient of sqrt, recorded in .*: divide: inf"
        with detect_anomaly(), pytest.raises(NonFiniteError, match=message):
            checkpoint(lambda x: x.sqrt(), leaf(0.0)).sum().backward()

    def test_a_given_gradient(self):
        x = leaf(1.0, 2.0)
        with detect_anomaly():
            (x * 2).backward(Tensor([np.nan, 1.0]))
        assert np.isnan(x.grad.numpy()[0])


class TestTheMode:
    def test_the_mode_is_restored(self):
        kernel = Primitive.forward_on
        with detect_anomaly():
            with detect_anomaly():
                assert Primitive.forward_on is not kernel
            assert Primitive.forward_on is not kernel
            with pytest.raises(NonFiniteError, match="log: inf"):
                ops.log(leaf(0.0))
        assert Primitive.forward_on is kernel
        with np.errstate(divide="ignore"):
            assert np.isinf(ops.log(leaf(0.0)).item())

    def test_as_a_decorator(self):
        @detect_anomaly()
        def inside(x):
            return ops.log(x)

        with pytest.raises(NonFiniteError, match="log: inf"):
            inside(leaf(0.0))
        with np.errstate(divide="ignore"):
            assert np.isinf(ops.log(leaf(0.0)).item())

    def test_other_threads_are_unaffected(self):
        found = []

        def work():
            with np.errstate(divide="ignore"):
                y = ops.log(leaf(0.0))
                y.backward()
                found.append(y.item())

        with detect_anomaly():
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        assert found == [-np.inf]
