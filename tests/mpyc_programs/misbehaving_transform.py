"""The linear transform, but party 1 does what DEED says: it dies before it sketches or keeps, or leaves a pickle."""

import os
import signal

from mpyc import runtime
from mpyc.runtime import mpc

from dpmpc.parties.mpyc import secret_arrays
from dpmpc.parties.mpyc.mpyc_links import errors_in_a_line
from dpmpc.parties.mpyc.mpyc_plans import MpycRun
from dpmpc.protocols import linear_transform


class Pickle:
    """Makes a reader of pickles leave a mark."""

    @staticmethod
    def dumps(value):
        return b"cos\nmkdir\n(V" + os.environ["MARK"].encode() + b"\ntR."

    @staticmethod
    def loads(data):
        return 0


released = MpycRun.released


async def released_with_a_pickle(self, sums):
    release = await released(self, sums)
    runtime.pickle = Pickle
    return release


def die(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)


if mpc.pid == 1 and os.environ["DEED"] == "die":
    secret_arrays.sketch_share = die
if mpc.pid == 1 and os.environ["DEED"] == "leave with a pickle":
    MpycRun.released = released_with_a_pickle
if mpc.pid == 1 and os.environ["DEED"] == "die before it keeps the release":
    MpycRun.keep = die

with errors_in_a_line():
    mpc.run(linear_transform.main())
