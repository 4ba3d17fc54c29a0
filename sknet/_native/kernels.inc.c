/* All kernels, for the set of instructions that the including file has chosen: KERNELS is what they are called, and
 * VECTOR_BYTES how long vectors are, if a compiler has any; with FUSES, products are summed with one rounding. */

#define T float
#include "vectors.inc.c"
#include "nine.inc.c"
#include "planes.inc.c"
#include "pools.inc.c"
#include "gates.inc.c"
#include "tiles.inc.c"
#include "codes.inc.c"
#include "products.inc.c"
#undef T

#define T double
#include "vectors.inc.c"
#include "nine.inc.c"
#include "planes.inc.c"
#include "pools.inc.c"
#include "gates.inc.c"
#include "tiles.inc.c"
#undef T

#include "moves.inc.c"
#include "erfc.inc.c"
#include "norms.inc.c"
#include "rows.inc.c"
#include "runner.inc.c"
#include "passes.inc.c"

const struct kernels KERNELS = {NAME, steps, rows, pass, serve, share_out};
