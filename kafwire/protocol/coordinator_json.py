"""Records of Kafka's internal topics as JSON values: their keys and values decoded. Pure: no I/O.

A key or value is {"message": ..., "version": ..., "body": ...}, as in `kafwire decode --message`. A key of an unknown
type is {"type": ...} and its bytes. Bytes that cannot be decoded have an `error` instead of the body.
"""

import base64
from functools import cache
from importlib import import_module
from typing import Any, Literal, TypeVar

from kafwire.errors import ProtocolError
from kafwire.protocol import MESSAGES
from kafwire.protocol.coordinator_record import TYPE_BYTES, CoordinatorKey, CoordinatorValue, decode_key
from kafwire.protocol.framing import decode_versioned
from kafwire.protocol.kafka_json import to_json
from kafwire.protocol.spec import Data

__all__ = ["CoordinatorTopic", "coordinator_topic", "key_json", "value_json"]

C = TypeVar("C", CoordinatorKey, CoordinatorValue)
CoordinatorTopic = Literal["__consumer_offsets", "__share_group_state", "__transaction_state"]

# The files with the record declarations of each topic.
_FILES: dict[CoordinatorTopic, tuple[str, ...]] = {
    "__consumer_offsets": ("group_records", "share_group_records", "streams_group_records"),
    "__share_group_state": ("share_state_records",),
    "__transaction_state": ("transaction_records",),
}

# Kafka's names of a transactional id's states.
_TRANSACTION_STATES = dict(
    enumerate(
        (
            "Empty",
            "Ongoing",
            "PrepareCommit",
            "PrepareAbort",
            "CompleteCommit",
            "CompleteAbort",
            "Dead",
            "PrepareEpochFence",
        )
    )
)
_CONSUMER = "consumer"
_MEMBER_PARTS = {"subscription": "ConsumerProtocolSubscription", "assignment": "ConsumerProtocolAssignment"}


def coordinator_topic(name: str) -> CoordinatorTopic | None:
    """Return the topic if coordinators write it, else None.

    >>> coordinator_topic("__consumer_offsets"), coordinator_topic("orders")
    ('__consumer_offsets', None)
    """
    return next((topic for topic in _FILES if topic == name), None)


def key_json(topic: CoordinatorTopic, data: bytes | None) -> dict[str, Any] | None:
    """Return the key of a record."""
    if data is None:
        return None
    if len(data) < TYPE_BYTES:
        return {"error": "a key begins with 2 bytes of type", **_bytes(data)}
    number = _number(data)
    cls = _by_type(topic, CoordinatorKey).get(number)
    if cls is None:
        return {"type": number, **_bytes(data[TYPE_BYTES:])}
    shown = {"message": cls.__name__, "version": 0}
    try:
        return shown | {"body": to_json(decode_key(cls, data), 0)}
    except ProtocolError as error:
        return shown | {"error": str(error), **_bytes(data[TYPE_BYTES:])}


def value_json(topic: CoordinatorTopic, key: bytes | None, data: bytes | None) -> dict[str, Any] | None:
    """Return the value of a record with this key; None is a tombstone."""
    if data is None:
        return None
    cls = _by_type(topic, CoordinatorValue).get(_number(key)) if key is not None and len(key) >= TYPE_BYTES else None
    if cls is None:
        return _bytes(data)
    shown: dict[str, Any] = {"message": cls.__name__}
    try:
        version, message = decode_versioned(cls, data)
    except ProtocolError as error:
        return shown | {"error": str(error), **_bytes(data)}
    body = to_json(message, min(version, cls.max_version))
    if cls.__name__ == "TransactionLogValue":
        body["transactionStatus"] = _TRANSACTION_STATES.get(body["transactionStatus"], body["transactionStatus"])
    elif body.get("protocolType") == _CONSUMER:
        for member, declared in zip(body["members"], getattr(message, "members"), strict=True):  # noqa: B009
            for name, part in _MEMBER_PARTS.items():
                member[name] = _part_json(part, getattr(declared, name)) or member[name]
    return shown | {"version": version, "body": body}


def _part_json(name: str, data: bytes) -> dict[str, Any] | None:
    """Return the subscription or assignment of a classic consumer; None for bytes of another form."""
    cls = MESSAGES[name]
    assert issubclass(cls, Data)
    try:
        version, message = decode_versioned(cls, data, lenient=True)
    except ProtocolError:
        return None
    return to_json(message, min(version, cls.max_version))


def _number(data: bytes) -> int:
    return int.from_bytes(data[:TYPE_BYTES], "big", signed=True)


def _bytes(data: bytes) -> dict[str, Any]:
    return {"base64": base64.b64encode(data).decode()}


@cache
def _by_type(topic: CoordinatorTopic, base: type[C]) -> dict[int, type[C]]:
    """Return the keys or the values of a topic by the type of their record."""
    modules = [import_module(f"kafwire.protocol.{file}") for file in _FILES[topic]]
    declared = (each for module in modules for each in vars(module).values() if isinstance(each, type))
    return {each.record_type: each for each in declared if issubclass(each, base) and each is not base}
