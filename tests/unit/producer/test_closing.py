"""`Producer.close(timeout)` bounds the whole close: the end of a transaction and the flush."""

from __future__ import annotations

import pytest

import kafwire
from kafwire.broker.request import Request
from kafwire.errors import KafkaTimeoutError
from kafwire.testing.simulation.cluster import ClusterWorld


def hang(request: Request) -> None:
    """Brokers send no response in time."""
    request.delay_ms = 300_000


@pytest.mark.parametrize("transactional_id", [None, "x"])
def test_close_ends_in_time_though_no_broker_responds(transactional_id: str | None) -> None:
    with ClusterWorld(brokers=1) as world:
        world.state.topics.create("t", 1, 1)
        producer = kafwire.Producer(
            world.bootstrap, engine=world.engine, linger_ms=0, transactional_id=transactional_id
        )
        if transactional_id is not None:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("t", b"sent before")
            producer.flush()
        delivery = producer.send("t", b"v")
        world.state.interceptors.insert(0, hang)
        began = world.loop.time()
        with pytest.raises(KafkaTimeoutError, match="1 record"):
            producer.close(2.0)
        assert 1.9 < world.loop.time() - began < 2.2
        assert delivery.done()
