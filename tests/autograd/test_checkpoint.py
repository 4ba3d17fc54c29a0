"""Checkpoints: the same gradients, less memory, the same draws, buffers updated once."""

import gc
import weakref

import numpy as np
import pytest

from sknet import Tensor, nn, no_grad, ops
from sknet.autograd import checkpoint, gradcheck
from sknet.core import gradients
from sknet.exceptions import GradientError

RNG = np.random.default_rng(0)
x0, w0 = RNG.standard_normal((4, 3)), RNG.standard_normal((3, 3)) / 3


def test_gradients_of_order_two():
    block = lambda x, w: ops.tanh(x @ w) * x  # noqa: E731
    assert gradcheck(lambda x, w: checkpoint(block, checkpoint(block, x, w), w), [x0, w0])
    nested = lambda x, w: checkpoint(lambda y: block(checkpoint(block, y, w), w), x)  # noqa: E731
    assert gradcheck(nested, [x0, w0])


def test_trees_constants_and_closures():
    w = Tensor(w0, requires_grad=True)

    def block(p, *, power):
        return {"y": (p["x"] @ w) ** power, "x": p["x"], "n": p["n"], "free": Tensor([1.0])}

    x = Tensor(x0, requires_grad=True)
    found = checkpoint(block, {"x": x, "n": 3}, power=2)
    assert found["n"] == 3
    assert not found["free"].requires_grad
    found["y"].sum().backward()
    plain = gradients(((x @ w) ** 2).sum(), [x, w])
    np.testing.assert_array_equal(x.grad.numpy(), plain[0].numpy())
    np.testing.assert_array_equal(w.grad.numpy(), plain[1].numpy())
    assert gradients(found["x"].sum(), [x])[0].numpy().sum() == x0.size


def test_runs_again_in_backward_and_keeps_nothing():
    arrays = []

    def block(x):
        y = ops.exp(x)
        arrays.append(weakref.ref(y.data))
        return ops.exp(y)

    x = Tensor(x0, requires_grad=True)
    gc.collect()
    gc.disable()
    try:
        out = checkpoint(block, x)
        assert [a() for a in arrays] == [None]
        out.sum().backward()
        assert [a() for a in arrays] == [None, None]
    finally:
        gc.enable()
    np.testing.assert_allclose(x.grad.numpy(), np.exp(x0 + np.exp(x0)))


def test_only_requested_gradients_and_each_argument_once():
    x = Tensor(2.0, requires_grad=True)
    y = x * 3  # an argument that comes from another argument
    out = checkpoint(lambda a, b: a * b, x, y)
    assert [g.item() for g in gradients(out, [x, y])] == [12.0, 2.0]
    assert [g.item() for g in gradients(out, [y])] == [2.0]


def test_hooks_of_arguments_are_called_once():
    seen = []
    x = Tensor(2.0, requires_grad=True)
    y = x * 3
    y.register_hook(seen.append)
    checkpoint(lambda a: a * a, y).backward()
    assert len(seen) == 1


def test_without_a_tape_it_is_a_call():
    calls = []
    with no_grad():
        checkpoint(calls.append, 1)
    assert calls == [1]
    assert checkpoint(lambda x: x, Tensor(1.0)).item() == 1.0


class Block(nn.Module):
    def __init__(self, is_checkpointed):
        self.first = nn.Linear(3, 5)
        self.rest = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm(5), nn.Linear(5, 2), nn.Dropout(0.2))
        self.is_checkpointed = is_checkpointed

    def forward(self, x):
        h = nn.Dropout(0.1)(self.first(x))
        return checkpoint(self.rest, h) if self.is_checkpointed else self.rest(h)


def test_inside_a_scope_draws_are_the_same():
    found = []
    for is_checkpointed in (False, True):
        net = Block(is_checkpointed).initialize(0)
        out, buffers = nn.functional_call(net, {}, x0, key=(1, 2), step=3)
        shares = gradients((out * out).sum(), list(net.parameters()))
        found.append([out.numpy(), *[g.numpy() for g in shares], *[b.numpy() for b in buffers.values()]])
    for plain, again in zip(*found, strict=True):
        np.testing.assert_array_equal(plain, again)


def test_outside_a_scope_draws_are_the_same_and_buffers_are_updated_once():
    net = Block(True).initialize(0)
    drawn = []
    net.rest.forward = lambda x, forward=net.rest[0].forward: (
        drawn.append(forward(x)) or net.rest[1](drawn[-1])
    )
    out = net(x0)
    after = [b.numpy().copy() for b in net.buffers()]
    (out * out).sum().backward()
    np.testing.assert_array_equal(drawn[0].numpy(), drawn[1].numpy())
    for b, expected in zip(net.buffers(), after, strict=True):
        np.testing.assert_array_equal(b.numpy(), expected)


def test_another_call_draws_other_numbers():
    drop = nn.Dropout(0.5)
    first, second = (checkpoint(drop, Tensor(np.ones(50), requires_grad=True)).numpy() for _ in range(2))
    assert not np.array_equal(first, second)


class Counts(nn.Module):
    """Its result depends on a buffer that the forward pass updates."""

    def __init__(self):
        self.register_buffer("n", np.zeros(()))

    def forward(self, x):
        self.set_buffer("n", self.n + 1)
        return x * x * self.n


@pytest.mark.parametrize("is_scoped", [False, True])
def test_buffers_are_read_with_their_old_values(is_scoped):
    net = Counts()
    run = lambda x: checkpoint(net, checkpoint(net, x))  # noqa: E731
    x = Tensor(3.0, requires_grad=True)
    if is_scoped:
        out, _ = nn.functional_call(_Calls(net, run), {}, x)
    else:
        out = run(x)
        assert net.n.item() == 2.0
    out.backward()
    assert x.grad.item() == 2 * 4 * 27.0  # of 2 (x * x) ** 2
    assert net.n.item() == (0.0 if is_scoped else 2.0)


class _Calls(nn.Module):
    def __init__(self, net, function):
        self.net, self.function = net, function

    def forward(self, x):
        return self.function(x)


def test_each_module_keeps_its_own_mode():
    net = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5))
    net[1].eval()
    seen = []
    x = Tensor(np.ones(10), requires_grad=True)
    checkpoint(lambda x: (seen.append([m.training for m in net]), net(x))[1], x).sum().backward()
    assert seen == [[True, False], [True, False]]


def test_a_function_that_differs_on_the_second_run():
    shapes = iter([2, 3])
    x = Tensor(x0, requires_grad=True)
    out = checkpoint(lambda x: x[: next(shapes)] * 2, x)
    message = (
        r"checkpoint: the function returned tensors of shapes \[\(2, 3\)\] .* backward pass \[\(3, 3\)\]"
    )
    with pytest.raises(GradientError, match=message):
        out.sum().backward()


def test_arguments_changed_in_place():
    x, m = Tensor(x0, requires_grad=True), Tensor(x0.copy())
    out = checkpoint(lambda x, m: x * m, x, m)
    m += 1
    with pytest.raises(GradientError, match=r"checkpoint: a value of shape \(4, 3\) .* was changed in place"):
        out.sum().backward()


def test_an_argument_that_is_changed_on_the_tape():
    """A recorded change does not affect the value that the function was called with."""
    x = Tensor(x0, requires_grad=True)
    h = x * 1
    out = checkpoint(lambda h: h * h, h)
    h += 1
    (out + h).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x0 + 1)


def test_an_outside_tensor_that_is_changed_on_the_tape():
    x = Tensor(x0, requires_grad=True)
    h = x * 1
    out = checkpoint(lambda: h * h)
    h += 1
    with pytest.raises(GradientError, match=r"reads a tensor from outside whose value has changed since"):
        out.sum().backward()


def test_a_parameter_that_was_overwritten():
    x, w = Tensor(x0), Tensor(x0.copy(), requires_grad=True)
    out = checkpoint(lambda x: ops.exp(x + w), x)
    with no_grad():
        w -= 1
    with pytest.raises(GradientError, match=r"checkpoint: a value of shape \(4, 3\) .* was changed in place"):
        out.sum().backward()


def test_on_another_device(fake_device):
    x = Tensor(x0, requires_grad=True, device=fake_device)
    checkpoint(lambda x: ops.tanh(ops.tanh(x)), x).sum().backward()
    assert x.grad.device == fake_device
