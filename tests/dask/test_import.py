"""Without Dask, the error names the extra."""

import subprocess
import sys

import pytest

CODE = """
import sys
class Blocked:
    def find_spec(self, name, *rest):
        if name == {missing!r}:
            raise ModuleNotFoundError("No module named " + name, name=name)
sys.meta_path.insert(0, Blocked())
import sknet
try:
    import sknet.dask
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize("missing", ["dask", "distributed"])
def test_the_extra_is_named(missing):
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(missing=missing)], capture_output=True, text=True
    )
    install = 'pip install "scikit-neural[dask]"'
    assert done.stdout == f"sknet.dask needs {missing}, which is not installed: {install}\n", done.stderr
