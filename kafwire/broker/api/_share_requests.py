"""The common part of requests of share group members: checks of ids, and of acknowledgements before they count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kafwire.broker.security.acls import Operation, ResourceType
from kafwire.broker.share.acknowledgement import RENEW, Acknowledgement, acknowledge
from kafwire.broker.share.share_partitions import SharePartitions
from kafwire.broker.share.share_sessions import Place
from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.request import Request
    from kafwire.broker.state import ClusterState

LONGEST_ID = 36  # characters of a UUID
NOT_EMPTY = "The group is not empty."
NOT_HERE = "This server does not host this topic-partition."
Result = tuple[int, str | None]  # an error code, 0 for none, and its message


def check_member_id(member_id: str | None) -> None:
    """Refuse an invalid member id."""
    if not member_id or len(member_id) > LONGEST_ID:
        raise Refusal(ErrorCode.INVALID_REQUEST, None)


def check_member(message: Any) -> None:
    """Refuse a request without a group or a member."""
    if message.group_id is None:
        raise Refusal(ErrorCode.INVALID_REQUEST, None)
    check_member_id(message.member_id)


def places_of(message: Any) -> Iterator[tuple[Place, Any]]:
    """Yield the partitions that a request names, and its data for each."""
    for topic in message.topics:
        for each in topic.partitions:
            yield (topic.topic_id, each.partition_index), each


def acknowledged(state: ClusterState, request: Request) -> Mapping[Place, Result]:
    """Apply a request's acknowledgements. Return the result of each partition that the request names.

    As in Kafka, a response in which no acknowledgement could be applied leaves out partitions without acknowledgements.
    """
    results: dict[Place, Result] = {}
    silent, has_said = set(), False
    for place, named in places_of(request.message):
        results[place] = 0, None
        try:
            said = _checked(request, named.acknowledgement_batches)
            _check_place(state, request, place)
            if not said:
                silent.add(place)
                continue
            has_said = True
            _acknowledge(state, request, place, said)
        except Refusal as refusal:
            results[place] = refusal.code, refusal.message
    return {place: result for place, result in results.items() if has_said or place not in silent}


def _checked(request: Request, batches: Sequence[Any]) -> list[Acknowledgement]:
    """Return the acknowledgements, after a check that they are in order and have known types."""
    end, found = -1, []
    for each in batches:
        types, count = each.acknowledge_types, each.last_offset - each.first_offset + 1
        is_wrong = (
            count < 1
            or each.first_offset < end
            or not types
            or (len(types) > 1 and len(types) != count)
            or not all(0 <= kind <= RENEW for kind in types)
            or (RENEW in types and not request.message.is_renew_ack)
        )
        if is_wrong:
            raise Refusal(ErrorCode.INVALID_REQUEST, None)
        end = each.last_offset
        found.append(Acknowledgement(each.first_offset, each.last_offset, types))
    return found


def _check_place(state: ClusterState, request: Request, place: Place) -> None:
    """Refuse a partition that does not exist, or that the client may not read."""
    topic = state.topics.by_id.get(place[0])
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, None)
    if not state.allows(request, Operation.READ, ResourceType.TOPIC, topic.name):
        raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    if not 0 <= place[1] < len(topic.partitions):
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)


def _acknowledge(state: ClusterState, request: Request, place: Place, said: Sequence[Acknowledgement]) -> None:
    message = request.message
    partitions: SharePartitions = state.part(SharePartitions)
    led = partitions.find(request.node, message.group_id, place)
    if led is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_HERE)
    limits = partitions.limits(message.group_id)
    may_renew = state.group_config(message.group_id, "share.renew.acknowledge.enable").strip().lower() == "true"
    ends_ms = limits.lock_ends_ms if may_renew else None
    try:
        acknowledge(led.shared, message.member_id, said, limit=limits.deliveries, lock_ends_ms=ends_ms)
    finally:
        partitions.watch_locks(led)
    led.notify()
