"""The example of a client in R, where R and the packages that it names are here."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "examples" / "r" / "client.R"
FLAGS = ["-O2", "-shared", "-fPIC", "-fwrapv", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"]
PACKAGES = "for (name in c('openssl', 'jsonlite', 'curl')) library(name, character.only = TRUE)"


def has_r():
    """Whether R is here with the packages, and a compiler."""
    if not (shutil.which("Rscript") and shutil.which("gcc")):
        return False
    return subprocess.run(["Rscript", "-e", PACKAGES], capture_output=True, check=False).returncode == 0


def built(folder):
    """Compile the arithmetic as R loads it; return the library."""
    library = folder / "report.so"
    command = ["gcc", *FLAGS, "-I", ROOT / "csrc", "-o", library, CLIENT.with_name("report.c"), "-lm"]
    subprocess.run(command, check=True, timeout=120)
    return library
