/* Vectors of elements of type T; single elements where a compiler has none. */

#ifdef VECTOR_BYTES
typedef T N(vector) __attribute__((vector_size(VECTOR_BYTES)));
#else
typedef T N(vector);
#endif

enum { N(lanes) = sizeof(N(vector)) / sizeof(T) };

static inline N(vector) N(load)(const T *x) {
    N(vector) found;
    memcpy(&found, x, sizeof found);
    return found;
}

static inline void N(store)(T *out, N(vector) value) { memcpy(out, &value, sizeof value); }
