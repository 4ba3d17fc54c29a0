// Handles of cuSOLVER, and objects of parameters that are not looked at.
#include "handle.h"

namespace emulator {

API int cusolverDnCreate(Solver **solver) {
    *solver = new Solver;
    return solver_success;
}

API int cusolverDnDestroy(Solver *solver) {
    delete solver;
    return solver_success;
}

API int cusolverDnSetStream(Solver *solver, void *stream) {
    solver->stream = stream;
    return solver_success;
}

API int cusolverDnGetStream(Solver *solver, void **stream) {
    *stream = solver->stream;
    return solver_success;
}

API int cusolverGetProperty(int which, int *value) {
    const int version[] = {11, 7, 5};
    *value = version[which];
    return solver_success;
}

static int create(void **object) {
    *object = new char;
    return solver_success;
}

static int destroy(void *object) {
    delete (char *)object;
    return solver_success;
}

API int cusolverDnCreateParams(void **params) { return create(params); }
API int cusolverDnDestroyParams(void *params) { return destroy(params); }
API int cusolverDnCreateGesvdjInfo(void **info) { return create(info); }
API int cusolverDnDestroyGesvdjInfo(void *info) { return destroy(info); }
API int cusolverDnCreateSyevjInfo(void **info) { return create(info); }
API int cusolverDnDestroySyevjInfo(void *info) { return destroy(info); }

}  // namespace emulator
