"""The words of the shares in an upload, without the kernels: cryptography's HKDF, and one stream for each key."""

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dpmpc.base.randomness import KEY_BYTES, Label
from dpmpc.linear.sharing.batch import expand


def words_of(form, body):
    """Return the shares (n, copies, entries) of an upload's reports; of proved reports what is kept."""
    _, kept = form.decode(body)
    if not form.by_key or form.collection.proved:
        return kept
    plan, digest = form.collection.plan, form.collection.digest
    info = Label.REPORT_SHARE.value + b"\0" + form.server.to_bytes(8, "little")
    shape, rows = (plan.copies, plan.width), []
    for key in kept:
        own = HKDF(hashes.SHA256(), KEY_BYTES, digest, info).derive(key.tobytes())
        rows.append(expand(own, (1, *shape), plan.encoding.ring)[0])
    return np.array(rows, np.uint64).reshape(len(kept), *shape)
