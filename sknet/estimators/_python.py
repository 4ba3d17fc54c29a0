"""Frozen predictors as Python files that need NumPy alone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from sknet.compile import Graph, capture
from sknet.compile._symbolic import (
    ROWS,
    Free,
    RowsGraph,
    Shapes,
    SymbolicGraph,
    free_lengths,
    of_any_lengths,
)
from sknet.core import Tensor, no_grad
from sknet.engine._inputs import computed_dtype
from sknet.engine._network import FEW_ROWS, MOST_ROWS, Head, Pass, SubPass
from sknet.estimators._inputs import Encoded, fixed_axes
from sknet.estimators._offset import head_of_both
from sknet.estimators._targets import DECODER, conformal_quantile, prediction_of
from sknet.graphs._export import with_any_lengths
from sknet.graphs._literals import docstring, literal, names_in
from sknet.graphs._python import PythonSource
from sknet.losses._wrappers import has_offset
from sknet.nn import Scope, bindings, run
from sknet.preprocessing._python import EncodedTable, columns_of, table_facts

FILE = '''"""{title}, as Python that needs NumPy alone.

Written by sknet. These functions do what the predictor's methods of their names do:
{names}.
"""

{imports}

__all__ = {all}

# -- what is predicted --------------------------------------------------------------------------

{methods}


# -- the network --------------------------------------------------------------------------------

{passes}


# -- inputs -------------------------------------------------------------------------------------

{inputs}


# -- operations ---------------------------------------------------------------------------------

{helpers}


# -- parameters ---------------------------------------------------------------------------------

{arrays}

{facts}
'''
IN_PARTS = '''
def in_parts(function, given, most, in_powers):
    """Compute some rows at a time, as many as the predictor does, so that products are rounded alike."""
    if in_powers:
        most = min(most, {most})
        most = most if most <= {few} else 1 << most.bit_length() - 1
    total, start, parts = len(next(iter(given.values()))), 0, []
    with np.errstate(all="ignore"):
        while start < total:
            left = total - start
            size = left if left <= {few} or not in_powers else 1 << left.bit_length() - 1
            stop = start + min(most, size)
            parts.append(function(*[x[start:stop] for x in given.values()]))
            start = stop
    if isinstance(parts[0], list):  # an array for each column of labels
        return [np.concatenate(columns) for columns in zip(*parts)]
    return np.concatenate(parts)
'''
CHECKED = '''
def checked(given, expected):
    """Return inputs as arrays, in the dtype that is computed in; raise a ValueError for any others."""
    missing = [name for name in expected if not isinstance(given, dict) or name not in given]
    if missing:
        got = list(given) if isinstance(given, dict) else "one array"
        raise ValueError(f"expected the inputs {{list(expected)}}, got {{got}}: {{missing[-1]}} is missing")
    found, sizes = {{}}, {{}}
    for name, (shape, dtype) in expected.items():
        x, row = np.asarray(given[name]), shape
        if LENGTHS:  # some axes are free
            free = {{m: n for m, n in zip(shape, x.shape[1:]) if isinstance(m, str)}}
            sizes = {{**free, **sizes}}
            row = tuple([sizes.get(m, m) for m in shape])
        if x.ndim != len(shape) + 1 or x.shape[1:] != row or x.dtype.kind not in "biuf":
            expects = ", ".join(["n_samples", *map(str, shape)])
            raise ValueError(
                f"{{name}}: expected numbers of shape ({{expects}}), got {{x.dtype}} of shape {{x.shape}}"
            )
        if not len(x):
            raise ValueError(f"{{name}}: expected at least one row, got none")
        if {wrong}:
            raise ValueError(f"{{name}} contains NaN or infinity: impute or drop such rows first")
        if dtype is None and x.dtype.kind == "f":
            raise ValueError(f"{{name}} must hold integers, got {{x.dtype}}: use .astype('int64')")
        with np.errstate(all="ignore"):
            found[name] = np.ascontiguousarray(x, x.dtype if dtype is None else dtype)
    for size, length in sizes.items():
        low, high = LENGTHS[size]
        if length < low or (high is not None and length > high):
            most = "" if high is None else f" and at most {{high}}"
            raise ValueError(f"expected {{size}}, a length, to be at least {{low}}{{most}}, got {{length}}")
    if len({{len(x) for x in found.values()}}) > 1:
        raise ValueError(f"expected as many rows in each of {{list(expected)}}")
    return found
'''


PADDED = '''
def padded(rows, name, shape, dtype):
    """Return sequences of different lengths as one array, padded by zeros, and their lengths."""
    rows = [np.asarray(row) for row in rows]
    lengths = np.array([len(row) for row in rows], dtype="int64")
    kind = np.result_type(*[row for row in rows if row.size] or ["int64"])
    x = np.zeros((len(rows), max([1, *lengths]), *shape[1:]), kind)
    for i, row in enumerate(rows):
        if row.size:
            x[i, :len(row)] = row
    return {name: x, "lengths": lengths}
'''


STANDARDIZED = '''
def standardized(given):
    """Return inputs less the means of the training rows, divided by their deviations; tables are clipped."""
    found = dict(given)
    with np.errstate(all="ignore"):
{lines}
    return found
'''


OFFSETS = '''
def offsets(offset, n_rows):
    """Return an offset as an array of shape (n_rows, {n}); raise a ValueError for any other."""
    found = np.asarray(offset, np.float64)
    shapes = [(n_rows, {n})] + [(n_rows,)] * ({n} == 1)
    if found.shape not in shapes or not np.isfinite(found).all():
        expected = " or ".join(map(str, shapes))
        raise ValueError(f"offset must have finite numbers of shape {{expected}}; got shape {{found.shape}}")
    return found.reshape(n_rows, {n})
'''


IN_SET = '''
def in_set(probable, bound):
    """Return which classes are in the set of each row: those probable enough, and the likeliest one."""
    found = 1.0 - probable <= bound
    found[np.arange(len(found)), probable.argmax(axis=1)] = True
    return found
'''


COVERAGE, OF_SETS = 0.8, 0.9  # of the intervals and sets that are asked for if no others are


class Prepares(Protocol):
    """Preparation of X in a Python file before a network, and of predictions after it."""

    title: str
    inverse: Any

    def write(self, source: PythonSource, /, name: str = "prepared") -> str:
        """Return definitions of the function `name` of X and, with an inverse, of `restored(y)`."""


class Method(NamedTuple):
    name: str
    doc: str
    head: Head | None
    by: Pass = run
    source: str = "X"
    then: str = "found"
    coverage: float | None = None
    of_both: Any = None  # the head of pairs of outputs and offsets, of a predictor that was fitted with some
    n_offsets: int = 0

    def takes(self) -> tuple[list[str], list[str]]:
        """Return the function's arguments besides X, and the lines that check them."""
        if self.coverage is None:
            return [], []
        coverage = literal(float(self.coverage))
        what = "sets" if self.name == "predict_set" else "intervals"
        error = f'raise ValueError(f"this file has {what} of {coverage}, got {{coverage}}")'
        return [f"coverage={coverage}"], [f"if coverage != {coverage}:", f"    {error}"]


# -- which functions there are ------------------------------------------------------------------


def _method(
    frozen: Any, name: str, doc: str, kind: str, *, coverage: float | None = None, **more: Any
) -> Method:
    """Return the function of a kind of prediction, also for outputs with an offset."""
    loss, of_both = frozen._loss, None
    _, made, result = prediction_of(frozen, kind, coverage, numbered=True)
    head = made or (lambda output: output)
    if has_offset(loss):
        both = head_of_both(loss, head)
        of_both = lambda pair: result(both(pair))  # noqa: E731
    n = frozen._targets.n_outputs
    more |= {"coverage": coverage, "of_both": of_both, "n_offsets": n}
    return Method(name, doc, lambda output: result(head(output)), **more)


def _of_classifier(frozen: Any, coverage: float | None) -> Iterator[Method]:
    then = "found" if frozen._targets.labels is None else "LABELS[found]"
    yield _method(frozen, "predict", "Return labels.", "labels", then=then)
    yield _method(frozen, "decision_function", "Return raw outputs.", "decisions")
    if frozen._loss.has_probabilities:
        doc = "Return the {}probability of each class.".format
        yield _method(frozen, "predict_proba", doc(""), "probabilities")
        yield _method(frozen, "predict_log_proba", doc("logarithm of the "), "log_probabilities")
    if hasattr(frozen, "predict_set"):
        wanted = OF_SETS if coverage is None else coverage
        try:
            bound = conformal_quantile(frozen._targets.conformity, wanted)
        except ValueError:
            if coverage is None:
                return  # too few rows have calibrated such sets, for which nobody has asked
            raise
        dtype = literal(bound.dtype.name)
        then = f"in_set(found, np.dtype({dtype}).type({literal(float(bound))}))"
        told = "Return which classes are in sets, of which this share has the true one."
        yield _method(frozen, "predict_set", told, "probabilities", coverage=wanted, then=then)


def _of_regressor(frozen: Any, coverage: float | None) -> Iterator[Method]:
    yield _method(frozen, "predict", "Return predictions.", "means")
    if hasattr(frozen, "predict_std"):
        yield _method(frozen, "predict_std", "Return standard deviations.", "deviations")
    if hasattr(frozen, "predict_quantiles"):
        yield _method(frozen, "predict_quantiles", "Return every quantile.", "quantiles")
    if hasattr(frozen, "predict_interval"):
        doc = "Return the bounds between which this share of targets is expected."
        wanted = COVERAGE if coverage is None else coverage
        try:
            method = _method(frozen, "predict_interval", doc, "interval", coverage=wanted)
            n_outputs = frozen._loss.outputs_per_target * frozen._targets.n_outputs
            prediction_of(frozen, "interval", wanted)[1](Tensor(np.zeros((1, n_outputs))))
        except ValueError:
            if coverage is None:
                return  # quantiles of another interval, which nobody has asked for
            raise
        yield method


def _of_transformer(frozen: Any, coverage: float | None) -> Iterator[Method]:
    if hasattr(frozen, "inverse_transform"):
        doc = "Reconstruct X from its codes, by the decoder."
        yield _method(frozen, "inverse_transform", doc, DECODER, by=SubPass(DECODER), source="codes")


def methods_of(frozen: Any, kind: str, layer: Any, coverage: float | None) -> list[Method]:
    """Return the functions of a predictor's file."""
    found = list(KINDS[kind](frozen, coverage))
    if layer is None and kind == "transformer":
        layer = frozen._code
    if layer is not None:
        found.insert(
            0, Method("transform", f"Return the output of layer {layer!r}.", None, frozen._layer(layer))
        )
    return found


def _of_heads(frozen: Any, coverage: float | None) -> Iterator[Method]:
    loss, targets, dtype = frozen._loss, frozen._targets, frozen._dtype

    def method(name: str, doc: str, kind: str) -> Method:
        _, head, result = prediction_of(frozen, kind, numbered=True)
        places: dict[str, Any] = {}

        def parts(output: Tensor) -> Any:
            several: list[Tensor] = []
            for name, part in result(head(output)).items():
                columns = part if isinstance(part, list) else [part]
                first = len(several)
                places[name] = slice(first, first + len(part)) if columns is part else first
                several += columns
            return several

        with no_grad():
            parts(Tensor(np.zeros((1, loss_outputs), dtype)))
        return Method(name, doc, parts, then=_dict_of(targets, kind, places))

    loss_outputs = targets.n_outputs * len(getattr(loss, "losses", [loss]))
    yield method("predict", "Return predictions of each head.", "labels")
    if loss.has_probabilities:
        yield method("predict_proba", "Return the probabilities of heads with classes.", "probabilities")


def _dict_of(targets: Any, kind: str, places: Mapping[str, Any]) -> str:
    """Return the expression of what a function returns for heads, whose parts are at places of a list."""
    items = {}
    for name, place in places.items():
        text = f"found[{literal(place)}]"
        is_label = kind == "labels" and name in targets.classes and targets.heads[name].labels is not None
        items[name] = f"LABELS[{literal(name)}][{text}]" if is_label else text
    if targets.container == "array" and kind == "labels":
        return next(iter(items.values()))
    return f"{{{', '.join(f'{literal(name)}: {text}' for name, text in items.items())}}}"


KINDS = {
    "classifier": _of_classifier,
    "multihead": _of_heads,
    "regressor": _of_regressor,
    "transformer": _of_transformer,
}


# -- writing them -------------------------------------------------------------------------------


class _Network:
    """A predictor's network with its inputs, and codes for its decoder, as functions that can be captured."""

    def __init__(self, frozen: Any) -> None:
        module, inputs = frozen._module, frozen._inputs
        self._module, self._dtype = module, frozen._dtype
        self.values = {name: parameter.data for name, parameter in module.own_parameters()}
        self.values |= {name: np.asarray(buffer.data) for name, buffer in module.named_buffers()}
        self._places = bindings(module)
        example: Any = np.zeros((1, inputs)) if isinstance(inputs, int) else inputs.example
        self.is_named = isinstance(example, dict)
        self.inputs: dict[str, dict[str, Any]] = {"X": example if self.is_named else {"X": example}}
        if hasattr(frozen, "inverse_transform"):
            self.inputs["codes"] = {"codes": np.zeros((1, *frozen._layer_shape(frozen._code)))}

    def shapes(self, source: str) -> dict[str, tuple[int, ...]]:
        return {name: x.shape for name, x in self.inputs[source].items()}

    def captured(self, source: str, by: Pass) -> Callable[[Shapes], Graph]:
        """Return what captures a pass for shapes of the inputs, or of codes."""
        kinds = [computed_dtype(x, self._dtype) for x in self.inputs[source].values()]

        def forward(*arrays: Tensor) -> Any:
            values = dict(zip(self.values, arrays[: len(self.values)], strict=True))
            scope = Scope({self._places[path]: value for path, value in values.items()}, training=False)
            given: Any = arrays[len(self.values) :]
            if source == "X" and self.is_named:
                given = dict(zip(self.inputs["X"], given, strict=True))
            return by(self._module, scope, given)

        def captured(shapes: Shapes) -> Graph:
            given = [np.zeros(shape, kind) for shape, kind in zip(shapes, kinds, strict=True)]
            with no_grad():
                return capture(forward, *self.values.values(), *given)

        return captured


class _Lengths(NamedTuple):
    """Lengths of inputs or codes that are free, and the least and the most of each."""

    free: Free
    limits: dict[str, tuple[int, int | None]]

    @classmethod
    def of(cls, rows: RowsGraph, free: Free, first: int = 1) -> Self:
        graph = SymbolicGraph.of_sizes(rows, [values[0] for values in free.samples])
        limits = [graph.limits(number) for number in range(1, len(free.axes) + 1)]
        return cls(free, {f"s{first + i}": each for i, each in enumerate(limits)})

    def row(self, number: int, shape: tuple[int, ...]) -> tuple[Any, ...]:
        """Return the shape of a row of an input, with names of lengths that are free."""
        names = {axis: name for name, axes in zip(self.limits, self.free.axes, strict=True) for axis in axes}
        return tuple([names.get((number, axis), n) for axis, n in enumerate(shape[1:], 1)])


class _File:
    """Collects the parts of a file."""

    def __init__(
        self,
        frozen: Any,
        table: "Prepares | None",
        source: PythonSource,
        given: _Network,
        lengths: Mapping[str, _Lengths],
    ) -> None:
        self.frozen, self.source, self.is_prepared = frozen, source, table is not None
        self.given, self.inputs, self.is_named, self.lengths = given, given.inputs, given.is_named, lengths
        self.columns = None if self.is_prepared or self.is_named else frozen._names
        self.names = {path: self.source.array(value, path) for path, value in given.values.items()}
        self.layers = {name: self._layer(path) for path, name in self.names.items()}
        self.passes: dict[Any, tuple[str, tuple[Any, ...], Any]] = {}
        self.texts: list[str] = []

    @property
    def is_ragged(self) -> bool:
        """True if X is sequences alone, which may be given as a list of those."""
        return self.is_named and len(self.inputs["X"]) == 2 and "lengths" in self.inputs["X"]

    def _layer(self, path: str) -> str:
        prefix = path.rpartition(".")[0]
        layer = self.frozen._module.get_submodule(prefix) if prefix else self.frozen._module
        return f"{prefix} {type(layer).__name__}".strip()

    def network(self, method: Method) -> tuple[str, tuple[Any, ...], Any]:
        """Write the pass of a method; return the function's name, and shape and dtype of a row's output."""
        found = self.passes.get(method.by)
        if found is None:
            inner = {"X": "network", "codes": "decoder"}[method.source]
            name = "hidden" if method.name == "transform" else inner
            of_shapes, free = self.given.captured(method.source, method.by), self.lengths[method.source].free
            shapes = list(self.given.shapes(method.source).values())

            @cache
            def captured(*sizes: int) -> Graph:
                return of_shapes(free.shapes(shapes, sizes))

            text = self.source.function(
                name,
                "Return the network's raw outputs." if name == "network" else method.doc,
                captured,
                list(self.names.values()),
                [self.source.local(name) for name in self.inputs[method.source]],
                self.layers,
                free=free,
            )
            rows = RowsGraph.of_sizes(captured, [ROWS, *free.samples])
            [output] = rows.graph.outputs
            self.texts.append(text)
            found = self.passes[method.by] = (name, rows.shape(output)[1:], output.dtype)
        return found

    def method(self, method: Method) -> str:
        """Write what a method computes, and return the function that calls it."""
        name, shape, dtype = self.network(method)
        function, of_both = name, None
        if method.head is not None:
            function = f"{name}_to_{method.name}"
            self.texts += head_sources(self.source, method, function, shape, dtype)
            inputs = ", ".join([self.source.local(name) for name in self.inputs[method.source]])
            if method.of_both is not None:
                of_both = f"lambda *rows: {function}_with_offset({name}(*rows[:-1]), rows[-1])"
            function = f"lambda {inputs}: {function}({name}({inputs}))"
        return self._public(method, function, of_both)

    def _public(self, method: Method, function: str, of_both: str | None) -> str:
        is_named = method.source == "X" and self.is_named
        has_lengths = is_named and "lengths" in self.inputs["X"]
        expected, most = ("INPUTS", "MOST_ROWS") if method.source == "X" else ("CODES", "MOST_CODES")
        more, lines = method.takes()
        if has_lengths:
            more.append("*, lengths=None")
            first = next(iter(self.inputs["X"]))
            lines += [
                "if lengths is not None:",
                f"    X = {{**(X if isinstance(X, dict) else {{{literal(first)}: X}}), 'lengths': lengths}}",
            ]
            if self.is_ragged:
                lines += [
                    "elif isinstance(X, list):",
                    f"    X = padded(X, {literal(first)}, *{expected}[{literal(first)}])",
                ]
        x = "X"
        if method.source == "X" and self.is_prepared:
            x = "prepared(X)"
        elif method.source == "X" and self.columns is not None:
            x = f"{self.source.value(columns_of)}(X, N_COLUMNS, NAMES)"
        given = x if is_named else f"{{{literal(next(iter(self.inputs[method.source])))}: {x}}}"
        given = f"checked({given}, {expected})"
        if self.frozen._scaling is not None and method.source == "X":
            given = f"standardized({given})"
        # The outputs of layers are computed in parts of powers of two, all others whole.
        in_powers = not is_named and (method.source == "codes" or method.name == "transform")
        if of_both is None:
            lines.append(f"found = in_parts({function}, {given}, {most}, {in_powers})")
        else:
            more.append("offset=None" if has_lengths else "*, offset=None")
            lines += [
                f"given = {given}",
                "if offset is None:",
                f"    found = in_parts({function}, given, {most}, {in_powers})",
                "else:",
                "    rows = {**given, None: offsets(offset, len(next(iter(given.values()))))}",
                f"    found = in_parts({of_both}, rows, {most}, {in_powers})",
            ]
        lines.append(f"return {method.then}")
        std = self._with_std(method)
        if std:
            more, lines = ["return_std=False", *more], [*lines[:-1], *std]
        arguments = ", ".join(["X", *more])
        body = "".join(f"    {line}\n" for line in (f'"""{docstring(method.doc)}"""', *lines))
        return f"def {method.name}({arguments}):\n{body}".rstrip("\n")

    def _with_std(self, method: Method) -> list[str]:
        if method.name != "predict" or not hasattr(self.frozen, "predict_std") or method.then != "found":
            return []
        given = "X" if method.of_both is None else "X, offset=offset"
        return [f"return (found, predict_std({given})) if return_std else found"]

    def standardized(self) -> str:
        """Return the definition of the function that standardizes inputs, if there are such."""
        if self.frozen._scaling is None:
            return ""
        lines, dtype = [], literal(self.frozen._dtype.name)
        for name, units in self.frozen._scaling.inputs.items():
            mean, scale = (
                self.source.array(each, f"{what} of {name}")
                for each, what in ((units.mean, "mean"), (units.scale, "deviation"))
            )
            z = f"(given[{literal(name)}] - {mean}) / {scale}"
            if units.limit is not None:
                z = f"np.maximum(np.minimum({z}, {literal(units.limit)}), {literal(-units.limit)})"
            lines.append(f"        found[{literal(name)}] = ({z}).astype({dtype})")
        return f"\n\n\n{STANDARDIZED.format(lines=chr(10).join(lines)).strip()}"

    def facts(self) -> str:
        """Return the constants that the functions read."""
        lines = label_facts(self.frozen, self.source)
        limits = {name: each for lengths in self.lengths.values() for name, each in lengths.limits.items()}
        lines.append(f"LENGTHS = {literal(limits)}  # of the free axes of inputs: at least, and at most")
        lines += self._expected("INPUTS", "MOST_ROWS", "X", run)
        if self.columns is not None:
            lines.append(table_facts(len(self.columns), self.columns))
        if "codes" in self.inputs:
            lines += self._expected("CODES", "MOST_CODES", "codes", SubPass(DECODER))
        return "\n".join(lines)

    def _expected(self, name: str, most: str, source: str, by: Pass) -> list[str]:
        examples = self.inputs[source]
        kinds = {key: computed_dtype(x, self.frozen._dtype) for key, x in examples.items()}
        scaled = self.frozen._scaling.inputs if self.frozen._scaling is not None and source == "X" else {}
        names = {key: "float64" if key in scaled else kind.name for key, kind in kinds.items()}
        lengths = self.lengths[source]
        facts = {key: (lengths.row(i, x.shape), names[key] if kinds[key].kind == "f" else None)
                 for i, (key, x) in enumerate(examples.items())}  # fmt: skip
        given = examples if source == "X" and self.is_named else next(iter(examples.values()))
        rows = self.frozen._network.rows_at_once(given, by)
        return [
            f"{name} = {literal(facts)}  # shape of a row, and dtype (None: integers)",
            f"{most} = {literal(rows)}",
        ]


def head_sources(
    source: PythonSource, method: Method, name: str, shape: tuple[Any, ...], dtype: Any
) -> list[str]:
    """Return the definitions of functions of raw outputs, and of these with an offset if there may be one."""
    found = [_head_source(source, method.name, method.head, name, [(1, *shape)], [dtype])]
    if method.of_both is not None:
        shapes = [(1, *shape), (1, method.n_offsets)]
        of_both, named = lambda *pair: method.of_both(pair), f"{name}_with_offset"
        found.append(_head_source(source, method.name, of_both, named, shapes, [dtype, np.float64]))
    return found


def _head_source(
    source: PythonSource,
    method: str,
    head: Any,
    name: str,
    shapes: Sequence[tuple[Any, ...]],
    dtypes: Sequence[Any],
) -> str:
    several, free = [], free_lengths(shapes[0][1:])

    def captured(*sizes: int) -> Graph:
        def forward(*given: Tensor) -> Any:
            found = head(*given)
            several.append(isinstance(found, list))
            return found

        given = zip(free.shapes(shapes, sizes), dtypes, strict=True)
        with no_grad():
            return capture(forward, *[np.zeros(shape, dtype) for shape, dtype in given])

    arguments = ["raw", "offset"][: len(shapes)]
    return source.function(
        name,
        f"Return what `{method}` makes of raw outputs{' and their offset' if len(shapes) > 1 else ''}.",
        captured,
        [],
        arguments,
        result=lambda names: f"[{', '.join(names)}]" if several[-1] else names[0],
        free=free,
    )


def offset_source(frozen: Any) -> str:
    """Return the definition of the function that checks offsets, if the predictor has some."""
    return OFFSETS.format(n=literal(frozen._targets.n_outputs)).strip() if has_offset(frozen._loss) else ""


def label_facts(frozen: Any, source: PythonSource) -> list[str]:
    """Return assignments of a classifier's labels."""
    if not hasattr(frozen, "classes_"):
        return []
    classes, labels = frozen.classes_, frozen._targets.labels
    lines = [f"classes_ = {source.data(classes)}"]
    if labels is not None:
        lines.append(f"LABELS = {'classes_' if labels is classes else source.data(labels)}")
    return lines


def python_file(frozen: Any, layer: Any, coverage: float | None, table: "Prepares | None" = None) -> str:
    """Return the text of a file that predicts what a frozen predictor does."""
    if isinstance(frozen._inputs, Encoded):
        title = repr(frozen) if table is None else table.title
        table = EncodedTable(frozen._inputs.encoder, title, table)
    chosen = methods_of(frozen, frozen._kind, layer, coverage)
    given = _Network(frozen)

    def write(rows: RowsGraph, free: Free) -> str:
        lengths = {"X": _Lengths.of(rows, free)}
        if "codes" in given.inputs:
            captured, shapes = given.captured("codes", SubPass(DECODER)), list(given.shapes("codes").values())
            of_codes, others, _ = of_any_lengths(captured, shapes)
            lengths["codes"] = _Lengths.of(of_codes, others, len(free.axes) + 1)

        def written(source: PythonSource) -> str:
            return _written(frozen, chosen, table, _File(frozen, table, source, given, lengths))

        return written(PythonSource(names_in(written(PythonSource(None)))))

    fixed = fixed_axes(frozen, given.inputs["X"])
    return with_any_lengths(given.captured("X", run), given.shapes("X"), write, fixed)


def _written(frozen: Any, chosen: list[Method], table: "Prepares | None", file: _File) -> str:
    if table is not None and table.inverse is not None:
        chosen = [method._replace(then="restored(found)") for method in chosen if method.name == "predict"]
    before = "" if table is None else f"{table.write(file.source)}\n\n\n"
    methods = {method.name: file.method(method) for method in chosen}
    title = repr(frozen) if table is None else table.title
    wrong = "np.isinf(x).any()" if frozen._allows_nan else "not np.isfinite(x).all()"
    inputs = f"{before}{in_parts()}\n\n\n{CHECKED.format(wrong=wrong).strip()}"
    inputs += f"\n\n\n{PADDED.strip()}" if file.is_ragged else ""
    inputs += f"\n\n\n{IN_SET.strip()}" if "predict_set" in methods else ""
    inputs += file.standardized()
    inputs += f"\n\n\n{offset_source(frozen)}".rstrip()
    return file_text(title, methods, file.texts, inputs, file.source, file.facts())


def in_parts() -> str:
    """Return the definition of the function that computes some rows at a time."""
    return IN_PARTS.format(few=literal(FEW_ROWS), most=literal(MOST_ROWS)).strip()


def file_text(
    title: str, methods: Mapping[str, str], passes: list[str], inputs: str, source: PythonSource, facts: str
) -> str:
    return FILE.format(
        title=docstring(title),
        names=", ".join(f"`{name}`" for name in methods),
        imports=source.imports.strip(),
        all=literal(list(methods)),
        facts=facts,
        methods="\n\n\n".join(methods.values()),
        passes="\n\n\n".join(passes),
        inputs=inputs,
        helpers="\n\n\n".join([*source.helpers, *source.decoder]),
        arrays="\n".join(source.arrays),
    )
