"""Arrays of any rank: what a network learns to return of sequences, images and ids."""

from typing import Any, Literal

import numpy as np

from sknet import nn
from sknet._fields import COUNT
from sknet.exceptions import ShapeError
from sknet.losses import Loss

__all__ = ["ArrayTargets"]


class ArrayTargets:
    """Arrays of one shape a row: real numbers, 0/1 labels, or integers that a network gives logits for."""

    scale = None
    _stored_fields = {
        "_rank": COUNT,
        "_may_be_ids": bool,
        "task": Literal["regression", "multilabel", "multiclass"],
        "n_outputs": COUNT,
    }

    def __init__(self, y: Any, loss: Loss, may_be_ids: bool = True) -> None:
        self._rank, self._may_be_ids = y.ndim, may_be_ids
        self.task, self.n_outputs = "multilabel", y.shape[-1] if y.ndim < 4 else y.shape[1]
        if "regression" in loss.tasks:
            self.task = "regression"
        elif may_be_ids and y.ndim < 4:
            self.task, self.n_outputs = "multiclass", int(y.max()) + 1

    def meet(self, network: nn.Module, shape: "tuple[int, ...] | None", y: Any) -> None:
        """Take note of the shape of a network's output for one row."""
        if shape is None:
            return
        row = tuple(y.shape[1:])
        if self.task == "multiclass" and shape == row:
            self.task, self.n_outputs = "multilabel", row[-1]  # a logit for each 0 or 1
        elif self.task == "multilabel" and self._may_be_ids and shape[:-1] == row:
            self.task = "multiclass"
        found, has_classes = (shape[:-1], True) if self.task == "multiclass" else (shape, False)
        if found != row:
            also = ", and an axis of logits for the classes" if has_classes else ""
            hint = f"{type(network).__name__} may take input_shape, or have lazy layers"
            if self.task == "regression" and shape[:-1] == row:
                hint = "logits for the classes of integers are learned with loss='log_loss'"
            raise ShapeError(
                f"{type(network).__name__} returns an array of shape {shape} for each row, and what it shall "
                f"return has shape {row}{also}: {hint}"
            )
        if has_classes:
            self.n_outputs = shape[-1]

    def encode(self, y: Any) -> Any:
        """Return targets as the loss reads them."""
        if y.ndim != self._rank:
            raise ValueError(f"targets must have {self._rank} axes as in the fit before, got shape {y.shape}")
        return y.astype(np.int64) if self.task == "multiclass" else y

    def trained(self, loss: Loss) -> Loss:
        """Return the loss to train with, for these targets."""
        return loss.for_task(self.task)

    @property
    def have_positions(self) -> bool:
        """Whether the second axis of outputs counts the steps of sequences."""
        return self.task == "multiclass" or self._rank == 3

    def head(self, loss: Loss) -> Any:
        """Return what makes reconstructions of raw outputs; None for what `restore` makes by itself."""
        return None if self.task == "multiclass" else loss.predict

    def restore(self, output: Any) -> Any:
        """Return reconstructions in the form of the targets: of several classes the likeliest."""
        return output.argmax(axis=-1) if self.task == "multiclass" else output
