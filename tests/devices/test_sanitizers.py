"""The compiler's sanitizers find errors of kernels, with barriers and without."""

import sys
from contextlib import contextmanager, suppress

import numpy as np
import pytest

from tests.devices import building, kernels, launching
from tests.devices.test_kernels import arrays, kernel

# What thread 3 does, and what is said of it.
WRONG = {
    "reads the element after an array": (
        "y[0] = x[10];",
        r"read of 4 bytes, 0 bytes after the end of an array of float32 and shape \(10,\), argument 0",
    ),
    "reads the element before an array": ("y[0] = x[-1];", "read of 4 bytes, 4 bytes before .*, argument 0"),
    "reads far from all arrays": (  # of which that is named that is the nearest
        "y[0] = x[1 << 20];", r"read of 4 bytes, \d+ bytes (after the end of|before) an array .*",
    ),
    "writes the element after an array": (
        "y[10] = 1;", "write of 4 bytes, 0 bytes after the end of .*, argument 1",
    ),
    "writes the element before an array": ("y[-1] = 1;", "write of 4 bytes, 4 bytes before .*, argument 1"),
    "reads more than is left": (
        "y[0] = *(const double *)(x + 10 - 2 * (threadIdx.x < 2));",
        "read of 8 bytes, 0 bytes after the end of .*, argument 0",
    ),
    "adds out of bounds": (
        "atomicAdd(y + 10, 1.0f);", "read of 4 bytes, 0 bytes after the end of .*, argument 1",
    ),
    "takes from an array in a function": (
        "y[0] = taken(x, 10);", "read of 4 bytes, 0 bytes after the end of .*, argument 0",
    ),
    "indexes after a shared array": (
        "__shared__ float part[3]; y[0] = part[threadIdx.x];", r"index 3 of 'float \[3\]'",
    ),
    "indexes before a shared array": (
        "__shared__ float part[3]; y[0] = part[2 - (int)threadIdx.x];", r"index -1 of 'float \[3\]'",
    ),
    "points after a shared array": (
        "__shared__ float part[9], more[9]; y[0] = taken(part, 9) + more[0];",
        r"read of 4 bytes, 0 bytes after the end of part(\.\d+)?",
    ),
    "indexes after a local array": (
        "float t[3] = {1, 2, 3}; y[0] = t[threadIdx.x];", r"index 3 of 'float \[3\]'",
    ),
    "has an index that overflows": (
        "int i = 2147483644; i += (int)threadIdx.x; i = i + 1; y[i % 2] = 1;",
        r"overflow of \+ \('int': 2147483647, 1\)",
    ),
    "has a product that overflows": (
        "const long long i = 1LL << 62; y[i * threadIdx.x % 2] = 1;",
        r"overflow of \* \('long long int': 4611686018427387904, 3\)",
    ),
    "changes the sign of the lowest number": (
        "int i = -2147483647; i -= 1; y[0] = -i;",
        r"overflow of a change of sign \('int': -2147483648\)",
    ),
    "shifts by too much": (
        "y[0] = 1 << (29 + threadIdx.x);", r"shift that is not defined \('int': 1, 32\)",
    ),
    "divides an integer by zero": (
        "y[0] = 1 / ((int)threadIdx.x - 3);", r"division that is not defined \('int': 1, 0\)",
    ),
    "reads between two numbers": (
        "y[0] = *(const float *)((const char *)x + 2);", "misaligned address of 'const float'",
    ),
    "converts too large a number": ("y[0] = (int)(x[9] * 1e30f);", "number out of the range of 'int'"),
    "reads a truth value that is not written": (
        "y[0] = *(bool *)y;", r"value that the type does not have \('_Bool': 255\)",
    ),
}  # fmt: skip
HELPER = "__device__ float taken(const float *from, int i) { return from[i]; }\n"


@contextmanager
def reported(match):
    """Expect an error, after which the test goes on."""
    with pytest.raises(launching.SanitizerError, match=match):
        yield
    with pytest.raises(launching.SanitizerError, match=match):
        launching.check_reports()


@pytest.mark.parametrize("start", ["", "__syncthreads();"], ids=["alone", "waiting"])
@pytest.mark.parametrize("error", WRONG)
def test_a_wrong_kernel(error, start):
    body, message = WRONG[error]
    text = f"{start}\nif (threadIdx.x == 3) {{ {body} }}"
    wrong = kernel(text, before=HELPER if "taken(" in body else "")
    with reported(rf"kernel map0, block [01], thread 3: {message}, in\n    .*"):
        wrong((2,), (32,), arrays())


@pytest.mark.parametrize("start", ["", "__syncthreads();"], ids=["alone", "waiting"])
def test_a_right_kernel(start):
    x, y = arrays()
    text = "__shared__ float part[32]; float t[3] = {0}; part[threadIdx.x] = t[threadIdx.x % 3];\n"
    right = kernel(f"{text}{start}\nif (threadIdx.x < 10) y[threadIdx.x] = x[threadIdx.x] + part[31];")
    right((1,), (32,), (x, y))
    np.testing.assert_array_equal(x, y)


def test_the_line_and_the_thread_are_named():
    x, y = arrays()
    wrong = kernel("y[0] = 1;\nif (blockIdx.x == 1 && threadIdx.x == 2)\n    y[1] = x[10];\ny[2] = 3;")
    with reported(r"kernel map0, block 1, thread 2: [\s\S]*, in\n    y\[1\] = x\[10\];$"):
        wrong((3,), (4,), (x, y))


def test_views_have_bounds_of_their_own():
    x, y = arrays()
    wrong = kernel("y[0] = x[-1];")
    with reported("read of 4 bytes, 4 bytes before"):
        wrong((1,), (1,), (x[5:], y))
    wrong((1,), (1,), (x[5::-1], y))
    assert y[0] == 4


def test_the_last_bytes_are_looked_at():
    x, y = arrays()
    wrong = kernel("y[0] = *(const double *)(x + 8);")
    wrong((1,), (1,), (x, y))
    with reported(r"read of 8 bytes, 4 bytes before the end of an array of float32 and shape \(9,\)"):
        wrong((1,), (1,), (x[:9], y))


def test_modules_that_are_not_instrumented_do_not_run(monkeypatch):
    monkeypatch.setattr(kernels, "FLAGS", [x for x in kernels.FLAGS if "sanitize" not in x])
    with pytest.raises(RuntimeError, match="the kernel map0 was compiled without -fsanitize=address"):
        kernel("y[3] = x[4];")((1,), (1,), arrays())


def test_other_compilers(monkeypatch):
    monkeypatch.setenv("CC", sys.executable)
    with pytest.raises(RuntimeError, match=r"GCC compiles them.* is not GCC: install gcc, or set CC"):
        building.compiler.__wrapped__()


def test_nothing_is_written_out_of_bounds():
    y = kernels.guarded((20,), np.float32)
    y[:] = 0
    with reported("write of 4 bytes"):
        kernel("y[10] = 1;")((1,), (1,), (y[:10], y[:10]))
    np.testing.assert_array_equal(y, 0)


def test_large_frames_do_not_compile():
    with pytest.raises(RuntimeError, match=r"In function .map0.[\s\S]*frame size of \d+ bytes is larger"):
        kernel("float part[4096]; part[threadIdx.x] = 0; y[0] = part[0];")


@pytest.mark.parametrize("start", ["", "__syncthreads();"], ids=["alone", "waiting"])
def test_stacks_that_overflow(start):
    body = "float t[500]; t[n % 5] = x[0]; return n ? deep(x, n - 1) : t[0];"
    text = f"{start}\ny[0] = deep(x, threadIdx.x == 5 ? 100 : 5);"
    with reported("kernel map0, block 0, thread 5: stack overflow, in\n    __device__ float deep"):
        kernel(text, before=f"__device__ float deep(const float *x, int n) {{ {body} }}\n")(
            (1,), (32,), arrays()
        )


def test_an_error_that_is_caught_fails_the_test_all_the_same():
    with suppress(launching.SanitizerError):
        kernel("y[11] = x[0];")((1,), (1,), arrays())
    with pytest.raises(launching.SanitizerError, match="write of 4 bytes, 4 bytes after the end"):
        launching.check_reports()
