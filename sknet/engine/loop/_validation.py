"""Held-out rows, scored after each epoch."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from sknet.device import to_host
from sknet.engine.loop._batches import Batches
from sknet.engine.loop._scores import Score
from sknet.engine.predict import predict_chunk
from sknet.engine.state import n_rows
from sknet.engine.step import mean_loss

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["Validation"]


class Validation:
    """Held-out rows, and how to score them."""

    def __init__(self, batches: Batches, new_score: Callable[[], Score]) -> None:
        self.batches = batches
        self.new_score = new_score

    def evaluate(self, model: "Model") -> dict[str, float]:
        """Return the mean loss (without penalty) and the scores of the held-out rows by name."""
        score, loss, total = self.new_score(), 0.0, 0.0
        for chosen, (X, y, weight), look_ahead in self.batches.in_turn():
            comes_again = n_rows(X) == self.batches.size < self.batches.n_samples
            output = predict_chunk(model, X, comes_again)
            look_ahead()
            if weight is None or to_host(weight).any():
                mean, size = mean_loss(model, output, y, weight)
                loss += mean * size
                total += size
            if score.reads_outputs:
                score.add(output, y, weight, chosen)
        return {"loss": loss / total if total else math.nan, **score.results()}
