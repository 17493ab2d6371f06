"""The simulated cluster with a seed of the test's own, and with states of brokers that only a few tests script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafwire.broker.api.fetch import FetchSessions
from kafwire.broker.error_responses import ErrorPlace, inject
from kafwire.broker.faults import Fault, Faults
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.quotas import Quotas
from kafwire.broker.request import Request, Response
from kafwire.broker.security.acls import Authorizer, Operation, ResourceType
from kafwire.records import RecordBatch, decode_batches
from kafwire.testing.simulation import scripted
from tests.support import seeds

GROUP_APIS = ("OffsetCommit", "OffsetFetch", "TxnOffsetCommit", "OffsetDelete", "SyncGroup")
OFFSET_APIS = ("OffsetCommit", "OffsetFetch", "TxnOffsetCommit")


class World(scripted.World):
    """A simulated cluster. Without `seed` it has the test's; either is printed.

    `least_partitions`: of every new topic. A topic can have more partitions than a test asks for; these are empty.
    """

    least_partitions = 1

    def __init__(self, *, brokers: int = 1, topic_ids: bool = True, seed: int | None = None) -> None:
        if seed is None:
            seed = seeds.of_test()
        else:
            print(f"seed={seed}")
        super().__init__(brokers=brokers, topic_ids=topic_ids, seed=seed)
        self.throttle: Callable[[Any], int] = lambda _: 0  # milliseconds by which a Fetch is over its quota
        # Returns an error code for a batch that the broker refuses, or 0.
        self.refuse: Callable[[RecordBatch], int] | None = None
        self.offset_errors: dict[tuple[str, int], int] = {}  # of partitions, in responses about offsets
        self.loading = _Loading(self)  # groups and transactional ids whose coordinator is loading their state
        self.state.creation_ms = 300.0  # from a client's request for a missing topic to its creation
        self.unreadable: set[str] = set()  # topics that no client may read
        self.state.authorizer = _Readers(self.state, self.unreadable)
        self._scripted: dict[str, Fault] = {}
        self.state.part(Quotas).fetch = lambda request, _: self.throttle(request)
        self.state.interceptors += [self._refuse_batches, self._fail_offsets]

    def create_topic(self, name: str, *, partitions: int = 1, replicas: int = 1) -> scripted.ScriptedTopic:
        return super().create_topic(name, partitions=max(partitions, self.least_partitions), replicas=replicas)

    def fail_over(self, name: str, partition: int, leader: int, *, stable: int, for_s: float) -> None:
        """Make `leader` the leader with all records; for a while it does not know that transactions from `stable` on
        ended: their markers lie above the high watermark that it got from the previous leader.
        """
        log = self.log(name, partition)
        log.stable_at = min(stable, log.end if log.stable_at is None else log.stable_at)
        self.move_leader(name, partition, leader)

        def catch_up() -> None:
            log.stable_at = None
            log.notify(-1)

        self.loop.call_later(for_s, catch_up)

    def fetch_now(self, call: Any) -> Any:
        """The broker's own response to a Fetch that does not wait."""
        waits_ms, call.message.max_wait_ms = call.message.max_wait_ms, 0
        try:
            return self.serve(call)
        finally:
            call.message.max_wait_ms = waits_ms

    def keep_sessions(self, count: int) -> None:
        """Let each broker keep `count` fetch sessions at most."""
        self.state.part(FetchSessions).slots = count

    @property
    def history(self) -> dict[tuple[str, int], list[int]]:
        """All offsets ever committed, by partition."""
        return self._offsets.history

    def allow_auto_create(self) -> None:
        """Set `auto.create.topics.enable`."""
        self.state.configs["auto.create.topics.enable"] = "true"

    def _script(self, name: str, apis: tuple[str, ...], code: int) -> None:
        faults = self.state.part(Faults)
        if name in self._scripted:
            faults.release(self._scripted.pop(name))
        if code:
            self._scripted[name] = faults.fail_next(apis, code, times=None)

    def set_group_error(self, code: int) -> None:
        """Set the error code of coordinators' responses about whole groups; 0: none."""
        self._script("group", GROUP_APIS, code)

    def set_finding_error(self, code: int) -> None:
        """Set the error code of FindCoordinator responses; 0: none."""
        self._script("finding", ("FindCoordinator",), code)

    def _fail_offsets(self, request: Request) -> Response | None:
        """See `Interceptor`."""
        if request.name not in OFFSET_APIS:
            return None
        errors = [ErrorPlace(code, None, *where) for where, code in self.offset_errors.items() if code]
        return self._inject(request, errors)

    def _refuse_batches(self, request: Request) -> Response | None:
        """See `Interceptor`."""
        if request.name != "Produce" or self.refuse is None:
            return None
        errors = []
        for asked in request.message.topic_data:
            topic = self.state.topics.find(asked.name, asked.topic_id)
            for data in asked.partition_data if topic is not None else ():
                if topic is None or topic.partitions[data.index].leader != request.node:
                    continue
                code = self.refuse(decode_batches(bytes(data.records))[0])
                if code:
                    errors.append(ErrorPlace(code, None, topic.name, data.index))
        return self._inject(request, errors)

    def _inject(self, request: Request, errors: list[ErrorPlace]) -> Response | None:
        for error in errors:
            response = inject(self.state, request, error)
            if response is not None:
                return response
        return None


class _Readers(Authorizer):
    """Allows everything, except to read some topics."""

    def __init__(self, state: Any, unreadable: set[str]) -> None:
        self.unreadable = unreadable
        super().__init__(state)

    @property
    def is_enabled(self) -> bool:
        """True if there are such topics."""
        return bool(self.unreadable)

    @is_enabled.setter
    def is_enabled(self, value: bool) -> None:
        """Ignored."""

    def allows(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """See `Authorizer`."""
        del principal, host
        return not (operation is Operation.READ and resource_type is ResourceType.TOPIC and name in self.unreadable)


class _Loading(set[str]):
    """Groups and transactional ids: each coordinator knows its own."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._both = [world.transactions.loading, world.state.part(GroupCoordinator).loading]

    def add(self, key: str) -> None:
        for each in self._both:
            each.add(key)

    def clear(self) -> None:
        for each in self._both:
            each.clear()
