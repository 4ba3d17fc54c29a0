"""Public functions and methods with valid arguments, for cases in which one argument is a bad value."""

import copy
import inspect
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import sknet
from sknet import autograd, display, engine, losses, model_selection, nn, onnx, ops, preprocessing
from sknet.core import as_tensor
from sknet.model_selection import GridSearchCV
from sknet.optim.schedules import Cosine
from sknet.tabular import Members
from tests.contracts.rows import ROWS
from tests.contracts.table import Row

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3))
LABELS = np.arange(12) % 2
VALUES = X[:, 0]
SQUARE = np.array([[2.0, 0.5], [0.5, 1.0]])
FEW = Members(hidden_layer_sizes=[4], epochs=1, per_fold=1)
FOLDER = tempfile.TemporaryDirectory()
COMMON = {"max_iter": 2, "random_state": 0}


def network(n_outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Tanh(), nn.Linear(3, n_outputs))


FITS: dict[str, Callable[[], Any]] = {
    "MLPClassifier": lambda: sknet.MLPClassifier((3,), dropout=0.5, **COMMON),
    "MLPRegressor": lambda: sknet.MLPRegressor((3,), dropout=0.5, n_members=2, **COMMON),
    "MLPRegressor of a distribution": lambda: sknet.MLPRegressor(
        (3,), dropout=0.5, loss="gaussian_nll", **COMMON
    ),
    "NetClassifier": lambda: sknet.NetClassifier(network(2), **COMMON),
    "NetRegressor": lambda: sknet.NetRegressor(network(1), **COMMON),
    "NetTransformer": lambda: sknet.NetTransformer(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 3)), **COMMON),
    "Autoencoder": lambda: sknet.Autoencoder((2,), **COMMON),
    "TabularClassifier": lambda: sknet.TabularClassifier(
        n_folds=2, smooth=FEW, sharp=FEW, n_jobs=1, random_state=0
    ),
    "TabularRegressor": lambda: sknet.TabularRegressor(
        n_folds=2, smooth=FEW, sharp=FEW, n_jobs=1, random_state=0
    ),
    "GridSearchCV": lambda: GridSearchCV(sknet.MLPClassifier((3,), **COMMON), {"alpha": [0.1]}, cv=2),
}
GIVEN: dict[str, Any] = {"X": X, "n_draws": 2, "n_steps": 2, "layer": 0, "target": 0}
METHODS = (
    *("fit", "partial_fit", "predict", "predict_proba", "predict_log_proba", "decision_function", "score"),
    *("transform", "inverse_transform", "predict_samples", "predict_interval", "predict_quantiles"),
    *("predict_std", "input_gradient", "integrated_gradients", "get_feature_names_out", "layer"),
)


class Call(NamedTuple):
    """A function, or a method of an object, and valid arguments by name."""

    name: str
    function: Callable[..., Any]
    arguments: dict[str, Any]
    parameters: tuple[str, ...]
    of: Any = None


def _call(function: Callable[..., Any], called: str = "", instance: Any = None, /, **arguments: Any) -> Call:
    of = instance if instance is not None else getattr(function, "__self__", None)
    found = [
        n
        for n, p in inspect.signature(function).parameters.items()
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    shown = called or f"{function.__module__}.{getattr(function, '__qualname__', '')}"
    return Call(shown, function, arguments, tuple(found), of)


# -- functions --------------------------------------------------------------------------------------------


def _of_op(name: str, row: Row) -> Iterator[Call]:
    function = getattr(ops, name)
    case = max(row.cases, key=lambda c: len(c.params))
    case = next((c for c in (case, *row.cases) if all(np.size(x) for x in c.draw())), case)
    try:
        bound = inspect.signature(function).bind(*case.draw(), **case.params)
    except TypeError:
        return
    arguments = dict(bound.arguments)
    if row.call is None and all(
        p.kind is not p.VAR_POSITIONAL for p in inspect.signature(function).parameters.values()
    ):
        yield _call(function, f"ops.{name}", **arguments)


def _of_ops() -> Iterator[Call]:
    rows = {row.op: row for row in ROWS}
    for name in ops.__all__:
        if name in rows and callable(getattr(ops, name)):
            yield from _of_op(name, rows[name])
    yield _call(ops.arange, start=3)
    yield _call(ops.eye, n_rows=3)
    yield _call(ops.full, shape=(2,), value=1.0)
    yield _call(ops.concat, xs=[X, X])
    yield _call(ops.stack, xs=[X, X])
    yield _call(ops.linspace, start=0.0, stop=1.0, num=3)
    yield _call(ops.ones, shape=(2,))
    yield _call(ops.zeros, shape=(2,))
    yield _call(ops.nonzero, x=X)
    yield _call(ops.unique_values, x=X)
    for name in ops.linalg.__all__:
        function = getattr(ops.linalg, name)
        more = {"n": 2} if name == "matrix_power" else {}
        first, *others = inspect.signature(function).parameters
        more |= {others[0]: SQUARE} if name == "solve" else {}
        yield _call(function, **{first: SQUARE}, **more)


def _square_sum(x: Any) -> Any:
    return ops.sum(ops.square(x))


def _of_functions() -> Iterator[Call]:
    point = as_tensor(X[0])
    for function in (
        autograd.grad,
        autograd.value_and_grad,
        autograd.jacobian,
        autograd.hessian,
        autograd.vmap,
    ):
        names = inspect.signature(function).parameters

        def applied(transform: Any = function, /, **arguments: Any) -> Any:
            return transform(**arguments)(point)

        applied.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        of = ops.square if "in_axes" in names else _square_sum
        yield _call(applied, f"autograd.{function.__name__}", function=of)
    yield _call(autograd.jvp, function=_square_sum, primals=(point,), tangents=(point,))
    yield _call(autograd.hvp, function=_square_sum, primals=(point,), tangents=(point,))
    yield _call(autograd.gradcheck, function=_square_sum, inputs=[X[0]])
    yield _call(preprocessing.pad_sequences, sequences=[[1.0], [2.0, 3.0]])
    yield _call(sknet.config_context)
    yield _call(sknet.freeze, estimator=fitted("MLPClassifier"))
    yield _call(sknet.save, estimator=fitted("MLPClassifier"), path=Path(FOLDER.name, "file"))
    sknet.save(fitted("MLPClassifier"), Path(FOLDER.name, "saved"))
    yield _call(sknet.load, path=Path(FOLDER.name, "saved"))
    yield _call(onnx.export, model=fitted("MLPClassifier"))
    onnx.export(fitted("MLPClassifier"), Path(FOLDER.name, "it.onnx"))
    yield _call(onnx.load, path=Path(FOLDER.name, "it.onnx"))
    search = FITS["MLPClassifier"]()
    for function in (model_selection.cross_validate, model_selection.cross_val_predict):
        yield _call(function, estimator=search, X=X, y=LABELS, cv=2)
    yield _call(model_selection.indexable, X={"a": X})
    yield _call(losses.check_loss, value="log_loss", caller="it")
    module = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    yield _call(nn.functional_call, module=module, values={}, args=(X.astype("float32"),))
    yield _call(nn.from_torch, state_dict=nn.to_torch(module), module=module)
    yield _call(nn.to_torch, module=module)
    yield _call(nn.is_lazy, module=module)
    yield _call(nn.init.scheme, init="he_normal", layer=module, kind="relu")


# -- methods ----------------------------------------------------------------------------------------------


@cache
def fitted(name: str) -> Any:
    """Return a fitted estimator."""
    y = VALUES if "Regressor" in name else LABELS
    return FITS[name]().fit(X, *(() if name in ("Autoencoder", "NetTransformer") else (y,)))


def _targets(name: str) -> dict[str, Any]:
    return {"y": VALUES if "Regressor" in name else LABELS}


def _of_estimators() -> Iterator[Call]:
    for name in FITS:
        for method in METHODS:
            if not hasattr(fitted(name), method):
                continue
            estimator = copy.deepcopy(fitted(name))
            function = getattr(estimator, method)
            names = inspect.signature(function).parameters
            given = {**GIVEN, **_targets(name)}
            if name in ("Autoencoder", "NetTransformer"):
                del given["y"]
            arguments = {n: given[n] for n in names if n in given}
            if method in ("transform", "get_feature_names_out"):
                arguments.pop("layer", None)
            if method == "inverse_transform":
                arguments["X"] = estimator.transform(X)
            if "classes" in names:
                arguments["classes"] = [0, 1]
            yield _call(function, f"{name}.{method}", estimator, **arguments)


def _model() -> Any:
    return sknet.Model(nn.Sequential(nn.Linear(3, 1)), random_state=0)


def _of_models() -> Iterator[Call]:
    model, y = _model(), VALUES[:, None]
    yield _call(sknet.Model, "Model", module=nn.Sequential(nn.Linear(3, 1)))
    yield _call(model.fit, "Model.fit", X=X, y=y, epochs=1)
    yield _call(model.step, "Model.step", X=X, y=y)
    yield _call(model.predict, "Model.predict", X=X)
    yield _call(model.train, "Model.train", batches=[(X, y)], epochs=1)
    yield _call(engine.fit_many, models=[_model(), _model()], X=X, y=y)
    yield _call(engine.compiled_step, model=_model(), X=X, y=y)
    module = nn.Sequential(nn.Linear(3, 1))
    for name, given in {
        "to": {"dtype": "float64"},
        "apply": {"function": lambda m: None},
        "initialize": {},
        "load_state_dict": {"state": module.state_dict()},
        "get_parameter": {"path": "0.weight"},
        "get_submodule": {"path": "0"},
        "train": {},
        "requires_grad_": {},
        "register_buffer": {"name": "a", "value": X},
        "register_module": {"name": "b", "module": nn.ReLU()},
        "register_forward_hook": {"hook": lambda *_: None},
    }.items():
        yield _call(getattr(copy.deepcopy(module), name), f"Module.{name}", **given)
    x = as_tensor(X)
    yield _call(x.to, "Tensor.to", device="cpu")
    yield _call(x.astype, "Tensor.astype", dtype="float32")
    yield _call(lambda shape: x.reshape(shape), "Tensor.reshape", shape=(3, 12))
    yield _call(lambda index: x[index], "Tensor.__getitem__", index=0)


def _of_displays() -> Iterator[Call]:
    classifier, regressor = fitted("MLPClassifier"), fitted("MLPRegressor of a distribution")
    given: dict[str, dict[str, Any]] = {
        "AttributionDisplay": {"estimator": classifier, "X": X, "target": 0},
        "GraphDisplay": {"estimator": classifier},
        "IntervalDisplay": {"estimator": regressor, "X": X},
        "LossCurveDisplay": {"estimator": classifier},
        "WeightsDisplay": {"estimator": classifier},
    }
    for name, arguments in given.items():
        yield _call(getattr(display, name).from_estimator, f"{name}.from_estimator", **arguments)
    yield _call(
        display.LearningRateDisplay.from_schedules,
        "LearningRateDisplay.from_schedules",
        schedules=Cosine(0.1),
    )


@cache
def calls() -> list[Call]:
    """Return all calls."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of short fits
        return [*_of_ops(), *_of_functions(), *_of_estimators(), *_of_models(), *_of_displays()]
