"""What a fit went through, epoch by epoch."""

import math
from collections.abc import Iterable, Mapping

__all__ = ["History"]


class History(dict[str, list[float]]):
    """A list of numbers, one an epoch, for each of several names: a dict for ``json`` and ``pandas``.

    Names are ``"loss"`` and ``"score"`` (training, running over the epoch's batches),
    ``"validation_loss"`` and ``"validation_score"`` (with early stopping), ``"lr"`` (learning rate
    of the epoch's last step) and ``"time"`` (seconds the epoch took). All lists have the same length: an
    epoch without a number of some name has NaN there.

    Parameters
    ----------
    columns : mapping of str to list of float, default=()
        What there is already.

    Examples
    --------
    >>> history = History()
    >>> history.append(loss=0.5, time=0.1)
    >>> history.append(loss=0.25, time=0.1)
    >>> history["loss"]
    [0.5, 0.25]
    """

    def __init__(self, columns: Mapping[str, list[float]] | Iterable[tuple[str, list[float]]] = ()) -> None:
        super().__init__(columns)

    def append(self, **values: float) -> None:
        """Add one epoch.

        Parameters
        ----------
        **values : float
            One number for each name.
        """
        epochs = self.n_epochs
        for name, value in values.items():
            self.setdefault(name, [math.nan] * epochs).append(float(value))
        for column in self.values():
            if len(column) == epochs:
                column.append(math.nan)

    @property
    def n_epochs(self) -> int:
        """How many epochs there are."""
        return max(map(len, self.values()), default=0)

    def copy(self) -> "History":
        """Return a history of its own with the same numbers."""
        return History({name: list(values) for name, values in self.items()})

    def __repr__(self) -> str:
        last = ", ".join(f"{name}={values[-1]:.4g}" for name, values in self.items())
        return f"History({self.n_epochs} epochs{', last: ' if last else ''}{last})"
