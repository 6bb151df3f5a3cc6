"""The world of damaged servers: a bit of a stored report flips, or a ledger is put back to the time before it answered.

A report whose words have changed since its server answered for it may not be answered for again: two answers at one
point give its row away. It is left out, and all others are released. A ledger that was put back does not know what its
server has answered, nor which point was sealed; the point that is used stands in the store too. Not promised, and not
tried: a ledger that is put back once a release is bound in it, and both kinds of damage at one server.
"""

import hashlib

import numpy as np

from dpmpc.collect.opening import proof_checks
from dpmpc.collect.store.ledger import State
from simulator import release
from simulator.loop import NODE
from simulator.release import Base, recorded

__all__ = ["Base", "DamagedWorld", "make_ready"]

FLIP_CHANCE, LEDGER_CHANCE = 0.5, 0.25  # when a server has crashed
SPOOL_FILE, RECORD_PART = "spool/spool.sqlite", 16  # bytes of a record that are looked for in the file


def make_ready():
    """Prepare the process for seeds of this world."""
    release.make_ready()
    scan = proof_checks.Verifier.scan

    def watched(self, ids):
        found = scan(self, ids)
        server = NODE.get()
        for own, message in zip(ids[found.fitting], found.messages[found.fitting], strict=True):
            server.world.check_answer(server, own.tobytes(), message)
        return found

    proof_checks.Verifier.scan = watched


class DamagedWorld(release.World):
    """A release of proved reports by servers whose files are damaged."""

    stores_are_put_back = False

    def __init__(self, *given):
        super().__init__(*given)
        self._messages, self._flipped, self._put_back = {}, {}, set()

    def check_answer(self, server, report, message):
        """Check that a server is about to say of a report what it has said of it before, or nothing."""
        said = hashlib.sha256(np.ascontiguousarray(message)).digest()
        if self._messages.setdefault((server.number, report), said) != said:
            self.problem("a report is answered for in two ways", f"server {server.number}, {report.hex()}")

    def image_after_crash(self, server, image):
        number = server.number
        if number not in self._put_back and self.rng.random() < FLIP_CHANCE:
            return self._with_a_flipped_bit(number, image)
        begun = any(state != State.SEALED for _, state in recorded(server))
        if number not in self._flipped and not begun and self.rng.random() < LEDGER_CHANCE:
            self.log(f"the ledger of server {number} is put back to what it was in the beginning")
            self._put_back.add(number)
            image = {name: content for name, content in image.items() if not name.startswith("ledger/")}
            image |= {name: one for name, one in self.base.images[number].items() if name.startswith("ledger/")}
        return image

    def _with_a_flipped_bit(self, number, image):
        """Flip one bit of what a report of an honest client left in a store, unless a bit of this server's has."""
        content, report = bytearray(image[SPOOL_FILE]), self.rng.randrange(self.base.count)
        record = self.base.records[number][report]
        first = self.rng.randrange(len(self.base.ids[report]), len(record) - RECORD_PART)
        place = content.find(record[first : first + RECORD_PART])
        if place < 0 or number in self._flipped:
            return image
        self.log(f"a bit of report {report} flips at server {number}")
        self._flipped[number] = report
        content[place + self.rng.randrange(RECORD_PART)] ^= 1 << self.rng.randrange(8)
        return image | {SPOOL_FILE: bytes(content)}

    def _may_lack_a_release(self):
        return bool(self._put_back)  # others may use a point that this server has sealed and forgotten

    def _note_answer(self, server, frame):
        """Frames differ where a report is left out; see `check_answer`."""

    def _check_batch(self, batch):
        missing = set(range(self.base.count)) - batch
        if not missing <= set(self._flipped.values()):
            self.problem("reports are lost", f"{sorted(missing)}, of which {self._flipped} were damaged")

    def _check_refused(self, refused):
        if refused.get(release.FALSE_PROOF) != 1 or sum(refused.values()) > 1 + len(self._flipped):
            self.problem("others are refused than who proves what is false, and what is damaged", f"{refused}")


World = DamagedWorld
