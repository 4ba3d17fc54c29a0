"""Errors name the argument that is not of its annotation's type; nothing else changes."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import sknet
from sknet import autograd, engine, losses, nn, onnx, ops

CIRCULAR: list = []
CIRCULAR.append(CIRCULAR)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: ops.sum([1.0], keepdims=np.zeros(2)), "sum: keepdims must be True or False"),
        (lambda: ops.zeros(10**400), "zeros: shape must be an integer or a sequence"),
        (lambda: ops.ones(-1), "lengths of 0 or more, got -1"),
        (lambda: ops.linalg.matrix_power(np.eye(2), 0.5), "matrix_power: n must be an integer, got 0.5"),
        (lambda: ops.arange(3, step=0), "arange cannot be computed with .*: ZeroDivisionError"),
        (lambda: ops.arange(np.inf), "arange: .* there is no end"),
        (lambda: ops.astype([1.0], "nonsense"), "astype: dtype must be a dtype, got 'nonsense'"),
        (lambda: ops.add([1.0], 10**400), "add: y must be a number of at most 64 bits"),
        (lambda: autograd.vmap(ops.square, CIRCULAR), "vmap: in_axes cannot be read, got"),
        (lambda: autograd.vmap(ops.square, np.timedelta64(3)), "vmap: in_axes must be an integer, None, or"),
        (lambda: autograd.vmap(ops.square, ({"a": 0.5},)), "vmap: in_axes .* got 0.5"),
        (lambda: autograd.gradcheck(ops.sum, CIRCULAR), "gradcheck: inputs cannot be read, got"),
        (
            lambda: autograd.gradcheck(ops.sum, [1.0], atol=np.timedelta64(3)),
            "gradcheck: atol must be a number",
        ),
        (lambda: autograd.gradcheck(ops.sum, [np.ones(2)], step=0), "step must be above 0 .* got step=0.0"),
        (lambda: autograd.gradcheck(ops.sum, [np.ones(2)], random_state=-1), "random_state at least 0"),
        (lambda: autograd.grad(3), "grad: function must be a callable, got 3"),
        (lambda: autograd.hessian(ops.sum, [])(np.ones(2)), "argnums must be the position of an argument"),
        (lambda: sknet.nn.Linear(2, 2).get_parameter(3), "get_parameter: path must be a str, got 3"),
        (
            lambda: sknet.nn.is_lazy(sknet.MLPClassifier()),
            r"is_lazy: module must be an instance of .*Module'",
        ),
        (lambda: sknet.nn.Linear(2, 2).load_state_dict("x" * 10**5), r"(?s)^.{,2100}$"),
        (lambda: losses.check_loss("log_loss", pd.Series([1, 2])), "check_loss: caller must be a str, got"),
        (
            lambda: sknet.nn.Linear(2, 2).register_buffer("a", [1.0], pd.Series([1, 2])),
            "register_buffer: persistent must be True or False, got",
        ),
        (lambda: nn.init.scheme(None, nn.Linear(2, 2), "relu"), "scheme: kind must be one of .* got 'relu'"),
        (lambda: nn.init.scheme("zeros", nn.Linear(2, 2), [1]), r"scheme: kind must be one of .* got \[1\]"),
        (lambda: onnx.export(nn.ReLU(), example=np.ones(3), dtype=[]), "dtype of an exported model must be"),
        (
            lambda: onnx.export(nn.ReLU(), example=np.ones(3), dtype="int8"),
            "one of .* got 'int8'",
        ),
        (
            lambda: sknet.MLPClassifier(sampler=lambda y: y).fit(np.ones((9, 2)), [0, 1, 2] * 3),
            "'sampler' parameter of MLPClassifier must be .* a callable that takes y and sample_weight",
        ),
        (lambda: sknet.freeze(sknet.MLPClassifier), "freeze: estimator must be .* got the class MLPClassif"),
        (
            lambda: engine.compiled_step(nn.Linear(2, 1), np.ones((3, 2)), np.ones((3, 1))),
            r"compiled_step: model must be an instance of .* got Linear\(2, 1\)",
        ),
        (lambda: sknet.nn.is_lazy(3), "is_lazy: module must be an instance of .*Module', got 3"),
    ],
)
def test_public_functions_name_their_arguments(call, expected):
    with pytest.raises((TypeError, ValueError), match=expected):
        call()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", ["predict", "predict_proba", "transform", "decision_function"])
def test_methods_name_data_that_cannot_be_read(method):
    fitted = sknet.MLPClassifier((2,), max_iter=20, random_state=0).fit(np.arange(8.0)[:, None], [0, 1] * 4)
    before = dict(vars(fitted))
    for X in (10**400, [[10**400]]):
        with pytest.raises(ValueError, match=f"{method}: X "):
            getattr(fitted, method)(X)
    assert vars(fitted) == before


def test_functions_are_still_pickled_by_name():
    for function in (ops.relu, ops.linalg.inv, ops.concat):
        assert pickle.loads(pickle.dumps(function)) is function


def test_adaptive_windows_and_differences_end():
    with pytest.raises((ValueError, MemoryError)):
        ops.adaptive_max_pool1d(np.ones((1, 2, 3)), 2**62)
    assert ops.diff(np.arange(4.0), n=10**12).shape == (0,)


def test_underflow_passes_in_fits_and_is_raised_elsewhere_if_asked_for():
    X = np.full((12, 2), 5e-324)
    X[::2] = 1e-320
    estimator = sknet.MLPClassifier((2,), max_iter=1, encoder="table", random_state=0)
    with np.errstate(all="raise"):
        with pytest.warns(ConvergenceWarning):
            estimator.fit(X, [0, 1] * 6).predict_proba(X)
        with pytest.raises(FloatingPointError, match="divide"):
            ops.log(0.0)
