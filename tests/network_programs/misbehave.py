"""One party, the culprit, does something that the others have to notice; otherwise this is `sum_shares`."""

import asyncio
import os
import pickle
import signal
import struct
import time

import numpy as np

from dpmpc.base.errors import InputError
from dpmpc.parties.network.frames import ContentType, Frame, Kind
from dpmpc.parties.network.links import PeerLink

LENGTH = 1000
NEXT_FRAME = -3  # the label after HELLO and BARRIER


async def kill_itself(party):
    os.kill(os.getpid(), signal.SIGKILL)


async def fall_silent(party):
    time.sleep(60)


async def send_too_much(party):
    await party.runtime.send_frame(party.analyst, party.runtime.frame(Kind.SHARE, np.zeros(LENGTH + 1, np.uint64)))


async def send_a_pickle(party):
    super(PeerLink, party.runtime.links[party.analyst]).send(NEXT_FRAME, pickle.dumps(print))


async def announce_gigabytes(party):
    party.runtime.links[party.analyst].transport.write(struct.pack("<qI", NEXT_FRAME, 2**32 - 1))
    await asyncio.sleep(60)


async def send_twice_under_one_label(party):
    for _ in range(2):
        super(PeerLink, party.runtime.links[party.analyst]).send(77, b"unasked")
    await asyncio.sleep(60)


async def speak_for_another(party):
    frame = Frame(Kind.SHARE, 0, party.runtime.settings.task_digest, np.zeros(LENGTH, np.uint64))
    await party.runtime.send_frame(party.analyst, frame)


async def transfer_as_mpyc_does(party):
    await party.runtime.transfer("a Python object", senders=[1], receivers=[0])


async def leave_early(party):
    return None


async def fail_in_its_program(party):
    raise ZeroDivisionError("the program has a bug")


async def fail_in_mpyc(party):
    @party.runtime.coroutine
    async def compute() -> asyncio.Future:
        raise ZeroDivisionError("a coroutine of MPyC has a bug")

    await compute()


async def find_bad_input(party):
    raise InputError("rows: 3 given, 4 expected")


async def return_no_plain_data(party):
    await send_share(party)
    return {"share": np.zeros(3)}


async def send_share(party):
    share = np.full(LENGTH, party.pid, np.uint64)
    await party.runtime.send_frame(party.analyst, party.runtime.frame(Kind.SHARE, share))


async def main(party):
    party.report_progress(f"{os.getpid()} {party.folder}")
    await party.runtime.barrier()
    if party.pid == party.arguments["culprit"]:
        return await globals()[party.arguments["deed"]](party)
    if party.pid != party.analyst:
        return await send_share(party)
    for server in range(party.servers):
        await party.runtime.receive_frame(server, Kind.SHARE, ContentType.WORDS, (LENGTH,))
    return None
