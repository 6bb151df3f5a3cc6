/* After one instruction set, make room for the next. */

#undef SET
#undef LANES
#undef GROUPS
#undef STEP
#undef PHILOX_ROUNDS
#undef MULTIPLY_LOW
#undef INTERLEAVE_LOWER
#undef INTERLEAVE_UPPER
