"""Limits of sizes and times inside of sknet, by name.

Tests set them by the fixture `limits`, so that small arrays are computed as large ones are, or blocks of
steps do not depend on the clock.
"""

from functools import partial
from typing import Any

import pytest

from sknet.compile._compile import forget_programs
from sknet.compile.cuda import _clusters, _heads, _maps, _precisions, _recurrent, _rules
from sknet.compile.numpy import _emitters
from sknet.compile.passes import fuse
from sknet.engine import _batches, _device_runner, _network, _runners
from sknet.tabular import _training

# Programs are compiled again where one of these is set.
OF_PROGRAMS = {
    "blocks of a kernel": [(_maps, "MOST_BLOCKS"), (_rules, "MOST_BLOCKS"), (_device_runner, "MOST_BLOCKS")],
    "elements with 32-bit indices": [(_maps, "NARROW"), (_rules, "NARROW"), (_device_runner, "NARROW")],
    "threads of a gathering block": [(_device_runner, "THREADS")],
    "blocks of a last layer": [(_heads, "MOST_BLOCKS")],
    "warps with one row of a last layer": [(_heads, "WARPS")],
    "elements from which loads are wide": [(_maps, "LEAST_WIDE")],
    "elements from which rows are padded": [(_device_runner, "LEAST_PADDED")],
    "rows that a thread of a recurrent layer adds": [(_recurrent, "TOGETHER")],
    "bytes of columns of a convolution": [(_rules, "MOST_COLUMNS")],
    "indices that all threads read": [(_rules, "MOST_LOOKS")],
    "multiplications of a product in three parts": [(_precisions, "LEAST_PRODUCTS")],
    "rows of a product in three parts": [(_precisions, "LEAST_SIZE")],
}
OF_RUNS = {
    "multiplications of a step of a cluster": [(_clusters, "LEAST_PRODUCTS")],
    "seconds of a block of steps": [(_runners, "SECONDS")],
    "steps of a block on a device": [(_device_runner, "MOST_STEPS")],
    "multiplications of rows predicted on the host": [(_network, "MOST_PRODUCTS")],
    "elements of a chunk of predictions": [(_network, "CHUNK_ELEMENTS")],
    "numbers of steps that batches may have": [(_batches, "MOST_WIDTHS")],
    "batches of similar lengths": [(_batches, "LEAST_BATCHES")],
    "sequences in passes by length": [(_network, "LEAST_ROWS")],
    "bytes of encoded tables": [(_training, "KEPT_BYTES"), (_training, "MOST_BYTES")],
}


class Limits:
    """Sets limits until a test ends."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def __call__(self, name: str, value: Any) -> None:
        """Set a limit by its name in the tables above."""
        for module, attribute in (OF_PROGRAMS | OF_RUNS)[name]:
            self._patch.setattr(module, attribute, value)
        if name in OF_PROGRAMS:
            self.forget()

    def elements_of_a_block(self, most: int) -> None:
        """Let NumPy's programs split chains of elementwise operations into blocks of so many elements."""
        self._patch.setattr(_emitters, "fuse", partial(fuse, block=most, cache=1))
        self.forget()

    def multiplications_of_small_products(self, most: int) -> None:
        """Let BLAS have kernels for products of so many multiplications."""
        self._patch.setattr(_emitters, "small_limit", lambda: most)
        self.forget()

    def products_one_after_the_other(self) -> None:
        """Let devices compute no products beside others."""
        self._patch.setattr("sknet.compile.cuda._executor.products_beside", lambda graph, groups: {})
        self.forget()

    def forget(self) -> None:
        """Forget programs that were compiled under other limits."""
        forget_programs()
