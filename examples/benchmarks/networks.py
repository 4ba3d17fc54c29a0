"""Time a training step of whole networks of sknet and PyTorch, alternating in one process.

A convolutional network, a Transformer and an LSTM classify images and sequences; each is trained with Adam
in float32, by `NetClassifier` and by a typical loop in PyTorch, on the CPU or, with --device cuda, on a GPU.
A step's time is the difference between a long and a short fit, divided by the difference in steps.

sknet runs in native code where it was built; SKNET_NATIVE=never does without.

Prints, for each network, milliseconds per step (median over the rounds) and the ratio of sknet's time to
PyTorch's. Threads are the BLAS library's: OMP_NUM_THREADS=2 gives both libraries two.

    python examples/benchmarks/networks.py [--rounds 5] [--only LSTM] [--device cuda] [--json PATH]
"""

import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from measured import Table, parser_of, write
from training import NEVER, REST, seconds  # which turns native code on

import sknet
from sknet import NetClassifier, Tensor, nn

EPOCHS = {"cpu": (1, 4), "cuda": (5, 25)}  # of the short and the long fit
STEPS, CLASSES = 8, 10  # steps of an epoch
SIDES = ("sknet", "PyTorch")
TIMES = Table(
    "network, batch",
    {**dict.fromkeys(SIDES, ".2f"), "sknet / PyTorch": ".2f"},
    drawn=SIDES,
    unit="milliseconds per step",
)


class Mean(nn.Module):
    """The mean over the steps of a sequence."""

    def forward(self, x: Any) -> Tensor:
        return x.mean(axis=1)


class Case(NamedTuple):
    """A network, and PyTorch's counterpart."""

    name: str
    network: Callable[[], nn.Module]
    counterpart: Callable[[Any], Any]  # of the module torch
    shape: tuple[int, ...]  # of a batch


def images(of: Any, norm: Callable[[int], Any]) -> Any:
    """Return two blocks of convolution, norm, ReLU and pooling, and a perceptron, of either library."""
    blocks = [
        layer
        for channels, filters in ((1, 32), (32, 64))
        for layer in (
            of.Conv2d(channels, filters, 3, padding=1),
            norm(filters),
            of.ReLU(),
            of.MaxPool2d(2),
        )
    ]
    return of.Sequential(*blocks, of.Flatten(), of.Linear(3136, 128), of.ReLU(), of.Linear(128, CLASSES))


def transformer() -> nn.Module:
    """Return two encoder layers, whose outputs are averaged, and a linear layer."""
    layers = [nn.TransformerEncoderLayer(128, 4, dropout=0.0) for _ in range(2)]
    return nn.Sequential(*layers, Mean(), nn.Linear(128, CLASSES))


def transformer_of_torch(torch: Any) -> Any:
    """Return the same for PyTorch."""

    class Average(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x.mean(dim=1)

    layer = torch.nn.TransformerEncoderLayer
    layers = [layer(128, 4, 512, 0.0, "gelu", batch_first=True, norm_first=True) for _ in range(2)]
    return torch.nn.Sequential(*layers, Average(), torch.nn.Linear(128, CLASSES))


def recurrent() -> nn.Module:
    """Return an LSTM, whose last state a linear layer reads."""
    return nn.Sequential(nn.LSTM(32, 128, returns="last"), nn.Linear(128, CLASSES))


def recurrent_of_torch(torch: Any) -> Any:
    """Return the same for PyTorch."""

    class Last(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.lstm = torch.nn.LSTM(32, 128, batch_first=True)
            self.head = torch.nn.Linear(128, CLASSES)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x)[0][:, -1])

    return Last()


CASES = [
    Case(
        "convolutions, norms and pools on 28 x 28, 64",
        lambda: images(nn, nn.BatchNorm),
        lambda torch: images(torch.nn, torch.nn.BatchNorm2d),
        (64, 1, 28, 28),
    ),
    Case("Transformer of 2 layers on 64 steps, 32", transformer, transformer_of_torch, (32, 64, 128)),
    Case("LSTM(128) on 50 steps, 64", recurrent, recurrent_of_torch, (64, 50, 32)),
]


def data(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows and classes."""
    rng = np.random.default_rng(0)
    n = STEPS * case.shape[0]
    X = rng.standard_normal((n, *case.shape[1:]), dtype=np.float32)
    return X, np.arange(n) % CLASSES


def fit_estimator(case: Case, X: np.ndarray, y: np.ndarray, epochs: int, device: str = "cpu") -> None:
    """Fit an estimator for exactly this many epochs."""
    NetClassifier(
        case.network(),
        batch_size=case.shape[0],
        max_iter=epochs,
        alpha=0.0,
        tol=0,
        n_iter_no_change=NEVER,
        random_state=0,
        device=device,
    ).fit(X, y)


def fit_torch(case: Case, X: np.ndarray, y: np.ndarray, epochs: int, device: str = "cpu") -> None:
    """Run a typical PyTorch training loop, with the fused Adam."""
    import torch

    net = case.counterpart(torch).to(device)
    optimizer = torch.optim.Adam(net.parameters(), fused=True)
    loss_function = torch.nn.CrossEntropyLoss()
    inputs, targets = torch.from_numpy(X).to(device), torch.from_numpy(y).to(device)
    for _ in range(epochs):
        for rows in torch.randperm(len(inputs), device=device).split(case.shape[0]):
            optimizer.zero_grad()
            loss_function(net(inputs[rows]), targets[rows]).backward()
            optimizer.step()
    if device == "cuda":
        torch.cuda.synchronize()


Fit = Callable[..., None]  # of a case, X, y, epochs and the device


def contenders() -> dict[str, Fit]:
    """Return the contenders; PyTorch if it is installed, with as many threads as BLAS has."""
    found: dict[str, Fit] = {"sknet": fit_estimator}
    try:
        import torch
    except ImportError:
        return found
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    return {**found, "PyTorch": fit_torch}


def measure(case: Case, fits: dict[str, Fit], rounds: int, device: str) -> dict[str, float]:
    """Return the median milliseconds per step of each contender."""
    X, y = data(case)
    epochs = EPOCHS[device]
    times: dict[str, list[float]] = {name: [] for name in fits}
    for turn in range(rounds + 1):
        for name, fit in fits.items():
            time.sleep(REST)
            short, long = (seconds(fit, case, X, y, each, device) for each in epochs)
            if turn:  # code has been compiled
                times[name].append((long - short) / ((epochs[1] - epochs[0]) * STEPS) * 1e3)
    return {name: statistics.median(found) for name, found in times.items()}


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="only the cases whose name contains this")
    parser.add_argument("--device", default="cpu", choices=EPOCHS, help="where both train")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    fits = contenders()
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, sknet {sknet.__version__}, float32, "
        f"Adam, {', '.join(SIDES)}, milliseconds per step\n"
    )
    for case in CASES:
        if arguments.only in case.name:
            found = measure(case, fits, arguments.rounds, arguments.device)
            ratio = found["sknet"] / found["PyTorch"] if "PyTorch" in found else None
            TIMES.add(case.name, found["sknet"], found.get("PyTorch"), ratio)
    write(arguments.json, {"steps": TIMES}, arguments.device)


if __name__ == "__main__":
    main()
