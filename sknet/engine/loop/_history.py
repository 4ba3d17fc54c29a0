"""The numbers of a fit, epoch by epoch."""

import html
import importlib
import math
from collections.abc import Iterable, Mapping
from typing import Any

from sknet._constraints import shown

__all__ = ["History"]

LIBRARIES = ("pandas", "polars")
MOST_SHOWN = 10  # epochs in a repr: the first and the last ones


class History(dict[str, list[float]]):
    """A dict of lists with one number per epoch, ready for ``json`` and ``pandas``.

    Names are ``"loss"`` and ``"score"`` (of training, running over the epoch's batches; with ``scoring=``
    the names of the scorers instead of ``"score"``), the same prefixed with ``"validation_"`` if there are
    held-out rows, ``"lr"`` (learning rate of the epoch's last step) and ``"time"`` (seconds the epoch
    took). All lists have the same length: missing numbers are NaN.

    Parameters
    ----------
    columns : mapping of str to list of float, default=()
        The numbers of earlier epochs.

    Examples
    --------
    >>> history = History()
    >>> history.append(loss=0.5, time=0.1)
    >>> history.append(loss=0.25, time=0.1)
    >>> history["loss"]
    [0.5, 0.25]
    >>> history
    History of 2 epochs
    epoch  loss  time
        1   0.5   0.1
        2  0.25   0.1
    """

    def __init__(self, columns: Mapping[str, list[float]] | Iterable[tuple[str, list[float]]] = ()) -> None:
        super().__init__(columns)

    def append(self, **values: float) -> None:
        """Add one epoch.

        Parameters
        ----------
        **values : float
            One number per name.
        """
        if values.keys() != self.keys():
            epochs = self.n_epochs
            for name in values:
                self.setdefault(name, [math.nan] * epochs)
        for name, column in self.items():
            column.append(float(values.get(name, math.nan)))

    def amend(self, name: str, value: float) -> None:
        """Add a number to the last epoch, or replace it.

        Parameters
        ----------
        name : str
            The name; earlier epochs without it get NaN.
        value : float
            The number.
        """
        self.setdefault(name, [math.nan] * self.n_epochs)[-1] = float(value)

    @property
    def n_epochs(self) -> int:
        """Number of epochs."""
        return max(map(len, self.values()), default=0)

    def copy(self) -> "History":
        """Return an independent copy."""
        return History({name: list(values) for name, values in self.items()})

    def to_frame(self, library: str | None = None) -> Any:
        """Return the history as a data frame, one row per epoch.

        Parameters
        ----------
        library : {"pandas", "polars"} or None, default=None
            The library of the frame; None is pandas if installed, else polars.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame
            In pandas the epochs, counted from 1, are the index; in polars they are the first column. Both
            are called ``"epoch"``.

        Raises
        ------
        ValueError
            If the library is neither.
        ImportError
            If the library is not installed.

        Examples
        --------
        >>> from sknet.engine import History
        >>> history = History()
        >>> history.append(loss=0.5, lr=0.1)
        >>> history.to_frame("pandas")["loss"].to_dict()
        {1: 0.5}
        """
        if library is not None and library not in LIBRARIES:
            raise ValueError(f"library must be 'pandas', 'polars' or None. Got {shown(library)} instead.")
        module = _first_installed(LIBRARIES if library is None else (library,))
        epochs = range(1, self.n_epochs + 1)
        if module.__name__ == "polars":
            return module.DataFrame({"epoch": list(epochs), **self})
        return module.DataFrame(dict(self), index=module.RangeIndex(1, len(epochs) + 1, name="epoch"))

    def _shown(self) -> list[list[str]]:
        """Return the rows of a table, names first; of many epochs, those in the middle are left out."""
        rows = [[str(epoch + 1), *self._numbers(epoch)] for epoch in range(self.n_epochs)]
        if len(rows) > MOST_SHOWN:
            half = MOST_SHOWN // 2
            rows[half:-half] = [["..."] * (len(self) + 1)]
        return [["epoch", *self], *rows]

    def _numbers(self, epoch: int) -> list[str]:
        return [f"{values[epoch]:.4g}" for values in self.values()]

    def _title(self) -> str:
        return f"History of {self.n_epochs} epoch{'' if self.n_epochs == 1 else 's'}"

    def __repr__(self) -> str:
        table = self._shown() if self.n_epochs else []
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(map(str.rjust, row, widths)) for row in table]
        return "\n".join([self._title(), *lines])

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        names, *rows = self._shown() if self.n_epochs else [[]]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join(f"<tr>{''.join(f'<td>{text}</td>' for text in row)}</tr>" for row in rows)
        caption = f"<caption>{self._title()}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _first_installed(libraries: tuple[str, ...]) -> Any:
    """Return the first of these libraries that can be imported."""
    for name in libraries:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    names = " or ".join(libraries)
    raise ImportError(f"History.to_frame needs {names}, which is not installed: pip install {libraries[0]}")
