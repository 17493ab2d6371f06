"""A broker of its own behind a proxy that counts: the proxy is its advertised listener, so that every client comes by.

Bytes, requests and connections are counted where they pass, the same way for every client, and by client id: producers
and consumers are counted apart. The proxy is C (`native/proxy.c`); it copies, which costs the same time for each
client, so figures from here are compared with figures from here only.
"""

import json
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.programs import build_proxy

CLIENT_ID = "counted"
NOTHING: Mapping[str, int] = dict.fromkeys(
    ("made", "open", "requests", "fetches", "request_bytes", "response_bytes"), 0
)


@dataclass(frozen=True, slots=True)
class Counted:
    """A broker whose clients are counted: `report` is where the counts are asked for, as host:port."""

    bootstrap: str
    report: str


@contextmanager
def counted_broker(folder: Path, *, heap: str, properties: Mapping[str, str]) -> Iterator[Counted]:
    """Start a broker behind a proxy; both end with the block."""
    from kafwire.testing.cluster import KafkaCluster  # not needed with a broker that runs already

    command = [str(build_proxy(folder))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as proxy:
        assert proxy.stdin is not None
        assert proxy.stdout is not None
        try:
            port, report = proxy.stdout.readline().split()
            advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
            with KafkaCluster(properties={**properties, **advertised}, heap=heap, quick=False) as cluster:
                proxy.stdin.write(f"{cluster.node(1).address}\n")
                proxy.stdin.flush()
                yield Counted(f"127.0.0.1:{port}", f"127.0.0.1:{report}")
        finally:
            proxy.kill()


def read_counts(report: str, client_id: str = CLIENT_ID) -> Mapping[str, int]:
    """The bytes and requests that the clients of this id have sent and received up to now."""
    host, port = report.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 10.0) as connection, connection.makefile("rb") as stream:
        found: dict[str, dict[str, int]] = json.loads(stream.read())
    return found.get(client_id, NOTHING)


def difference(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """The difference of two counts; `open` is a state, not a sum."""
    return {name: after[name] - (0 if name == "open" else before[name]) for name in after}
