"""Builds the Cython extensions. KAFWIRE_EXT=_codec,_io builds only those; KAFWIRE_TRACE=1 builds for line coverage."""

import os
import sysconfig

from Cython.Build import cythonize
from setuptools import Extension, setup

NATIVE = "kafwire/native"
BUF = [f"{NATIVE}/buf.c"]
SOURCES = {
    "_buffer": BUF,
    "_compress": [*BUF, f"{NATIVE}/snappy.c"],
    "_codec": [*BUF, f"{NATIVE}/crc32c.c"],
    "_arrow": BUF,
    "_encode": BUF,
    "_records": BUF,
    "_message": BUF,
    "_frame": [*BUF, f"{NATIVE}/frame.c"],
    "_io": [*BUF, f"{NATIVE}/frame.c", f"{NATIVE}/loop.c"],
    "_fetch": [*BUF, f"{NATIVE}/queue.c"],
    "_produce": BUF,
}
TRACE = os.environ.get("KAFWIRE_TRACE") == "1"

chosen = [name for name in os.environ.get("KAFWIRE_EXT", "").split(",") if name] or list(SOURCES)
flags = ["-O3", "-std=gnu11", "-fvisibility=hidden", "-fno-strict-aliasing", "-Wall", "-Wno-unused-function"]
extensions = [
    Extension(
        f"kafwire.{name}",
        [f"kafwire/{name}.pyx", *SOURCES[name]],
        include_dirs=["kafwire"],
        depends=[f"{NATIVE}/{header}" for header in sorted(os.listdir(NATIVE)) if header.endswith(".h")],
        extra_compile_args=flags,
        extra_link_args=["-pthread", *(["-ldl"] if "linux" in sysconfig.get_platform() else [])],
        define_macros=[("CYTHON_TRACE_NOGIL", "1")] if TRACE else [],
    )
    for name in chosen
]
setup(
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
    )
)
