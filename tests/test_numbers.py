"""Numbers of NumPy are numbers, in every parameter of every public class."""

import inspect
from collections.abc import Iterator
from numbers import Real
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import sknet
from sknet import Model, callbacks, losses, model_selection, neural_network, nn, optim
from sknet.nn import init
from sknet.optim import schedules
from tests.arguments import ARGUMENTS

MODULES = (sknet, nn, init, losses, optim, schedules, callbacks, model_selection, neural_network)
TOGETHER = {nn.Upsample: {"scale_factor": 2.0}, optim.Groups: {"groups": {}}}  # what a class needs
INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
FLOATS = (np.float16, np.float32, np.float64, np.longdouble)


def classes() -> Iterator[type]:
    found = {}
    for module in MODULES:
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, type) and value is not neural_network.BernoulliRBM:
                found[value] = None
    for cls in found:
        has_parameters = issubclass(cls, nn.Module) or hasattr(cls, "get_params")
        if has_parameters and not inspect.isabstract(cls):
            yield cls


def cases() -> Iterator[tuple[type, str, Any]]:
    """Yield classes with the names of parameters that are numbers, and numbers for them."""
    for cls in classes():
        for name, p in inspect.signature(cls).parameters.items():
            default = ARGUMENTS.get(name) if p.default is p.empty else p.default
            if cls is not optim.Groups and isinstance(default, Real) and p.kind is not p.VAR_POSITIONAL:
                yield cls, name, default


CASES = list(cases())


def made(cls: type, **given: Any) -> Any:
    needed = {
        name: ARGUMENTS[name]
        for name, p in inspect.signature(cls).parameters.items()
        if p.default is p.empty and p.kind is not p.VAR_POSITIONAL and p.kind is not p.VAR_KEYWORD
    }
    return cls(**needed | TOGETHER.get(cls, {}) | given)


def kinds_for(value: Any) -> tuple[type, ...]:
    if isinstance(value, (bool, np.bool_)):
        return (np.bool_,)
    if isinstance(value, int):
        return tuple(kind for kind in INTEGERS if np.iinfo(kind).min <= value <= np.iinfo(kind).max)
    return FLOATS


def test_there_are_many():
    assert len(CASES) > 500
    assert len({cls for cls, _, _ in CASES}) > 120


@pytest.mark.parametrize("cls", sorted({cls for cls, _, _ in CASES}, key=str), ids=str)
def test_numbers_of_numpy_are_stored_as_numbers_of_python(cls):
    for name, value in [case[1:] for case in CASES if case[0] is cls]:
        for kind in kinds_for(value):
            found = made(cls, **{name: kind(value)})
            stored = getattr(found, name, value) if not isinstance(found, nn.Lazy) else value
            assert type(stored) in (bool, int, float, type(None)) or not isinstance(stored, Real), (
                name,
                kind,
            )
            if isinstance(found, nn.Module):
                assert repr(found) == repr(made(cls, **{name: plain(kind(value))})), (name, kind)
            else:
                found = made(cls)
                setattr(found, name, kind(value))
                assert type(getattr(found, name)) is type(plain(kind(value)))
                found.set_params(**{name: kind(value)})
                assert type(getattr(found, name)) is type(plain(kind(value)))


@pytest.mark.parametrize("cls", sorted({cls for cls, _, _ in CASES}, key=str), ids=str)
def test_durations_of_numpy_are_no_numbers(cls):
    # NumPy derives them from its integers, and those of nanoseconds even become some.
    for name, value in [case[1:] for case in CASES if case[0] is cls]:
        for unit in () if isinstance(value, bool) else ("ns", "s"):
            with pytest.raises((ValueError, TypeError), match=f"{name}.*timedelta64"):
                used(made(cls, **{name: np.timedelta64(3, unit)}))


def used(instance: Any) -> None:
    if hasattr(instance, "fit"):
        instance.fit(np.ones((12, 3)), np.arange(12) % 2)
    elif not isinstance(instance, nn.Module):
        instance.validate()


def plain(value: Any) -> Any:
    return float(value) if isinstance(value, np.floating) else value.item()


def test_numbers_in_lists_tuples_and_dicts():
    clf = sknet.MLPClassifier((np.int8(100), np.uint64(50)), class_weight={"a": np.float32(0.5)})
    assert repr(clf.hidden_layer_sizes) == "(100, 50)"
    assert repr(clf.class_weight) == "{'a': 0.5}"
    assert repr(clone(clf)) == repr(clf)
    assert repr(losses.Quantile([np.float64(0.1), np.float64(0.9)]).quantile) == "[0.1, 0.9]"
    assert repr(nn.Conv2d(1, 2, (np.int8(3), np.int64(3))).kernel_size) == "(3, 3)"


def test_other_values_are_stored_as_they_are():
    sizes, weights = [5, 3], {"a": 0.5}
    clf = sknet.MLPClassifier(sizes, class_weight=weights)
    assert clf.hidden_layer_sizes is sizes
    assert clf.class_weight is weights
    labels = np.array(["a", "b"])
    assert losses.Ordinal(labels).get_params()["order"] is labels


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:The total space")
@pytest.mark.parametrize(
    "fit",
    [
        lambda n: model_selection.HyperbandSearchCV(
            sknet.MLPClassifier((3,), random_state=0),
            {"alpha": [0.1, 1.0]},
            cv=2,
            max_resources=9,
            factor=n(3),
        ),
        lambda n: sknet.MLPClassifier(
            (3,), optimizer=optim.Accumulate(optim.Adam(), every=n(2)), max_iter=n(2), random_state=n(0)
        ),
        lambda n: sknet.MLPClassifier(
            (3,), optimizer=optim.LBFGS(memory=n(20)), max_iter=2, random_state=n(0)
        ),
        lambda n: sknet.TabularClassifier(members=n(2), budget=0.01, random_state=n(0)),
        lambda n: sknet.MLPClassifier(
            (n(3),), batch_size=n(50), max_iter=n(2), n_iter_no_change=n(100), random_state=n(0)
        ),
    ],
)
def test_fits_with_numbers_of_numpy(fit):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    expected = fit(int).fit(X, y).predict_proba(X) if fit(int).__class__.__name__[0] != "H" else None
    for kind in (np.int8, np.uint64):
        fitted = fit(kind).fit(X, y)
        if expected is not None:
            np.testing.assert_array_equal(fitted.predict_proba(X), expected)


def test_arguments_of_models_may_be_numbers_of_numpy():
    X = np.random.default_rng(0).normal(size=(20, 3))

    def trained(whole, real):
        model = Model(nn.Linear(3, 1), alpha=real(0.25), random_state=whole(3))
        model.fit(X, X[:, :1], epochs=whole(2), batch_size=whole(8))
        model.train([(X, X[:, :1])], epochs=whole(2), steps_per_epoch=whole(1))
        return model.predict(X)

    for whole in INTEGERS:
        np.testing.assert_array_equal(trained(whole, np.float16), trained(int, float))
