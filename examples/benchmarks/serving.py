"""Time predictions of one row, the import, and measure the size of a saved model: sknet and scikit-learn.

Prints the median time of `predict_proba` on one row of float32, the seconds that a fresh Python
needs for each import, and the bytes of each pickle over the bytes of the parameters.

    python examples/benchmarks/serving.py
"""

import pickle
import statistics
import subprocess
import sys
import timeit
import warnings

import numpy as np
from sklearn.neural_network import MLPClassifier as ScikitLearnMLP

from sknet import MLPClassifier


def one_row(estimator: object, row: np.ndarray) -> float:
    """Return the median microseconds of a call."""
    calls = 500
    times = timeit.repeat(lambda: estimator.predict_proba(row), number=calls, repeat=9)  # type: ignore[attr-defined]
    return statistics.median(times) / calls * 1e6


IMPORTS = (
    "import numpy",
    "import sklearn",
    "import sknet",
    "from sklearn.neural_network import MLPClassifier",
    "from sknet import MLPClassifier",
)


def import_seconds(statements: tuple[str, ...], rounds: int = 9) -> dict[str, float]:
    """Return the median seconds of imports in a fresh Python, its start included, alternating."""
    seconds: dict[str, list[float]] = {statement: [] for statement in statements}
    for _ in range(rounds):
        for statement, times in seconds.items():
            command = [sys.executable, "-c", statement]
            times.append(timeit.timeit(lambda command=command: subprocess.run(command, check=True), number=1))
    return {statement: statistics.median(times) for statement, times in seconds.items()}


def main() -> None:
    """Measure and print."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((2000, 20), dtype=np.float32), rng.integers(0, 3, 2000)
    print("| | predict_proba, one row, us | pickle / parameters |\n|---|---|---|")
    for name, kind in (("sknet", MLPClassifier), ("scikit-learn", ScikitLearnMLP)):
        fitted = kind((100,), max_iter=5, random_state=0).fit(X, y)
        size = sum(array.nbytes for array in fitted.coefs_ + fitted.intercepts_)
        print(f"| {name} | {one_row(fitted, X[:1]):.0f} | {len(pickle.dumps(fitted)) / size:.2f} |")
    print("\n| import | seconds |\n|---|---|")
    for statement, seconds in import_seconds(IMPORTS).items():
        print(f"| `{statement}` | {seconds:.2f} |")


if __name__ == "__main__":
    main()
