"""The accumulated losses and scores of an epoch."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sknet.device import Device, namespace, to_device, to_host
from sknet.engine.loop._outputs import Outputs
from sknet.engine.loop._scores import Score
from sknet.engine.loop._steps import Block

__all__ = ["Sums"]

Targets = Callable[[slice], tuple[Any, Any, Any]]


class Sums:
    """Sums over the batches of an epoch, independent of how batches are grouped into blocks."""

    score: Score

    def __init__(self, n_samples: int | None, targets: Targets) -> None:
        self._outputs, self._targets = Outputs(n_samples), targets
        self._by_batch = n_samples is None
        self._loss = 0.0
        self._scored = self.n_rows = 0

    def begin(self, score: Score) -> None:
        """Start an epoch, with an empty score."""
        self._loss, self.score = 0.0, score
        self._scored = self.n_rows = self._outputs.n_rows = 0

    @property
    def outputs(self) -> Outputs | None:
        """The buffer for the outputs of steps; None if no score reads them."""
        return self._outputs if self.score.reads_outputs else None

    def add(self, block: Block) -> None:
        """Add the results of some batches."""
        self._count(block)
        if self.score.reads_outputs:
            self._outputs.add(block.n_rows)
            self._score(self._by_batch)
        else:
            self._scored = self.n_rows

    def _count(self, block: Block) -> None:
        rows = block.n_rows // len(block.losses)  # the last batch, which may be shorter, is its own block
        for loss in block.losses.tolist():
            self._loss += loss * rows
        self.n_rows += block.n_rows

    def add_several(self, blocks: Sequence[Block], outputs: Any) -> None:
        """Add the results of the first batches of an epoch, whose `outputs` are not in the buffer yet."""
        if blocks:
            room = self._outputs.free(len(outputs), outputs.shape[1:], outputs.dtype)
            room[: len(outputs)] = outputs
        for block in blocks:
            self.add(block)

    def add_losses(self, blocks: Sequence[Block]) -> None:
        """Add batches that are scored, or are not to be."""
        for block in blocks:
            self._count(block)
        self._scored = self.n_rows

    def skip(self, n_rows: int) -> None:
        """Count rows with zero weight."""
        self.flush()
        self.n_rows += n_rows
        self._scored = self.n_rows

    def flush(self) -> None:
        """Score the buffered outputs at once: a few calls for many batches."""
        self._score(True)

    def _score(self, also_last: bool) -> None:
        for part in self._outputs.parts(also_last):
            stop = self._scored + len(part)
            y, weight, rows = self._targets(slice(self._scored, stop))
            self.score.add(part, y, weight, rows)
            self._scored = stop

    @property
    def mean_loss(self) -> float:
        """Mean of the batches' losses, weighted by rows."""
        return self._loss / self.n_rows

    def state(self) -> dict[str, Any]:
        """Return the sums so far; outputs that have not been scored stay in the buffer."""
        waiting = self._outputs.waiting
        kept = None if waiting is None else to_host(waiting).copy()
        rows = [self._scored, self.n_rows]
        return {"loss": self._loss, "rows": rows, "outputs": kept, "score": self.score.state()}

    def load_state(self, state: Mapping[str, Any], device: Device) -> None:
        """Continue from what `state` returned, after `begin`; outputs are moved to the device."""
        self._loss = state["loss"]
        self.score.load_state(state["score"])
        self._scored, self.n_rows = state["rows"]
        waiting = self.n_rows - self._scored
        if waiting:
            outputs = to_device(state["outputs"], device)
            room = self._outputs.free(waiting, outputs.shape[1:], outputs.dtype, namespace(outputs))
            room[:waiting] = outputs
            self._outputs.add(waiting)
