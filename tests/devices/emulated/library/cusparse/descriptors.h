// Descriptors of matrices and vectors, as cuSPARSE's generic functions take them.
#pragma once
#include "../emulator.h"

namespace emulator {

struct SparseHandle {
    void *stream = nullptr;
};

enum SparseStatus : int { sparse_success = 0, sparse_execution_failed = 6, sparse_not_supported = 10 };

const int FLOAT32 = 0, FLOAT64 = 1;          // cudaDataType
const int INDEX_INT32 = 2, INDEX_INT64 = 3;  // cusparseIndexType_t
const int COLUMN_ORDER = 1, ROW_ORDER = 2;   // cusparseOrder_t

struct SparseMatrix {
    int64_t rows, columns, count;
    const void *offsets, *indices, *values;
    int offset_type, index_type, base, type;
};

struct DenseMatrix {
    int64_t rows, columns, stride;
    void *values;
    int type, order;
};

struct DenseVector {
    int64_t size;
    void *values;
    int type;
};

inline int call(SparseHandle *handle, Work work) {
    return issue_library_call(handle->stream, std::move(work)) ? sparse_execution_failed : sparse_success;
}

}  // namespace emulator
