"""Several epochs that were trained in one call, to go through one after the other."""

from typing import Any, NamedTuple

import numpy as np

from sknet.engine.loop._batches import Batches
from sknet.engine.loop._scores import Score
from sknet.engine.loop._steps import Block
from sknet.engine.loop._sums import Sums

__all__ = ["Several"]


class Several(NamedTuple):
    """Results of several epochs."""

    batches: Batches
    orders: np.ndarray
    losses: Any
    outputs: Any

    @property
    def n_whole(self) -> int:
        """Number of epochs with all steps."""
        return len(self.losses) // self.batches.n_batches

    def scores(self, empty: Score) -> list[Score] | None:
        """Return the scores of all epochs; None if an epoch is not whole, or they must be added up."""
        n_epochs = len(self.orders)
        if self.outputs is None or self.n_whole < n_epochs:
            return None
        y, _ = self.batches.take_targets(self.orders.reshape(-1))
        return empty.of_epochs(n_epochs, self.outputs.reshape((-1, *self.outputs.shape[2:])), y)

    def add_to(self, sums: Sums, number: int, is_scored: bool) -> Any:
        """Add an epoch to empty sums, which may have its score already; return the losses of its steps."""
        n_batches = self.batches.n_batches
        losses = self.losses[number * n_batches :][:n_batches]
        parts = [(losses[first : first + count], rows) for first, rows, count in self.batches.alike]
        blocks = [Block(part, len(part) * rows) for part, rows in parts if len(part)]
        if is_scored or self.outputs is None:
            sums.add_losses(blocks)
            return losses
        sums.add_several(blocks, self.outputs[number, : sum(block.n_rows for block in blocks)])
        return losses
