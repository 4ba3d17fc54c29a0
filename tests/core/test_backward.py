"""The backward pass: accumulation, intermediates, unused inputs, memory, depth, threads."""

import gc
import weakref

import numpy as np
import pytest

from sknet import Function, Tensor, enable_grad, grad, no_grad, ops
from sknet.core import gradients
from sknet.exceptions import DeviceError, GradientError, ShapeError
from tests.threads import run_in_threads


def leaf(*values, dtype="float64"):
    return Tensor(np.array(values, dtype), requires_grad=True)


class TestBackward:
    def test_adds_up_over_calls(self):
        x = leaf(1.0, 2.0)
        (x * x).sum().backward()
        (x * 3).sum().backward()
        assert x.grad.numpy().tolist() == [5.0, 7.0]
        x.grad = None
        x.sum().backward()
        assert x.grad.numpy().tolist() == [1.0, 1.0]

    def test_adds_up_over_paths(self):
        x = leaf(3.0)
        y = x * x
        (y + y * x).backward()
        assert x.grad.item() == 2 * 3 + 3 * 9

    def test_can_be_walked_twice(self):
        x = leaf(2.0)
        y = (x**3).sum()
        y.backward()
        y.backward()
        assert x.grad.item() == 24.0

    def test_of_a_leaf_itself(self):
        x = leaf(2.0)
        x.backward()
        assert x.grad.item() == 1.0

    def test_with_a_gradient(self):
        x = leaf(1.0, 2.0)
        y = x * x
        y.backward(Tensor([1.0, 10.0]))
        assert x.grad.numpy().tolist() == [2.0, 40.0]
        y.backward(np.array([1, 1]))  # an array of another dtype will do
        assert x.grad.numpy().tolist() == [4.0, 44.0]
        assert x.grad.dtype == "float64"

    def test_a_gradient_of_another_precision(self):
        x = leaf(1.0, dtype="float32")
        seen = []

        class Watch(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, gradient):
                seen.append(gradient.dtype)
                return gradient

        Watch.apply(x).backward(Tensor([1.0]))
        assert seen == ["float32"]

    def test_leaves_do_not_change_otherwise(self):
        x, y = leaf(1.0), leaf(2.0)
        (x * 2).backward()
        assert y.grad is None
        assert x.requires_grad

    def test_intermediates_have_no_grad(self):
        x = leaf(1.0)
        y = x * 2
        (y * 3).sum().backward()
        assert y.grad is None

    def test_create_graph(self):
        x = leaf(2.0)
        (x**3).sum().backward(create_graph=True)
        assert x.grad.requires_grad
        first = x.grad
        x.grad = None
        first.sum().backward()
        assert x.grad.item() == 12.0

    def test_without_create_graph_nothing_is_recorded(self):
        x = leaf(2.0)
        (x**3).sum().backward()
        assert not x.grad.requires_grad

    def test_modes_are_restored(self):
        x = leaf(2.0)
        y = (x**2).sum()
        with no_grad():
            y.backward(create_graph=True)
            assert not (x * 2).requires_grad
        assert (x * 2).requires_grad

    def test_a_deleted_leaf(self):
        x, y = leaf(1.0), leaf(2.0)
        product = (x * y).sum()
        del y
        gc.collect()
        product.backward()
        assert x.grad.item() == 2.0


class TestInputs:
    """The tensors whose gradients `backward` fills."""

    def test_some_leaves_only(self):
        x, y = (Tensor([2.0, 3.0], requires_grad=True) for _ in range(2))
        (x * y).sum().backward(inputs=[y])
        assert x.grad is None
        np.testing.assert_array_equal(y.grad.numpy(), [2.0, 3.0])

    def test_one_tensor_and_a_non_leaf(self):
        x = Tensor([2.0, 3.0], requires_grad=True)
        h = x * x
        (h * 5.0).sum().backward(inputs=h)
        np.testing.assert_array_equal(h.grad.numpy(), [5.0, 5.0])
        assert x.grad is None

    def test_adds_up(self):
        x = Tensor([2.0, 3.0], requires_grad=True)
        y = (x * x).sum()
        y.backward()
        y.backward(inputs=[x, x])
        np.testing.assert_array_equal(x.grad.numpy(), [8.0, 12.0])

    def test_unused_inputs_do_not_change(self):
        x, y = (Tensor([2.0], requires_grad=True) for _ in range(2))
        (x * x).sum().backward(inputs=[x, y])
        assert y.grad is None

    @pytest.mark.parametrize(
        ("inputs", "message"),
        [
            ([], r"inputs=\[\].* None for all leaves"),
            ([Tensor([1.0])], "input 0 is not a tensor that requires a gradient"),
            ([Tensor([1.0], requires_grad=True), np.ones(2)], "input 1 is not a tensor"),
        ],
    )
    def test_refused(self, inputs, message):
        x = Tensor([2.0], requires_grad=True)
        with pytest.raises(GradientError, match=message):
            (x * x).sum().backward(inputs=inputs)
        assert x.grad is None


class TestRetainGraph:
    def test_false_frees_the_tape(self):
        x = Tensor([2.0, 3.0], requires_grad=True)
        h = x * x
        y = h.sum()
        y.backward(retain_graph=False)
        np.testing.assert_array_equal(x.grad.numpy(), [4.0, 6.0])
        with pytest.raises(GradientError, match=r"freed \(by release, backward\(retain_graph=False\)"):
            y.backward()
        with pytest.raises(GradientError, match="compute the result again"):
            h.sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), [4.0, 6.0])

    def test_memory(self):
        x = Tensor(np.ones(3), requires_grad=True)
        inner = x.exp()
        array = weakref.ref(inner.data)
        y = (inner * inner).sum()
        del inner
        assert array() is not None
        y.backward(retain_graph=False)
        assert array() is None

    def test_a_failure_frees_nothing(self):
        x = Tensor([2.0, 3.0], requires_grad=True)
        y = x * x
        with pytest.raises(GradientError, match="only a scalar"):
            y.backward(retain_graph=False)
        y.sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), [4.0, 6.0])

    def test_not_with_create_graph(self):
        x = Tensor(2.0, requires_grad=True)
        with pytest.raises(GradientError, match="create_graph=True needs the tape that retain_graph=False"):
            (x * x).backward(create_graph=True, retain_graph=False)


class TestErrors:
    def test_not_on_the_tape(self):
        message = "this tensor was not computed from anything that requires a gradient: set requires_grad"
        with pytest.raises(GradientError, match=message):
            Tensor(1.0).backward()
        with no_grad():
            y = leaf(1.0) * 2
        with pytest.raises(GradientError, match="compute it outside no_grad"):
            y.backward()

    def test_not_a_scalar(self):
        message = r"without `gradient` only a scalar can be differentiated, got a tensor of shape \(2,\)"
        with pytest.raises(GradientError, match=message):
            (leaf(1.0, 2.0) * 2).backward()
        (leaf(1.0).reshape((1, 1)) * 2).backward()

    def test_a_gradient_of_another_shape(self):
        with pytest.raises(ShapeError, match=r"the gradient's shape must be the output's \(2,\), got \(1,\)"):
            (leaf(1.0, 2.0) * 2).backward(Tensor([1.0]))

    def test_input_without_requires_grad(self):
        x = leaf(1.0)
        with pytest.raises(
            GradientError, match=r"input 1 of shape \(2,\) does not require a gradient: set requires_grad"
        ):
            gradients((x * 2).sum(), [x, Tensor([1.0, 2.0])])

    def test_a_gradient_on_another_device(self, fake_device):
        x = Tensor([1.0], requires_grad=True, device=fake_device)
        with pytest.raises(DeviceError, match="must be on the output's device 'fake:0', got one on 'cpu'"):
            (x * 2).backward(Tensor([1.0]))


class TestGradients:
    def test_of_leaves_and_intermediates(self):
        x = leaf(2.0)
        y = x * x
        z = y * 3
        found = gradients(z.sum(), [z, y, x])
        assert [g.item() for g in found] == [1.0, 3.0, 12.0]
        assert x.grad is None

    def test_unused_inputs_get_zeros(self):
        x, y = leaf(1.0), leaf(1.0, 2.0, dtype="float32")
        [g] = gradients(x * 2, [y])
        assert g.numpy().tolist() == [0.0, 0.0]
        assert g.dtype == "float32"

    def test_the_same_input_twice(self):
        x = leaf(2.0)
        assert [g.item() for g in gradients(x * x, [x, x])] == [4.0, 4.0]

    def test_of_the_output_itself(self):
        x = leaf(2.0)
        y = x * 2
        [g] = gradients(y, [y], Tensor([5.0]))
        assert g.item() == 5.0

    def test_irrelevant_branches_are_not_differentiated(self):
        x, y = leaf(1.0), leaf(1.0)

        class Unwilling(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, gradient):
                raise AssertionError("this gradient was not requested")

        out = (x * Unwilling.apply(y)).sum()
        [g] = gradients(out, [x])
        assert g.item() == 1.0

    def test_on_other_devices(self, fake_device):
        for device in (fake_device, "fake:1", "meta"):
            x = Tensor([[1.0, 2.0]], requires_grad=True, device=device)
            unused = Tensor([1.0], requires_grad=True, device=device)
            found = gradients(ops.relu(x @ x.T).sum(), [x, unused])
            assert [g.device for g in found] == [x.device] * 2
            assert [g.shape for g in found] == [x.shape, unused.shape]

    def test_second_order_of_a_product(self):
        x, y = leaf(2.0), leaf(5.0)
        [first] = gradients(x * x * y, [x], create_graph=True)
        second = gradients(first, [x, y])
        assert [g.item() for g in second] == [10.0, 4.0]


class TestMemory:
    """Arrays are freed with their last reference, without the garbage collector."""

    @pytest.fixture(autouse=True)
    def without_collector(self, small_heap):
        gc.collect()
        gc.disable()
        yield
        gc.enable()

    def watched(self, function):
        """Run `function(x)`, drop everything, and return what is left; there may be no cycles."""
        x = leaf(1.0, 2.0)
        references = [weakref.ref(x), weakref.ref(x.data), *map(weakref.ref, function(x))]
        del x
        assert gc.collect() == 0
        return [reference() for reference in references]

    def test_a_tape_without_backward(self):
        assert self.watched(lambda x: [y := ops.exp(x * 2), y.data]) == [None] * 4

    def test_backward(self):
        def run(x):
            y = ops.softmax(x * 2) @ np.ones(2)
            y.backward()
            return [y, y.data, x.grad, x.grad.data]

        assert self.watched(run) == [None] * 6

    def test_create_graph(self):
        def run(x):
            [g] = gradients((x**3).sum(), [x], create_graph=True)
            [h] = gradients(g.sum(), [x])
            return [g.data, h.data]

        assert self.watched(run) == [None] * 4

    def test_grad_of_grad(self):
        f = grad(lambda x: grad(lambda x: ops.tanh(x).sum())(x).sum())
        assert self.watched(lambda x: [f(x).data]) == [None] * 3

    def test_a_custom_function(self):
        class Exp(Function):
            @staticmethod
            def forward(ctx, x):
                y = ops.exp(x)
                ctx.save_for_backward(x, y)
                return y

            @staticmethod
            def backward(ctx, gradient):
                return gradient * ctx.saved_tensors[1]

        def run(x):
            y = Exp.apply(x).sum()
            [g] = gradients(y, [x], create_graph=True)
            [h] = gradients(g.sum(), [x])
            return [y, g.data, h.data]

        assert self.watched(run) == [None] * 5

    def test_a_failure_in_between(self):
        def run(x):
            y = x * 2
            with pytest.raises(ShapeError):
                y + np.ones(3)
            return [y.data]

        gone = self.watched(run)
        assert gone[-1] is None

    def test_unread_values_are_freed_early(self):
        x = leaf(1.0, 2.0)
        product = x * 2
        freed = weakref.ref(product.data)
        total = product + 1  # the rule of a sum reads shapes
        del product
        assert freed() is None
        kept = ops.exp(total)
        read = weakref.ref(kept.data)
        out = kept + 1  # the rule of exp reads its result
        del kept
        assert read() is not None
        out.sum().backward()


class TestDepth:
    def test_long_chains(self):
        x = leaf(1.0)
        y = x
        for _ in range(10_000):
            y = y + 1.0
        y.backward()
        assert x.grad.item() == 1.0
        del y  # freeing it must not recurse either

    def test_long_chains_of_second_order(self):
        x = leaf(1.0)
        y = x
        for _ in range(2_000):
            y = y * 1.0
        [first] = gradients(y * y, [x], create_graph=True)
        [second] = gradients(first, [x])
        assert (first.item(), second.item()) == (2.0, 2.0)

    def test_shared_subgraphs_are_walked_once(self):
        x = leaf(1.0)
        y = x
        for _ in range(60):  # two to the sixty paths
            y = y + y
        y.backward()
        assert x.grad.item() == 2.0**60


def test_threads_are_independent():
    weights = [np.random.default_rng(i).standard_normal(5) for i in range(8)]
    found = {}

    def work(i):
        for _ in range(20):
            with enable_grad() if i % 2 else no_grad():
                x = leaf(*weights[i])
                y = (ops.tanh(x) * x).sum()
            found[i] = y.requires_grad and gradients(y, [x])[0].numpy()

    run_in_threads(work, [(i,) for i in range(8)])
    for i, w in enumerate(weights):
        if i % 2:
            np.testing.assert_allclose(found[i], np.tanh(w) + w / np.cosh(w) ** 2)
        else:
            assert found[i] is False
