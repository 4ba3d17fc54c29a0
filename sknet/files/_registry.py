"""The classes and functions that a file may name, and their names.

All come from the ``__all__`` of public packages, or from the table `PARTS` for parts of fitted objects
that users never name. A name in a file is looked up only here: of modules, a file can load sknet's own.
"""

import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from sknet._constraints import shown
from sknet._late import Names
from sknet.files._kinds import is_stored

HOUSE = Path(__file__).parents[1]
MOST_NAMED = 20  # in an error
NOT_STORED = ("display", "files", "dask", "exceptions", "persistence")
NUMPYS = {f"numpy.random.{each.__name__}": each for each in (np.random.RandomState, np.random.Generator)}
INNER = (
    *("sknet.device", "sknet.engine", "sknet.estimators", "sknet.nn", "sknet.optim"),
    *("sknet.compile._graph", "sknet.compile._symbolic", "sknet.graphs._export"),
)
SPLITTERS = "sklearn.model_selection"  # splitters, for `validation_split`


def _parts_of(package: str, **modules: str) -> Names:
    return Names({f"sknet.{package}.{module}": names.split() for module, names in modules.items()})


# Classes and functions without a public name, by the beginning of their names in files.
PARTS = {
    "sknet.callbacks.extend": _parts_of("callbacks", _checkpoint="KeepState", _stopping="Plateau"),
    "sknet.compile.extend": _parts_of("compile", _symbolic="Counted Filled Length Lengths Share Triangles"),
    "sknet.engine.extend": _parts_of("engine", _inputs="Batch SparseForm"),
    "sknet.estimators.extend": _parts_of(
        "estimators",
        _architecture="Built HeadOutputs Joined Members Perceptron Ready WithHeads",
        _autoencoder="Coder SymmetricCoder Transposed",
        _fit="Compared",
        _head_targets="HeadTargets",
        _inputs="Encoded Inputs",
        _scaling="InputScaling Units",
        _summary="Summarized",
        _targets="ArrayTargets ClassTargets ColumnTargets OrderedTargets PositionTargets RealTargets",
    ),
    "sknet.freezing": _parts_of(
        "freezing",
        _encoders="Bins Branch Chain Columns Encoding Levels OneHot Ordinal _Unseen",
        _predictor="Features FrozenPipeline Retargeted",
        _transformers="Binarizing BoxCox Elementwise Imputing Normalizing Powers Products Projection "
        "Quantiles Scaling Selection",
    ),
    "sknet.losses.extend": _parts_of(
        "losses",
        _classification="ClippedLogLoss",
        _wrappers="Averaged Columns FrozenLoss FunctionLoss Heads Standardized WithOffset",
    ),
    "sknet.nn.extend": _parts_of(
        "nn",
        **{"layers._embedding": "draw_embedding draw_frequencies", "layers._recurrent": "draw_gates"},
        **{"layers._linear": "draw_ones draw_signs draw_standard", "_parameter": "draw_bias draw_weight"},
    ),
    "sknet.onnx": _parts_of("onnx", _writer="Node"),
    "sknet.preprocessing": _parts_of(
        "preprocessing",
        _encodings="CategoryColumn Crossed NumberColumn Numbers SparseNumbers Target ValueMeans",
        _plan="FittedEncoder Options Plan",
        _schema="Feature Schema Table",
        _words="Words",
    ),
    "sknet.tabular": _parts_of(
        "tabular",
        _base="BaseTabular",
        _frozen="FrozenTabularClassifier FrozenTabularRegressor Parts",
        _log_link="ExpLink",
        _members="Job Members Setting Task",
        _neighbors="LogShares",
        _predicting="Mix",
        _residuals="WeightedMean",
        _training="Member NoScore Rows TabularNet",
    ),
}


@cache
def _packages() -> tuple[str, ...]:
    """Return the public packages and modules of sknet whose objects are stored."""
    found = ["sknet"]
    for info in pkgutil.iter_modules([str(HOUSE)]):
        if info.name.startswith("_") or info.name in NOT_STORED:
            continue
        found.append(f"sknet.{info.name}")
        inner = pkgutil.iter_modules([str(HOUSE / info.name)]) if info.ispkg else ()
        found += [f"sknet.{info.name}.{each.name}" for each in inner if not each.name.startswith("_")]
    return (*found, *(each for each in PARTS if each.endswith(".extend")), SPLITTERS)


@cache
def _names_in(package: str) -> Mapping[str, Any]:
    """Return the objects of a package that files may name, by name."""
    parts: Mapping[str, Any] = PARTS.get(package, {})
    if package.endswith(".extend"):
        return parts
    module = import_module(package)
    if package == SPLITTERS:
        return {name: value for name, value in vars(module).items() if _is_splitter(value)}
    names = [name for name in getattr(module, "__all__", ()) if name not in NOT_STORED]  # some need extras
    found = {name: getattr(module, name) for name in names}
    known = {name: value for name, value in found.items() if _is_ours(value) and is_stored(value)}
    if package == "sknet.ops":
        known |= {name: found[name] for name in found if isinstance(found[name], FunctionType)}
    return {**known, **parts}


def _named(package: str, name: str) -> Any:
    """Return the object that files may name so, or None; others of its package are not loaded."""
    parts = _names_in(package) if package == SPLITTERS else PARTS.get(package, {})
    if name in parts or package == SPLITTERS or package.endswith(".extend"):
        return parts.get(name)
    module = import_module(package)
    value: Any = getattr(module, name) if name in getattr(module, "__all__", ()) else None
    is_function = package == "sknet.ops" and isinstance(value, FunctionType)
    return value if is_function or (_is_ours(value) and is_stored(value)) else None


def _is_ours(value: Any) -> bool:
    return isinstance(value, type) and value.__module__.startswith("sknet.")


def _is_splitter(value: Any) -> bool:
    return isinstance(value, type) and hasattr(value, "split") and hasattr(value, "get_n_splits")


def full_name(thing: Any) -> str:
    return f"{getattr(thing, '__module__', None)}.{getattr(thing, '__qualname__', type(thing).__qualname__)}"


def stored_name(thing: Any) -> str:
    """Return the name of a class or function in files: the public one, if it is sknet's."""
    for name, value in NUMPYS.items():
        if value is thing:
            return name
    home = getattr(thing, "__module__", None) or ""
    top = ".".join(home.split(".")[:2])
    for package in _packages():
        if package == top or package.startswith(f"{top}."):
            for name, value in _names_in(package).items():
                if value is thing:
                    return f"{package}.{name}"
    if top.startswith("sknet.") and vars(sys.modules[home]).get(thing.__qualname__) is thing:
        raise TypeError(f"{full_name(thing)} cannot be stored in a file")
    return full_name(thing)


def is_ours(x: Any) -> bool:
    """Tell whether an object's class is sknet's, or derived from one of sknet's."""
    packages = [cls.__module__.partition(".")[0] for cls in type(x).__mro__]
    return "sknet" in packages and not isinstance(x, type)


def splitters() -> Iterable[type]:
    """Return scikit-learn's splitters."""
    return _names_in(SPLITTERS).values()


def all_known() -> Iterable[Any]:
    """Return every class and function that a file may name without being trusted."""
    return [value for package in _packages() if package != SPLITTERS for value in _names_in(package).values()]


def inner_names() -> set[str]:
    """Return the qualified names of internal classes of models and estimators, for pickles."""
    modules = [(name, module) for name, module in list(sys.modules.items()) if name.startswith(INNER)]
    return {
        full_name(value)
        for name, module in modules
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == name
    }


class NotKnownError(LookupError):
    """A name in a file that is neither sknet's nor trusted."""


class Registry:
    """Looks up the names in one file."""

    def __init__(self, trusted: Iterable[Any] = ()) -> None:
        self._trusted: dict[str, Any] = {}
        if isinstance(trusted, (str, type)) or not isinstance(trusted, Iterable):
            raise TypeError(
                f"trusted must be a list of classes and functions, as [MyNet], got {shown(trusted)}"
            )
        for thing in trusted:
            if not (isinstance(thing, type) or callable(thing)) or not hasattr(thing, "__qualname__"):
                raise TypeError(
                    f"trusted must hold classes and functions, as in trusted=[MyNet], got {shown(thing)}"
                )
            self._trusted[full_name(thing)] = thing

    def find(self, name: str, fits: Callable[[Any], bool]) -> Any:
        found = self._known(name)
        if found is None:
            raise NotKnownError(self.needs([name]))
        if not fits(found):
            raise NotKnownError(f"it has {name} where an object of that kind is not allowed")
        return found

    def needs(self, names: Iterable[Any]) -> str:
        """Return what to do about names that are neither sknet's nor trusted; nothing if all are."""
        texts = dict.fromkeys(name for name in names if isinstance(name, str))
        unknown = list(islice((name for name in texts if self._known(name) is None), MOST_NAMED))
        short = ", ".join(name.rpartition(".")[2] or name for name in unknown)
        are, yours = ("is", "it is") if len(unknown) == 1 else ("are", "they are")
        advice = f"which {are} not part of sknet: load(path, trusted=[{short}]) if {yours} yours"
        return f"it needs {', '.join(unknown)}, {advice}" if unknown else ""

    def _known(self, name: str) -> Any:
        package, _, last = name.rpartition(".")
        found = _named(package, last) if package in _packages() else NUMPYS.get(name)
        return self._trusted.get(name) or self._by_qualified_name(name) if found is None else found

    def _by_qualified_name(self, name: str) -> Any:
        """Return the only trusted object with this qualified name, whatever its module."""
        found = [each for full, each in self._trusted.items() if name.endswith(f".{each.__qualname__}")]
        return found[0] if len(found) == 1 else None
