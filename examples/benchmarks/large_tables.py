"""Time and memory of fits of large tables: TabularClassifier compared with HistGradientBoosting.

Each fit runs in a process of its own, on a drawn data frame of 50 columns (40 of float64 numbers, of which a
tenth is missing, and 10 of categories), whose classes depend on a few of them. A line has the rows, the size
of the frame, the seconds of the fit, how many times those of the first size, and by how much the memory of
the process at the peak of the fit exceeds that before it, the frame included; also in sizes of the frame.

    python examples/benchmarks/large_tables.py [--rows 10000 100000] [--json PATH]

It needs pandas: ``python -m pip install "scikit-neural[data]"``.
"""

import json
import subprocess
import sys

from measured import Table, parser_of, write

CONTENDERS = {"sknet": "TabularClassifier", "HGB": "HistGradientBoostingClassifier"}
FITS = Table(
    "",
    {
        "frame, MiB": ".1f",
        "fit, s": ".1f",
        "times the first size": ".1f",
        "peak of a fit, MiB above the data": ".1f",
        "peak in frames": ".2f",
    },
)
CHILD = """
import gc, json, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sknet.tabular import TabularClassifier

def memory(what):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(what))

def drawn(rows):
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal((rows, 40))
    levels = rng.integers(0, 20, (rows, 10))
    score = numbers[:, 0] + numbers[:, 1] * numbers[:, 2] + rng.standard_normal(20)[levels[:, 0]]
    y = score + rng.standard_normal(rows) > 0
    numbers[rng.random(numbers.shape) < 0.1] = np.nan
    columns = {f"n{i}": numbers[:, i] for i in range(40)}
    names = list("abcdefghijklmnopqrst")
    columns |= {f"c{i}": pd.Categorical.from_codes(levels[:, i], names) for i in range(10)}
    return pd.DataFrame(columns), y

name, rows = sys.argv[1], int(sys.argv[2])
kind, options = {
    "sknet": (TabularClassifier, {}),
    "HGB": (HistGradientBoostingClassifier, {"categorical_features": "from_dtype"}),
}[name]
kind(random_state=0, **options).fit(*drawn(500))  # whatever is loaded by a first fit
X, y = drawn(rows)
gc.collect()
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak begins anew
before, start = memory("VmRSS"), time.perf_counter()
kind(random_state=0, **options).fit(X, y)
seconds = time.perf_counter() - start
print(json.dumps([float(X.memory_usage().sum()) / 2**20, seconds, (memory("VmHWM") - before) / 1024]))
"""


def run(name: str, rows: int) -> tuple[float, float, float]:
    """Return the MiB of the frame, the seconds of the fit, and the MiB that it adds to the peak."""
    command = [sys.executable, "-c", CHILD, name, str(rows)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    frame, seconds, peak = json.loads(done.stdout)
    return frame, seconds, peak


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    args = parser.parse_args()
    for name, title in CONTENDERS.items():
        first = None
        for rows in args.rows:
            frame, seconds, peak = run(name, rows)
            first = first or seconds
            FITS.add(f"{title}, {rows:,} rows", frame, seconds, seconds / first, peak, peak / frame)
    write(args.json, {"fits": FITS})


if __name__ == "__main__":
    main()
