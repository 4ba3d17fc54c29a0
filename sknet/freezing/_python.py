"""Frozen pipelines as Python files that need only NumPy."""

from collections.abc import Callable, Mapping
from statistics import NormalDist
from typing import Any

import numpy as np

from sknet.compile.extend import PythonSource, docstring, literal
from sknet.exceptions import CaptureError
from sknet.freezing._encoders import Bins, Branch, Chain, Columns, Encoding, Levels, OneHot, Ordinal, binned
from sknet.freezing._transformers import (
    FUNCTIONS,
    THRESHOLD,
    UFUNCS,
    Binarizing,
    BoxCox,
    Elementwise,
    Imputing,
    Normalizing,
    Powers,
    Products,
    Projection,
    Quantiles,
    Scaling,
    Selection,
    by_powers,
    ranks_of,
)
from sknet.preprocessing.extend import columns_of, encoding_call, table_facts

__all__ = ["Table", "steps_file"]

PLAIN = (str, bool, int, float, type(None))
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
    """The part of a file that prepares a table for a network, and takes its predictions back."""

    def __init__(
        self, features: Any, steps: Chain, title: str, inverse: Any = None, *, gives_numbers: bool = True
    ) -> None:
        self.features, self.steps, self.title, self.inverse = features, steps, title, inverse
        self.gives_numbers = gives_numbers

    def write(self, source: PythonSource, name: str = "prepared") -> str:
        """Return definitions of a function that prepares tables and, with an inverse, of `restored(y)`."""
        writer = _Writer(source)
        last = writer.step(self.steps)
        head = table_facts(self.features.count, self.features.names)
        found = f"{last}({source.value(columns_of)}(X, N_COLUMNS, NAMES))"
        found = f"{writer.uses('numbers')}({found})" if self.gives_numbers else found
        body = f'def {name}(X):\n    """Return the transformed rows of a table."""\n    return {found}'
        texts = [head, body]
        if self.inverse is not None:
            texts.append(RESTORED.format(step=writer.step(self.inverse)).strip())
        helpers = [HELPERS[name].strip() for name in HELPERS if name in writer.used]
        return "\n\n\n".join([*texts, *writer.texts, *helpers])


def steps_file(table: Table) -> str:
    """Return the text of a file whose `transform` is that of a transformer."""
    source = PythonSource()
    steps = table.write(source)
    return TRANSFORMER.format(
        title=docstring(table.title),
        imports=source.imports.strip(),
        steps="\n\n\n".join([*source.decoder, *source.helpers, steps]),
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
        write = WRITTEN.get(type(step))
        if write is None:
            kind = type(getattr(step, "__self__", step)).__name__
            raise CaptureError(
                f"{kind} cannot be written as Python that needs NumPy alone; supported are "
                f"{', '.join(sorted(kind.__name__ for kind in WRITTEN))}"
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
    pairs = []
    for kind, values in step.operations:
        function = _of_numpy(kind, UFUNCS)
        pairs.append(f"({function}, {w.array(values, f'{name}_{kind}')})")
    operations = f"[{', '.join(pairs)}]"
    return [f"return {w.uses('scaled')}(X, {operations}, {literal(step.bounds)}, {literal(step.rounds)})"]


def _of_numpy(name: str, known: Mapping[str, Any]) -> str:
    """Return the expression of a function of NumPy, which must be among some."""
    if type(name) is not str or name not in known:
        raise CaptureError(
            f"{name!r:.80} is none of the functions of NumPy that can be written: {', '.join(known)}"
        )
    return f"np.{name}"


def _imputing(w: _Writer, step: Imputing, name: str) -> list[str]:
    missing = literal(_plain(step.missing))
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
        known = {_plain(level): _plain(place) for level, place in each.known.items()}
        texts.append(literal((known, _plain(each.nan), _plain(each.unknown))))
    inside = "".join(f"        {text},\n" for text in texts)
    return f"places(X, {literal(columns)}, [\n{inside}    ])"


def _plain(value: Any) -> Any:
    """Return a number or text of NumPy as Python's, and others as they are if they can be written."""
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) not in PLAIN:
        raise CaptureError(f"a level {value!r:.80} cannot be written in Python")
    return value


def _one_hot(w: _Writer, step: OneHot, name: str) -> list[str]:
    return [f"return {w.uses('one_hot')}({_levels(w, step.levels)}, {literal(step.width)}, {_dtype(step)})"]


def _ordinal(w: _Writer, step: Ordinal, name: str) -> list[str]:
    return [f"return {_levels(w, step.levels)}.astype({_dtype(step)})"]


def _dtype(step: Any) -> str:
    return literal(np.dtype(step.dtype).str)


def _elementwise(w: _Writer, step: Elementwise, name: str) -> list[str]:
    if step.name is None:
        return ["return X"]
    return [f"return {_of_numpy(step.name, FUNCTIONS)}({w.uses('numbers')}(X))"]


def _projection(w: _Writer, step: Projection, name: str) -> list[str]:
    rows = "::-1" if step.is_reversed else ":"
    weights = f"{w.array(step.memory, f'{name}_weights')}[{rows}, :{literal(step.n_columns)}]"
    others = [
        "None" if values is None else w.array(values, f"{name}_{kind}")
        for kind, values in (("center", step.center), ("scale", step.scale))
    ]
    turned = ".T" if step.is_turned else ""
    return [f"return {w.uses('projected')}(X, {weights}{turned}, {', '.join(others)})"]


def _selection(w: _Writer, step: Selection, name: str) -> list[str]:
    read = [] if step.allows_nan else [f"{w.uses('check_finite')}(X)"]
    return [*read, f"return X[:, {w.array(step.mask, f'{name}_mask')}]"]


def _normalizing(w: _Writer, step: Normalizing, name: str) -> list[str]:
    return [f"return {w.uses('normalized')}(X, {literal(step.norm)})"]


def _products(w: _Writer, step: Products, name: str) -> list[str]:
    pairs = [
        f"({w.array(before, f'{name}_before')}, {w.array(columns, f'{name}_columns')})"
        for before, columns in step.degrees
    ]
    degrees = f"[{', '.join(pairs)}]"
    facts = literal(step.has_bias), degrees, literal(step.n_left_out)
    return [f"return {w.uses('products')}(X, {', '.join(facts)})"]


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
            "" if x is None else literal(x) for x in (positions.start, positions.stop, positions.step)
        )
    else:
        chosen = literal([_plain(each) for each in positions])
    text = f"{w.step(branch.step)}(X[:, {chosen}])"
    return text if branch.weight is None else f"{text} * {literal(branch.weight)}"


def _bins(w: _Writer, step: Bins, name: str) -> list[str]:
    edges = ", ".join([w.array(each, f"{name}_edges_{i}") for i, each in enumerate(step.edges)])
    read = f"X = {w.uses('finite')}(X)"
    dtype = "X.dtype if X.dtype == np.float32 else np.float64" if step.dtype is None else _dtype(step)
    lines = [read, f"X = {w.source.value(binned)}(np.array(X, {dtype}), [{edges}])"]
    if step.container is None:
        return [*lines, "return X"]
    starts = np.cumsum([0, *(len(each) + 1 for each in step.edges)])
    places = f"X.astype(np.int64) + {w.array(starts[:-1], f'{name}_starts')}"
    return [*lines, f"return {w.uses('one_hot')}({places}, {literal(int(starts[-1]))}, X.dtype)"]


def _binarizing(w: _Writer, step: Binarizing, name: str) -> list[str]:
    return [
        f"X = np.array(X if X.dtype.kind in 'iu' else {w.uses('finite')}(X))",
        f"X[...] = np.greater(X, {literal(step.threshold)})",
        "return X",
    ]


def _then_scaled(w: _Writer, lines: list[str], scaling: Scaling | None) -> list[str]:
    return [*lines, "return X" if scaling is None else f"return {w.step(scaling)}(X)"]


def _powers(w: _Writer, step: Powers, name: str) -> list[str]:
    lambdas = w.array(step.lambdas, f"{name}_lambdas")
    found = f"X = {w.source.value(by_powers)}(np.array({w.uses('floats')}(X)), {lambdas})"
    return _then_scaled(w, [found], step.scaling)


def _box_cox(w: _Writer, step: BoxCox, name: str) -> list[str]:
    lambdas = w.array(step.lambdas, f"{name}_lambdas")
    found = f"X = {w.uses('by_box_cox')}(np.array({w.uses('floats')}(X)), {lambdas})"
    return _then_scaled(w, [found], step.scaling)


def _quantiles(w: _Writer, step: Quantiles, name: str) -> list[str]:
    quantiles = w.array(step.quantiles, f"{name}_quantiles")
    references = w.array(step.references, f"{name}_references")
    ranks = f"{w.source.value(ranks_of)}(X[:, i], {quantiles}[:, i], {references}, {literal(step.is_normal)})"
    found = f"{w.source.value(normal_quantiles)}({ranks})" if step.is_normal else ranks
    return [
        f"X = np.array({w.uses('floats')}(X))",
        "for i in range(X.shape[1]):",
        f"    X[:, i] = {found}",
        "return X",
    ]


def normal_quantiles(ranks: Any) -> Any:
    """Return where the standard normal distribution has these ranks; NaN is kept."""
    lowest = THRESHOLD - np.spacing(1)
    inverse = NormalDist().inv_cdf
    found = [x if x != x else inverse(x) for x in np.clip(ranks, lowest, 1 - lowest).tolist()]
    return np.array(found, dtype=np.float64)


def _encoding(w: _Writer, step: Encoding, name: str) -> list[str]:
    text = encoding_call(w.source, step, name, "X")
    return f"return {text}".split("\n")


WRITTEN: Mapping[type, Callable[[_Writer, Any, str], list[str]]] = {
    Binarizing: _binarizing,
    Bins: _bins,
    BoxCox: _box_cox,
    Chain: _chain,
    Columns: _columns,
    Elementwise: _elementwise,
    Encoding: _encoding,
    Imputing: _imputing,
    Normalizing: _normalizing,
    OneHot: _one_hot,
    Ordinal: _ordinal,
    Powers: _powers,
    Products: _products,
    Projection: _projection,
    Quantiles: _quantiles,
    Scaling: _scaling,
    Selection: _selection,
}
HELPERS: Mapping[str, str] = {
    "floats": '''
def floats(X):
    """Return a table as real numbers; NaN may be among them."""
    X = X if X.dtype.kind == "f" else X.astype(np.float64)
    if np.isinf(X).any():
        raise ValueError("X contains infinity")
    return X
''',
    "check_finite": '''
def check_finite(X):
    """Raise a ValueError if values are missing or infinite."""
    is_wrong = X != X if X.dtype == object else ~np.isfinite(X)
    if is_wrong.any():
        raise ValueError("X contains NaN or infinity: impute or drop such rows first")
''',
    "finite": '''
def finite(X):
    """Return a table as finite numbers."""
    X = floats(X)
    if np.isnan(X).any():
        raise ValueError("X contains NaN: impute or drop such rows first")
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
    X = finite(X)
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
    X = finite(X)
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
    parts = [finite(X)]
    for before, columns in degrees:
        parts.append(parts[-1][:, before] * parts[0][:, columns])
    if has_bias:
        parts.insert(0, np.ones((len(X), 1), parts[0].dtype))
    return np.concatenate(parts, axis=1)[:, n_left_out:]
''',
    "by_box_cox": '''
def by_box_cox(X, lambdas):
    """Transform positive numbers by Box and Cox's formula, in place, and return them."""
    if (X <= 0).any():
        raise ValueError("The Box-Cox transformation can only be applied to strictly positive data")
    for i, power in enumerate(lambdas):
        x = np.log(X[:, i].astype(np.float64))
        X[:, i] = x if abs(power) < 1e-19 else np.expm1(power * x) / power
    return X
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
# Helpers by those that call them.
NEEDED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("finite", "scaled"), ("floats",)),
    **dict.fromkeys(("projected", "normalized", "products"), ("finite", "floats")),
}
