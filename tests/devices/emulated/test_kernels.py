"""Kernels on the emulated device: threads, blocks, barriers, shuffles, and what it detects."""

import importlib

import numpy as np
import pytest

from tests.devices.emulated import counted, faults

cupy = importlib.import_module("cupy")


def kernel(body: str, parameters: str = "float *x"):
    return cupy.RawKernel(
        f'extern "C" __global__ void test_kernel({parameters})\n{{\n{body}\n}}\n', "test_kernel"
    )


def numbers(size: int, dtype="float32"):
    return np.random.default_rng(0).standard_normal(size).astype(dtype)


def test_each_thread_of_each_block_runs_once():
    x = cupy.zeros((2, 3, 4, 5), "float32")
    of_block = "blockIdx.x + gridDim.x * blockIdx.y"
    of_thread = "threadIdx.x + blockDim.x * threadIdx.y"
    kernel(f"x[({of_block}) * blockDim.x * blockDim.y + {of_thread}] += 1;")((3, 2), (5, 4), (x,))
    assert (x.get() == 1).all()


def test_arguments_have_their_types():
    x = cupy.zeros(4, "float64")
    body = "x[0] = a; x[1] = b; x[2] = c; x[3] = d;"
    made = kernel(body, "double *x, bool a, long long b, float c, double d")
    made((1,), (1,), (x, True, np.int64(1 << 40), np.float32(0.5), 0.1))
    assert x.tolist() == [1, 1 << 40, 0.5, 0.1]


@pytest.mark.parametrize("launches", [1, 2])  # in both orders of threads
def test_barriers_order_what_the_threads_of_a_block_share(launches):
    x = cupy.asarray(numbers(600))
    total = cupy.empty(3, "float32")
    made = kernel(
        """
        __shared__ float part[200];
        part[threadIdx.x] = x[blockIdx.x * 200 + threadIdx.x];
        for (int n = 200; n > 1; n = (n + 1) / 2) {
            __syncthreads();
            if (threadIdx.x < n / 2) part[threadIdx.x] += part[n - 1 - threadIdx.x];
        }
        if (threadIdx.x == 0) total[blockIdx.x] = part[0];
        """,
        "const float *x, float *total",
    )
    for _ in range(launches):
        made((3,), (200,), (x, total))
    np.testing.assert_allclose(total.get(), x.get().reshape(3, 200).sum(1), rtol=1e-5)


OF_CLUSTER = """
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ float own[32];
    float *part = (float *)memory;
    own[threadIdx.x] = part[threadIdx.x] = x[blockIdx.x * 32 + threadIdx.x];
    __cluster_barrier_arrive();
    {waits}
    float sum = 0;
    for (unsigned block = 0; block < 4; block++)
        sum += *(const float *)__cluster_map_shared_rank(part + threadIdx.x, block);
    __cluster_barrier_arrive();
    {waits}
    part[threadIdx.x] = -1;
    y[blockIdx.x * 32 + threadIdx.x] = sum + 100 * __clusterRelativeBlockRank() + own[threadIdx.x];
"""


def of_cluster(waits: str):
    text = f"{{\n{OF_CLUSTER.format(waits=waits)}\n}}\n"
    head = 'extern "C" __global__ void __launch_bounds__(32) __cluster_dims__(4, 1, 1) k'
    return cupy.RawModule(code=f"{head}(const float *x, float *y)\n{text}").get_function("k")


def test_blocks_of_a_cluster_share_memory():
    x = numbers(256)
    parts = x.reshape(2, 4, 32)
    expected = parts.sum(1, keepdims=True) + 100 * np.arange(4)[:, None] + parts
    y = cupy.empty(256, "float32")
    for _ in range(2):
        of_cluster("__cluster_barrier_wait();")((8,), (32,), (cupy.asarray(x), y), shared_mem=128)
        np.testing.assert_allclose(y.get().reshape(2, 4, 32), expected, rtol=1e-5)
    of_cluster("")((8,), (32,), (cupy.asarray(x), y), shared_mem=128)
    assert not np.allclose(y.get().reshape(2, 4, 32), expected)
    with pytest.raises(cupy.cuda.driver.CUDADriverError):
        of_cluster("")((6,), (32,), (cupy.asarray(x), y), shared_mem=128)


def test_a_missing_barrier_changes_numbers():
    x = cupy.asarray(numbers(64))
    body = "__shared__ float part[64]; part[threadIdx.x] = x[threadIdx.x]; {} y[i] = part[63 - i];"
    body = f"const int i = threadIdx.x; {body}"
    y = cupy.empty_like(x)
    for barrier, is_right in (("__syncthreads();", True), ("", False)):
        made = kernel(body.format(barrier), "const float *x, float *y")
        made((1,), (64,), (x, y))
        assert np.array_equal(y.get(), x.get()[::-1]) is is_right


def test_dynamic_shared_memory():
    x = cupy.arange(10, dtype="float32")
    made = kernel(
        "extern __shared__ float part[]; part[threadIdx.x] = x[threadIdx.x]; __syncthreads(); "
        "x[threadIdx.x] = part[9 - threadIdx.x];"
    )
    made((1,), (10,), (x,), shared_mem=40)
    assert x.tolist() == list(range(9, -1, -1))


def test_another_block_leaves_nothing_in_shared_memory():
    x = cupy.zeros(2, "float32")
    kernel("__shared__ float part; x[blockIdx.x] = part; part = 1;")((2,), (1,), (x,))
    assert np.isnan(x.get()).all()


LANES = np.arange(64)
# From the section on warp shuffles of the CUDA C++ Programming Guide.
SHUFFLES = {
    "__shfl_down_sync(0xFFFFFFFF, x, 4)": np.where(LANES % 32 + 4 < 32, LANES + 4, LANES),
    "__shfl_up_sync(0xFFFFFFFF, x, 4)": np.where(LANES % 32 >= 4, LANES - 4, LANES),
    "__shfl_xor_sync(0xFFFFFFFF, x, 5)": LANES ^ 5,
    "__shfl_sync(0xFFFFFFFF, x, 3)": LANES // 32 * 32 + 3,
    "__shfl_down_sync(0xFFFFFFFF, x, 4, 8)": np.where(LANES % 8 + 4 < 8, LANES + 4, LANES),
    "__shfl_sync(0xFFFFFFFF, x, 3, 8)": LANES // 8 * 8 + 3,
    "__shfl_xor_sync(0xFFFFFFFF, x, 8, 8)": np.where(LANES % 16 < 8, LANES, LANES ^ 8),
}


@pytest.mark.parametrize("call", SHUFFLES)
@pytest.mark.parametrize("dtype", ["float", "double", "int", "long long"])
def test_shuffles(call, dtype):
    found = cupy.empty(64, {"float": "f4", "double": "f8", "int": "i4", "long long": "i8"}[dtype])
    made = kernel(f"{dtype} x = threadIdx.x; found[threadIdx.x] = {call};", f"{dtype} *found")
    made((1,), (64,), (found,))
    np.testing.assert_array_equal(found.get(), SHUFFLES[call])


def test_warps_shuffle_while_others_wait_for_the_block():
    x = cupy.asarray(numbers(96))
    total = cupy.empty(1, "float32")
    made = kernel(
        """
        __shared__ float part;
        if (threadIdx.x >= 64) {
            float mine = x[threadIdx.x];
            for (int d = 16; d; d /= 2) mine += __shfl_xor_sync(0xFFFFFFFF, mine, d);
            if (threadIdx.x == 64) part = mine;
        }
        __syncthreads();
        if (threadIdx.x == 0) total[0] = part;
        """,
        "const float *x, float *total",
    )
    made((1,), (96,), (x, total))
    np.testing.assert_allclose(total.get(), x.get()[64:].sum(), rtol=1e-5)


def test_a_lane_outside_of_the_mask_has_no_value():
    found = cupy.zeros(32, "float32")
    made = kernel("if (threadIdx.x < 16) x[threadIdx.x] = __shfl_down_sync(0xFFFF, 1.0f, 8);")
    made((1,), (32,), (found,))
    expected = np.where(LANES[:32] < 8, 1.0, np.where(LANES[:32] < 16, np.nan, 0.0))
    np.testing.assert_array_equal(found.get(), expected)


def test_ballots():
    found = cupy.empty(32, "uint32")
    made = kernel("x[threadIdx.x] = __ballot_sync(0xFFFFFFFF, threadIdx.x % 3 == 0);", "unsigned *x")
    made((1,), (32,), (found,))
    assert set(found.tolist()) == {sum(1 << lane for lane in range(0, 32, 3))}


# -- what it detects --------------------------------------------------------------------------


def test_a_write_out_of_bounds_is_a_fault():
    x = cupy.zeros(10, "float32")
    kernel("x[10] = 1;")((1,), (1,), (x,))
    assert faults() == ["something was written out of the bounds of 40 bytes of device memory"]
    assert not faults()


def test_a_write_to_freed_memory_is_a_fault():
    x, y = cupy.zeros(10, "float32"), cupy.zeros(1, "int64")
    y[0] = x.data.ptr
    del x
    kernel("((float *)x[0])[3] = 1;", "long long *x")((1,), (1,), (y,))
    assert faults() == ["something was written to 40 bytes of freed device memory"]


def test_what_is_read_of_freed_memory_is_nan():
    x, y, found = cupy.ones(10, "float32"), cupy.zeros(1, "int64"), cupy.zeros(1, "float32")
    y[0] = x.data.ptr
    del x
    kernel("found[0] = ((float *)x[0])[3];", "long long *x, float *found")((1,), (1,), (y, found))
    assert np.isnan(found.get()).all()


def test_a_barrier_that_some_threads_never_reach_is_a_fault():
    x = cupy.zeros(64, "float32")
    kernel("if (threadIdx.x < 40) __syncthreads(); else __syncwarp(); x[threadIdx.x] = 1;")((1,), (64,), (x,))
    assert faults() == ["threads of test_kernel wait where others of their block never arrive"]


def test_a_shuffle_without_the_own_lane_is_a_fault():
    kernel("__shfl_xor_sync(0xFFFF, 1, 1);")((1,), (32,), (cupy.zeros(1),))
    assert set(faults()) == {"a shuffle has a mask without the lane that calls it"}


def test_what_was_never_written_is_nan():
    assert np.isnan(cupy.empty(3).get()).all()


@pytest.mark.parametrize(("grid", "block"), [((1,), (1025,)), ((1, 65536), (1,)), ((1,), (1, 1, 65))])
def test_sizes_that_no_gpu_launches(grid, block):
    with pytest.raises(cupy.cuda.driver.CUDADriverError, match="invalid argument"):
        kernel("x[0] = 1;")(grid, block, (cupy.zeros(1, "float32"),))


def test_a_text_that_does_not_compile():
    with pytest.raises(cupy.cuda.compiler.CompileException, match=r"z. was not declared"):
        kernel("x[0] = z;").compile()


def test_launches_are_counted():
    x = cupy.zeros(1, "float32")
    made = kernel("x[0] += 1;")
    made.compile()
    with counted() as counts:
        for _ in range(3):
            made((1,), (1,), (x,))
    assert counts.named() == {"kernels": 3}
    assert x.tolist() == [3]
