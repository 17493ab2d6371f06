"""`cluster.metadata`: which news of a cluster are believed."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.cluster.metadata import ANOTHER_ID_MS, REPLACED_ID_MS, REPLACED_IDS, BrokerAddress, Metadata, damage_of
from kafwire.errors import ErrorCode
from kafwire.protocol import MetadataResponse

ID, OTHER_ID = uuid.UUID(int=1), uuid.UUID(int=2)


def news(
    partitions: Mapping[int, tuple[int, int]],
    *,
    brokers: tuple[int, ...] = (1, 2, 3),
    topic_id: uuid.UUID = ID,
    error: int = 0,
    cluster_id: str | None = "c",
    replicas: tuple[int, ...] = (),
) -> MetadataResponse:
    """A response about topic "t": partition -> (leader, epoch)."""
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


def test_where_topics_have_no_ids_fewer_partitions_are_believed_after_a_while() -> None:
    """A broker that lags does not show the newest partitions yet; one that goes on like this shows another topic."""
    none = uuid.UUID(int=0)
    metadata = Metadata()
    many, few = (dict.fromkeys(range(4), (1, 5)), dict.fromkeys(range(2), (2, 0)))
    metadata.update(news(many, topic_id=none), 0)
    assert metadata.update(news(few, topic_id=none), 100) == set()
    assert metadata.update(news(many, topic_id=none), 200) == set()
    assert metadata.doubted_until_ms() is None
    assert metadata.update(news(few, topic_id=none), 300) == set()
    assert metadata.doubted_until_ms() == 300 + ANOTHER_ID_MS
    assert metadata.update(news(few, topic_id=none), 300 + ANOTHER_ID_MS) == {"t"}
    assert {p: metadata.leader("t", p) for p in range(4)} == {0: 2, 1: 2, 2: -1, 3: -1}
    assert metadata.update(news(many, topic_id=none), 400 + ANOTHER_ID_MS) == {"t"}, "partitions were added"


def test_fewer_partitions_of_the_same_id_are_old_news() -> None:
    metadata = Metadata()
    metadata.update(news(dict.fromkeys(range(4), (1, 5))), 0)
    for now_ms in (0, ANOTHER_ID_MS, 10 * ANOTHER_ID_MS):
        assert metadata.update(news({0: (1, 5)}), now_ms) == set()
    assert metadata.leader("t", 3) == 1


def test_changed_topics_are_named() -> None:
    metadata = Metadata()
    assert metadata.update(news({0: (1, 5)}), 0) == {"t"}
    assert metadata.update(news({0: (1, 5)}), 0) == set()
    assert metadata.update(news({0: (2, 6)}), 0) == {"t"}
    assert metadata.leader("t", 0) == 2


def test_news_of_an_older_epoch_do_not_move_a_leader_back() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5), 1: (1, 5)}), 0)
    assert metadata.update(news({0: (2, 4), 1: (3, 6)}), 0) == {"t"}
    assert metadata.leader("t", 0) == 1
    assert metadata.leader("t", 1) == 3


def test_brokers_without_epochs_are_believed() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, -1)}), 0)
    metadata.update(news({0: (2, -1)}), 0)
    assert metadata.leader("t", 0) == 2


def test_a_recreated_topic_starts_over() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5), 1: (1, 5)}), 0)
    assert metadata.update(news({0: (2, 0)}, topic_id=OTHER_ID), 0) == set()
    assert metadata.doubted_until_ms() == ANOTHER_ID_MS
    assert metadata.update(news({0: (2, 0)}, topic_id=OTHER_ID), ANOTHER_ID_MS) == {"t"}
    assert metadata.leader("t", 0) == 2
    assert metadata.leader("t", 1) == -1
    assert metadata.names == {OTHER_ID: "t"}
    assert metadata.doubted_until_ms() is None


@pytest.mark.parametrize(
    "between", [news({0: (1, 5)}), news({}, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)], ids=["the known one", "none"]
)
def test_another_id_is_not_believed_when_other_responses_came_in_between(between: MetadataResponse) -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}), 0)
    metadata.update(news({0: (2, 9)}, topic_id=OTHER_ID), 0)
    metadata.update(between, 10)
    assert metadata.doubted_until_ms() is None
    assert metadata.update(news({0: (2, 9)}, topic_id=OTHER_ID), ANOTHER_ID_MS) == set()
    assert metadata.topics["t"].topic_id == ID
    assert metadata.leader("t", 0) == 1


def test_an_id_that_was_replaced_is_not_believed_again_for_long() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}), 0)
    for now_ms in (0, ANOTHER_ID_MS):
        metadata.update(news({0: (2, 0)}, topic_id=OTHER_ID), now_ms)
    for now_ms in range(2 * ANOTHER_ID_MS, REPLACED_ID_MS, 5000):
        assert metadata.update(news({0: (1, 5)}), now_ms) == set()
        assert metadata.doubted_until_ms() == 2 * ANOTHER_ID_MS + REPLACED_ID_MS
    assert metadata.topics["t"].topic_id == OTHER_ID
    metadata.update(news({0: (1, 5)}), 2 * ANOTHER_ID_MS + REPLACED_ID_MS)
    assert metadata.topics["t"].topic_id == ID, "no other id came: it was the other one that is gone"


def test_few_replaced_ids_are_remembered_and_none_of_a_topic_that_is_forgotten() -> None:
    metadata = Metadata()
    for number in range(1, 20):
        for part in range(2):
            metadata.update(news({0: (1, 5)}, topic_id=uuid.UUID(int=number)), (number * 2 + part) * REPLACED_ID_MS)
    assert metadata.replaced == {"t": [uuid.UUID(int=n) for n in range(18, 18 - REPLACED_IDS, -1)]}
    metadata.update(news({0: (1, 5)}), 1e9)
    metadata.forget(["t"])
    assert metadata == Metadata("c", 1, metadata.brokers)


@given(
    st.lists(st.integers(0, 5000), max_size=4),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, ANOTHER_ID_MS - 1)), max_size=60),
)
def test_ids_never_go_back_when_brokers_lag_less_than_a_doubt_lasts(
    made_ms: list[int], responses: list[tuple[int, int]]
) -> None:
    """`made_ms` is when the topic was recreated; a response comes so long after the one before, and lags so far."""
    made_ms.sort()
    metadata, now_ms, believed = Metadata(), 0, [0]
    for pause, lag in [*responses, *[(ANOTHER_ID_MS, ANOTHER_ID_MS - 1)] * 8]:
        now_ms += pause
        shown = sum(made <= now_ms - lag for made in made_ms)
        metadata.update(news({0: (1, 5)}, topic_id=uuid.UUID(int=10 + shown)), now_ms)
        believed.append(metadata.topics["t"].topic_id.int - 10)
    assert believed == sorted(believed)
    assert believed[-1] == len(made_ms)


def test_a_partition_that_news_leave_out_stays_known() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5), 1: (2, 5)}), 0)
    metadata.update(news({0: (1, 5)}), 0)
    assert metadata.leader("t", 1) == 2


def test_a_topics_error_is_kept_beside_its_known_partitions() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}), 0)
    assert metadata.update(news({}, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 0) == set()
    assert metadata.errors == {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert metadata.leader("t", 0) == 1
    metadata.update(news({0: (1, 5)}), 0)
    assert metadata.errors == {}


def test_a_leader_that_is_not_among_the_brokers_is_none() -> None:
    metadata = Metadata()
    metadata.update(news({0: (3, 5), 1: (-1, 5)}, brokers=(1, 2)), 0)
    assert metadata.leader("t", 0) == -1
    assert metadata.leader("t", 1) == -1
    assert metadata.leader("t", 9) == -1
    assert metadata.leader("other", 0) == -1
    metadata.update(news({0: (3, 5)}), 0)
    assert metadata.leader("t", 0) == 3


def test_brokers_that_left_are_forgotten() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}), 0)
    metadata.update(news({0: (1, 5)}, brokers=(2, 3)), 0)
    assert set(metadata.brokers) == {2, 3}
    assert metadata.leader("t", 0) == -1


def test_an_election_takes_the_leader_away() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}), 0)
    metadata.update(news({0: (-1, 6)}), 0)
    assert metadata.leader("t", 0) == -1


def test_a_topic_without_a_name_is_passed_over() -> None:
    metadata = Metadata()
    response = news({0: (1, 0)})
    response.topics[0].name = None
    assert metadata.update(response, 0) == set()
    assert metadata.topics == {}


@pytest.mark.parametrize(("number", "wrong"), [(1 << 26, "67108864"), (-(1 << 31), "-2147483648"), (-1, "-1")])
def test_partition_numbers_that_cannot_be_right_are_damage(number: int, wrong: str) -> None:
    damage = damage_of(news({0: (1, 0), number: (1, 0)}))
    assert damage == f"partition {wrong} of topic 't', which has 2 partition(s)"


@pytest.mark.parametrize("numbers", [(), (0,), (2,), (0, 1, 2), (0, 3), (5, 999)])
def test_a_response_that_lacks_some_partitions_is_undamaged(numbers: tuple[int, ...]) -> None:
    assert damage_of(news(dict.fromkeys(numbers, (1, 0)))) is None


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), min_size=1))
def test_the_leader_is_that_of_the_newest_epoch_in_whatever_order_news_come(
    history: list[tuple[int, int]],
) -> None:
    leaders = {epoch: leader for leader, epoch in history}  # one leader an epoch, as elections give
    reported = [(leaders[epoch], epoch) for _, epoch in history]
    metadata = Metadata()
    for leader, epoch in reported:
        metadata.update(news({0: (leader, epoch)}), 0)
    assert metadata.leader("t", 0) == leaders[max(leaders)]


def test_replicas_are_known_and_their_change_is_news() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}, replicas=(1, 2)), 0)
    assert metadata.topics["t"].partitions[0].replicas == (1, 2)
    assert metadata.update(news({0: (1, 5)}, replicas=(1, 3)), 0) == {"t"}
    assert metadata.topics["t"].partitions[0].replicas == (1, 3)


def test_metadata_of_another_cluster_is_forgotten() -> None:
    """Its epochs are higher, its topics have the same names, and no id distinguishes them."""
    none = uuid.UUID(int=0)
    metadata = Metadata()
    metadata.update(news({0: (1, 50), 7: (2, 50)}, topic_id=none), 0)
    assert metadata.is_of(news({}))
    assert not metadata.is_of(news({}, cluster_id="d"))
    assert metadata.update(news({0: (2, 1)}, topic_id=none, cluster_id="d"), 0) == {"t"}
    assert metadata.cluster_id == "d"
    assert metadata.leader("t", 0) == 2
    assert metadata.leader("t", 7) == -1


def test_topics_that_another_cluster_lacks_have_changed() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}), 0)
    assert metadata.update(news({}, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, cluster_id="d"), 0) == {"t"}
    assert metadata.topics == {}
    assert metadata.names == {}


def test_a_response_that_names_no_cluster_is_of_the_known_one() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}), 0)
    metadata.update(news({0: (2, 4)}, cluster_id=None), 0)
    assert metadata.cluster_id == "c"
    assert metadata.leader("t", 0) == 1


@pytest.mark.parametrize("topic", ["t", ID])
def test_a_hint_of_a_newer_epoch_moves_the_leader(topic: str | uuid.UUID) -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5), 1: (1, 5)}, replicas=(1, 2)), 0)
    before = metadata.topics["t"]
    assert metadata.update_leader(topic, 0, 2, 6)
    assert metadata.leader("t", 0) == 2
    assert metadata.topics["t"].partitions[0].replicas == (1, 2)
    assert metadata.leader("t", 1) == 1
    assert before.partitions[0].leader == 1, "a returned object stays as it was"


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
    metadata.update(news({0: (1, 5)}), 0)
    before = metadata.topics["t"]
    assert not metadata.update_leader(topic, partition, leader, epoch)
    assert metadata.topics == {"t": before}


def test_a_hint_that_there_is_no_leader_is_no_news() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}), 0)
    assert not metadata.update_leader("t", 0, -1, 6, [(-1, "", -1, None)])
    assert metadata.leader("t", 0) == 1


def test_news_that_are_older_than_a_hint_do_not_undo_it() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}), 0)
    metadata.update_leader("t", 0, 2, 7)
    metadata.update(news({0: (1, 6)}), 0)
    assert metadata.leader("t", 0) == 2


def test_a_hint_brings_the_addresses_of_brokers_that_are_not_known() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}), 0)
    assert metadata.update_leader("t", 0, 9, 6, [(9, "new", 9999, "r"), (2, "other", 1, None)])
    assert metadata.leader("t", 0) == 9
    assert metadata.brokers[9] == BrokerAddress("new", 9999, "r")
    assert metadata.brokers[2] == BrokerAddress("h2", 9092), "no word on where others listen is believed"


def test_a_hint_of_a_leader_that_moved_house_is_believed_if_it_is_news() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}), 0)
    assert not metadata.update_leader("t", 0, 2, 5, [(2, "old", 1, None)])
    assert metadata.brokers[2] == BrokerAddress("h2", 9092)
    assert metadata.update_leader("t", 0, 2, 6, [(2, "new", 1, None)])
    assert metadata.brokers[2] == BrokerAddress("new", 1)


def test_the_name_of_an_id_is_that_of_the_newest_topic() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}), 0)
    assert metadata.names == {ID: "t"}
    for now_ms in (0, ANOTHER_ID_MS):
        metadata.update(news({0: (1, 0)}, topic_id=OTHER_ID), now_ms)
    assert metadata.names == {OTHER_ID: "t"}
    for now_ms in (ANOTHER_ID_MS, 2 * ANOTHER_ID_MS):
        metadata.update(news({0: (1, 1)}, topic_id=uuid.UUID(int=0)), now_ms)
    assert metadata.names == {}


def test_a_forgotten_topic_is_not_known() -> None:
    metadata = Metadata()
    metadata.update(news({0: (1, 5)}), 0)
    metadata.update(news({}, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 0)
    metadata.forget(["t", "never known"])
    assert (metadata.topics, metadata.errors, metadata.names) == ({}, {}, {})


# --- topics that a response lacks


def test_the_last_response_without_a_topic_is_remembered() -> None:
    metadata = Metadata()
    for now_ms, code in ((10.0, 3), (20.0, 29), (30.0, 5), (40.0, 0)):
        topic = MetadataResponse.MetadataResponseTopic(error_code=code, name="t", topic_id=ID)
        metadata.update(MetadataResponse(topics=[topic]), now_ms)
    assert metadata.lacked_ms == {"t": 20.0}  # LEADER_NOT_AVAILABLE is the code of a topic that exists
    metadata.forget(["t"])
    assert metadata.lacked_ms == {}
