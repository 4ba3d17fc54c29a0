/* The extension module: functions of addresses and integers, which do not hold the GIL, unless they say so. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "atomics.h"
#include "native.h"

static const struct kernels *kernels = &sknet_baseline;

/* Return the kernels of so many newer levels than the baseline; NULL if the processor or the compiler lacks them. */
static const struct kernels *level(int number) {
#ifdef SKNET_HAS_LEVELS
    __builtin_cpu_init();
    switch (number) {
    case 4: return __builtin_cpu_supports("x86-64-v4") ? &sknet_v4 : NULL;
    case 3: return __builtin_cpu_supports("x86-64-v3") ? &sknet_v3 : NULL;
    case 2: return __builtin_cpu_supports("x86-64-v2") ? &sknet_v2 : NULL;
    }
#endif
    return number ? NULL : &sknet_baseline;
}

static const int levels[] = {4, 3, 2, 0};
enum { N_LEVELS = sizeof levels / sizeof levels[0], MOST_ARGUMENTS = 7 };

/* Read integers; return 0, with an error set, if there are more or fewer, or others. */
static int read_integers(PyObject *const *given, Py_ssize_t n_given, Py_ssize_t n, int64_t *out) {
    if (n_given != n) {
        PyErr_Format(PyExc_TypeError, "expected %zd integers, got %zd arguments", n, n_given);
        return 0;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        out[i] = PyLong_AsLongLong(given[i]);
        if (out[i] == -1 && PyErr_Occurred())
            return 0;
    }
    return 1;
}

static PyObject *call_steps(PyObject *self, PyObject *const *given, Py_ssize_t n) {
    int64_t x[MOST_ARGUMENTS], found;
    (void)self;
    if (!read_integers(given, n, 2, x))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    found = kernels->steps(x[0], x[1]);
    Py_END_ALLOW_THREADS
    return PyLong_FromLongLong(found);
}

/* The beginning of a PyArrayObject (numpy/ndarraytypes.h), as macros of NumPy read it in other extensions. */
struct array {
    PyObject base;
    char *data;
    int n_axes;
    intptr_t *lengths, *strides;
    PyObject *owner, *dtype;
    int flags;
};

enum { IS_CONTIGUOUS = 1, IS_ALIGNED = 0x100 };

/* Carry out the instructions of a turn, of which the first copies an array, and standardizes it if it has units.
 *
 * The array is an ndarray; `code` says how its elements are copied, as `code` in _instructions.py. Short turns hold
 * the GIL: other threads would wait longer for each other than for a row. Returns 0 if the array has another shape
 * or layout, or if a number is not finite. */
static PyObject *call_unchecked(PyObject *self, PyObject *const *given, Py_ssize_t n) {
    int64_t x[3], found;
    (void)self;
    if (n != 4)
        return PyErr_Format(PyExc_TypeError, "expected an array and 3 integers, got %zd arguments", n);
    if (!read_integers(given + 1, 3, 3, x))
        return NULL;
    const struct array *table = (const struct array *)given[0];
    const struct turn *turn = at(x[0]);
    int64_t *copy = at(turn->program);
    const int needed = table->n_axes == 2 && table->lengths[0] == 1 ? IS_ALIGNED : IS_ALIGNED | IS_CONTIGUOUS;
    if (table->n_axes != 2 || table->lengths[0] != copy[9] || table->lengths[1] != copy[10] ||
        (table->flags & needed) != needed)
        return PyLong_FromLong(0);
    copy[0] = copy[14] ? STANDARDIZE : x[1] > 0 ? COPY : CONVERT;
    copy[1] = x[1] > 0 || copy[14] ? x[1] : -1 - x[1];
    copy[2] = (int64_t)(intptr_t)table->data;
    copy[3] = table->strides[0];
    copy[4] = table->strides[1];
    if (x[2])
        return PyLong_FromLongLong(kernels->steps(x[0], 1));
    Py_BEGIN_ALLOW_THREADS
    found = kernels->steps(x[0], 1);
    Py_END_ALLOW_THREADS
    return PyLong_FromLongLong(found);
}

static PyObject *call_rows(PyObject *self, PyObject *const *given, Py_ssize_t n) {
    int64_t x[MOST_ARGUMENTS], found;
    (void)self;
    if (!read_integers(given, n, 6, x))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    found = kernels->rows(x[0], x[1], x[2], x[3], x[4], x[5]);
    Py_END_ALLOW_THREADS
    return PyLong_FromLongLong(found);
}

static PyObject *call_pass(PyObject *self, PyObject *const *given, Py_ssize_t n) {
    int64_t x[MOST_ARGUMENTS], found;
    (void)self;
    if (!read_integers(given, n, 3, x))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    found = kernels->pass(x[0], x[1], x[2]);
    Py_END_ALLOW_THREADS
    return PyLong_FromLongLong(found);
}

/* -- threads that share work ---------------------------------------------------------------------------- */

struct crew sknet_crew;

void sknet_wait(void *lock, int64_t microseconds) { PyThread_acquire_lock_timed(lock, microseconds, 0); }

void sknet_wake(void *lock) { PyThread_release_lock(lock); }

/* Return a lock that is closed, or NULL with an error set. */
static void *closed_lock(void) {
    void *found = PyThread_allocate_lock();
    if (found == NULL)
        return PyErr_NoMemory();
    PyThread_acquire_lock(found, 1);
    return found;
}

/* Do shares of others' work for ever, as the thread of a number from 1 on. */
static PyObject *call_serve(PyObject *self, PyObject *const *given, Py_ssize_t n) {
    int64_t x[1];
    (void)self;
    if (!read_integers(given, n, 1, x) || (sknet_crew.calls[x[0] - 1] = closed_lock()) == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    kernels->serve(x[0]);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* Say how many threads may share work, with their leader, and how many others there are; 0 in a forked process. */
static PyObject *call_crew(PyObject *self, PyObject *const *given, Py_ssize_t n) {
    int64_t x[2];
    (void)self;
    if (!read_integers(given, n, 2, x))
        return NULL;
    if (x[0] == 0)
        memset(&sknet_crew, 0, sizeof sknet_crew);
    if (sknet_crew.nap == NULL && (sknet_crew.nap = closed_lock()) == NULL)
        return NULL;
    write_now(&sknet_crew.threads, x[0]);
    write_now(&sknet_crew.started, x[1]);
    Py_RETURN_NONE;
}

static PyObject *call_share(PyObject *self, PyObject *const *given, Py_ssize_t n) {
    int64_t x[MOST_ARGUMENTS];
    (void)self;
    if (!read_integers(given, n, 7, x))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    kernels->share_out(x[6], x[0], x[1], x + 2, 1 << 28, x[5]);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* The beginning of NumPy's bitgen_t (numpy/random/bitgen.h). */
struct bits {
    void *state;
    uint64_t (*next_64)(void *);
    uint32_t (*next_32)(void *);
};

/* Shuffle integers as RandomState.shuffle does: no branch depends on a draw. The generator's lock is held. */
static PyObject *call_shuffle(PyObject *self, PyObject *const *given, Py_ssize_t n) {
    const struct bits *bits = n == 2 ? PyCapsule_GetPointer(given[0], "BitGenerator") : NULL;
    (void)self;
    if (bits == NULL)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "expected a generator and an array");
    const struct array *rows = (const struct array *)given[1];
    int64_t *x = (int64_t *)rows->data, mask = 1;
    while (mask < rows->lengths[0] - 1)
        mask = 2 * mask + 1;
    for (int64_t i = rows->lengths[0] - 1; i > 0;) {
        mask >>= i <= mask >> 1;
        const uint64_t drawn = mask > UINT32_MAX ? bits->next_64(bits->state) : bits->next_32(bits->state);
        const int64_t j = (int64_t)(drawn & (uint64_t)mask), taken = j <= i, to = i + ((j - i) & -taken), last = x[i];
        x[i] = x[to];
        x[to] = last;
        i -= taken;
    }
    Py_RETURN_NONE;
}

static PyObject *isa(PyObject *self, PyObject *nothing) {
    (void)self, (void)nothing;
    return PyUnicode_FromString(kernels->name);
}

static PyObject *isas(PyObject *self, PyObject *nothing) {
    PyObject *found = PyList_New(0);
    (void)self, (void)nothing;
    for (int i = 0; found != NULL && i < N_LEVELS; i++) {
        const struct kernels *each = level(levels[i]);
        PyObject *name = each == NULL ? NULL : PyUnicode_FromString(each->name);
        if (each != NULL && (name == NULL || PyList_Append(found, name) < 0))
            Py_CLEAR(found);
        Py_XDECREF(name);
    }
    return found;
}

static PyObject *use(PyObject *self, PyObject *name) {
    (void)self;
    for (int i = 0; i < N_LEVELS; i++) {
        const struct kernels *each = level(levels[i]);
        PyObject *known = each == NULL ? NULL : PyUnicode_FromString(each->name);
        const int is_it = known == NULL ? 0 : PyObject_RichCompareBool(known, name, Py_EQ);
        Py_XDECREF(known);
        if (PyErr_Occurred())
            return NULL;
        if (is_it) {
            kernels = each;
            Py_RETURN_NONE;
        }
    }
    return PyErr_Format(PyExc_ValueError, "this processor or this build has no instructions named %R", name);
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef methods[] = {
    {"steps", FAST(call_steps), METH_FASTCALL, "Carry out the instructions of turns: address and number."},
    {"unchecked", FAST(call_unchecked), METH_FASTCALL, "Carry out the instructions of a turn for rows of an array."},
    {"rows", FAST(call_rows), METH_FASTCALL, "Encode rows of a table."},
    {"passes", FAST(call_pass), METH_FASTCALL, "Go over arrays: address of what describes them, size and work."},
    {"serve", FAST(call_serve), METH_FASTCALL, "Take shares of works for ever: number of the thread, from 1 on."},
    {"crew", FAST(call_crew), METH_FASTCALL, "Say how many threads share works, and how many others there are."},
    {"share", FAST(call_share), METH_FASTCALL, "Share a pass over arrays among threads."},
    {"shuffle", FAST(call_shuffle), METH_FASTCALL, "Shuffle an array: capsule of a generator, and the array."},
    {"isa", isa, METH_NOARGS, "Return the name of the set of instructions in use."},
    {"isas", isas, METH_NOARGS, "Return the names of those that can be used, the newest first."},
    {"use", use, METH_O, "Use a set of instructions from now on."},
    {NULL, NULL, 0, NULL},
};

static int choose(PyObject *module) {
    if (PyModule_AddIntConstant(module, "layout", LAYOUT) < 0)
        return -1;
    for (int i = 0; i < N_LEVELS; i++)
        if ((kernels = level(levels[i])) != NULL)
            return 0;
    return -1;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)choose}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "sknet._native._core", "Native code: addresses and integers in, nothing checked.", 0,
    methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
