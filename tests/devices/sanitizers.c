/* What the compiler's AddressSanitizer and UndefinedBehaviorSanitizer call in a kernel.

   As in the Linux kernel (KASAN, UBSAN), the runtime is the program's own: it knows exactly what the kernel
   may use, which is the arrays of this launch, the module's shared arrays and the thread's own stack. The
   first error ends the launch, before anything is read or written out of bounds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { STACK = 1 << 16 }; /* bytes of a thread that may wait */

struct extent { const char *start, *stop; };

/* The arguments of a launch. */
static const struct extent *arrays;
static unsigned count_of_arrays;
static const char *stack; /* where the running thread's begins: it grows downwards */
static char *copies;           /* the shared memory of each block of a cluster, while others run */
static struct extent original; /* that of the block that runs */
static unsigned number_of_copies;

/* Python reads it (launching.Report). */
struct report {
    char text[256];
    int argument;  /* next to which it happened; -1 for none */
    unsigned line; /* of the module's text; 0 where only the offset in its code is known */
    size_t offset;
    unsigned block, thread;
};
struct report report;
static ucontext_t after_launch;
static volatile int is_reported;

static __attribute__((noreturn)) void give_up(void)
{
    is_reported = 1;
    setcontext(&after_launch);
    __builtin_unreachable();
}

/* -- addresses -------------------------------------------------------------------------------------- */

/* A static variable of a module, shared arrays among them, as the compiler describes it. */
struct global { const char *start; size_t size, padded; const char *name, *module; size_t others[3]; };
struct globals { const struct global *first; size_t count; };
static struct globals *modules;   /* of every module that is loaded */
static size_t count_of_modules;
static struct globals own;        /* those of the module that runs */

void __asan_register_globals(const struct global *first, size_t count)
{
    modules = realloc(modules, (count_of_modules + 1) * sizeof *modules);
    if (!modules)
        abort();
    modules[count_of_modules++] = (struct globals){first, count};
}

void __asan_unregister_globals(const struct global *first, size_t count) { (void)first, (void)count; }
void __asan_init(void) {}
void __asan_version_mismatch_check_v8(void) {}
void __asan_handle_no_return(void) {}

/* Find the variables of the module that has one of them at an address; none if it is not instrumented. */
static struct globals globals_of(const void *at)
{
    for (size_t n = count_of_modules; n-- > 0;)
        for (size_t k = 0; k < modules[n].count; k++)
            if (modules[n].first[k].start == at)
                return modules[n];
    return (struct globals){NULL, 0};
}

static int may_use(const char *at, size_t size)
{
    const char here = 0;
    const ptrdiff_t length = original.stop - original.start;
    for (unsigned n = 0; n < count_of_arrays; n++)
        if (at >= arrays[n].start && at + size <= arrays[n].stop)
            return 1;
    if (at >= copies && at < copies + number_of_copies * length)
        at = original.start + (at - copies) % length;
    for (size_t n = 0; n < own.count; n++)
        if (at >= own.first[n].start && at + size <= own.first[n].start + own.first[n].size)
            return 1;
    return at > &here && at + size <= stack;
}

static ptrdiff_t distance(const char *at, const char *start, const char *stop)
{
    return at < start ? start - at : at - stop;
}

/* Say where an address is: how far from the argument or the variable that is nearest. */
static void locate(const char *at, const char *how, size_t size)
{
    const char *name = NULL, *start = NULL, *stop = NULL, *side;
    report.argument = -1;
    for (unsigned n = 0; n < count_of_arrays; n++)
        if (!stop || distance(at, arrays[n].start, arrays[n].stop) < distance(at, start, stop)) {
            start = arrays[n].start, stop = arrays[n].stop;
            report.argument = n;
        }
    for (size_t n = 0; n < own.count; n++) {
        const char *first = own.first[n].start, *last = first + own.first[n].size;
        if (!stop || distance(at, first, last) < distance(at, start, stop)) {
            start = first, stop = last, name = own.first[n].name;
            report.argument = -1;
        }
    }
    side = at < start ? "before" : at < stop ? "before the end of" : "after the end of";
    snprintf(report.text, sizeof report.text, "%s of %zu bytes, %td bytes %s %s", how, size,
             labs(distance(at, start, stop)), side, name ? name : "an array");
}

static void check(const char *at, size_t size, const char *how, const void *code)
{
    Dl_info module = {0};
    const char here = 0;
    if (stack - &here > STACK / 2) {
        strcpy(report.text, "stack overflow");
        report.argument = -1;
    } else if (may_use(at, size)) {
        return;
    } else {
        locate(at, how, size);
    }
    dladdr(code, &module);
    report.line = 0;
    report.offset = (const char *)code - (const char *)module.dli_fbase - 1;
    give_up();
}

#define ACCESS(size)                                                                                         \
    void __asan_load##size##_noabort(const char *at)                                                         \
    {                                                                                                        \
        check(at, size, "read", __builtin_return_address(0));                                                \
    }                                                                                                        \
    void __asan_store##size##_noabort(const char *at)                                                        \
    {                                                                                                        \
        check(at, size, "write", __builtin_return_address(0));                                               \
    }
ACCESS(1) ACCESS(2) ACCESS(4) ACCESS(8) ACCESS(16)

void __asan_loadN_noabort(const char *at, size_t size)
{
    check(at, size, "read", __builtin_return_address(0));
}

void __asan_storeN_noabort(const char *at, size_t size)
{
    check(at, size, "write", __builtin_return_address(0));
}

/* -- undefined behaviour ---------------------------------------------------------------------------- */

struct type { uint16_t kind, info; char name[]; };
struct place { const char *file; uint32_t line, column; const struct type *types[2]; };

/* Return an operand, which is given as it is, or by address where it has more than 64 bits. */
static long long number(const struct type *type, uintptr_t given)
{
    const unsigned unused = 64 - (1 << (type->info >> 1));
    if (type->kind || unused > 63)
        return 0;
    return type->info & 1 ? (long long)((uint64_t)given << unused) >> unused : (long long)given;
}

static __attribute__((noreturn)) void give_up_at(const struct place *place)
{
    report.argument = -1;
    report.line = place->line;
    give_up();
}

static void undefined(const struct place *place, const char *what, const struct type *second, uintptr_t x,
                      uintptr_t y)
{
    const struct type *first = place->types[0];
    const int n = snprintf(report.text, sizeof report.text, "%s (%s", what, first->name);
    if (second && n < (int)sizeof report.text)
        snprintf(report.text + n, sizeof report.text - n, ": %lld, %lld)", number(first, x), number(second, y));
    else if (n < (int)sizeof report.text)
        snprintf(report.text + n, sizeof report.text - n, ": %lld)", number(first, x));
    give_up_at(place);
}

#define HANDLER(name, what, second)                                                                          \
    void __ubsan_handle_##name##_abort(const struct place *place, uintptr_t x, uintptr_t y)                  \
    {                                                                                                        \
        undefined(place, what, second, x, y);                                                                \
    }
HANDLER(add_overflow, "overflow of +", place->types[0])
HANDLER(sub_overflow, "overflow of -", place->types[0])
HANDLER(mul_overflow, "overflow of *", place->types[0])
HANDLER(divrem_overflow, "division that is not defined", place->types[0])
HANDLER(shift_out_of_bounds, "shift that is not defined", place->types[1])
HANDLER(negate_overflow, "overflow of a change of sign", NULL)
HANDLER(load_invalid_value, "value that the type does not have", NULL)

static void undefined_of(const struct place *place, const char *what, const struct type *type)
{
    snprintf(report.text, sizeof report.text, "%s %s", what, type->name);
    give_up_at(place);
}

void __ubsan_handle_float_cast_overflow_abort(const struct place *place)
{
    undefined_of(place, "number out of the range of", place->types[1]);
}

void __ubsan_handle_type_mismatch_v1_abort(const struct place *place)
{
    undefined_of(place, "misaligned address of", place->types[0]);
}

void __ubsan_handle_out_of_bounds_abort(const struct place *place, uintptr_t index)
{
    char what[64];
    snprintf(what, sizeof what, "index %lld of", number(place->types[1], index));
    undefined_of(place, what, place->types[0]);
}
