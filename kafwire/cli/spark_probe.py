"""The check that `kafwire spark doctor` runs on executors. It is pickled by value: an executor may lack kafwire.

So this module imports only the standard library, and its results are plain values.
"""

from __future__ import annotations

import os
import platform
import socket
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# The minimum duration of a task, so that one free core does not take all tasks.
_LEAST_S = 0.2


class Probe:
    """Describes the process that runs a task, and its access to the cluster at `servers`."""

    def __init__(self, servers: tuple[tuple[str, int], ...], options: Mapping[str, Any], timeout_s: float) -> None:
        """Take the `options` of a client, without its servers."""
        self._servers = servers
        self._options = dict(options)
        self._timeout_s = timeout_s

    def __call__(self, _tasks: Iterable[int]) -> Iterator[dict[str, Any]]:
        """Run the check in a task."""
        end = time.monotonic() + _LEAST_S
        found = self.look()
        time.sleep(max(0.0, end - time.monotonic()))
        yield found

    def look(self) -> dict[str, Any]:
        """Return the description. `executor` identifies it: all Python workers of one executor share a parent."""
        found: dict[str, Any] = {
            "host": socket.gethostname(),
            "executor": f"{socket.gethostname()}/{os.getppid()}",
            "python": platform.python_version(),
            "hides_traceback": bool(os.environ.get("SPARK_HIDE_TRACEBACK")),
            "packages": {name: _version(name) for name in ("kafwire", "pyarrow", "pyspark")},
            "import_error": "",
            "reached": [],
        }
        try:
            import kafwire
            import kafwire.spark.source

            # The steps of `kafwire doctor`, from this executor.
            from kafwire.cli.diagnosis import examine
        except Exception as error:  # noqa: BLE001 - a broken wheel may raise anything
            found["import_error"] = f"{type(error).__name__}: {error}"
            return found
        found["packages"]["kafwire"] = kafwire.__version__  # sources on PYTHONPATH have no metadata
        for host, port in self._servers:
            steps = list(examine(host, port, self._timeout_s, self._options, writes=False))
            found["reached"] += [
                {"server": f"{host}:{port}", "step": step.step, "ok": step.ok, "seen": step.seen, "change": step.change}
                for step in steps
            ]
            if all(step.ok for step in steps):
                break  # like a client, which tries the next server only if one does not respond
        return found


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None
