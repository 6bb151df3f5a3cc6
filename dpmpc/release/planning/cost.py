"""What a collection costs all servers: bytes, core-seconds and money, before any data, from measured slopes.

A server takes each report at its door, keeps it, compares it with its checksum in the release, checks its proof, and
adds each word to s rows of the sketch: all of this grows in proportion to the reports. `MEASURED` holds the slopes of
one machine. `python -m bench scale` measures another, and so does `python -m bench scale --reports 1000000`, with whose
results a test compares what is estimated here; `python -m bench intake` measures requests.

Promised: bytes of payload, exactly. Not promised: seconds and money beyond their order of magnitude. `NOT_COUNTED` is
left out. An addition costs less than `Slopes.add` in a sum or a Rademacher sketch, and more where the k * width sums do
not fit in the cache.
"""

from __future__ import annotations

import dataclasses
import math

from dpmpc.base.arguments import require_finite
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import KEY_BYTES
from dpmpc.linear.proving.circuit import Circuit
from dpmpc.linear.proving.joint import BLIND_BYTES, PART_BYTES
from dpmpc.linear.proving.noise import ProvedNoise
from dpmpc.privacy.task import Task

WORD_BYTES = 8
GIGABYTE = 1e9
DAYS_OF_A_MONTH = 30.0
ID_BYTES, CHECKSUM_BYTES = 16, 8
PAGE_BYTES = 16  # of a database, for each report
LEDGER_BYTES, ANSWER_BYTES = 16, 24  # of a report that was released, and of one whose proof was answered
MEMORY_BYTES = 200_000_000  # of a release, whatever its size
LIST_BYTES = 32  # of a report in lists of ids, in files that the system keeps in memory while there is room
NOT_COUNTED = "set-up, framing, ids of reports that some servers lack, noise, and the clients' own work"


@dataclasses.dataclass(frozen=True)
class Slopes:
    """Seconds of one core.

    Parameters
    ----------
    read : float
        To read a byte of a share from a file.
    expand : float
        To expand a byte of a share from a key.
    add : float
        To draw the public matrix and add a word to one row of the sketch.
    check, check_word : float
        To check the proof of a report, and more for each word of its record.
    handle, handle_byte : float
        To decode and store a report that comes with hundreds of others, and to read and compare it in the release; and
        more for each byte that is kept of it.
    request, unseal : float
        To answer a request of HTTP over TLS, and to open a report that is sealed.
    """

    read: float
    expand: float
    add: float
    check: float = 3.4e-6
    check_word: float = 1.5e-8
    handle: float = 4.0e-6
    handle_byte: float = 5.0e-9
    request: float = 3.3e-4
    unseal: float = 5.0e-5


# `python -m bench scale` on an AMD EPYC with AES and AVX2 instructions (bench/results/scale.md), the same with
# `--reports 1000000` (scale_release.md), and `python -m bench intake` (intake.md).
MEASURED = Slopes(read=2.3e-10, expand=1.3e-10, add=3.0e-10)


@dataclasses.dataclass(frozen=True)
class Prices:
    """What a cloud charges, in one currency; by default AWS, us-east-1: m5 on demand, S3 standard, transfer out.

    Parameters
    ----------
    core_hour : float
        One core for an hour.
    gigabyte_month : float
        10^9 bytes stored for 30 days.
    gigabyte_sent : float
        10^9 bytes that leave a server; what arrives is free.
    currency : str
        Its name.
    """

    core_hour: float = 0.048
    gigabyte_month: float = 0.023
    gigabyte_sent: float = 0.09
    currency: str = "USD"

    def __post_init__(self) -> None:
        for name in ("core_hour", "gigabyte_month", "gigabyte_sent"):
            require_finite(name, getattr(self, name), 0)


@dataclasses.dataclass(frozen=True)
class Workload:
    """What the cost of a release depends on.

    Parameters
    ----------
    clients, copies, width : int
        Shape of a server's share.
    rows, sparsity : int
        k and s.
    servers : int
        M.
    seeded : bool
        Whether all servers but one get 16-byte keys for shares.
    proof : Circuit, optional
        What clients prove; each server then gets the hashes of all shares, too, and the last one the proof. With Shamir
        shares all servers get words, and so the proof.
    noise : ProvedNoise, optional
        What servers prove of noise that they deal among one another.
    """

    clients: int
    copies: int
    width: int
    rows: int
    sparsity: int
    servers: int
    seeded: bool = True
    proof: Circuit | None = None
    noise: ProvedNoise | None = None

    @classmethod
    def of(cls, task: Task) -> Workload:
        """Return the workload of a task."""
        return cls(
            *task.share_shape,
            rows=task.sketch.rows,
            sparsity=task.sketch.sparsity,
            servers=task.trust.servers,
            seeded=task.sharing == "additive",
            proof=None if task.proofs is None else task.proofs.circuit,
            noise=task.dealt_noise if task.noise_is_dealt else None,
        )

    @property
    def share_bytes(self) -> int:
        """Bytes of a client's share that is not a key."""
        if self.proof is not None:
            return BLIND_BYTES + PART_BYTES * self.servers + WORD_BYTES * self.proof.words
        return WORD_BYTES * self.copies * self.width

    @property
    def other_bytes(self) -> int:
        """Bytes of a client's share at each of the servers but the last."""
        if not self.seeded:
            return self.share_bytes
        return KEY_BYTES + (0 if self.proof is None else PART_BYTES * self.servers)

    @property
    def peer_bytes(self) -> int:
        """Bytes that a server sends to each other one to check the proofs of all reports, and to deal noise."""
        if self.proof is None:
            return 0
        to_each = self.clients * self.proof.message_bytes
        if self.noise is not None:
            circuit = self.noise.circuit
            dealt = BLIND_BYTES + PART_BYTES * self.servers + WORD_BYTES * circuit.words
            to_each += self.noise.blocks * (dealt + self.servers * circuit.message_bytes)
        return to_each

    @property
    def verification_bytes(self) -> int:
        """Bytes that all servers send one another to check the proofs of all reports, and to deal noise."""
        return self.servers * (self.servers - 1) * self.peer_bytes


@dataclasses.dataclass(frozen=True)
class ReleaseCost:
    """What all servers spend on one release.

    Attributes
    ----------
    uploaded_bytes : int
        From all clients to all servers.
    stored_bytes : int
        On the disks of all servers until the release.
    sent_bytes : int
        From all servers to the analyst; with proofs, what they send one another to check them as well.
    memory_bytes : int
        Of a server while it releases.
    last_core_s, other_core_s : float
        Core-seconds of the server that keeps words, and of each other one, without requests.
    request_core_s : float
        Core-seconds of each server for requests and seals, if each report comes by itself.
    core_s : float
        Of all servers together.
    compute, storage, transfer, total : float
        Money, in the currency of the prices.
    """

    uploaded_bytes: int
    stored_bytes: int
    sent_bytes: int
    memory_bytes: int
    last_core_s: float
    other_core_s: float
    request_core_s: float
    core_s: float
    compute: float
    storage: float
    transfer: float
    total: float


def estimate(
    work: Workload, *, slopes: Slopes = MEASURED, prices: Prices | None = None, days: float = DAYS_OF_A_MONTH
) -> ReleaseCost:
    """Return what a release costs.

    Parameters
    ----------
    work : Workload
        Its size.
    slopes : Slopes
        Of the servers' machines.
    prices : Prices, optional
        Of the servers' clouds; by default the list prices of `Prices`.
    days : float
        How long shares are stored.
    """
    require_finite("days", days, 0)
    prices = prices or Prices()
    uploaded = work.clients * (work.share_bytes + (work.servers - 1) * work.other_bytes)
    sent = work.servers * WORD_BYTES * work.rows * work.width + work.verification_bytes
    adding = slopes.add * work.clients * work.sparsity * work.width
    if work.proof is not None:
        adding += work.clients * slopes.check
    kept = ID_BYTES + CHECKSUM_BYTES + PAGE_BYTES + LEDGER_BYTES + (0 if work.proof is None else ANSWER_BYTES)
    last = adding + work.clients * (slopes.handle + (slopes.handle_byte + slopes.read) * work.share_bytes)
    if work.proof is not None:
        last += work.clients * slopes.check_word * work.proof.words
    other = last
    if work.seeded:
        other = adding + work.clients * (slopes.handle + slopes.handle_byte * work.other_bytes)
        other += slopes.expand * work.clients * work.share_bytes
    requests = work.clients * (slopes.request + slopes.unseal)
    core_s = last + (work.servers - 1) * other + work.servers * requests
    compute = prices.core_hour * core_s / 3600
    stored = uploaded + work.servers * work.clients * kept
    storage = prices.gigabyte_month * stored / GIGABYTE * days / DAYS_OF_A_MONTH
    transfer = prices.gigabyte_sent * sent / GIGABYTE
    total = compute + storage + transfer
    if not math.isfinite(total):
        raise InputError(
            "prices, days", f"{prices} and {days:g} given, whose cost is too large for a number; smaller ones expected"
        )
    return ReleaseCost(
        uploaded_bytes=uploaded,
        stored_bytes=stored,
        sent_bytes=sent,
        memory_bytes=MEMORY_BYTES + LIST_BYTES * work.clients,
        last_core_s=last,
        other_core_s=other,
        request_core_s=requests,
        core_s=core_s,
        compute=compute,
        storage=storage,
        transfer=transfer,
        total=total,
    )


def byte_fields(task: Task) -> dict[str, int]:
    """Return bytes of payload, without framing; of additive shares all but the last are keys."""
    work = Workload.of(task)
    share, other = work.share_bytes, work.other_bytes
    checked = {} if work.proof is None else {"server_to_other_server": work.peer_bytes}
    return {
        "copies": task.copies,
        "client_to_last_server": share,
        "client_to_other_servers": other,
        "client_to_all_servers": share + (task.trust.servers - 1) * other,
        "server_to_analyst": WORD_BYTES * task.sketch.rows * task.width,
        "spool_of_last_server": share * task.clients,
        "spool_of_other_servers": other * task.clients,
        **checked,
    }
