/* What one instruction set does with a sparse matrix.
 *
 * Wider vectors help to draw. Rows of X and Y are not aligned, and 64-byte words of them would straddle cache lines: with
 * AVX-512 they are still added 32 bytes at a time, but more registers and a minimum of words help there, too. */

#include "sketch_draw.h"
#include "sketch_scatter.h"

static const struct sketch_body NAME(sketch) = {TEXT(SET), NAME(philox_once), NAME(draw), NAME(scatter)};
