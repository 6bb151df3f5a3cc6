"""Between the linear sketches of dpmpc and the secure computation of MPyC, in both directions.

`native`    a program of MPyC's own, started by MPyC's launcher, sketches its secure arrays by our kernel
`added_noise`  such a program adds calibrated noise of all parties, with a guarantee
`secret_arrays`  additive and Shamir shares of machine words as MPyC secure types, for any program of MPyC
`agreeing`  what parties on MPyC's runtime compare and toss before they use a row
`costs`     what a program costs each party, by phase
`word_arrays`  MPyC's field arrays with machine words in place of Python integers
`unopened`  a program of ours hands a server's share of a sketch over to MPyC, which goes on computing on it
`checked`   products of such a sketch that are checked before anybody opens them

The two ways differ in what protects the parties. A program of ours has the links of `dpmpc.network`. A native program
has MPyC's, and `dpmpc.mpyc.native` says what they lack.
"""

from dpmpc.mpyc.added_noise import AddedNoise, noise, task_for_parties
from dpmpc.mpyc.checked import checked_products
from dpmpc.mpyc.native import open_sketch, shared, sketch
from dpmpc.mpyc.unopened import (
    open_to_analyst,
    opened,
    require_room,
    require_shamir,
    secure_array,
    sketch_alone,
    with_room,
)

__all__ = [
    "AddedNoise",
    "checked_products",
    "noise",
    "open_sketch",
    "open_to_analyst",
    "opened",
    "require_room",
    "require_shamir",
    "secure_array",
    "shared",
    "sketch",
    "sketch_alone",
    "task_for_parties",
    "with_room",
]
