"""`logic.metadata`: which news of a cluster are believed."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from kafwire.logic.metadata import Metadata
from kafwire.protocol import MetadataResponse

ID, OTHER_ID = uuid.UUID(int=1), uuid.UUID(int=2)
LEADER_NOT_AVAILABLE = 5
UNKNOWN_TOPIC = 3


def news(
    partitions: Mapping[int, tuple[int, int]],
    *,
    brokers: tuple[int, ...] = (1, 2, 3),
    topic_id: uuid.UUID = ID,
    error: int = 0,
) -> MetadataResponse:
    """An answer about topic "t": partition -> (leader, epoch)."""
    return MetadataResponse(
        cluster_id="c",
        controller_id=1,
        brokers=[MetadataResponse.MetadataResponseBroker(node_id=b, host=f"h{b}", port=9092) for b in brokers],
        topics=[
            MetadataResponse.MetadataResponseTopic(
                error_code=error,
                name="t",
                topic_id=topic_id,
                partitions=[
                    MetadataResponse.MetadataResponsePartition(partition_index=p, leader_id=leader, leader_epoch=epoch)
                    for p, (leader, epoch) in partitions.items()
                ],
            )
        ],
    )


def test_what_changed_is_named() -> None:
    metadata = Metadata()
    assert metadata.update(news({0: (1, 5)})) == {"t"}
    assert metadata.update(news({0: (1, 5)})) == set()
    assert metadata.update(news({0: (2, 6)})) == {"t"}
    assert metadata.leader("t", 0) == 2


def test_news_of_an_older_epoch_do_not_move_a_leader_back() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5), 1: (1, 5)}))
    assert metadata.update(news({0: (2, 4), 1: (3, 6)})) == {"t"}
    assert metadata.leader("t", 0) == 1
    assert metadata.leader("t", 1) == 3


def test_brokers_that_tell_no_epoch_are_believed() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, -1)}))
    metadata.update(news({0: (2, -1)}))
    assert metadata.leader("t", 0) == 2


def test_a_topic_made_anew_starts_over() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5), 1: (1, 5)}))
    metadata.update(news({0: (2, 0)}, topic_id=OTHER_ID))
    assert metadata.leader("t", 0) == 2
    assert metadata.leader("t", 1) == -1


def test_a_partition_that_news_leave_out_stays_known() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5), 1: (2, 5)}))
    metadata.update(news({0: (1, 5)}))
    assert metadata.leader("t", 1) == 2


def test_an_error_is_kept_until_better_news_and_what_was_known_stays() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}))
    assert metadata.update(news({}, error=UNKNOWN_TOPIC)) == set()
    assert metadata.errors == {"t": UNKNOWN_TOPIC}
    assert metadata.leader("t", 0) == 1
    metadata.update(news({0: (1, 5)}))
    assert metadata.errors == {}


def test_a_leader_that_is_not_among_the_brokers_is_none() -> None:
    metadata = Metadata()
    metadata.update(news({0: (3, 5), 1: (-1, 5)}, brokers=(1, 2)))
    assert metadata.leader("t", 0) == -1
    assert metadata.leader("t", 1) == -1
    assert metadata.leader("t", 9) == -1
    assert metadata.leader("other", 0) == -1
    metadata.update(news({0: (3, 5)}))
    assert metadata.leader("t", 0) == 3


def test_brokers_that_left_are_forgotten() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}))
    metadata.update(news({0: (1, 5)}, brokers=(2, 3)))
    assert set(metadata.brokers) == {2, 3}
    assert metadata.leader("t", 0) == -1


def test_an_election_takes_the_leader_away() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}))
    metadata.update(news({0: (-1, 6)}))
    assert metadata.leader("t", 0) == -1


def test_a_topic_without_a_name_is_passed_over() -> None:
    metadata = Metadata()
    response = news({0: (1, 0)})
    response.topics[0].name = None
    assert metadata.update(response) == set()
    assert metadata.topics == {}


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), min_size=1))
def test_the_leader_is_that_of_the_newest_epoch_in_whatever_order_news_come(
    history: list[tuple[int, int]],
) -> None:
    leaders = {epoch: leader for leader, epoch in history}  # one leader an epoch, as elections give
    told = [(leaders[epoch], epoch) for _, epoch in history]
    metadata = Metadata()
    for leader, epoch in told:
        metadata.update(news({0: (leader, epoch)}))
    assert metadata.leader("t", 0) == leaders[max(leaders)]
