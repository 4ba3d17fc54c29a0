"""Suggestions for unknown names, for error messages.

Users are used to the names of other libraries. Tables map these to sknet's names, or to another way to do
the same; for all other names, the most similar ones are suggested.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

__all__ = [
    "ForeignAttributes",
    "advice_for",
    "argument_hint",
    "module_getattr",
    "or_names",
    "parameter_hint",
    "suggestion",
    "value_hint",
]

# Parameter names of other libraries, and sknet's: the first that the class has is suggested.
RENAMED = {
    **dict.fromkeys(("learning_rate", "learning_rate_init", "initial_lr", "base_lr", "eta"), ("lr",)),
    "max_lr": ("peak_lr", "lr"),
    "weight": ("class_weight",),
    "betas": ("beta1 and beta2",),
    **dict.fromkeys(("beta_1", "b1"), ("beta1",)),
    **dict.fromkeys(("beta_2", "b2"), ("beta2",)),
    "epsilon": ("eps",),
    "alpha": ("rho", "power", "part", "quantile", "factor"),
    "decay": ("rho",),
    "momentum": ("beta1",),
    "gamma": ("factor",),
    "decay_rate": ("factor",),
    "step_size": ("every",),
    "step_size_up": ("n_steps_up",),
    "step_size_down": ("n_steps_down",),
    "max_momentum": ("beta1",),
    "start_factor": ("lr",),
    "end_factor": ("end_lr",),
    **dict.fromkeys(("eta_min", "lr_min", "end_learning_rate"), ("min_lr", "end_lr")),
    **dict.fromkeys(
        (
            "T_max",
            "T_0",
            "total_steps",
            "total_iters",
            "num_steps",
            "max_steps",
            "decay_steps",
            "warmup_steps",
        ),
        ("n_steps", "warmup"),
    ),
    "T_mult": ("growth",),
    "pct_start": ("rise",),
    "div_factor": ("start_ratio",),
    "final_div_factor": ("end_ratio",),
    "ns_steps": ("n_iterations",),
    **dict.fromkeys(("history_size", "maxcor", "m"), ("memory",)),
    **dict.fromkeys(("max_eval", "maxfun"), ("max_fun",)),
    **dict.fromkeys(("tolerance_grad", "pgtol"), ("gtol",)),
    "tolerance_change": ("ftol",),
    **dict.fromkeys(("beta", "threshold"), ("beta1 and beta2", "delta")),
    **dict.fromkeys(("tau", "q"), ("quantile",)),
    **dict.fromkeys(("clip_value", "clipvalue"), ("max_value",)),
    **dict.fromkeys(("clip_norm", "clipnorm"), ("max_norm",)),
}

_TO_FIT = "pass validation rows to fit, fit(X, y, X_val=X_val, y_val=y_val)"
_IN_MODEL = "it belongs to the optimizer, Model(module, optimizer=Adam(lr=...))"
_SPLIT = "split the rows yourself, and pass X_val and y_val to fit"
_COMPILED = "leave it out: every step is compiled"
_PARTS = "a Model gives it the parameters, Model(module, optimizer={0}(...))"
_CLIPPED = "wrap it, ClipNorm({0}(...), 1.0)"
_RATE = "the learning rate can be a schedule, {0}(lr=Cosine(1e-3))"
_SCHEDULED = "a schedule is the learning rate of an optimizer: Adam(lr={0}(...))"

_OF_TREES = "leave it out: it is a parameter of trees, and this is a network"
_TREES = dict.fromkeys(
    (
        *("max_depth", "max_leaf_nodes", "max_leaves", "num_leaves", "min_child_weight", "min_samples_leaf"),
        *("min_samples_split", "min_data_in_leaf", "min_child_samples", "max_bin", "max_bins", "tree_method"),
        *("subsample", "bagging_fraction", "feature_fraction", "colsample_bytree", "grow_policy", "depth"),
    ),
    _OF_TREES,
)
_ROUNDS = ("iterations", "num_boost_round", "num_iterations", "num_rounds", "nrounds")
_CATEGORIES = ("cat_features", "categorical_feature", "categorical_features", "cat_cols")
_INSIDE = "it belongs to the optimizer, optimizer=Adam({}=...)"
_SGDS = "it belongs to the optimizer, optimizer=SGD({}=...)"
_L2 = "alpha is the strength of the L2 penalty; decoupled weight decay is optimizer=AdamW()"
_CLIP = "clip gradients in the optimizer, optimizer=ClipNorm(Adam(), 1.0)"
_SCHEDULE = "the optimizer's learning rate can be a schedule, optimizer=Adam(lr=Cosine(1e-3))"

# Parameters of perceptrons in other libraries, for both families of estimators.
_ANY_PERCEPTRON = {
    **dict.fromkeys(
        ("epochs", "n_epochs", "num_epochs", "max_epochs", "nb_epoch", "n_iter", "max_steps"), "use max_iter"
    ),
    **dict.fromkeys(
        (
            "hidden_units",
            "hidden_layers",
            "hidden_sizes",
            "hidden_size",
            "hidden_dim",
            "hidden_dims",
            "units",
            "layers",
            "layer_sizes",
            "architecture",
            "n_hidden",
        ),
        "use hidden_layer_sizes",
    ),
    **dict.fromkeys(
        ("act", "activation_fn", "activation_function", "hidden_activation", "nonlinearity"), "use activation"
    ),
    **dict.fromkeys(("l2", "l2_reg", "reg_lambda", "l2_regularization", "weight_penalty"), "use alpha"),
    **dict.fromkeys(("batchsize", "bs", "minibatch_size", "mini_batch_size"), "use batch_size"),
    **dict.fromkeys(("seed", "random_seed", "manual_seed"), "use random_state"),
    **dict.fromkeys(("patience", "early_stopping_rounds", "n_iter_no_improvement"), "use n_iter_no_change"),
    **dict.fromkeys(("validation_split", "val_fraction", "test_size"), "use validation_fraction"),
    **_TREES,
    **dict.fromkeys(_ROUNDS, "use max_iter"),
    "min_delta": "use tol",
    "sample_weight": "sample weights are an argument of fit",
    **dict.fromkeys(
        ("metrics", "metric", "scoring"),
        "history_ has accuracy or R2; compute other scores with scikit-learn's scorers after the fit",
    ),
    **dict.fromkeys(("n_jobs", "num_workers"), "leave it out: NumPy's matrix products are multithreaded"),
}

# Parameters that a family of classes (by the name of its base class) lacks, and how to do the same.
ELSEWHERE = {
    "Optimizer": {
        "weight_decay": "wrap it, WeightDecay({0}(...), 0.01), or use AdamW",
        **dict.fromkeys(("clip_norm", "clipnorm", "global_clipnorm", "max_grad_norm"), _CLIPPED),
        **dict.fromkeys(("clip_value", "clipvalue"), "wrap it, ClipValue({0}(...), 1.0)"),
        **dict.fromkeys(("use_ema", "ema_momentum", "ema_decay"), "wrap it, EMA({0}(...), 0.999)"),
        "lr_factors": "wrap it, RateFactors({0}(...), {{'*.bias': 0.1}})",
        "decay_factors": "wrap it, WeightDecay({0}(...), 0.01, {{'*.weight': 1.0, '0.weight': 0.1}})",
        "gradient_accumulation_steps": "wrap it, Accumulate({0}(...), every=2)",
        **dict.fromkeys(("schedule", "scheduler", "lr_scheduler"), _RATE),
        **dict.fromkeys(("params", "parameters"), _PARTS),
        **dict.fromkeys(("foreach", "fused", "capturable", "differentiable", "jit_compile"), _COMPILED),
        "maximize": "negate the loss",
        "amsgrad": "there is no AMSGrad here; leave it out",
    },
    "Combinator": {"lr": "pass it to the wrapped optimizer, {0}(Adam(lr=1e-3))"},
    "Schedule": {
        "optimizer": _SCHEDULED,
        "last_epoch": "leave it out: a continued fit keeps the rate",
    },
    "NamedOptions": {
        **_ANY_PERCEPTRON,
        **dict.fromkeys(("solver", "optim", "optimiser"), "use optimizer"),
        **dict.fromkeys(("criterion", "loss_function", "loss_fn", "loss_func", "objective"), "use loss"),
        **dict.fromkeys(("learning_rate_init", "learning_rate", "eta0", "eta"), "use lr"),
        **dict.fromkeys(("beta_1", "beta1", "b1"), _INSIDE.format("beta1")),
        **dict.fromkeys(("beta_2", "beta2", "b2"), _INSIDE.format("beta2")),
        "betas": "they belong to the optimizer, optimizer=Adam(beta1=..., beta2=...)",
        **dict.fromkeys(("epsilon", "eps"), _INSIDE.format("eps")),
        "momentum": _SGDS.format("momentum"),
        **dict.fromkeys(("nesterovs_momentum", "nesterov"), _SGDS.format("nesterov")),
        "power_t": "it belongs to a schedule, optimizer=SGD(lr=InverseScaling(0.1, power=0.5))",
        "max_fun": "it belongs to the optimizer, optimizer=LBFGS(max_fun=...)",
        **dict.fromkeys(("weight_decay", "wd"), _L2),
        **dict.fromkeys(("clip_norm", "clipnorm", "grad_clip", "gradient_clip_val", "max_grad_norm"), _CLIP),
        **dict.fromkeys(("lr_scheduler", "scheduler", "schedule", "lr_schedule"), _SCHEDULE),
        **dict.fromkeys(("dropout_rate", "dropout_p", "p_dropout", "drop_rate"), "use dropout"),
        **dict.fromkeys(("class_weights", "pos_weight"), "use class_weight, a parameter of classifiers"),
        **dict.fromkeys(
            ("batch_norm", "batch_normalization", "use_bn", "normalization"),
            "put it into the activation, activation=nn.Sequential(nn.LazyBatchNorm(), nn.ReLU())",
        ),
        **dict.fromkeys(
            ("module", "network", "net", "model"), "your own network is trained by NetClassifier(MyNet)"
        ),
        **dict.fromkeys(("use_cuda", "gpu", "cuda"), 'use device="cuda"'),
        **dict.fromkeys(("precision", "float_type"), "use dtype"),
        **dict.fromkeys(("amp", "mixed_precision", "fp16", "bf16"), 'use dtype="bfloat16" on a GPU'),
        **dict.fromkeys(("tf32", "allow_tf32"), 'use dtype="tf32" on a GPU'),
        **dict.fromkeys(("metrics", "metric", "eval_metric"), "use scoring"),
        "n_estimators": "max_iter is the number of epochs, n_members that of the networks of an ensemble",
        **dict.fromkeys(_CATEGORIES, "use encoder=TableEncoder(categorical_features=[...])"),
        **dict.fromkeys(("eval_set", "validation_data"), _TO_FIT),
    },
    "BaseTabular": {
        **_TREES,
        **dict.fromkeys(("n_estimators", "n_members", *_ROUNDS), "use members, or budget for longer fits"),
        **dict.fromkeys(("epochs", "max_iter", "n_epochs", "max_epochs"), "use budget, 2 for twice as long"),
        **dict.fromkeys(_CATEGORIES[:2] + _CATEGORIES[3:], "use categorical_features"),
        **dict.fromkeys(
            (
                *("early_stopping_rounds", "early_stopping", "patience", "n_iter_no_change"),
                *("eval_set", "validation_data", "X_val"),
            ),
            "leave it out: each member stops by the rows that its fold holds out",
        ),
        **dict.fromkeys(
            ("learning_rate", "lr", "hidden_layer_sizes", "dropout", "optimizer", "activation"),
            "it belongs to the members, smooth=Members(...) and sharp=Members(...)",
        ),
        **dict.fromkeys(("objective", "criterion", "loss_function"), "use loss"),
        **dict.fromkeys(("seed", "random_seed"), "use random_state"),
        **dict.fromkeys(("verbosity", "silent", "verbose_eval"), "use verbose"),
        **dict.fromkeys(("nthread", "num_threads", "thread_count"), "use n_jobs"),
    },
    "Model": {
        **dict.fromkeys(("metrics", "metric", "scoring", "eval_metric"), "use scores, an argument of fit"),
        **dict.fromkeys(("max_iter", "n_epochs", "nb_epoch", "max_epochs"), "use epochs, an argument of fit"),
        **dict.fromkeys(("validation_split", "validation_fraction"), _SPLIT),
        **dict.fromkeys(("criterion", "loss_fn"), "use loss, Model(module, loss=...)"),
        **dict.fromkeys(("lr", "learning_rate"), _IN_MODEL),
        "class_weight": "use sample_weight, or the class_weight of LogLoss",
        **dict.fromkeys(("early_stopping_rounds", "patience"), "use callbacks=[EarlyStopping(patience=...)]"),
    },
    "NetOptions": {
        **dict.fromkeys(("network", "net", "model", "estimator", "build_fn"), "use module"),
        **dict.fromkeys(
            (
                *("hidden_layer_sizes", "hidden_units", "hidden_layers", "hidden_sizes", "hidden_size"),
                *("hidden_dim", "hidden_dims", "units", "layers", "layer_sizes", "architecture", "n_hidden"),
                *("activation", "act", "activation_fn", "dropout", "dropout_rate"),
            ),
            "it belongs to the network, module=nn.ModuleFactory(MyNet, ...)",
        ),
    },
    "_ScikitLearnParameters": {
        **_ANY_PERCEPTRON,
        **dict.fromkeys(
            ("optimizer", "optim"), 'use solver="adam", "sgd" or "lbfgs"; sknet.{0} takes other optimizers'
        ),
        **dict.fromkeys(("lr", "eta0", "eta"), "use learning_rate_init"),
        **dict.fromkeys(("beta1", "b1"), "use beta_1"),
        **dict.fromkeys(("beta2", "b2"), "use beta_2"),
        "betas": "use beta_1 and beta_2",
        "eps": "use epsilon",
        "nesterov": "use nesterovs_momentum",
        "weight_decay": "alpha is the strength of the L2 penalty",
        **dict.fromkeys(
            ("loss", "dropout", "class_weight", "device", "dtype"), "only sknet.{0} has it, this does not"
        ),
    },
    "Callback": {
        "min_delta": "use tol",
        "restore_best_weights": "use restore_best",
        **dict.fromkeys(("mode", "lower_is_better", "greater_is_better"), "use higher_is_better"),
        **dict.fromkeys(("filepath", "dirpath", "dirname", "fn_prefix", "filename", "log_dir"), "use path"),
        **dict.fromkeys(("save_freq", "period", "every_n_epochs", "event_name"), "use every"),
        **dict.fromkeys(("save_best_only", "save_top_k", "save_last"), "leave it out: the last and the best "
                        "are always kept"),
        **dict.fromkeys(("max_time", "time_limit", "duration"), "use seconds"),
    },
    "Loss": {
        **dict.fromkeys(
            ("reduction", "reduce", "size_average"),
            "leave it out: a loss returns one value per sample, a Model averages them",
        ),
        "from_logits": "leave it out: a loss expects logits, and applies its link itself",
    },
}  # fmt: skip


_VALIDATION = "pass validation rows as X_val and y_val"

VALIDATION_ROWS = {
    **dict.fromkeys(
        ("validation_data", "val_data", "valid_data", "validation_set", "eval_set", "eval_data"), _VALIDATION
    ),
    **dict.fromkeys(("X_valid", "X_validation", "X_test", "x_val"), "use X_val"),
    **dict.fromkeys(("y_valid", "y_validation", "y_test"), "use y_val"),
}

# Arguments of `fit` in other libraries, and sknet's.
ARGUMENTS = {
    **VALIDATION_ROWS,
    **dict.fromkeys(("weights", "sample_weights", "weight", "w"), "use sample_weight"),
    **dict.fromkeys(("checkpoint", "ckpt_path", "resume", "checkpoint_path"), "use resume_from"),
    **dict.fromkeys(
        ("cat_features", "categorical_feature"),
        "categories are told by the estimator: columns of a "
        'frame whose dtype says so, or categorical_features of its TableEncoder (encoder="table")',
    ),
    "initial_epoch": "use resume_from, or set warm_start=True",
    "lengths": "for sequences use your own network, NetClassifier(MyNet) or NetRegressor(MyNet)",
}


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# Advice for invalid values of a parameter: a test of the value, and the text.
VALUES: "dict[str, list[tuple[Callable[[Any], bool], str]]]" = {
    "early_stopping": [
        (lambda value: hasattr(value, "on_epoch_end"), "Pass it as callbacks=[{0!r}]."),
        (_is_int, "For patience use early_stopping=True, n_iter_no_change={0!r}."),
    ],
    "batch_size": [(lambda value: value is None, "For all rows at once use batch_size=len(X).")],
    "callbacks": [(lambda value: isinstance(value, dict), "Pass only the values, in a list.")],
    "validation_fraction": [
        (lambda value: value == 0, "To hold out no rows, use early_stopping=False."),
        (
            lambda value: _is_int(value) and value > 1,
            "It is a fraction of the rows: for a number of rows use "
            "validation_split=ShuffleSplit(1, test_size={0!r}).",
        ),
    ],
}


def value_hint(name: str, value: Any) -> str:
    """Return advice for an invalid value of a parameter: a space and a sentence, or an empty string."""
    return next((" " + text.format(value) for fits, text in VALUES.get(name, ()) if fits(value)), "")


def argument_hint(cls: type, name: str, arguments: Iterable[str], parameters: Iterable[str]) -> str:
    """Return the end of a message about an unknown argument of a method."""
    if name in parameters:
        return f": it is a parameter of the estimator, {cls.__name__}({name}=...)."
    if name in ARGUMENTS and (name not in VALIDATION_ROWS or "X_val" in list(arguments)):
        return suggestion(name, arguments, ARGUMENTS)
    text = advice_for(cls).get(name)
    if text is None:
        return suggestion(name, arguments)
    is_parameter = text.removeprefix("use ").partition(" ")[0] in parameters
    return f": {text}, a parameter of {cls.__name__}(...)." if is_parameter else f": {text}."


def suggestion(name: str, known: Iterable[str], advice: Mapping[str, str] | None = None) -> str:
    """Return the end of a message about an unknown name, including its full stop."""
    if advice and name in advice:
        return f": {advice[name]}."
    nearest = difflib.get_close_matches(name, [x for x in known if not x.startswith("_")], n=3, cutoff=0.6)
    return f". Did you mean {' or '.join(map(repr, nearest))}?" if nearest else "."


def or_names(hint: str, names: str) -> str:
    """Return the end of a message about an unknown name: a hint, or without one a sentence with all names."""
    return f". {names}" if hint == "." else hint


# Attributes of objects of other libraries, by the name of sknet's base class, and advice.
ATTRIBUTES: dict[str, dict[str, str]] = {
    "Model": {
        **dict.fromkeys(
            ("evaluate", "score"), "use a metric of scikit-learn on predict(X), or scores= of fit"
        ),
        "summary": "use nn.summary(model.module, X.shape)",
        **dict.fromkeys(("save", "save_weights"), "use sknet.save(model, path)"),
        **dict.fromkeys(("load_model", "load_weights"), "use sknet.load(path)"),
        **dict.fromkeys(("train_on_batch", "training_step"), "use step(X, y)"),
        "fit_generator": "use train(batches)",
        **dict.fromkeys(("predict_proba", "predict_classes"), "predict returns probabilities"),
        **dict.fromkeys(("to", "cuda", "cpu"), 'give the device when it is made, Model(..., device="cuda")'),
        **dict.fromkeys(("state_dict", "load_state_dict"), "it is a method of its module"),
    },
    "BaseNet": {
        "evaluate": "use score(X, y)",
        "compile": "leave it out: loss and optimizer are parameters of {0}(...)",
        "history": "use history_, after fit",
        **dict.fromkeys(("save", "save_model", "dump"), "use sknet.save(estimator, path)"),
        **dict.fromkeys(("load", "load_model"), "use sknet.load(path)"),
        "to_onnx": "use sknet.onnx.export(estimator, path)",
        "predict_classes": "use predict",
        **dict.fromkeys(("to", "cuda", "cpu"), 'use {0}(device="cuda")'),
        **dict.fromkeys(("module_", "net_"), "use model_.module"),
        "get_booster": "use model_",
    },
}


class ForeignAttributes:
    """Mixin of objects whose error for an attribute of another library's objects suggests the right one."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            cls = type(self)
            advice = next((known[name] for base in cls.__mro__ if name in (known := _attributes(base))), None)
            if advice is None or hasattr(cls, name):
                return object.__getattribute__(self, name)  # raises the error once more
            text = advice.format(cls.__name__)
            raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}: {text}")


def _attributes(base: type) -> dict[str, str]:
    return ATTRIBUTES.get(base.__name__, {})


def parameter_hint(cls: type, name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown parameter of a class."""
    known = list(known)
    ours = [other for other in RENAMED.get(name, ()) if set(other.split(" and ")) <= set(known)]
    return suggestion(name, known, {name: f"use {ours[0]}"} if ours else advice_for(cls))


def advice_for(cls: type) -> dict[str, str]:
    """Return what to do instead of using parameters that a class and its family lack."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        found.update(ELSEWHERE.get(base.__name__, {}))
    return {name: text.format(cls.__name__) for name, text in found.items()}


def module_getattr(module: str, known: Iterable[str], advice: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module's ``__getattr__``, which raises an AttributeError that suggests the right name."""

    @lru_cache(maxsize=256)  # `hasattr` asks for the same names again and again
    def hint(name: str) -> str:
        return suggestion(name, known, advice)

    def missing(name: str) -> Any:
        raise AttributeError(f"module {module!r} has no attribute {name!r}{hint(name)}")

    return missing
