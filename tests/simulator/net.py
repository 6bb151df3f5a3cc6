"""A network in memory: delays with a long tail, writes in parts, links that break, partitions, machines without power.

A machine without power sends nothing, not even that a link is closed; once it runs again it resets what it does not
know. TLS is left out: the certificate of the other end is handed to the transport.
"""

import asyncio
import collections
import contextvars
import errno

from simulator.loop import NODE, Ordered

HIGH_WATER, LOW_WATER = 1 << 16, 1 << 14  # bytes under way, from which on a writer is paused and resumed
USUAL_SECONDS, LONG_SECONDS, LONG_CHANCE = 0.005, 0.3, 0.1  # of delays: two means
PARTS_CHANCE = 0.2  # that a write arrives in parts


class Node:
    """A machine: a server or a client."""

    def __init__(self, name, address, certificate=None):
        self.name, self.address, self.certificate = name, address, certificate
        self.alive, self.rebooted = True, False
        self.tasks, self.transports = Ordered(), Ordered()


class Net:
    """The links between nodes.

    Attributes
    ----------
    slow : float
        By which delays are multiplied.
    breaking : float
        Chance for each write that the link breaks.
    blocked : dict
        Until when nothing passes between two nodes, by their names.
    """

    def __init__(self, loop, rng):
        self.loop, self.rng = loop, rng
        self.slow, self.breaking, self.blocked = 1.0, 0.0, {}
        self.links = Ordered()
        self._listeners = {}

    def delay(self):
        mean = LONG_SECONDS if self.rng.random() < LONG_CHANCE else USUAL_SECONDS
        return self.rng.expovariate(1 / mean) * self.slow

    def blocked_until(self, one, other):
        return self.blocked.get(frozenset((one, other)), 0.0)

    def listen(self, name, service, node, make_protocol):
        """Have a node answer callers of a service by protocols that this function makes."""
        self._listeners[name, service] = node, make_protocol

    def stop_listening(self, node, *services):
        """End services of a node: these, or all."""
        own = [place for place, (owner, _) in self._listeners.items() if owner is node]
        for place in own:
            if not services or place[1] in services:
                del self._listeners[place]

    async def dial(self, caller, name, service, make_protocol):
        """Link a caller to a service; return the protocol of the caller."""
        await asyncio.sleep(self.delay())
        if (until := self.blocked_until(caller.name, name)) > self.loop.now:
            if self.rng.random() < 0.5:
                raise OSError(errno.EHOSTUNREACH, "no route to the host")
            await asyncio.sleep(until - self.loop.now + self.delay())
        if (name, service) not in self._listeners:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "the connection was refused")
        node, make_other = self._listeners[name, service]
        near, far = Transport(self, caller, node), Transport(self, node, caller)
        near.other, far.other = far, near
        far.context.run(far.begin, make_other)
        near.begin(make_protocol)
        return near.protocol


class _Session:
    """What a link shows of the other end's certificate, as `ssl.SSLObject` does."""

    def __init__(self, der):
        self._der = der

    def getpeercert(self, binary_form=False):
        return self._der


class Transport(asyncio.Transport):
    """One end of a link."""

    def __init__(self, net, node, other):
        extra = {"peername": (other.address, 0)}
        if other.certificate is not None:
            number, der = other.certificate
            names = {"subjectAltName": (("DNS", f"party-{number}"),)}
            extra |= {"peercert": names, "ssl_object": _Session(der)}
        super().__init__(extra)
        self.net, self.node, self.protocol, self.other = net, node, None, None
        self.context = contextvars.copy_context()
        self.context.run(NODE.set, node)
        self.lost = False
        self._closing = self._broken = self._reading_paused = self._writer_paused = False
        self._last, self._under_way, self._held = 0.0, 0, collections.deque()
        net.links.add(self)
        node.transports.add(self)

    def begin(self, make_protocol):
        self.protocol = make_protocol()
        self.protocol.connection_made(self)

    def set_protocol(self, protocol):
        self.protocol = protocol

    def get_protocol(self):
        return self.protocol

    def is_closing(self):
        return self._closing

    def is_reading(self):
        return not self._reading_paused

    def pause_reading(self):
        self._reading_paused = True

    def resume_reading(self):
        self._reading_paused = False
        while self._held and not self._reading_paused:
            self._hand_over(self._held.popleft())

    def can_write_eof(self):
        return False

    def get_write_buffer_size(self):
        return self._under_way

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def writelines(self, parts):
        self.write(b"".join(parts))

    def write(self, data):
        net, rng, data = self.net, self.net.rng, bytes(data)
        if self._closing or self.lost or self._broken or not self.node.alive:
            return
        if net.breaking and rng.random() < net.breaking:
            self.break_off()
            return
        for part in self._parts(data):
            self._under_way += len(part)
            net.loop.call_at(self._arrival(), self.other.arrive, part, context=self.other.context)
        if self._under_way > HIGH_WATER and not self._writer_paused:
            self._writer_paused = True
            self.protocol.pause_writing()

    def _parts(self, data):
        """Yield the parts in which a write arrives; their number does not depend on the length of a signature in it."""
        rng, start = self.net.rng, 0
        while rng.random() < PARTS_CHANCE:
            end = start + int(rng.random() * (len(data) - start))
            if end > start:
                yield data[start:end]
            start = end
        yield data[start:]

    def arrive(self, data):
        """Take bytes that the other end has written some time ago."""
        self.other.arrived(len(data))
        if not self.node.alive:
            if self.node.rebooted:
                self.other.lose(_reset())
        elif self.lost or self._closing:
            self.net.loop.call_later(self.net.delay(), self.other.lose, _reset())
        elif self._reading_paused:
            self._held.append(data)
        else:
            self._hand_over(data)

    def arrived(self, length):
        """Learn that bytes of this end are there."""
        self._under_way -= length
        if self._writer_paused and self._under_way < LOW_WATER and not self.lost:
            self._writer_paused = False
            self.context.copy().run(self.protocol.resume_writing)

    def close(self):
        if self._closing or self.lost:
            return
        self._closing = True
        loop, arrival = self.net.loop, self._arrival()
        loop.call_at(arrival, self.other.end, context=self.other.context)
        loop.call_at(arrival if self._under_way else min(arrival, loop.now + 0.001), self.lose, None)

    def end(self):
        """Learn that the other end has closed the link."""
        if self.lost or self._closing or not self.node.alive:
            return
        if self._reading_paused:
            self._held.append(None)
        else:
            self._hand_over(None)

    def abort(self):
        if self.lost:
            return
        self._closing = True
        self.net.loop.call_soon(self.lose, None)
        if not self.other.lost:
            self.net.loop.call_at(self._arrival(), self.other.lose, _reset())

    def break_off(self):
        """Break the link: each end learns of it at a time of its own, and what is written until then is lost."""
        for end in (self, self.other):
            end._broken = True
            self.net.loop.call_later(self.net.delay(), end.lose, _reset())

    def vanish(self):
        """Forget this end without a sign: its process has ended."""
        self.lost = True
        self.net.links.discard(self)

    def lose(self, error):
        """End the link at this end."""
        if self.lost:
            return
        self.lost = self._closing = True
        self.net.links.discard(self)
        self.node.transports.discard(self)
        if self.node.alive and self.protocol is not None:
            self.context.copy().run(self.protocol.connection_lost, error)

    def _hand_over(self, data):
        if self.lost:
            return
        if data is not None:
            self.protocol.data_received(data)
        elif not self.protocol.eof_received():
            self.close()

    def _arrival(self):
        """Return when what is written now arrives: after all that was written before."""
        net = self.net
        blocked = net.blocked_until(self.node.name, self.other.node.name)
        arrival = max(self._last, net.loop.now + net.delay(), blocked)
        self._last = arrival + 1e-6
        return arrival


def _reset():
    return ConnectionResetError(errno.ECONNRESET, "the connection was reset")
