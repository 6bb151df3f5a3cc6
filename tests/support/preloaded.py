"""What the fork server of `support.processes` imports, so that its children need not."""

import importlib
import pkgutil

import dpmpc

LAZY = (
    "jinja2.defaults",
    "scipy.optimize",
    "scipy.special",
    "scipy.stats",
    "support.collection_processes",
    "support.release_processes",
)
for name in LAZY:
    importlib.import_module(name)
for room in (
    "app.cli",
    "app.render",
    "collect.intake",
    "collect.release",
    "collect.store",
    "collect.terms",
    "collect.upload",
    "linear.proving",
    "linear.sharing",
    "models.common",
    "models.components",
    "models.groups",
    "models.regression",
    "models.results",
    "models.survival",
    "models.tables",
    "parties.network",
    "privacy",
    "release.planning",
):
    package = importlib.import_module(f"{dpmpc.__name__}.{room}")
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
importlib.import_module("dpmpc.app.render.page").template("release_page.html")  # compiled once
