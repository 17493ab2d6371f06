"""Requests for records of share partitions that may have to wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kafwire.broker.log.fetch_sessions import share_available
from kafwire.broker.share.acquisition import Acquired, Asked, Span, acquire, without_aborted
from kafwire.broker.share.share_partitions import Led, SharePartitions
from kafwire.broker.share.share_sessions import Place
from kafwire.broker.topics.config_store import Refusal
from kafwire.broker.topics.group_configs import READ_COMMITTED
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.log.batch_header import BatchHeader
    from kafwire.broker.log.log import Records
    from kafwire.broker.log.partition import Partition
    from kafwire.broker.request import Request
    from kafwire.broker.state import ClusterState
    from kafwire.broker.timers import Timer


@dataclass(slots=True)
class Given:
    """One partition's part of a response: an error code, or records; the member owns those in `acquired`."""

    error: int = 0
    records: Records = b""
    acquired: Sequence[Acquired] = ()
    size: int = 0  # bytes


@dataclass(slots=True)
class _Source:
    """A share partition that may have records for the request: the first offset, and bytes of batches."""

    led: Led
    offset: int
    end: int
    first: int = 0
    size: int = 0
    is_out_of_range: bool = False
    is_new: bool = True  # True if no request has searched for records at this offset before


@dataclass(slots=True, eq=False)
class DelayedShareFetch:
    """One request. `places` in the order of their records; `most_bytes` of all together."""

    state: ClusterState
    request: Request
    places: Sequence[Place]
    asked: Asked
    most_bytes: int
    _partitions: SharePartitions = field(init=False)
    _errors: dict[Place, int] = field(default_factory=dict)
    _watched: list[Led] = field(default_factory=list)
    _timer: Timer | None = None
    _reply: Callable[[dict[Place, Given]], object] = field(init=False)

    def __post_init__(self) -> None:
        self._partitions = self.state.part(SharePartitions)

    def look(self) -> dict[Place, Given] | None:
        """Return the records that are available now; None: the request must wait."""
        sources = self._looked_at(self._sources())
        is_due = self.request.message.max_wait_ms <= 0
        return self._take(sources) if is_due or self._is_enough(sources) else None

    def _looked_at(self, sources: dict[Place, _Source]) -> dict[Place, _Source]:
        """Return the sources in the order in which they give records."""
        for each in sources.values():
            each.is_new = each.led.looked_at != each.offset
            each.led.looked_at = each.offset
        return dict(sorted(sources.items(), key=lambda item: item[1].is_new))

    def wait(self, reply: Callable[[dict[Place, Given]], object]) -> dict[Place, Given] | None:
        """Return the records that are available now; None: `reply` is called with them later."""
        given = self.look()
        if given is not None:
            return given
        self._reply = reply
        for led in [found for place in self.places if (found := self._load(place)) is not None]:
            led.watchers[self._on_share] = None
            led.partition.watchers.add(self._on_change)
            self._watched.append(led)
        self._timer = self.state.after(self.request.message.max_wait_ms, self._end)
        return None

    def _load(self, place: Place) -> Led | None:
        topic = self.state.topics.by_id.get(place[0])
        group_id = self.request.message.group_id
        try:
            if topic is None:
                raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
            return self._partitions.load(self.request.node, group_id, topic.partitions[place[1]])
        except Refusal as refusal:
            self._errors[place] = refusal.code
            return None

    # --- available records

    def _sources(self) -> dict[Place, _Source]:
        """Return the share partitions that may have records for the request."""
        locks = self._partitions.limits(self.request.message.group_id).locks
        found = {}
        for place in self.places:
            led = None if place in self._errors else self._load(place)
            if led is not None and led.shared.has_room(locks):
                found[place] = self._source(led)
        return found

    def _source(self, led: Led) -> _Source:
        partition, offset = led.partition, led.shared.next_offset
        end = partition.last_stable_offset if self._is_committed else partition.high_watermark
        log = partition.log
        if not log.start_offset <= offset <= log.end_offset:
            return _Source(led, offset, end, is_out_of_range=True)
        return _Source(led, offset, end, *log.available(offset, end))

    @property
    def _is_committed(self) -> bool:
        group_id = self.request.message.group_id
        return self.state.group_config(group_id, "share.isolation.level") == READ_COMMITTED

    def _is_enough(self, sources: dict[Place, _Source]) -> bool:
        """True if the response need not wait."""
        if self._errors.keys() >= {*self.places}:
            return True
        if not sources:
            return False
        if any(each.is_out_of_range or each.offset > each.end for each in sources.values()):
            return True
        limit = self.most_bytes // len(sources)
        least = min(int(self.request.message.min_bytes), self.most_bytes)
        return sum(min(each.size, limit) for each in sources.values()) >= least

    # --- waiting

    def _on_change(self, partition: Partition, grown: int) -> None:
        del partition, grown
        self._on_share()

    def _on_share(self) -> None:
        """Respond if there are enough records after a change."""
        if not self.request.connection.is_open:
            self._stop()
            return
        before = len(self._errors)
        sources = self._looked_at(self._sources())
        if len(self._errors) > before or self._is_enough(sources):
            self._stop()
            self._reply(self._take(sources))

    def _end(self) -> None:
        self._stop()
        if self.request.connection.is_open:
            self._reply(self._take(self._sources()))

    def _stop(self) -> None:
        for each in self._watched:
            each.watchers.pop(self._on_share, None)
            each.partition.watchers.discard(self._on_change)
        self._watched.clear()
        if self._timer is not None:
            self._timer.cancel()

    # --- acquisition

    def _take(self, sources: dict[Place, _Source]) -> dict[Place, Given]:
        """Acquire as many records as there is room for, partition by partition."""
        given = {place: Given(code) for place, code in self._errors.items()}
        sizes = self._sizes(sources)
        left = self.asked.most
        for place, source in sources.items():
            if source.is_out_of_range:
                source.led.shared.move_start(source.led.partition.log.start_offset)
                given[place] = Given()
            else:
                given[place] = self._acquire(source, sizes[place], replace(self.asked, most=left))
                left -= sum(each.last - each.first + 1 for each in given[place].acquired)
        return given

    def _sizes(self, sources: dict[Place, _Source]) -> dict[Place, int]:
        """Return the bytes to read of each; as in Kafka, in two rounds, each of which gives at least one batch."""
        limit = self.most_bytes // (len(sources) or 1)
        sizes: dict[Place, int] = {}
        for is_new in (False, True):
            sizes |= share_available(
                [(place, limit) for place, each in sources.items() if each.is_new is is_new],
                lambda place: (sources[place].first, sources[place].size),
                self.most_bytes,
            )
        return sizes

    def _acquire(self, source: _Source, size: int, asked: Asked) -> Given:
        led = source.led
        headers: list[BatchHeader] = []
        for header in led.partition.log.headers(source.offset, source.end):
            size -= header.size
            if size < 0:
                break
            headers.append(header)
        spans = [Span(header.base_offset, header.last_offset) for header in headers]
        limits = self._partitions.limits(led.group_id)
        acquired = acquire(led.shared, asked, limits, source.offset, spans)
        if acquired and self._is_committed:
            acquired = without_aborted(led.shared, acquired, _aborted(led.partition, headers))
        self._partitions.watch_locks(led)
        if not acquired:
            return Given()
        kept = [
            each for each in headers if each.last_offset >= acquired[0].first and each.base_offset <= acquired[-1].last
        ]
        total = sum(each.size for each in kept)
        return Given(0, led.partition.log.read(kept[0].base_offset, total), acquired, total)


def _aborted(partition: Partition, headers: Sequence[BatchHeader]) -> list[Span]:
    """Return the batches of aborted transactions."""
    aborted = partition.producers.aborted
    return [
        Span(header.base_offset, header.last_offset)
        for header in headers
        if header.is_transactional
        and not header.is_control
        and any(
            each.producer_id == header.producer_id and each.first_offset <= header.base_offset <= each.last_offset
            for each in aborted
        )
    ]
