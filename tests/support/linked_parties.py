"""Parties of one process, linked by queues: the frames of `dpmpc.network` without TLS, for tests of single steps."""

import asyncio
import collections
import io
from pathlib import Path

from dpmpc.errors import PartyLost
from dpmpc.network.frames import ContentType, Expectation, Frame, decode, encode
from dpmpc.network.meter import Meter
from dpmpc.network.party import Party
from dpmpc.network.settings import PartySettings

LONGEST = 60  # seconds that a run may take


class QueuedRuntime:
    """What programs use of `dpmpc.network.runtime.PartyRuntime`."""

    def __init__(self, settings, queues):
        self.settings, self.meter, self._queues = settings, Meter(settings.party, dict), queues
        self.sent = []

    @property
    def peers(self):
        return [number for number in self.settings.members if number != self.settings.party]

    def frame(self, kind, content=None):
        return Frame(kind, self.settings.party, self.settings.task_digest, content)

    async def send_frame(self, receiver, frame):
        self.sent.append(frame)
        await self._queues[self.settings.party, receiver].put(encode(frame))

    async def receive_frame(self, sender, kind, content=ContentType.NOTHING, shape=None):
        data = await self._queues[sender, self.settings.party].get()
        if data is None:
            raise PartyLost(f"lost party {sender}", sender)
        return decode(data, Expectation(kind, sender, self.settings.task_digest, content, shape))

    async def shutdown(self):
        """Nothing is left to send: a queue keeps it."""

    async def close(self):
        for peer in self.peers:
            await self._queues[self.settings.party, peer].put(None)


def run_linked(programs, *, arguments=None, folder=None, task="0" * 64):
    """Run `programs[j](party)` for each party j; return what each returned or raised."""

    async def run():
        queues = collections.defaultdict(asyncio.Queue)
        addresses = [("127.0.0.1", 1)] * len(programs)

        async def run_one(number):
            settings = PartySettings(number, len(programs), addresses, "none", arguments or {}, task)
            party = Party(QueuedRuntime(settings, queues), Path(folder or "."), io.StringIO())
            try:
                return await programs[number](party)
            finally:
                await party.runtime.close()

        everybody = asyncio.gather(*map(run_one, range(len(programs))), return_exceptions=True)
        return await asyncio.wait_for(everybody, LONGEST)

    return asyncio.run(run())
