"""Frozen ensembles as Python files that need only NumPy."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sknet import nn
from sknet.compile import Graph, capture
from sknet.core import Tensor, no_grad
from sknet.engine._layer_outputs import detached
from sknet.engine._network import rows_at_once
from sknet.estimators._python import (
    Method,
    file_text,
    head_sources,
    in_parts,
    label_facts,
    methods_of,
    offset_source,
)
from sknet.graphs._literals import docstring, literal
from sknet.graphs._python import PythonSource
from sknet.preprocessing._python import encoding_call, table_source
from sknet.tabular._predicting import Counted
from sknet.tabular._training import Member

OUTPUTS = '''
def outputs(X):
    """Return the mixed raw outputs for a table."""
    table = {table}
    total = 0.0
    with np.errstate(all="ignore"):
{lines}
    return total
'''


def ensemble_file(frozen: Any, kind: str, coverage: float | None, before: Any, bounds: Any = None) -> str:
    """Return the text of a file that predicts what a frozen ensemble does."""
    source, members = PythonSource(), frozen._members
    networks = [_network(source, member, i) for i, (member, _) in enumerate(members)]
    shape, dtype = networks[0][1:]
    chosen = methods_of(frozen, kind, None, coverage)
    if before is not None and before.inverse is not None:
        chosen = [method for method in chosen if method.name == "predict"]
    texts, methods = [], {}
    for method in chosen:
        call = "outputs(X)"
        if method.head is not None:
            name = f"outputs_to_{method.name}"
            texts += head_sources(source, method, name, shape, dtype)
            call = f"{name}({call})"
            if method.of_both is not None:
                call = (
                    f"{name}(raw) if offset is None else {name}_with_offset(raw, offsets(offset, len(raw)))"
                )
        methods[method.name] = _public(method, call, _clipped(frozen, bounds), before)
    reading, table = table_source(source, members[0][0].encoder, before)
    outputs = OUTPUTS.format(table=table, lines=_lines(source, members)).strip()
    passes = [outputs, *texts, *(text for text, *_ in networks)]
    facts = label_facts(frozen, source)
    if bounds is not None:
        lowest, highest = (source.data(bound) for bound in bounds)
        facts.append(f"LOWEST, HIGHEST = {lowest}, {highest}")
    title = repr(frozen) if before is None else before.title
    inputs = f"{reading}\n\n\n{in_parts()}\n\n\n{offset_source(frozen)}".rstrip()
    return file_text(title, methods, passes, inputs, source, "\n".join(facts))


def _network(source: PythonSource, member: Member, i: int) -> tuple[str, tuple[int, ...], Any]:
    """Return the definition of a member's pass, and shape and dtype of a row's output."""
    module = detached(member.model)
    values = {path: parameter.data for path, parameter in module.own_parameters()}
    names = [source.array(value, f"member_{i}_{path}") for path, value in values.items()]
    row = (member.encoder.n_features_out_,)

    def forward(*arrays: Tensor) -> Any:
        bound = dict(zip(values, arrays[:-1], strict=True))
        return nn.functional_call(module, bound, arrays[-1:], training=False)[0]

    def captured(n: int) -> Graph:
        with no_grad():
            return capture(forward, *values.values(), np.zeros((n, *row), member.model.dtype))

    doc = "Return the raw outputs of a network."
    text = source.function(f"member_{i}", doc, captured, names, ["x"])
    [output] = captured(1).outputs
    return text, output.shape[1:], output.dtype


def _lines(source: PythonSource, members: Sequence[Counted]) -> str:
    """Return the lines that add up the outputs of members."""
    lines: list[str] = []
    encoder, count = None, 0
    for i, (member, factor) in enumerate(members):
        if member.encoder is not encoder:
            encoder, count = member.encoder, count + 1
            call = encoding_call(source, encoder, f"encoder_{count}", "table").replace("\n", "\n        ")
            lines.append(f"rows = {call}")
        row = (encoder.n_features_out_,)
        most = rows_at_once(member.model.module, row, member.model.dtype)
        found = f"in_parts(member_{i}, {{'x': rows}}, {literal(most)}, False)"
        lines.append(f"total = total + {literal(np.float32(factor))} * {found}")
    return "\n".join(f"        {line}" for line in lines)


def _clipped(frozen: Any, bounds: Any) -> str | None:
    """Return the expression of predictions within the targets of the fit; None for labels."""
    if bounds is None:
        return None
    dtype = "np.float64" if frozen._targets.n_outputs > 1 else "found.dtype"
    return f"np.clip(found, LOWEST, HIGHEST).astype({dtype})"


def _public(method: Method, call: str, clipped: str | None, before: Any) -> str:
    """Return the definition of a public function."""
    more, lines = method.takes()
    if method.of_both is not None:
        more.append("*, offset=None")
        lines.append("raw = outputs(X)")
    lines.append(f"found = {call}")
    if method.name == "predict" and clipped is not None:
        lines.append(f"found = {clipped}")
    then = method.then if before is None or before.inverse is None else "restored(found)"
    lines.append(f"return {then}")
    body = "".join(f"    {line}\n" for line in (f'"""{docstring(method.doc)}"""', *lines))
    return f"def {method.name}({', '.join(['X', *more])}):\n{body}".rstrip("\n")
