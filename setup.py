"""Build the Cython kernels of ``csrc/`` as ``dpmpc._kernels.*``; everything else is in pyproject.toml.

No machine flags: a kernel that gains from a wider instruction set carries one body per set and chooses
at run time, so that one wheel serves every machine of its platform. Products and sums are never fused, as compilers
would do for ARM: results are the same bits everywhere. ``CFLAGS=-DDPMPC_GENERIC`` leaves all wider bodies out.
CFLAGS take the place of Python's own flags, so that -fwrapv, which Python is built with, is named here.
"""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup

CSRC = Path("csrc")
SOURCES = sorted(CSRC.glob("*.pyx"))
if not SOURCES:
    raise SystemExit("csrc/ holds no .pyx files: this source tree is incomplete")

extensions = [
    Extension(
        f"dpmpc._kernels.{source.stem}",
        [source.as_posix()],
        include_dirs=[CSRC.as_posix()],
        depends=[header.as_posix() for header in sorted(CSRC.glob("*.h"))],
        extra_compile_args=["-O3", "-fwrapv", "-ffp-contract=off"],
    )
    for source in SOURCES
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
)
