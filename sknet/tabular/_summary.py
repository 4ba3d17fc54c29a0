"""Summaries of ensembles for tables: the networks of each kind, and how much they count."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sknet.engine import History
from sknet.engine.extend import output_shapes
from sknet.estimators import EstimatorSummary, LayerRow
from sknet.estimators.extend import summary_rows, with_values
from sknet.losses import Loss
from sknet.tabular._mixing import Mix
from sknet.tabular._training import Member

__all__ = ["summary_of"]


def summary_of(
    title: str, members: Sequence[Member], mix: Mix, loss: Loss, facts: Mapping[str, str]
) -> EstimatorSummary:
    """Return the summary of an ensemble."""
    kinds = {kind: [member for member in members if member.kind == kind] for kind in mix.weights}
    optimizers = {kind: with_values(found[0].model.optimizer) for kind, found in kinds.items()}
    model = members[0].model
    return EstimatorSummary(
        title,
        [row for kind, found in kinds.items() for row in _rows(kind, found)],
        with_values(loss),
        "; ".join(f"{kind}: {said}" for kind, said in optimizers.items()),
        {
            "members": "; ".join(f"{kind}: {_counts(found, mix, kind)}" for kind, found in kinds.items()),
            **facts,
            "computes in": f"{model.dtype} on {model.device}",
        },
        _losses(kinds),
        None,
    )


def _rows(kind: str, members: Sequence[Member]) -> Iterator[LayerRow]:
    """Yield the rows of one kind of members, which have the same layers and perhaps other widths."""
    first = members[0]
    example = np.zeros((1, first.encoder.plan.width), first.model.dtype)
    every = [list(summary_rows(first.model.module, output_shapes(first.model, example)))]
    every += [list(summary_rows(member.model.module, {})) for member in members[1:]]
    for alike in zip(*every, strict=True):
        row = alike[0]
        yield row._replace(
            path=f"{kind}.{row.path}" if row.path else kind,
            text=row.text if row.path else f"{len(members)} x {row.text}",
            parameters=sum(each.parameters for each in alike),
            trained=sum(each.trained for each in alike),
        )


def _counts(members: Sequence[Member], mix: Mix, kind: str) -> str:
    n_folds = len({member.fold for member in members})
    folds = f"{n_folds} folds" if n_folds > 1 else "one fold"
    said = f"{len(members)} in {folds}, weight {mix.weights[kind]:.2g}"
    temperature = mix.temperatures[kind]
    return said if temperature == 1.0 else f"{said}, temperature {temperature:.3g}"


def _losses(kinds: Mapping[str, Sequence[Member]]) -> History:
    """Return the mean training loss of each kind by epoch."""
    curves: dict[str, Any] = {
        f"{kind} loss": np.mean([member.history["loss"] for member in members], axis=0).tolist()
        for kind, members in kinds.items()
        if members[0].history  # slim ones have none
    }
    longest = max(map(len, curves.values()), default=0)
    return History({name: [*curve, *[math.nan] * (longest - len(curve))] for name, curve in curves.items()})
