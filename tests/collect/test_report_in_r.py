"""The example of a client in R: its reports are the package's, sealed, and real servers take them."""

import datetime
import json
import os
import subprocess

import pytest

from bench.system.collection_servers import Servers
from dpmpc.collect.upload.report_ids import ID_BYTES
from dpmpc.collect.upload.reports import ReportFormat
from dpmpc.collect.upload.seal_folder import SealFolder, read_public
from dpmpc.collect.upload.sealing import Opener
from dpmpc.parties.network.identity import write_identity
from support.clients_in_r import CLIENT, built, has_r
from support.remade_reports import PROVED, design, remade

REMAKE = """
source(Sys.getenv("CLIENT"))
dyn.load(Sys.getenv("DPMPC_REPORT"))
given <- jsonlite::fromJSON(file("stdin"), simplifyVector = FALSE)
collection <- open_collection(bytes_of(given$task), given$digest)
made <- lapply(given$reports, function(one) {
  left <- lapply(one$drawn, bytes_of)
  draw <- function(n) { next_one <- left[[1]]; left <<- left[-1]; stopifnot(length(next_one) == n); next_one }
  digits_of(make_report(collection, setNames(as.double(unlist(one$row)), collection$names), draw)$body)
})
cat(jsonlite::toJSON(made, auto_unbox = TRUE))
"""


pytestmark = pytest.mark.skipif(not has_r(), reason="needs R with openssl, jsonlite and curl, and gcc")


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The arithmetic as R loads it."""
    library = built(tmp_path_factory.mktemp("r"))
    return {**os.environ, "DPMPC_REPORT": str(library), "CLIENT": str(CLIENT)}


@pytest.mark.parametrize("case", ["plain", "proved", "plain, rows", "proved, ten columns and f = 11"])
def test_the_payloads_are_those_of_the_package_to_the_last_byte(case, environment, tmp_path):
    certificates, keys = [], []
    for server in range(3):
        certificates.append(write_identity(tmp_path / str(server), server, datetime.timedelta(days=2)))
        SealFolder(tmp_path / f"seal-{server}").draw("key")
        keys.append((read_public(tmp_path / f"seal-{server}" / "key.pub"),))
    collection = design(certificates, case, keys)
    reports = [one for one in remade(collection, 8) if max(map(abs, one.row)) < 1e300]
    given = {"task": collection.content.hex(), "digest": collection.digest.hex()}
    given["reports"] = [{"row": one.row, "drawn": [one.secret.hex(), one.drawn.hex()]} for one in reports]
    done = subprocess.run(
        ["Rscript", "-e", REMAKE],
        input=json.dumps(given),
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    for report, made in zip(reports, json.loads(done.stdout), strict=True):
        body, found = bytes.fromhex(made), []
        for server in range(3):
            record, _ = Opener(collection, server, SealFolder(tmp_path / f"seal-{server}")).open(body)
            ReportFormat(collection, server).decode(record)
            found.append(record[ID_BYTES:])
        assert body[1:17] == report.id
        assert found == report.payloads


def test_a_report_of_r_reaches_every_server_once(environment, tmp_path):
    options = {
        "columns": ("age", "waiting"),
        "bounds": {"age": (18.0, 80.0), "waiting": (0.0, 52.0)},
        **PROVED,
        "rows": None,
    }
    del options["corrupt_clients"], options["copies"]  # of designs alone
    with Servers.make(tmp_path, doors=True, **options) as servers:
        servers.start()
        digest = servers.collection.digest.hex()

        def contribute(digest=digest, row=("age=44.5", "waiting=12")):
            command = ["Rscript", CLIENT, servers.door(0), digest, *row]
            return subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
            )

        done = contribute()
        assert done.returncode == 0, done.stderr
        again = contribute()
        assert again.returncode != 0
        assert "your report is at every server already" in again.stderr
        for said, given in (
            ("digest: ", {"digest": "0" * 64}),
            ("row: age given, age, waiting expected", {"row": ("age=3",)}),
        ):
            (tmp_path / f"report-{digest[:16]}.rds").unlink(missing_ok=True)
            refused = contribute(**given)
            assert refused.returncode != 0
            assert said in refused.stderr
        for server in range(3):
            with servers.spool(server) as spool:
                (found,) = spool.ids()
                assert bytes(found).hex() in done.stdout
