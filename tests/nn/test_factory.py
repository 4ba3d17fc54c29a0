"""Module factories: constructor arguments are hyperparameters, checked by name."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from sknet import nn
from sknet.nn.init import Normal


class Net(nn.Module):
    def __init__(self, n_features, n_outputs=1, hidden=8, init=Normal(0.5)):  # noqa: B008
        self.first = nn.Linear(n_features, hidden, init=init)
        self.last = nn.Linear(hidden, n_outputs)

    def forward(self, x):
        return self.last(self.first(x))


def make(n_features, **more):
    return nn.Linear(n_features, **more)


def widths(module):
    return [tuple(p.shape) for p in module.parameters() if p.ndim == 2]


def test_a_factory_builds_with_what_it_was_given_before_what_the_builder_knows():
    factory = nn.ModuleFactory(Net, hidden=5)
    assert widths(factory.build(n_features=3)) == [(3, 5), (5, 1)]
    assert widths(factory.build(n_features=3, n_outputs=4)) == [(3, 5), (5, 4)]
    assert widths(nn.ModuleFactory(Net, n_outputs=7).build(n_features=3, n_outputs=4)) == [(3, 8), (8, 7)]
    assert widths(nn.ModuleFactory(make, out_features=2).build(n_features=3)) == [(3, 2)]


def test_its_parameters_are_the_arguments_and_their_defaults():
    factory = nn.ModuleFactory(Net, hidden=5)
    found = factory.get_params()
    assert (found["hidden"], found["n_outputs"], found["init__std"]) == (5, 1, 0.5)
    assert "n_features" not in found
    assert set(factory.get_params(deep=False)) == {"hidden", "n_outputs", "init"}
    assert factory.set_params(hidden=6, init__std=0.25) is factory
    assert (factory.get_params()["hidden"], factory.get_params()["init__std"]) == (6, 0.25)
    assert nn.ModuleFactory(Net).get_params()["init__std"] == 0.5, "a default is the class's own"


@pytest.mark.parametrize("copied", [clone, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_are_equal_and_apart(copied):
    factory = nn.ModuleFactory(Net, hidden=5, init=Normal(0.1))
    other = copied(factory)
    assert other == factory
    assert hash(other) == hash(factory)
    other.set_params(hidden=6, init__std=0.2)
    assert other != factory
    assert factory.get_params()["init__std"] == 0.1


def test_equality_compares_arrays_and_classes():
    one, same, other = (nn.ModuleFactory(make, out_features=np.arange(n)) for n in (2, 2, 3))
    assert one == same
    assert one != other
    assert nn.ModuleFactory(Net) != nn.ModuleFactory(make)
    assert nn.ModuleFactory(Net) != "Net"


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (
            lambda: nn.ModuleFactory(Net, hiden=3),
            TypeError,
            "no parameter 'hiden'. Did you mean 'hidden'",
        ),
        (lambda: nn.ModuleFactory(Net).set_params(hiden=3), ValueError, "no parameter 'hiden'. Did you mean"),
        (lambda: nn.ModuleFactory(Net).set_params(hidden__size=3), ValueError, "'hidden' of Net is 8, which"),
        (lambda: nn.ModuleFactory(Net).build(), TypeError, "Net needs a value for 'n_features': ModuleFact"),
        (lambda: nn.ModuleFactory(nn.Linear(1, 1)), TypeError, "needs a class of modules or a function"),
        (lambda: nn.ModuleFactory(3), TypeError, "needs a class of modules or a function .* got 3"),
        (lambda: nn.ModuleFactory(dict).build(), TypeError, "dict must return an nn.Module, got dict"),
    ],
)
def test_bad_use_raises(act, error, message):
    with pytest.raises(error, match=message):
        act()


def test_a_failed_set_params_changes_nothing():
    factory = nn.ModuleFactory(Net, hidden=5)
    with pytest.raises(ValueError, match="no parameter 'depth'"):
        factory.set_params(hidden=6, depth=2)
    assert factory == nn.ModuleFactory(Net, hidden=5)
