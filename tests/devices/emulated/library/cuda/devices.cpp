// Devices and contexts: facts of two GPUs of compute capability 9.0 with little memory.
#include "late.h"

#include <cstdio>
#include <cstring>

namespace emulator {

static const int DEVICES = 2;  // so that what belongs to the wrong one shows
static thread_local int device = 0;
static int a_context;  // its address is the handle of the only context

int current_device() { return device; }

API int cudaGetDeviceCount(int *count) {
    *count = DEVICES;
    return success;
}

API int cudaGetDevice(int *found) {
    *found = device;
    return success;
}

API int cudaSetDevice(int number) {
    if (number < 0 || number >= DEVICES) return invalid_device;
    device = number;
    return success;
}

struct Attribute {
    int number, value;
};

// cudaDeviceAttr and CUdevice_attribute have the same numbers; what is left out is 0.
static const Attribute ATTRIBUTES[] = {
    {1, 1024},                      // threads of a block
    {2, 1024},                      // block, x
    {3, 1024},                      // block, y
    {4, 64},                        // block, z
    {5, 2147483647},                // grid, x
    {6, 65535},                     // grid, y
    {7, 65535},                     // grid, z
    {8, 49152},                     // shared memory of a block
    {9, 65536},                     // constant memory
    {10, 32},                       // threads of a warp
    {12, 65536},                    // registers of a block
    {13, 1980000},                  // clock rate, kHz
    {16, 132},                      // multiprocessors
    {31, 1},                        // concurrent kernels
    {38, 52428800},                 // bytes of L2 cache
    {39, 2048},                     // threads of a multiprocessor
    {40, 3},                        // copy engines
    {41, 1},                        // unified addressing
    {75, 9},                        // compute capability
    {76, 0},         {81, 233472},  // shared memory of a multiprocessor
    {82, 65536},                    // registers of a multiprocessor
    {97, 232448},                   // shared memory of a block that asks for it
};

API int cudaDeviceGetAttribute(int *value, int number, int) {
    *value = 0;
    for (const Attribute &each : ATTRIBUTES)
        if (each.number == number) *value = each.value;
    return success;
}

API int cudaMemGetInfo(size_t *unused, size_t *total);

// The first members of cudaDeviceProp of CUDA 12, which is 1032 bytes long.
struct Properties {
    char name[256], uuid[16], luid[8];
    unsigned luid_mask;
    size_t memory, shared_memory;
    int registers, warp;
    size_t pitch;
    int threads, block[3], grid[3], clock_rate;
    size_t constant_memory;
    int major, minor;
    size_t texture_alignment, texture_pitch_alignment;
    int overlap, multiprocessors;
};
static const size_t PROPERTIES = 1032;
static_assert(offsetof(Properties, memory) == 288 && offsetof(Properties, major) == 360, "as in CUDA 12");

API int cudaGetDeviceProperties_v2(Properties *found, int number) {
    memset((void *)found, 0, PROPERTIES);
    size_t unused, total;
    cudaMemGetInfo(&unused, &total);
    snprintf(found->name, sizeof found->name, "emulated device");
    snprintf(found->uuid, sizeof found->uuid, "emulated-%d", number);
    found->memory = total;
    found->shared_memory = 49152;
    found->registers = 65536;
    found->warp = 32;
    found->threads = 1024;
    for (int axis = 0; axis < 3; axis++) {
        found->block[axis] = axis == 2 ? 64 : 1024;
        found->grid[axis] = axis ? 65535 : 2147483647;
    }
    found->major = 9;
    found->multiprocessors = 132;
    return success;
}

API int cudaGetDeviceProperties(Properties *found, int number) {
    return cudaGetDeviceProperties_v2(found, number);
}

API int cudaDriverGetVersion(int *version) {
    *version = 13000;
    return success;
}

API int cudaRuntimeGetVersion(int *version) {
    *version = 12090;
    return success;
}

API int cudaDeviceCanAccessPeer(int *can, int, int) {
    *can = 0;
    return success;
}

API int cudaDeviceGetPCIBusId(char *text, int size, int number) {
    snprintf(text, size, "0000:%02x:00.0", number);
    return success;
}

API int cudaDeviceSynchronize() {
    Guard guard;
    if (Status refused = check_device_wide_call()) return refused;
    counts.synchronizations++;
    run_everything();
    return success;
}

// -- the driver's own functions, as far as CuPy calls them ------------------------------------

API int cuInit(unsigned) { return success; }
API int cuDriverGetVersion(int *version) { return cudaDriverGetVersion(version); }
API int cuDeviceGetCount(int *count) { return cudaGetDeviceCount(count); }
API int cuDeviceGetAttribute(int *value, int number, int which) {
    return cudaDeviceGetAttribute(value, number, which);
}

API int cuDeviceGet(int *found, int number) {
    *found = number;
    return number < DEVICES ? success : invalid_device;
}

API int cuCtxGetDevice(int *found) { return cudaGetDevice(found); }
API int cuCtxSetCurrent(void *) { return success; }
API int cuDevicePrimaryCtxRelease_v2(int) { return success; }

API int cuCtxGetCurrent(void **context) {
    *context = &a_context;
    return success;
}

API int cuStreamGetCtx(void *, void **context) { return cuCtxGetCurrent(context); }

}  // namespace emulator
