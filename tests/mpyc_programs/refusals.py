"""What is refused, with the words that say so; one party, which needs no other."""

import json

import numpy as np
from mpyc.runtime import mpc

from dpmpc.base.errors import InputError
from dpmpc.linear.sketching import CountSketch
from dpmpc.linear.sketching.sparse import Sum
from dpmpc.parties.mpyc import sketch
from dpmpc.parties.mpyc.added_noise import task_for_parties

S = CountSketch(4, 8, bytes(32))
P = 2**61 - 1


def words_of(refused):
    try:
        return list(refused().shape)
    except InputError as error:
        return str(error)


async def main():
    bits, field = mpc.SecFld(2**8), mpc.SecFld(P)
    x = field.array(field.field.array(np.zeros((8, 2), object)))
    other = bits.array(bits.field.array(np.zeros((8, 2), object)))
    tight, wide = mpc.SecInt(16, p=2**61 - 1), mpc.SecInt(60, p=2**127 - 1)
    most = mpc.SecInt(29, p=2**61 - 1)
    largest = most.array(most.field.array(np.zeros((8, 2), object)))
    integers = tight.array(tight.field.array(np.zeros((8, 2), object)))
    cases = {
        "at": lambda: S @ x,
        "apply": lambda: S.apply(x),
        "plain": lambda: sketch(S, np.zeros((8, 2), np.uint64)),
        "field": lambda: sketch(S, other),
        "narrow": lambda: sketch(S, integers, as_type=mpc.SecInt(18, p=2**61 - 1)),
        "other field": lambda: sketch(S, integers, as_type=wide),
        "wraps": lambda: sketch(Sum(columns=2**33), largest),
        "alone": lambda: task_for_parties(None),
        "shape": lambda: sketch(S, x[:, 0]),
        "clients": lambda: sketch(S, x, first=1),
    }
    print(json.dumps({name: words_of(case) for name, case in cases.items()}))


if __name__ == "__main__":
    mpc.run(main())
