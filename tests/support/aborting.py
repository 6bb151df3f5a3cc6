"""A party that keeps what the others open towards it, and may break off as soon as it has everything.

What a repetition of the run shows such a party, beside what it has kept, is for a test to compare. By hand, as a data
owner of `dpmpc mix`, from the folder tests/::

    python -m support.aborting FOLDER_OF_PARTY FOLDER_FOR_WHAT_IS_KEPT
"""

import argparse
import os
import sys
from pathlib import Path

from dpmpc.parties.network.frames import Kind
from dpmpc.parties.network.runtime import PartyRuntime

BROKEN_OFF = 9  # exit status


def keep_shares(folder, break_off=True):
    """Keep the share of each other party as ``FOLDER/from-PARTY``; end this process once all of them are there."""
    receive = PartyRuntime.receive_frame

    async def kept(runtime, sender, kind, *arguments, **options):
        frame = await receive(runtime, sender, kind, *arguments, **options)
        if kind is Kind.SHARE:
            (Path(folder) / f"from-{sender}").write_bytes(frame.words.tobytes())
            if break_off and all((Path(folder) / f"from-{peer}").exists() for peer in runtime.peers):
                os._exit(BROKEN_OFF)
        return frame

    PartyRuntime.receive_frame = kept


def serve(argv, log, deed):
    """Run a server as `release_processes._serve` does; `deed` is the arguments of `keep_shares`, or None."""
    from support import release_processes

    if deed is not None:
        keep_shares(*deed)
    release_processes._serve(argv, log, None)


def main():
    """Take part in a run of `dpmpc mix`, keep what the others release, and break off."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("party", help="the folder of this party, as `dpmpc mix --prepare` has written it")
    parser.add_argument("kept", help="an empty folder")
    options = parser.parse_args()
    keep_shares(options.kept)
    sys.argv = ["party", options.party, "dpmpc.protocols.random_mixing"]
    from dpmpc.parties.network import party

    sys.exit(party.main())


if __name__ == "__main__":
    main()
