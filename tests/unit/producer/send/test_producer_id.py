"""`producer.send.producer_id`: a producer id is asked for, and another one, or another epoch, when that is needed."""

from __future__ import annotations

import pytest

from kafwire import protocol
from kafwire.errors import BrokerError, ErrorCode
from kafwire.producer.outcome.sequencer import Identity
from tests.support.simulated.producer import Work, errors, log_of, produced, values
from tests.support.simulated.world import World


@pytest.mark.parametrize("code", [14, 15, -1])
def test_a_producer_id_is_asked_for_until_there_is_one(code: int) -> None:
    refusal = protocol.InitProducerIdResponse(error_code=code)
    with World() as world:
        world.create_topic("t")
        world.on("InitProducerId", lambda _: refusal if len(world.made("InitProducerId")) < 4 else None)
        work = Work(world, "t")
        delivery = work.send("t", b"v")
        work.flush()
        assert delivery.result().offset == 0
        assert len(world.made("InitProducerId")) == 4


def test_after_a_lost_number_the_partition_goes_on_in_the_next_epoch() -> None:
    """Batch 1 of three in flight is refused for good: the numbers after it may never follow."""
    with World() as world:
        world.create_topic("t", partitions=2)
        world.refuse = lambda batch: (
            ErrorCode.MESSAGE_TOO_LARGE if any(r.value == values(2, size=60)[1] for r in batch) else 0
        )
        work = Work(world, "t", batch_size=100)
        deliveries = [work.send("t", value) for value in values(6, size=60)]
        other = work.send("t", b"other", partition=1)
        work.flush()
        assert isinstance(deliveries[1].exception(), BrokerError)
        assert log_of(world).values() == [v for i, v in enumerate(values(6, size=60)) if i != 1]
        assert work.core.identity == Identity(1000, 1)
        assert other.result().offset == 0
        last = produced(world.made("Produce")[-1])[0][1]
        assert last.producer_epoch == 1
        work.send("t", b"later", partition=1)
        work.flush()
        assert log_of(world, 1).values() == [b"other", b"later"]


def test_when_epochs_run_out_a_new_producer_id_is_taken() -> None:
    with World() as world:
        world.create_topic("t")
        world.on(
            "Produce",
            lambda call: errors(ErrorCode.MESSAGE_TOO_LARGE)(call) if len(world.made("Produce")) == 1 else None,
        )
        work = Work(world, "t")
        work.core.identity = Identity(5, 2**15 - 1)
        refused = work.send("t", b"1")
        work.flush()
        delivery = work.send("t", b"2")
        work.flush()
        assert isinstance(refused.exception(), BrokerError)
        assert delivery.result().offset == 0
        assert work.core.identity == Identity(1000, 0)
