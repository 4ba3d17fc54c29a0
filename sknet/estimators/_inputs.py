"""Inputs of networks: tables, arrays with any number of axes, sequences, and several inputs by name.

Networks compute with NumPy or on a device of sknet's own. An array of any other namespace of the array API
standard becomes a NumPy array at the door, and what is computed from it goes back to where it came from.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sknet import nn
from sknet._fields import ABSENT, COUNT, Each, Items, Named
from sknet._frames import (
    all_finite,
    are_numbers,
    as_array,
    is_collection,
    is_record,
    length_of,
    names_of,
    selected,
    sequences_in,
    without_dictionaries,
)
from sknet._hints import suggestion
from sknet._late import above
from sknet._params import arguments_of
from sknet.device import MetaArray, active, device_of, is_array, namespace, to_host
from sknet.engine._batches import ComputedRows
from sknet.engine._checks import check_given
from sknet.engine._inputs import arguments, each_input, first_input
from sknet.exceptions import DeviceError, DtypeError
from sknet.graphs import GraphModule
from sknet.nn._lazy import copy_for_shapes, materialize_for, shadows, shape_pass

if TYPE_CHECKING:
    from sknet.preprocessing import TableEncoder
    from sknet.preprocessing._plan import FittedEncoder

# Whether a method is called by another, with what that has converted.
_is_converted: ContextVar[bool] = ContextVar("sknet.estimators.is_converted", default=False)


def follows_namespace(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method of an estimator return arrays of the namespace, and on the device, of its X."""

    @wraps(method)
    def called(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if "_namespace" in self.__dict__ and not _is_converted.get():
            _check_namespace(self, X, method.__name__)
        if type(X) is np.ndarray:
            return method(self, X, *args, **kwargs)
        if is_collection(X):
            if kwargs.get("offset") is not None:
                raise ValueError("offset= is for rows in memory, X.compute(), not for a Dask collection")
            return above("map_blocks")(called, self, X, *args, **kwargs)
        if not _is_foreign(X):
            return method(self, X, *args, **kwargs)
        from sklearn.utils._array_api import get_namespace_and_device  # loads what NumPy does not need

        xp, _, device = get_namespace_and_device(X)

        def like(result: Any) -> Any:
            if isinstance(result, (list, tuple)):
                return type(result)(like(part) for part in result)
            if isinstance(result, dict):
                return {name: like(part) for name, part in result.items()}
            is_number = isinstance(result, np.ndarray) and result.dtype.kind in "biuf"
            return xp.asarray(result, device=device) if is_number else result

        given = {name: as_host(value) for name, value in kwargs.items()}
        token = _is_converted.set(True)
        try:
            return like(method(self, as_host(X), *map(as_host, args), **given))
        finally:
            _is_converted.reset(token)

    return called


def note_namespace(estimator: Any, X: Any) -> None:
    """Remember the namespace and device of the inputs of a fit, if they are not NumPy's or sknet's own."""
    vars(estimator).pop("_namespace", None)
    if type(X) is not np.ndarray and _is_foreign(X):
        estimator._namespace = _place_of(X)


def _check_namespace(estimator: Any, X: Any, method: str) -> None:
    """Raise what scikit-learn asks of an estimator that was fitted in another namespace than X's."""
    if _dispatches() and _place_of(X) != estimator._namespace:
        name, (fitted, there), (given, here) = type(estimator).__name__, estimator._namespace, _place_of(X)
        raise ValueError(
            f"Inputs passed to {name}.{method}() must use the same namespace and the same device as those "
            f"passed to fit(): fitted with {fitted} on device {there}, got {given} on device {here}. Convert "
            "X, or turn array_api_dispatch off."
        )


def _place_of(X: Any) -> tuple[str, str]:
    from sklearn.utils._array_api import get_namespace_and_device

    xp, _, device = get_namespace_and_device(X)
    return xp.__name__.rpartition("array_api_compat.")[2], str(device)


def as_host(x: Any) -> Any:
    """Return an array of another namespace as a NumPy array, and anything else as it is."""
    if type(x) is np.ndarray or not _is_foreign(x):
        return x
    from sklearn.utils._array_api import _convert_to_numpy, get_namespace

    return _convert_to_numpy(x, get_namespace(x)[0])


def on_host(x: Any) -> Any:
    """Return an array of another namespace, of a device or of Dask as a NumPy array and all else as it is."""
    x = as_host(x.compute() if is_collection(x) else x)
    return to_host(x) if type(x) is not np.ndarray and is_array(x) else x


def dense_targets(y: Any) -> Any:
    """Return targets that may be sparse as an array, and Arrow's categories as their values."""
    if hasattr(y, "toarray"):
        return y.toarray()
    return y if type(y) is np.ndarray else without_dictionaries(y)


def _is_foreign(x: Any) -> bool:
    """Tell whether x is of a namespace that is not ours, and scikit-learn has been told to dispatch on it."""
    kind = type(x)
    has_namespace = hasattr(kind, "__array_namespace__") or kind.__module__ == "torch"
    return has_namespace and not is_array(x) and _dispatches()


def _dispatches() -> bool:
    """Tell whether scikit-learn has been told to; a predictor does without it."""
    sklearn: Any = sys.modules.get("sklearn")
    return sklearn is not None and bool(sklearn.get_config()["array_api_dispatch"])


def is_on_device(X: Any) -> bool:
    """Tell whether X is an array of a device that scikit-learn's own checks cannot read."""
    return not isinstance(X, np.ndarray) and is_array(X) and device_of(X).kind != "cpu"


Forward = Mapping[str, bool]


@dataclass(frozen=True)
class Sequences:
    """X with the lengths of its sequences, as passed to `fit` and `predict`."""

    X: Any
    lengths: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(np.shape(first_input(self.X)))


@dataclass(frozen=True)
class RowsWithOffset:
    """X with an offset of the outputs, as passed to `predict`."""

    X: Any
    offset: Any


def with_offset(X: Any, offset: Any) -> Any:
    return X if offset is None else RowsWithOffset(X, offset)


def with_lengths(X: Any, lengths: Any) -> Any:
    """Return X with the lengths of its sequences, which rows of different lengths have by themselves."""
    X, own = _padded(X)
    if lengths is None:
        lengths = own
    elif own is not None and (np.shape(lengths) != own.shape or (np.asarray(lengths) > own).any()):
        raise ValueError(
            "the rows of X are sequences of different lengths, and lengths= differs from these: leave it out"
        )
    return X if lengths is None else Sequences(X, lengths)


def with_own_lengths(X: Any, forward: Forward | None) -> Any:
    """Return the rows of a list with their lengths, even equal ones, for a network that reads them."""
    if not isinstance(X, (list, tuple)) or "lengths" not in (forward or {}):
        return X
    counts = set(map(length_of, X))
    return X if None in counts or not any(counts) else Sequences(*nn.pad_sequences(X))


def joined_lengths(known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a fit, given its `locals()`, with lengths as a part of the X they belong to."""
    given = arguments_of(known)
    for name in ("X", "X_val"):
        given[name] = with_lengths(given[name], given.pop(name.replace("X", "lengths")))
    return given


def _padded(X: Any) -> tuple[Any, Any]:
    """Return sequences of different lengths as one array with their lengths, and all else with None."""
    if type(X) is np.ndarray and X.dtype != object:
        return X, None
    if not _is_named(X):
        rows = sequences_in(X)
        return (X, None) if rows is None else nn.pad_sequences(rows)
    found = {name: _padded(x) for name, x in X.items()}
    lengths = {name: each for name, (_, each) in found.items() if each is not None}
    if not lengths:
        return X, None
    first = next(iter(lengths.values()))
    if "lengths" not in X and not all(np.array_equal(first, each) for each in lengths.values()):
        raise ValueError(
            f"the sequences of the inputs {list(lengths)} have different lengths in the same rows, and a "
            "network takes one `lengths`: pad them, sknet.nn.pad_sequences, and give all lengths by name"
        )
    return {name: x for name, (x, _) in found.items()}, None if "lengths" in X else first


def forward_of(module: Any) -> dict[str, bool] | None:
    """Return the arguments of a module's `forward`: whether each is required."""
    if isinstance(module, GraphModule):
        return dict.fromkeys(module.input_names, True)
    module = getattr(module, "forwards_to", module)  # what another passes its inputs on to
    kind = module if isinstance(module, type) else type(module)
    if not issubclass(kind, nn.Module):
        return None
    found = {}
    for name, p in list(inspect.signature(kind.forward).parameters.items())[1:]:
        if p.kind is p.VAR_KEYWORD:
            found["**"] = False
        elif p.kind is not p.VAR_POSITIONAL:
            found[name] = p.default is p.empty
    return found


def may_be_missing(estimator: Any, reset: bool = False) -> bool:
    """Tell whether inputs may hold NaN: as a fit has found out, or an estimator says."""
    # In a first fit, the network of a user's module is asked once it is built.
    if estimator is None:
        return False
    if reset and getattr(estimator, "module", None) is not None:
        return True
    return estimator._allows_nan or bool(estimator.__sklearn_tags__().input_tags.allow_nan)


def are_inputs(X: Any, forward: Forward | None) -> bool:
    """Tell whether X is anything else than the table that a perceptron takes."""
    return isinstance(X, Sequences) or is_by_name(X, forward) or _rank(X) > 2


def is_by_name(X: Any, forward: Forward | None) -> bool:
    """Tell whether X says which inputs of a network its parts are: a dict, or a frame for several."""
    if isinstance(X, Sequences):
        return _is_named(X.X)
    return _is_named(X) or (hasattr(X, "columns") and len(required_names(forward)) > 1)


def _is_named(X: Any) -> bool:
    return isinstance(X, dict) and not hasattr(X, "tocsr")  # some of which are dicts


def read_inputs(
    estimator: Any,
    X: Any,
    forward: Forward | None,
    dtypes: list[type],
    *,
    reset: bool,
    allows_nan: bool = False,
) -> Any:
    def allowed() -> bool:
        return allows_nan or may_be_missing(estimator, reset)

    X, lengths = (X.X, X.lengths) if isinstance(X, Sequences) else (X, None)
    X = as_host(X)
    names = required_names(forward)
    if lengths is not None:
        X = with_checked_lengths(X, lengths, forward)
    elif len(names) > 1 and hasattr(X, "columns"):
        if estimator is not None:
            from sklearn.utils.validation import validate_data  # of an estimator, which has loaded it

            validate_data(estimator, X, skip_check_array=True, reset=reset)
        X, lengths = _padded(_by_columns(X, forward or {}))
        X = X if lengths is None else with_checked_lengths(X, lengths, forward)
    if not _is_named(X):
        return _array(X, "X", dtypes, allowed)
    _check_names(X, forward)
    found = {name: _array(x, name, dtypes, allowed) for name, x in X.items()}
    if "lengths" in found and found["lengths"].dtype.kind in "iu" and lengths is None:
        _check_steps(found, found["lengths"])
    counts = {name: int(x.shape[0]) for name, x in found.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(
            f"Found inputs with inconsistent numbers of samples: {counts}. Each needs one row a sample"
        )
    return found


def numbers_as_array(X: Any) -> Any:
    """Return integers in any container, and lists of numbers, as an array, and anything else as it is."""
    is_elsewhere = (is_array(X) and not isinstance(X, np.ndarray)) or as_host(X) is not X
    if hasattr(X, "tocsr") or is_elsewhere:
        return X
    try:
        found = as_array(X)
    except ValueError:  # ragged, which the checks say better
        return X
    kinds = "biuf" if isinstance(X, (list, tuple)) else "biu"
    return found if found.dtype.kind in kinds else X


def check_one_input(forward: Forward | None) -> None:
    """Raise a ValueError if one array is no input of a network that needs several."""
    names = required_names(forward)
    if len(names) > 1:
        raise ValueError(
            f"the network needs the inputs {names}, and X is one array: give a dict of arrays by these "
            f"names, or a data frame whose columns begin with them, as in {names[0]}__0"
        )


def required_names(forward: Forward | None) -> list[str]:
    """Return the names of the arguments of `forward` without defaults."""
    return [name for name, required in (forward or {}).items() if required]


DEEPEST = 64  # axes of an array of NumPy


def _rank(X: Any) -> int:
    """Return the number of axes of an array, or of nested lists."""
    depth = 0
    while isinstance(X, (list, tuple)) and len(X) and depth < DEEPEST:  # it may hold itself
        X, depth = X[0], depth + 1
    return depth + len(getattr(X, "shape", ()))


RAGGED = (
    "If the rows of X are sequences of different lengths, a network of your own whose forward takes "
    "`lengths` learns from them as they are, NetClassifier(MyNet).fit(X, y); padded, lengths = "
    "pad_sequences(X) makes an array of them (sknet.nn)."
)


def _array(x: Any, name: str, dtypes: list[type], allows_nan: Callable[[], bool]) -> Any:
    """Return an input of any rank as an array of finite numbers, or of these and NaN."""
    if hasattr(x, "tocsr"):
        from sklearn.utils.validation import check_array  # it takes long to load

        finite = "allow-nan" if allows_nan() else True
        return check_array(x, accept_sparse="csr", dtype=dtypes, input_name=name, ensure_all_finite=finite)
    if is_array(x) and not isinstance(x, np.ndarray):
        return x
    try:
        x = as_array(x)
    except ValueError as error:
        raise ValueError(f"{error}\n{RAGGED}") from error
    if x.dtype.kind not in "biuf":
        raise ValueError(f"input {name!r} must be an array of numbers, got dtype {x.dtype}")
    if not x.ndim or not x.shape[0]:
        raise ValueError(f"input {name!r} must have at least one row, got shape {x.shape}")
    if not x.size:
        raise ValueError(f"every row of input {name!r} is empty, shape {x.shape}: there is nothing to learn")
    if x.dtype.kind == "f":
        if x.dtype not in dtypes:
            x = x.astype(dtypes[0])
        if not (all_finite(x) or are_numbers(x, allows_nan())):
            raise ValueError(f"input {name!r} contains NaN or infinity: impute or drop such rows first")
    return x


def missing_in(X: Any) -> str | None:
    """Return the first real input that holds NaN, as errors name it; None if none does."""
    for name, x in X.items() if isinstance(X, dict) else [(None, X)]:
        values = x.data if hasattr(x, "tocsr") else x
        with active(device_of(values)):
            if values.dtype.kind == "f" and namespace(values).isnan(values).any().item():
                return "Input X" if name is None else f"input {name!r}"
    return None


LOOKS_FOR_NAN = frozenset({"isnan", "isfinite"})


def looks_for_missing(network: nn.Module, X: Any, dtype: Any, dtypes: Any) -> bool:
    """Tell whether a network asks where its inputs are NaN, given the dtypes in which it reads them."""
    found: list[str] = []

    def seen(primitive: Any, operands: list[Any], result: Any) -> None:
        found.append(primitive.name)

    example = each_input(lambda x, kind: MetaArray((ROWS, *x.shape[1:]), kind), X, dtypes)
    try:
        shape_pass(copy_for_shapes(network), shadows(arguments(example), dtype, seen), seen=seen)
    except DeviceError:  # its code depends on values
        return False
    return not LOOKS_FOR_NAN.isdisjoint(found)


def with_checked_lengths(
    X: Any, lengths: Any, forward: Forward | None, *, has_steps: bool = True
) -> dict[str, Any]:
    """Return inputs and lengths by the names of the network's arguments."""
    if forward is None:
        raise TypeError(
            "lengths= needs the names of the network's arguments, which are not known before it is built: "
            "give its class, or all inputs by name, X={'x': X, 'lengths': lengths}"
        )
    if "lengths" not in forward:
        raise TypeError(
            f"lengths= needs a network whose forward takes `lengths`; the arguments are {list(forward)}. "
            "Rows of different lengths have lengths, too: without them a network would learn from padding"
        )
    lengths = as_array(to_host(lengths) if is_array(lengths) else lengths)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths.size and lengths.min() < 0):
        raise ValueError(
            "lengths must be an integer for each row, none negative, got "
            f"{lengths.dtype} of shape {lengths.shape}"
        )
    found = dict(X) if _is_named(X) else {next(iter(forward)): X}
    if has_steps:
        _check_steps(found, lengths)
    return {**found, "lengths": lengths.astype(np.int64)}


def _steps_of(X: Mapping[str, Any]) -> int:
    """Return the steps of the longest input by name, 0 if none has some."""
    return max((np.shape(x)[1] for name, x in X.items() if name != "lengths" and np.ndim(x) > 1), default=0)


def _check_steps(X: Mapping[str, Any], lengths: Any) -> None:
    """Raise a ValueError for lengths below 0 or beyond all inputs."""
    longest = _steps_of(X)
    if lengths.size and not 0 <= lengths.min() <= lengths.max() <= longest:
        wrong = lengths.min() if lengths.min() < 0 else lengths.max()
        raise ValueError(
            f"lengths must be at most {longest}, as X has so many steps, and not negative; got {wrong}"
        )


def _by_columns(X: Any, forward: Forward) -> dict[str, Any]:
    """Return the columns of a frame by the arguments of a network that their names begin with."""
    columns = {str(column): str(column).split("__")[0] for column in names_of(X)}
    unknown = [column for column, name in columns.items() if name not in forward]
    if unknown:
        raise ValueError(
            f"column {unknown[0]!r} belongs to no argument of the network{suggestion(unknown[0], forward)} "
            f"The arguments of forward are {list(forward)}, and a column is called like one, or name__column"
        )
    missing = [name for name in required_names(forward) if name not in columns.values()]
    if missing:
        raise ValueError(
            f"no column is for argument {missing[0]!r} of the network: call it {missing[0]}__column"
        )
    names = list(dict.fromkeys(columns.values()))
    parts = {name: [c for c in names_of(X) if columns[str(c)] == name] for name in names}
    return {name: as_array(selected(X, part)) for name, part in parts.items()}


def _check_names(X: Mapping[str, Any], forward: Forward | None) -> None:
    if not X:
        raise ValueError("X has no inputs: expected a dict of arrays by the names of the network's arguments")
    if forward is None or "**" in forward:
        return
    for name in X:
        if name not in forward:
            raise ValueError(
                f"the network has no input {name!r}{suggestion(str(name), forward)} "
                f"Its inputs are {list(forward)}."
            )
    missing = [name for name in required_names(forward) if name not in X]
    if missing:
        raise ValueError(f"X has no input {missing[0]!r}, which the network needs: got {list(X)}")


ROWS = 2  # of a shape pass; not 1, so that the axis of the rows can be told from others


@dataclass(frozen=True)
class Inputs:
    """The inputs of a fitted network that are not a table of real numbers."""

    shapes: Any
    integers: Any
    forward: Any = None
    masks: tuple[str, ...] = ()
    _stored_fields = {
        "shapes": [Each(tuple, COUNT), Items(str, Each(tuple, COUNT))],
        "integers": [bool, Items(str, bool)],
        "forward": [Items(str, bool), None],
        "masks": [Each(tuple, str), ABSENT],
    }

    def _check_stored(self) -> None:
        is_named = isinstance(self.shapes, dict)
        if is_named != isinstance(self.integers, dict) or (
            is_named and self.shapes.keys() != self.integers.keys()
        ):
            raise ValueError(f"inputs {self.shapes} and {self.integers} differ")

    @property
    def is_table(self) -> bool:
        return isinstance(self.shapes, tuple) and len(self.shapes) == 1 and not self.integers

    @property
    def example(self) -> Any:
        """A row of zeros."""

        def one(shape: Any, integer: Any) -> Any:
            return np.zeros((1, *shape), np.int64 if integer else np.float64)

        found = each_input(one, self.shapes, self.integers)
        if self.masks:
            as_mask = {name: x.astype(bool) if name in self.masks else x for name, x in _each(found)}
            found = as_mask if isinstance(found, dict) else as_mask["X"]
        if isinstance(found, dict) and "lengths" in found:
            found["lengths"] += 1  # a mean over no steps is not defined
        return found

    def read(self, estimator: Any, X: Any, dtypes: list[type], allows_nan: bool = False) -> Any:
        """Return checked inputs like those of the fit; integers become real numbers where expected."""
        if type(X) is dict and isinstance(self.shapes, dict) and self._needs_no_conversion(X, dtypes):
            return X
        if isinstance(X, (list, tuple)) and isinstance(self.shapes, dict) and "lengths" in self.shapes:
            X = Sequences(*nn.pad_sequences(X))  # all of one length: else they have come with lengths
        X = read_inputs(estimator, X, self.forward, dtypes, reset=False, allows_nan=allows_nan)
        shapes, integers = self.shapes, self.integers
        if isinstance(shapes, dict):
            X = X if isinstance(X, dict) or len(required_names(self.forward)) > 1 else {next(iter(shapes)): X}
            if isinstance(X, dict):
                self._check_given(X)
        if isinstance(X, dict) != isinstance(shapes, dict) or (
            isinstance(X, dict) and X.keys() != shapes.keys()
        ):
            if isinstance(X, dict) and list(X) == [next(iter(self.forward or {}), None), "lengths"]:
                raise ValueError(
                    "the fit had rows of one length, without lengths=, and these have lengths of their own: "
                    "fit with lengths=, X.shape[1] for each row, or with a list of sequences as X"
                )
            got, was = (list(x) if isinstance(x, dict) else "one array" for x in (X, self.shapes))
            raise ValueError(f"expected inputs like those of the fit, {was}, got {got}")
        X = self._of_no_steps(X)
        for name, x, shape, integer in _each(X, shapes, integers):
            rank = len(shape) + 1
            if x.ndim != rank:
                raise ValueError(f"input {name!r} must have {rank} axes, as in the fit, got shape {x.shape}")
            if integer and x.dtype.kind == "f":
                raise ValueError(f"input {name!r} must hold integers, got {x.dtype}: use .astype('int64')")
        return self.converted(X, dtypes[0])

    def _of_no_steps(self, X: Any) -> Any:
        """Return sequences, all of which are empty, with the axes and the kind of those of the fit."""
        if not isinstance(X, dict) or len(X) != 2 or "lengths" not in X or np.any(X["lengths"]):
            return X
        [name] = [each for each in X if each != "lengths"]
        if X[name].shape[1:] != (1,):
            return X
        kind = np.int64 if self.integers[name] else X[name].dtype
        return X | {name: np.zeros((len(X[name]), 1, *self.shapes[name][1:]), kind)}

    def _check_given(self, X: Any) -> None:
        """Raise a ValueError if an input of the fit is missing, which the network could do without."""
        required = required_names(self.forward)
        names = [name for name in self.shapes if name in X or name not in required]
        check_given(names, X, other="lengths=, one for each row (lengths_val= with X_val), or by name, ")

    def _needs_no_conversion(self, X: dict[str, Any], dtypes: list[type]) -> bool:
        """Tell whether inputs are valid as they are: all checks take longer than predicting one row."""
        if X.keys() != self.shapes.keys():
            return False
        n_rows = {len(x) if type(x) is np.ndarray and x.ndim else 0 for x in X.values()}
        lengths = X.get("lengths")
        return (
            len(n_rows) == 1
            and 0 not in n_rows
            and (lengths is None or 0 <= lengths.min() <= lengths.max() <= _steps_of(X))
            and all(
                x.ndim == len(self.shapes[name]) + 1
                and (x.dtype.kind in "iu" if self.integers[name] else x.dtype.type in dtypes)
                and all_finite(x)
                for name, x in X.items()
            )
        )

    def converted(self, X: Any, dtype: Any) -> Any:
        """Return inputs with integers that stand for real numbers as those."""
        kinds = self.dtypes(X, dtype)
        if not isinstance(X, dict):
            return X if X.dtype == kinds or X.dtype.kind == "f" else X.astype(kinds)
        return {name: x if x.dtype.kind == "f" else x.astype(kinds[name]) for name, x in X.items()}

    def dtypes(self, X: Any, dtype: Any) -> Any:
        """Return the dtype of each input in computations."""
        if not isinstance(X, dict):
            return X.dtype if self.integers else np.dtype(dtype)
        return {name: x.dtype if self.integers[name] else np.dtype(dtype) for name, x in X.items()}

    @classmethod
    def of(cls, network: nn.Module, X: Any, dtype: Any, forward: Any) -> "tuple[Inputs, Any]":
        """Find out which integers stay integers, by passes without data."""
        if isinstance(X, dict):
            _check_names(X, forward_of(network))
        named = X if isinstance(X, dict) else {"X": X}
        shapes = {name: tuple(x.shape[1:]) for name, x in named.items()}
        wrong: DtypeError | None = None
        integers = [name for name, x in named.items() if x.dtype.kind in "biu"]

        def found(kept: Any) -> Inputs:
            of_booleans = tuple(name for name in kept if named[name].dtype.kind == "b")
            if not isinstance(X, dict):
                return cls(shapes["X"], "X" in kept, forward, of_booleans)
            return cls(shapes, {name: name in kept for name in named}, forward, of_booleans)

        masks = [name for name in integers if isinstance(X, dict) and named[name].dtype.kind == "b"]
        for kept in _choices(integers, [*masks, *({"lengths"} & set(integers))]):
            kinds = {name: x.dtype if name in kept else np.dtype(dtype) for name, x in named.items()}
            example = {name: MetaArray((ROWS, *x.shape[1:]), kinds[name]) for name, x in named.items()}
            try:
                shape = _output_shape(network, example if isinstance(X, dict) else example["X"], dtype)
            except DtypeError as error:
                wrong = error
                continue
            except DeviceError:  # its code depends on values
                return found(integers), None
            return found(kept), shape
        assert wrong is not None
        if missing := missing_in(X):
            raise ValueError(
                f"{missing} contains NaN, which is no integer: impute or drop such rows first. {wrong}"
            ) from wrong
        raise wrong


def _each(X: Any, *others: Any) -> Iterable[tuple[Any, ...]]:
    if isinstance(X, dict):
        return [(name, x, *(other[name] for other in others)) for name, x in X.items()]
    return [("X", X, *others)]


def _choices(names: list[str], always: list[str]) -> Iterable[tuple[str, ...]]:
    """Yield which inputs stay integers: beside those that always do first none, then each, then all."""
    others = [name for name in names if name not in always]
    for count in range(len(others) + 1):
        for chosen in combinations(others, count):
            yield (*always, *chosen)


def _output_shape(network: nn.Module, example: Any, dtype: Any) -> tuple[int, ...] | None:
    inputs = arguments(example)
    materialize_for(network, inputs, dtype)
    found = shape_pass(network.copy(), shadows(inputs, dtype))
    shape = getattr(found, "shape", None)
    return None if shape is None or not shape or shape[0] != ROWS else tuple(shape[1:])


def check_table(X: Any) -> Any:
    """Return a given table on the host, after checking its kind."""
    if isinstance(X, Sequences):
        raise TypeError("lengths= are for sequences, and an encoder reads a table: set encoder=None")
    if isinstance(X, dict) and not hasattr(X, "tocsr"):
        raise TypeError(
            f"an encoder reads one table, and X is a dict of {list(X)}: make a data frame of it, or set "
            "encoder=None for a network that takes several inputs"
        )
    return on_host(X)


@dataclass(frozen=True)
class Encoded:
    """Inputs of a fitted network that reads encoded tables; takes the place of `Inputs`."""

    encoder: "TableEncoder | FittedEncoder"
    forward: ClassVar[None] = None
    _stored_fields = {
        "encoder": Named("TableEncoder", "FittedEncoder", fitted="_plan"),
    }

    @property
    def n_features(self) -> int:
        """Columns of a table."""
        return int(self.encoder.n_features_in_)

    @property
    def example(self) -> np.ndarray:
        return np.zeros((1, self.encoder.n_features_out_))

    def frozen(self) -> "Encoded":
        """Return the same without what only a fit needs."""
        from sknet.preprocessing._plan import FittedEncoder

        return Encoded(FittedEncoder(self.encoder))

    def read(self, estimator: Any, X: Any, dtypes: list[type], allows_nan: bool = False) -> Any:
        """Return the rows of a table like that of the fit, encoded."""
        encoder = self.encoder
        return encoder.encode(encoder.read(check_table([X] if is_record(X) else X)))


def fixed_axes(frozen: Any, inputs: Mapping[str, Any]) -> set[tuple[int, int]]:
    """Return axes of inputs whose lengths are those of the fit: columns of tables, and units of their own."""
    if isinstance(frozen._inputs, (int, Encoded)):
        return {(0, 1)}
    units = {} if frozen._scaling is None else frozen._scaling.inputs
    return {
        (i, x.ndim - behind)
        for i, (name, x) in enumerate(inputs.items())
        if name in units
        for behind, length in enumerate(units[name].mean.shape[::-1], 1)
        if length > 1
    }


# Rows that are kept for importances: at most, at least, and by their elements.
MOST_ROWS, LEAST_ROWS, MOST_ELEMENTS = 200, 16, 2**14


def sample_of(X: Any) -> "np.ndarray | None":
    """Return a few evenly spaced rows of real inputs, None if there are no such rows, or too wide ones."""
    if isinstance(X, dict) or len(X.shape) != 2 or X.dtype.kind != "f" or X.shape[1] > MOST_ELEMENTS:
        return None
    count = min(X.shape[0], MOST_ROWS, max(LEAST_ROWS, MOST_ELEMENTS // max(X.shape[1], 1)))
    is_whole = count == X.shape[0]
    places = np.arange(count) if is_whole else np.linspace(0, X.shape[0] - 1, count).astype(np.int64)
    if isinstance(X, ComputedRows):
        return X[places]
    with active(device_of(X)):
        rows = to_host(X[places])
    if isinstance(rows, np.ndarray):
        return np.array(rows)
    found = np.zeros(rows.shape, rows.dtype)
    np.add.at(found, (np.repeat(np.arange(count), np.diff(rows.indptr)), rows.indices), rows.data)
    return found
