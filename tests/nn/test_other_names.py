"""Errors for names from other libraries suggest sknet's."""

import pickle
import re

import numpy as np
import pytest

import sknet
import sknet.losses
import sknet.optim
from sknet import nn
from sknet.exceptions import InvalidParameterError
from sknet.losses import LOSSES, check_loss
from tests.project import hints

NAMES, ATTRIBUTES = hints("sknet.nn"), hints("sknet.nn.Module")
CLASSES, SYNONYMS = hints("sknet.losses"), hints("loss")


def assert_answered(where, name, message):
    with pytest.raises(AttributeError, match=re.escape(message)):
        getattr(where, name)


@pytest.mark.parametrize("name", NAMES)
def test_layers(name):
    assert_answered(nn, name, f"module 'sknet.nn' has no attribute {name!r}: {NAMES[name]}.")


@pytest.mark.parametrize(
    ("name", "meant"), [("Liner", "Linear"), ("batchnorm", "BatchNorm"), ("GRUcell", "GRUCell")]
)
def test_layers_that_are_misspelt(name, meant):
    with pytest.raises(AttributeError, match=f"no attribute {name!r}. Did you mean .*{meant!r}"):
        getattr(nn, name)


@pytest.mark.parametrize("name", CLASSES)
def test_losses(name):
    message = f"module 'sknet.losses' has no attribute {name!r}: {CLASSES[name]}."
    assert_answered(sknet.losses, name, message)


@pytest.mark.parametrize("name", SYNONYMS)
def test_losses_by_synonyms(name):
    with pytest.raises(InvalidParameterError, match=re.escape(f"Got {name!r} instead: {SYNONYMS[name]}.")):
        check_loss(name, "Model")


def test_losses_of_estimators_by_synonyms():
    with pytest.raises(InvalidParameterError, match="Got 'mae' instead: use 'absolute_error'"):
        sknet.MLPRegressor(loss="mae").fit([[0.0], [1.0]], [0.0, 1.0])


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes_of_modules(name):
    message = f"'Linear' object has no attribute {name!r}: {ATTRIBUTES[name]}"
    assert_answered(nn.Linear(1, 1), name, message)


def test_attributes_that_are_misspelt():
    net = nn.Sequential(nn.Linear(1, 1))
    with pytest.raises(AttributeError, match=r"no attribute 'wieght'\. Did you mean 'weight'"):
        net[0].wieght  # noqa: B018
    with pytest.raises(AttributeError, match=r"object has no attribute '_wieght'$"):
        net[0]._wieght  # noqa: B018


def test_attributes_that_are_asked_for_cost_no_search(monkeypatch):
    """As `hasattr` and `getattr` with a default do, in fits too."""

    def searched(*args):
        raise AssertionError("similar names were searched for")

    monkeypatch.setattr("sknet.nn._module.suggestion", searched)
    net = nn.Linear(2, 3)
    assert not hasattr(net, "wieght")
    assert getattr(net, "get_params", None) is None
    sknet.MLPClassifier((4,)).partial_fit(np.eye(4), [0, 1, 2, 0], classes=range(3))


def test_error_of_an_attribute_travels():
    with pytest.raises(AttributeError) as caught:
        nn.Linear(1, 1).wieght  # noqa: B018
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is AttributeError
    assert str(again) == str(caught.value)


def test_hints_name_what_exists():
    """And they hide no existing name."""
    for text in [*NAMES.values(), *ATTRIBUTES.values()]:
        for name in re.findall(r"\bnn\.(\w+)", text):
            assert name in nn.__all__, text
        for module in ("losses", "optim", "ops"):
            for name in re.findall(rf"\bsknet\.{module}\.(\w+)", text):
                assert name in getattr(sknet, module).__all__, text
        for name in re.findall(r"\bmodule\.(\w+)", text):
            assert hasattr(nn.Module, name), text
    for text in SYNONYMS.values():
        assert all(name in LOSSES for name in re.findall(r"'(\w+)'", text)), text
    for text in CLASSES.values():
        assert re.match(r"use (\w+)", text)[1] in sknet.losses.__all__, text
    assert not set(NAMES) & set(nn.__all__)
    assert not set(CLASSES) & set(sknet.losses.__all__)
    assert not set(SYNONYMS) & set(LOSSES)
    assert not [name for name in ATTRIBUTES if hasattr(nn.Sequential(), name)]
