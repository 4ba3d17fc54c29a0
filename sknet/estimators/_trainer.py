"""What trains on the rows of a fit: this process, or others that have them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sknet._warnings import warn_caller
from sknet.callbacks import Callback
from sknet.callbacks.extend import Rows
from sknet.engine import Model
from sknet.engine.extend import (
    Outcome,
    Source,
    Validation,
    chunk_rows,
    chunk_rows_of,
    first_input,
    row_shapes,
    train,
)
from sknet.estimators._calibration import check_calibration
from sknet.estimators._scoring import check_scoring
from sknet.estimators._source import FitSource
from sknet.estimators._units import standardize
from sknet.estimators._validation import DataSet, data_sets, monitored, new_score_of, split_rows

if TYPE_CHECKING:
    from sknet.estimators._fitting import Fit

__all__ = ["Trainer"]

DEFAULT_BATCH = 200


class Trainer:
    """What trains on the rows of a fit: in this base class this process, on those that were given."""

    def take_rows(self, fit: "Fit") -> None:
        """Set the rows to train and to validate on, and what is measured there."""
        model, recipe = fit.model, fit.recipe
        self.measure(fit)
        rows, held_out = fit.split if fit.encoder is not None else _split(fit)
        standardize(fit, rows)
        fit.training, fit.held_out = data_sets(fit, rows, held_out)
        fit.batches = fit.training.batches(model, self.batch_size(recipe.batch_size, fit.training.n_samples))
        if fit.held_out is not None:
            kept = fit.held_out.batches(model, _rows_at_once(fit.held_out, model))
            fit.validation = Validation(kept, new_score_of(fit, fit.held_out, kept))
        check_calibration(fit)

    def train(self, fit: "Fit", callbacks: Sequence[Callback]) -> Outcome:
        """Train the model in place."""
        return train(
            fit.model,
            fit.batches,
            fit.history,
            fit.settings,
            new_score_of(fit, fit.training, fit.batches),
            fit.validation,
            callbacks,
            self.source(fit),
            fit.saved,
        )

    def measure(self, fit: "Fit") -> None:
        """Set what is measured in each epoch, and which of it decides when to stop."""
        fit.scoring = check_scoring(fit.recipe.scoring, type(fit.estimator).__name__)
        fit.monitor = monitored(fit)

    def standardize(self, fit: "Fit", y: Any) -> None:
        """Let a first fit with `scale_target` train on targets standardized as others are."""
        fit.y, fit.weight = y, None
        standardize(fit)
        fit.y = fit.estimator._targets.encode(fit.labels)

    def source(self, fit: "Fit", rows: Rows | None = None) -> Source:
        """Return what callbacks see of the estimator and its rows."""
        return FitSource(fit, rows)

    def batch_size(self, batch_size: int | str, n_samples: int) -> int:
        """Return how many rows a step has, at most all."""
        if isinstance(batch_size, str):
            return min(DEFAULT_BATCH, n_samples)
        if batch_size > n_samples:
            warn_caller(
                f"Got `batch_size` less than 1 or larger than sample size: {batch_size} rows of {n_samples}. "
                "It is going to be clipped.",
                UserWarning,
            )
        return int(min(batch_size, n_samples))


def _split(fit: "Fit") -> tuple[Any, Any]:
    def binary() -> Any:
        return fit.y if fit.estimator._targets.task == "binary" else None

    return split_rows(fit, first_input(fit.X), fit.labels, binary, fit.model.random_state)


def _rows_at_once(part: DataSet, model: Model) -> int:
    """Return how many rows are predicted at once."""
    if part.dtypes is None:
        return chunk_rows_of(model, part.X)
    return chunk_rows(model, row_shapes(part.X), part.dtypes)
