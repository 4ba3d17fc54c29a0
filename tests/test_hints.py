"""Errors for names from other libraries, and for misspelt ones, suggest the right name."""

import difflib
import inspect
import pickle
import re
import sys

import pytest

import sknet
import sknet.losses
import sknet.ops
import sknet.optim
from sknet import callbacks, neural_network, nn, optim
from sknet.callbacks import Callback
from sknet.losses import Huber, LogLoss, Quantile
from sknet.nn import init
from sknet.optim import EMA, LBFGS, SGD, Adam, Lookahead, Muon, RMSprop, schedules
from sknet.optim.schedules import Cosine, OneCycle, Schedule, Step, WarmUp
from tests.project import hint_tables, hints

ESTIMATORS = (
    sknet.MLPClassifier,
    sknet.MLPRegressor,
    neural_network.MLPClassifier,
    neural_network.MLPRegressor,
)
MODULES = (optim, schedules, sknet.losses, init)
CLASSES = [
    found
    for module in MODULES
    for found in (getattr(module, name) for name in module.__all__)
    if isinstance(found, type) and hasattr(found, "_get_param_names")
]


def advice_for(cls):
    """Return what the tables of a class and its family say, by the names of parameters that it lacks."""
    found = {}
    for base in reversed(cls.__mro__):
        found |= hints(f"class {base.__name__}")
    return {name: text.format(cls.__name__) for name, text in found.items()}


@pytest.mark.parametrize(
    ("cls", "name", "hint"),
    [
        (Adam, "betas", "use beta1 and beta2."),
        (Adam, "learning_rate", "use lr."),
        (Adam, "epsilon", "use eps."),
        (Adam, "weight_decay", "wrap it, WeightDecay(Adam(...), 0.01), or use AdamW."),
        (SGD, "weight_decay", "wrap it, WeightDecay(SGD(...), 0.01), or use AdamW."),
        (SGD, "clipnorm", "wrap it, ClipNorm(SGD(...), 1.0)."),
        (RMSprop, "alpha", "use rho."),
        (Lookahead, "alpha", "use part."),
        (Muon, "ns_steps", "use n_iterations."),
        (EMA, "lr", "pass it to the wrapped optimizer, EMA(Adam(lr=1e-3))."),
        (LBFGS, "history_size", "use memory."),
        (Cosine, "T_max", "use n_steps."),
        (Cosine, "optimizer", "a schedule is the learning rate of an optimizer: Adam(lr=Cosine(...))."),
        (OneCycle, "max_lr", "use lr."),
        (schedules.Cyclic, "max_lr", "use peak_lr."),
        (Step, "step_size", "use every."),
        (Step, "gamma", "use factor."),
        (WarmUp, "warmup_steps", "use n_steps."),
        (LogLoss, "reduction", "leave it out: a loss returns one value per sample, a Model averages them."),
        (Huber, "beta", "use delta."),
        (Quantile, "alpha", "use quantile."),
    ],
    ids=str,
)
def test_a_parameter_by_another_librarys_name(cls, name, hint):
    known = list(inspect.signature(cls).parameters)
    required = {"optimizer": SGD(), "lr": 0.1, "peak_lr": 0.2, "n_steps": 3, "every": 2}
    given = {key: value for key, value in required.items() if key in known}
    with pytest.raises(TypeError, match=re.escape(f"{cls.__name__} has no parameter {name!r}: {hint}") + "$"):
        cls(**given, **{name: 1})
    with pytest.raises(ValueError, match=rf"Invalid parameter {name!r} .*: {re.escape(hint)}$"):
        cls(**given).set_params(**{name: 1})


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_class_names_its_parameters(cls):
    """An unknown name, and each known one with a letter too many."""
    names = sorted(cls._get_param_names())
    if inspect.isabstract(cls) or not names:
        return
    with pytest.raises(
        TypeError, match=f"{cls.__name__} has no parameter 'qqq'. Its parameters are {names[0]}"
    ):
        cls(qqq=1)
    long = [name for name in names if len(name) > 2]
    for name in long:
        with pytest.raises(TypeError, match=rf"has no parameter '{name}x'. Did you mean .*'{name}'.*\?$"):
            cls(**{f"{name}x": 1})


def test_parameters_of_parts_are_set_afterwards():
    message = r"'module__channels': set it afterwards, by set_params\(module__channels=\.\.\.\)$"
    with pytest.raises(TypeError, match=message):
        sknet.NetClassifier("conv", module__channels=4)


def test_an_optimizer_is_not_given_the_parameters():
    message = r"Adam has no parameter 'params': .* Model\(module, optimizer=Adam\(\.\.\.\)\)"
    with pytest.raises(TypeError, match=message):
        Adam(iter([]), lr=0.1)
    with pytest.raises(TypeError, match="multiple values for argument 'lr'"):
        Cosine(0.1, lr=0.1)


def test_the_errors_of_a_constructor_itself_stay():
    class Picky(Schedule):
        def __init__(self, size):
            self.size = len(size)

        def __call__(self, progress):
            return 0.1

    with pytest.raises(TypeError, match="has no len"):
        Picky(size=3)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'size'"):
        Picky()


def test_the_signature_stays():
    assert list(inspect.signature(Adam).parameters) == ["lr", "beta1", "beta2", "eps"]


@pytest.mark.parametrize("make", [lambda **k: sknet.MultiHeadNet(None, {}, **k), sknet.TabularRegressor])
def test_calibration_is_that_of_other_estimators(make):
    with pytest.raises(TypeError, match=r"no parameter 'calibrate': .*Regressor and .*Classifier have it"):
        make(calibrate="conformal")


def test_the_table_names_what_exists():
    ours = {name for cls in CLASSES for name in cls._get_param_names()}
    renamed = hints("class parameters").values()
    assert {new for names in renamed for new in re.split(", | and ", names)} <= ours
    public_ones = [sknet.MLPClassifier, sknet.MultiHeadNet, sknet.NetClassifier, sknet.TabularClassifier]
    kinds = [*CLASSES, *ESTIMATORS, *public_ones]
    bases = {base.__name__ for kind in (*kinds, Callback, sknet.Model) for base in kind.__mro__}
    families = {name.removeprefix("class ") for name in hint_tables() if name.startswith("class ")}
    assert families - {"parameters"} <= bases
    assert len(families) == 12
    public = {name for module in (sknet, *MODULES) for name in module.__all__}
    for cls in (Adam, Cosine, LogLoss, EMA, *ESTIMATORS):
        for text in advice_for(cls).values():
            names = re.findall(r"\b(?:nn\.)?([A-Z]\w+)\(", text)
            assert {name for name in names if not hasattr(nn, name)} <= public
    # Parameters that a text says to use are parameters.
    for cls in ESTIMATORS:
        known = {name for kind in ESTIMATORS for name in kind._get_param_names()}
        uses = [re.match(r"use (\w+)(?: and (\w+))?", text) for text in advice_for(cls).values()]
        assert {name for found in uses if found for name in found.groups() if name} <= known


@pytest.mark.parametrize(
    ("cls", "name", "hint"),
    [
        (sknet.MLPClassifier, "solver", "use optimizer."),
        (sknet.MLPRegressor, "learning_rate_init", "use lr."),
        (sknet.MLPClassifier, "learning_rate", "use lr."),
        (sknet.MLPClassifier, "beta_1", "it belongs to the optimizer, optimizer=Adam(beta1=...)."),
        (sknet.MLPClassifier, "momentum", "it belongs to the optimizer, optimizer=SGD(momentum=...)."),
        (sknet.MLPClassifier, "max_fun", "it belongs to the optimizer, optimizer=LBFGS(max_fun=...)."),
        (sknet.MLPClassifier, "criterion", "use loss."),
        (
            sknet.MLPClassifier,
            "n_estimators",
            "max_iter is the number of epochs, n_members that of the networks",
        ),
        (sknet.MLPClassifier, "iterations", "use max_iter."),
        (sknet.MLPClassifier, "early_stopping_rounds", "use n_iter_no_change."),
        (sknet.MLPClassifier, "l2_leaf_reg", "use alpha."),
        (sknet.MLPClassifier, "scale_pos_weight", "use class_weight, a parameter of classifiers."),
        (sknet.MLPClassifier, "cat_features", "use encoder=TableEncoder(categorical_features=[...])."),
        (sknet.MLPRegressor, "categorical_feature", "use encoder=TableEncoder(categorical_features=[...])."),
        (
            sknet.MLPClassifier,
            "eval_set",
            "pass validation rows to fit, fit(X, y, X_val=X_val, y_val=y_val).",
        ),
        (
            sknet.MLPClassifier,
            "num_leaves",
            "leave it out: it is a parameter of trees, and this is a network.",
        ),
        (sknet.MLPClassifier, "epochs", "use max_iter."),
        (sknet.MLPClassifier, "hidden_units", "use hidden_layer_sizes."),
        (sknet.MLPClassifier, "weight_decay", "alpha is the strength of the L2 penalty; decoupled weight "),
        (sknet.MLPClassifier, "scheduler", "the optimizer's learning rate can be a schedule, "),
        (sknet.MLPRegressor, "patience", "use n_iter_no_change."),
        (sknet.MLPRegressor, "hiden_layer_sizes", None),
        (neural_network.MLPClassifier, "optimizer", 'use solver="adam", "sgd" or "lbfgs"; sknet.MLPClass'),
        (neural_network.MLPClassifier, "lr", "use learning_rate_init."),
        (neural_network.MLPRegressor, "eps", "use epsilon."),
        (neural_network.MLPRegressor, "dropout", "only sknet.MLPRegressor has it, this does not."),
        (neural_network.MLPRegressor, "n_epochs", "use max_iter."),
    ],
    ids=str,
)
def test_a_parameter_of_an_estimator_by_another_name(cls, name, hint):
    said = ". Did you mean 'hidden_layer_sizes'?" if hint is None else f": {hint}"
    with pytest.raises(TypeError, match=re.escape(f"{cls.__name__} has no parameter {name!r}{said}")):
        cls(**{name: 1})
    before = cls()
    for key in (name, f"{name}__inner"):
        with pytest.raises(
            ValueError, match=re.escape(f"Invalid parameter {name!r} for estimator {cls.__name__}(){said}")
        ):
            before.set_params(max_iter=7, **{key: 1})
        assert before.max_iter == 200


def test_every_other_name_of_an_estimators_parameter_has_advice():
    for cls in ESTIMATORS:
        for name, advice in advice_for(cls).items():
            if name not in cls._get_param_names():
                with pytest.raises(TypeError, match=rf"has no parameter {name!r}: \w") as caught:
                    cls(**{name: 1})
                assert advice in str(caught.value) or "use " in str(caught.value)


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (callbacks, hints("sknet.callbacks")),
        (optim, hints("sknet.optim")),
        (schedules, hints("sknet.optim.schedules")),
        (sknet.ops.linalg, hints("sknet.ops.linalg")),
    ],
    ids=["callbacks", "optim", "schedules", "linalg"],
)
def test_a_module_answers_for_names_of_other_libraries(module, names):
    public = {
        *callbacks.__all__,
        *optim.__all__,
        *schedules.__all__,
        *sknet.ops.linalg.__all__,
        *sknet.ops.__all__,
    }
    for name, text in names.items():
        assert name not in module.__all__
        with pytest.raises(AttributeError, match=re.escape(f"has no attribute {name!r}: {text}.")):
            getattr(module, name)
        for used in re.findall(r"\buse (?:ops\.)?(\w+)", text):
            assert used in public or used in ("x", "sknet", "the"), text
    close = module.__all__[0]
    with pytest.raises(AttributeError, match=f"Did you mean .*'{close}'"):
        getattr(module, f"{close}x")


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("relu", ": use sknet.ops.relu."),
        ("cat", ": use ops.concat(xs, axis)."),
        ("tensor", ": use sknet.Tensor(data)."),
        ("linalg", ": use sknet.ops.linalg."),
        ("F", ": the functions are in sknet.ops."),
        ("Tensr", ". Did you mean 'Tensor'?"),
        ("Adam", ": use sknet.optim.Adam."),
        ("EarlyStopping", ": use sknet.callbacks.EarlyStopping."),
        ("Linear", ": use sknet.nn.Linear."),
        ("Huber", ": use sknet.losses.Huber."),
        ("qqq", "."),
    ],
)
def test_the_root(name, answer):
    with pytest.raises(AttributeError, match=re.escape(f"'sknet' has no attribute {name!r}{answer}") + "$"):
        getattr(sknet, name)


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("activation", "swish", "use 'silu'."),
        ("activation", "linear", "use 'identity'."),
        ("loss", "pinball", "use 'quantile'."),
        ("optimizer", "adamm", "Did you mean 'adam' or"),
    ],
)
def test_names_of_other_libraries_for_values(name, value, hint):
    with pytest.raises(ValueError, match=re.escape(f"Got {value!r} instead") + rf"[:.] {hint}"):
        sknet.MLPRegressor(**{name: value}).fit(X, Y)


TABLES = (sknet.TabularClassifier, sknet.TabularRegressor)


@pytest.mark.parametrize("cls", TABLES)
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("n_estimators", "use members, or budget for longer fits"),
        ("iterations", "use members, or budget for longer fits"),
        ("max_depth", "leave it out: it is a parameter of trees"),
        ("early_stopping_rounds", "leave it out: each member stops by the rows that its fold holds out"),
        ("cat_features", "use categorical_features"),
        ("categorical_feature", "use categorical_features"),
        ("learning_rate", "it belongs to the members, smooth=Members(...)"),
        ("objective", "use loss"),
        ("eval_metric", "use scoring"),
        ("reg_lambda", "leave it out: it is a parameter of trees"),
        ("scale_pos_weight", "use class_weight"),
        ("task_type", 'use device="cuda"'),
        ("use_best_model", "leave it out: each member stops by the rows"),
    ],
)
def test_parameters_of_boosted_trees(cls, name, hint):
    with pytest.raises(TypeError, match=re.escape(f"{cls.__name__} has no parameter {name!r}: {hint}")):
        cls(**{name: 1})


X, Y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("eval_set", "pass validation rows as X_val and y_val."),
        ("cat_features", "use categorical_features, a parameter of TabularClassifier(...)."),
        ("categorical_feature", "use categorical_features, a parameter of TabularClassifier(...)."),
        ("eval_metric", "use scoring, a parameter of TabularClassifier(...)."),
        ("early_stopping_rounds", "leave it out: each member stops by the rows that its fold holds out."),
        ("verbose", "it is a parameter of the estimator, TabularClassifier(verbose=...)."),
        ("sample_weights", "use sample_weight."),
    ],
)
def test_arguments_of_fits_of_boosted_trees(name, hint):
    with pytest.raises(TypeError, match=re.escape(f"TabularClassifier.fit has no argument {name!r}: {hint}")):
        sknet.TabularClassifier().fit(X, Y, **{name: 1})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("validation_data", "pass validation rows as X_val and y_val."),
        ("metrics", "use scores, an argument of fit."),
        ("validation_split", "split the rows yourself, and pass X_val and y_val to fit."),
        ("sample_weights", "use sample_weight."),
        ("initial_epoch", "use resume_from, or set warm_start=True."),
        ("early_stopping_rounds", "use callbacks=[EarlyStopping(patience=...)]."),
        ("max_iter", "use epochs, an argument of fit."),
    ],
)
def test_arguments_of_a_models_fit(name, hint):
    model = sknet.Model(nn.Linear(1, 2), loss="log_loss")
    with pytest.raises(TypeError, match=re.escape(f"Model.fit has no argument {name!r}: {hint}")):
        model.fit(X, Y, **{name: 1})


@pytest.mark.parametrize(
    ("made", "name", "hint"),
    [
        ("Model", "evaluate", "use a metric of scikit-learn on predict(X), or scores= of fit"),
        ("Model", "save", "use sknet.save(model, path)"),
        ("Model", "train_on_batch", "use step(X, y)"),
        ("Model", "summary", "use nn.summary(model.module, X.shape)"),
        ("MLPClassifier", "evaluate", "use score(X, y)"),
        ("MLPClassifier", "compile", "leave it out: loss and optimizer are parameters of MLPClassifier(...)"),
        ("MLPClassifier", "history", "use history_, after fit"),
        ("MLPClassifier", "to_onnx", "use sknet.onnx.export(estimator, path)"),
    ],
)
def test_methods_of_other_libraries(made, name, hint):
    x = sknet.Model(nn.Linear(1, 2), loss="log_loss") if made == "Model" else sknet.MLPClassifier()
    with pytest.raises(
        AttributeError, match=re.escape(f"{made!r} object has no attribute {name!r}: {hint}") + "$"
    ):
        getattr(x, name)
    with pytest.raises(AttributeError, match=f"{made!r} object has no attribute 'qqq'$"):
        x.qqq  # noqa: B018


def test_a_model_is_not_compiled_by_a_call(tmp_path):
    model = sknet.Model(nn.Linear(1, 2), loss="log_loss")
    with pytest.raises(TypeError, match="give loss and optimizer when it is made, as in Model"):
        model.compile(optimizer="adam", loss="mse", metrics=["accuracy"])
    assert model.compile == "auto"
    sknet.save(model, tmp_path / "model")
    for copy in (model.copy(), pickle.loads(pickle.dumps(model)), sknet.load(tmp_path / "model")):
        assert copy.compile == "auto"
    with pytest.raises(ValueError, match="'compile' parameter of Model must be True, False or 'auto'"):
        model.compile = "never"


def test_properties_keep_their_own_errors():
    with pytest.raises(AttributeError, match="is not fitted yet: call fit first"):
        sknet.MLPClassifier().coefs_  # noqa: B018


def calls_of(function):
    """Return how many functions of Python a call runs that look for similar names."""
    count = 0

    def watch(frame, event, arg):
        nonlocal count
        count += event == "call" and frame.f_code.co_filename == difflib.__file__

    sys.setprofile(watch)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("of", [sknet, sknet.MLPClassifier()], ids=["module", "estimator"])
def test_a_search_for_an_attribute_computes_no_hint(of):
    assert calls_of(lambda: hasattr(of, "no_such_name")) == 0
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(of, "no_such_name")  # noqa: B009


def test_a_module():
    for name, said in [
        ("cat", r": use ops.concat\(xs, axis\)\."),
        ("concatt", r"\. Did you mean 'concat'\?"),
    ]:
        with pytest.raises(AttributeError, match=rf"^module 'sknet.ops' has no attribute '{name}'{said}$"):
            getattr(sknet.ops, name)


def test_names_that_are_like_no_other_have_no_hint():
    with pytest.raises(AttributeError, match=r"^module 'sknet.ops' has no attribute 'zzzzz'\.$"):
        sknet.ops.zzzzz  # noqa: B018
