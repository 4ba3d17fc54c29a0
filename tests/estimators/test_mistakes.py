"""Errors for common mistakes say what to write instead."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score

import sknet
from sknet import (
    Autoencoder,
    MLPClassifier,
    MLPRegressor,
    Model,
    NetClassifier,
    callbacks,
    neural_network,
    nn,
)
from sknet.callbacks import Callback, Checkpoint, EarlyStopping, ProgressBar
from sknet.exceptions import DeviceError
from tests.estimators.data import quiet

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4))
Y = (X[:, 0] > 0).astype(int)


class Net(nn.Module):
    def __init__(self, n_features, n_outputs):
        self.layer = nn.Linear(n_features, n_outputs)

    def forward(self, x):
        return self.layer(x)


class Two(nn.Module):
    def __init__(self, n_outputs):
        self.layer = nn.Linear(4, n_outputs)

    def forward(self, left, right):
        return self.layer(left) + self.layer(right)


def fit(estimator, *args, **kwargs):
    with quiet():
        return estimator.fit(*args or (X, Y), **kwargs)


def mlp(**params):
    return MLPClassifier((4,), **{"max_iter": 2, **params})


ARGUMENTS = [
    (
        {"validation_data": (X, Y)},
        r"MLPClassifier.fit has no argument 'validation_data': .* as X_val and y_val",
    ),
    ({"eval_set": [(X, Y)]}, "pass validation rows as X_val and y_val"),
    ({"epochs": 3}, r"'epochs': use max_iter, a parameter of MLPClassifier\(...\)"),
    ({"batch_size": 8}, r"it is a parameter of the estimator, MLPClassifier\(batch_size=...\)"),
    ({"verbose": 1}, r"it is a parameter of the estimator, MLPClassifier\(verbose=...\)"),
    ({"sample_weights": Y}, "use sample_weight"),
    ({"lengths": Y}, r"for sequences use your own network, NetClassifier\(MyNet\)"),
    ({"ckpt_path": "x"}, "use resume_from"),
    ({"X_vall": X}, r"Did you mean 'X_val'.*\?$"),
    ({"qqq": X}, r"no argument 'qqq'. Its arguments are X, y, sample_weight, X_val"),
]


@pytest.mark.parametrize(("given", "message"), ARGUMENTS)
def test_arguments_of_fit_in_other_libraries(given, message):
    with pytest.raises(TypeError, match=message):
        fit(mlp(), X, Y, **given)


@pytest.mark.parametrize(
    "kind",
    [MLPRegressor, NetClassifier, Autoencoder, neural_network.MLPClassifier, neural_network.MLPRegressor],
)
def test_every_estimator_names_itself(kind):
    estimator = kind(Net) if kind is NetClassifier else kind()
    with pytest.raises(
        TypeError, match=f"{kind.__name__}.fit has no argument 'eval_set': pass validation rows"
    ):
        estimator.fit(X, Y, eval_set=[(X, Y)])


VALUES = [
    ({"early_stopping": EarlyStopping(patience=3)}, r"Pass it as callbacks=\[EarlyStopping\(patience=3\)\]"),
    ({"early_stopping": 5}, "For patience use early_stopping=True, n_iter_no_change=5"),
    ({"batch_size": None}, r"For all rows at once use batch_size=len\(X\)"),
    ({"early_stopping": True, "validation_fraction": 0}, "To hold out no rows, use early_stopping=False"),
    ({"early_stopping": True, "validation_fraction": 8}, r"ShuffleSplit\(1, test_size=8\)"),
    ({"callbacks": {"bar": ProgressBar()}}, "must be a list of callbacks.* only the values, in a list"),
    ({"callbacks": [("bar", ProgressBar())]}, r"callbacks have no names: pass ProgressBar\(\)"),
    ({"callbacks": ["progress_bar"]}, r"not a callback: see sknet.callbacks.* derives from Callback"),
    ({"callbacks": [print]}, r"not a callback: see sknet.callbacks.* derives from Callback"),
    ({"callbacks": [ProgressBar]}, r"callbacks\[0\] of MLPClassifier is a class. Pass an object: Progress"),
    ({"callbacks": ProgressBar}, r"must not be a class.* pass an object, ProgressBar\(...\)"),
    ({"scoring": "r2_score"}, "use 'r2'"),
    ({"scoring": "accuracy_score"}, "use 'accuracy'"),
    ({"scoring": "mse"}, "use 'neg_mean_squared_error'"),
    ({"scoring": accuracy_score}, r"give make_scorer\(accuracy_score"),
    ({"early_stopping": True, "monitor": "roc_auc"}, r"must be one of \['loss', 'score'\], which are"),
    ({"device": "gpu"}, r"unknown device 'gpu': expected one of .*: use 'cuda'"),
]  # fmt: skip


@pytest.mark.parametrize(("params", "message"), VALUES)
def test_values_of_parameters(params, message):
    estimator = mlp(**params)
    with pytest.raises((ValueError, DeviceError), match=message):
        fit(estimator)
    assert not hasattr(estimator, "model_")


MODULES = [
    (Model(nn.LazyLinear(1)), "A Model owns a network: give that, model.module, or its class"),
    (Model, "A Model owns a network"),
    (MLPClassifier(), "An estimator is not a network; one that is fitted has one, model_.module"),
    ((100,), r"Sizes of layers are for MLPClassifier and MLPRegressor; layers are joined by nn.Sequential"),
    ("mlp", "must be a class of modules"),
    (None, "must be a class of modules"),
]


@pytest.mark.parametrize(("module", "message"), MODULES, ids=lambda x: type(x).__name__)
def test_objects_that_are_not_networks(module, message):
    with pytest.raises(TypeError, match=message):
        fit(NetClassifier(module))


def test_modules_of_pytorch_are_not_networks():
    torch = pytest.importorskip("torch", reason="these are PyTorch's modules: install scikit-neural[oracle]")
    with pytest.raises(TypeError, match=r"sknet modules: sknet\.nn has layers of the same"):
        fit(NetClassifier(torch.nn.Linear(4, 1)))
    with pytest.raises(TypeError, match="PyTorch modules are not sknet modules"):
        fit(NetClassifier(torch.nn.Linear))


INPUTS = [
    (
        mlp(),
        {"a": X},
        TypeError,
        r"a table was expected, .* got a dict of \['a'\]: join .* NetClassifier\(MyNet\)",
    ),
    (
        NetClassifier(Two),
        {"left": X, "right": X[:5]},
        ValueError,
        r"inconsistent .*: {'left': 40, 'right': 5}",
    ),
    (NetClassifier(Two), {"left": X, "rihgt": X}, ValueError, r"no input 'rihgt'. Did you mean 'right'\?"),
]


@pytest.mark.parametrize(("estimator", "inputs", "error", "message"), INPUTS)
def test_inputs(estimator, inputs, error, message):
    with pytest.raises(error, match=message):
        fit(estimator, inputs, Y)


def test_a_dict_for_a_fitted_table():
    net = fit(mlp())
    with pytest.raises(TypeError, match="a table was expected"):
        net.predict({"a": X})
    with pytest.raises(TypeError, match="X_val and y_val do not fit X and y: a table was expected"):
        fit(mlp(early_stopping=True), X, Y, X_val={"a": X}, y_val=Y)


def test_the_first_part_has_all_classes():
    with pytest.raises(
        ValueError, match=r"classes must be passed .*: classes=\[...\], all labels that will occur"
    ):
        mlp().partial_fit(X, Y, [0, 1])


def test_invalid_resume_from():
    with pytest.raises(
        TypeError, match=r"resume_from must be the path .* got True; Checkpoint\(path, resume=True\)"
    ):
        fit(mlp(), X, Y, resume_from=True)


# -- callbacks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("on_batch_end", "use on_block_end, with steps_per_block = 1"),
        ("on_train_begin", "use on_fit_begin"),
        ("on_train_epoch_end", "use on_epoch_end"),
        ("on_epoch_ends", "Did you mean 'on_epoch_end'"),
        ("on_nothing", "The hooks are on_fit_begin, on_epoch_begin, on_block_end, on_epoch_end, on_fit_end"),
    ],
)
def test_a_misnamed_hook(name, hint):
    with pytest.raises(TypeError, match=f"Mine has a method '{name}', which no fit calls.*{hint}"):
        type("Mine", (Callback,), {name: lambda self, fit: None})


@pytest.mark.parametrize(
    ("kind", "name", "hint"),
    [
        (EarlyStopping, "min_delta", "use tol"),
        (EarlyStopping, "mode", "use higher_is_better"),
        (EarlyStopping, "restore_best_weights", "use restore_best"),
        (Checkpoint, "filepath", "use path"),
        (Checkpoint, "save_freq", "use every"),
        (Checkpoint, "save_best_only", "the last and the best are always kept"),
        (callbacks.TimeLimit, "max_time", "use seconds"),
    ],
)
def test_parameters_of_callbacks_in_other_libraries(kind, name, hint):
    with pytest.raises(TypeError, match=f"{kind.__name__} has no parameter '{name}': .*{hint}"):
        kind(**{name: 1})


@pytest.mark.parametrize("callback", [ProgressBar(), ProgressBar, EarlyStopping(patience=3)], ids=str)
def test_callbacks_are_passed_as_a_parameter(callback):
    shown = (
        "ProgressBar\\(...\\)"
        if callback is ProgressBar
        else repr(callback).replace("(", r"\(").replace(")", r"\)")
    )
    with pytest.raises(
        TypeError, match=rf"one of sknet's: give it as MLPClassifier\(callbacks=\[{shown}\]\), or"
    ):
        sknet.MLPClassifier().set_callbacks(callback)
    with pytest.raises(TypeError, match=rf"one of sknet's: give it as fit\(X, y, callbacks=\[{shown}\]\)"):
        neural_network.MLPClassifier().set_callbacks(callback)
