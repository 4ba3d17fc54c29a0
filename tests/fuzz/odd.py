"""Odd data through every estimator: values, shapes, dtypes, containers, targets and weights that few have.

A case is an estimator, a table, targets and weights, up to three of which are odd. Its fit works, or is
refused by an error in words and leaves the estimator as it was. A fitted one predicts and scores with finite
numbers, or warns; frozen and loaded, it predicts the same. NumPy and pandas say nothing in between.

    python -m tests.fuzz.odd --cases 5000 --seed 0
"""

import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp
from numpy.random import Generator
from sklearn.exceptions import NotFittedError

import sknet
from sknet import exceptions, neural_network, nn
from sknet.model_selection import GridSearchCV
from sknet.tabular import Members
from tests.fuzz.command import run

OWN = tuple(
    value
    for value in vars(exceptions).values()
    if isinstance(value, type) and issubclass(value, Exception) and value.__module__ == exceptions.__name__
)
RAW = (  # what NumPy, pandas and Python say for themselves
    "broadcast|ufunc|setting an array element|has no attribute|unsupported operand|not supported between"
    "|out of bounds|zero-size|must be real number|not iterable|not subscriptable|unhashable|math domain|cast"
    "|unexpected keyword|positional argument|[Cc]annot convert|ambiguous|cannot reshape|object arrays are not"
    "|too large to|[Oo]verflow|too many|not enough values|buffer|boolean value of NA|exceeds|isnan"
    "|invalid literal|must be an integer"
)
IN_WORDS = (  # among which are some of the words above
    "too large for|dtype='float64'|could not convert string to float|convert a sparse|too many to"
    "|columns that are|cannot be read as|of different lengths|cannot be sorted: they must"
    "|missing 1 required positional argument: 'y'|does not say that it takes missing values"
    "|must be of one type"
)


class Case(NamedTuple):
    """An estimator, and arguments of its fit."""

    make: Callable[[], Any]
    X: Any
    y: Any
    weight: Any
    said: str


# -- tables -----------------------------------------------------------------------------------------------


def base(rng: Generator) -> np.ndarray:
    n, d = int(rng.choice([6, 12, 30])), int(rng.choice([1, 2, 4]))
    return rng.normal(size=(n, d))


def with_value(value: float) -> Callable[[Generator, np.ndarray], Any]:
    """Return a change that puts a value into a random cell, row or column."""

    def change(rng: Generator, X: np.ndarray) -> Any:
        i, j = int(rng.integers(X.shape[0])), int(rng.integers(X.shape[1]))
        where: Any = [(i, j), i, (slice(None), j), Ellipsis][int(rng.choice(4, p=[0.4, 0.2, 0.2, 0.2]))]
        found = X.copy()
        found[where] = value
        return found

    return change


def scaled(factor: float) -> Callable[[Generator, np.ndarray], Any]:
    return lambda rng, X: X * factor


def typed(dtype: Any) -> Callable[[Generator, np.ndarray], Any]:
    def change(rng: Generator, X: np.ndarray) -> Any:
        with np.errstate(all="ignore"):
            return (10 * abs(X)).astype(dtype)

    return change


def strided(rng: Generator, X: np.ndarray) -> Any:
    return np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]


def read_only(rng: Generator, X: np.ndarray) -> Any:
    found = X.copy()
    found.setflags(write=False)
    return found


def frame(names: Callable[[int], Any]) -> Callable[[Generator, np.ndarray], Any]:
    return lambda rng, X: pd.DataFrame(X, columns=names(X.shape[1]))


def column_of(values: Callable[[int], Any]) -> Callable[[Generator, np.ndarray], Any]:
    """Return a change to a frame with a further column."""
    return lambda rng, X: pd.DataFrame(X).rename(columns=str).assign(more=values(len(X)))


def ragged(rng: Generator, X: np.ndarray) -> Any:
    return [list(row)[: 1 + i % 2] for i, row in enumerate(np.hstack([X, X]))]


def sparse(make: Any, value: float = 0.0) -> Callable[[Generator, np.ndarray], Any]:
    def change(rng: Generator, X: np.ndarray) -> Any:
        found = make(np.where(X > 0, X, 0.0))
        if value and found.nnz:
            found.data[int(rng.integers(len(found.data)))] = value
        return found

    return change


TABLES: dict[str, Callable[[Generator, np.ndarray], Any]] = {
    **{
        f"{value:g} in it": with_value(value)
        for value in (0.0, 1e30, 1e39, -1e39, 1e200, 1.7e308, 1e-320, -0.0)
    },
    **{f"{value} in it": with_value(value) for value in (np.nan, np.inf, -np.inf)},
    **{
        f"times {factor:g}": scaled(factor)
        for factor in (1e-30, 1e-44, 1e-320, 1e18, 1e30, 1e38, 1e39, 1e300)
    },
    "offset": lambda rng, X: X + 1e12,
    "constant": lambda rng, X: np.full_like(X, 3.5),
    "constant and huge": lambda rng, X: np.full_like(X, -1e39),
    "scales": lambda rng, X: X * np.array([1e-30, 1.0, 1e15, 1e30])[: X.shape[1]],
    "duplicate columns": lambda rng, X: np.repeat(X, 2, axis=1),
    "duplicate rows": lambda rng, X: np.repeat(X[:1], len(X), axis=0),
    "no rows": lambda rng, X: X[:0],
    "no columns": lambda rng, X: X[:, :0],
    "one row": lambda rng, X: X[:1],
    "two rows": lambda rng, X: X[:2],
    "one axis": lambda rng, X: X[:, 0],
    "three axes": lambda rng, X: X[:, :, None],
    "no axes": lambda rng, X: np.array(1.0),
    **{f"dtype {each}": typed(each) for each in ("i1", "u1", "i8", "u8", "?", "f2", "f4", "g", "O", "c16")},
    **{f"dtype {each}": typed(each) for each in (">f8", ">i4", ">f4", "U8", "S8")},
    "dates": lambda rng, X: X.astype("datetime64[s]"),
    "records": lambda rng, X: np.rec.fromarrays(list(X.T)),
    "masked": lambda rng, X: np.ma.masked_less(X, -1),
    "objects": lambda rng, X: np.array([[None, *row[1:]] for row in X.tolist()], dtype=object),
    "texts": lambda rng, X: np.array([["a", *row[1:]] for row in X.tolist()], dtype=object),
    "huge integers": lambda rng, X: [[2**70, *row[1:]] for row in X.tolist()],
    "Fortran": lambda rng, X: np.asfortranarray(X),
    "strided": strided,
    "read-only": read_only,
    "reversed": lambda rng, X: X[::-1, ::-1],
    "lists": lambda rng, X: X.tolist(),
    "tuples": lambda rng, X: tuple(map(tuple, X.tolist())),
    "ragged": ragged,
    "a dict": lambda rng, X: {f"x{i}": column for i, column in enumerate(X.T)},
    "a text": lambda rng, X: "table",
    "None": lambda rng, X: None,
    "names": frame(lambda n: [f"x{i}" for i in range(n)]),
    "number names": frame(lambda n: [i + 0.5 for i in range(n)]),
    "equal names": frame(lambda n: ["x"] * n),
    "mixed names": frame(lambda n: [str(i) if i % 2 else i for i in range(n)]),
    "empty names": frame(lambda n: ["" if i == 0 else f"\n{{}}'\"{i}" for i in range(n)]),
    "nested names": frame(lambda n: pd.MultiIndex.from_product([["top"], [f"x{i}" for i in range(n)]])),
    "a column of levels": column_of(lambda n: pd.Categorical.from_codes(np.arange(n) % 2, ["a", "b"])),
    "a column of NA": column_of(lambda n: pd.array([pd.NA, *range(n - 1)], dtype="Int64")),
    "a column of dates": column_of(lambda n: pd.date_range("2024-01-01", periods=n)),
    "a column of nothing": column_of(lambda n: [None] * n),
    "a column of huge numbers": column_of(lambda n: 1e308 * (1 - 2 * (np.arange(n) % 2))),
    "a column of tiny numbers": column_of(lambda n: 5e-324 * np.arange(n)),
    "a column of lists": column_of(lambda n: [[1]] * n),
    "a sparse column": column_of(lambda n: pd.arrays.SparseArray(np.arange(n) % 2 * 1.0)),
    "polars": lambda rng, X: pl.DataFrame({f"x{i}": column for i, column in enumerate(X.T)}),
    "CSR": sparse(sp.csr_array),
    "CSC": sparse(sp.csc_matrix),
    "COO": sparse(sp.coo_array),
    "CSR with NaN": sparse(sp.csr_array, np.nan),
    "CSR with 1e39": sparse(sp.csr_array, 1e39),
    "CSR with 1e-320": sparse(sp.csr_array, 1e-320),
}

# -- targets and weights ----------------------------------------------------------------------------------

Of = Callable[[Generator, int], Any]


def first(value: Any, rest: Callable[[int], Any]) -> Of:
    """Return targets that begin with another value."""
    return lambda rng, n: np.array(
        [value, *rest(n)[1:]], dtype=object if not isinstance(value, float) else None
    )


NUMBERS: dict[str, Of] = {
    **{
        f"times {factor:g}": lambda rng, n, f=factor: f * rng.normal(size=n)
        for factor in (1e-30, 1e-320, 1e30)
    },
    **{
        f"times {factor:g}": lambda rng, n, f=factor: f * rng.normal(size=n) for factor in (1e18, 1e39, 1e300)
    },
    **{f"constant {value:g}": lambda rng, n, v=value: np.full(n, v) for value in (0.0, -2.5, 1e30, 1e-310)},
    "offset": lambda rng, n: 1e15 + rng.normal(size=n),
    "integers beyond 2^53": lambda rng, n: 2**53 + np.arange(n),
    "huge integers": lambda rng, n: [2**70 + i for i in range(n)],
    "uint64": lambda rng, n: np.iinfo(np.uint64).max - np.arange(n, dtype=np.uint64),
    "one far away": lambda rng, n: np.where(np.arange(n) == 0, 1e25, rng.normal(size=n)),
    "one NaN": first(np.nan, lambda n: np.arange(n) * 1.0),
    "one infinite": first(np.inf, lambda n: np.arange(n) * 1.0),
    "one None": first(None, lambda n: np.arange(n) * 1.0),
    "one text": first("a", lambda n: np.arange(n) * 1.0),
    "texts of numbers": lambda rng, n: np.array([f"{i}.5" for i in range(n)]),
    "truth": lambda rng, n: np.arange(n) % 2 == 0,
    "float16": lambda rng, n: rng.normal(size=n).astype(np.float16),
    "the other byte order": lambda rng, n: rng.normal(size=n).astype(">f8"),
    "complex": lambda rng, n: rng.normal(size=n) + 1j,
    "dates": lambda rng, n: np.arange(n).astype("datetime64[D]"),
    "several": lambda rng, n: rng.normal(size=(n, 2)) * [1.0, 1e20],
    "a constant beside": lambda rng, n: np.stack([rng.normal(size=n), np.full(n, 5.0)], axis=1),
    "a column": lambda rng, n: rng.normal(size=(n, 1)),
    "no columns": lambda rng, n: np.empty((n, 0)),
    "three axes": lambda rng, n: rng.normal(size=(n, 2, 2)),
    "one axis too few": lambda rng, n: 1.0,
    "too few": lambda rng, n: rng.normal(size=max(n - 1, 0)),
    "none": lambda rng, n: None,
    "a series": lambda rng, n: pd.Series(rng.normal(size=n), index=np.arange(n)[::-1] * 7),
    "missing in a series": lambda rng, n: pd.Series([pd.NA, *range(n - 1)], dtype="Int64"),
    "sparse": lambda rng, n: sp.csr_array(rng.normal(size=(n, 1))),
}
LABELS: dict[str, Of] = {
    "one class": lambda rng, n: np.zeros(n, int),
    "a rare class": lambda rng, n: (np.arange(n) == 0).astype(int),
    "a rare class of three": lambda rng, n: np.where(np.arange(n) == 0, 7, np.arange(n) % 2),
    "one row a class": lambda rng, n: np.arange(n),
    "texts": lambda rng, n: np.array(["b", "a"])[np.arange(n) % 2],
    "long texts": lambda rng, n: np.array(["b" * 5000, ""])[np.arange(n) % 2],
    "bytes": lambda rng, n: np.array([b"b", b"a"])[np.arange(n) % 2],
    "truth": lambda rng, n: np.arange(n) % 2 == 0,
    "negative": lambda rng, n: -(np.arange(n) % 2),
    "beyond 2^53": lambda rng, n: 2**60 + np.arange(n) % 2,
    "huge integers": lambda rng, n: [2**70 + i % 2 for i in range(n)],
    "uint64": lambda rng, n: np.iinfo(np.uint64).max - np.arange(n, dtype=np.uint64) % 2,
    "whole numbers": lambda rng, n: (np.arange(n) % 2) * 1.0,
    "huge whole numbers": lambda rng, n: (np.arange(n) % 2) * 1e30,
    "numbers": lambda rng, n: rng.normal(size=n),
    "zeros of two signs": lambda rng, n: np.where(np.arange(n) % 2 == 0, 0.0, -0.0),
    "one NaN": first(np.nan, lambda n: np.arange(n) % 2 * 1.0),
    "one None": first(None, lambda n: np.array(["a", "b"])[np.arange(n) % 2]),
    "mixed": first(1, lambda n: np.array(["a", "b"])[np.arange(n) % 2]),
    "tuples": lambda rng, n: [(i % 2,) for i in range(n)],
    "several labels": lambda rng, n: np.stack([np.arange(n) % 2, np.arange(n) // 2 % 2], axis=1),
    "labels of which one is constant": lambda rng, n: np.stack([np.arange(n) % 2, np.zeros(n, int)], axis=1),
    "several classes": lambda rng, n: np.stack([np.arange(n) % 3, np.arange(n) % 2], axis=1),
    "a column": lambda rng, n: (np.arange(n) % 2)[:, None],
    "no columns": lambda rng, n: np.empty((n, 0), int),
    "too few": lambda rng, n: np.arange(max(n - 1, 0)) % 2,
    "none": lambda rng, n: None,
    "categories": lambda rng, n: pd.Series(pd.Categorical.from_codes(np.arange(n) % 2, ["b", "a", "c"][:2])),
    "missing categories": lambda rng, n: pd.Series(
        pd.Categorical.from_codes(np.arange(n) % 3 - 1, ["b", "a"])
    ),
    "dates": lambda rng, n: (np.arange(n) % 2).astype("datetime64[D]"),
    "sparse": lambda rng, n: sp.csr_array(np.stack([np.arange(n) % 2] * 2, axis=1)),
    "the other byte order": lambda rng, n: (np.arange(n) % 2).astype(">i8"),
}
WEIGHTS: dict[str, Of] = {
    "zeros": lambda rng, n: np.zeros(n),
    "mostly zeros": lambda rng, n: (np.arange(n) == n - 1) * 1.0,
    "half zeros": lambda rng, n: np.arange(n) % 2 * 1.0,
    "negative": lambda rng, n: np.where(np.arange(n) == 0, -1.0, 1.0),
    **{
        f"{value:g}": lambda rng, n, v=value: np.full(n, v)
        for value in (1e30, 1e39, 1e300, 1e-30, 1e-44, 1e-320)
    },
    "one huge": lambda rng, n: np.where(np.arange(n) == 0, 1e300, 1.0),
    "one NaN": lambda rng, n: np.where(np.arange(n) == 0, np.nan, 1.0),
    "one infinite": lambda rng, n: np.where(np.arange(n) == 0, np.inf, 1.0),
    "texts": lambda rng, n: ["a"] * n,
    "truth": lambda rng, n: np.arange(n) % 2 == 0,
    "integers": lambda rng, n: np.arange(n),
    "a column": lambda rng, n: np.ones((n, 1)),
    "too few": lambda rng, n: np.ones(max(n - 1, 0)),
    "one number": lambda rng, n: 2.0,
    "objects": lambda rng, n: np.array([None] * n, dtype=object),
    "a series": lambda rng, n: pd.Series(np.ones(n), index=np.arange(n)[::-1]),
}

# -- estimators -------------------------------------------------------------------------------------------

FEW = Members(hidden_layer_sizes=[4], epochs=2, per_fold=1)


def network(n_outputs: int) -> nn.Module:
    return nn.Sequential(nn.LazyLinear(4), nn.BatchNorm(4), nn.ReLU(), nn.Linear(4, n_outputs))


def code(n_outputs: int) -> nn.Module:
    return nn.Sequential(nn.LazyLinear(4), nn.Tanh(), nn.Linear(4, 1))


COMMON = {"max_iter": 2, "random_state": 0}
OPTIONS: list[dict[str, Any]] = [
    *[{}] * 4,
    {"optimizer": "lbfgs"},
    {"dtype": "float32"},
    {"dtype": "float32", "optimizer": "lbfgs"},
    {"early_stopping": True},
    {"n_members": 2},
    {"n_members": 2, "bootstrap": True},
    {"encoder": "table"},
    {"encoder": "table", "dtype": "float32"},
    {"batch_size": 5},
    {"warm_start": True},
]
OF_NUMBERS: list[dict[str, Any]] = [
    *[{"scale_target": True}] * 2,
    {"loss": "absolute_error"},
    {"loss": "gaussian_nll", "scale_target": True},
    {"loss": "poisson"},
    {"loss": "huber", "dtype": "float32"},
]
OF_LABELS: list[dict[str, Any]] = [{"class_weight": "balanced"}, {"loss": "hinge"}, {"loss": "focal"}]


def maker(rng: Generator, is_regression: bool) -> tuple[Callable[[], Any], str]:
    """Return a function that makes an estimator, and its name with its options."""
    options = {**OPTIONS[int(rng.integers(len(OPTIONS)))]}
    more = OF_NUMBERS if is_regression else OF_LABELS
    if rng.random() < 0.4:
        options |= more[int(rng.integers(len(more)))]
    kind = str(rng.choice(["MLP", "MLP", "MLP", "Net", "Net", "drop-in", "search", "code", "Tabular"]))
    params = {**COMMON, **options}
    if kind == "drop-in":
        cls = neural_network.MLPRegressor if is_regression else neural_network.MLPClassifier
        solver = str(rng.choice(["adam", "lbfgs", "sgd"]))
        early = bool(rng.random() < 0.3)
        return lambda: cls((4,), solver=solver, early_stopping=early, **COMMON), f"drop-in {solver} {early}"
    if kind == "Tabular":
        own = {
            "n_folds": int(rng.choice([1, 2])),
            "smooth": FEW,
            "sharp": FEW,
            "n_jobs": 1,
            "random_state": 0,
        }
        table = sknet.TabularRegressor if is_regression else sknet.TabularClassifier
        return lambda: table(**own), f"Tabular {own['n_folds']}"
    if kind == "code":
        cls = [sknet.Autoencoder, sknet.NetTransformer][int(rng.integers(2))]
        make = (lambda: cls(code, **COMMON)) if cls is sknet.NetTransformer else lambda: cls((3,), **COMMON)
        return make, cls.__name__
    if kind == "Net":
        net = sknet.NetRegressor if is_regression else sknet.NetClassifier
        return lambda: net(nn.ModuleFactory(network), **params), f"Net {options}"
    mlp = sknet.MLPRegressor if is_regression else sknet.MLPClassifier
    if kind == "search":
        return lambda: GridSearchCV(mlp((4,), **params), {"alpha": [0.1]}, cv=2, error_score="raise"), (
            f"search {options}"
        )
    return lambda: mlp((4,), **params), f"MLP {options}"


def drawn(seed: int) -> Case:
    """Return a case."""
    rng = np.random.default_rng([20260505, seed])
    is_regression = bool(rng.random() < 0.5)
    make, said = maker(rng, is_regression)
    X: Any = base(rng)
    n = len(X)
    y: Any = rng.normal(size=n) if is_regression else np.arange(n) % 2
    weight: Any = None
    notes = [said, f"{X.shape}"]
    odd = set(rng.choice(["X", "X", "y", "y", "weight"], int(rng.choice([1, 1, 2, 3]))))
    if "X" in odd:
        name = str(rng.choice(list(TABLES)))
        X = TABLES[name](rng, X)
        n = len(X) if name in ("one row", "two rows", "no rows") else n
        y = y[:n]
        notes.append(f"X {name}")
    if "y" in odd:
        targets = NUMBERS if is_regression else LABELS
        name = str(rng.choice(list(targets)))
        y = targets[name](rng, n)
        notes.append(f"y {name}")
    if "weight" in odd:
        name = str(rng.choice(list(WEIGHTS)))
        weight = WEIGHTS[name](rng, n)
        notes.append(f"weights {name}")
    return Case(make, X, y, weight, ", ".join(notes))


# -- checks -----------------------------------------------------------------------------------------------


def is_in_words(error: Exception) -> bool:
    """Tell whether an error is one of sknet's or scikit-learn's, rather than of what they call."""
    if isinstance(error, (*OWN, NotFittedError)):
        return True
    if not isinstance(error, (ValueError, TypeError)) or len(str(error)) < 15:
        return False
    return bool(re.search(IN_WORDS, str(error))) or not re.search(RAW, str(error))


def is_meant(warning: warnings.WarningMessage, is_search: bool) -> bool:
    """Tell whether a warning is one of sknet's or scikit-learn's."""
    if warning.category.__module__.startswith(("sknet.", "sklearn.")):
        return True
    if is_search and "sklearn" in warning.filename:  # its check of folds casts labels
        return True
    is_of_overflow = re.search("predictions of .* are NaN or infinite", str(warning.message))
    return issubclass(warning.category, UserWarning) or bool(is_of_overflow)


def unmeant(caught: list[warnings.WarningMessage], is_search: bool) -> str | None:
    """Return the first warning that no one means for users of sknet."""
    for each in caught:
        if not is_meant(each, is_search):
            return f"{each.category.__name__}: {str(each.message)[:200]} at {each.filename}:{each.lineno}"
    return None


def results(estimator: Any, X: Any) -> Iterator[tuple[str, Any]]:
    for name in ("predict", "predict_proba", "decision_function", "transform"):
        if hasattr(estimator, name):
            yield name, getattr(estimator, name)(X)


def arrays(found: Any) -> list[np.ndarray]:
    return [np.asarray(each) for each in (found if isinstance(found, list) else [found])]


def is_finite(found: Any) -> bool:
    return all(bool(np.isfinite(each).all()) for each in arrays(found) if each.dtype.kind in "fc")


def is_equal(a: Any, b: Any) -> bool:
    return all(
        x.shape == y.shape and np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
        for x, y in zip(arrays(a), arrays(b), strict=True)
    )


def state(estimator: Any) -> dict[str, int]:
    return {name: id(value) for name, value in vars(estimator).items()}


def fit(estimator: Any, case: Case) -> Any:
    weight = {} if case.weight is None else {"sample_weight": case.weight}
    return estimator.fit(case.X, case.y, **weight)


def wrong_in(estimator: Any, case: Case, caught: list[warnings.WarningMessage]) -> str | None:
    """Return what is wrong with a fitted estimator, or None."""
    found = list(results(estimator, case.X))
    warned = any("NaN or infinite" in str(each.message) for each in caught)
    for name, values in found:
        if not is_finite(values) and not warned:
            return f"{name} is not finite"
    if hasattr(estimator, "score"):
        estimator.score(case.X, case.y)
    frozen = sknet.freeze(estimator)
    with tempfile.TemporaryDirectory() as folder:
        sknet.save(estimator, Path(folder, "it"), include="predict")
        loaded = sknet.load(Path(folder, "it"), trusted=[network, code])
    for whose, other in (("frozen", frozen), ("loaded", loaded)):
        for name, values in found:
            if hasattr(other, name) and not is_equal(getattr(other, name)(case.X), values):
                return f"{name} of the {whose} one differs"
    return None


def refused(error: Exception) -> str | None:
    """Return what is wrong with an error, or None."""
    return None if is_in_words(error) else f"{type(error).__name__}: {str(error)[:300]}"


def mismatch(seed: int) -> str | None:
    """Return what is wrong with a case, or None."""
    case = drawn(seed)
    estimator, doing = case.make(), "fit"
    before = state(estimator)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fit(estimator, case)
            doing = "predict"
            found = wrong_in(estimator, case, caught)
        except Exception as error:
            found = refused(error)
            if found is None and doing == "fit" and state(estimator) != before:
                found = f"refused, but {sorted(state(estimator).keys() ^ before.keys())} changed"
            if found is not None:
                found = f"in {doing}, {found}"
    found = found or unmeant(caught, isinstance(estimator, GridSearchCV))
    return None if found is None else f"seed {seed}, {case.said}: {found}"


if __name__ == "__main__":
    sys.exit(run(mismatch, __doc__, cases=2000))
