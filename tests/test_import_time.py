"""Importing sknet loads almost nothing, and using it little more than scikit-learn: heavy modules are lazy.

Timings would be flaky, so loaded modules are checked; `examples/benchmarks/serving.py` measures time.
"""

import subprocess
import sys

import pytest

import sknet

# Modules that scikit-learn's own base classes and checks load anyway.
ANYWAY = "sklearn.base, sklearn.utils.validation, sklearn.utils.multiclass, sklearn.utils.metaestimators"
HEAVY = (
    "matplotlib",
    "pandas",
    "scipy.optimize",
    "scipy.signal",
    "scipy.stats",
    "sklearn.metrics",
    "sklearn.model_selection",
    "sklearn.preprocessing",
    "sknet.autograd",
    "sknet.compile.native._run",
    "sknet.graphs._python",
    "sknet.engine._device_runner",
    "sknet.engine._fit_rows",
    "sknet.engine._many",
    "sknet.engine._remote",
    "sknet.engine._stack",
    "sknet.engine._stream",
    "sknet.optim._muon",
    "sknet.persistence._document",
    "sknet.preprocessing",
    "statistics",
    "unittest",
)


def added(*modules: str) -> set[str]:
    """Return the modules that imports add in a fresh Python."""
    script = (
        f"import sys, {ANYWAY}\n"
        "before = set(sys.modules)\n"
        f"import {', '.join(modules)}\n"
        "print(*(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_import_alone_loads_nothing():
    script = "import sys; before = set(sys.modules); import sknet; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    packages = {name.split(".")[0] for name in done.stdout.split()} - set(sys.stdlib_module_names)
    assert packages == {"sknet"}


def test_names_are_available_on_use():
    assert set(sknet.__all__) <= set(dir(sknet))
    for name in sknet.__all__:
        assert getattr(sknet, name) is getattr(sknet, name)
    with pytest.raises(AttributeError, match="module 'sknet' has no attribute 'MLPClasifier'"):
        _ = sknet.MLPClasifier
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        from sknet import Nothing  # noqa: F401


@pytest.mark.slow
def test_heavy_parts_wait_until_they_are_needed():
    found = added("sknet.estimators", "sknet.neural_network")
    assert {"sknet.estimators", "sknet.neural_network"} <= found
    assert found.isdisjoint(HEAVY)
    others = {name.split(".")[0] for name in found} - {"sknet"}
    assert others <= {"sklearn", "scipy", "numpy", "rich", *sys.stdlib_module_names}, others
