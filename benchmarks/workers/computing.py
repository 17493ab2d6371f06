"""A member of a group in a process that computes.

`python -m benchmarks.workers.computing CLIENT HOW BOOTSTRAP TOPIC GROUP`, where HOW is "thread" (another thread
computes all the time) or "handler" (what handles records computes, each minute for longer than the session). It ends
with its standard input.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from typing import Any

SESSION_MS, HEARTBEAT_MS = 10_000, 3_000  # aiokafka's defaults
_HANDLED_S, _EVERY_S = 12.0, 60.0
_POLL_S = 0.5


def compute(until: float) -> None:
    """Compute, as Python does: the GIL is given up when it is asked for."""
    value = 1
    while time.monotonic() < until:
        for number in range(10_000):
            value = (value * 31 + number) & 0xFFFF


class Handler:
    """The work that is done with records."""

    def __init__(self, how: str) -> None:
        self._computes = how == "handler"
        self._next = time.monotonic() + _EVERY_S / 2

    def handle(self) -> None:
        """Records have come."""
        if self._computes and time.monotonic() > self._next:
            compute(time.monotonic() + _HANDLED_S)
            self._next = time.monotonic() + _EVERY_S


async def aiokafka(handler: Handler, bootstrap: str, topic: str, group: str) -> None:
    """The member of aiokafka."""
    import aiokafka

    consumer = aiokafka.AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    await consumer.start()
    async for _ in consumer:
        handler.handle()


async def kafwire(handler: Handler, bootstrap: str, topic: str, group: str, **options: Any) -> None:
    """The member of kafwire, of the protocol that the cluster has."""
    import kafwire

    async with kafwire.AsyncConsumer(
        bootstrap, topics=topic, group_id=group, auto_offset_reset="earliest", **options
    ) as consumer:
        async for _ in consumer.batches():
            handler.handle()


async def kafwire_classic(handler: Handler, bootstrap: str, topic: str, group: str) -> None:
    """The member of kafwire in the classic protocol."""
    times = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": HEARTBEAT_MS}
    await kafwire(handler, bootstrap, topic, group, group_protocol="classic", **times)


async def confluent(handler: Handler, bootstrap: str, topic: str, group: str) -> None:
    """The member of librdkafka."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
        }
    )
    consumer.subscribe([topic])
    while True:
        if consumer.poll(_POLL_S) is not None:
            handler.handle()


CLIENTS = {"aiokafka": aiokafka, "confluent": confluent, "kafwire": kafwire, "kafwire-classic": kafwire_classic}


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    """Be the member that is named."""
    client, how, bootstrap, topic, group = sys.argv[1:]
    threading.Thread(target=_end_with_input, daemon=True).start()
    if how == "thread":
        threading.Thread(target=compute, args=(float("inf"),), daemon=True).start()
    asyncio.run(CLIENTS[client](Handler(how), bootstrap, topic, group))


if __name__ == "__main__":
    main()
