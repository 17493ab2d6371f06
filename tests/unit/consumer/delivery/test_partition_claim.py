"""`consumer.delivery.partition_claim`: a partition of one reader; it is released however the reader ends."""

from __future__ import annotations

import pytest

from kafwire.errors import KafkaError
from kafwire.types import TopicPartition
from tests.support.simulated.consumer import Consuming, fill
from tests.support.simulated.world import World

pytestmark = [pytest.mark.usefixtures("shape"), pytest.mark.shapes("as_written", "single_records")]


@pytest.mark.parametrize("how", ["closed", "dropped", "closed before it is taken"])
def test_a_claim_is_given_back_whatever_becomes_of_the_call_that_takes_it(how: str) -> None:
    """The call may have run although it was cancelled, and its outcome have been lost."""
    with World() as world:
        rows = fill(world, "t", partitions=2)
        with Consuming(world, topics="t") as consuming:
            claim = consuming.core.assignment.new_claim(TopicPartition("t", 0))
            if how == "closed before it is taken":
                claim.close()
            world.run(consuming.core.assignment.claim(claim))
            if how == "closed":
                claim.close()
                claim.close()
            del claim
            consuming.until_read(rows)
            consuming.stream(0)


def test_a_claim_that_was_refused_gives_back_nothing_of_the_other() -> None:
    with World() as world:
        fill(world, "t", partitions=2)
        with Consuming(world, topics="t", asks=False) as consuming:
            consuming.stream(0)
            claim = consuming.core.assignment.new_claim(TopicPartition("t", 0))
            for _ in range(2):
                with pytest.raises(KafkaError, match="t-0 has a stream already"):
                    world.run(consuming.core.assignment.claim(claim))
                claim.close()
