"""What a fit went through, epoch by epoch."""

from collections.abc import Iterator, Mapping

__all__ = ["History"]


class History(Mapping[str, list[float]]):
    """A list of numbers, one an epoch, for each of several names.

    Names are ``"loss"`` and ``"score"`` (training, running over the epoch's batches),
    ``"validation_loss"`` and ``"validation_score"`` (with early stopping), ``"lr"`` (learning rate
    of the epoch's last step) and ``"time"`` (seconds the epoch took).

    Examples
    --------
    >>> history = History()
    >>> history.append(loss=0.5, time=0.1)
    >>> history.append(loss=0.25, time=0.1)
    >>> history["loss"]
    [0.5, 0.25]
    """

    def __init__(self) -> None:
        self._columns: dict[str, list[float]] = {}

    def append(self, **values: float) -> None:
        """Add one epoch.

        Parameters
        ----------
        **values : float
            One number for each name.
        """
        for name, value in values.items():
            self._columns.setdefault(name, []).append(value)

    def copy(self) -> "History":
        """Return a history of its own with the same numbers."""
        other = History()
        other._columns = {name: list(values) for name, values in self._columns.items()}
        return other

    def __getitem__(self, name: str) -> list[float]:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        epochs = max(map(len, self._columns.values()), default=0)
        last = ", ".join(f"{name}={values[-1]:.4g}" for name, values in self._columns.items())
        return f"History({epochs} epochs{', last: ' if last else ''}{last})"
