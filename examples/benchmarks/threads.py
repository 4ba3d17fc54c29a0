"""Time four small fits in four threads of one process, and in two processes.

Training runs in native code that does not hold the GIL, so threads scale as well as processes, without copies
of the data and without workers to start. The worker processes are started before timing starts.

    python examples/benchmarks/threads.py [--rounds 5] [--fits 4] [--json PATH]
"""

import statistics
import time
import warnings

import numpy as np
from joblib import Parallel, delayed
from measured import Table, parser_of, write

from sknet import MLPClassifier
from sknet.optim import Adam

FITS = Table("fits of 20-100-2, batch 32, 300 epochs", {"seconds": ".2f"})
REST = 0.3  # seconds before each turn, since threads of the previous one spin for a while


def data() -> tuple[np.ndarray, np.ndarray]:
    """Draw noisy but learnable classes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3200, 20), dtype=np.float32)
    return X, (X[:, :2] + rng.gumbel(size=(3200, 2))).argmax(axis=1)


def fit(X: np.ndarray, y: np.ndarray, number: int) -> float:
    """Fit one of the networks, each with its own learning rate; return its loss."""
    warnings.simplefilter("ignore")
    lr = 1e-3 * (number + 1)
    network = MLPClassifier((100,), batch_size=32, optimizer=Adam(lr), max_iter=300, tol=0, random_state=0)
    return network.set_params(n_iter_no_change=300).fit(X, y).loss_


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--fits", type=int, default=4)
    arguments = parser.parse_args()
    X, y = data()
    jobs = [delayed(fit)(X, y, number) for number in range(arguments.fits)]
    ways = {
        f"{arguments.fits}, one after the other": Parallel(n_jobs=1),
        f"{arguments.fits} in as many threads": Parallel(n_jobs=arguments.fits, backend="threading"),
        f"{arguments.fits} in 2 processes": Parallel(n_jobs=2, backend="loky"),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    alone: list[float] = []
    for turn in range(arguments.rounds + 1):
        for name, parallel in ways.items():
            time.sleep(REST)
            start = time.perf_counter()
            losses = parallel(jobs)
            if turn:  # the first starts workers
                times[name].append(time.perf_counter() - start)
            else:
                alone = losses if name == next(iter(ways)) else alone
                assert np.allclose(losses, alone)
    for name, values in times.items():
        FITS.add(name, statistics.median(values))
    write(arguments.json, {"fits": FITS})


if __name__ == "__main__":
    main()
