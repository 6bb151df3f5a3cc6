"""Whoever prepares the folders of `dpmpc mix`, `owners` or `parties`, and puts more into one than an agreement::

    python -m support.hostile.preparers "say that it is supervised" plan/party-0

`prepare` changes a folder before its party gets it. Nothing here runs in the party's process.
"""

import argparse
import json
import sys
from pathlib import Path

from dpmpc.parties.network.settings import SETTINGS_FILE, digest_of

SEED = 12345


def said(folder, **fields):
    """Change fields of the settings; with `arguments` changed, the digest follows, as it would from any preparer."""
    path = folder / SETTINGS_FILE
    settings = json.loads(path.read_text()) | fields
    settings["task"] = digest_of(settings["program"], settings["arguments"])
    path.write_text(json.dumps(settings))


def arguments_of(folder):
    return json.loads((folder / SETTINGS_FILE).read_text())["arguments"]


def know_the_noise(folder):
    """Give the seed of all noise, and say what a program wants to hear of a seed."""
    arguments = arguments_of(folder)
    if "plan" in arguments:
        arguments["plan"]["simulation_seed"] = SEED
    else:
        arguments["simulation_seed"] = SEED
        arguments["mixing"]["simulation"] = True
    said(folder, arguments=arguments)


def weaken_the_noise(folder):
    """Say that it is a simulation, where noise may be of floating point, and give no seed."""
    arguments = arguments_of(folder)
    arguments["mixing"]["simulation"] = True
    said(folder, arguments=arguments)


def bring_a_program(folder):
    """Name a program that came with the folder: a folder that is copied to somewhere is a package of Python there."""
    (folder / "evil.py").write_text("import os\nasync def main(party):\n    os._exit(77)\n")
    said(folder, program=f"{folder.name}.evil")


def plant_a_link(folder):
    """Have the party write its log into a file that the preparer names; `victim` lies beside the folder."""
    (folder / "party.log").symlink_to(folder.parent / "victim")


def name_rows(folder):
    """Say which rows of the user's machine are to be sent."""
    (folder / "source.json").write_text(json.dumps({"data": "payroll.csv", "key": "id"}))


def link_to_a_name_of_rows(folder):
    """Say it by a link to a file that need not be there yet."""
    (folder / "source.json").symlink_to(folder.parent / "later.json")


def plant_links(target, victim):
    """Put links to a victim wherever a writer of a file might write: at its name, and at names beside it."""
    names = [f"{target.name}.partial", f".{target.name}.partial", f".{target.name}.{'0' * 16}.partial"]
    planted = [target.with_name(name) for name in names]
    for path in (target, *planted):
        path.symlink_to(victim)
    return planted


DEEDS = {
    "say that it is supervised": lambda folder: said(folder, supervised=True),
    "hand over a socket": lambda folder: said(folder, listener=0),
    "leave servers out": lambda folder: said(folder, without=[1]),
    "take longer frames": lambda folder: said(folder, frame_limit=1 << 40),
    "know the noise": know_the_noise,
    "weaken the noise": weaken_the_noise,
    "bring a program": bring_a_program,
    "plant a link": plant_a_link,
    "name rows": name_rows,
    "link to a name of rows": link_to_a_name_of_rows,
}
#: What each of these deeds adds, as the refusal names it.
FIELDS = {
    "say that it is supervised": "supervised",
    "hand over a socket": "listener",
    "leave servers out": "without",
    "take longer frames": "frame_limit",
}


def prepare(folder, *deeds):
    """Do these deeds to a folder."""
    for deed in deeds:
        DEEDS[deed](folder)


def main():
    """Do deeds to a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("deed", nargs="+", choices=DEEDS)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    prepare(options.folder, *options.deed)


if __name__ == "__main__":
    sys.exit(main())
