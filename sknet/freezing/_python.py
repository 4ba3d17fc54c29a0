"""Frozen pipelines as Python files that need only NumPy."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sknet.compile.extend import PythonSource
from sknet.exceptions import CaptureError
from sknet.freezing._columns import Branch, Chain, Columns
from sknet.freezing._encoding import Levels, OneHot, Ordinal
from sknet.freezing._features import Normalizing, Products, Projection, Selection
from sknet.freezing._imputing import Imputing
from sknet.freezing._scaling import Elementwise, Scaling

__all__ = ["Table", "steps_file"]

PLAIN = (str, bool, int, float, type(None))

READING = '''
def columns_of(X):
    """Return a table with the columns of the fit as an array: numbers, or objects if there are others.

    It is an array, a list of rows, a data frame, or a dict of columns by name.
    """
    if NAMES is not None and hasattr(X, "keys"):
        missing = [name for name in NAMES if name not in X.keys()]
        if missing:
            raise ValueError(f"X has no column {missing[0]!r}: expected {list(NAMES)}")
        columns = [np.asarray(X[name]) for name in NAMES]
        if all(column.dtype.kind in "biuf" for column in columns):
            return np.column_stack(columns)
        X = np.empty((len(columns[0]), len(columns)), dtype=object)
        for i, column in enumerate(columns):
            X[:, i] = column.tolist()
        return X
    if not hasattr(X, "dtype") and any(isinstance(value, str) for row in X for value in row):
        X = np.array(X, dtype=object)
    X = np.asarray(X)
    if X.ndim != 2 or X.shape[1] != N_COLUMNS or not len(X):
        raise ValueError(f"expected rows of {N_COLUMNS} columns, and at least one, got shape {X.shape}")
    return X
'''
HELPERS: Mapping[str, str] = {
    "floats": '''
def floats(X):
    """Return a table as real numbers; NaN may be among them."""
    X = X if X.dtype.kind == "f" else X.astype(np.float64)
    if np.isinf(X).any():
        raise ValueError("X contains infinity")
    return X
''',
    "numbers": '''
def numbers(X):
    """Return objects as real numbers, and numbers as they are."""
    return X.astype(np.float64) if X.dtype == object else X
''',
    "scaled": '''
def scaled(X, operations, bounds, rounds):
    """Return the columns after arithmetic with a number for each, one operation after the other."""
    X = floats(X)
    for operation, values in operations:
        values = values.astype(X.dtype) if rounds else values
        X = operation(X, values, out=np.empty_like(X), casting="same_kind")
    return X if bounds is None else np.clip(X, *map(X.dtype.type, bounds))
''',
    "imputed": '''
def imputed(X, missing, values, kept, flagged):
    """Return the table with missing values replaced, and an output for each flagged column."""
    mask = X != X if missing != missing else X == missing
    found, holes = X[:, kept].copy(), mask[:, kept]
    np.copyto(found, values, where=holes, casting="unsafe")
    return np.hstack((found, mask[:, flagged]))
''',
    "projected": '''
def projected(X, weights, center, scale):
    """Return products with a matrix, less the center and divided by the scale."""
    X = floats(X)
    found = (X.astype(np.float64) if X.dtype == np.float16 else X) @ weights
    if center is not None:
        found -= center
    if scale is not None:
        found /= scale
    return found
''',
    "normalized": '''
def normalized(X, norm):
    """Return rows divided by their norms."""
    X = floats(X)
    if norm == "l2":
        norms = np.sqrt(np.einsum("ij,ij->i", X, X))
    else:
        norms = (np.sum if norm == "l1" else np.max)(np.abs(X), axis=1)
    norms[norms < 10 * np.finfo(norms.dtype).eps] = 1.0
    return X / norms[:, None]
''',
    "products": '''
def products(X, has_bias, degrees, n_left_out):
    """Return columns and, degree by degree, their products."""
    parts = [floats(X)]
    for before, columns in degrees:
        parts.append(parts[-1][:, before] * parts[0][:, columns])
    if has_bias:
        parts.insert(0, np.ones((len(X), 1), parts[0].dtype))
    return np.concatenate(parts, axis=1)[:, n_left_out:]
''',
    "places": '''
def places(X, columns, levels):
    """Return what the levels of each column become."""
    found = []
    for column, name, (known, nan, unknown) in zip(X.T.tolist(), columns, levels):
        row = []
        for value in column:
            place = known.get(value)
            if place is None:
                is_nan = nan is not None and isinstance(value, float) and value != value
                place = nan if is_nan else unknown
            if place is None:
                raise ValueError(f"Found unknown category {value!r} in {name}")
            row.append(place)
        found.append(row)
    return np.array(found).T
''',
    "one_hot": '''
def one_hot(places, width, dtype):
    """Return an output for every level; places below 0 have none."""
    out = np.zeros((len(places), width), dtype)
    rows, _ = np.nonzero(places >= 0)
    out[rows, places[places >= 0]] = 1
    return out
''',
}
RESTORED = '''
def restored(y):
    """Return predictions in the units of the targets."""
    return {step}(y.reshape(-1, 1)).reshape(y.shape) if y.ndim == 1 else {step}(y)
'''
NEEDED = dict.fromkeys(("scaled", "projected", "normalized", "products"), ("floats",))
TRANSFORMER = '''"""{title}, as Python that needs NumPy alone.

Written by sknet. `transform` does what the transformer's method does; what it would return as a sparse
matrix is an array.
"""

{imports}

__all__ = ["transform"]


def transform(X):
    """Return the outputs for a table."""
    return prepared(X)


{steps}


# -- numbers ------------------------------------------------------------------------------------

{arrays}
'''


class Table:
    """The part of a file that prepares a table for a network, and takes its predictions back.

    Parameters
    ----------
    features : Features
        The columns of X.
    steps : Chain
        What is done with them.
    title : str
        What the file is.
    inverse : callable, default=None
        A step that takes predictions, with two axes, back to the units of y.
    """

    def __init__(self, features: Any, steps: Chain, title: str, inverse: Any = None) -> None:
        self.features, self.steps, self.title, self.inverse = features, steps, title, inverse

    def write(self, source: PythonSource) -> str:
        """Return definitions of `prepared(X)` and, with an inverse, `restored(y)`.

        Parameters
        ----------
        source : PythonSource
            Stores the numbers.

        Returns
        -------
        str
            Python.

        Raises
        ------
        CaptureError
            If a step cannot be written.
        """
        writer = _Writer(source)
        last = writer.step(self.steps)
        names = self.features.names
        head = f"N_COLUMNS = {self.features.count}\nNAMES = {names!r}"
        body = (
            f'def prepared(X):\n    """Return the inputs of the network for a table."""\n'
            f"    return {writer.uses('numbers')}({last}(columns_of(X)))"
        )
        texts = [head, body]
        if self.inverse is not None:
            texts.append(RESTORED.format(step=writer.step(self.inverse)).strip())
        helpers = [HELPERS[name].strip() for name in HELPERS if name in writer.used]
        return "\n\n\n".join([*texts, *writer.texts, READING.strip(), *helpers])


def steps_file(table: Table) -> str:
    """Return the text of a file whose `transform` is that of a transformer.

    Parameters
    ----------
    table : Table
        Its steps.

    Returns
    -------
    str
        Python.
    """
    source = PythonSource()
    steps = table.write(source)
    return TRANSFORMER.format(
        title=table.title,
        imports=source.imports.strip(),
        steps="\n\n\n".join([*source.decoder, steps]),
        arrays="\n".join(source.arrays),
    )


class _Writer:
    """Writes a function for each step."""

    def __init__(self, source: PythonSource) -> None:
        self.source = source
        self.texts: list[str] = []
        self.used: set[str] = set()
        self._count = 0

    def step(self, step: Any) -> str:
        """Write a step, and return the name of its function."""
        write = STEPS.get(type(step))
        if write is None:
            kind = type(getattr(step, "__self__", step)).__name__
            raise CaptureError(
                f"{kind} cannot be written as Python that needs NumPy alone; supported are "
                f"{', '.join(sorted(kind.__name__ for kind in STEPS))}"
            )
        self._count += 1
        name = self.source.local(f"step_{self._count}_{type(step).__name__.lower()}")
        place = len(self.texts)
        lines = write(self, step, name)
        text = "".join(f"    {line}\n" for line in lines)
        self.texts.insert(place, f"def {name}(X):\n{text}".rstrip("\n"))
        return name

    def uses(self, name: str) -> str:
        """Return the name of a function that the file is to have."""
        self.used |= {name, *NEEDED.get(name, ())}
        return name

    def array(self, values: Any, name: str) -> str:
        """Store numbers, and return their name."""
        return self.source.array(np.asarray(values), name)


def _scaling(w: _Writer, step: Scaling, name: str) -> list[str]:
    pairs = [f"(np.{kind}, {w.array(values, f'{name}_{kind}')})" for kind, values in step.operations]
    operations = f"[{', '.join(pairs)}]"
    return [f"return {w.uses('scaled')}(X, {operations}, {step.bounds!r}, {step.rounds})"]


def _imputing(w: _Writer, step: Imputing, name: str) -> list[str]:
    missing = "np.nan" if step.missing != step.missing else _plain(step.missing)
    kept = "slice(None)" if step.kept is None else w.array(step.kept, f"{name}_kept")
    flagged = "[]" if step.flagged is None else w.array(step.flagged, f"{name}_flagged")
    if step.reads == "floats":
        w.uses("floats")
    read = {"floats": "X = floats(X)", "objects": "X = X.astype(object)"}.get(step.reads)
    values = w.array(step.values, f"{name}_values")
    call = f"return {w.uses('imputed')}(X, {missing}, {values}, {kept}, {flagged})"
    return [call] if read is None else [read, call]


def _levels(w: _Writer, levels: tuple[Levels, ...]) -> str:
    w.uses("places")
    columns = [each.column for each in levels]
    texts = []
    for each in levels:
        known = ", ".join(f"{_plain(level)}: {_plain(place)}" for level, place in each.known.items())
        texts.append(f"({{{known}}}, {_plain(each.nan)}, {_plain(each.unknown)})")
    inside = "".join(f"        {text},\n" for text in texts)
    return f"places(X, {columns!r}, [\n{inside}    ])"


def _plain(value: Any) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, PLAIN):
        raise CaptureError(f"a level {value!r} cannot be written in Python")
    return repr(value) if not isinstance(value, float) or math.isfinite(value) else f"float('{value}')"


def _one_hot(w: _Writer, step: OneHot, name: str) -> list[str]:
    return [f"return {w.uses('one_hot')}({_levels(w, step.levels)}, {step.width}, {step.dtype.str!r})"]


def _ordinal(w: _Writer, step: Ordinal, name: str) -> list[str]:
    return [f"return {_levels(w, step.levels)}.astype({step.dtype.str!r})"]


def _elementwise(w: _Writer, step: Elementwise, name: str) -> list[str]:
    if step.name is None:
        return ["return X"]
    return [f"return np.{step.name}({w.uses('numbers')}(X))"]


def _projection(w: _Writer, step: Projection, name: str) -> list[str]:
    rows = "::-1" if step.is_reversed else ":"
    weights = f"{w.array(step.memory, f'{name}_weights')}[{rows}, :{step.n_columns}]"
    others = [
        "None" if values is None else w.array(values, f"{name}_{kind}")
        for kind, values in (("center", step.center), ("scale", step.scale))
    ]
    turned = ".T" if step.is_turned else ""
    return [f"return {w.uses('projected')}(X, {weights}{turned}, {', '.join(others)})"]


def _selection(w: _Writer, step: Selection, name: str) -> list[str]:
    return [f"return X[:, {w.array(step.mask, f'{name}_mask')}]"]


def _normalizing(w: _Writer, step: Normalizing, name: str) -> list[str]:
    return [f"return {w.uses('normalized')}(X, {step.norm!r})"]


def _products(w: _Writer, step: Products, name: str) -> list[str]:
    pairs = [
        f"({w.array(before, f'{name}_before')}, {w.array(columns, f'{name}_columns')})"
        for before, columns in step.degrees
    ]
    degrees = f"[{', '.join(pairs)}]"
    return [f"return {w.uses('products')}(X, {step.has_bias}, {degrees}, {step.n_left_out})"]


def _chain(w: _Writer, step: Chain, name: str) -> list[str]:
    return [*[f"X = {w.step(each)}(X)" for each in step.steps], "return X"]


def _columns(w: _Writer, step: Columns, name: str) -> list[str]:
    parts = [_branch(w, branch) for branch in step.branches]
    inside = "".join(f"        {part},\n" for part in parts)
    if not parts:
        return ["return np.zeros((len(X), 0))"]
    together = f"np.hstack([{w.uses('numbers')}(part) for part in parts])"
    return [f"parts = [\n{inside}    ]", f"return {together}"]


def _branch(w: _Writer, branch: Branch) -> str:
    positions = branch.positions
    if isinstance(positions, slice):
        chosen = ":".join(
            "" if x is None else str(x) for x in (positions.start, positions.stop, positions.step)
        )
    else:
        chosen = str(list(positions))
    text = f"{w.step(branch.step)}(X[:, {chosen}])"
    return text if branch.weight is None else f"{text} * {branch.weight!r}"


STEPS: Mapping[type, Callable[[_Writer, Any, str], list[str]]] = {
    Chain: _chain,
    Columns: _columns,
    Elementwise: _elementwise,
    Imputing: _imputing,
    Normalizing: _normalizing,
    OneHot: _one_hot,
    Ordinal: _ordinal,
    Products: _products,
    Projection: _projection,
    Scaling: _scaling,
    Selection: _selection,
}
