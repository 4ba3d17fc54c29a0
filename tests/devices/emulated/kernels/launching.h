// How a launch, which has only addresses of arguments, calls a kernel; library/modules.cpp reads the table.
#pragma once

template <size_t... I>
struct emulated_indices {};
template <size_t N, size_t... I>
struct emulated_range : emulated_range<N - 1, N - 1, I...> {};
template <size_t... I>
struct emulated_range<0, I...> {
    using type = emulated_indices<I...>;
};

template <class T>
struct emulated_plain {
    using type = T;
};
template <class T>
struct emulated_plain<const T> {
    using type = T;
};

struct emulated_entry {
    const char *name;
    void (*run)(void **arguments);
    int arguments;
    const int *sizes;
};

template <class... A>
struct emulated_signature {
    template <void (*kernel)(A...), size_t... I>
    static inline void call(void **arguments, emulated_indices<I...>) {
        kernel(*(typename emulated_plain<A>::type *)arguments[I]...);
    }
    template <void (*kernel)(A...)>
    static void run(void **arguments) {
        call<kernel>(arguments, typename emulated_range<sizeof...(A)>::type());
    }
    static constexpr int sizes[] = {int(sizeof(A))..., 0};
};

template <class... A>
static emulated_signature<A...> emulated_signature_of(void (*)(A...));

#define EMULATED_ENTRY(name, kernel)                                                \
    {name, decltype(emulated_signature_of(kernel))::template run<kernel>,           \
     int(sizeof(decltype(emulated_signature_of(kernel))::sizes) / sizeof(int)) - 1, \
     decltype(emulated_signature_of(kernel))::sizes}

// The ends of the section of shared memory, if the module has any.
extern "C" {
extern char __start_emulated_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_emulated_shared[] __attribute__((weak, visibility("hidden")));
}
#define EMULATED_EXPORTED extern "C" __attribute__((visibility("default")))
#define EMULATED_MODULE(has_barriers, cluster, ...)                                                          \
    EMULATED_EXPORTED const int emulated_has_barriers = has_barriers, emulated_cluster = cluster;            \
    EMULATED_EXPORTED const emulated_entry emulated_entries[] = {__VA_ARGS__{nullptr, nullptr, 0, nullptr}}; \
    EMULATED_EXPORTED char *const emulated_shared_memory[] = {__start_emulated_shared,                       \
                                                              __stop_emulated_shared};
