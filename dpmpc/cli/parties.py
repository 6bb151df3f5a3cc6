"""`dpmpc parties`: the files of parties that are started by hand, each on a host of its own.

For the programs of `dpmpc.protocols` a folder each, on the generated population; with ``--mpyc`` what MPyC's own
``--ssl`` reads. Whoever writes all keys and all shares in one place could read everything: this is for trying out hosts
and firewalls. With ``--certificate`` no keys are made. Real data are collected by `dpmpc collection`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dpmpc.cli.fit import MODELS
from dpmpc.cli.options import address, option_of
from dpmpc.errors import InputError
from dpmpc.untrusted import read_bytes

MPYC_FOLDER = ".config"


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    parties = commands.add_parser("parties", help="write the files of parties that are started by hand, to try hosts")
    parties.add_argument("out", metavar="DIR", help="a new directory, with a folder for each party")
    parties.add_argument(
        "--party",
        action="append",
        type=address,
        required=True,
        metavar="HOST:PORT",
        help="where each server listens, in order, and last the analyst; with --mpyc each party",
    )
    parties.add_argument(
        "--certificate",
        action="append",
        metavar="FILE",
        help="each party's own party.crt, in that order, to pin; no keys are then made",
    )
    parties.add_argument("--mpyc", action="store_true", help="files for MPyC's own --ssl instead, in DIR/.config")
    parties.add_argument(
        "--model", choices=MODELS, default="ridge", help="what the analyst reads (default %(default)s)"
    )
    parties.add_argument("--clients", type=int, default=100_000, help="generated people (default %(default)s)")
    for name, default in (("epsilon", 1.0), ("delta", 1e-7)):
        parties.add_argument(f"--{name}", **option_of(name, default=default))
    parties.set_defaults(run=_parties)


def _parties(options: argparse.Namespace) -> None:
    (_write_mpyc if options.mpyc else _write_folders)(options)


def _write_folders(options: argparse.Namespace) -> None:
    from dpmpc.cli.demonstrations import demonstration
    from dpmpc.network.programs import prepare
    from dpmpc.networked import agreement_of, clients

    if len(options.party) < 3:
        raise InputError(f"party: {len(options.party)} given, at least 3 expected: two servers and the analyst")
    shown = demonstration(options.model, options.clients)
    task = shown.task(options.epsilon, options.delta, len(options.party) - 1)
    certificates = None
    if options.certificate is not None:
        certificates = [read_bytes(Path(name), largest=1 << 16) for name in options.certificate]
    agreement = agreement_of(shown.analysis.program, task, arguments=shown.analysis.arguments())
    people = clients(task, shown.table.values)
    folders = prepare(agreement, Path(options.out), options.party, certificates=certificates, place=people)
    for (host, port), folder in zip(options.party, folders, strict=True):
        print(
            f"{folder}: copy it to {host}, port {port}, and start there: python -P -m dpmpc.network.party {folder.name}"
        )
    if certificates is not None:
        print("each party first puts its own party.crt and party.key into its folder")
    print(f"the answer is in {folders[-1]}: outcome.json, and release.dpmpc for dpmpc read")


def _write_mpyc(options: argparse.Namespace) -> None:
    from dpmpc.network.identity import write_mpyc_identities

    if options.certificate is not None:
        raise InputError("certificate: given, none expected with --mpyc, whose certificates have an authority")
    out = Path(options.out)
    if out.exists():
        raise InputError(f"out: {out} given, a directory that does not exist yet expected")
    write_mpyc_identities(out / MPYC_FOLDER, len(options.party))
    everybody = " ".join(f"-P {f'[{host}]' if ':' in host else host}:{port}" for host, port in options.party)
    for party, (host, _) in enumerate(options.party):
        print(
            f"{host}: in a folder whose {MPYC_FOLDER} has mpyc_ca.crt, party_{party}.crt and party_{party}.key, start\n"
            f"  python linear_transform.py {everybody} -I {party} --ssl"
        )
