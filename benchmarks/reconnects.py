"""Time that reconnects hold the engine: `python -m benchmarks.reconnects`, into docs/internals/results/tls.md.

An embedded broker in a process of its own, whose listener speaks SASL_SSL with SCRAM, ends all connections ten times a
second. Ten clients of one engine ask for metadata all the time, so they log in a hundred times a second. Meanwhile the
engine is asked every millisecond to run a function: how late it does is what others on the same engine wait for.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import kafwire
from kafwire.runtime.engine import default_engine
from kafwire.testing import EmbeddedKafka, Security

CLIENTS = 10
SECONDS = 10.0
EVERY_S = 0.1  # all connections are ended
LIMIT_MS = 5
USER, PASSWORD = "alice", "alice-secret"


def main() -> None:
    """Measure with a listener of each kind, first without reconnecting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", metavar="PROTOCOL", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        serve(chosen.serve)
        return
    for protocol in ("PLAINTEXT", "SSL", "SASL_SSL"):
        for reconnecting in (False, True):
            with server(protocol) as (options, process):
                report = asyncio.run(measure(options, process, reconnecting=reconnecting))
            print(f"{protocol:10} {'reconnecting' if reconnecting else 'connected':13} {report}", flush=True)


def serve(protocol: str) -> None:
    """Be the broker: end all connections for each line, until the input ends."""
    secured: Security | None = None
    if protocol == "SASL_SSL":
        secured = Security("SASL_SSL", mechanisms=["SCRAM-SHA-256"], users={USER: PASSWORD})
    elif protocol == "SSL":
        secured = Security("SSL")
    with EmbeddedKafka(security=secured) as kafka:
        options = {"bootstrap.servers": kafka.bootstrap, **({} if secured is None else kafka.client_options())}
        print(json.dumps(options), flush=True)
        for _ in sys.stdin:
            kafka.disconnect()


@contextlib.contextmanager
def server(protocol: str) -> Iterator[tuple[dict[str, Any], subprocess.Popen[str]]]:
    """The broker's process, and options of its clients."""
    command = [sys.executable, "-m", "benchmarks.reconnects", "--serve", protocol]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline()), process
        finally:
            process.stdin.close()
            process.wait(10)


async def measure(options: dict[str, Any], process: subprocess.Popen[str], *, reconnecting: bool) -> str:
    """Have the clients ask for some seconds."""
    assert process.stdin is not None
    engine = default_engine()
    late_ms: list[float] = []
    over = False
    calls = 0

    async def probe() -> None:
        while not over:
            asked = time.perf_counter()
            await asyncio.sleep(0.001)
            late_ms.append((time.perf_counter() - asked) * 1000 - 1)

    async def ask(client: kafwire.AsyncClient) -> None:
        nonlocal calls
        while not over:
            with contextlib.suppress(kafwire.errors.KafkaConnectionError):
                await client.call(kafwire.protocol.MetadataRequest(topics=[]))
                calls += 1
            await asyncio.sleep(0.005)

    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(kafwire.AsyncClient.from_config({**options, "reconnect.backoff.ms": 5}))
            for _ in range(CLIENTS)
        ]
        asking = [asyncio.create_task(ask(client)) for client in clients]
        probing = asyncio.create_task(asyncio.to_thread(engine.run, probe))
        opened = engine.native.statistics()["connections_opened"]
        ends = time.perf_counter() + SECONDS
        while time.perf_counter() < ends:
            await asyncio.sleep(EVERY_S)
            if reconnecting:
                process.stdin.write("\n")
                process.stdin.flush()
        opened = engine.native.statistics()["connections_opened"] - opened
        over = True
        await asyncio.gather(*asking, probing)
    late_ms.sort()
    late = (
        f"p50 {late_ms[len(late_ms) // 2]:.2f}, p99 {late_ms[len(late_ms) * 99 // 100]:.2f}, most {late_ms[-1]:.2f} ms"
    )
    over_5 = sum(one > LIMIT_MS for one in late_ms)
    return (
        f"{opened / SECONDS:6.1f} connections/s, {calls / SECONDS:7.1f} responses/s; the engine is late by {late}, "
        f"{over_5} of {len(late_ms)} by more than {LIMIT_MS} ms"
    )


if __name__ == "__main__":
    main()
