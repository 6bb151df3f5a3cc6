"""Between the linear sketches of dpmpc and the secure computation of MPyC, in both directions.

`native`    a public matrix is applied to secure arrays of MPyC, by our kernel
`added_noise`  a program adds calibrated noise of all parties, with a guarantee
`secret_arrays`  additive and Shamir shares of machine words as MPyC secure types, for any program of MPyC
`agreeing`  what parties on MPyC's runtime compare and toss before they use a row
`costs`     what a program costs each party, by phase
`word_arrays`  MPyC's field arrays with machine words instead of Python integers
`programs`  what surrounds Algorithm 1 in a program: options, the task that all agree on, rows, the release
`mpyc_links`  what the links of MPyC's own runtime lack, stated, refused or made an error
`share_folders`  what clients who are no parties have sent to the servers, to be opened once
`closed_tasks`  tasks of sketches that stay closed, on which MPyC goes on computing
`checked`   products of such a sketch that are checked before anybody opens them
"""

from dpmpc.parties.mpyc.added_noise import noise
from dpmpc.parties.mpyc.closed_tasks import require_room
from dpmpc.parties.mpyc.native import sketch

__all__ = ["noise", "require_room", "sketch"]
