"""`logic.metadata`: which news of a cluster are believed."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.logic.metadata import BrokerAddress, Metadata
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
    cluster_id: str | None = "c",
    replicas: tuple[int, ...] = (),
) -> MetadataResponse:
    """An answer about topic "t": partition -> (leader, epoch)."""
    return MetadataResponse(
        cluster_id=cluster_id,
        controller_id=1,
        brokers=[MetadataResponse.MetadataResponseBroker(node_id=b, host=f"h{b}", port=9092) for b in brokers],
        topics=[
            MetadataResponse.MetadataResponseTopic(
                error_code=error,
                name="t",
                topic_id=topic_id,
                partitions=[
                    MetadataResponse.MetadataResponsePartition(
                        partition_index=p, leader_id=leader, leader_epoch=epoch, replica_nodes=list(replicas)
                    )
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


def test_replicas_are_known_and_their_change_is_news() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}, replicas=(1, 2)))
    assert metadata.topics["t"].partitions[0].replicas == (1, 2)
    assert metadata.update(news({0: (1, 5)}, replicas=(1, 3))) == {"t"}
    assert metadata.topics["t"].partitions[0].replicas == (1, 3)


def test_what_was_known_of_another_cluster_is_forgotten() -> None:
    """Its epochs are higher, its topics have the same names, and no id tells them apart."""
    none = uuid.UUID(int=0)
    metadata = Metadata()
    metadata.update(news({0: (1, 50), 7: (2, 50)}, topic_id=none))
    assert metadata.is_of(news({}))
    assert not metadata.is_of(news({}, cluster_id="d"))
    assert metadata.update(news({0: (2, 1)}, topic_id=none, cluster_id="d")) == {"t"}
    assert metadata.cluster_id == "d"
    assert metadata.leader("t", 0) == 2
    assert metadata.leader("t", 7) == -1


def test_topics_that_another_cluster_lacks_have_changed() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}))
    assert metadata.update(news({}, error=UNKNOWN_TOPIC, cluster_id="d")) == {"t"}
    assert metadata.topics == {}
    assert metadata.names == {}


def test_an_answer_that_names_no_cluster_is_of_the_known_one() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}))
    metadata.update(news({0: (2, 4)}, cluster_id=None))
    assert metadata.cluster_id == "c"
    assert metadata.leader("t", 0) == 1


@pytest.mark.parametrize("topic", ["t", ID])
def test_a_hint_of_a_newer_epoch_moves_the_leader(topic: str | uuid.UUID) -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5), 1: (1, 5)}, replicas=(1, 2)))
    before = metadata.topics["t"]
    assert metadata.update_leader(topic, 0, 2, 6)
    assert metadata.leader("t", 0) == 2
    assert metadata.topics["t"].partitions[0].replicas == (1, 2)
    assert metadata.leader("t", 1) == 1
    assert before.partitions[0].leader == 1, "what was handed out stays as it was"


@pytest.mark.parametrize(
    ("topic", "partition", "leader", "epoch"),
    [
        ("t", 0, 2, 5),
        ("t", 0, 2, 4),
        ("t", 0, 2, -1),
        ("t", 0, -1, 6),
        ("t", 0, 9, 6),
        ("t", 1, 2, 6),
        ("u", 0, 2, 6),
        (OTHER_ID, 0, 2, 6),
    ],
)
def test_a_hint_that_is_no_news_changes_nothing(
    topic: str | uuid.UUID, partition: int, leader: int, epoch: int
) -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}))
    before = metadata.topics["t"]
    assert not metadata.update_leader(topic, partition, leader, epoch)
    assert metadata.topics == {"t": before}


def test_a_hint_that_there_is_no_leader_is_no_news() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}))
    assert not metadata.update_leader("t", 0, -1, 6, [(-1, "", -1, None)])
    assert metadata.leader("t", 0) == 1


def test_news_that_are_older_than_a_hint_do_not_undo_it() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}))
    metadata.update_leader("t", 0, 2, 7)
    metadata.update(news({0: (1, 6)}))
    assert metadata.leader("t", 0) == 2


def test_a_hint_brings_the_addresses_of_brokers_that_are_not_known() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}))
    assert metadata.update_leader("t", 0, 9, 6, [(9, "new", 9999, "r"), (2, "other", 1, None)])
    assert metadata.leader("t", 0) == 9
    assert metadata.brokers[9] == BrokerAddress("new", 9999, "r")
    assert metadata.brokers[2] == BrokerAddress("h2", 9092), "no word on where others listen is believed"


def test_a_hint_of_a_leader_that_moved_house_is_believed_if_it_is_news() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}))
    assert not metadata.update_leader("t", 0, 2, 5, [(2, "old", 1, None)])
    assert metadata.brokers[2] == BrokerAddress("h2", 9092)
    assert metadata.update_leader("t", 0, 2, 6, [(2, "new", 1, None)])
    assert metadata.brokers[2] == BrokerAddress("new", 1)


def test_the_name_of_an_id_is_that_of_the_newest_topic() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}))
    assert metadata.names == {ID: "t"}
    metadata.update(news({0: (1, 0)}, topic_id=OTHER_ID))
    assert metadata.names == {OTHER_ID: "t"}
    metadata.update(news({0: (1, 1)}, topic_id=uuid.UUID(int=0)))
    assert metadata.names == {}


def test_what_is_forgotten_is_not_known() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}))
    metadata.update(news({}, error=UNKNOWN_TOPIC))
    metadata.forget(["t", "never heard of"])
    assert (metadata.topics, metadata.errors, metadata.names) == ({}, {}, {})
