/* A client's part of a report, for programs in any language: normalise a row, encode it, share it and prove it.
 *
 * The bytes are those of `dpmpc.collect.upload.reports` and `dpmpc.release.proved_reports`: additive shares of rows or second
 * moments, with or without proofs, without noise by clients. The arithmetic is that of the package, whose kernels are
 * included.
 *
 * Random bytes, AES and HTTP are the caller's: every platform has a generator and an AES that does not leak through the
 * cache, and nothing is sent from here. One report is
 *
 *     report_normalise     the row in its columns' own units, to [-1, 1]
 *     report_share_keys    of drawn bytes, the keys whose streams are the masks: AES-128-CTR from block 0
 *     report_begin         shares of the row; with proofs the seed, whose stream is of AES-256-CTR from block 0
 *     report_end           the payload of each server, one after the other
 *
 * for one `report_plan`, which many reports may use at once. All memory is the caller's: buffers of 8-byte alignment,
 * whose sizes `report_size` gives. Words are little-endian in payloads and streams, so that the host has to be, too.
 *
 * Promised: no branch and no address depends on the row, a key or a share, but whether a call returns 0. Not promised:
 * that the caller's z, drawn bytes, share keys, seed and payloads are overwritten; `report_end` overwrites streams and
 * `work`. */

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "report.c: a little-endian host expected"
#endif

#define LANES 1
#define INSTRUCTION_SET report
#include "arithmetic_fixed.c"
#include "hashes.c"
#include "proof.c"

#define API __attribute__((visibility("default")))

#define KEY_BYTES 16
#define ID_BYTES 16
#define DIGEST_BYTES 32
#define MOST_COLUMNS 256
#define MOST_CELLS 8192 /* of all grids: `dpmpc.linear.contributions.cells.MOST_WORDS` */
#define MOST_SERVERS 255
#define MOST_PROVED_BITS 28
#define MOST_PLAIN_BITS 50
#define MOST_DIGITS 32 /* of one column: more than 2^29 needs */
#define SPARE 8        /* words of the seed's stream that may be p, each with a probability of 2^-61 */

/* A compiler may not leave out a call that it does not know. */
static void *(*const volatile overwrite)(void *, int, size_t) = memset;

static const double ROOT = 1.4142135623730951; /* of 2 */

enum report_kind { REPORT_ROWS, REPORT_MOMENTS, REPORT_PROVED_ROWS, REPORT_PROVED_MOMENTS, REPORT_PROVED_CELLS };
enum report_size {
    REPORT_WORK_BYTES = 1,
    REPORT_DRAWN_BYTES,  /* random bytes: keys of all servers but the last; with proofs a blind, and those of wires */
    REPORT_STREAM_BYTES, /* of each key */
    REPORT_SEED_STREAM_BYTES,   /* 0 without proofs */
    REPORT_KEYED_PAYLOAD_BYTES, /* of every server but the last */
    REPORT_LAST_PAYLOAD_BYTES,
};
enum report_result {
    REPORT_DONE,
    REPORT_OUTSIDE,    /* a number that is not finite, or a row outside the ball: nothing can be sent of it */
    REPORT_DRAW_AGAIN, /* a word is p: draw all bytes anew (in one report of 2^50) */
};

/* Everything public about a collection's reports, then for proofs `weights` and `order` of the digits, and tables. */
struct report_plan {
    uint64_t kind, columns, bits, servers, words; /* words of a share */
    double radius;                                /* or 0 for none */
    uint64_t column_digits, slack_digits, digits, products, rows;
    int64_t scale, low, ball; /* C^2, or -1 for none */
    uint8_t digest[DIGEST_BYTES];
    uint64_t tables[];
};

static int is_proved(const struct report_plan *plan)
{
    return plan->kind >= REPORT_PROVED_ROWS;
}

static int has_moments(const struct report_plan *plan)
{
    return plan->kind == REPORT_MOMENTS || plan->kind == REPORT_PROVED_MOMENTS;
}

static int has_cells(const struct report_plan *plan)
{
    return plan->kind == REPORT_PROVED_CELLS;
}

static uint64_t element(int64_t value)
{
    return (uint64_t)value + (M61 & (uint64_t)(value >> 63));
}

/* The circuit, and the tables in the plan (dpmpc/linear/proving/circuit.py). */
static struct proof_circuit circuit_of(const struct report_plan *plan)
{
    return (struct proof_circuit){
        .squares = has_moments(plan)     ? PROOF_PRODUCTS
                   : plan->products != 0 ? PROOF_SQUARED_COLUMNS
                                         : PROOF_NO_SQUARES,
        .columns = has_cells(plan) ? 0 : plan->columns,
        .column_digits = plan->column_digits,
        .digits = plan->digits,
        .products = plan->products,
        .rows = plan->rows,
        .low = element(plan->low),
        .weights = plan->tables,
    };
}

static struct proof_tables tables_of(const struct report_plan *plan)
{
    const size_t N = plan->rows, points = 3 * N + 1;
    const uint64_t *wires = plan->tables + 2 * plan->column_digits;
    return (struct proof_tables){wires, wires + points * (N + 1), wires + points * (N + 1) + points * N};
}

static size_t table_words(const struct report_plan *plan)
{
    const size_t N = plan->rows, points = 3 * N + 1;
    return is_proved(plan) ? 2 * plan->column_digits + points * (2 * N + 2) : 0;
}

/* ---- the plan ---- */

static uint64_t power(uint64_t base, uint64_t exponent)
{
    uint64_t result = 1;
    for (; exponent; exponent >>= 1, base = multiply(base, base))
        if (exponent & 1)
            result = multiply(result, base);
    return result;
}

static uint64_t inverse(uint64_t x)
{
    return power(x, M61 - 2);
}

/* Weights at `at` of the polynomial through the values at first, ..., last. */
static void interpolation(uint64_t first, uint64_t last, uint64_t at, uint64_t *weights)
{
    for (uint64_t i = first; i <= last; i++) {
        uint64_t above = 1, below = 1;
        for (uint64_t j = first; j <= last; j++)
            if (j != i) {
                above = multiply(above, subtract(at, j));
                below = multiply(below, subtract(i, j));
            }
        weights[i - first] = multiply(above, inverse(below));
    }
}

/* 1, 4, 16, .. as long as their digits reach at most `span`, and a third of the rest; return how many. */
static size_t digit_weights(uint64_t span, uint64_t *weights)
{
    size_t count = 0;
    uint64_t next = 1;
    for (; 4 * next - 1 <= span; next *= 4)
        weights[count++] = next;
    if (span - (next - 1))
        weights[count++] = (span - (next - 1)) / 3;
    return count;
}

/* Places of weights from the largest down, the first of equal ones first. */
static void descending(const uint64_t *weights, size_t count, uint64_t *order)
{
    for (size_t i = 0; i < count; i++) {
        size_t at = i;
        for (; at && weights[order[at - 1]] < weights[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

/* N, by which record and message are shortest. */
static size_t best_rows(struct report_plan plan)
{
    size_t best = 1, least_cost = SIZE_MAX;
    for (plan.rows = 1; (plan.rows - 1) * (plan.rows - 1) <= plan.digits; plan.rows++) {
        const struct proof_circuit C = circuit_of(&plan);
        const size_t cost = proof_words(&C) + proof_wires(&C);
        if (cost < least_cost)
            least_cost = cost, best = plan.rows;
    }
    return best;
}

/* Fill in all but tables and digest; return 0 where there can be no such plan. */
static int describe(struct report_plan *plan, uint32_t kind, uint32_t columns, uint32_t bits, uint32_t servers,
                    double radius, int64_t ball)
{
    const uint64_t pairs = (uint64_t)columns * (columns + 1) / 2;
    *plan = (struct report_plan){.kind = kind, .columns = columns, .bits = bits, .servers = servers, .radius = radius};
    plan->ball = -1;
    if (kind > REPORT_PROVED_CELLS || !columns || columns > (has_cells(plan) ? MOST_CELLS : MOST_COLUMNS) ||
        servers < 2 || servers > MOST_SERVERS || !(radius >= 0 && radius <= 1e100) || !bits ||
        bits > (is_proved(plan) ? MOST_PROVED_BITS : MOST_PLAIN_BITS))
        return 0;
    if (!is_proved(plan)) {
        plan->scale = INT64_C(1) << bits;
        plan->words = has_moments(plan) ? columns + pairs : columns;
        const double limit = radius * (double)plan->scale;
        return kind != REPORT_ROWS || radius == 0 || (limit >= 1 && limit <= 0x1p51);
    }
    if (ball < -1 || (ball >= 0) > (radius > 0))
        return 0;
    if (has_cells(plan)) {
        plan->scale = 1;
        plan->digits = columns;
        plan->rows = best_rows(*plan);
        const struct proof_circuit cells = circuit_of(plan);
        plan->words = proof_words(&cells);
        return radius == 0;
    }
    plan->ball = ball;
    plan->scale = (INT64_C(1) << bits) - 1;
    plan->low = -plan->scale - (3 - 2 * plan->scale % 3) % 3; /* from which digits reach the scale exactly */
    uint64_t weights[MOST_DIGITS];
    plan->column_digits = digit_weights((uint64_t)(plan->scale - plan->low), weights);
    wide reach = (wide)(ball < 0 ? 0 : ball) + (wide)columns * (uint64_t)(plan->low * plan->low), digits = 1;
    for (; ball >= 0 && digits <= (wide)ball; digits *= 4)
        plan->slack_digits++;
    if (ball >= 0 && reach + digits >= M61) /* |z|^2 <= C^2 could hold modulo p alone */
        return 0;
    plan->digits = columns * plan->column_digits + plan->slack_digits;
    plan->products = has_moments(plan) ? pairs : ball < 0 ? 0 : columns;
    plan->rows = best_rows(*plan);
    const struct proof_circuit C = circuit_of(plan);
    plan->words = proof_words(&C);
    return 1;
}

/* Bytes of the plan of such reports; 0 where none can be made: the limits are those of the package.
 *
 * `columns` are those of a row, or the cells of all grids. `bits` are the fractional ones. `radius` is that of the
 * statistic, or 0 for none. `ball` is C^2 of proofs (`dpmpc.linear.proving.statements.widened_ball`), or -1 where there is no
 * radius or the ball holds the whole box. */
API size_t report_plan_bytes(uint32_t kind, uint32_t columns, uint32_t bits, uint32_t servers, double radius,
                             int64_t ball)
{
    struct report_plan plan;
    return describe(&plan, kind, columns, bits, servers, radius, ball) ? sizeof plan + 8 * table_words(&plan) : 0;
}

/* Overwrite `plan`, for a collection's digest of 32 bytes, and return 0; leave it and return 1 where
 * `report_plan_bytes` is 0. */
API int report_plan(uint32_t kind, uint32_t columns, uint32_t bits, uint32_t servers, double radius, int64_t ball,
                    const uint8_t *digest, struct report_plan *plan)
{
    struct report_plan described;
    if (!describe(&described, kind, columns, bits, servers, radius, ball))
        return 1;
    *plan = described;
    memcpy(plan->digest, digest, DIGEST_BYTES);
    if (!is_proved(plan))
        return 0;
    if (!has_cells(plan)) {
        digit_weights((uint64_t)(plan->scale - plan->low), plan->tables);
        descending(plan->tables, plan->column_digits, plan->tables + plan->column_digits);
    }
    const size_t N = plan->rows, points = 3 * N + 1;
    uint64_t *wires = plan->tables + 2 * plan->column_digits;
    uint64_t *outputs = wires + points * (N + 1), *inverses = outputs + points * N;
    for (size_t i = 0; i < points; i++) {
        const uint64_t at = i ? N + i : 0;
        uint64_t vanishing = 1;
        interpolation(0, N, at, wires + i * (N + 1));
        interpolation(1, N, at, outputs + i * N);
        for (uint64_t row = 1; row <= N; row++)
            vanishing = multiply(vanishing, subtract(at, row));
        inverses[i] = inverse(vanishing);
    }
    return 0;
}

/* Where things lie in `work`, in words: the share of the last server, then what it is made of. */
struct places {
    size_t z, integers, features, witness, joint, blinds, proof, parts, scratch, words;
    size_t witness_words, joint_words, wires; /* counts */
};

static struct places places_in(const struct report_plan *plan)
{
    struct places at = {.z = plan->words};
    at.integers = at.z + plan->columns;
    at.features = at.integers + plan->columns;
    if (!is_proved(plan)) {
        at.words = at.features + plan->words;
        return at;
    }
    const struct proof_circuit C = circuit_of(plan);
    at.witness_words = C.digits + C.products;
    at.joint_words = proof_joint_words(&C);
    at.wires = proof_wires(&C);
    at.witness = at.features;
    at.joint = at.witness + at.witness_words;
    at.blinds = at.joint + at.joint_words;
    at.proof = at.blinds + at.wires;
    at.parts = at.proof + plan->words - at.witness_words;
    at.scratch = at.parts + (sizeof(uint64_t) + DIGEST_BYTES) / 8 * plan->servers;
    at.words = at.scratch + proof_scratch_words(&C);
    return at;
}

static size_t listed_bytes(const struct report_plan *plan)
{
    return is_proved(plan) ? DIGEST_BYTES * plan->servers : 0;
}

/* Return one of the sizes, in bytes; 0 for another number. */
API size_t report_size(const struct report_plan *plan, uint32_t which)
{
    const struct places at = places_in(plan);
    const size_t keys = KEY_BYTES * (plan->servers - 1);
    switch (which) {
        case REPORT_WORK_BYTES:
            return 8 * at.words;
        case REPORT_DRAWN_BYTES:
            return is_proved(plan) ? keys + KEY_BYTES + 8 * at.wires : keys;
        case REPORT_STREAM_BYTES:
            return 8 * plan->words;
        case REPORT_SEED_STREAM_BYTES:
            return is_proved(plan) ? 8 * (at.joint_words + SPARE) : 0;
        case REPORT_KEYED_PAYLOAD_BYTES:
            return KEY_BYTES + listed_bytes(plan);
        case REPORT_LAST_PAYLOAD_BYTES:
            return (is_proved(plan) ? KEY_BYTES : 0) + listed_bytes(plan) + 8 * plan->words;
        default:
            return 0;
    }
}

/* ---- hashes ---- */

/* SHA-256 of a text. */
API void report_sha256(const uint8_t *text, size_t bytes, uint8_t *digest)
{
    sha256(text, 0, text, 1, bytes, digest);
}

/* HMAC-SHA256 (RFC 2104) with a key of up to 64 bytes; returns 1 where it is longer. `mac` may be `text`. */
API int report_hmac(const uint8_t *key, size_t key_bytes, const uint8_t *text, size_t bytes, uint8_t *mac)
{
    uint8_t padded[BLOCK_BYTES], digest[DIGEST_BYTES];
    if (key_bytes > BLOCK_BYTES)
        return 1;
    for (size_t i = 0; i < BLOCK_BYTES; i++)
        padded[i] = 0x36 ^ (i < key_bytes ? key[i] : 0);
    sha256(padded, BLOCK_BYTES, text, 1, bytes, digest);
    for (size_t i = 0; i < BLOCK_BYTES; i++)
        padded[i] ^= 0x36 ^ 0x5c;
    sha256(padded, BLOCK_BYTES, digest, 1, DIGEST_BYTES, mac);
    overwrite(padded, 0, sizeof padded);
    overwrite(digest, 0, sizeof digest);
    return 0;
}

/* Write a part after its length, as `dpmpc.linear.proving.joint.framed` does; return where the next one goes. */
static uint8_t *framed(uint8_t *to, const void *part, uint64_t bytes)
{
    memcpy(to, &bytes, sizeof bytes);
    memcpy(to + sizeof bytes, part, bytes);
    return to + sizeof bytes + bytes;
}

/* What is hashed before the share of a server: "part", digest, id, server, blind, and the share's length. */
static void hash_part(const struct report_plan *plan, const uint8_t *id, uint8_t server, const uint8_t *blind,
                      size_t blind_bytes, const void *share, uint64_t bytes, uint8_t *digest)
{
    uint8_t head[5 + 5 * 8 + DIGEST_BYTES + ID_BYTES + 1 + KEY_BYTES], *to = head + 5;
    memcpy(head, "part", 5);
    to = framed(to, plan->digest, DIGEST_BYTES);
    to = framed(to, id, ID_BYTES);
    to = framed(to, &server, 1);
    to = framed(to, blind, blind_bytes);
    memcpy(to, &bytes, sizeof bytes), to += sizeof bytes;
    sha256(head, (size_t)(to - head), share, 1, bytes, digest);
    overwrite(head, 0, sizeof head);
}

/* ---- one report ---- */

/* z, of `columns` numbers: each clipped to its bounds, which are mapped to -1 and 1. Returns 0, or `REPORT_OUTSIDE`
 * where a number is not finite. */
API int report_normalise(uint32_t columns, const double *row, const double *lower, const double *upper, double *z)
{
    const double least = -INFINITY, most = INFINITY;
    int refused = 0;
    for (uint32_t j = 0; j < columns; j++) {
        const double middle = lower[j] / 2 + upper[j] / 2, half_width = upper[j] / 2 - lower[j] / 2;
        const struct row_bounds bounds = {&middle, &half_width, &least, &most, 1};
        refused |= normalise_rows(row + j, 1, &bounds, z + j);
    }
    return refused ? REPORT_OUTSIDE : REPORT_DONE;
}

/* Overwrite `share_keys` with those of the drawn `keys` of all servers but the last, 16 bytes each. */
API void report_share_keys(const struct report_plan *plan, const uint8_t *keys, uint8_t *share_keys)
{
    uint8_t info[21 + 1 + 8 + 1], mac[DIGEST_BYTES];
    memcpy(info, "dpmpc v1 report share", 22);
    info[30] = 1; /* the first block of HKDF's expansion (RFC 5869) */
    for (uint64_t server = 0; server + 1 < plan->servers; server++) {
        const size_t at = KEY_BYTES * server;
        if (is_proved(plan)) {
            memcpy(share_keys + at, keys + at, KEY_BYTES);
            continue;
        }
        memcpy(info + 22, &server, 8);
        report_hmac(plan->digest, DIGEST_BYTES, keys + at, KEY_BYTES, mac);
        report_hmac(mac, DIGEST_BYTES, info, sizeof info, mac);
        memcpy(share_keys + at, mac, KEY_BYTES);
        overwrite(mac, 0, sizeof mac);
    }
}

/* Shrink z to norm `radius`, and so much more that rounding cannot exceed it (`dpmpc.data.schemas.clip_ball`). */
static void shrink(double *z, size_t columns, double radius)
{
    const double reach = radius * (1 - (double)(columns + 4) * 0x1p-52);
    double squares = 0, factor;
    for (size_t j = 0; j < columns; j++)
        squares += z[j] * z[j];
    factor = reach / sqrt(squares);
    factor = factor < 1 ? factor : 1;
    for (size_t j = 0; j < columns; j++)
        z[j] *= factor;
}

/* The integers of a row without proofs: of itself, or of its second moments. */
static int encode(const struct report_plan *plan, double *z, double *features, int64_t *entries)
{
    const double scale = (double)plan->scale, weight = has_moments(plan) ? ROOT : 1;
    const double high = __builtin_rint(weight * scale), low = -high;
    if (plan->kind == REPORT_ROWS && plan->radius > 0)
        return encode_ball(z, 1, plan->columns, scale, (int64_t)(plan->radius * scale), entries);
    if (plan->radius > 0)
        shrink(z, plan->columns, plan->radius);
    if (plan->kind == REPORT_ROWS)
        return encode_box(z, plan->columns, scale, &low, &high, 1, entries);
    second_moments(z, 1, plan->columns, weight, features);
    return encode_box(features, plan->words, scale, &low, &high, 1, entries);
}

/* 1 if a >= b, both below 2^63, otherwise 0. */
INLINE uint64_t at_least(uint64_t a, uint64_t b)
{
    return 1 - ((a - b) >> 63);
}

/* Digits, slack and products, or a digit for each cell; returns non-zero where the row is outside the ball. */
static int make_witness(const struct report_plan *plan, const int64_t *z, uint64_t *witness)
{
    const size_t m = plan->column_digits, d = plan->columns;
    for (size_t j = 0; has_cells(plan) && j < d; j++)
        witness[j] = (uint64_t)z[j];
    if (has_cells(plan))
        return 0;
    const uint64_t *weights = plan->tables, *order = weights + m;
    uint64_t squares = 0, left;
    for (size_t j = 0; j < d; j++, witness += m) {
        left = (uint64_t)(z[j] - plan->low);
        squares += (uint64_t)(z[j] * z[j]);
        for (size_t k = 0; k < m; k++) {
            const uint64_t w = weights[order[k]];
            const uint64_t digit = at_least(left, w) + at_least(left, 2 * w) + at_least(left, 3 * w);
            witness[order[k]] = digit;
            left -= digit * w;
        }
    }
    left = (uint64_t)plan->ball - squares;
    for (size_t k = 0; k < plan->slack_digits; k++)
        *witness++ = left >> 2 * k & 3;
    for (size_t a = 0; plan->products && a < d; a++)
        for (size_t b = a; b < (has_moments(plan) ? d : a + 1); b++)
            *witness++ = element(z[a] * z[b]);
    return plan->ball >= 0 && left >> 63;
}

/* The low 61 bits of words; returns non-zero where one of them is p, which is no element. */
static int to_elements(uint64_t *words, size_t count)
{
    int found = 0;
    for (size_t i = 0; i < count; i++)
        found |= (words[i] &= M61) == M61;
    return found;
}

/* Share a row z of `report_normalise`, in a report with this id of 16 bytes; of cells z is 1 in the one of each grid
 * that the row is in, and 0 elsewhere.
 *
 * `drawn` are `REPORT_DRAWN_BYTES` fresh random bytes; `streams`, one for each of the keys of `report_share_keys`, are
 * overwritten. With proofs `seed` gets 32 bytes. Returns what a `report_result` says. */
API int report_begin(const struct report_plan *plan, const uint8_t *id, const double *z, const uint8_t *drawn,
                     uint64_t *streams, uint64_t *work, uint8_t *seed)
{
    const struct places at = places_in(plan);
    const size_t keyed = plan->servers - 1;
    double *row = (double *)(work + at.z);
    memcpy(row, z, plan->columns * sizeof *z);
    if (!is_proved(plan)) {
        if (encode(plan, row, (double *)(work + at.features), (int64_t *)work))
            return REPORT_OUTSIDE;
        for (size_t j = 0; j < keyed; j++)
            for (size_t i = 0; i < plan->words; i++)
                work[i] -= streams[j * plan->words + i];
        return REPORT_DONE;
    }
    const double high = (double)plan->scale, low = has_cells(plan) ? 0 : -high;
    int64_t *integers = (int64_t *)(work + at.integers);
    if (plan->radius > 0)
        shrink(row, plan->columns, plan->radius);
    if (encode_box(row, plan->columns, high, &low, &high, 1, integers) ||
        make_witness(plan, integers, work + at.witness))
        return REPORT_OUTSIDE;
    memcpy(work + at.blinds, drawn + KEY_BYTES * plan->servers, at.wires * sizeof *work);
    if (to_elements(work + at.blinds, at.wires) | to_elements(streams, keyed * plan->words))
        return REPORT_DRAW_AGAIN;
    memcpy(work, work + at.witness, at.witness_words * sizeof *work);
    for (size_t j = 0; j < keyed; j++)
        for (size_t i = 0; i < at.witness_words; i++)
            work[i] = subtract(work[i], streams[j * plan->words + i]);
    uint8_t head[5 + 2 * 8 + DIGEST_BYTES + ID_BYTES], *listed = (uint8_t *)(work + at.parts);
    const uint64_t length = DIGEST_BYTES;
    for (size_t j = 0; j <= keyed; j++, listed += sizeof length + DIGEST_BYTES) {
        const uint8_t *own = drawn + KEY_BYTES * j; /* a key or the blind */
        memcpy(listed, &length, sizeof length);
        if (j < keyed)
            hash_part(plan, id, (uint8_t)j, own, 0, own, KEY_BYTES, listed + sizeof length);
        else
            hash_part(plan, id, (uint8_t)j, own, KEY_BYTES, work, 8 * at.witness_words, listed + sizeof length);
    }
    memcpy(head, "seed", 5);
    framed(framed(head + 5, plan->digest, DIGEST_BYTES), id, ID_BYTES);
    sha256(head, sizeof head, (const uint8_t *)(work + at.parts), 1, (sizeof length + DIGEST_BYTES) * plan->servers,
           seed);
    return REPORT_DONE;
}

/* Prove what was shared, by the seed's stream of `REPORT_SEED_STREAM_BYTES`, and write all payloads, that of server 0
 * first. Overwrites `streams` and `work`. */
API int report_end(const struct report_plan *plan, const uint8_t *drawn, uint64_t *streams, const uint64_t *seed_stream,
                   uint64_t *work, uint8_t *payloads)
{
    const struct places at = places_in(plan);
    const size_t keyed = plan->servers - 1, n = at.witness_words;
    size_t found = 0;
    if (is_proved(plan)) {
        const struct proof_circuit C = circuit_of(plan);
        const struct proof_tables tables = tables_of(plan);
        for (size_t i = 0; i < at.joint_words + SPARE && found < at.joint_words; i++)
            if ((seed_stream[i] & M61) != M61)
                work[at.joint + found++] = seed_stream[i] & M61;
        prove(&C, &tables, 1, work + at.witness, work + at.joint, work + at.blinds, work + at.proof, work + at.scratch);
        memcpy(work + n, work + at.proof, (plan->words - n) * sizeof *work);
        for (size_t j = 0; j < keyed; j++)
            for (size_t i = n; i < plan->words; i++)
                work[i] = subtract(work[i], streams[j * plan->words + i]);
    }
    for (size_t j = 0; j <= keyed; j++) {
        if (j < keyed || is_proved(plan))
            memcpy(payloads, drawn + KEY_BYTES * j, KEY_BYTES), payloads += KEY_BYTES;
        for (size_t k = 0; is_proved(plan) && k <= keyed; k++, payloads += DIGEST_BYTES)
            memcpy(payloads, (const uint8_t *)(work + at.parts) + (8 + DIGEST_BYTES) * k + 8, DIGEST_BYTES);
    }
    memcpy(payloads, work, plan->words * sizeof *work);
    overwrite(work, 0, at.words * sizeof *work);
    overwrite(streams, 0, keyed * plan->words * sizeof *streams);
    return found < at.joint_words ? REPORT_DRAW_AGAIN : REPORT_DONE;
}

/* ---- what clang needs where there is no library of C ---- */

#ifdef __wasm__

static uint64_t high_half(uint64_t a, uint64_t b)
{
    const uint64_t low = UINT32_MAX, first = (a >> 32) * (b & low) + ((a & low) * (b & low) >> 32);
    return (a >> 32) * (b >> 32) + (first >> 32) + (((a & low) * (b >> 32) + (first & low)) >> 32);
}

__int128 __multi3(__int128 a, __int128 b);
__int128 __multi3(__int128 a, __int128 b)
{
    const uint64_t x = (uint64_t)a, y = (uint64_t)b;
    const uint64_t high = high_half(x, y) + x * (uint64_t)((wide)b >> 64) + y * (uint64_t)((wide)a >> 64);
    return (__int128)((wide)high << 64 | x * y);
}

void *memcpy(void *to, const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)to)[i] = ((const uint8_t *)from)[i];
    return to;
}

void *memset(void *to, int byte, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)to)[i] = (uint8_t)byte;
    return to;
}

#endif
