"""No key of a report is expanded for two purposes, by clients or by servers."""

import collections

import msgspec
import numpy as np
import pytest

from dpmpc.base.randomness import KEY_BYTES, SEED_BYTES, Stream
from dpmpc.collect.upload.report_ids import ID_BYTES
from dpmpc.collect.upload.reports import ReportFormat, derive_share_keys
from dpmpc.linear.proving import joint
from dpmpc.linear.sharing import batch
from dpmpc.linear.sharing.batch import ArrayShare
from dpmpc.release.proved_reports import circuit_of, shares_of
from support.release_processes import COUNT, Trial


@pytest.fixture
def expanded(monkeypatch):
    """Collect each key whose stream is written, with how many words; a stream that is read counts as one."""
    found, fill, fill_stream = [], batch.fill_key_streams, Stream._fill

    def fill_many(keys, out):
        found.extend((row.tobytes(), out.shape[1]) for row in keys)
        fill(keys, out)

    def fill_one(stream, view):
        if not stream.simulation:
            found.append((stream._key, None))
        fill_stream(stream, view)

    for module in (batch, joint):
        monkeypatch.setattr(module, "fill_key_streams", fill_many)
    monkeypatch.setattr(Stream, "_fill", fill_one)
    return found


def expand_all(form, ids, kept):
    """Expand what a server keeps of reports, as its release does."""
    if form.collection.proved:
        shares = shares_of(form.collection.plan, form.server, np.array([list(one) for one in ids], np.uint8), kept)
        return shares.records(circuit_of(form.collection.plan))
    return form.share(ArrayShare(kept, form.stored_ring)).rows(0, len(ids))


@pytest.mark.parametrize(
    "options", [{}, {"ring": "mersenne61"}, {"proved": True, "noise_by": "servers"}, {"sharing": "shamir"}], ids=str
)
def test_each_key_is_expanded_for_one_share_of_one_report(tmp_path, expanded, options):
    trial = Trial.make(tmp_path / "trial", **options)
    forms = [ReportFormat(trial.collection, server) for server in range(3)]
    by_key = [form for form in forms if form.by_key]
    of_client = [(key, words) for key, words in expanded if words is not None]
    streams = {key for key, words in expanded if words is None}
    times = collections.Counter(key for key, _ in of_client)
    assert set(times.values()) <= {1}
    assert not streams & set(times)
    assert len([key for key in times if len(key) == KEY_BYTES]) == COUNT * len(by_key)
    seeds = {key for key in times if len(key) == SEED_BYTES}  # joint randomness of proofs, which servers may know
    assert len(seeds) == (COUNT if trial.collection.proved else 0)
    assert not {seed[start : start + KEY_BYTES] for seed in seeds for start in (0, KEY_BYTES)} & set(times)
    sent = {record[ID_BYTES:][:KEY_BYTES] for form in by_key for record in trial.records[form.server]}
    assert len(sent) == COUNT * len(by_key)  # nobody's key tells what another server gets
    seen = set()
    for form in forms:
        records = trial.records[form.server]
        ids, kept = form.decode(b"".join(records))
        expanded.clear()
        expand_all(form, ids, kept)
        assert set(expanded) <= set(of_client)  # as many words as the client has taken, from the same place
        assert len(expanded) == len(set(expanded)) == COUNT * form.by_key
        assert not seen & set(expanded)
        seen |= set(expanded)
        if form.keeps_keys:  # what is sent is only derived from, and what is derived is only expanded
            assert not sent & {key for key, _ in expanded}
    assert seen == {(key, words) for key, words in of_client if len(key) == KEY_BYTES}


def test_a_key_stands_for_another_share_at_another_server_or_collection(tmp_path):
    collection = Trial.make(tmp_path / "trial").collection
    other = msgspec.structs.replace(collection, name="another trial")
    assert collection.digest != other.digest
    keys = np.arange(5 * KEY_BYTES, dtype=np.uint8).reshape(5, KEY_BYTES)
    derived = [derive_share_keys(keys, *form) for form in ((collection, 0), (collection, 1), (other, 0))]
    assert len({row.tobytes() for rows in (*derived, keys) for row in rows}) == 20
