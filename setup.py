"""Build the kernels of ``csrc/`` as ``dpmpc._kernels.*``; everything else is in pyproject.toml.

``csrc/instruction_sets.toml`` lists the kernels, and the flags with which each is compiled for each instruction set.
Nothing else has machine flags but files that ask the processor themselves, so that one wheel serves every machine of
its platform. As many files are compiled at a time as there are processors, or as ``MAX_JOBS`` says.
``CFLAGS=-DDPMPC_GENERIC`` builds the portable kernels alone: the same results, slower.
"""

import os
import sysconfig
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer_group

CSRC = Path("csrc")
BUILD = tomllib.loads((CSRC / "instruction_sets.toml").read_text())
COMMON = ["setup.py", *(path.as_posix() for path in sorted([*CSRC.glob("*.h"), *CSRC.glob("*.toml")]))]
SHARED = "dpmpc._kernels._shared"  # Cython's code for memoryviews, which would else be a part of every module

SAME = {"amd64": "x86_64", "arm64": "aarch64"}  # other names of platforms
MACHINE = sysconfig.get_platform().rpartition("-")[2].lower()
GENERIC = "-DDPMPC_GENERIC" in os.environ.get("CFLAGS", "").split()
PLATFORM = "generic" if GENERIC else SAME.get(MACHINE, MACHINE)
SETS = BUILD["sets"]["portable"] | BUILD["sets"].get(PLATFORM, {})  # instruction sets to compile for, by name
OWN_FLAGS = BUILD["own_flags"].get(PLATFORM, {})  # by C file


def in_csrc(name: str) -> str:
    """Return the path of a source file."""
    path = CSRC / name
    if not path.exists():
        raise SystemExit(f"{path} is missing: this source tree is incomplete")
    return path.as_posix()


def jobs() -> int:
    """Return how many files to compile at a time."""
    limit = os.environ.get("MAX_JOBS", "")
    if limit and not (limit.isdecimal() and int(limit)):
        raise SystemExit(f"MAX_JOBS: {limit!r} received, a number of at least 1 expected")
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(limit) if limit else here


class BuildKernels(build_ext):
    """Compile C files and modules side by side, kernels once for each instruction set; `dispatch` takes them all."""

    def build_extensions(self) -> None:
        """Build all modules; see `build_ext`."""
        self.check_extensions_list(self.extensions)
        with ThreadPoolExecutor(jobs()) as pool:
            kernels = [
                pool.submit(
                    self.compile_c,
                    kernel,
                    name,
                    [*BUILD["kernel_flags"].get(kernel, []), *how["flags"]],
                    INSTRUCTION_SET=name,
                    LANES=how["lanes"],
                )
                for kernel in BUILD["kernels"]
                for name, how in SETS.items()
                if kernel not in how.get("like", {})
            ]
            dispatch, *others = sorted(self.extensions, key=lambda module: not module.name.endswith(".dispatch"))
            modules = [pool.submit(self.build_module, module) for module in others]
            self.build_module(dispatch, [kernel.result() for kernel in kernels])
            for module in modules:
                module.result()

    def build_module(self, module: Extension, kernels: Sequence[str] = ()) -> None:
        """Compile what a module has beside its Cython file, and link all of it."""
        sets: dict[str, object] = {f"WITH_{name.upper()}": 1 for name in SETS}
        for name, how in SETS.items():  # a kernel that is another set's goes by its name
            sets |= {f"{kernel}_{name}": f"{kernel}_{other}" for kernel, other in how.get("like", {}).items()}
        files = BUILD["modules"].get(module.name.rpartition(".")[2], [])
        own = [self.compile_c(file, "once", OWN_FLAGS.get(file, []), **sets) for file in files]
        module.extra_objects = [*own, *kernels]
        self.build_extension(module)

    def compile_c(self, file: str, folder: str, flags: Sequence[str], **macros: object) -> str:
        """Return the object of a C file, compiled into a folder of its own if its sources have changed."""
        source, folder = in_csrc(f"{file}.c"), (Path(self.build_temp) / folder).as_posix()
        (target,) = self.compiler.object_filenames([source], output_dir=folder)
        if self.force or newer_group([source, *COMMON], target):
            self.compiler.compile(
                [source],
                output_dir=folder,
                macros=[(name, str(value)) for name, value in macros.items()],
                include_dirs=[CSRC.as_posix()],
                extra_postargs=[*BUILD["flags"], *flags],
            )
        return target


# What Cython writes only calls C, so that optimising it further gains nothing but minutes.
extensions = [
    Extension(
        f"dpmpc._kernels.{name}",
        [in_csrc(f"{name}.pyx")],
        include_dirs=[CSRC.as_posix()],
        depends=[*COMMON, *(in_csrc(f"{c}.c") for c in (*files, *(BUILD["kernels"] if name == "dispatch" else ())))],
        extra_compile_args=[*BUILD["flags"], "-O1"],
    )
    for name, files in BUILD["modules"].items()
]

setup(
    packages=[*find_packages(include=["dpmpc", "dpmpc.*"]), "dpmpc.protocols"],
    package_dir={"dpmpc.protocols": "protocols"},
    ext_modules=cythonize(
        [*extensions, Extension(SHARED, [], extra_compile_args=[*BUILD["flags"], "-O1"])],
        build_dir="build/cython",
        shared_utility_qualified_name=SHARED,
        compiler_directives={
            "language_level": "3",
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "embedsignature": True,
        },
    ),
    cmdclass={"build_ext": BuildKernels},
)
