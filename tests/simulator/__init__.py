"""A deterministic simulator of servers: the code of dpmpc in one process, with crashes, torn disks and bad networks.

``python -m simulator WORLD SEED`` (with this folder's parent on the path) replays one seed. Everything random follows
from it: the virtual clock and random bytes by a library that is preloaded (`shim.c`), delays and faults by one
``random.Random``. No set of objects is iterated, since addresses in memory, which no seed decides, order it.

`loop` has the event loop, `disk` what a server has written and what of it a power cut leaves, `net` the network,
`servers` the servers of a collection, and `release` the world in which they release what their spools hold.
"""
