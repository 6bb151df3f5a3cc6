/* csrc/report.c as R's `.C` calls it: every argument is a pointer, bytes are raw vectors, and what a function writes is
 * in the list that `.C` returns.
 *
 *     gcc -O2 -shared -fPIC -fwrapv -ffp-contract=off -I csrc -o report.so examples/r/report.c -lm
 *
 * `r_gcm_tag` is here because aes_gcm_encrypt of R's openssl package leaves out the tag in the versions that Debian 12
 * has. */

#include "../../csrc/report.c"

/* Of a collection without a radius: the bytes of its plan, 0 where there can be none. */
API void r_plan_bytes(int *kind, int *columns, int *bits, int *servers, int *bytes)
{
    *bytes = (int)report_plan_bytes((uint32_t)*kind, (uint32_t)*columns, (uint32_t)*bits, (uint32_t)*servers, 0, -1);
}

/* The plan, and its six sizes in the order of `enum report_size`. */
API void r_plan(int *kind, int *columns, int *bits, int *servers, uint8_t *digest, uint8_t *plan, int *sizes)
{
    struct report_plan *made = (struct report_plan *)plan;
    report_plan((uint32_t)*kind, (uint32_t)*columns, (uint32_t)*bits, (uint32_t)*servers, 0, -1, digest, made);
    for (int which = REPORT_WORK_BYTES; which <= REPORT_LAST_PAYLOAD_BYTES; which++)
        sizes[which - 1] = (int)report_size(made, (uint32_t)which);
}

API void r_normalise(int *columns, double *row, double *lower, double *upper, double *z, int *result)
{
    *result = report_normalise((uint32_t)*columns, row, lower, upper, z);
}

API void r_share_keys(uint8_t *plan, uint8_t *drawn, uint8_t *keys)
{
    report_share_keys((const struct report_plan *)plan, drawn, keys);
}

API void r_begin(uint8_t *plan, uint8_t *id, double *z, uint8_t *drawn, uint8_t *streams, uint8_t *work, uint8_t *seed,
                 int *result)
{
    *result = report_begin((const struct report_plan *)plan, id, z, drawn, (uint64_t *)streams, (uint64_t *)work, seed);
}

API void r_end(uint8_t *plan, uint8_t *drawn, uint8_t *streams, uint8_t *seed_stream, uint8_t *work, uint8_t *payloads,
               int *result)
{
    *result = report_end((const struct report_plan *)plan, drawn, (uint64_t *)streams, (const uint64_t *)seed_stream,
                         (uint64_t *)work, payloads);
}

static uint64_t word_of(const uint8_t *bytes)
{
    uint64_t word = 0;
    for (int i = 0; i < 8; i++)
        word = word << 8 | bytes[i];
    return word;
}

/* y := (y + block) * h in GHASH's field (NIST SP 800-38D, 6.3 and 6.4): bit by bit, without a branch on data. */
static void ghash(uint64_t y[2], const uint64_t h[2], uint64_t first, uint64_t second)
{
    uint64_t z[2] = {0, 0}, v[2] = {h[0], h[1]};
    y[0] ^= first;
    y[1] ^= second;
    for (int i = 0; i < 128; i++) {
        const uint64_t taken = 0 - (y[i / 64] >> (63 - i % 64) & 1), carry = 0 - (v[1] & 1);
        z[0] ^= v[0] & taken;
        z[1] ^= v[1] & taken;
        v[1] = v[1] >> 1 | v[0] << 63;
        v[0] = v[0] >> 1 ^ (carry & UINT64_C(0xe100000000000000));
    }
    y[0] = z[0];
    y[1] = z[1];
}

/* The tag of AES-GCM of a ciphertext without associated data, of the cipher's zero block `h` and first block `mask`. */
API void r_gcm_tag(uint8_t *h, uint8_t *ciphertext, int *bytes, uint8_t *mask, uint8_t *tag)
{
    const uint64_t key[2] = {word_of(h), word_of(h + 8)};
    uint64_t y[2] = {0, 0};
    for (int at = 0; at < *bytes; at += 16) {
        uint8_t block[16] = {0};
        memcpy(block, ciphertext + at, (size_t)(*bytes - at < 16 ? *bytes - at : 16));
        ghash(y, key, word_of(block), word_of(block + 8));
    }
    ghash(y, key, 0, 8 * (uint64_t)*bytes);
    for (int i = 0; i < 16; i++)
        tag[i] = (uint8_t)(y[i / 8] >> (56 - 8 * (i % 8))) ^ mask[i];
}
