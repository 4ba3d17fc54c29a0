"""Importing sknet loads no optional package and starts no thread: workers start fast and fork safely."""

import subprocess
import sys

OPTIONAL = (
    "cupy",
    "cupyx",
    "matplotlib",
    "pandas",
    "pyarrow",
    "torch",
    "dask",
    "distributed",
    "onnx",
    "skl2onnx",
    "pytest",
)


def test_import_loads_nothing_optional():
    # scikit-learn and SciPy are loaded anyway; only what sknet adds is checked. The import of
    # warnings as errors shows, too, that nothing deprecated is touched.
    script = (
        "import sys, threading, sklearn.neural_network, scipy.sparse, scipy.optimize, joblib\n"
        "before = set(sys.modules)\n"
        "threads = threading.active_count()\n"
        "import sknet\n"
        "assert threading.active_count() == threads, threading.enumerate()\n"
        "import sknet.neural_network\n"
        "assert threading.active_count() == threads, threading.enumerate()\n"
        f"print(*sorted({{name.split('.')[0] for name in set(sys.modules) - before}} & {set(OPTIONAL)}))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
