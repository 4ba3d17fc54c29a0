// Descriptors of cuBLASLt, with the numbers of attributes and values that its documentation gives.
#pragma once
#include "../emulator.h"

#include <cmath>
#include <cstring>

namespace emulator {

enum LtStatus : int {
    lt_success = 0,
    lt_invalid_value = 7,
    lt_execution_failed = 13,
    lt_internal_error = 14,
    lt_not_supported = 15
};

const int FLOAT32 = 0, FLOAT64 = 1, BFLOAT16 = 14;  // cudaDataType
const int COMPUTE_32F = 68, COMPUTE_64F = 70;  // cublasComputeType_t
const int COMPUTE_32F_FAST_16BF = 75, COMPUTE_32F_FAST_TF32 = 77;

// Bits of cublasLtEpilogue_t, those that sknet asks for; the default is 1.
enum Epilogue : int { relu = 2, bias = 4, bias_gradient_a = 256, bias_gradient_b = 512 };

// A number with the first 16 bits of a float.
struct Half {
    uint16_t bits;

    operator float() const {
        const uint32_t whole = uint32_t(bits) << 16;
        float found;
        memcpy(&found, &whole, sizeof found);
        return found;
    }
    Half() = default;
    Half(float x) {
        uint32_t whole;
        memcpy(&whole, &x, sizeof whole);
        if (std::isnan(x)) whole |= 0x400000;
        else whole += 0x7FFF + (whole >> 16 & 1);
        bits = whole >> 16;
    }
};

struct Operation {
    int compute, scale_type, pointer_mode = 0, is_a_transposed = 0, is_b_transposed = 0, epilogue = 1;
    void *bias = nullptr;
    int64_t bias_batch_stride = 0;

    bool has(int bits) const { return (epilogue & bits) == bits; }
};

struct Layout {
    int type, order = 0;
    uint64_t rows, columns;
    int64_t stride;
    int batch = 1;
    int64_t batch_stride = 0;
};

struct Preference {
    uint64_t workspace = 0;
    uint32_t alignments[4] = {256, 256, 256, 256};  // of a, b, c and d; what the library takes for granted
};

struct Algorithm {
    uint64_t data[8];
};

struct Heuristic {
    Algorithm algorithm;
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
};
static_assert(sizeof(Heuristic) == 96, "as in cublasLt.h");

}  // namespace emulator
