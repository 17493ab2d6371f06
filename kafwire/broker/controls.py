"""Controls of a running `EmbeddedKafka` for tests: fault scripts, the log of requests, stored records."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

if TYPE_CHECKING:
    from kafwire.broker.faults import Apis, Fault, Faults, Whose
    from kafwire.broker.log.partition import Partition
    from kafwire.broker.request import SeenRequest
    from kafwire.broker.socket_server import SocketServer
    from kafwire.broker.state import ClusterState
    from kafwire.broker.topics.topics import Topic
    from kafwire.errors import ErrorCode
    from kafwire.records import Record

_T = TypeVar("_T")
_SHOWN = 20  # requests in the text of an error


class Controls:
    """The base class of `EmbeddedKafka`. Any thread may call its methods."""

    state: ClusterState
    _server: SocketServer

    def ask(self, function: Callable[[ClusterState], _T]) -> _T:
        """Call `function` with the cluster's state, in the broker's thread, and return its result.

        Args:
            function: the function; it must not block, as the broker does nothing else meanwhile.

        Returns:
            The result of `function`.
        """
        return self._server.ask(lambda: function(self.state))

    @property
    def problems(self) -> list[BaseException]:
        """Errors inside the brokers. There should be none; leaving the context raises the first one."""
        return list(self._server.problems)

    # --- fault scripts

    def _script(self, function: Callable[[Faults], _T]) -> _T:
        from kafwire.broker.faults import Faults

        return self.ask(lambda state: function(state.part(Faults)))

    def fail_next(
        self,
        api: Apis,
        error: ErrorCode | str | int,
        *,
        times: int | None = 1,
        message: str | None = None,
        executed: bool = False,
        **whose: Unpack[Whose],
    ) -> Fault:
        """Fail the next requests with an error, without executing them.

        With `topic` or `partition`, the broker executes the rest of these requests.

        Args:
            api: one or several of Kafka's names, such as `Produce`.
            error: one of Kafka's names, such as `NOT_ENOUGH_REPLICAS`, or its number.
            times: the number of requests; None: all, until `clear_faults`.
            message: the error message, in responses that have a field for it.
            executed: execute the requests first, as a broker that waits in vain for its followers.
            whose: `topic`, `partition`, `node`, `client_id`: only requests that name this topic or partition, to this
                broker, or of this client.

        Returns:
            The fault; its `times` counts the requests that met it.

        Raises:
            ValueError: there is no such API or error, or the API has no place for it.
        """
        return self._script(
            lambda faults: faults.fail_next(api, error, times=times, message=message, executed=executed, **whose)
        )

    def drop_response(self, api: Apis, *, times: int | None = 1, **whose: Unpack[Whose]) -> Fault:
        """Execute the next requests, and close the connection instead of a response.

        Args and result: as `EmbeddedKafka.fail_next` does.
        """
        return self._script(lambda faults: faults.drop_response(api, times=times, **whose))

    def hang_up(self, api: Apis, *, times: int | None = 1, **whose: Unpack[Whose]) -> Fault:
        """Close the connection on the next requests, without executing them.

        Args and result: as `EmbeddedKafka.fail_next` does.
        """
        return self._script(lambda faults: faults.hang_up(api, times=times, **whose))

    def delay(self, api: Apis, seconds: float, *, times: int | None = None, **whose: Unpack[Whose]) -> Fault:
        """Execute requests, and delay their responses; later requests of the connection wait too.

        Args:
            api: one or several of Kafka's names.
            seconds: the delay.
            times: the number of requests; None: all, until `clear_faults`.
            whose: the requests; see `fail_next`.

        Returns:
            The fault; its `times` counts the requests that met it.
        """
        return self._script(lambda faults: faults.delay(api, seconds, times=times, **whose))

    @contextmanager
    def hold(self, api: Apis, **whose: Unpack[Whose]) -> Iterator[Fault]:
        """Hold requests within the context; the broker serves them when the context ends.

        Later requests of the same connections wait too. Takes arguments as `EmbeddedKafka.fail_next` does.

        Returns:
            A context with the fault as its value; `held` of the fault has the requests.
        """
        fault = self._script(lambda faults: faults.hold(api, **whose))
        try:
            yield fault
        finally:
            self._script(lambda faults: faults.release(fault))

    def wait_for_fault(self, fault: Fault, times: int = 1, *, timeout: float = 5.0) -> None:
        """Wait until a number of requests has met a fault. It blocks: in a coroutine, call it by `asyncio.to_thread`.

        Args:
            fault: the result of `fail_next`, or of another of these methods.
            times: the number of requests.
            timeout: in seconds.

        Raises:
            TimeoutError: fewer requests met it within `timeout` seconds.
        """
        came = threading.Event()

        def on_fault(met: Fault) -> None:
            if met is fault and fault.times >= times:
                came.set()

        def begin(faults: Faults) -> None:
            faults.watchers.append(on_fault)
            on_fault(fault)

        self._script(begin)
        try:
            if not came.wait(timeout):
                raise TimeoutError(
                    f"the fault ({', '.join(fault.apis)} {fault}) was met {fault.times} of {times} times within "
                    f"{timeout} s. The last requests:\n{self.last_requests(_SHOWN)}"
                )
        finally:
            self._script(lambda faults: faults.watchers.remove(on_fault))

    def clear_faults(self) -> None:
        """End all faults, and serve held requests. Leaders, coordinators and brokers stay as they are."""
        self._script(lambda faults: faults.clear())

    def disconnect(self, node: int | None = None) -> None:
        """Close all connections to a broker; None: to all.

        Args:
            node: the broker's number; None: all of them.
        """
        self.ask(lambda _: self._server.break_off(node))

    # --- the cluster

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Make another broker the leader of a partition; -1: no broker leads it.

        Args:
            topic: an existing topic.
            partition: the partition's number.
            node: the broker's id; -1: no broker leads it.
        """
        self._script(lambda faults: faults.move_leader(topic, partition, node))

    def move_coordinator(self, group: str, node: int) -> None:
        """Make another broker the coordinator of a group or a transactional id; -1: no broker coordinates it.

        Args:
            group: the group's id, or the transactional id.
            node: the broker's id; -1: no broker coordinates it.
        """
        self._script(lambda faults: faults.move_coordinator(group, node))

    def stop_node(self, node: int, *, clean: bool = True) -> None:
        """Stop a broker: its ports and connections are closed, and other replicas lead its partitions.

        Args:
            node: the broker's id.
            clean: the broker saves its state of producers first.
        """

        def stop(faults: Faults) -> None:
            faults.stop_node(node, clean=clean)
            self._server.silence(node)

        self._script(stop)

    def start_node(self, node: int) -> None:
        """Start a broker again, at the same ports, with the same data.

        Args:
            node: the broker's id.
        """

        def start(faults: Faults) -> None:
            self._server.listen_again(node)
            faults.start_node(node)

        self._script(start)

    # --- requests

    def requests(
        self,
        api: Apis = (),
        *,
        node: int | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        after: int = 0,
    ) -> list[SeenRequest]:
        """Return the requests to the brokers: the last 10,000 or 32 MiB of them, in order.

        Args:
            api: one or several of Kafka's names; none: all.
            node: only requests to this broker.
            client_id: only requests of this client.
            topic: only requests that name this topic.
            after: only requests after the one with this number.

        Returns:
            The requests.
        """
        names = _names(api)
        return self.ask(
            lambda state: state.requests.find(names, node=node, client_id=client_id, topic=topic, after=after)
        )

    def forget_requests(self) -> None:
        """Clear the log of requests."""
        self.ask(lambda state: state.requests.clear())

    def wait_for_request(
        self,
        api: Apis,
        *,
        timeout: float = 5.0,
        count: int = 1,
        node: int | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        after: int = 0,
    ) -> SeenRequest:
        """Wait until the brokers have received `count` such requests, and return the last of them.

        Requests in the log count too. It blocks: in a coroutine, call it by `asyncio.to_thread`.

        Args:
            api: one or several of Kafka's names.
            timeout: in seconds.
            count: the number of requests.
            node: as for `requests`.
            client_id: as for `requests`.
            topic: as for `requests`.
            after: as for `requests`.

        Returns:
            The request.

        Raises:
            TimeoutError: fewer came within `timeout` seconds.
        """
        names, came = _names(api), threading.Event()

        def find() -> list[SeenRequest]:
            return self.state.requests.find(names, node=node, client_id=client_id, topic=topic, after=after)

        def on_request(seen: SeenRequest) -> None:
            if seen.api in names and len(find()) >= count:
                came.set()

        def begin(state: ClusterState) -> None:
            state.requests.watchers.append(on_request)
            if len(find()) >= count:
                came.set()

        self.ask(begin)
        try:
            if not came.wait(timeout):
                raise TimeoutError(
                    f"{len(self.ask(lambda _: find()))} of {count} requests {' or '.join(names)} came within "
                    f"{timeout} s. The last ones of all:\n{self.last_requests(_SHOWN)}"
                )
        finally:
            self.ask(lambda state: state.requests.watchers.remove(on_request))
        return self.ask(lambda _: find())[count - 1]

    def last_requests(self, count: int = 50) -> str:
        """Return the last requests as text: time, broker, API, client, topics, and the fault that it met.

        The text is available after `close` too.

        Args:
            count: the most requests.

        Returns:
            A line for each request, or `none`.
        """
        try:
            seen = self.requests()
        except RuntimeError:
            seen = list(self.state.requests)
        return "\n".join(map(str, seen[-count:])) or "none"

    # --- stored data

    def create_topic(self, name: str, partitions: int = 1, replicas: int = 1, **configs: Any) -> None:
        """Create a topic.

        Args:
            name: the topic's name.
            partitions: the number of partitions.
            replicas: the number of replicas of each partition.
            configs: its options, with underscores: `cleanup_policy="compact"`.

        Raises:
            ValueError: the topic exists already, or an option is unknown or invalid.
        """
        from kafwire.broker.topics.configs import TOPIC_CONFIGS

        options = {
            key.replace("_", "."): str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in configs.items()
        }
        for option, value in options.items():
            known = TOPIC_CONFIGS.get(option)
            problem = f"topics have no option {option}" if known is None else known.problem(value)
            if problem:
                raise ValueError(problem)

        def create(state: ClusterState) -> None:
            if state.topics.find(name) is not None:
                raise ValueError(f"there is a topic {name} already")
            state.topics.create(name, partitions, replicas, configs=options)

        self.ask(create)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records.

        Args:
            name: the topic's name.
        """
        self.ask(lambda state: state.topics.delete(_topic(state, name)))

    def append(self, topic: str, values: Iterable[Any], partition: int = 0) -> int:
        """Append a batch of records to a partition's log, as a producer does.

        Args:
            topic: an existing topic.
            values: for each record its value, as bytes or text, or a dict with `value`, `key`, `headers` and
                `timestamp_ms`.
            partition: the partition's number.

        Returns:
            The offset of the first record.
        """
        from kafwire.records import encode_batch

        records = [_record(value) for value in values]

        def append(state: ClusterState) -> int:
            now = {"timestamp_ms": state.wall_ms}
            data = encode_batch([now | record for record in records])
            return _partition(state, topic, partition).append(data)

        return self.ask(append)

    def records(self, topic: str, partition: int | None = None, *, committed: bool = False) -> list[Record]:
        """Return the records of a topic, or of one of its partitions, in order of partitions and offsets.

        Args:
            topic: an existing topic.
            partition: the partition's number; None: all.
            committed: leave out records of aborted and open transactions.

        Returns:
            The records, without transaction markers.
        """
        from kafwire.broker.log.stored_records import stored_records

        def read(state: ClusterState) -> list[Record]:
            partitions = _topic(state, topic).partitions
            if partition is not None:
                partitions = [_partition(state, topic, partition)]
            return [record for each in partitions for record in stored_records(each, committed=committed)]

        return self.ask(read)

    def committed(self, group: str) -> Mapping[tuple[str, int], int]:
        """Return a group's committed offsets, by topic and partition.

        Args:
            group: the group's id.

        Returns:
            The offset of the next record to read, by topic and partition.
        """
        from kafwire.broker.groups.offsets import OffsetStore

        return self.ask(
            lambda state: {place: its.offset for place, its in sorted(state.part(OffsetStore).of(group).items())}
        )


def _names(api: Apis) -> tuple[str, ...]:
    from kafwire.broker.faults import apis_of

    return apis_of(api) if api else ()


def _topic(state: ClusterState, name: str) -> Topic:
    found = state.topics.find(name)
    if found is None:
        raise KeyError(f"there is no topic {name}")
    return found


def _partition(state: ClusterState, topic: str, index: int) -> Partition:
    partitions = _topic(state, topic).partitions
    if not 0 <= index < len(partitions):
        raise KeyError(f"there is no partition {topic}-{index}")
    return partitions[index]


def _record(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"value": value.encode()}
    return dict(value) if isinstance(value, Mapping) else {"value": value}
