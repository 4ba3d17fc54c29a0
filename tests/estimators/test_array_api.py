"""Arrays of another namespace, under scikit-learn's ``array_api_dispatch``: results are like X."""

import os
import subprocess
import sys

import pytest

from tests.project import ROOT


@pytest.mark.slow
def test_namespace_in_namespace_out():
    """scikit-learn requires SciPy's own dispatch, which must be enabled before SciPy is imported."""
    command = [sys.executable, str(ROOT / "tests/estimators/array_api.py")]
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.stdout == "done\n", done.stderr
