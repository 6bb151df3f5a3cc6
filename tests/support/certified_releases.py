"""Release files that are signed as the servers do it, in one process."""

import dataclasses
import datetime

from dpmpc.collect.opening.pieces import WithoutMask
from dpmpc.collect.terms.certificate import Certificate, manifest_of, save, state
from dpmpc.collect.upload.reports import ReportFormat
from dpmpc.linear.sharing.batch import ArrayShare
from dpmpc.release.analyst import open_robustly
from dpmpc.release.release import Release
from dpmpc.release.server import transform
from support.release_processes import Trial
from support.report_words import words_of

TOSS, BATCH = bytes(range(32)), bytes(range(32, 64))


@dataclasses.dataclass
class Certified:
    """A release file that was signed as the servers do it, and what is needed to sign another one."""

    trial: object
    path: object
    certificate: Certificate
    release: Release

    def signed(self, statement):
        """Return a certificate with sound signatures of the same servers."""
        identities = {server: self.trial.folder(int(server)) / "identity" for server in statement.wrong}
        return Certificate(
            1, statement, {server: statement.sign(folder).hex() for server, folder in identities.items()}
        )


def certify(root, servers, without, **options):
    trial = Trial.make(root / "trial", servers, **options)
    collection = trial.collection
    task = collection.task(len(trial.ids), TOSS)
    present = [server for server in range(servers) if server not in without]

    def share_of(server):
        words = words_of(ReportFormat(collection, server), b"".join(trial.records[server]))
        share = ArrayShare(words, task.encoding.ring)
        return WithoutMask(share, task.share_shape) if collection.checked_dealing else share

    shares = {server: transform(task, share_of(server)) for server in present}
    release, wrong = open_robustly(task, shares)
    manifest = manifest_of(collection, task, batch=BATCH, toss=TOSS, time=datetime.datetime.now(datetime.UTC))
    statement = state(collection, manifest, release, dict.fromkeys(present, wrong))
    certified = Certified(trial, root / "release.dpmpc", Certificate(1, statement, {}), release)
    certified.certificate = certified.signed(statement)
    save(release, certified.certificate, certified.path)
    return certified
