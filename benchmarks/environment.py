"""Where figures come from: the machine, the programs and their versions."""

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.programs import FLAGS, compiler, librdkafka

PACKAGES = ("kafwire", "confluent-kafka", "aiokafka", "kafka-python", "pyarrow", "lz4", "Cython")


def describe(root: Path) -> dict[str, Any]:
    """All that a reader needs to judge the figures; nothing that names the machine or its user."""
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _first_line(["git", "-C", str(root), "describe", "--always", "--dirty"]),
        "cpu": _cpu(),
        "cpus": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "compiler": f"{_first_line([compiler(), '--version'])}; {' '.join(FLAGS)}",
        "java": _first_line(["java", "-version"]),
        "librdkafka": librdkafka().name,
        "packages": {name: _version(name) for name in PACKAGES},
        "switch_interval_ms": sys.getswitchinterval() * 1000,
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _first_line(command: Sequence[str]) -> str:
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    lines = (result.stdout + result.stderr).splitlines()
    return lines[0] if lines and not result.returncode else "unknown"
