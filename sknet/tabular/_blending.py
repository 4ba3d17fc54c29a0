"""Raw outputs of an ensemble: those of its members, each by how much it counts."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sknet import nn
from sknet.core import Tensor
from sknet.engine.extend import Predictor, detached, flattened
from sknet.preprocessing.extend import OneRow, Table
from sknet.tabular._mixing import Mix
from sknet.tabular._rows import encoded_rows
from sknet.tabular._training import Member

__all__ = ["Blend", "Counted", "OfOneRow", "blended", "counted", "spans_of"]

# Rows that all members predict together, so that no more of their outputs are in memory.
MOST_ROWS = 8192

Counted = tuple[Member, float]
"""A member, and by what its outputs are multiplied."""


def counted(members: Sequence[Member], mix: Mix) -> list[Counted]:
    """Return the members that a mix counts, those of one kind alike."""
    counts = {kind: sum(member.kind == kind for member in members) for kind in mix.weights}
    factors = {kind: mix.factor(kind) / count for kind, count in counts.items()}
    return [(member, factors[member.kind]) for member in members if factors[member.kind]]


def blended(members: Sequence[Counted], table: Table) -> np.ndarray:
    """Return outputs of shape (n_samples, n_outputs) for a table that has been read."""
    if table.n_rows > MOST_ROWS:
        blocks = [slice(start, start + MOST_ROWS) for start in range(0, table.n_rows, MOST_ROWS)]
        return np.concatenate([blended(members, table.take(block)) for block in blocks])
    total: Any = 0.0
    encoder, inputs = None, None
    for member, factor in members:
        if member.encoder is not encoder:
            encoder, inputs = member.encoder, encoded_rows(member.encoder, table)
        total = total + np.float32(factor) * member.outputs(inputs)
    found: np.ndarray = total
    return found


class Blend(nn.Module):
    """All members as one network, which reads a row encoded for each encoder."""

    def __init__(self, members: Sequence[Counted], spans: Sequence[tuple[int, int]]) -> None:
        self.networks = nn.ModuleList(*[detached(member.model) for member, _ in members])
        self.factors = [float(np.float32(factor)) for _, factor in members]
        self.spans = list(spans)

    def forward(self, x: Any) -> Tensor:
        total: Any = None
        for network, factor, (start, stop) in zip(self.networks, self.factors, self.spans, strict=True):
            part = network(x[:, start:stop]) * factor
            total = part if total is None else total + part
        found: Tensor = total
        return found


def spans_of(members: Sequence[Counted]) -> tuple[list[Any], list[tuple[int, int]]]:
    """Return the encoders of members, and which columns of their outputs together each member reads."""
    encoders = list({id(member.encoder): member.encoder for member, _ in members}.values())
    ends = np.cumsum([encoder.plan.width for encoder in encoders]).tolist()
    span_of = {
        id(encoder): (end - encoder.plan.width, end) for encoder, end in zip(encoders, ends, strict=True)
    }
    return encoders, [span_of[id(member.encoder)] for member, _ in members]


class OfOneRow:
    """Outputs for one row of a dense table: one encoding for all encoders and one program for all members."""

    def __init__(self, members: Sequence[Counted]) -> None:
        encoders, spans = spans_of(members)
        self._encode = OneRow([encoder.plan for encoder in encoders])
        module = Blend(members, spans).eval()
        self._predict = Predictor(module, *flattened(module, np.float32), most_rows=1, is_fixed=True)

    def __call__(self, table: Table) -> np.ndarray:
        """Return the outputs of the only row of a `table`, of shape (1, n_outputs)."""
        found: np.ndarray = self._predict(self._encode(table, np.float32))
        return found
