"""Build the kernels of ``csrc/`` as ``dpmpc._kernels.*``; everything else is in pyproject.toml.

``csrc/instruction_sets.toml`` lists the kernels, and the flags with which each is compiled for each instruction set.
Nothing else has machine flags, so that one wheel serves every machine of its platform.
``CFLAGS=-DDPMPC_GENERIC`` builds the portable kernels alone: the same results, slower.
"""

import os
import sysconfig
import tomllib
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer_group

CSRC = Path("csrc")
BUILD = tomllib.loads((CSRC / "instruction_sets.toml").read_text())
SAME = {"amd64": "x86_64", "arm64": "aarch64"}  # other names of platforms
COMMON = ["setup.py", *(path.as_posix() for path in sorted([*CSRC.glob("*.h"), *CSRC.glob("*.toml")]))]


def in_csrc(name: str) -> str:
    """Return the path of a source file."""
    path = CSRC / name
    if not path.exists():
        raise SystemExit(f"{path} is missing: this source tree is incomplete")
    return path.as_posix()


def instruction_sets() -> dict[str, dict]:
    """Return the instruction sets to compile for, by name, the portable one first."""
    machine = sysconfig.get_platform().rpartition("-")[2].lower()
    generic = "-DDPMPC_GENERIC" in os.environ.get("CFLAGS", "").split()
    return BUILD["sets"]["portable"] | ({} if generic else BUILD["sets"].get(SAME.get(machine, machine), {}))


class BuildKernels(build_ext):
    """Compile the kernels once for each instruction set and link them all into `dpmpc._kernels.dispatch`."""

    def build_extension(self, extension: Extension) -> None:
        """Build one module; see `build_ext`."""
        if extension.name.endswith(".dispatch"):
            sets = instruction_sets()
            extension.define_macros = [(f"WITH_{name.upper()}", None) for name in sets]
            extension.extra_objects = [
                self.compile_kernel(kernel, name, **how) for name, how in sets.items() for kernel in BUILD["kernels"]
            ]
        super().build_extension(extension)

    def compile_kernel(self, kernel: str, name: str, lanes: int, flags: list[str]) -> str:
        """Return the object of a kernel for one instruction set, compiled if its sources have changed."""
        source, folder = in_csrc(f"{kernel}.c"), (Path(self.build_temp) / name).as_posix()
        (target,) = self.compiler.object_filenames([source], output_dir=folder)
        if self.force or newer_group([source, *COMMON], target):
            self.compiler.compile(
                [source],
                output_dir=folder,
                macros=[("INSTRUCTION_SET", name), ("LANES", str(lanes))],
                include_dirs=[CSRC.as_posix()],
                extra_postargs=[*BUILD["flags"], *flags],
            )
        return target


kernels = [in_csrc(f"{kernel}.c") for kernel in BUILD["kernels"]]
extensions = [
    Extension(
        f"dpmpc._kernels.{name}",
        [in_csrc(file) for file in (f"{name}.pyx", *sources)],
        include_dirs=[CSRC.as_posix()],
        depends=[*COMMON, *(kernels if name == "dispatch" else [])],
        extra_compile_args=BUILD["flags"],
    )
    for name, sources in BUILD["modules"].items()
]

setup(
    packages=sorted({*find_packages(include=["dpmpc", "dpmpc.*"]), "dpmpc.protocols"}),  # the link may be missing
    package_dir={"dpmpc.protocols": "protocols"},
    ext_modules=cythonize(
        extensions,
        build_dir="build/cython",
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
