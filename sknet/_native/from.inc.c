/* Conversions of elements of type G to both precisions; one of a precision to itself is not made. */

#define CONVERTED JOINED(converted, G)
#ifndef IS_FLOAT
#define T float
#include "converted.inc.c"
#undef T
#endif
#ifndef IS_DOUBLE
#define T double
#include "converted.inc.c"
#undef T
#endif
#undef CONVERTED
#undef G
