"""Several parties in one process that talk over queues: the conversation as it is, without sockets and processes.

What a party sends is encoded and decoded as on a link, and each party has a key and a certificate of its own.
"""

from __future__ import annotations

import asyncio
import datetime
import ssl
import sys
import types

from dpmpc.base.errors import PartyLost
from dpmpc.parties.network.announcing import explained
from dpmpc.parties.network.frames import Kind, encode, kind_of
from dpmpc.parties.network.identity import write_identity
from dpmpc.parties.network.meter import Meter
from dpmpc.parties.network.party import Party
from dpmpc.parties.network.runtime import PartyRuntime
from dpmpc.parties.network.settings import PartySettings

PATIENCE = 60
TASK = bytes(range(32))


def identities(root, count):
    """Make a folder with key and certificate for each party."""
    root.mkdir(exist_ok=True)
    for party in range(count):
        write_identity(root / str(party), party, datetime.timedelta(days=1))
    return [root / str(party) for party in range(count)]


class Wire:
    """One end of a link: what the other end has sent, in order."""

    def __init__(self, certificate, peer):
        self.arrived, self.farewells, self.peer = asyncio.Queue(), asyncio.Queue(), peer
        self.other: Wire | None = None
        der = ssl.PEM_cert_to_DER_cert(certificate.decode())
        session = types.SimpleNamespace(getpeercert=lambda binary_form: der)
        self.transport = types.SimpleNamespace(is_closing=lambda: False, get_extra_info=lambda name: session)

    async def receive_frame(self, kind):
        queue = self.farewells if kind is Kind.GOODBYE else self.arrived
        data = await asyncio.wait_for(queue.get(), PATIENCE)
        if data is None:
            raise PartyLost(f"lost party {self.peer}", self.peer)
        return data

    def send_at_once(self, frame):
        queue = self.other.farewells if frame.kind is Kind.GOODBYE else self.other.arrived
        queue.put_nowait(encode(frame))

    async def send_frame(self, frame):
        self.send_at_once(frame)

    def unread(self, kind):
        return next((data for data in self.arrived._queue if data is not None and kind_of(data) is kind), None)

    def count_content(self, frame):
        pass

    def hang_up(self):
        self.other.arrived.put_nowait(None)
        self.other.farewells.put_nowait(None)


class Runtime:
    """What the conversation uses of `PartyRuntime`, with wires for links."""

    peers, other_servers = PartyRuntime.peers, PartyRuntime.other_servers
    frame, exchange_frames, receive_frame = PartyRuntime.frame, PartyRuntime.exchange_frames, PartyRuntime.receive_frame
    dispute, send_last_frame = PartyRuntime.dispute, PartyRuntime.send_last_frame

    def __init__(self, party, members, links, arguments, task):
        self.settings = PartySettings(
            party=party,
            servers=max(members) + 1,
            addresses=[("127.0.0.1", 0)] * (max(members) + 1),
            program="talk",
            arguments=arguments or {},
            task=task or TASK.hex(),
            without=tuple(number for number in range(max(members)) if number not in members),
        )
        self.pid, self.links, self.meter = party, links, Meter(party, dict)
        self.sent = []
        self.closing, self.conversation, self.failure, self.foreseen = False, None, None, None

    def foresee(self, error):
        self.foreseen = error

    async def send_frame(self, receiver, frame):
        self.sent.append(frame)
        await self.links[receiver].send_frame(frame)

    async def shutdown(self):
        if not self.closing:
            self.closing = True
            for peer in self.peers:
                await self.send_frame(peer, self.frame(Kind.GOODBYE))
            for peer in self.peers:
                await self.links[peer].receive_frame(Kind.GOODBYE)


def talk(folders, program, meddlers=None, *, arguments=None, task=None):
    """Run ``program(party)`` for the party of each folder; return what each returned or raised."""

    folders = folders if isinstance(folders, dict) else dict(enumerate(folders))

    async def everybody():
        wires = {
            (one, other): Wire((folders[other] / "party.crt").read_bytes(), other)
            for one in folders
            for other in folders
            if one != other
        }
        for (one, other), wire in wires.items():
            wire.other = wires[other, one]

        async def one_party(number):
            links = {other: wires[number, other] for other in folders if other != number}
            runtime = Runtime(number, list(folders), links, arguments, task)
            (meddlers or {}).get(number, lambda runtime: None)(runtime)
            party = Party(runtime, folders[number], sys.stderr)
            try:
                return await explained(party, program(party))
            except Exception as error:
                return runtime.foreseen or error
            finally:
                for link in links.values():
                    link.hang_up()

        return await asyncio.wait_for(asyncio.gather(*map(one_party, folders)), 2 * PATIENCE)

    return asyncio.run(everybody())
