"""Frozen pipelines as Python files that need only NumPy."""

from collections.abc import Callable, Mapping
from statistics import NormalDist
from typing import Any

import numpy as np

from sknet.exceptions import CaptureError
from sknet.freezing._encoders import (
    Bins,
    Branch,
    Chain,
    Columns,
    Encoding,
    Levels,
    OneHot,
    Ordinal,
    binned,
    codes_of,
    one_hot_array,
)
from sknet.freezing._transformers import (
    FUNCTIONS,
    THRESHOLD,
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
    check_finite,
    check_no_nan,
    imputed,
    normalized,
    products,
    projected,
    ranks_of,
    scaled,
    selected,
)
from sknet.graphs._literals import docstring, literal
from sknet.graphs._python import PythonSource
from sknet.preprocessing._python import columns_of, encoding_call, table_facts

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
        found = f"{source.value(numbers)}({found})" if self.gives_numbers else found
        body = f'def {name}(X):\n    """Return the transformed rows of a table."""\n    return {found}'
        texts = [head, body]
        if self.inverse is not None:
            texts.append(RESTORED.format(step=writer.step(self.inverse)).strip())
        return "\n\n\n".join([*texts, *writer.texts])


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
        self.value, self.texts = source.value, list[str]()
        self._count = 0

    def step(self, step: Any) -> str:
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
        try:
            lines = write(self, step, name)
        except KeyError as error:  # a name from a file
            raise CaptureError(
                f"{error.args[0]!r:.80} is none of the functions of NumPy that can be written"
            ) from None
        text = "".join(f"    {line}\n" for line in lines)
        self.texts.insert(place, f"def {name}(X):\n{text}".rstrip("\n"))
        return name

    def array(self, values: Any, name: str) -> str:
        return self.source.array(np.asarray(values), name)


def _applied(function: Any, *reads: Any) -> Callable[[_Writer, Any, str], list[str]]:
    """Return a function that writes a step as the call of its own function with its data."""

    def write(w: _Writer, step: Any, name: str) -> list[str]:
        data = [f"{w.value(read)}(X)" for read in reads] + [w.value(each) for each in step.data()]
        return [f"return {w.value(function)}({', '.join(data)})"]

    return write


def _imputing(w: _Writer, step: Imputing, name: str) -> list[str]:
    X = {"floats": f"{w.value(reals)}(X)", "objects": "X.astype(object)"}.get(step.reads, "X")
    columns = [w.value(each) for each in (step.kept, step.flagged)]
    values = w.array(step.values, f"{name}_values")
    call = f"{w.value(imputed)}({X}, {literal(_plain(step.missing))}, {values}, {', '.join(columns)})"
    return [f"return {call}"]


def _levels(w: _Writer, levels: tuple[Levels, ...]) -> str:
    texts = []
    for each in levels:
        known = {_plain(level): _plain(place) for level, place in each.known.items()}
        texts.append(literal((known, _plain(each.nan), _plain(each.unknown), each.column)))
    inside = "".join(f"        {text},\n" for text in texts)
    return f"{w.value(level_codes)}(X, [\n{inside}    ])"


def _plain(value: Any) -> Any:
    """Return a number or text of NumPy as Python's, and others as they are if they can be written."""
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) not in PLAIN:
        raise CaptureError(f"a level {value!r:.80} cannot be written in Python")
    return value


def _one_hot(w: _Writer, step: OneHot, name: str) -> list[str]:
    return [
        f"return {w.value(one_hot_array)}({_levels(w, step.levels)}, {literal(step.width)}, {_dtype(step)})"
    ]


def _ordinal(w: _Writer, step: Ordinal, name: str) -> list[str]:
    return [f"return {_levels(w, step.levels)}.astype({_dtype(step)})"]


def _dtype(step: Any) -> str:
    return literal(np.dtype(step.dtype).str)


def _elementwise(w: _Writer, step: Elementwise, name: str) -> list[str]:
    if step.name is None:
        return ["return X"]
    return [f"return {w.value(FUNCTIONS[step.name])}({w.value(numbers)}(X))"]


def _chain(w: _Writer, step: Chain, name: str) -> list[str]:
    return [*[f"X = {w.step(each)}(X)" for each in step.steps], "return X"]


def _columns(w: _Writer, step: Columns, name: str) -> list[str]:
    parts = [_branch(w, branch) for branch in step.branches]
    inside = "".join(f"        {part},\n" for part in parts)
    if not parts:
        return ["return np.zeros((len(X), 0))"]
    together = f"np.hstack([{w.value(numbers)}(part) for part in parts])"
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
    read = f"X = {w.value(finite_reals)}(X)"
    dtype = "X.dtype if X.dtype == np.float32 else np.float64" if step.dtype is None else _dtype(step)
    lines = [read, f"X = {w.value(binned)}(np.array(X, {dtype}), [{edges}])"]
    if step.container is None:
        return [*lines, "return X"]
    starts = np.cumsum([0, *(len(each) + 1 for each in step.edges)])
    places = f"X.astype(np.int64) + {w.array(starts[:-1], f'{name}_starts')}"
    return [*lines, f"return {w.value(one_hot_array)}({places}, {literal(int(starts[-1]))}, X.dtype)"]


def _binarizing(w: _Writer, step: Binarizing, name: str) -> list[str]:
    return [
        f"X = np.array(X if X.dtype.kind in 'iu' else {w.value(finite_reals)}(X))",
        f"X[...] = np.greater(X, {literal(step.threshold)})",
        "return X",
    ]


def _then_scaled(w: _Writer, lines: list[str], scaling: Scaling | None) -> list[str]:
    return [*lines, "return X" if scaling is None else f"return {w.step(scaling)}(X)"]


def _powers(w: _Writer, step: Powers, name: str) -> list[str]:
    lambdas = w.array(step.lambdas, f"{name}_lambdas")
    function = by_box_cox if isinstance(step, BoxCox) else by_powers
    found = f"X = {w.value(function)}(np.array({w.value(reals)}(X)), {lambdas})"
    return _then_scaled(w, [found], step.scaling)


def _quantiles(w: _Writer, step: Quantiles, name: str) -> list[str]:
    quantiles = w.array(step.quantiles, f"{name}_quantiles")
    references = w.array(step.references, f"{name}_references")
    ranks = f"{w.value(ranks_of)}(X[:, i], {quantiles}[:, i], {references}, {literal(step.is_normal)})"
    found = f"{w.value(normal_quantiles)}({ranks})" if step.is_normal else ranks
    return [
        f"X = np.array({w.value(reals)}(X))",
        "for i in range(X.shape[1]):",
        f"    X[:, i] = {found}",
        "return X",
    ]


def reals(X: Any) -> Any:
    """Return a table as real numbers; NaN may be among them."""
    X = X if X.dtype.kind == "f" else X.astype(np.float64)
    check_finite(X)
    return X


def finite_reals(X: Any) -> Any:
    X = reals(X)
    check_no_nan(X)
    return X


def doubled(X: Any) -> Any:
    """Return a table as finite numbers of single or double precision."""
    X = finite_reals(X)
    return X.astype(np.float64) if X.dtype == np.float16 else X


def numbers(X: Any) -> Any:
    return X.astype(np.float64) if X.dtype == object else X


def level_codes(X: Any, levels: Any) -> Any:
    columns = zip(X.T.tolist(), levels, strict=True)
    return np.array([codes_of(values, *level)[0] for values, level in columns]).T


def by_box_cox(X: Any, lambdas: Any) -> Any:
    """Transform positive numbers by Box and Cox's formula, in place, and return them."""
    if (X <= 0).any():
        raise ValueError("The Box-Cox transformation can only be applied to strictly positive data")
    for i, power in enumerate(lambdas):
        x = np.log(X[:, i].astype(np.float64))
        X[:, i] = x if abs(power) < 1e-19 else np.expm1(power * x) / power
    return X


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
    BoxCox: _powers,
    Chain: _chain,
    Columns: _columns,
    Elementwise: _elementwise,
    Encoding: _encoding,
    Imputing: _imputing,
    Normalizing: _applied(normalized, finite_reals),
    OneHot: _one_hot,
    Ordinal: _ordinal,
    Powers: _powers,
    Products: _applied(products, finite_reals),
    Projection: _applied(projected, doubled),
    Quantiles: _quantiles,
    Scaling: _applied(scaled, reals),
    Selection: _applied(selected, np.asarray, np.asarray),
}
RESTORED = '''
def restored(y):
    """Return predictions in the units of the targets."""
    return {step}(y.reshape(-1, 1)).reshape(y.shape) if y.ndim == 1 else {step}(y)
'''
