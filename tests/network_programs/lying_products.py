"""`unopened_moment` or `unopened_ridge`, but some servers lie, each in one of the ways that a server of MPyC's can.

Arguments: "liars", "deed", "program", and "marks", a folder where each server that opens its share leaves a mark.
"""

import importlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from mpyc.runtime import mpc

from dpmpc.parties.mpyc import checked, secret_arrays
from dpmpc.parties.mpyc.secret_arrays import as_words_of, secret_array
from dpmpc.parties.mpyc.word_arrays import word_array
from dpmpc.parties.network import backend

P = 2**61 - 1


def other(words):
    """The same numbers but for the first, which is larger by one."""
    changed = np.array(words, np.uint64)
    changed.flat[0] = (int(changed.flat[0]) + 1) % P
    return changed


def altered(x, column):
    """The same secret array, of which this server holds another share: a number of one column is larger by one.

    Program counters stay as they are, so that messages go on as the other servers expect them.
    """
    before = list(mpc._program_counter)
    changed = _altered(x, column)
    mpc._program_counter[:] = before
    return changed


@mpc.coroutine
async def _altered(x, column):
    await mpc.returnType((type(x), x.shape))
    words = as_words_of(await mpc.gather(x)).copy()
    words[:, column] = other(words[:, column])
    return word_array(type(x).sectype.field, words)


def alter_the_share(program):
    honest = secret_arrays.sketch_share
    secret_arrays.sketch_share = lambda *arguments, **options: other(honest(*arguments, **options))


def multiply_another(column):
    def deed(program):
        checked.np = SimpleNamespace(**{**vars(np), "hstack": lambda parts: altered(np.hstack(parts), column)})

    return deed


def deal_another_product(program):
    """Deal sound shares of a product that is larger by one."""
    thresha = backend.mpyc_runtime.thresha
    honest = thresha.random_split
    thresha.random_split = lambda field, s, t, m: honest(field, [s[0] + 1, *s[1:]], t, m)


def deal_no_shares(program):
    """Deal products to the others that fit no polynomial, where there are enough of them to notice."""
    thresha = backend.mpyc_runtime.thresha
    honest = thresha.random_split

    def split(field, s, t, m):
        shares = honest(field, s, t, m)
        victim = (mpc.pid + 1) % m
        shares[victim] = [(value + 1) % P for value in shares[victim]]
        return shares

    thresha.random_split = split


def deal_another_number(change):
    """Deal server 0 a share of a product with another number of elements."""

    def deed(program):
        thresha = backend.mpyc_runtime.thresha
        honest = thresha.random_split

        def split(field, s, t, m):
            shares = honest(field, s, t, m)
            shares[0] = change(shares[0])
            return shares

        thresha.random_split = split

    return deed


def show_another(what):
    def deed(program):
        honest = checked._opened
        checked._opened = lambda share, name: honest(other(share) if name == what else share, name)

    return deed


def tell_one_server_another_mask(program):
    """Show server 0 another share of s than the rest."""
    honest, send = checked._opened, mpc._send_message

    async def opened(share, name):
        if name == "mask":
            changed = other(share).tobytes()
            mpc._send_message = lambda peer, data: send(peer, changed if peer == 0 else data)
        try:
            return await honest(share, name)
        finally:
            mpc._send_message = send

    checked._opened = opened


def deal_one_server_another_mask(program):
    """Deal server 0 a share of the mask that does not fit those of the others."""
    kind = secret_array("shamir")
    honest = kind.deal

    def deal(words):
        messages, own = honest(words)
        changed = other(np.frombuffer(messages[0], np.uint64)).tobytes()
        return [changed, *messages[1:]], own

    kind.deal = staticmethod(deal)


DEEDS = {
    "alter the share": alter_the_share,
    "multiply another share": multiply_another(0),
    "multiply another mask": multiply_another(-1),
    "deal another product": deal_another_product,
    "deal no shares": deal_no_shares,
    "deal too few": deal_another_number(lambda share: share[:-1]),
    "deal too many": deal_another_number(lambda share: [*share, 5]),
    "open another mask": show_another("mask"),
    "open another difference": show_another("difference"),
    "tell one server another mask": tell_one_server_another_mask,
    "deal one server another mask": deal_one_server_another_mask,
    "nothing": lambda program: None,
}


async def main():
    arguments = mpc.party.arguments
    program, marks = importlib.import_module(arguments["program"]), Path(arguments["marks"])
    honest = mpc.output

    def marked(x, receivers):
        (marks / f"server-{mpc.pid}").touch()
        return honest(x, receivers=receivers)

    if mpc.pid < len(mpc.parties):
        mpc.output = marked
    if mpc.pid in arguments["liars"]:
        DEEDS[arguments["deed"]](program)
    return await program.main()
