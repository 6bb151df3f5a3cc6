/* What one instruction set does with a dense matrix.
 *
 * Wider vectors than DENSE_LANES help to draw; for sums they would only pad common widths further. */

#include "dense_draw.h"

#if LANES <= DENSE_LANES
#include "dense_sum.h"
static const struct dense_body NAME(dense) = {TEXT(SET), LANES, NAME(draw), NAME(sum), NAME(scatter)};
#else
static const struct dense_body NAME(dense) = {TEXT(SET), DENSE_LANES, NAME(draw), sum_avx2, scatter_avx2};
#endif
