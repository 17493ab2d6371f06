"""A member of a group of the consumer protocol (KIP-848): the coordinator assigns, and heartbeats carry everything.

A heartbeat has the changed fields; the first one, and each after a failure, has all. A response with an assignment sets
a new target: the member revokes partitions outside it, then takes the new ones, and the next heartbeat reports that.
Pure; see `membership.py`.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from kafwire import protocol
from kafwire.cluster.requirements import is_lacking
from kafwire.consumer.group.member import Partition, Topics
from kafwire.consumer.group.membership import (
    COORDINATOR_MOVED,
    ENDS,
    FATAL_ADVICE,
    NEVER,
    Action,
    Assign,
    Fail,
    LeaveCoordinator,
    Log,
    LookUpIds,
    Lose,
    MemberOptions,
    Revoke,
    Send,
    State,
    left_behind,
    why_fatal,
)
from kafwire.error_codes import ErrorCode
from kafwire.errors import ERROR_CODES, KafkaError, ProtocolError
from kafwire.types import ConsumerGroupMetadata

JOINS, LEAVES, LEAVES_FOR_A_WHILE = 0, -1, -2  # in the place of an epoch
_GONE = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
PROMPT_MS = 100.0  # a member without partitions sends its next heartbeat after this time, then after twice as long

# A partition by its topic's id: the topic may be deleted and recreated with the same name.
Place = tuple[uuid.UUID, int]


class ConsumerMembership:
    """A member of a consumer group. It makes its own id, which stays the same when it is fenced (KIP-1082)."""

    def __init__(self, options: MemberOptions) -> None:
        self._options = options
        self.state = State.OUT
        self._member_id = options.new_id()
        self._epoch = JOINS
        self._topics: tuple[str, ...] = ()
        self._pattern: str | None = None
        self._owned: dict[Place, Partition] = {}
        self._target: frozenset[Place] | None = None  # None: the target is reached
        self._releasing: frozenset[Place] = frozenset()
        self._unnamed: frozenset[uuid.UUID] = frozenset()  # topic ids of the target without a known name
        self._logged: frozenset[uuid.UUID] = frozenset()  # those of `_unnamed` that a warning has named
        self._is_looking = False  # a look-up of ids is in progress
        self._look_ups = 0  # look-ups in a row that did not find all names
        self._look_ms = 0.0  # when the next look-up begins
        self._known: dict[str, Any] = {}  # fields and values that the coordinator has received
        self._in_flight: Any = None
        self._sending: dict[str, Any] = {}  # fields and values of the heartbeat in flight
        self._failures = 0
        self._interval_ms = float(options.heartbeat_interval_ms)
        self._prompt_ms = PROMPT_MS
        self._regular_ms = NEVER  # when a member without partitions sends its next regular heartbeat
        self._beat_ms = NEVER

    # --- public state

    @property
    def owned(self) -> tuple[Partition, ...]:
        """See `Membership`."""
        return tuple(self._owned.values())

    @property
    def is_rebalancing(self) -> bool:
        """See `Membership`."""
        return self.state is State.JOINING or self._target is not None

    @property
    def wake_ms(self) -> float:
        """See `Membership`."""
        beat_ms = self._beat_ms if self._in_flight is None else NEVER
        return min(beat_ms, self._look_ms if self._needs_names else NEVER)

    def metadata(self) -> ConsumerGroupMetadata:
        """See `Membership`. The member epoch takes the place of the generation."""
        epoch, member_id = (self._epoch, self._member_id) if self._epoch > 0 else (-1, "")
        return ConsumerGroupMetadata(self._options.group_id, epoch, member_id, self._options.instance_id)

    # --- events

    def subscribe(self, topics: Sequence[str], now: float, *, pattern: str | None = None) -> list[Action]:
        """See `Membership`."""
        wanted = tuple(sorted(set(topics)))
        if (wanted, pattern) == (self._topics, self._pattern) and self.state in (State.JOINING, State.STABLE):
            return []
        self._topics, self._pattern = wanted, pattern
        self._prompt_ms = PROMPT_MS
        if self.state not in (State.JOINING, State.STABLE):
            # Keep member id and epoch after a failure: the member has not left, and the coordinator refuses a static
            # member as new before it has left. The cause of the refusal may be gone.
            self.state = State.JOINING
            self._known = {}
        return self._beat_at(now)

    def tick(self, now: float) -> list[Action]:
        """See `Membership`."""
        actions = self._reconcile(now) if self._needs_names and now >= self._look_ms else []
        if self._in_flight is None and now >= self._beat_ms and self.state in (State.JOINING, State.STABLE):
            actions += self._beat()
        return actions

    def released(self, now: float) -> list[Action]:
        """See `Membership`."""
        for place in self._releasing:
            self._owned.pop(place, None)
        self._releasing = frozenset()
        return self._reconcile(now)

    def found(self, topics: Topics, now: float) -> list[Action]:  # noqa: ARG002
        """See `Membership`: the coordinator looks up topics itself."""
        return []

    def named(self, now: float) -> list[Action]:
        """See `Membership`. Ids that still have no name are looked up again, with back-off."""
        self._is_looking = False
        self._look_ups += 1
        self._look_ms = now + self._options.backoff_ms(self._look_ups)
        actions = self._reconcile(now)
        new = self._unnamed - self._logged
        if new:
            ids = ", ".join(sorted(str(topic_id) for topic_id in new))
            text = f"group {self._options.group_id!r} assigns partitions of topics that no broker shows yet, ids {ids}"
            actions.append(Log(f"{text}: looked up again until one does", is_warning=True))
        self._logged = self._unnamed
        return actions

    def changed(self, topics: Topics, now: float) -> list[Action]:  # noqa: ARG002
        """See `Membership`: the metadata may have names of further ids."""
        return self._reconcile(now)

    def fenced(self, code: int, sent_as: ConsumerGroupMetadata, now: float) -> list[Action]:
        """See `Membership`."""
        if self.state is not State.STABLE:
            return []
        if code not in _GONE or (sent_as.member_id, sent_as.generation_id) != (self._member_id, self._epoch):
            return self._beat_at(now)
        self._in_flight = None  # the coordinator refuses it too
        return self._refused(code, None, now)

    def leave(self, now: float) -> list[Action]:  # noqa: ARG002
        """See `Membership`. A static member keeps its place for its session."""
        if self.state in (State.OUT, State.FAILED):
            return []
        self._owned, self._releasing, self._target = {}, frozenset(), None
        self._unnamed = self._logged = frozenset()
        self._prompt_ms = PROMPT_MS
        joined = self._epoch != JOINS or self._in_flight is not None
        self.state = State.LEAVING if joined else State.OUT
        self._topics, self._pattern = (), None
        self._beat_ms = NEVER
        self._epoch = JOINS
        if not joined:
            return []
        is_static = self._options.instance_id is not None
        self._in_flight = self._message(LEAVES_FOR_A_WHILE if is_static else LEAVES, {})
        return [Send(self._in_flight, self._options.request_timeout_ms)]

    def on_response(self, message: Any, response: Any, now: float) -> list[Action]:
        """See `Membership`."""
        if message is not self._in_flight:
            return []
        self._in_flight = None
        if self.state is State.LEAVING:
            self.state = State.OUT
            return []
        if response.error_code:
            return self._refused(response.error_code, response.error_message, now)
        self._failures = 0
        self._known |= self._sending
        if response.member_id:  # in version 0 the coordinator makes the id
            self._member_id = response.member_id
        self._epoch = response.member_epoch
        self.state = State.STABLE
        self._interval_ms = response.heartbeat_interval_ms or self._interval_ms
        has_news = bool(self._news())  # changes that came during this heartbeat are sent at once
        if response.assignment is not None:
            self._look_ups, self._look_ms = 0, now
            # Send the owned partitions again, even unchanged: the coordinator waits for the member to report that it
            # does not own a partition that was assigned, and withdrawn before the member took it.
            self._known.pop("topic_partitions", None)
            self._target = frozenset(
                (topic.topic_id, number)
                for topic in response.assignment.topic_partitions
                for number in topic.partitions
            )
        self._beat_ms = now if has_news else now + self._pause_ms(now)
        return self._reconcile(now)

    def failed(self, message: Any, error: KafkaError, now: float) -> list[Action]:
        """See `Membership`: the next heartbeat has all fields."""
        if message is not self._in_flight:
            return []
        self._in_flight = None
        if self.state is State.LEAVING:
            self.state = State.OUT
            return []
        if isinstance(error, ProtocolError) and is_lacking(error, type(message)):
            text = f"{FATAL_ADVICE[ErrorCode.UNSUPPORTED_VERSION]}: {error.message}"
            return self._fail(Fail(ProtocolError(text, api=error.api, version=error.version)))
        if isinstance(error, ENDS):
            return self._fail(Fail(error))
        return self._retry(now)

    # --- heartbeats

    def _pause_ms(self, now: float) -> float:
        """Return the time up to the next heartbeat.

        A coordinator assigns some time after a member joined, and only the response to a heartbeat has the assignment.
        So a member without partitions first sends more heartbeats, besides the regular ones.
        """
        if self._owned or self._target:
            self._prompt_ms = PROMPT_MS
            return self._interval_ms
        if self._prompt_ms == PROMPT_MS:
            self._regular_ms = now + self._interval_ms
        left_ms = self._regular_ms - now
        if left_ms <= 0:
            self._prompt_ms = NEVER
            return self._interval_ms
        pause_ms = min(self._prompt_ms, left_ms)
        self._prompt_ms *= 2
        return pause_ms

    def _beat_at(self, now: float) -> list[Action]:
        """Send a heartbeat now, or after the response to the last one."""
        self._beat_ms = min(self._beat_ms, now)
        return self.tick(now)

    def _fields(self) -> dict[str, Any]:
        """Return all fields of a heartbeat: subscription, options, owned partitions."""
        options = self._options
        held: dict[uuid.UUID, list[int]] = {}
        for topic_id, number in sorted(self._owned, key=lambda place: (place[0].int, place[1])):
            held.setdefault(topic_id, []).append(number)
        fields: dict[str, Any] = {
            "rack_id": options.rack or None,
            "rebalance_timeout_ms": options.rebalance_timeout_ms,
            "subscribed_topic_names": list(self._topics),
            "server_assignor": options.assignor,
            "topic_partitions": [(topic_id, tuple(numbers)) for topic_id, numbers in held.items()],
        }
        if self._pattern is not None or "subscribed_topic_regex" in self._known:
            fields["subscribed_topic_regex"] = self._pattern or ""
        return fields

    def _news(self) -> dict[str, Any]:
        """Return the fields that the coordinator has not received yet. None means unchanged, so it is left out."""
        return {
            name: value
            for name, value in self._fields().items()
            if value is not None and (name not in self._known or self._known[name] != value)
        }

    def _beat(self) -> list[Action]:
        self._beat_ms = NEVER
        self._sending = self._news()
        self._in_flight = self._message(self._epoch, self._sending)
        return [Send(self._in_flight, self._options.request_timeout_ms)]

    def _message(self, epoch: int, fields: dict[str, Any]) -> Any:
        request = protocol.ConsumerGroupHeartbeatRequest
        message = request(
            group_id=self._options.group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            instance_id=self._options.instance_id,
            **{name: value for name, value in fields.items() if name != "topic_partitions"},
        )
        if "topic_partitions" in fields:
            message.topic_partitions = [
                request.TopicPartitions(topic_id=topic_id, partitions=list(numbers))
                for topic_id, numbers in fields["topic_partitions"]
            ]
        return message

    # --- assignments

    def _reconcile(self, now: float) -> list[Action]:
        """Go one step towards the target: revoke, then take new partitions, then send a heartbeat."""
        target = self._target
        if target is None or self._releasing or self.state is not State.STABLE:
            return []
        gone = frozenset(place for place in self._owned if place not in target)
        if gone:
            self._releasing = gone
            return [Revoke(tuple(self._owned[place] for place in self._owned if place in gone))]
        added: dict[Place, Partition] = {}
        unnamed: dict[uuid.UUID, None] = {}
        for topic_id, number in sorted(target, key=lambda place: (place[0].int, place[1])):
            name = self._options.name_of(topic_id)
            if name is None:
                unnamed[topic_id] = None
            elif (topic_id, number) not in self._owned:
                added[topic_id, number] = (name, number)
        self._owned |= added
        self._unnamed = frozenset(unnamed)
        if not unnamed:
            self._target = None
        actions: list[Action] = [Assign(tuple(added.values()))] if added or not unnamed else []
        if self._needs_names and now >= self._look_ms:
            self._is_looking = True
            actions.append(LookUpIds(tuple(unnamed)))
        if self._news():
            actions += self._beat_at(now)
        return actions

    @property
    def _needs_names(self) -> bool:
        """True if topic ids lack names, and a look-up can begin once it is due."""
        is_idle = not self._is_looking and not self._releasing and self.state is State.STABLE
        return is_idle and self._target is not None and bool(self._unnamed)

    # --- errors

    def _refused(self, code: int, said: str | None, now: float) -> list[Action]:
        if code in COORDINATOR_MOVED:
            return [LeaveCoordinator(), *self._retry(now)]
        # The group that this member had joined was deleted, or has changed its type.
        if code in _GONE or (code == ErrorCode.GROUP_ID_NOT_FOUND and self._epoch != JOINS):
            lost = self._forget_owned()
            self.state = State.JOINING
            self._epoch = JOINS
            return [left_behind(code, self._options.group_id), *lost, *self._retry(now)]
        if code in ERROR_CODES and ERROR_CODES[code].retriable:
            return self._retry(now)
        doing = "staying in" if self._epoch else "joining"
        return self._fail(why_fatal(code, doing, self._options.group_id, said))

    def _retry(self, now: float) -> list[Action]:
        self._known = {}
        self._failures += 1
        self._beat_ms = now + self._options.backoff_ms(self._failures)
        return []

    def _forget_owned(self) -> list[Action]:
        lost = tuple(self._owned.values())
        self._owned = {}
        self._releasing = frozenset()
        self._unnamed = self._logged = frozenset()
        self._target = None
        self._prompt_ms = PROMPT_MS
        return [Lose(lost)] if lost else []

    def _fail(self, reason: Fail) -> list[Action]:
        self.state = State.FAILED
        self._beat_ms = NEVER
        return [*self._forget_owned(), reason]
