"""Time seeded fits of six structures in a fresh process, in native code and by NumPy's plan.

Three activations and two depths on digits, one fit after the other. Each round starts two processes in turn.
The weights have to be bitwise identical.

    python examples/benchmarks/cold.py
    python examples/benchmarks/cold.py --quick --json cold.json
"""

import json
import os
import statistics
import subprocess
import sys
from typing import Any

from measured import Table, parser_of, write

FITS = """
import hashlib, json, sys, time, warnings
warnings.simplefilter("ignore")
from sklearn.datasets import load_digits
from sknet import MLPClassifier
X, y = load_digits(return_X_y=True)
digest, started = hashlib.sha256(), time.perf_counter()
for activation in ("relu", "tanh", "logistic"):
    for hidden in ((50,), (50, 50)):
        clf = MLPClassifier(hidden, activation=activation, max_iter=int(sys.argv[1]), random_state=0)
        clf.fit(X / 16, y)
        for array in (*clf.coefs_, *clf.intercepts_):
            digest.update(array.tobytes())
print(json.dumps({"seconds": time.perf_counter() - started, "bits": digest.hexdigest()}))
"""

NATIVE, NUMPY = "native code", "NumPy plan"
TIMES = Table("six fits", {"seconds": ".2f", "times the NumPy plan": ".2f"})


def fits(epochs: int, native: str) -> dict[str, Any]:
    """Return seconds and a digest of all weights, of fits in a separate process."""
    environment = os.environ | {"SKNET_NATIVE": native, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", FITS, str(epochs)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round, to see that it runs")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    epochs, rounds = (2, 1) if args.quick else (20, args.rounds)
    taken: dict[str, list[float]] = {name: [] for name in (NATIVE, NUMPY)}
    are_equal = True
    for _ in range(rounds):
        results = [fits(epochs, native) for native in ("always", "never")]
        are_equal &= len({result["bits"] for result in results}) == 1
        for name, result in zip(taken, results, strict=True):
            taken[name].append(result["seconds"])
    medians = {name: statistics.median(values) for name, values in taken.items()}
    for name, value in medians.items():
        TIMES.add(name, value, value / medians[NUMPY])
    print(f"\nthe same bits in both: {are_equal}")
    write(args.json, {"fits": TIMES})


if __name__ == "__main__":
    main()
