"""A process that adds reports to a spool and tells of every upload that was acknowledged, until it is killed."""

import hashlib
import random

import numpy as np

from dpmpc.intake import spool

DIGEST = bytes(range(32))
SHAPE = (2, 3)
SEGMENT_ROWS = 50


def words_of(report):
    """The words that belong to a report id, so that anybody can tell whether they are right."""
    return np.frombuffer(hashlib.shake_128(report).digest(48), np.uint64).reshape(SHAPE)


def upload_of(ids):
    return ids, np.array([words_of(report) for report in ids], np.uint64).reshape(len(ids), *SHAPE)


def open_spool(folder, **options):
    return spool.Spool(folder, DIGEST, 1, SHAPE, **options)


def main(folder, seed, announced):
    """Announce each upload's ids before `add`, then say how many of them are stored for good."""
    spool._SEGMENT_BYTES = SEGMENT_ROWS * 48
    draw = random.Random(seed)
    acknowledged = []
    with open_spool(folder) as store:
        while True:
            ids = [draw.randbytes(16) for _ in range(draw.randrange(1, 30))]
            again = draw.sample(acknowledged, min(len(acknowledged), draw.randrange(3)))
            announced.send_bytes(b"".join(ids))
            added = store.add(*upload_of(ids + again))
            assert added == (len(ids), len(again))
            acknowledged += ids
            announced.send_bytes(b"stored")
