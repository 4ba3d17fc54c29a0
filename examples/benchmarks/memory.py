"""Measure the memory of a fit, and the seconds of a first fit, each in a separate process.

Prints, for sknet (with NumPy alone, and in native code), scikit-learn and PyTorch, the growth of the
process's peak memory in MiB during a fit of one network after a small fit and loading the data, its ratio
to the bytes of the parameters, and the seconds from the start of Python to the end of a first, small fit.
sknet's estimators hold standardized rows, as scikit-learn's behind a StandardScaler do.

    python examples/benchmarks/memory.py [--rounds 3] [--json PATH]
"""

import json
import os
import statistics
import subprocess
import sys
import time

from measured import Table, parser_of, write

SIZES = {"fit": (784, 512, 10, 256, 20000), "first": (20, 100, 2, 32, 320)}
CONTENDERS = {
    "sknet, NumPy alone": ("sknet", "never"),
    "sknet, native": ("sknet", "always"),
    "sknet, `scale_inputs=False`": ("as given", "always"),
    "scikit-learn": ("scikit-learn", "never"),
    "scikit-learn, StandardScaler before": ("scaled", "never"),
    "PyTorch": ("torch", "never"),
}
PEAKS = Table(
    "",
    {"peak of a fit, MiB above the data": ".1f", "of the parameters": ".1f", "first small fit, s": ".2f"},
    drawn=("peak of a fit, MiB above the data",),
    unit="MiB above the data, peak of a fit",
)
CHILD = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
who, features, hidden, classes, batch, rows = sys.argv[1], *map(int, sys.argv[2:])
if who == "torch":
    import torch
elif who in ("sknet", "as given"):
    from sknet import MLPClassifier
else:
    from sklearn.neural_network import MLPClassifier

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

def fit(X, y, hidden, batch):
    if who == "torch":
        net = torch.nn.Sequential(
            torch.nn.Linear(features, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, classes)
        )
        optimizer = torch.optim.Adam(net.parameters(), fused=True)
        loss = torch.nn.CrossEntropyLoss()
        inputs, targets = torch.from_numpy(X), torch.from_numpy(y)
        for _ in range(2):
            for chosen in torch.randperm(len(X)).split(batch):
                optimizer.zero_grad()
                loss(net(inputs[chosen]), targets[chosen]).backward()
                optimizer.step()
    else:
        given = {"early_stopping": False} | ({"scale_inputs": False} if who == "as given" else {})
        net = MLPClassifier((hidden,), batch_size=batch, max_iter=2, random_state=0, **given)
        if who == "scaled":
            from sklearn.pipeline import make_pipeline
            from sklearn.preprocessing import StandardScaler
            net = make_pipeline(StandardScaler(), net)
        net.fit(X, y)

rng = np.random.default_rng(0)
X = rng.standard_normal((rows, features), dtype=np.float32)
y = rng.integers(0, classes, rows)
if rows > 1000:
    fit(X[:1000], y[:1000], 8, batch)
before = peak()
fit(X, y, hidden, batch)
print(json.dumps((peak() - before) / 1024))
"""


def run(who: str, native: str, what: str) -> tuple[float, float]:
    """Return the MiB that a fit adds to the peak, and the seconds of the whole process."""
    start = time.perf_counter()
    command = [sys.executable, "-c", CHILD, who, *map(str, SIZES[what])]
    environment = os.environ | {"SKNET_NATIVE": native}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout), time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    features, hidden, classes, batch, rows = SIZES["fit"]
    parameters = 4 * (features * hidden + hidden + hidden * classes + classes) / 2**20
    print(
        f"Fit: {features}-{hidden}-{classes}, batch {batch}, {rows} rows of float32 "
        f"({rows * features * 4 / 2**20:.0f} MiB), parameters {parameters:.1f} MiB.\n"
    )
    for name, (who, native) in CONTENDERS.items():
        try:
            peak = statistics.median([run(who, native, "fit")[0] for _ in range(args.rounds)])
            seconds = statistics.median([run(who, native, "first")[1] for _ in range(args.rounds)])
        except subprocess.CalledProcessError as error:
            print(f"{name} is not measured: {error.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            continue
        PEAKS.add(name, peak, peak / parameters, seconds)
    write(args.json, {"fits": PEAKS})


if __name__ == "__main__":
    main()
