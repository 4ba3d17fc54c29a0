"""Rows of a table, encoded by native code, a batch at a time."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from sknet._native import needed
from sknet.compile.native import Codes, Field
from sknet.ops._codes import codes_of
from sknet.preprocessing._encodings import Crossed
from sknet.preprocessing._plan import Plan
from sknet.preprocessing._schema import Table


class _HoldsAddresses:
    def __reduce__(self) -> NoReturn:
        raise TypeError("it holds addresses of this process, and cannot be pickled or copied: make it again")


class NativeRows(_HoldsAddresses):
    """Encodes rows of a dense table to float32, with the bits of `Plan.dense`, or to `codes_of` these."""

    def __init__(
        self, plan: Plan, table: Table, fitted: Mapping[int, Crossed], is_coded: bool = False
    ) -> None:
        self._alive: list[np.ndarray] = []
        self._is_coded = is_coded
        self.width = 2 * len(plan.blocks) if is_coded else plan.width
        steps = np.array([count for count, is_steps in plan.blocks if is_steps and is_coded], np.int64)
        rows = np.ascontiguousarray(table.numbers, np.float64)
        numbers = plan.numbers
        kept, middles, scales = numbers.values
        number, low, inverse, smallest, largest = numbers.bins
        is_phase = np.zeros(len(kept), np.uint8)
        is_phase[numbers.phases] = 1
        columns = self._columns(plan, table, fitted)
        described = {
            Field.NUMBERS: self._address(rows),
            Field.STRIDE: rows.strides[0],
            Field.N_NUMBERS: table.numbers.shape[1],
            Field.CENTERS: self._address(numbers.centers),
            Field.N_VALUES: len(kept),
            Field.KEPT: self._address(kept.astype(np.int64)),
            Field.MIDDLES: self._address(middles),
            Field.SCALES: self._address(scales),
            Field.IS_PHASE: self._address(is_phase),
            Field.N_BINS: len(number),
            Field.BIN_NUMBERS: self._address(number.astype(np.int64)),
            Field.LOW: self._address(low),
            Field.INVERSE: self._address(inverse),
            Field.SMALLEST: self._address(smallest),
            Field.LARGEST: self._address(largest),
            Field.N_FLAGS: len(numbers.flags),
            Field.FLAGS: self._address(numbers.flags.astype(np.int64)),
            Field.N_COLUMNS: len(columns),
            Field.COLUMNS: self._address(np.array(columns, np.int64)),
            Field.WIDTH: self.width,
            Field.STEP: 2 if is_coded else 1,
            Field.N_STEPS: len(steps),
            Field.STEPS: self._address(steps),
        }
        self._n_numbers = table.numbers.shape[1]
        self.fields = np.array([described[field] for field in vars(Field).values()], np.int64)

    def _address(self, array: np.ndarray) -> int:
        self._alive.append(array)
        return array.ctypes.data

    def _columns(self, plan: Plan, table: Table, fitted: Mapping[int, Crossed]) -> list[list[int]]:
        """Return the numbers that describe each column of levels."""
        found = []
        levels = [*plan.categories, *(means.column for means in plan.value_means)]
        for i, column in enumerate(levels):
            values, source = column.values, [Codes.OF_TABLE, 0, 0, 0]
            if i in fitted:
                crossed = fitted[i]
                values = crossed.values
                source = [Codes.OF_CHOSEN, self._address(crossed.codes), crossed.codes.strides[0], 0]
            elif i < len(plan.categories):
                codes = table.codes[:, i]
                source = [Codes.OF_TABLE, self._address(codes), codes.strides[0], 0]
            else:
                means = plan.value_means[i - len(plan.categories)]
                known = np.ascontiguousarray(means.levels, np.float64)
                source = [Codes.OF_NUMBER, self._address(known), len(known), means.number]
            if self._is_coded:
                values = codes_of(
                    values, ((values.shape[1], 0),) if column.is_one_hot else ((1, 0),) * values.shape[1]
                )
            given = np.ascontiguousarray(values, np.float32)
            found.append([int(source[0]), self._address(given), given.shape[1], *source[1:]])
        return found

    def encode(self, chosen: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
        room = np.empty(self._n_numbers)
        arrays = self.fields, chosen, places, out, room
        fields, *addresses = (array.ctypes.data for array in arrays)
        needed().rows(fields, len(places), *addresses)


class NativeRow(_HoldsAddresses):
    """Encodes single rows of dense tables to float32 for several plans, with the bits of `NativeRows`."""

    def __init__(self, plans: Sequence[Plan], table: Table, is_coded: bool = False) -> None:
        self._table = Table(table.numbers.copy(), table.codes.copy())
        encoders = [NativeRows(plan, self._table, {}, is_coded) for plan in plans]
        self._found = np.empty((1, sum(encoder.width for encoder in encoders)), np.float32)
        self._alive: list[Any] = [only := np.zeros(1, np.int64), room := np.empty(table.numbers.shape[1])]
        self._calls = []
        at = self._found.ctypes.data
        for encoder in encoders:
            self._alive.append(encoder)
            addresses = only.ctypes.data, only.ctypes.data, at, room.ctypes.data
            self._calls.append((encoder.fields.ctypes.data, 1, *addresses))
            at += self._found.itemsize * encoder.width

    def encode(self, table: Table) -> np.ndarray:
        """Return the outputs of the only row of a `table`, which the next call overwrites."""
        self._table.numbers[...], self._table.codes[...] = table.numbers, table.codes
        rows = needed().rows
        for call in self._calls:
            rows(*call)
        return self._found
