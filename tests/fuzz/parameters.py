"""Bad values for every parameter of every public class, and for arguments of public functions and methods.

A value is shown, as text and in a notebook, and used: a fit of a few rows, a pass of a layer, a validation of
what only stores its parameters. It is accepted, or refused by a ValueError or TypeError that names the
parameter; the object and its attributes are then as before. Nothing takes long, no text is long.

    python -m tests.fuzz.parameters --cases 10000 --seed 0
"""

import copy
import inspect
import re
import resource
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import NotFittedError

import sknet
from sknet import callbacks, exceptions, losses, model_selection, neural_network, nn, optim
from sknet._params import ParameterObject
from sknet.nn import init
from sknet.optim import schedules
from tests.arguments import ARGUMENTS
from tests.fuzz.calls import Call, calls
from tests.fuzz.command import run

SECONDS = 10
MEMORY = 8 << 30  # bytes of the process, which huge arrays exceed
MOST_SHOWN = 40_000  # characters
LONGEST = 11_000  # of a message, which may repeat a text of the user's
MODULES = (sknet, nn, init, losses, optim, schedules, callbacks, model_selection, neural_network)
OWN = tuple(
    value
    for value in vars(exceptions).values()
    if isinstance(value, type) and issubclass(value, Exception) and value.__module__ == exceptions.__name__
)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3))
LABELS = np.arange(12) % 2


QUICK = {"max_iter": 2, "members": 1, "budget": 0.01, "random_state": 0, "epochs": 1}
NOT_TRIED = (neural_network.BernoulliRBM, nn.Module, nn.Lazy, sknet.Model, optim.BaseOptimizer)
OTHERS = {  # words in the errors of scikit-learn, and in those of containers
    "param_grid": ("Parameter grid",),
    "param_distributions": ("Parameter distribution", "Parameter grid"),
    "entries": ("ParameterDict.", "ModuleDict."),
    "module": ("ModuleFactory(", "Let the constructor take n_outputs"),
    "loss": ("FunctionLoss",),
    "n_ids": ("num_embeddings",),
    "out_directions": ("out_features",),
    "estimator": ("the object is",),
    "metric": ("the history has no column",),
    "params": ("has no argument",),
    "scoring": ("predefined scorers", "empty dict"),
    "categorical_features": ("nothing can be learned from X",),
}


RAW = (  # what Python, NumPy and pandas say for themselves
    "object is not|has no attribute|unsupported operand|not supported between|setting an array element"
    "|too large to|ambiguous|cannot be interpreted|can't multiply|not enough values|too many values"
    "|takes from|positional argument|unexpected keyword|cannot convert|unhashable|invalid literal|bad operand"
    "|is not iterable|cannot unpack|recursion depth|must be real number|ufunc|Maximum allowed"
)


DATA = {
    *("X", "y", "sample_weight", "X_val", "y_val", "sample_weight_val", "groups", "lengths", "lengths_val"),
    *(
        "classes",
        "baseline",
        "batches",
        "example",
        "inputs",
        "function",
        "input_features",
        "x",
        "cv",
        "scoring",
    ),
}


FOUND: dict[str, Any] = {
    **{"path": (OSError, AttributeError), "resume_from": OSError},
    **{"index": IndexError, "indices": IndexError},
}


class Hostile:
    """An object whose special methods raise."""

    def __repr__(self):
        raise RuntimeError("no representation")

    def __eq__(self, other):
        raise RuntimeError("no comparison")

    def __bool__(self):
        raise RuntimeError("no truth")

    def __len__(self):
        raise RuntimeError("no length")

    __hash__ = None


class Huge:
    """An object with a long representation."""

    def __repr__(self):
        return "<huge>" * 200_000


class Endless:
    """An object whose representation recurses."""

    def __repr__(self):
        return repr([self])


class Mute:
    """An object whose representation is not a text."""

    def __repr__(self):
        return 5


class Heads(nn.Module):
    """A network with two outputs by name."""

    def __init__(self):
        self.number, self.label = nn.LazyLinear(1), nn.LazyLinear(1)

    def forward(self, x):
        return {"number": self.number(x), "label": self.label(x)}


class Oversized:
    """An object of a length that no memory holds, whose array cannot be had."""

    def __len__(self):
        return 2**62

    def __array__(self, *_, **__):
        raise RuntimeError("no array")


class Plain:
    """An object that nothing expects."""


def _nested() -> Any:
    found: Any = 1
    for _ in range(50):
        found = [found]
    return found


def _deep() -> Any:
    found: Any = 1
    for _ in range(3000):
        found = [found]
    return found


def _circular_dict() -> Any:
    found: dict[str, Any] = {}
    found["a"] = found
    return found


def _circular() -> Any:
    found: list[Any] = []
    found.append(found)
    return found


VALUES: "dict[str, Callable[[], Any]]" = {
    "10**400": lambda: 10**400,
    "-10**400": lambda: -(10**400),
    "2**63": lambda: 2**63,
    "-1": lambda: -1,
    "0": lambda: 0,
    "0.5": lambda: 0.5,
    "1.5": lambda: 1.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "-inf": lambda: -float("inf"),
    "complex": lambda: 1 + 2j,
    "Fraction": lambda: Fraction(1, 3),
    "Decimal": lambda: Decimal("0.1"),
    "Decimal NaN": lambda: Decimal("sNaN"),
    "NA": lambda: pd.NA,
    "NaT": lambda: pd.NaT,
    "None": lambda: None,
    "True": lambda: True,
    "array": lambda: np.arange(3.0),
    "array of integers": lambda: np.array([3, 4]),
    "array of objects": lambda: np.array([None, "a"], dtype=object),
    "array of no axes": lambda: np.array(0.5),
    "empty array": lambda: np.empty(0),
    "Series": lambda: pd.Series([1, 2]),
    "list": lambda: [1, 2],
    "nested list": _nested,
    "circular list": _circular,
    "list of huge": lambda: [10**400],
    "list of None": lambda: [None],
    "list of texts": lambda: ["a", "b"],
    "empty list": list,
    "empty tuple": tuple,
    "tuple": lambda: (1, 2),
    "tuple of many": lambda: (1, 2, 3, 4),
    "tuple of negative": lambda: (-1, 3),
    "tuple of nan": lambda: (float("nan"), 0.5),
    "dict": lambda: {"a": 1},
    "dict of numbers": lambda: {0: 0.5, 1: 10**400},
    "dict of dicts": lambda: {"a": {"b": {"c": [1]}}},
    "dict of None": lambda: {None: None},
    "empty dict": dict,
    "set": lambda: {1, 2},
    "text": lambda: "nonsense",
    "empty text": lambda: "",
    "long text": lambda: "x" * 10_000,
    "text with a NUL": lambda: "a\0b",
    "bytes": lambda: b"abc",
    "class": lambda: Plain,
    "object": Plain,
    "hostile object": Hostile,
    "list of hostile objects": lambda: [Hostile()],
    "huge object": Huge,
    "list of huge objects": lambda: [Huge()],
    "endless object": Endless,
    "mute object": Mute,
    "generator": lambda: (i for i in range(3)),
    "function": lambda: lambda: None,
    "function of one": lambda: lambda x: x,
    "built-in": lambda: len,
    "range": lambda: range(3),
    "module": lambda: np,
    "estimator": lambda: sknet.MLPClassifier(),
    "layer": nn.ReLU,
    "loss": losses.SquaredError,
    "optimizer": optim.Adam,
    "Ellipsis": lambda: ...,
    "-0.0": lambda: -0.0,
    "2**31": lambda: 2**31,
    "5e-324": lambda: 5e-324,
    "1e308": lambda: 1e308,
    "int8": lambda: np.int8(-1),
    "uint64": lambda: np.uint64(2**64 - 1),
    "float16 NaN": lambda: np.float16("nan"),
    "longdouble": lambda: np.longdouble(1) / 3,
    "complex64": lambda: np.complex64(1j),
    "bool of NumPy": lambda: np.bool_(True),
    "str of NumPy": lambda: np.str_("a"),
    "bytes of NumPy": lambda: np.bytes_(b"a"),
    "void": lambda: np.void(b"abcd"),
    "datetime64": lambda: np.datetime64("NaT"),
    "timedelta64": lambda: np.timedelta64(3, "s"),
    "deep list": _deep,
    "circular dict": _circular_dict,
    "list of lists of texts": lambda: [["a", "b"], ["c", "d"]],
    "lone surrogate": lambda: "\ud800",
    "oversized object": Oversized,
    "error": lambda: ValueError("x"),
    "array of NaN": lambda: np.full((12, 3), np.nan),
    "array of dates": lambda: np.zeros((12, 3), "datetime64[s]"),
    "array without elements": lambda: np.empty((0, 3)),
}


def classes() -> Iterator[type]:
    """Yield public classes with parameters."""
    found: dict[type, None] = {}
    for module in MODULES:
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, type) and not inspect.isabstract(value):
                found[value] = None
    for cls in found:
        has_parameters = issubclass(cls, (ParameterObject, nn.Module)) or hasattr(cls, "fit")
        if has_parameters and cls not in NOT_TRIED:
            yield cls


@cache
def pairs() -> list[tuple[type, str]]:
    """Return classes with the names of their parameters."""
    return [
        (cls, name)
        for cls in classes()
        for name, p in inspect.signature(cls).parameters.items()
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]


@cache
def arguments() -> list[tuple[Call, str]]:
    """Return functions with the names of their arguments."""
    return [(call, name) for call in calls() for name in call.parameters]


def needed(cls: type) -> dict[str, Any]:
    """Return arguments of a class that has no defaults for them, and those that make a fit short."""
    outputs = 3 if cls is sknet.NetTransformer else 1
    special = {
        "estimator": lambda: sknet.MLPClassifier((3,), max_iter=2, random_state=0),
        "optimizer": optim.Adam,
        "schedules": lambda: [schedules.Constant(0.1)],
    }
    if cls is optim.Groups:
        special["groups"] = lambda: {"*": optim.Adam()}
    if issubclass(cls, (sknet.NetClassifier, sknet.NetRegressor, sknet.NetTransformer)):
        special["module"] = lambda: nn.Sequential(nn.LazyLinear(3), nn.Tanh(), nn.LazyLinear(outputs))
    if cls is sknet.MultiHeadNet:
        special["module"] = lambda: Heads()
        special["loss"] = lambda: {"number": "squared_error", "label": "log_loss"}
    found: dict[str, Any] = {"scale_factor": 2.0} if cls is nn.Upsample else {}
    for name, p in inspect.signature(cls).parameters.items():
        if p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            continue
        if p.default is p.empty:
            found[name] = special[name]() if name in special else ARGUMENTS[name]
        elif hasattr(cls, "fit") and name in QUICK:
            found[name] = QUICK[name]
    return found


def displayed(instance: Any) -> None:
    """Show an object as its users see it."""
    html = getattr(instance, "_repr_html_", str)()
    texts = {"repr": repr(instance), "str": str(instance), "HTML": html.partition("</style>")[2]}
    for kind, text in texts.items():
        assert len(text) < MOST_SHOWN, f"the {kind} has {len(text)} characters"
    if hasattr(instance, "get_params"):
        instance.get_params()


def used(instance: Any) -> None:
    """Use an object's parameters."""
    if hasattr(instance, "fit"):
        if isinstance(instance, sknet.MultiHeadNet):
            instance.fit(X, {"number": X[:, 0], "label": LABELS})
            return
        is_classifier = "Classifier" in type(instance).__name__ or "CV" in type(instance).__name__
        instance.fit(X, LABELS if is_classifier else X[:, 0])
    elif isinstance(instance, nn.Module):
        repr(instance)
    else:
        instance.validate()


class TooLongError(BaseException):
    """Raised by the alarm."""


@contextmanager
def bounded(seconds: int) -> Iterator[None]:
    """Raise a TooLongError in the block after so many seconds."""

    def stop(*_: Any) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)  # again, if raised where Python ignores it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def is_documented(error: Exception, name: str, cls: type) -> bool:
    """Tell whether an error says which parameter is wrong."""
    if isinstance(error, OWN) and not isinstance(error, (ValueError, TypeError)):
        return True
    if isinstance(error, exceptions.NonFiniteError):  # of numbers that are too large for a fit
        return True
    if is_too_large(error):
        return True
    words = {name, name.rstrip("s"), name.removesuffix("_"), *OTHERS.get(name, ())}
    return isinstance(error, (ValueError, TypeError)) and any(word in str(error) for word in words)


def is_too_large(error: Exception) -> bool:
    """Tell whether an error is that of an array of a size that NumPy tells."""
    return isinstance(error, MemoryError) and "Unable to allocate" in str(error)


def state_of(instance: Any) -> dict[str, int]:
    """Return which objects an object's attributes are."""
    return {name: id(value) for name, value in vars(instance).items()}


def is_worded(error: Exception, said: str, name: str, function: str) -> bool:
    """Tell whether the error of a call says in words which argument, or which function, is wrong."""
    if isinstance(error, (*OWN, NotFittedError)):
        return True
    if name in FOUND and isinstance(error, FOUND[name]):
        return True
    if is_too_large(error):
        return True
    if not isinstance(error, (ValueError, TypeError)):
        return False
    if name in DATA:  # which scikit-learn and NumPy read
        return True
    words = (name, name.rstrip("s"), *function.rpartition(".")[::2], *OTHERS.get(name, ()))
    is_told = "cannot be computed with" in said or not re.search(RAW, said)
    return is_told and any(word and word.lower() in said.lower() for word in words)


def of_call(call: Call, name: str, text: str, seed: int = -1) -> str | None:
    """Return what is wrong with an argument of a function and one of the values."""
    shown = f"seed {seed}: {call.name}({name}={text})"
    instance = copy.deepcopy(call.of) if hasattr(call.of, "fit") else call.of
    function = call.function if instance is None else getattr(instance, call.function.__name__)
    before = state_of(instance) if hasattr(instance, "fit") else None
    arguments = {**call.arguments, name: VALUES[text]()}
    try:
        with bounded(SECONDS), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            function(**arguments)
    except TooLongError:
        return f"{shown}: takes more than {SECONDS} s"
    except Exception as error:
        try:
            said = str(error)
        except Exception as other:
            return f"{shown}: {type(error).__name__} that cannot be shown: {other!r}"
        if not is_worded(error, said, name, call.name):
            return f"{shown}: {type(error).__name__}: {said[:300]}"
        return _wrong_with(said, instance, before, shown)
    return None


def _wrong_with(said: str, instance: Any, before: Any, shown: str) -> str | None:
    """Return what is wrong with an error in words, or with what it has left behind."""
    if len(said) > LONGEST:
        return f"{shown}: a message of {len(said)} characters"
    if before is not None and state_of(instance) != before:
        changed = {k for k in {*before, *vars(instance)} if before.get(k) != state_of(instance).get(k)}
        return f"{shown}: refused, but {sorted(changed)} changed"
    return None


def mismatch(seed: int) -> str | None:
    """Return what is wrong with a case; None if nothing is."""
    rng = np.random.default_rng(seed)
    text = list(VALUES)[int(rng.integers(len(VALUES)))]
    if rng.random() < 0.5:
        cls, name = pairs()[int(rng.integers(len(pairs())))]
        return of_case(cls, name, text, seed)
    chosen = arguments()
    call, name = chosen[int(rng.integers(len(chosen)))]
    return of_call(call, name, text, seed)


def of_case(cls: type, name: str, text: str, seed: int = -1) -> str | None:
    """Return what is wrong with a parameter of a class and one of the values."""
    value = VALUES[text]()
    shown = f"seed {seed}: {cls.__module__}.{cls.__qualname__}({name}={text})"
    instance: Any = None
    before: Any = None
    try:
        with bounded(SECONDS), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            instance = cls(**{**needed(cls), name: value})
            before = None if isinstance(instance, nn.Module) else state_of(instance)
            displayed(instance)
            used(instance)
    except TooLongError:
        return f"{shown}: takes more than {SECONDS} s"
    except Exception as error:
        try:
            said = str(error)
        except Exception as other:
            return f"{shown}: {type(error).__name__} that cannot be shown: {other!r}"
        if not is_documented(error, name, cls):
            return f"{shown}: {type(error).__name__}: {said[:300]}"
        return _wrong_with(said, instance, before, shown)
    return None


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    raise SystemExit(run(mismatch, __doc__, 3000))
