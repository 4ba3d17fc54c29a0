"""Loading a file takes at most twice its size in memory, for every kind of content."""

import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sknet
from sknet import nn

WIDTH = 5000  # of a layer of 12 MB
SPARE = 3 << 20  # of the process

# Prints for each pair of a small and a large file by how much loading the large one raises a process's peak.
# The process is a new copy each time of one that has loaded only small files, and so has imported everything.
SCRIPT = """
import ctypes, json, os, sys, sknet
def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
def measure(small, large):
    sknet.load(small)
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins anew
    before = peak()
    kept = sknet.load(large)
    print(peak() - before, flush=True)
pairs = json.loads(sys.stdin.read())
for small, large in pairs:
    sknet.load(small)
for pair in pairs:
    if not os.fork():
        measure(*pair)
        os._exit(0)
    if os.wait()[1]:
        sys.exit(f"{pair} cannot be measured")
"""


def fitted(width):
    X = np.random.default_rng(0).normal(size=(30, 600)).astype("float32")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = sknet.MLPClassifier((width,), max_iter=1, random_state=0).fit(X, np.arange(30) % 3)
        pipeline = make_pipeline(StandardScaler(), clf).fit(X, np.arange(30) % 3)
    return clf, pipeline, X


def contents(width):
    clf, pipeline, X = fitted(width)
    return {
        "estimator": (clf, "all"),
        "estimator for predictions": (clf, "predict"),
        "model": (clf.model_, "all"),
        "module": (clf.model_.module, "all"),
        "state": (clf.model_.module.state_dict(), "all"),
        "graph": (clf.model_.module.export(X), "all"),
        "frozen": (clf.freeze(), "all"),
        "frozen pipeline": (sknet.freeze(pipeline), "all"),
        "unfitted network": (sknet.NetClassifier(nn.Linear(600, width).initialize(0)), "all"),
    }


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="Linux resets the peak there")
def test_loading_takes_twice_the_size(tmp_path):
    small, large = contents(3), contents(WIDTH)
    pairs = []
    for i, (name, (x, include)) in enumerate(large.items()):
        pairs.append([str(tmp_path / f"{size}{i}.safetensors") for size in ("small", "large")])
        sknet.save(small[name][0], pairs[-1][0], include)
        sknet.save(x, pairs[-1][1], include)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=json.dumps(pairs), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for name, pair, raised in zip(large, pairs, map(int, done.stdout.split()), strict=True):
        size = os.path.getsize(pair[1])
        assert size > 11e6
        assert raised < 2 * size + SPARE, f"{name}: {raised / size:.2f} times the file"
