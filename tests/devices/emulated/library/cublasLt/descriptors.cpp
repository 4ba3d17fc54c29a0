// Creating descriptors, and setting their attributes, whose sizes must be right.
#include "descriptors.h"

#include <cstring>

namespace emulator {

template <class T>
static int created(T **target, T value) {
    *target = new T(value);
    return lt_success;
}

template <class T>
static int destroyed(T *object) {
    delete object;
    return lt_success;
}

template <class T>
static int set(T &member, const void *value, size_t size) {
    if (size != sizeof member) return lt_invalid_value;
    memcpy(&member, value, size);
    return lt_success;
}

static int a_handle;

API int cublasLtCreate(void **handle) {
    *handle = &a_handle;
    return lt_success;
}

API int cublasLtDestroy(void *) { return lt_success; }
API size_t cublasLtGetVersion() { return 120900; }

API int cublasLtMatmulDescCreate(Operation **made, int compute, int scale_type) {
    Operation value;
    value.compute = compute;
    value.scale_type = scale_type;
    return created(made, value);
}

API int cublasLtMatmulDescDestroy(Operation *operation) { return destroyed(operation); }

API int cublasLtMatmulDescSetAttribute(Operation *operation, int attribute, const void *value, size_t size) {
    switch (attribute) {
        case 0: return set(operation->compute, value, size);
        case 1: return set(operation->scale_type, value, size);
        case 2: return set(operation->pointer_mode, value, size);
        case 3: return set(operation->is_a_transposed, value, size);
        case 4: return set(operation->is_b_transposed, value, size);
        case 7: return set(operation->epilogue, value, size);
        case 8: return set(operation->bias, value, size);
        case 10: return set(operation->bias_batch_stride, value, size);
    }
    return lt_not_supported;
}

API int cublasLtMatrixLayoutCreate(Layout **made, int type, uint64_t rows, uint64_t columns, int64_t stride) {
    return created(made, {type, 0, rows, columns, stride});
}

API int cublasLtMatrixLayoutDestroy(Layout *layout) { return destroyed(layout); }

API int cublasLtMatrixLayoutSetAttribute(Layout *layout, int attribute, const void *value, size_t size) {
    switch (attribute) {
        case 0: return set(layout->type, value, size);
        case 1: return set(layout->order, value, size);
        case 2: return set(layout->rows, value, size);
        case 3: return set(layout->columns, value, size);
        case 4: return set(layout->stride, value, size);
        case 5: return set(layout->batch, value, size);
        case 6: return set(layout->batch_stride, value, size);
    }
    return lt_not_supported;
}

API int cublasLtMatmulPreferenceCreate(Preference **made) { return created(made, Preference()); }
API int cublasLtMatmulPreferenceDestroy(Preference *preference) { return destroyed(preference); }

API int cublasLtMatmulPreferenceSetAttribute(Preference *preference, int attribute, const void *value,
                                             size_t size) {
    if (attribute == 1) return set(preference->workspace, value, size);
    if (attribute >= 5 && attribute <= 8) return set(preference->alignments[attribute - 5], value, size);
    return lt_success;  // others narrow the search
}

}  // namespace emulator
