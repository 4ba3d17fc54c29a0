"""Estimators work with a scikit-learn that has no callbacks, and say so."""

import subprocess
import sys

import pytest

CODE = """
import builtins, warnings
import numpy as np

original = builtins.__import__


def without_callbacks(name, globals=None, *args):
    if name == "sklearn.callback" and (globals or {}).get("__name__", "").startswith("sknet"):
        raise ImportError(name)
    return original(name, globals, *args)


builtins.__import__ = without_callbacks
from sknet import MLPClassifier
from sknet.callbacks import PrintLog

X = np.eye(4)
clf = MLPClassifier((3,), tol=0.5, random_state=0, callbacks=[PrintLog(100)]).fit(X, [0, 1, 0, 1])
print(clf.n_iter_ > 0)
clf.set_callbacks("any")
"""


@pytest.mark.slow
def test_a_scikit_learn_without_callbacks():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.stdout == "True\n"
    assert "TypeError: scikit-learn has callbacks from version 1.9 on" in done.stderr
