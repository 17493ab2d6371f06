"""ShareFetch (78): records for a share group's member, and its acknowledgements. See KIP-932, KIP-1206.

A request waits for `min_bytes` until `max_wait_ms` have passed. Its records are locked for the member.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.api._share_requests import Result, acknowledged, check_member, places_of
from kafwire.broker.quotas import Quotas
from kafwire.broker.request import LATER, Request, Response
from kafwire.broker.security.acls import Operation, ResourceType
from kafwire.broker.share.acquisition import Asked
from kafwire.broker.share.share_fetches import DelayedShareFetch, Given
from kafwire.broker.share.share_partitions import SharePartitions
from kafwire.broker.share.share_sessions import CLOSES, OPENS, Cached, Place, ShareSession, next_epoch
from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

RECORD_LIMIT = 1  # the acquire mode that may divide batches
_TELLS_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle(state: ClusterState, request: Request) -> Response:
    """Respond when there are enough records, or when the wait is over."""
    message, response_type = request.message, protocol.ShareFetchResponse
    if not state.features.get("share.version"):
        return response_type(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        check_member(message)
        _check_renewal(message)
        has_said = any(each.acknowledgement_batches for _, each in places_of(message))
        session = _session(state, request, has_said=has_said)
    except Refusal as refusal:
        response = response_type(error_code=refusal.code, error_message=None)
        if refusal.code is not ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            return response
        state.after(message.max_wait_ms, lambda: state.reply(request, response))
        return LATER
    return _Fetch(state, request, session, has_said=has_said).start()


def _check_renewal(message: Any) -> None:
    """Refuse a request that renews locks and asks for records: its response could come late."""
    names = {"maxBytes": message.max_bytes, "minBytes": message.min_bytes, "maxRecords": message.max_records}
    wrong = [name for name, value in (names | {"maxWaitMs": message.max_wait_ms}).items() if value]
    if message.is_renew_ack and wrong:
        problem = "".join(f"{name} must be set to 0, " for name in wrong)
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{problem}if isRenewAck is true.")


def _session(state: ClusterState, request: Request, *, has_said: bool) -> ShareSession:
    """Return the session of a request; a new one, if the request opens one."""
    message = request.message
    partitions: SharePartitions = state.part(SharePartitions)
    sessions = partitions.sessions(request.node)
    member, epoch = (message.group_id, message.member_id), message.share_session_epoch
    named = [(place, place[0] in state.topics.by_id) for place, _ in places_of(message)]
    if epoch == OPENS:
        if has_said:
            raise Refusal(ErrorCode.INVALID_REQUEST, None)
        return sessions.begin(member, request.connection.number, named)
    session = sessions.find(member, epoch)
    if epoch != CLOSES:
        forgotten = [(topic.topic_id, index) for topic in message.forgotten_topics_data for index in topic.partitions]
        session.update(named, forgotten)
    return session


class _Fetch:
    """One request. `has_said`: True if it has acknowledgements.

    As in Kafka, which writes acknowledgements to a log meanwhile, they count after the first search for records:
    records that a request releases are not in its own response, unless it had to wait.
    """

    def __init__(self, state: ClusterState, request: Request, session: ShareSession, *, has_said: bool) -> None:
        self._state = state
        self._request = request
        self._session = session
        self._has_said = has_said
        self._results: Mapping[Place, Result] = {}
        self._partitions: SharePartitions = state.part(SharePartitions)
        self._refused: dict[Place, int] = {}

    def start(self) -> Response:
        """Respond, or wait."""
        message = self._request.message
        if message.share_session_epoch == CLOSES or message.is_renew_ack:
            self._acknowledge()
            return self._response({})
        readable = [place for place, cached in self._session.partitions.items() if self._is_readable(place, cached)]
        places = _rotated(readable, message.share_session_epoch)
        if not places or not message.max_records or not message.max_bytes:
            self._acknowledge()
            return self._response({})
        quotas: Quotas = self._state.part(Quotas)
        most_bytes = min(message.max_bytes, self._state.config_int("fetch.max.bytes"))
        fetch = DelayedShareFetch(
            self._state,
            self._request,
            places,
            Asked(
                message.member_id, message.max_records, message.batch_size, message.share_acquire_mode == RECORD_LIMIT
            ),
            int(min(most_bytes, quotas.most_bytes(self._request))),
        )
        given = fetch.look()
        self._acknowledge()
        if given is None:
            given = fetch.wait(lambda given: self._state.reply(self._request, self._response(given)))
        return LATER if given is None else self._response(given)

    def _acknowledge(self) -> None:
        if self._has_said:
            self._results = acknowledged(self._state, self._request)

    def _is_readable(self, place: Place, cached: Cached) -> bool:
        topic = self._state.topics.by_id.get(place[0])
        if not cached.is_known:
            self._refused[place] = ErrorCode.UNKNOWN_TOPIC_ID
        elif topic is None or not 0 <= place[1] < len(topic.partitions):
            self._refused[place] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif not self._state.allows(self._request, Operation.READ, ResourceType.TOPIC, topic.name):
            self._refused[place] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return place not in self._refused

    # --- the response

    def _response(self, given: Mapping[Place, Given]) -> Any:
        message, response = self._request.message, protocol.ShareFetchResponse
        quotas: Quotas = self._state.part(Quotas)
        throttle_ms = quotas.fetch(self._request, sum(each.size for each in given.values()))
        parts = {place: Given(code) for place, code in self._refused.items()} | dict(given)
        included: dict[Place, Any] = {}
        code = 0
        if message.share_session_epoch > 0 and self._session.epoch != next_epoch(message.share_session_epoch):
            code = ErrorCode.INVALID_SHARE_SESSION_EPOCH
        elif not throttle_ms:
            included = {place: self._part(place, each) for place, each in parts.items() if self._tells(place, each)}
        for place, (error, text) in self._results.items():
            part = included.setdefault(place, response.PartitionData(partition_index=place[1], records=b""))
            part.acknowledge_error_code, part.acknowledge_error_message = error, text
        if message.share_session_epoch == CLOSES:
            self._partitions.close(self._request.node, self._session.member)
        by_topic = itertools.groupby(sorted(included, key=lambda place: place[0].int), key=lambda place: place[0])
        return response(
            throttle_time_ms=throttle_ms,
            error_code=code,
            acquisition_lock_timeout_ms=self._partitions.lock_ms(message.group_id),
            responses=[
                response.ShareFetchableTopicResponse(
                    topic_id=topic_id, partitions=[included[place] for place in places]
                )
                for topic_id, places in by_topic
            ],
            node_endpoints=self._endpoints(included.values()),
        )

    def _tells(self, place: Place, given: Given) -> bool:
        if self._request.message.share_session_epoch == OPENS:
            return True
        cached = self._session.partitions.get(place)
        if cached is None:
            return False
        included = cached.tells(has_records=given.size > 0, has_error=given.error != 0)
        if given.size:
            self._session.move_back(place)
        return included

    def _part(self, place: Place, given: Given) -> Any:
        response = protocol.ShareFetchResponse
        part: Any = response.PartitionData(partition_index=place[1], error_code=given.error)
        part.records = given.records
        part.acquired_records = [
            response.AcquiredRecords(first_offset=each.first, last_offset=each.last, delivery_count=each.deliveries)
            for each in given.acquired
        ]
        topic = self._state.topics.by_id.get(place[0])
        if given.error in _TELLS_LEADER and topic is not None:
            partition = topic.partitions[place[1]]
            part.current_leader.leader_id = partition.leader
            part.current_leader.leader_epoch = partition.leader_epoch
        return part

    def _endpoints(self, parts: Iterable[Any]) -> list[Any]:
        leaders = {part.current_leader.leader_id for part in parts if part.error_code in _TELLS_LEADER}
        kind, nodes = protocol.ShareFetchResponse.NodeEndpoint, self._state.nodes
        found = []
        for leader in sorted(leaders & nodes.keys()):
            host, port = nodes[leader].address(self._request.connection.listener)
            found.append(kind(node_id=leader, host=host, port=port, rack=nodes[leader].rack))
        return found


def _rotated(places: list[Place], epoch: int) -> list[Place]:
    """Return the places with another one first in each request of a session."""
    at = epoch % len(places) if places and epoch > 0 else 0
    return places[at:] + places[:at]
