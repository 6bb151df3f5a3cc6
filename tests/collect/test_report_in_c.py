"""csrc/report.c as a shared library: the reports of the package, to the last byte, from any language that loads C."""

import ctypes
import datetime
import hashlib
import hmac
import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dpmpc.linear.contributions.cells import CellCounts
from dpmpc.linear.proving.circuit import P
from dpmpc.parties.network.identity import write_identity
from dpmpc.release.proved_reports import circuit_of
from support.remade_reports import CASES, design, remade

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="needs GCC")

SOURCE = Path(__file__).parents[2] / "csrc" / "report.c"
KINDS = ["rows", "second-moments", "proved-rows", "proved-second-moments", "proved-cell-counts"]
DONE, OUTSIDE, DRAW_AGAIN = range(3)
WORK, DRAWN, STREAM, SEED_STREAM, KEYED_PAYLOAD, LAST_PAYLOAD = range(1, 7)
ARGUMENTS = {
    "report_plan_bytes": "uuuudl",
    "report_plan": "uuuudlpp",
    "report_size": "pu",
    "report_sha256": "psp",
    "report_hmac": "pspsp",
    "report_normalise": "upppp",
    "report_share_keys": "ppp",
    "report_begin": "ppppppp",
    "report_end": "pppppp",
}
TYPES = {
    "u": ctypes.c_uint32,
    "d": ctypes.c_double,
    "l": ctypes.c_int64,
    "p": ctypes.c_void_p,
    "s": ctypes.c_size_t,
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The library, compiled with all warnings, with the types of its functions."""
    target = tmp_path_factory.mktemp("report") / "report.so"
    flags = ["-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-fwrapv", "-ffp-contract=off", "-Wall", "-Wextra"]
    subprocess.run(["gcc", *flags, "-Werror", "-o", target, SOURCE, "-lm"], check=True, timeout=300)
    loaded = ctypes.CDLL(str(target))
    for name, letters in ARGUMENTS.items():
        function = getattr(loaded, name)
        function.argtypes = [TYPES[letter] for letter in letters]
        function.restype = ctypes.c_size_t if name in ("report_plan_bytes", "report_size") else ctypes.c_int
    return loaded


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("identities")
    return [write_identity(folder / str(server), server, datetime.timedelta(days=2)) for server in range(3)]


@pytest.fixture(scope="module", params=CASES)
def collection(request, certificates):
    return design(certificates, request.param)


def key_stream(key, length):
    """AES in counter mode of zeros, as the caller of the library has it from its platform."""
    encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    return encryptor.update(bytes(length)) + encryptor.finalize()


def is_counted(collection):
    return isinstance(collection.plan.statistic, CellCounts)


def facts(collection):
    """What a plan is made of."""
    plan = collection.plan
    if is_counted(collection):
        digits = circuit_of(plan).digits
        return (4, digits, plan.encoding.fractional_bits, plan.trust.servers, 0.0, -1)
    ball = circuit_of(plan).squared_radius if collection.proved else None
    return (
        KINDS.index(plan.statistic.name),
        len(plan.schema),
        plan.encoding.fractional_bits,
        plan.trust.servers,
        plan.statistic.radius or 0.0,
        -1 if ball is None else ball,
    )


def words(length):
    """A buffer that begins at a multiple of 8."""
    return (ctypes.c_uint64 * -(-length // 8))()


def coded(collection):
    """What makes a digit for each cell of a normalised row, as a double."""
    statistic = collection.plan.statistic
    return lambda z: circuit_of(collection.plan).witness(statistic.plain.cells_of(z[None])).astype(np.float64)[0]


class Reporter:
    """A client of the library, for one collection."""

    def __init__(self, library, collection):
        self.library, self.servers = library, collection.plan.trust.servers
        self.columns = collection.plan.schema.columns
        self.shared = coded(collection) if is_counted(collection) else lambda z: z
        self.plan = words(library.report_plan_bytes(*facts(collection)))
        assert library.report_plan(*facts(collection), collection.digest, self.plan) == 0

    def size(self, which):
        return self.library.report_size(self.plan, which)

    def normalised(self, row):
        """Return z and what the library answered."""
        bounds = [np.array([getattr(column, end) for column in self.columns]) for end in ("lower", "upper")]
        z, given = np.empty(len(row)), np.array(row, np.float64)
        result = self.library.report_normalise(len(row), *(each.ctypes.data for each in (given, *bounds, z)))
        return z, result

    def payloads(self, row, report_id, drawn):
        """Return the payloads of a report, with these bytes in place of random ones."""
        library, keyed, streams, work = self.library, self.servers - 1, b"", words(self.size(WORK))
        z, result = self.normalised(row)
        assert result == DONE
        assert len(drawn) == self.size(DRAWN)
        z = self.shared(z)
        share_keys, seed = ctypes.create_string_buffer(16 * keyed), ctypes.create_string_buffer(32)
        library.report_share_keys(self.plan, drawn, share_keys)
        for server in range(keyed):
            streams += key_stream(share_keys.raw[16 * server : 16 * server + 16], self.size(STREAM))
        masks = words(len(streams))
        ctypes.memmove(masks, streams, len(streams))
        assert library.report_begin(self.plan, report_id, z.ctypes.data, drawn, masks, work, seed) == DONE
        stream = key_stream(seed.raw, self.size(SEED_STREAM))
        lengths = [self.size(KEYED_PAYLOAD)] * keyed + [self.size(LAST_PAYLOAD)]
        out = ctypes.create_string_buffer(sum(lengths))
        assert library.report_end(self.plan, drawn, masks, stream, work, out) == DONE
        assert not any(masks), "streams are left"
        assert not any(work), "what was proved is left"
        ends = np.cumsum(lengths).tolist()
        return [out.raw[end - length : end] for end, length in zip(ends, lengths, strict=True)]


def test_the_payloads_are_those_of_the_package_to_the_last_byte(library, collection):
    reporter = Reporter(library, collection)
    for report in remade(collection):
        assert reporter.payloads(report.row, report.id, report.drawn) == report.payloads, report.row


def test_a_collection_of_many_clients_has_eleven_bits(certificates):
    assert design(certificates, "proved, ten columns and f = 11").plan.encoding.fractional_bits == 11


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_finite_number_is_refused(library, certificates, value):
    reporter = Reporter(library, design(certificates, "plain"))
    assert reporter.normalised([value, 1.0])[1] == OUTSIDE
    assert reporter.normalised([1.0, value])[1] == OUTSIDE
    assert reporter.normalised([1.0, 1.0])[1] == DONE


@pytest.mark.parametrize(
    "case", ["plain", "proved", "plain, rows in a ball", "proved, rows in a ball", "proved, cells"]
)
def test_a_row_that_was_not_normalised_is_refused_or_clipped(library, certificates, case):
    """`report_begin` shares no NaN and nothing outside the box, whatever it is given for z."""
    collection = design(certificates, case)
    reporter, columns = Reporter(library, collection), facts(collection)[1]
    drawn, masks = bytes(reporter.size(DRAWN)), words(2 * reporter.size(STREAM))
    z = np.full(columns, math.nan)
    begin = library.report_begin
    work, seed = words(reporter.size(WORK)), ctypes.create_string_buffer(32)
    assert begin(reporter.plan, bytes(16), z.ctypes.data, drawn, masks, work, seed) == OUTSIDE


@pytest.mark.parametrize("place", ["streams", "drawn"])
def test_a_word_that_is_p_has_everything_drawn_again(library, certificates, place):
    """A mask or a blind of p would stand for 0 a little more often than for other numbers."""
    reporter = Reporter(library, design(certificates, "proved"))
    drawn, streams = bytearray(reporter.size(DRAWN)), words(2 * reporter.size(STREAM))
    if place == "streams":
        streams[5] = P | 7 << 61  # the low bits count
    else:
        drawn[-8:] = P.to_bytes(8, "little")
    z, work, seed = np.zeros(2), words(reporter.size(WORK)), ctypes.create_string_buffer(32)
    given = (reporter.plan, bytes(16), z.ctypes.data, bytes(drawn), streams, work, seed)
    assert library.report_begin(*given) == DRAW_AGAIN


def test_elements_of_the_joint_randomness_pass_over_p(library, certificates):
    """The stream of the seed is shorter by a word that is p; too many of them are no proof."""
    collection = design(certificates, "proved")
    reporter, report = Reporter(library, collection), remade(collection, 4)[3]
    z, results, length = reporter.normalised(report.row)[0], [], reporter.size(SEED_STREAM)
    plain = np.arange(1, length // 8 + 1, dtype=np.uint64)
    high = np.uint64(P | 7 << 61)  # the low bits count
    gap, gaps = np.insert(plain, 3, high)[:-1], np.full(length // 8, high)
    for stream, answer in ((plain, DONE), (gap, DONE), (gaps, DRAW_AGAIN)):
        streams, work, seed = words(2 * reporter.size(STREAM)), words(reporter.size(WORK)), words(32)
        out = ctypes.create_string_buffer(2 * reporter.size(KEYED_PAYLOAD) + reporter.size(LAST_PAYLOAD))
        library.report_begin(reporter.plan, report.id, z.ctypes.data, report.drawn, streams, work, seed)
        given = (reporter.plan, report.drawn, streams, stream.ctypes.data, work, out)
        assert library.report_end(*given) == answer
        results.append(out.raw)
    assert results[0] == results[1] != results[2]


@pytest.mark.parametrize(
    "changed",
    [
        {"kind": 5},
        {"kind": 4, "columns": 8193},
        {"kind": 4, "radius": 1.0},
        {"kind": 4, "ball": 5, "radius": 1.0},
        {"columns": 0},
        {"columns": 257},
        {"bits": 0},
        {"bits": 29},
        {"servers": 1},
        {"servers": 256},
        {"radius": math.nan},
        {"radius": -1.0},
        {"ball": -2},
        {"ball": 5, "radius": 0.0},
        {"ball": P // 2, "radius": 1.0},
        {"kind": 0, "radius": 1e-9, "bits": 16},
        {"kind": 1, "bits": 51},
    ],
    ids=str,
)
def test_a_plan_that_cannot_be_is_refused(library, changed):
    good = {"kind": 3, "columns": 2, "bits": 9, "servers": 3, "radius": 0.0, "ball": -1}
    plan = words(library.report_plan_bytes(*good.values()))
    assert library.report_plan(*good.values(), bytes(32), plan) == 0
    bad = (good | changed).values()
    assert library.report_plan_bytes(*bad) == 0
    assert library.report_plan(*bad, bytes(32), plan) == 1
    assert library.report_size(plan, 7) == 0


@pytest.mark.parametrize("length", [0, 1, 55, 56, 63, 64, 65, 1000])
def test_hashes_are_those_of_the_standard(library, length):
    text, key, out = bytes(range(256))[:length] * 4, bytes(range(length % 65)), ctypes.create_string_buffer(32)
    library.report_sha256(text, len(text), out)
    assert out.raw == hashlib.sha256(text).digest()
    assert library.report_hmac(key, len(key), text, len(text), out) == 0
    assert out.raw == hmac.digest(key, text, "sha256")
    assert library.report_hmac(bytes(65), 65, text, len(text), out) == 1
