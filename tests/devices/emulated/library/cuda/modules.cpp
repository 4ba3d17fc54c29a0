// Modules: shared objects that compiler.py has made of CUDA text.
#include "../emulator.h"
#include "modules.h"

#include <cstring>
#include <dlfcn.h>

namespace emulator {

static const char PREFIX[] = "emulated:";  // then the path of a shared object

API int cuModuleLoadData(void **made, const void *image) {
    Guard guard;
    if (strncmp((const char *)image, PREFIX, sizeof PREFIX - 1)) return invalid_image;
    void *object = dlopen((const char *)image + sizeof PREFIX - 1, RTLD_NOW | RTLD_LOCAL);
    if (!object) {
        report_fault(dlerror());
        return invalid_image;
    }
    const int *has_barriers = (const int *)dlsym(object, "emulated_has_barriers");
    const int *cluster = (const int *)dlsym(object, "emulated_cluster");
    char **memory = (char **)dlsym(object, "emulated_shared_memory");
    *made = new Module{object,
                       (const Entry *)dlsym(object, "emulated_entries"),
                       *has_barriers != 0,
                       unsigned(*cluster),
                       current_device(),
                       memory[0],
                       memory[1]};
    return success;
}

API int cuModuleUnload(void *module) {
    delete (Module *)module;  // a graph may still hold its kernels: the code stays
    return success;
}

API int cuModuleGetFunction(void **found, void *module, const char *name) {
    const Module &from = *(Module *)module;
    for (const Entry *entry = from.entries; entry->name; entry++)
        if (!strcmp(entry->name, name)) {
            *found = new Function{*entry, from};
            return success;
        }
    return not_found;
}

API int cuModuleGetGlobal_v2(uint64_t *pointer, size_t *size, void *module, const char *name) {
    *pointer = (uint64_t)dlsym(((Module *)module)->object, name);
    if (size) *size = 0;
    return *pointer ? success : not_found;
}

API int cuFuncGetAttribute(int *value, int number, void *) {
    *value = number == 0 ? 1024 : 0;  // threads of a block; the others are sizes
    return success;
}

API int cuFuncSetAttribute(void *, int, int) { return success; }

API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *, int, size_t) {
    *blocks = 2;
    return success;
}

API int cuOccupancyMaxPotentialBlockSize(int *grid, int *block, void *, void *, size_t, int) {
    *grid = 264;
    *block = 256;
    return success;
}

}  // namespace emulator
