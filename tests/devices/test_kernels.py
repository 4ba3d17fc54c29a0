"""Running kernels without a GPU detects errors that would occur on one."""

import numpy as np
import pytest

from tests.devices import kernels, launching

HEAD = 'extern "C" __global__ void map0(const float *x, float *y)'
LOOP = "for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < 10; i += gridDim.x * blockDim.x)"


def kernel(body, before=""):
    [found] = kernels.compiled(f"{before}{HEAD}\n{{\n{body}\n}}\n", ["map0"])
    return found


def arrays():
    x, y = kernels.guarded((10,), np.float32), kernels.guarded((10,), np.float32)
    x[:] = np.arange(10)
    return x, y


@pytest.mark.parametrize(("grid", "block"), [(1, 1), (1, 256), (3, 2), (7, 4)])
def test_every_element_is_computed_whatever_the_number_of_threads(grid, block):
    x, y = arrays()
    for _ in range(2):
        kernel(LOOP + " y[i] = 2.0f * x[i];")((grid,), (block,), (x, y))
        np.testing.assert_array_equal(y, 2 * x)


def test_race_conditions_give_two_results():
    results = []
    for _ in range(2):
        _, y = arrays()
        y[:] = 0
        kernel(LOOP + " y[i] = y[(i + 1) % 10] + 1.0f;")((1,), (4,), (y, y))
        results.append(y)
    assert (results[0] != results[1]).any()


# -- threads of a block that wait for each other ----------------------------------------------

SUM = """
    __shared__ float part[64];
    float a = x[threadIdx.x % 10];
    for (int d = 16; d; d /= 2)
        a = a + __shfl_xor_sync(0xffffffffu, a, d);
    part[threadIdx.x] = a;
    {barrier}
    if (threadIdx.x == 0)
        y[blockIdx.x] = part[0] + part[32];
"""


def test_threads_of_a_block_exchange_values_and_wait():
    x, y = arrays()
    for _ in range(2):
        y[:] = 0
        kernel(SUM.format(barrier="__syncthreads();"))((3,), (64,), (x, y))
        np.testing.assert_array_equal(y, [np.arange(64) % 10 @ np.ones(64)] * 3 + [0] * 7)


def test_a_barrier_that_is_missing_gives_two_results():
    results = []
    for _ in range(2):
        x, y = arrays()
        kernel(SUM.format(barrier=""))((1,), (64,), (x, y))
        results.append(y[0])
    assert np.isnan(results).tolist() in ([True, False], [False, True])


@pytest.mark.parametrize("body", [
    "if (threadIdx.x) __syncthreads();",  # those that have ended are not waited for
    "if (threadIdx.x < 32) { __syncthreads(); } y[0] = __shfl_xor_sync(0xffffffffu, x[0], 1);",
])  # fmt: skip
def test_some_threads_wait(body):
    kernel(body)((1,), (64,), arrays())


@pytest.mark.parametrize(("body", "threads"), [
    ("if (threadIdx.x) y[0] = __shfl_xor_sync(0xffffffffu, x[0], 1);", 32),
    ("if (threadIdx.x % 2) __syncthreads(); else y[0] = __shfl_xor_sync(0xffffffffu, x[0], 1);", 32),
    ("y[0] = __shfl_xor_sync(0xffffffffu, x[0], 1);", 40),
])  # fmt: skip
def test_threads_that_wait_for_ever_are_detected(body, threads):
    with pytest.raises(RuntimeError, match="threads of a block wait for others that never come"):
        kernel(body)((1,), (threads,), arrays())


# -- clusters of blocks -----------------------------------------------------------------------

OF_CLUSTER = """
    __shared__ float part[32];
    part[threadIdx.x] = x[(blockIdx.x * 32 + threadIdx.x) % 10];
    {barrier}
    float sum = 0;
    for (unsigned int block = 0; block < 4; block++)
        sum += ((const float *)__cluster_map_shared_rank(part, block))[threadIdx.x + {beyond}];
    {barrier}
    part[threadIdx.x] = -1;
    if (threadIdx.x == 0)
        y[blockIdx.x] = sum + 100 * __clusterRelativeBlockRank();
"""
BARRIER = "__cluster_barrier_arrive(); __cluster_barrier_wait();"


def of_cluster(barrier=BARRIER, beyond=0):
    head = HEAD.replace("void ", "void __cluster_dims__(4, 1, 1) ")
    body = OF_CLUSTER.format(barrier=barrier, beyond=beyond)
    [found] = kernels.compiled(f"{head}\n{{\n{body}\n}}\n", ["map0"])
    return found


def test_blocks_of_a_cluster_read_what_others_share():
    x, y = arrays()
    sums = [sum((32 * (4 * n + block)) % 10 for block in range(4)) for n in range(2)]
    for _ in range(2):
        y[:] = 0
        of_cluster()((8,), (32,), (x, y))
        np.testing.assert_array_equal(y, [sums[n // 4] + 100 * (n % 4) for n in range(8)] + [0, 0])


def test_blocks_that_do_not_wait_for_each_other_give_two_results():
    results = []
    for _ in range(2):
        x, y = arrays()
        of_cluster("__syncthreads();")((4,), (32,), (x, y))
        results.append(y.tobytes())
    assert results[0] != results[1]


def test_addresses_of_other_blocks_are_checked():
    message = "thread 31: read of 4 bytes"
    with pytest.raises(launching.SanitizerError, match=message):
        of_cluster(beyond=1)((4,), (32,), arrays())
    with pytest.raises(launching.SanitizerError, match=message):
        launching.check_reports()


def test_a_cluster_is_whole():
    with pytest.raises(RuntimeError, match="wait for others that never come"):
        of_cluster()((6,), (32,), arrays())
    with pytest.raises(RuntimeError, match="wait for others that never come"):
        of_cluster(f"if (blockIdx.x) {{ {BARRIER} }}")((4,), (32,), arrays())


# -- compilation ------------------------------------------------------------------------------


def test_compile_errors():
    with pytest.raises(RuntimeError, match=r"a generated module does not compile:[\s\S]*.z. undeclared"):
        kernel("y[0] = z;")


def test_arrays_are_aligned():
    assert all(kernels.guarded((n,), np.float64).ctypes.data % 256 == 0 for n in (1, 7, 100))
