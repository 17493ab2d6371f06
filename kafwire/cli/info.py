"""`kafwire info`: the versions installed here, and the native code in use."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click

from kafwire.cli.output import JsonWriter

__all__ = ["command"]

_PACKAGES = ("click", "isal", "lz4", "zstandard", "pyarrow")
# CPU features that kafwire's or the codecs' code uses.
_CPU_FLAGS = ("sse4_2", "pclmulqdq", "avx2", "bmi2", "avx512bw", "vpclmulqdq", "crc32", "pmull", "asimd", "sve")


@click.command("info")
@click.option("-J", "--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(as_json: bool) -> None:
    """Show versions, the source of each codec's code, and the supported part of Kafka's protocol."""
    found = _collect()
    if as_json:
        JsonWriter().write(found)
        return
    for section, values in found.items():
        click.echo(f"{section}:")
        width = max(map(len, values))
        for name, value in values.items():
            text = " ".join(map(str, value)) if isinstance(value, list) else value
            click.echo(f"  {name:{width}}  {'not installed' if text is None else text}")


def _collect() -> dict[str, dict[str, Any]]:
    import kafwire
    from kafwire import compression
    from kafwire._codec import crc32c_implementations
    from kafwire.protocol import MESSAGES, Request
    from kafwire.security.tls import described

    classes = list(MESSAGES.values())
    requests = [cls for cls in classes if issubclass(cls, Request)]
    return {
        "versions": {
            "kafwire": kafwire.__version__,
            "python": platform.python_version(),
            "implementation": sys.implementation.name,
            **{name: _version(name) for name in _PACKAGES},
        },
        "machine": {
            "system": f"{platform.system()} {platform.release()}",
            "architecture": platform.machine(),
            "cpuFeatures": _cpu_features(),
        },
        "nativeCode": {"crc32c": crc32c_implementations()[0], "tls": described(), **compression.info()},
        "protocol": {
            "apis": len(requests),
            "messages": len(classes),
            "messageVersions": sum(cls.max_version - cls.oldest_version + 1 for cls in classes),
        },
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_features() -> list[str]:
    """Return the first processor's features from Linux, limited to the relevant ones."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return []
    for line in text.splitlines():
        name, _, flags = line.partition(":")
        if name.strip() in {"flags", "Features"}:
            has = set(flags.split())
            return [flag for flag in _CPU_FLAGS if flag in has]
    return []
