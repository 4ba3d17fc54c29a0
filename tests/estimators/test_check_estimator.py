"""scikit-learn's own checks of every estimator; none is expected to fail."""

import os
import re
import subprocess
import sys

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import sknet
from sknet import neural_network
from tests.estimators.data import CLASSIFIERS, REGRESSORS
from tests.project import ROOT

KINDS = (*CLASSIFIERS, *REGRESSORS, sknet.Autoencoder)
ESTIMATORS = [kind() for kind in KINDS]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS)
def test_check(estimator, check):
    check(estimator)


# Devices and packages of which scikit-learn's checks of array namespaces say that they are not there.
MISSING = "^check_array_api.* skipped .*(is not installed|is not available|is available|FALLBACK is not set)"
SCRIPT = """
import warnings
from importlib import import_module
from sklearn.exceptions import ConvergenceWarning, SkipTestWarning
from sklearn.utils.estimator_checks import check_estimator
warnings.simplefilter("ignore", ConvergenceWarning)
for found in check_estimator(import_module("{module}").{name}(), on_skip=None):
    reason = () if found["status"] == "passed" else ("because", found["exception"])
    print(found["check_name"], found["status"], *reason)
"""


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_checks_with_array_api_dispatch(kind):
    """SciPy reads the variable when it is imported: it takes another Python."""
    script = SCRIPT.format(module=kind.__module__, name=kind.__name__)
    environment = os.environ | {"SCIPY_ARRAY_API": "1", "PYTHONPATH": str(ROOT)}
    found = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    assert "check_array_api_input passed" in found.stdout
    others = [line for line in found.stdout.splitlines() if not line.endswith(" passed")]
    missing = [line for line in others if re.search(MISSING, line)]
    # As of scikit-learn's own networks.
    without = ["check_classifiers_multilabel_output_format_decision_function skipped"]
    rest = [line.partition(" because")[0] for line in others if line not in missing]
    assert rest == (without if kind is neural_network.MLPClassifier else [])
