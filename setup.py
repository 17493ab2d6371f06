"""Builds the Cython extensions.

KAFWIRE_EXT=_codec,_io builds only those; KAFWIRE_TRACE=1 builds for line coverage; KAFWIRE_DEBUG=1 keeps debug symbols.
"""

import copy
import os
import sysconfig
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

NATIVE = "kafwire/native"
BUF = [f"{NATIVE}/buf.c"]
SOURCES = {
    "_buffer": BUF,
    "_libraries": BUF,
    "_compress": [*BUF, f"{NATIVE}/snappy.c", f"{NATIVE}/lz4.c"],
    "_codec": [*BUF, f"{NATIVE}/crc32c.c"],
    "_legacy": BUF,
    "_arrow": BUF,
    "_encode": BUF,
    "_records": BUF,
    "_text": [],
    "_layout": [],
    "_compose": [],
    "_message": [],
    "_frame": [*BUF, f"{NATIVE}/frame.c"],
    "_io": [*BUF, f"{NATIVE}/frame.c", f"{NATIVE}/loop.c"],
    "_fetch": BUF,
    "_slices": [*BUF, f"{NATIVE}/queue.c", f"{NATIVE}/feed.c"],
    "_delivery": BUF,
    "_partition": [],
    "_express": [*BUF, f"{NATIVE}/express.c"],
    "_produce": BUF,
}
TRACE = os.environ.get("KAFWIRE_TRACE") == "1"
DEBUG = os.environ.get("KAFWIRE_DEBUG") == "1"
LINKING = ["-pthread"]
if "linux" in sysconfig.get_platform():
    # Most of an extension's size is debug symbols; the names that a profiler shows stay.
    LINKING += ["-ldl", *([] if DEBUG else ["-Wl,--strip-debug"])]

chosen = [name for name in os.environ.get("KAFWIRE_EXT", "").split(",") if name] or list(SOURCES)
flags = ["-O3", "-std=gnu11", "-fvisibility=hidden", "-fno-strict-aliasing", "-Wall", "-Wno-unused-function"]
extensions = [
    Extension(
        f"kafwire.{name}",
        [f"kafwire/{name}.pyx", *SOURCES[name]],
        include_dirs=["kafwire"],
        depends=[str(header) for header in sorted(Path(NATIVE).glob("*.h"))],
        extra_compile_args=flags,
        extra_link_args=LINKING,
        define_macros=[("CYTHON_TRACE_NOGIL", "1")] if TRACE else [],
    )
    for name in chosen
]


class BuildExtensions(build_ext):
    """Objects in a folder per extension: several compile the same C file, and do so at once."""

    def finalize_options(self) -> None:
        """Use every processor, unless told otherwise: pip cannot pass `--parallel`."""
        super().finalize_options()
        if self.parallel is None:
            self.parallel = os.cpu_count() or 1

    def build_extension(self, ext: Extension) -> None:
        """Build one extension."""
        own = copy.copy(self)
        own.build_temp = str(Path(self.build_temp) / ext.name)
        build_ext.build_extension(own, ext)


setup(
    cmdclass={"build_ext": BuildExtensions},
    ext_modules=cythonize(
        extensions,
        compiler_directives={
            "language_level": "3",
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "embedsignature": True,
            "linetrace": TRACE,
        },
        build_dir="build/cython",
    ),
)
