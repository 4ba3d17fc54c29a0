"""scikit-learn's own checks of every estimator; none is expected to fail."""

import json
import os
import re
import subprocess
import sys

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import sknet
from tests.estimators.checks import run_check
from tests.estimators.data import CLASSIFIERS, REGRESSORS
from tests.project import ROOT

KINDS = (*CLASSIFIERS, *REGRESSORS, sknet.Autoencoder)
ESTIMATORS = [kind() for kind in KINDS]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS)
def test_check(estimator, check):
    run_check(estimator, check)


# Devices and packages of which scikit-learn's checks of array namespaces say that they are not there.
MISSING = "is not installed|is not available|is available|FALLBACK is not set"
# What takes long to import is imported once, and a child forked for each estimator.
SCRIPT = """
import json, sys, warnings
from contextlib import suppress
from functools import partial
from importlib import import_module
from unittest import SkipTest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import estimator_checks_generator
from tests.estimators.checks import run_check
from tests.fresh import all_of

def checked(kind):
    found = []
    for estimator, check in estimator_checks_generator(kind()):
        name = getattr(check, "func", check).__name__
        if "array_api" in name:
            try:
                found.append([name, run_check(estimator, check)])
            except SkipTest as why:
                found.append([name, str(why)])
    return found

warnings.simplefilter("ignore", ConvergenceWarning)
kinds = [getattr(import_module(module), name) for module, name in json.load(sys.stdin)]
for name in ("torch",):
    with suppress(ImportError):
        import_module(name)
sys.stdout, out = sys.stderr, sys.stdout
json.dump(all_of([partial(checked, kind) for kind in kinds], at_once=2), out)
"""


def test_checks_with_array_api_dispatch():
    """SciPy reads the variable when it is imported, so another process is needed."""
    environment = os.environ | {"SCIPY_ARRAY_API": "1", "PYTHONPATH": str(ROOT)}
    names = [(kind.__module__, kind.__name__) for kind in KINDS]
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps(names),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    for kind, results in zip(KINDS, json.loads(found.stdout), strict=True):
        assert not isinstance(results[0], str), f"{kind}: {results[0]}"  # a traceback
        assert ["check_array_api_input", None] in results
        assert [name for name, why in results if why is not None and not re.search(MISSING, why)] == [], kind
