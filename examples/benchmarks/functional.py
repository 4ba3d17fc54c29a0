"""Measure the memory of a functional training loop, compared with a loop in place.

The functional form returns new parameters in every step. With donate=True it overwrites the old ones and
frees the intermediate values as soon as the gradient is known. Prints, for three networks, the peak of
allocated memory in MiB (NumPy reports to `tracemalloc`), and the ratio to the eager in-place loop;
"compiled" is the in-place loop as `Model.step` runs it by default.

    python examples/benchmarks/functional.py [--json PATH]
"""

import gc
import tracemalloc
from collections.abc import Callable

import numpy as np
from measured import Table, parser_of, write

from sknet import Model, nn

STEPS, FIRST = 6, 3  # the first steps, which compile programs, are left out
BATCH = 32
WAYS = ("in place", "compiled", "donated", "kept")
PEAKS = Table(
    "network", {f"{way}, MiB": ".1f" for way in WAYS} | {f"{way} / in place": ".2f" for way in WAYS[1:]}
)
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "perceptron 64-512-512-4": (
        lambda: nn.Sequential(
            nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 4)
        ),
        (64,),
    ),
    "two convolutions on 28 x 28": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, 4),
        ),
        (1, 28, 28),
    ),
    "LSTM(64), 50 steps": (
        lambda: nn.Sequential(nn.LSTM(16, 64, returns="last"), nn.Linear(64, 4)),
        (50, 16),
    ),
}


def functional_step(model: Model, X: np.ndarray, y: np.ndarray, donate: bool) -> Model:
    """Return the model after one step."""
    loss = model.loss(model(X), y)
    gradient = model.backward(loss, donate=donate)
    return model.replace(model.update(gradient, donate=donate))


def peak(network: nn.Module, shape: tuple[int, ...], way: str) -> float:
    """Return the peak memory of a loop in MiB."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((BATCH, *shape), dtype=np.float32), rng.integers(0, 4, BATCH)
    tracemalloc.start()
    model = Model(network, loss="log_loss", random_state=0, compile="auto" if way == "compiled" else False)
    for number in range(STEPS):
        if number == FIRST:
            gc.collect()
            tracemalloc.reset_peak()
        if way in ("in place", "compiled"):
            model.step(X, y)
        else:
            model = functional_step(model, X, y, donate=way == "donated")
    found = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return found


def main() -> None:
    """Measure and print."""
    args = parser_of(__doc__).parse_args()
    for name, (make, shape) in NETWORKS.items():
        found = [peak(make(), shape, way) for way in WAYS]
        PEAKS.add(name, *found, *[each / found[0] for each in found[1:]])
    write(args.json, {"peaks": PEAKS})


if __name__ == "__main__":
    main()
