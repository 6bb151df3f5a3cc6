"""Make the pictures of a report and of a server that the documentation shows: ``python docs/screenshots.py``.

The demo's population is fitted with a simulation seed, so that the numbers are always the same, but for seconds.
Chromium takes the pictures. It runs with a profile of its own, and reads
nothing but the files made here. Needs chromium on the PATH, and ``pip install '.[plots]'``.
"""

from __future__ import annotations

import argparse
import datetime
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from dpmpc.app.cli.main import main as dpmpc
from dpmpc.collect.intake import front_page
from dpmpc.collect.intake.status import Status
from dpmpc.collect.terms.collection_design import CollectionTerms, design_collection
from dpmpc.collect.terms.server_entries import ServerEntry
from dpmpc.collect.upload.seal_folder import SealFolder, read_public
from dpmpc.data import DEMO_BOUNDS, demo_population, write_csv
from dpmpc.data.demo import DEMO_RADIUS, DEMO_TARGET
from dpmpc.data.schemas import schema as schema_of
from dpmpc.parties.network.identity import write_identity
from dpmpc.privacy.specification import Budget

STATIC = Path(__file__).parent / "_static"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--allow-file-access-from-files",
)
LEAST_WIDTH = 500  # of a window; what is narrower is framed
SHADES = 96  # colours of a picture: a third of the bytes, and no difference to the eye
CLIENTS = 100_000
FIT = ("--target", DEMO_TARGET, "--radius", str(DEMO_RADIUS), "--epsilon", "1", "--delta", "1e-6")
DESKTOP, PHONE = (1280, 1250), (390, 844)
ASKED: dict[str, tuple[float, float]] = {"age": (18, 70), "hours_a_week": (0, 60), "commute_minutes": (0, 180)}


def main() -> int:
    """Make all pictures, in their folder or another one."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--out", type=Path, default=STATIC, metavar="DIR", help="default %(default)s")
    out = options.parse_args().out
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        print(f"screenshots: none of {', '.join(BROWSERS)} is on the PATH; install chromium", file=sys.stderr)
        return 2
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dpmpc-pictures-") as name:
        folder = Path(name)
        fit(folder)
        take(browser, folder, folder / "ridge" / "report.html", out / "report-ridge-desktop.png", DESKTOP)
        take(browser, folder, server_page(folder), out / "server-phone.png", PHONE)
    return 0


def fit(folder: Path) -> None:
    """Write a population, and fit it as a user would."""
    (folder / "bounds.toml").write_text(DEMO_BOUNDS.to_toml())
    write_csv(folder / "people.csv", demo_population(CLIENTS).table)
    bounds = ("--bounds", str(folder / "bounds.toml"), "--simulation-seed", "0")
    run("fit", str(folder / "people.csv"), *FIT, *bounds, "--out", str(folder / "ridge"))


def server_page(folder: Path) -> Path:
    """Write the page that a server shows, of a collection whose servers were made for it."""
    entries = []
    for number, name in enumerate("abc"):
        certificate = write_identity(folder / f"server-{name}", number, datetime.timedelta(days=400))
        SealFolder(folder / f"seals-{name}").draw("survey")
        keys = (read_public(folder / f"seals-{name}" / "survey.pub"),)
        url, peers, release = f"https://{name}.example", f"{name}.example:7443", f"{name}.example:7444"
        entries.append(ServerEntry(url, peers, release, certificate.decode(), keys))
    zone = datetime.timezone(datetime.timedelta(hours=1), "CET")
    terms = CollectionTerms(
        name="Survey of working hours 2027",
        servers=tuple(entries),
        opens=datetime.datetime(2027, 1, 31, 8, tzinfo=zone),
        closes=datetime.datetime(2027, 3, 1, tzinfo=zone),
        expires=datetime.datetime(2027, 4, 1, tzinfo=zone),
        minimum_batch=20_000,
        largest_batch=1_000_000,
    )
    collection = design_collection(terms, schema_of(ASKED, tuple(ASKED)), Budget(1.0, 1e-7))
    status = Status(
        server=0,
        collection=collection.digest.hex(),
        name=collection.name,
        state="open",
        opens=collection.opens.isoformat(),
        closes=collection.closes.isoformat(),
        expires=collection.expires.isoformat(),
        stored=12_300,
        exact=False,
        minimum_batch=collection.minimum_batch,
        largest_batch=collection.largest_batch,
        healthy=True,
        guarantee=str(collection.plan.guarantee),
    )
    page = folder / "server.html"
    page.write_text(front_page.page(collection, status), encoding="utf-8")
    return page


def run(*arguments: str) -> None:
    """Run a `dpmpc` command, or end."""
    if status := dpmpc(arguments):
        sys.exit(status)


def take(browser: str, folder: Path, page: Path, picture: Path, size: tuple[int, int]) -> None:
    """Take a picture of a page; a frame of that width stands for a phone's window."""
    width, height = size
    frame = folder / "frame.html"
    style = f"border:0;display:block;width:{width}px;height:{height}px"
    frame.write_text(f'<!doctype html><body style="margin:0"><iframe src="{page.as_uri()}" style="{style}"></iframe>')
    window = f"--window-size={max(width, LEAST_WIDTH)},{height}"
    with tempfile.TemporaryDirectory(dir=folder) as profile:
        where = (f"--user-data-dir={profile}", f"--screenshot={picture.absolute()}")
        subprocess.run([browser, *FLAGS, window, *where, frame.as_uri()], check=True, timeout=120)
    with Image.open(picture) as taken:
        taken.crop((0, 0, width, height)).save(picture)
    shrink(picture)


def shrink(picture: Path) -> None:
    """Save a picture with fewer colours, in fewer bytes."""
    with Image.open(picture) as taken:
        few = taken.convert("RGB").quantize(SHADES, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(picture, optimize=True)


if __name__ == "__main__":
    sys.exit(main())
