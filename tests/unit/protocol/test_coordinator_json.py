"""Records of internal topics as JSON: every type, unknown types, damage."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.protocol import MESSAGES, encode_versioned
from kafwire.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafwire.protocol.coordinator_json import CoordinatorTopic, key_json, value_json
from kafwire.protocol.coordinator_record import CoordinatorKey
from kafwire.protocol.group_records import GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from kafwire.protocol.transaction_records import TransactionLogKey, TransactionLogValue

TOPICS: tuple[CoordinatorTopic, ...] = ("__consumer_offsets", "__share_group_state", "__transaction_state")
KEYS = [name for name, cls in MESSAGES.items() if issubclass(cls, CoordinatorKey)]


def topic_of(name: str) -> CoordinatorTopic:
    if name.startswith(("ShareSnapshot", "ShareUpdate")):
        return "__share_group_state"
    return "__transaction_state" if name.startswith("Transaction") else "__consumer_offsets"


def key_of(key: CoordinatorKey) -> bytes:
    return key.record_type.to_bytes(2, "big") + key.encode(0)


@pytest.mark.parametrize("name", KEYS)
def test_each_type_of_record_is_found_by_its_key(name: str) -> None:
    cls: Any = MESSAGES[name]
    value_class: Any = MESSAGES[name.removesuffix("Key") + "Value"]
    data = key_of(cls())
    shown = key_json(topic_of(name), data)
    assert shown is not None
    assert (shown["message"], shown["version"], "body" in shown) == (name, 0, True)
    for version in range(value_class.oldest_version, value_class.max_version + 1):
        value = value_json(topic_of(name), data, encode_versioned(value_class(), version))
        assert value is not None
        assert (value["message"], value["version"], "body" in value) == (value_class.__name__, version, True)
    assert value_json(topic_of(name), data, None) is None


def test_states_and_members_are_readable() -> None:
    key = key_of(TransactionLogKey(transactional_id="t"))
    value = value_json("__transaction_state", key, encode_versioned(TransactionLogValue(transaction_status=4), 1))
    assert value is not None
    assert value["body"]["transactionStatus"] == "CompleteCommit"
    member = GroupMetadataValue.MemberMetadata(
        subscription=encode_versioned(ConsumerProtocolSubscription(topics=["orders"]), 1),
        assignment=encode_versioned(ConsumerProtocolAssignment(), 0) + b"more",  # which Java's clients ignore
    )
    odd = GroupMetadataValue.MemberMetadata(subscription=b"odd", assignment=b"")
    group = GroupMetadataValue(protocol_type="consumer", members=[member, odd], protocol=None, leader=None)
    value = value_json("__consumer_offsets", b"\0\2\0\1g", encode_versioned(group, 3))
    assert value is not None
    first, second = value["body"]["members"]
    assert first["subscription"]["topics"] == ["orders"]
    assert first["assignment"]["assignedPartitions"] == []
    assert (second["subscription"], second["assignment"]) == ("b2Rk", "")


def test_unknown_and_damaged_records_keep_their_bytes() -> None:
    assert key_json("__consumer_offsets", b"\0\x63ab") == {"type": 99, "base64": "YWI="}
    assert key_json("__consumer_offsets", b"\0") == {"error": "a key begins with 2 bytes of type", "base64": "AA=="}
    assert key_json("__consumer_offsets", None) is None
    assert value_json("__consumer_offsets", b"\0\x63ab", b"\0\1") == {"base64": "AAE="}
    damaged = key_json("__consumer_offsets", key_of(OffsetCommitKey(group="g"))[:-1])
    assert damaged is not None
    assert "error" in damaged
    assert damaged["message"] == "OffsetCommitKey"
    newest = encode_versioned(OffsetCommitValue(offset=5), 4)
    newer = value_json("__consumer_offsets", key_of(OffsetCommitKey()), b"\0\x09" + newest[2:])
    assert newer is not None
    assert newer["version"] == 9  # only tagged fields are added, which are read over


@given(st.sampled_from(TOPICS), st.binary(max_size=40), st.binary(max_size=60))
def test_no_bytes_raise(topic: CoordinatorTopic, key: bytes, value: bytes) -> None:
    for kind in range(-1, 26):
        data = kind.to_bytes(2, "big", signed=True) + key
        json.dumps([key_json(topic, data), value_json(topic, data, value)])
