"""A name from another library, or one that is misspelt, is answered by what it is called here."""

import inspect
import re

import pytest

import sknet.losses
import sknet.optim
from sknet import optim
from sknet._hints import ELSEWHERE, RENAMED, advice_for, module_getattr, parameter_hint, suggestion
from sknet._params import ParameterObject
from sknet.losses import Huber, LogLoss, Loss, Quantile
from sknet.nn import init
from sknet.optim import EMA, LBFGS, SGD, Adam, Lookahead, Muon, Optimizer, RMSprop, schedules
from sknet.optim.schedules import Cosine, OneCycle, Schedule, Step, WarmUp

MODULES = (optim, schedules, sknet.losses, init)
CLASSES = [
    found
    for module in MODULES
    for found in (getattr(module, name) for name in module.__all__)
    if isinstance(found, type) and issubclass(found, ParameterObject)
]


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
        (EMA, "lr", "give it to the optimizer inside, EMA(Adam(lr=1e-3))."),
        (LBFGS, "history_size", "use memory."),
        (Cosine, "T_max", "use n_steps."),
        (Cosine, "optimizer", "a schedule is the optimizer's rate: Adam(lr=Cosine(...))."),
        (OneCycle, "max_lr", "use lr."),
        (schedules.Cyclic, "max_lr", "use peak_lr."),
        (Step, "step_size", "use every."),
        (Step, "gamma", "use factor."),
        (WarmUp, "warmup_steps", "use n_steps."),
        (LogLoss, "reduction", "leave it out: a loss has one value per sample, and its owner averages them."),
        (Huber, "beta", "use delta."),
        (Quantile, "alpha", "use quantile."),
    ],
    ids=str,
)
def test_a_parameter_by_another_librarys_name(cls, name, hint):
    known = list(inspect.signature(cls).parameters)
    required = {"optimizer": SGD(), "lr": 0.1, "peak_lr": 0.2, "n_steps": 3, "every": 2}
    given = {key: value for key, value in required.items() if key in known}
    with pytest.raises(TypeError, match=re.escape(f"{cls.__name__} has no parameter {name!r}: {hint} Its ")):
        cls(**given, **{name: 1})
    with pytest.raises(
        ValueError, match=rf"Invalid parameter {name!r} .*: {re.escape(hint)} Valid parameters"
    ):
        cls(**given).set_params(**{name: 1})


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_class_names_its_parameters(cls):
    """A name that nobody has ever heard of, and each of its own with a letter too many."""
    names = sorted(cls._get_param_names())
    if inspect.isabstract(cls) or not names:
        return
    with pytest.raises(
        TypeError, match=f"{cls.__name__} has no parameter 'qqq'. Its parameters are {names[0]}"
    ):
        cls(qqq=1)
    long = [name for name in names if len(name) > 2]
    for name in long:
        with pytest.raises(TypeError, match=rf"has no parameter '{name}x'. Did you mean .*'{name}'.*\?"):
            cls(**{f"{name}x": 1})


def test_an_optimizer_is_not_given_the_parameters():
    message = r"Adam has no parameter 'params': .* Model\(module, optimizer=Adam\(\.\.\.\)\)"
    with pytest.raises(TypeError, match=message):
        Adam(iter([]), lr=0.1)
    with pytest.raises(TypeError, match="multiple values for argument 'lr'"):
        Cosine(0.1, lr=0.1)


def test_the_errors_of_a_constructor_itself_stay():
    class Picky(ParameterObject):
        def __init__(self, size):
            self.size = len(size)

    with pytest.raises(TypeError, match="has no len"):
        Picky(size=3)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'size'"):
        Picky()


def test_the_signature_stays():
    assert list(inspect.signature(Adam).parameters) == ["lr", "beta1", "beta2", "eps"]


def test_the_table_names_what_exists():
    ours = {name for cls in CLASSES for name in cls._get_param_names()}
    assert {new for names in RENAMED.values() for both in names for new in both.split(" and ")} <= ours
    families = {base.__name__ for base in (Optimizer, Schedule, Loss, optim.Combinator)}
    assert set(ELSEWHERE) == families
    public = {name for module in (sknet, *MODULES) for name in module.__all__}
    for cls in (Adam, Cosine, LogLoss, EMA):
        for text in advice_for(cls).values():
            assert set(re.findall(r"\b([A-Z]\w+)\(", text)) <= public


def test_suggestion():
    assert suggestion("view", ["reshape"], {"view": "use x.reshape(...)"}) == ": use x.reshape(...)."
    assert suggestion("reshpe", ["reshape", "_reshape"]) == ". Did you mean 'reshape'?"
    assert suggestion("zzz", ["reshape"]) == "."
    assert parameter_hint(Adam, "beta", ["beta1", "beta2"]) == ": use beta1 and beta2."


def test_a_module():
    ask = module_getattr("sknet.ops", ["concat"], {"cat": "use ops.concat"})
    with pytest.raises(
        AttributeError, match=r"^module 'sknet.ops' has no attribute 'cat': use ops.concat\.$"
    ):
        ask("cat")
    with pytest.raises(AttributeError, match=r"has no attribute 'concatt'. Did you mean 'concat'\?$"):
        ask("concatt")
