"""The release of a collection: M servers, no analyst, and nothing opened that any of them refuses.

Parties: the servers of a collection, each with a spool of shares that clients have uploaded for weeks, a ledger of what
it has opened, and a signing key. What they send to one another, step by step, and why nothing is opened twice, is
`dpmpc.collect.opening.release_protocol`.

These parties are not started as processes of one machine on generated people, as those of the other programs are: each
server is started by its operator, on its own folder. docs/deploy.md goes through a collection from the first
command to the last. A server's part in the release is ::

    dpmpc release COLLECTION --server I --folder DIR --out release.dpmpc
"""

from __future__ import annotations

import sys

from dpmpc.base.errors import InputError

INSTEAD = """\
collected_release: no collection given. Each server of a collection takes part in its release by its own command,
  dpmpc release COLLECTION --server I --folder DIR --out release.dpmpc
and docs/deploy.md goes through a collection, from its task file to the check of what was released.
"""


def main() -> int:
    """Return what to run instead."""
    sys.stderr.write(INSTEAD)
    return InputError.exit_status


if __name__ == "__main__":
    sys.exit(main())
