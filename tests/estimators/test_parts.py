"""Parts of a stream that are like the one before, for which nothing is decided anew."""

import pickle
import pkgutil
import signal
import time
import weakref

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import sknet
from sknet import neural_network
from sknet.exceptions import FitInterruptedWarning, NonFiniteError
from sknet.optim import SGD
from tests.estimators.data import same_bits

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 40, 4))
LABELS = {
    "binary": (X[..., 0] > 0).astype(int),
    "multiclass": np.digitize(X[..., 0], [-0.5, 0.5]),
    "regression": X[..., 0] * 100 + 7,
}
KINDS = [(module, task) for module in (sknet, neural_network) for task in LABELS]


class Classifier(sknet.MLPClassifier):
    """Not a class of sknet's own, so that everything is decided for each part."""


class Regressor(sknet.MLPRegressor):
    """Not a class of sknet's own."""


class DropInClassifier(neural_network.MLPClassifier):
    """Not a class of sknet's own."""


class DropInRegressor(neural_network.MLPRegressor):
    """Not a class of sknet's own."""


OTHERS = {
    (sknet, False): Classifier,
    (sknet, True): Regressor,
    (neural_network, False): DropInClassifier,
    (neural_network, True): DropInRegressor,
}


def pair(module, task, **params):
    """Return an estimator, one of another class, and the arguments of a first part."""
    is_regression = task == "regression"
    own = module.MLPRegressor if is_regression else module.MLPClassifier
    more = {} if is_regression else {"classes": np.unique(LABELS[task])}
    kinds = own, OTHERS[module, is_regression]
    return [kind(**{"hidden_layer_sizes": (8,), "random_state": 0, **params}) for kind in kinds], more


def same(one, other):
    assert same_bits(one, other)
    assert one.history_.keys() == other.history_.keys()
    for name in one.history_.keys() - {"time"}:
        assert one.history_[name] == other.history_[name]
    for name in ("t_", "loss_", "best_loss_", "n_iter_", "loss_curve_"):
        assert getattr(one, name) == getattr(other, name)


@pytest.mark.parametrize("native", ["auto", "never"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("options", [{}, {"batch_size": 15}, {"batch_size": 8, "shuffle": False}])
@pytest.mark.parametrize(("module", "task"), KINDS)
def test_parts_are_as_if_all_was_decided_anew(module, task, options, dtype, native):
    both, more = pair(module, task, **options)
    with sknet.config_context(native=native):
        for rows, y in zip(X.astype(dtype), LABELS[task], strict=True):
            for each in both:
                each.partial_fit(rows, y, **more)
            same(*both)


@pytest.mark.parametrize(("module", "task"), KINDS)
def test_rows_are_neither_written_to_nor_kept(module, task):
    [one, _], more = pair(module, task)
    for rows, y in zip(X.astype(np.float32), LABELS[task], strict=True):
        given = rows.copy(), y.copy()
        before = [array.copy() for array in given]
        one.partial_fit(*given, **more)
        for array, was in zip(given, before, strict=True):
            np.testing.assert_array_equal(array, was)
        references = [weakref.ref(array) for array in given]
        del given, array
        assert all(reference() is None for reference in references)


def test_a_part_that_fails_leaves_everything_and_later_ones_go_on():
    both, more = pair(sknet, "regression", scale_inputs=False, scale_target=False)
    y = LABELS["regression"]
    for _ in range(3):
        for each in both:
            each.partial_fit(X[0], y[0], **more)
    large = X[1] * 1e200
    for each in both:
        with pytest.raises(NonFiniteError):
            each.partial_fit(large, y[1])
    same(*both)
    for rows, targets in zip(X[:3], y[:3], strict=True):
        for each in both:
            each.partial_fit(rows, targets)
        same(*both)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_wrong_with_a_later_part_is_said(wrong):
    [one, other], more = pair(sknet, "binary")
    y = LABELS["binary"][0]
    for _ in range(3):
        one.partial_fit(X[0], y, **more)
        other.partial_fit(X[0], y, **more)
    bad = X[0].copy()
    bad[3, 2] = wrong
    with pytest.raises(ValueError, match="Input X contains"):
        one.partial_fit(bad, y)
    with pytest.raises(ValueError, match="classes not in"):
        one.partial_fit(X[0], y + 1)
    same(one.partial_fit(X[1], y), other.partial_fit(X[1], y))


@pytest.mark.parametrize(
    ("attribute", "value", "said"),
    [
        ("n_features_in_", 7, "expecting 7 features"),
        ("n_outputs_", 5, "the network that was fitted has 5"),
        ("classes_", np.array([3, 4]), None),
        ("out_activation_", "other", None),
        ("n_iter_", 40, None),
        ("loss_curve_", [1.0], None),
        ("best_loss_", -1.0, None),
    ],
)
def test_overwritten_attributes_count_as_where_all_is_decided_anew(attribute, value, said):
    both, more = pair(sknet, "binary")
    for each in both:
        for _ in range(3):
            each.partial_fit(X[0], LABELS["binary"][0], **more)
        setattr(each, attribute, value)
        if said is not None:
            with pytest.raises(ValueError, match=said):
                each.partial_fit(X[1], LABELS["binary"][1])
        else:
            each.partial_fit(X[1], LABELS["binary"][1])
    one, other = both
    assert repr(getattr(one, attribute)) == repr(getattr(other, attribute))
    same(one, other)


def counted_compilations(monkeypatch):
    calls, place = [], "sknet.engine._runner_cache.steps_for"
    made = pkgutil.resolve_name(place)
    monkeypatch.setattr(place, lambda *args, **options: calls.append(place) or made(*args, **options))
    return calls


FORMS = {
    "arrays": lambda X: X,
    "lists": lambda X: X.tolist(),
    "integers": lambda X: (X * 100).astype(int),
    "half precision": lambda X: X.astype(np.float16),
    "a frame": lambda X: pd.DataFrame(X, columns=list("abcd")),
}


@pytest.mark.parametrize("params", [{}, {"optimizer": SGD(0.1)}], ids=["plain", "an object"])
@pytest.mark.parametrize("form", FORMS)
def test_steps_are_compiled_once_for_parts_in_any_form(form, params, monkeypatch):
    calls = counted_compilations(monkeypatch)
    clf = sknet.MLPClassifier((8,), random_state=0, **params)
    y, counts = LABELS["binary"], []
    for number in range(5):
        clf.partial_fit(FORMS[form](X[number]), y[number], classes=[0, 1])
        counts.append(len(calls))
    assert counts[0] > 0
    assert counts[-1] == counts[0]


@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names")
def test_steps_are_compiled_once_for_parts_in_forms_that_alternate(monkeypatch):
    calls = counted_compilations(monkeypatch)
    both, more = pair(sknet, "binary")
    counts = []
    for number in range(8):
        rows, y = X[number % 5], LABELS["binary"][number % 5]
        for each in both:
            each.set_params(tol=1e-4 if number < 6 else 1e-3)
            each.partial_fit(rows if number % 2 else rows.tolist(), y, **more)
        same(*both)
        counts.append(len(calls))
    assert counts[0] > 0
    assert counts[-1] == counts[0]


def test_a_rate_that_is_set_in_the_model_is_undone_as_everywhere():
    both, more = pair(sknet, "multiclass")
    y = LABELS["multiclass"]
    for number in range(4):
        for each in both:
            each.partial_fit(X[number], y[number], **more)
            each.model_.optimizer.lr = 0.05
    same(*both)


def test_a_copy_goes_on_by_itself():
    [one, other], more = pair(sknet, "multiclass")
    for rows, y in zip(X[:3], LABELS["multiclass"][:3], strict=True):
        one.partial_fit(rows, y, **more)
        other.partial_fit(rows, y, **more)
    copied = pickle.loads(pickle.dumps(one))
    rows, y = X[3], LABELS["multiclass"][3]
    one.partial_fit(rows, y)
    for each in (copied, other):
        each.partial_fit(rows, y)
        same(each, one)
    assert not hasattr(clone(one), "model_")


def test_ctrl_c_in_a_later_part(monkeypatch):
    """It comes when the epoch begins, and is answered before the first step."""
    both, more = pair(sknet, "binary")
    y, clock = LABELS["binary"][0], time.perf_counter

    def press():
        monkeypatch.setattr(time, "perf_counter", clock)
        signal.raise_signal(signal.SIGINT)
        return clock()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for each in both:
            for _ in range(3):
                each.partial_fit(X[0], y, **more)
            monkeypatch.setattr(time, "perf_counter", press)
            with pytest.warns(FitInterruptedWarning, match="after 0 whole epochs"):
                each.partial_fit(X[1], y)
            assert each.n_iter_ == 0
    finally:
        signal.signal(signal.SIGINT, before)
    same(*both)
    for each in both:
        each.partial_fit(X[2], y)
    same(*both)
