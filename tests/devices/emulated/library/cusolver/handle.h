// A handle of cuSOLVER, which has a stream and nothing else.
#pragma once
#include "../lapack.h"

namespace emulator {

struct Solver {
    void *stream = nullptr;
};

enum SolverStatus : int { solver_success = 0, solver_execution_failed = 6, solver_not_supported = 9 };

inline int call(Solver *solver, Work work) {
    return issue_library_call(solver->stream, std::move(work)) ? solver_execution_failed : solver_success;
}

// LAPACK's work space is the host's: CuPy allocates what it is told here, and nobody uses it.
inline int workspace(int *size) {
    *size = 1;
    return solver_success;
}

}  // namespace emulator
