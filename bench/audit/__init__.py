"""Lower bounds on what a release gives away, measured, beside what is claimed.

A claim of privacy says that two neighbouring inputs are hard to tell apart. An audit plays the one who tries: it takes
the two worst inputs, runs the mechanism very often on each, decides by the best test that it knows, and counts the
errors. Few errors refute the claim. docs/audit.md has the method and the figures.

`rates` turns counts into bounds, `views` turns the noise that is there into bounds, `mechanism` is the audit and what
it asks of a mechanism, `sums` the releases of `dpmpc.privacy.task.Task` and of `dpmpc.owners.columns`, `whole_fit` all
releases of a regression in rounds together, `lost` who may be corrupt or missing in a release, `system_attacks` what
hostile servers and clients do to a release or a collection within the words of its claim, `registry` what the command
`python -m bench audit` audits.

Promised: if all claims of a run are true, then with the stated confidence none is refuted. Not promised: that a claim
which stands is true. An audit can refute and never prove: it tries one pair of inputs and one test, on small tasks, and
knows nothing of what the adversary might see besides the release. Of a collection it plays the part of hostile servers
and clients, but not that of the network.
"""

from typing import TYPE_CHECKING

from dpmpc.base.faces import face

if TYPE_CHECKING:
    from bench.audit.mechanism import AuditedMechanism, Subject, audit
    from bench.audit.registry import MECHANISMS
    from bench.audit.sums import Sums

__all__ = ["MECHANISMS", "AuditedMechanism", "Subject", "Sums", "audit"]

__getattr__, __dir__ = face(
    __name__,
    {
        "mechanism": ["AuditedMechanism", "Subject", "audit"],
        "registry": ["MECHANISMS"],
        "sums": ["Sums"],
    },
)
