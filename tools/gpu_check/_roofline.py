"""The least time of a training step: arithmetic, memory, and launches.

A perceptron of some layers is trained with Adam in float32. Counted are the products (forward and of the
weights in all layers, of the inputs in all but the first), the bytes of a step whose elementwise work is
fused into the products, and a graph of one node per product, one for the loss, the update and the gather.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["NODE", "Work", "work_of"]

NODE = 1.2e-6  # seconds of a tiny node in a CUDA graph
ITEM = 4  # bytes of a float32


@dataclass(frozen=True)
class Work:
    """Arithmetic and memory traffic of a step."""

    operations: float
    nbytes: float
    nodes: int

    def floor(self, rate: float, bandwidth: float) -> float:
        """Return the least seconds, at so many operations and bytes a second."""
        return max(self.operations / rate, self.nbytes / bandwidth) + NODE * self.nodes


def work_of(sizes: Sequence[int], batch: int, itemsize: int = ITEM) -> Work:
    """Return the work of a step, whose rows and hidden values have numbers of some bytes."""
    layers = [n_in * n_out for n_in, n_out in pairwise(sizes)]
    operations = 2 * batch * (3 * sum(layers) - layers[0])
    n_parameters = sum(layers) + sum(sizes[1:])
    # Parameters: read in both directions, and eight numbers in the update. Hidden values and their gradients:
    # each written once and read twice, but the gradient of the first layer, which only its weights need.
    hidden = 6 * sum(sizes[1:-1]) - sizes[1]
    nbytes = ITEM * 10 * n_parameters + itemsize * batch * (4 * sizes[0] + 4 * sizes[-1] + hidden)
    return Work(operations, nbytes, 3 * len(layers) - 1 + 3)
