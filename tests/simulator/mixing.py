"""The world of mixing: owners of different columns of the same people, who repeat a release until all have it."""

import ssl

import numpy as np

from dpmpc.owners.columns import design
from dpmpc.owners.columns.mixed_release import MixedRelease
from dpmpc.owners.columns.mixing_parties import RELEASE_FILE, PartySource, public_arguments
from dpmpc.parties.network.settings import write_source
from dpmpc.protocols import random_mixing
from simulator.disk import files_of
from simulator.loop import START, set_clock
from simulator.owners import OwnersWorld
from support.kept_files import kept_on_disk
from support.talk import identities

COLUMNS, SUBJECTS = (["x"], ["y", "z"], ["w"]), 8
FRAMES = 120  # that an owner sends in a run, about


def make_ready():
    """Nothing has to be prepared."""


class Base:
    """What all seeds share: the arguments that all agree on, and the folders of the owners before any run."""

    frames = FRAMES

    def __init__(self, folder, world):
        set_clock(START - 600)
        task = design(COLUMNS, SUBJECTS, 1.0, 1e-5, rows=None)
        self.program, self.arguments = random_mixing, public_arguments(task, ["a", "b", "c"], "dgm")
        self.images, self.certificates = [], []
        for number, there in enumerate(identities(folder / "owners", len(COLUMNS))):
            cells = ",".join(["0.5"] * len(COLUMNS[number]))
            people = "".join(f"person-{person},{cells}\n" for person in range(SUBJECTS))
            (there / "data.csv").write_text(f"id,{','.join(COLUMNS[number])}\n{people}")
            write_source(there, PartySource(str(there / "data.csv"), "id"))
            self.images.append(files_of(there))
            self.certificates.append(ssl.PEM_cert_to_DER_cert((there / "party.crt").read_text()))


class World(OwnersWorld):
    """Owners of different columns."""

    def is_done(self, owner):
        return owner.alive and (owner.path / RELEASE_FILE).exists()

    def check(self):
        """Check that all owners have the same file, which holds what each has kept and shown."""
        files = [(owner.path / RELEASE_FILE) for owner in self.servers.values()]
        if len({file.read_bytes() for file in files}) != 1:
            self.problem("release files differ", f"{len(files)} owners")
        sums, first = MixedRelease.load(files[0]).sums, 0
        for number, names in enumerate(COLUMNS):
            own = np.ascontiguousarray(sums[:, first : first + len(names)])
            first += len(names)
            if kept_on_disk(self.servers[number].path)["release"] != own.tobytes():
                self.problem("an owner's part is not what it has kept", f"owner {number}")
            self._check_answers(self.servers[number], "an owner shows two releases")
