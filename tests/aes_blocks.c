/* Round keys, single blocks and key streams by the functions of csrc/key_streams.c: see test_key_streams.py.
 *
 * Standard input has lines of a key and a block, in hexadecimal digits. For each the last round key and the encrypted
 * block are written, then streams as they are. */
#include "../csrc/key_streams.c"

#include <stdio.h>
#include <stdlib.h>

static int unhex(const char *digits, uint8_t *out)
{
    const int length = (int)strlen(digits) / 2;
    for (int i = 0; i < length; i++) {
        const char pair[] = {digits[2 * i], digits[2 * i + 1], 0};
        out[i] = (uint8_t)strtol(pair, NULL, 16);
    }
    return length;
}

static void tell(block x)
{
    uint8_t bytes[BLOCK_BYTES];
    store(bytes, x);
    for (int i = 0; i < BLOCK_BYTES; i++)
        printf("%02x", bytes[i]);
}

static void tell_streams(void)
{
    static uint8_t keys[32 * 9], out[9 * 8 * 90 + 9];
    for (int length = 16; length <= 32; length += 16)
        for (size_t words = 1; words < 90; words++)
            for (size_t count = 0; count < 10; count++) {
                memset(out, 0, sizeof out);
                for (size_t i = 0; i < (size_t)length * count; i++)
                    keys[i] = (uint8_t)(i * 37 + words * 11 + count);
                fill(keys, count, length, words, out + 1); /* no alignment is needed, and nothing beyond is written */
                fwrite(out, 1, 8 * words * count + 9, stdout);
            }
}

int main(void)
{
    char key_digits[65], block_digits[33];
    if (!keys_here())
        return 2;
    while (scanf("%64s %32s", key_digits, block_digits) == 2) {
        uint8_t keys[TOGETHER * 32] = {0}, bytes[BLOCK_BYTES];
        block round_keys[TOGETHER][MOST_ROUNDS + 1];
        const int length = unhex(key_digits, keys), rounds = 6 + length / 4;
        unhex(block_digits, bytes);
        if (length == 16)
            schedule(keys, 16, 1, round_keys);
        else
            schedule(keys, 32, 1, round_keys);
        block x = begin(load(bytes), round_keys[0][0]);
        for (int i = 1; i < rounds; i++)
            x = middle(x, round_keys[0][i - 1], round_keys[0][i]);
        tell(round_keys[0][rounds]);
        putchar(' ');
        tell(end(x, round_keys[0][rounds - 1], round_keys[0][rounds]));
        putchar('\n');
    }
    tell_streams();
    return 0;
}
