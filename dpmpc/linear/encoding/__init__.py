"""From real numbers to integers and back, and the proof that sums of these integers fit the ring or field.

`FixedPoint` rounds and clips; `Ring64` and `Mersenne61` (`dpmpc.linear.encoding.ring`) are the two rings of the
integers; `plan_modulus` proves that a sum of encoded rows and their noise cannot wrap around.

Promised: an encoded row never leaves the box or ball that its `Sensitivity` was computed for, whatever the input; an
input that is not finite is refused. Not promised: that clipping takes the same time whatever the data.
"""

from dpmpc.linear.encoding.fixed_point import Sensitivity

__all__ = ["Sensitivity"]
