"""State that a function reads besides its arguments is restored when a checkpoint runs it again."""

from contextvars import ContextVar

import numpy as np
import pytest

from sknet import Tensor, nn
from sknet.autograd import checkpoint

current = ContextVar("current", default=0)


class Counter(nn.Module):
    """Counts its calls in a buffer, and keeps what it reads."""

    def __init__(self):
        self.register_buffer("calls", np.zeros(()))
        self.seen = []

    def forward(self, x):
        self.set_buffer("calls", self.calls + 1)
        self.seen.append((self.calls.item(), current.get()))
        return x * x * self.calls * current.get()


def test_buffers_and_context_variables():
    net, x = Counter(), Tensor(3.0, requires_grad=True)
    net(x)
    token = current.set(5)
    out = checkpoint(net, x)
    current.reset(token)
    net(x)
    for _ in range(2):
        out.backward(retain_graph=True)
    assert net.seen == [(1, 0), (2, 5), (3, 0), (2, 5), (2, 5)]
    assert x.grad.item() == 2 * (2 * 3.0 * 2 * 5)
    assert net.calls.item() == 3
    assert current.get() == 0


def test_state_is_restored_after_an_error():
    net, x = Counter(), Tensor(3.0, requires_grad=True)

    def fail(x):
        net(x)
        raise KeyError

    with pytest.raises(KeyError):
        checkpoint(fail, x)
    assert net.calls.item() == 1
    checkpoint(net, x)
    assert net.calls.item() == 2
