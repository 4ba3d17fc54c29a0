"""A small function instead of generated training steps: it compiles in a fraction of the time."""

import sys
import threading

from sknet.compile.executors.native._cache import Function

SOURCE = '''"""{mark}"""
from numba import njit

steps = njit(lambda count: count + 1, no_cpython_wrapper=True, no_cfunc_wrapper=True)
'''
POISON = "raise SystemExit(open({mark!r}, 'w').write('run'))\n"
# What another process does with the same functions; it says whether the machine code came from the files.
OTHER = """
import json, sys
from sknet.compile.executors.native._cache import Function

def written(file):
    return file.stat().st_ino if file.exists() else None

for source in json.load(sys.stdin):
    function = Function(source, 1)
    before = written(function.file)
    print(function.wait()(41), int(written(function.file) == before))
"""


def source(mark):
    """Return the source of a different function for every mark."""
    return SOURCE.format(mark=mark)


def function(mark):
    """Return that function."""
    return Function(source(mark), 1)


def loaded(a_function, seconds=60):
    """Return the compiled function as a fit gets it, that is without waiting for it."""
    pause = threading.Event()
    for _ in range(int(seconds / 0.02)):
        found = a_function.get(1e6)
        if found is not None:
            return found
        pause.wait(0.02)
    raise AssertionError(f"no machine code after {seconds} seconds; Python {sys.version}")
