"""The scope of a forward pass: fast attribute access agrees with slow access, draws are numbered."""

import numpy as np
import pytest

from sknet import Tensor, nn
from sknet.nn import Scope, bindings, run
from sknet.nn._parameter import current_scope, next_draw


class Draws(nn.Module):
    def forward(self, n):
        return [next_draw() for _ in range(n)]


def test_draws_are_numbered():
    scope = Scope({}, key=(1, 2), step=5)
    assert run(Draws(), scope, (3,)) == [((1, 2), 5, 0), ((1, 2), 5, 1), ((1, 2), 5, 2)]
    assert run(Draws(), scope, (1,)) == [((1, 2), 5, 0)]


def test_draws_without_a_scope_are_fresh():
    (first, _, _), (second, _, _) = Draws()(2)
    assert first != second


def test_the_step_is_passed_on_as_it_is():
    step = Tensor(3)
    [(_, found, _)] = run(Draws(), Scope({}, key=(0, 0), step=step), (1,))
    assert found is step


def test_scopes_end():
    assert current_scope() is None
    run(Draws(), Scope({}, key=(0, 0)), (1,))
    assert current_scope() is None


def test_registered_attributes():
    class Slow(nn.Module):
        def __init__(self, weight):
            self.weight = weight

        def forward(self):
            return self.weight

    class Fast(nn.Linear):
        def forward(self):
            return self.weight

    fast = Fast(2, 1)
    slow = Slow(fast.weight)
    assert fast.weight is slow.weight
    [key] = bindings(slow).values()
    scope = Scope({key: Tensor(np.ones((2, 1)))})
    assert run(fast, scope, ()) is run(slow, scope, ()) is scope.values[key]
    del fast.weight
    with pytest.raises(AttributeError, match="'Fast' object has no attribute 'weight'"):
        _ = fast.weight
    assert hasattr(nn.Linear, "weight")
