"""Reading the inputs of custom networks: tables, arrays with any number of axes, several inputs by name."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sknet import nn
from sknet._frames import as_array
from sknet._hints import suggestion
from sknet.device import is_array, to_host
from sknet.engine.extend import first_input
from sknet.estimators._namespace import as_host
from sknet.graphs import GraphModule

__all__ = [
    "Forward",
    "Sequences",
    "are_inputs",
    "check_one_input",
    "forward_of",
    "integers_as_array",
    "is_by_name",
    "read_inputs",
    "required_names",
    "with_checked_lengths",
    "with_lengths",
]

Forward = Mapping[str, bool]


@dataclass(frozen=True)
class Sequences:
    """X with the lengths of its sequences, as passed to `fit` and `predict`."""

    X: Any
    lengths: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Of X."""
        return tuple(np.shape(first_input(self.X)))


def with_lengths(X: Any, lengths: Any) -> Any:
    """Return X together with the lengths of its sequences; None for X alone."""
    return X if lengths is None else Sequences(X, lengths)


def forward_of(module: Any) -> dict[str, bool] | None:
    """Return the arguments of a module's `forward`: whether each is required."""
    if isinstance(module, GraphModule):
        return dict.fromkeys(module.input_names, True)
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


def read_inputs(estimator: Any, X: Any, forward: Forward | None, dtypes: list[type], *, reset: bool) -> Any:
    """Return checked inputs, integers as they are."""
    X, lengths = (X.X, X.lengths) if isinstance(X, Sequences) else (X, None)
    X = as_host(X)
    names = required_names(forward)
    if lengths is not None:
        X = with_checked_lengths(X, lengths, forward)
    elif len(names) > 1 and hasattr(X, "columns"):
        if estimator is not None:
            from sklearn.utils.validation import validate_data  # of an estimator, which has loaded it

            validate_data(estimator, X, skip_check_array=True, reset=reset)
        X = _by_columns(X, forward or {})
    if not _is_named(X):
        return _array(X, "X", dtypes)
    _check_names(X, forward)
    found = {name: _array(x, name, dtypes) for name, x in X.items()}
    counts = {name: int(x.shape[0]) for name, x in found.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(
            f"Found inputs with inconsistent numbers of samples: {counts}. Each needs one row a sample"
        )
    return found


def integers_as_array(X: Any) -> Any:
    """Return a table of integers in any container as an array of them, and anything else as it is."""
    is_elsewhere = (is_array(X) and not isinstance(X, np.ndarray)) or as_host(X) is not X
    if hasattr(X, "tocsr") or is_elsewhere:
        return X
    try:
        found = as_array(X)
    except ValueError:  # ragged, which the checks say better
        return X
    return found if found.dtype.kind in "biu" else X


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


def _rank(X: Any) -> int:
    """Return the number of axes of an array, or of nested lists."""
    depth = 0
    while isinstance(X, (list, tuple)) and len(X):
        X, depth = X[0], depth + 1
    return depth + len(getattr(X, "shape", ()))


def _array(x: Any, name: str, dtypes: list[type]) -> Any:
    """Return an input of any rank as an array of finite numbers."""
    if hasattr(x, "tocsr"):
        from sklearn.utils.validation import check_array  # it takes long to load

        return check_array(x, accept_sparse="csr", dtype=dtypes, input_name=name)
    if is_array(x) and not isinstance(x, np.ndarray):
        return x
    x = as_array(x)
    if x.dtype.kind not in "biuf":
        raise ValueError(f"input {name!r} must be an array of numbers, got dtype {x.dtype}")
    if not x.ndim or not x.shape[0]:
        raise ValueError(f"input {name!r} must have at least one row, got shape {x.shape}")
    if x.dtype.kind == "f":
        if x.dtype not in dtypes:
            x = x.astype(dtypes[0])
        if not np.isfinite(x).all():
            raise ValueError(f"input {name!r} contains NaN or infinity: impute or drop such rows first")
    return x


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
            f"lengths= needs a network whose forward takes `lengths`; the arguments are {list(forward)}"
        )
    lengths = as_array(to_host(lengths) if is_array(lengths) else lengths)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths.size and lengths.min() < 0):
        raise ValueError(
            "lengths must be an integer for each row, none negative, got "
            f"{lengths.dtype} of shape {lengths.shape}"
        )
    found = dict(X) if _is_named(X) else {next(iter(forward)): X}
    first = next(iter(found.values()))
    longest = np.shape(first)[1] if len(np.shape(first)) > 1 else 0
    if has_steps and lengths.size and lengths.max() > longest:
        raise ValueError(f"lengths must be at most {longest}, as X has so many steps, got {lengths.max()}")
    return {**found, "lengths": lengths.astype(np.int64)}


def _by_columns(X: Any, forward: Forward) -> dict[str, Any]:
    """Return the columns of a frame by the arguments of a network that their names begin with."""
    columns = {str(column): str(column).split("__")[0] for column in X.columns}
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
    return {name: as_array(X[[c for c in X.columns if columns[str(c)] == name]]) for name in names}


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
