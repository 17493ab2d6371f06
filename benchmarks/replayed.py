"""A broker in C that responds from memory (`native/replay.c`), and the TLS options of each contender.

It costs next to nothing beside its client, so that a row shows what the client costs, and what TLS adds: the server's
encrypting takes a core of its own.
"""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.programs import build_replay
from benchmarks.row import Topic

TOPIC_NAME = "replayed"
_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Replayed:
    """Where it listens, as host:port."""

    plain: str
    tls: str


@contextmanager
def replay_server(folder: Path, topic: Topic, records: int, payload: Path, server_pem: Path) -> Iterator[Replayed]:
    """Start it with so many records, which lie in its memory; it ends with the block.

    `server_pem` has the private key and the certificate.
    """
    options = {
        "topic": TOPIC_NAME,
        "payload": payload,
        "value_bytes": topic.value_bytes,
        "key_bytes": topic.key_bytes,
        "records": records,
        "batch_bytes": topic.batch_bytes,
        "codec": topic.codec,
        "partitions": topic.partitions,
        "certificate": server_pem,
        "key": server_pem,
    }
    command = [str(build_replay(folder)), *(f"{name}={value}" for name, value in options.items())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            plain, tls = server.stdout.readline().split()
            yield Replayed(f"{_HOST}:{plain}", f"{_HOST}:{tls}")
        finally:
            server.kill()


def tls_options(program: str, ca_pem: Path) -> Mapping[str, str]:
    """The arguments by which a contender trusts this CA, and speaks TLS."""
    if program == "floor":
        return {"ca": str(ca_pem)}
    if program in {"rdkafka", "confluent"}:
        return {"conf.security.protocol": "ssl", "conf.ssl.ca.location": str(ca_pem)}
    return {"conf.security_protocol": "SSL", "conf.ssl_ca_location": str(ca_pem)}
