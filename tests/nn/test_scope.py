"""The scope of a forward pass: fast attribute access agrees with slow access, draws are numbered."""

import numpy as np
import pytest

from sknet import Tensor, nn
from sknet.nn import Scope, bindings, run


class Draws(nn.Module):
    """Returns masks, one drawn after the other."""

    def __init__(self):
        self.weight = nn.Parameter(np.full((1, 64), 2.0, "float32"))
        self.dropout = nn.Dropout(0.5)

    def forward(self, n):
        return [self.dropout(self.weight).numpy().tobytes() for _ in range(n)]


def test_draws_are_numbered():
    scope = Scope({}, key=(1, 2), step=5, training=True)
    masks = run(Draws(), scope, (3,))
    assert len(set(masks)) == 3
    assert run(Draws(), scope, (1,)) == masks[:1]
    others = [Scope({}, key=key, step=step, training=True) for key, step in (((1, 2), 6), ((1, 3), 5))]
    assert len({*masks, *(run(Draws(), other, (1,))[0] for other in others)}) == 5


def test_draws_without_a_scope_are_fresh():
    first, second = Draws()(2)
    assert first != second


def test_the_step_may_be_a_tensor():
    found, expected = (
        run(Draws(), Scope({}, key=(0, 0), step=step, training=True), (1,)) for step in (Tensor(3), 3)
    )
    assert found == expected


def test_scopes_end():
    draws = Draws()
    [place] = bindings(draws).values()
    scope = Scope({place: Tensor(np.zeros((1, 64), "float32"))}, key=(0, 0))
    for _ in range(2):
        assert run(draws, scope, (2,)) == [bytes(256)] * 2  # zeros
        first, second = draws(2)
        assert first != second
        assert bytes(256) not in (first, second)


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
