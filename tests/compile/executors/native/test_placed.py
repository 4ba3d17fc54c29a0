"""Object files that are made callable, by hand and by LLVM."""

import ctypes
import os
import struct
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from sknet.compile.executors.native import _placed, runner
from sknet.compile.executors.native._loaded import is_placed_by_hand
from sknet.compile.executors.native._machine_code import compiled
from sknet.compile.executors.native._placed import placed

pytest.importorskip("numba", reason="the native executor needs Numba: install sknet[fast]")
by_hand = pytest.mark.skipif(not is_placed_by_hand(), reason="LLVM places code on this machine")

# Constants, calls of functions that are not inlined, a table of jumps, and memory that is cleared.
SOURCE = """
import numpy as np
from numba import carray, njit, types
from numba.extending import intrinsic
from numpy import float64

plain = njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


@intrinsic
def pointer(typing, address):
    def generate(context, builder, signature, values):
        return builder.inttoptr(values[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


@njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=False)
def apart(x, kind):
    if kind == 0:
        return x * 0.1
    if kind == 1:
        return x + 1e300
    if kind == 2:
        return x / 3.0
    return -x


@plain
def steps(place, count):
    x = carray(pointer(place), count, float64)
    for i in range(count):
        x[i] = apart(x[i], i % 5)
    return count + 7
"""
CODE = compiled(SOURCE, 2)
LOADERS = {"llvm": lambda name, content: _placed._by_llvm(content, name.decode())}
if is_placed_by_hand():
    LOADERS["by hand"] = lambda name, content: _placed._by_hand(content, name)


def expected(x):
    rules = (lambda v: v * 0.1, lambda v: v + 1e300, lambda v: v / 3.0, lambda v: -v, lambda v: -v)
    return np.array([rules[i % 5](v) for i, v in enumerate(x)])


def check(steps):
    x = np.random.default_rng(0).normal(size=103)
    wanted = expected(x)
    assert steps(x.ctypes.data, len(x)) == len(x) + 7
    np.testing.assert_array_equal(x, wanted)


@pytest.mark.parametrize("loader", ["llvm", pytest.param("by hand", marks=by_hand)])
def test_a_function_computes_the_same_however_it_is_placed(loader, monkeypatch):
    monkeypatch.setattr(_placed, "is_placed_by_hand", lambda: loader == "by hand")
    steps = placed(CODE, 2)
    check(steps)
    threads = [threading.Thread(target=check, args=(steps,)) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked")
def test_a_forked_process_has_the_function():
    steps = placed(CODE, 2)
    process = os.fork()
    if not process:
        try:
            check(steps)
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(process, 0)[1] == 0


def damaged(position, form, value):
    content = bytearray(CODE.partition(b"\0")[2])
    struct.pack_into(form, content, position, value)
    return CODE.partition(b"\0")[0] + b"\0" + bytes(content)


def _first_relocation():
    content = CODE.partition(b"\0")[2]
    header = struct.unpack_from(_placed.HEADER, content)
    for i in range(header[12]):
        section = _placed._Section(*struct.unpack_from(_placed.SECTION, content, header[6] + i * header[11]))
        if section.kind == _placed.ADDENDS:
            return section.offset
    raise AssertionError("nothing is relocated")


REFUSED = {
    "no object file": (lambda: b"steps\0" + b"MZ" + bytes(200), "not an object file"),
    "for another processor": (lambda: damaged(18, "<H", 183), "not an object file for this processor"),
    "a shared library": (lambda: damaged(16, "<H", 3), "not an object file"),
    "a reference of another kind": (lambda: damaged(_first_relocation() + 8, "<I", 10), "unknown reference"),
    "another function": (lambda: b"other" + CODE[CODE.index(b"\0") :], "no function 'other'"),
}


@by_hand
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_unknown_is_refused(case):
    code, message = REFUSED[case]
    with pytest.raises(RuntimeError, match=message):
        placed(code(), 2)


@by_hand
def test_a_system_that_allows_no_new_code_is_an_error(monkeypatch):
    class Library:
        def __getattr__(self, name):
            return (lambda *args: -1) if name == "mprotect" else getattr(ctypes.pythonapi, name)

    monkeypatch.setattr(_placed.ctypes, "CDLL", lambda *args, **kwargs: Library())
    with pytest.raises(OSError, match="does not allow new code"):
        placed(CODE, 2)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not list memory")
@by_hand
def test_no_memory_can_be_written_and_executed():
    def ranges():
        return {line for line in Path("/proc/self/maps").read_text().splitlines() if " rwx" in line}

    before = ranges()
    check(placed(CODE, 2))
    assert ranges() == before


def test_code_that_needs_the_interpreter_is_not_kept():
    source = "from numba import njit\n\nsteps = njit(lambda count: len(str(count)))\n"
    with pytest.raises(RuntimeError, match="compiled code refers to"):
        compiled(source, 1)


LATER = """
import sys
import numpy as np
from sknet import MLPClassifier
from sknet.compile.executors.native import runner
X = np.random.default_rng(0).normal(size=(2000, 10)).astype("f4")
y = (X[:, 0] > 0).astype(int)
MLPClassifier(max_iter=5, tol=0.0, batch_size=50, random_state=0).fit(X, y)
print(runner().steps is not None, [name for name in ("numba", "llvmlite") if name in sys.modules])
"""


@by_hand
def test_a_fit_in_native_code_imports_no_compiler():
    runner().wait()  # so that its machine code is on disk
    environment = os.environ | {"SKNET_NATIVE": "always", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", LATER], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout == "True []\n"
