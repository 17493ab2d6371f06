"""A program with every kind of client that the Grafana dashboard shows, and failures for its panels of failures."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import kafwire
from kafwire.outbox import Outbox
from kafwire.stream import ConsumerSource, Pipeline, StopRequest, StreamMonitor, TopicSink
from kafwire.telemetry import serve_prometheus
from kafwire.testing import EmbeddedKafka
from tests.support.deadlines import ended

CLIENTS = ["billing", "bills", "orders", "sharing", "shop", "stuck"]
_PAUSE_S = 0.02
_FAILS_EACH = 50  # records and values


@contextmanager
def monitored() -> Iterator[int]:
    """Run the program; yield the port of its metrics."""
    with ExitStack() as stack:
        kafka = stack.enter_context(EmbeddedKafka())
        options: Any = {"auto_offset_reset": "earliest"}
        with kafwire.Client(kafka.bootstrap) as client:
            for topic in ("orders", "bills", "dead"):
                client.create_topic(topic, partitions=2)
        kafka.fail_next("Fetch", "UNKNOWN_SERVER_ERROR", times=None, client_id="stuck")
        producer = stack.enter_context(kafwire.Producer(kafka.bootstrap, linger_ms=5))
        consumer = kafwire.Consumer(kafka.bootstrap, topics="orders", group_id="billing", **options)
        sharing = kafwire.ShareConsumer(kafka.bootstrap, topics="orders", group_id="sharing")
        stuck = kafwire.Consumer(kafka.bootstrap, topics="orders", client_id="stuck", **options)
        outbox = Outbox(lambda: sqlite3.connect(":memory:"), kafka.bootstrap, transactional_id="shop")
        for each in (consumer, sharing, stuck):
            stack.enter_context(each)
        stack.callback(outbox.close)
        monitor, stop, over = StreamMonitor(), StopRequest(), threading.Event()
        server = serve_prometheus(
            0, orders=producer, billing=consumer, sharing=sharing, stuck=stuck, bills=monitor, shop=outbox
        )
        stack.callback(server.server_close)
        stack.callback(server.shutdown)

        def produce() -> None:
            number = 0
            while not over.wait(_PAUSE_S):
                if number % _FAILS_EACH == 0:
                    kafka.fail_next("Produce", "NOT_ENOUGH_REPLICAS")
                number += 1
                producer.send("orders", b"%d" % number, key=b"%d" % (number % 7)).result(30)

        def read(reader: Any) -> None:
            while not over.is_set():
                reader.poll(timeout=0.1)

        threads = [threading.Thread(target=read, args=(each,)) for each in (consumer, sharing, stuck)]
        threads.append(threading.Thread(target=produce))
        threads.append(threading.Thread(target=lambda: asyncio.run(_bill(kafka.bootstrap, monitor, stop))))
        for thread in threads:
            thread.start()
        try:
            yield server.server_port
        finally:
            over.set()
            stop.request()
            ended(*threads)


async def _bill(bootstrap: str, monitor: StreamMonitor, stop: StopRequest) -> None:
    """Run a stream with dead letters."""

    async def bill(order: Any) -> Any:
        if int(order.value) % _FAILS_EACH == 0:
            raise ValueError("no bill")
        return order

    pipeline = Pipeline().for_each(bill).dead_letters("dead").commit(within=0.5)
    consumer = kafwire.AsyncConsumer(
        bootstrap, topics="orders", group_id="bills", auto_offset_reset="earliest", enable_auto_commit=False
    )
    async with kafwire.AsyncProducer(bootstrap) as producer:
        await pipeline.run_async(ConsumerSource(consumer), TopicSink(producer, "bills"), monitor=monitor, stop=stop)
