"""One row of a table, encoded by one plan or by several at once, in few calls of NumPy."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet.preprocessing._categories import FIRST
from sknet.preprocessing._numbers import smoothly_clipped
from sknet.preprocessing._schema import Table
from sknet.preprocessing._values import HUGE

if TYPE_CHECKING:
    from sknet.preprocessing._plan import Plan

__all__ = ["OneRow"]


class OneRow:
    """Encodes single rows of dense tables as `Plan.dense` does, to the same bits."""

    def __init__(self, plans: "Sequence[Plan]") -> None:
        self.widths = [plan.width for plan in plans]
        numbers = [plan.numbers for plan in plans]
        kept, centers, scales = (np.concatenate(x) for x in zip(*(n.values for n in numbers), strict=True))
        self._values = kept, centers, scales
        offsets = np.cumsum([0, *(len(n.values[0]) for n in numbers[:-1])])
        phases = [n.phases + offset for n, offset in zip(numbers, offsets, strict=True)]
        self._phases = np.concatenate(phases)
        self._bins = tuple(np.concatenate(x) for x in zip(*(n.bins for n in numbers), strict=True))
        self._fills = np.concatenate([n.centers[n.bins[0]] for n in numbers])
        self._flags = np.concatenate([n.flags for n in numbers])
        n_categories = len(plans[0].categories)
        self._levels = [np.hstack([plan.categories[i].values for plan in plans]) for i in range(n_categories)]
        self._means = [means for plan in plans for means in plan.value_means]
        self._order = self._order_of(plans)

    @staticmethod
    def _order_of(plans: "Sequence[Plan]") -> np.ndarray:
        """Return where each output is: they are computed by kind, and returned by plan."""
        counts = [
            [
                *(len(x) for x in (plan.numbers.values[0], plan.numbers.bins[0], plan.numbers.flags)),
                *(len(category.names) for category in plan.categories),
                sum(len(means.column.names) for means in plan.value_means),
            ]
            for plan in plans
        ]
        places, at = {}, 0
        for kind in range(len(counts[0])):
            for i, of_plan in enumerate(counts):
                places[i, kind] = np.arange(at, at + of_plan[kind])
                at += of_plan[kind]
        return np.concatenate([places[i, kind] for i in range(len(plans)) for kind in range(len(counts[0]))])

    def __call__(self, table: Table, dtype: Any) -> np.ndarray:
        """Return the outputs of the only row of a `table` in a `dtype`, of shape (1, sum(widths))."""
        numbers, codes = table.numbers[0], table.codes[0].tolist()
        parts = [self._numbers(numbers)] if len(numbers) else []
        parts += [values[code + FIRST] for values, code in zip(self._levels, codes, strict=True)]
        parts += [means.of(numbers.item(means.number)) for means in self._means]
        found: np.ndarray = np.concatenate(parts).take(self._order).astype(dtype).reshape(1, -1)
        return found

    def _numbers(self, numbers: np.ndarray) -> np.ndarray:
        missing = np.isnan(numbers)
        has_gaps = bool(missing.any())
        kept, centers, scales = self._values
        number, low, inverse, smallest, largest = self._bins
        z, t = numbers[kept], numbers[number]
        if has_gaps:
            z, t = np.where(missing[kept], centers, z), np.where(missing[number], self._fills, t)
        z -= centers
        t -= low
        with np.errstate(over="ignore"):
            z /= scales
            t *= inverse
        np.clip(z, -HUGE, HUGE, out=z)
        values = smoothly_clipped(z)
        if len(self._phases):
            values[self._phases] = z[self._phases]
        np.clip(t, smallest, largest, out=t)
        t -= 0.5
        parts = [values, t, missing[self._flags]] if len(self._flags) else [values, t]
        return np.concatenate(parts)
