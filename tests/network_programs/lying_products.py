"""`unopened_moment` or `unopened_ridge`, but some servers lie, each in one of the ways that a server of MPyC's can.

Arguments: "liars", "deed", "program", and "marks", a folder where each server that opens its share leaves a mark.
"""

import importlib
from pathlib import Path

import numpy as np

from dpmpc.mpyc import checked
from dpmpc.network import backend
from dpmpc.network.frames import Kind

P = 2**61 - 1


def other(words):
    """The same numbers but for the first, which is larger by one."""
    changed = np.array(words, np.uint64)
    changed.flat[0] = (int(changed.flat[0]) + 1) % P
    return changed


def alter_the_share(party, program):
    honest = program.sketch_alone

    async def altered(*arguments):
        return other(await honest(*arguments))

    program.sketch_alone = altered


def multiply_another_share(party, program):
    honest = checked.secure_array
    checked.secure_array = lambda party, task, words: honest(party, task, other(words))


def multiply_another_mask(party, program):
    honest = checked.secure_array

    def altered(party, task, words):
        changed = words.copy()
        changed[:, -1] = other(changed[:, -1])
        return honest(party, task, changed)

    checked.secure_array = altered


def deal_another_product(party, program):
    """Deal sound shares of a product that is larger by one."""
    thresha = backend.mpyc_runtime.thresha
    honest = thresha.random_split
    thresha.random_split = lambda field, s, t, m: honest(field, [s[0] + 1, *s[1:]], t, m)


def deal_no_shares(party, program):
    """Deal products to the others that fit no polynomial, where there are enough of them to notice."""
    thresha = backend.mpyc_runtime.thresha
    honest = thresha.random_split

    def split(field, s, t, m):
        shares = honest(field, s, t, m)
        victim = (party.pid + 1) % m
        shares[victim] = [(value + 1) % P for value in shares[victim]]
        return shares

    thresha.random_split = split


def deal_another_number(change):
    """Deal server 0 a share of a product with another number of elements."""

    def deed(party, program):
        thresha = backend.mpyc_runtime.thresha
        honest = thresha.random_split

        def split(field, s, t, m):
            shares = honest(field, s, t, m)
            shares[0] = change(shares[0])
            return shares

        thresha.random_split = split

    return deed


def show_another(kind):
    def deed(party, program):
        honest = party.runtime.frame
        party.runtime.frame = lambda found, content=None: honest(found, other(content) if found is kind else content)

    return deed


def tell_one_server_another_mask(party, program):
    """Show one server another share of s than the rest."""
    honest = party.runtime.send_frame

    async def send(receiver, frame):
        if frame.kind is Kind.MASKED and receiver == 0:
            frame = party.runtime.frame(Kind.MASKED, other(frame.words))
        await honest(receiver, frame)

    party.runtime.send_frame = send


def deal_one_server_another_mask(party, program):
    """Deal server 0 a share of the mask that does not fit those of the others."""
    honest = party.runtime.send_frame

    async def send(receiver, frame):
        if frame.kind is Kind.MASK and receiver == 0:
            frame = party.runtime.frame(Kind.MASK, other(frame.words))
        await honest(receiver, frame)

    party.runtime.send_frame = send


DEEDS = {
    "alter the share": alter_the_share,
    "multiply another share": multiply_another_share,
    "multiply another mask": multiply_another_mask,
    "deal another product": deal_another_product,
    "deal no shares": deal_no_shares,
    "deal too few": deal_another_number(lambda share: share[:-1]),
    "deal too many": deal_another_number(lambda share: [*share, 5]),
    "open another mask": show_another(Kind.MASKED),
    "open another difference": show_another(Kind.DIFFERENCE),
    "tell one server another mask": tell_one_server_another_mask,
    "deal one server another mask": deal_one_server_another_mask,
    "nothing": lambda party, program: None,
}


async def main(party):
    program = importlib.import_module(party.arguments["program"])
    honest, marks = program.open_to_analyst, Path(party.arguments["marks"])

    async def marked(party, secret):
        (marks / f"server-{party.pid}").touch()
        await honest(party, secret)

    program.open_to_analyst = marked
    if party.pid in party.arguments["liars"]:
        DEEDS[party.arguments["deed"]](party, program)
    return await program.main(party)
