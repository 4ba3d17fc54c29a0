"""A fit needs memory for parameters, optimizer and one batch: not for a copy of the data."""

import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("resource", reason="limits on memory are set by POSIX systems only")

FIT = """
import os, resource, sys, warnings
import numpy as np
from sknet import MLPClassifier

warnings.simplefilter("ignore")
path, limit = sys.argv[1], int(sys.argv[2])
settings = dict(hidden_layer_sizes=(64,), batch_size=200, random_state=0)
small = np.random.default_rng(0).standard_normal((300, 100), dtype=np.float32)
MLPClassifier(max_iter=1, **settings).fit(small, np.arange(300) % 3).predict(small)  # what is loaded once

X = np.load(path, mmap_mode="r")
y = np.arange(len(X)) % 3
shuffle = os.fork() > 0  # each order has a process, in which the fit begins with the same memory
with open("/proc/self/status") as status:
    [used] = [int(line.split()[1]) * 1024 for line in status if line.startswith("VmData")]
resource.setrlimit(resource.RLIMIT_DATA, (used + limit, used + limit))
estimator = MLPClassifier(max_iter=2, shuffle=shuffle, **settings).fit(X, y)
assert estimator.n_iter_ == 2
assert estimator.predict_proba(X).shape == (len(X), 3)
if shuffle:
    assert os.wait()[1] == 0
"""

ROWS, COLUMNS, LIMIT = 250_000, 100, 40_000_000


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    path = tmp_path_factory.mktemp("mapped") / "X.npy"
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(ROWS, COLUMNS))
    X[:] = np.random.default_rng(0).standard_normal(COLUMNS, dtype=np.float32)
    X.flush()
    return path


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_mapped_file_larger_than_the_process_may_use(mapped):
    """In both orders: shuffled, and as it is."""
    assert mapped.stat().st_size > 2 * LIMIT
    subprocess.run([sys.executable, "-c", FIT, mapped, str(LIMIT)], check=True, timeout=120)


MANY_FITS = """
import gc, warnings
import numpy as np
from sknet import MLPClassifier

warnings.simplefilter("ignore")
X = np.random.default_rng(0).standard_normal((60, 4), dtype=np.float32)

def resident(first, count):
    for seed in range(first, first + count):
        MLPClassifier((8,), max_iter=2, random_state=seed).fit(X, np.arange(60) % 3).predict(X[:1])
    gc.collect()
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

before = resident(0, 200)
print(resident(200, 1000) - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("native", ["auto", "never"])
def test_memory_does_not_grow_with_the_number_of_fits(native):
    """What Python and the allocator keep is less than 3 kB a fit; one fit that is kept has 20 kB and more."""
    run = [sys.executable, "-c", MANY_FITS]
    environment = os.environ | {"SKNET_NATIVE": native, "OPENBLAS_NUM_THREADS": "1"}
    found = subprocess.run(run, check=True, timeout=300, env=environment, capture_output=True, text=True)
    assert int(found.stdout) < 3000
