"""`data_owners`, with one owner that announces something else to one other."""

import os

from dpmpc.protocols import data_owners
from support.hostile.servers import tell_other_words

prepare = data_owners.prepare


async def main(party):
    if party.pid == int(os.environ["LIAR"]):
        tell_other_words(os.environ["KIND"], [1], "", int(os.environ["NTH"]), party.runtime)
    return await data_owners.main(party)
