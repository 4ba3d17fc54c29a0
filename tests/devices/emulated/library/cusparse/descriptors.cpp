// Handles and descriptors of cuSPARSE.
#include "descriptors.h"

namespace emulator {

template <class T>
static int created(T **target, T value) {
    *target = new T(value);
    return sparse_success;
}

template <class T>
static int destroyed(T *object) {
    delete object;
    return sparse_success;
}

API int cusparseCreate(SparseHandle **handle) { return created(handle, SparseHandle()); }
API int cusparseDestroy(SparseHandle *handle) { return destroyed(handle); }

API int cusparseSetStream(SparseHandle *handle, void *stream) {
    handle->stream = stream;
    return sparse_success;
}

API int cusparseGetStream(SparseHandle *handle, void **stream) {
    *stream = handle->stream;
    return sparse_success;
}

API int cusparseGetVersion(SparseHandle *, int *version) {
    *version = 12509;
    return sparse_success;
}

API int cusparseSetPointerMode(SparseHandle *, int) { return sparse_success; }

API int cusparseCreateCsr(SparseMatrix **made, int64_t rows, int64_t columns, int64_t count, void *offsets,
                          void *indices, void *values, int offset_type, int index_type, int base, int type) {
    return created(made,
                   {rows, columns, count, offsets, indices, values, offset_type, index_type, base, type});
}

API int cusparseDestroySpMat(SparseMatrix *matrix) { return destroyed(matrix); }

API int cusparseCreateDnMat(DenseMatrix **made, int64_t rows, int64_t columns, int64_t stride, void *values,
                            int type, int order) {
    return created(made, {rows, columns, stride, values, type, order});
}

API int cusparseDestroyDnMat(DenseMatrix *matrix) { return destroyed(matrix); }

API int cusparseCreateDnVec(DenseVector **made, int64_t size, void *values, int type) {
    return created(made, {size, values, type});
}

API int cusparseDestroyDnVec(DenseVector *vector) { return destroyed(vector); }

// Of older functions: type, fill mode, diagonal type, index base.
struct MatrixKind {
    int type = 0, fill_mode = 0, diagonal = 0, base = 0;
};

API int cusparseCreateMatDescr(MatrixKind **made) { return created(made, MatrixKind()); }
API int cusparseDestroyMatDescr(MatrixKind *kind) { return destroyed(kind); }

API int cusparseSetMatType(MatrixKind *kind, int type) {
    kind->type = type;
    return sparse_success;
}

API int cusparseSetMatIndexBase(MatrixKind *kind, int base) {
    kind->base = base;
    return sparse_success;
}

}  // namespace emulator
