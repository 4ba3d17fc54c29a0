"""Hooks on gradients, and retained gradients of intermediate results."""

import gc
import tracemalloc
import weakref

import numpy as np
import pytest

from sknet import Tensor, ops
from sknet.core import gradients
from sknet.exceptions import GradientError, ShapeError


@pytest.fixture(autouse=True)
def nothing_left(small_heap):
    gc.collect()


def leaf(*values):
    return Tensor(np.array(values), requires_grad=True)


class TestRegisterHook:
    def test_sees_the_full_gradient_of_an_intermediate(self):
        seen = []
        x = leaf(1.0, 2.0)
        y = x * 2
        y.register_hook(lambda g: seen.append(g.numpy().tolist()))
        (y * y + y).sum().backward()  # three paths from y, and one call
        assert seen == [[5.0, 9.0]]
        assert x.grad.numpy().tolist() == [10.0, 18.0]

    def test_replaces_it(self):
        x = leaf(1.0, 2.0)
        y = x * 2
        y.register_hook(lambda g: g * 10)
        x.register_hook(lambda g: g + 1)
        y.sum().backward()
        assert x.grad.numpy().tolist() == [21.0, 21.0]

    def test_in_the_order_of_registration(self):
        x = leaf(1.0)
        x.register_hook(lambda g: g + 1)
        x.register_hook(lambda g: g * 10)
        (x * 3).backward()
        assert x.grad.item() == 40.0
        (x * 3).backward()  # the hook sees this call's gradient, not the sum
        assert x.grad.item() == 80.0

    def test_of_the_result_itself(self):
        x = leaf(1.0)
        y = x * 3
        y.register_hook(lambda g: g * 5)
        y.backward()
        assert x.grad.item() == 15.0

    def test_is_seen_by_gradients_too(self):
        x = leaf(2.0)
        y = x * x
        y.register_hook(lambda g: g * 10)
        assert [g.item() for g in gradients(y * 3, [y, x])] == [30.0, 120.0]
        assert x.grad is None

    def test_can_be_differentiated(self):
        x = leaf(2.0)
        y = x * x
        with y.register_hook(lambda g: g * y):
            [first] = gradients(y, [x], create_graph=True)
        assert first.item() == 16.0  # 2 x * x ** 2
        assert gradients(first, [x])[0].item() == 24.0

    def test_remove(self):
        x = leaf(1.0)
        first, second = x.register_hook(lambda g: g * 10), x.register_hook(lambda g: g + 1)
        first.remove()
        first.remove()
        x.backward()
        assert x.grad.item() == 2.0
        second.remove()
        with x.register_hook(lambda g: g * 100):
            x.backward()
        x.backward()
        assert x.grad.item() == 2.0 + 100.0 + 1.0

    def test_a_hook_that_is_removed_is_forgotten(self):
        x = leaf(1.0)

        def hook(g):
            return g * 10

        gone = weakref.ref(hook)
        x.register_hook(hook).remove()
        del hook
        assert gone() is None

    def test_no_state_is_left(self):
        def register(count):
            made = [leaf(1.0) for _ in range(count)]
            for i, x in enumerate(made):
                handle = x.register_hook(print)
                if i % 2:
                    handle.remove()

        register(10)
        gc.collect()
        tracemalloc.start()
        register(2000)
        gc.collect()
        left, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert left < 100_000  # a table that had so many keys

    def test_a_handle_keeps_no_reference(self):
        x = leaf(1.0, 2.0)
        y = ops.exp(x)

        def hook(g):
            return None

        gone = weakref.ref(y.data), weakref.ref(hook)
        handle = y.register_hook(hook)
        del y, hook
        assert [each() for each in gone] == [None, None]
        handle.remove()

    def test_a_hook_that_refers_to_its_tensor_is_collected(self):
        x = leaf(1.0)
        x.register_hook(x.__mul__)
        x.backward()
        gone = weakref.ref(x)
        del x
        gc.collect()
        assert gone() is None

    @pytest.mark.parametrize(
        ("hook", "error", "message"),
        [
            (lambda g: g.numpy(), GradientError, "a hook must return a Tensor or None, got ndarray"),
            (lambda g: g.sum(), ShapeError, r"a gradient of the tensor's shape \(2,\), got \(\)"),
        ],
    )
    def test_refused(self, hook, error, message):
        x = leaf(1.0, 2.0)
        x.register_hook(hook)
        with pytest.raises(error, match=message):
            x.sum().backward()

    def test_of_a_tensor_without_gradient(self):
        message = "a tensor that does not require a gradient cannot have a hook: set requires_grad=True"
        with pytest.raises(GradientError, match=message):
            Tensor(1.0).register_hook(lambda g: None)


class TestRetainGrad:
    def test_fills_grad(self):
        x = leaf(1.0, 2.0)
        y = x * 3
        z = y * y
        y.retain_grad()
        assert (x.retains_grad, y.retains_grad, z.retains_grad) == (False, True, False)
        z.sum().backward()
        assert y.grad.numpy().tolist() == [6.0, 12.0]
        z.sum().backward()
        assert y.grad.numpy().tolist() == [12.0, 24.0]
        assert z.grad is None

    def test_after_the_hooks(self):
        x = leaf(1.0)
        y = x * 3
        y.retain_grad()
        y.register_hook(lambda g: g * 10)
        y.backward()
        assert (y.grad.item(), x.grad.item()) == (10.0, 30.0)

    def test_gradients_fill_nothing(self):
        x = leaf(1.0)
        y = x * 3
        y.retain_grad()
        gradients(y * 2, [x])
        assert y.grad is None

    def test_of_a_leaf_changes_nothing(self):
        x = leaf(1.0)
        x.retain_grad()
        assert not x.retains_grad

    def test_of_a_tensor_changed_in_place(self):
        x = leaf(1.0, 2.0)
        y = x * 3
        y.retain_grad()
        y *= y
        (y * 5).sum().backward()
        assert y.retains_grad
        assert y.grad.numpy().tolist() == [5.0, 5.0]

    def test_refused(self):
        with pytest.raises(GradientError, match="cannot have its gradient kept"):
            Tensor(1.0).retain_grad()


class TestGradientsAreOnesOwn:
    """A hook on one leaf's gradient does not affect another's."""

    def test_leaves_of_a_sum(self):
        x, y = leaf(1.0, 2.0), leaf(1.0, 2.0)
        (x + y).sum().backward()
        x.grad *= 5
        x.grad[0] = 7
        assert x.grad.numpy().tolist() == [7.0, 5.0]
        assert y.grad.numpy().tolist() == [1.0, 1.0]

    def test_views_of_one_gradient(self):
        x, y = leaf(1.0, 2.0), Tensor(np.ones((2, 1)), requires_grad=True)
        (x * 1 + y.reshape(2)).backward(Tensor([1.0, 2.0]))
        x.grad += 1
        assert y.grad.numpy().tolist() == [[1.0], [2.0]]

    def test_the_gradient_that_was_given(self):
        x, given = leaf(1.0, 2.0), Tensor([1.0, 2.0])
        (x + 1).backward(given)
        x.grad *= 0
        assert given.numpy().tolist() == [1.0, 2.0]

    def test_recorded(self):
        x, y = leaf(2.0), leaf(2.0)
        (x * y).backward(create_graph=True)
        assert x.grad is not y.grad
        assert x.grad.requires_grad

    def test_on_another_device(self, fake_device):
        x = Tensor([1.0, 2.0], requires_grad=True, device=fake_device)
        y = Tensor([1.0, 2.0], requires_grad=True, device=fake_device)
        (x + y).sum().backward()
        x.grad *= 5
        assert y.grad.numpy().tolist() == [1.0, 1.0]
