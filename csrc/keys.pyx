"""Kernels of `dpmpc.base.randomness` and `dpmpc.base.digests`: key streams of many keys, and SHA-256 of many texts.

Buffers in, buffers out, the GIL released. Lengths are checked by the caller; keys are read where they lie.
"""

from libc.stdint cimport uint8_t


from dpmpc._kernels.dispatch cimport chosen, keys_here, keys_kernel


cdef const keys_kernel *_aes = keys_here()


def has_aes():
    """Whether the processor has the instructions that `fill` needs."""
    return _aes is not NULL


def fill(const uint8_t[:, ::1] keys, uint8_t[:, ::1] out):
    """Overwrite rows of `out`, whole 64-bit words, with the AES-CTR key streams of keys of 16 or 32 bytes."""
    if _aes is NULL:
        raise RuntimeError("this processor has no AES instructions that this build can use")
    if keys.shape[0] and out.shape[1]:
        with nogil:
            _aes.fill(&keys[0, 0], keys.shape[0], keys.shape[1], out.shape[1] // 8, &out[0, 0])


def sha256(bytes head, const uint8_t[:, ::1] rows, uint8_t[:, ::1] out):
    """Overwrite `out`, (n, 32), with the hashes of head || row; rows have at least one byte."""
    cdef const uint8_t *start = head
    cdef size_t length = len(head)
    if rows.shape[0]:
        with nogil:
            chosen.hash.sha256(start, length, &rows[0, 0], rows.shape[0], rows.shape[1], &out[0, 0])
