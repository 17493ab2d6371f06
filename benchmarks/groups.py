"""Groups beside Java's: `python -m benchmarks.groups [--short] [PART ...]`, into docs/internals/results/groups.md.

One Apache Kafka on this machine. Java's members run in one JVM, a thread each, as `tests/java/GroupMember.java` has
them; kafwire's in this process, a thread each. Rounds take turns, each with a group of its own.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import kafwire
from kafwire import TopicPartition
from kafwire.testing import KafkaCluster
from tests.support.group.clients import GroupClient, JavaMembers, KafwireMember

VALUE = b"v" * 100
READ_RECORDS = 4_000_000
MEMBERS, PARTITIONS = 50, 200
LIMIT_S = 120.0
_names = (f"bench-group-{number}" for number in itertools.count())

Join = Callable[[str, str, dict[str, object]], GroupClient]


def main() -> None:
    """Run the parts that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--short", action="store_true", help="two rounds of each, and fewer records")
    chosen = parser.parse_args()
    rounds = 2 if chosen.short else 5
    with KafkaCluster(properties={"group.initial.rebalance.delay.ms": 0}) as cluster, JavaMembers() as java:
        for name in chosen.parts or PARTS:
            PARTS[name](cluster.bootstrap, java, rounds)


def create(bootstrap: str, partitions: int) -> str:
    """A topic of this part's own."""
    name = next(_names)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, partitions)])[name].result(30)
    return name


def joins(bootstrap: str, java: JavaMembers) -> dict[str, Join]:
    """How members of each kind join."""
    return {
        "java": lambda topic, group, config: java.member(bootstrap, topic, group, config),
        "kafwire": lambda topic, group, config: KafwireMember(bootstrap, topic, group, config),
    }


def wait(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    until = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < until, "it did not come to be in time"
        time.sleep(0.002)


def show(what: str, figures: dict[str, list[float]], unit: str) -> None:
    """Medians with ranges, and the ratio of the last to the first."""
    medians = {name: statistics.median(values) for name, values in figures.items()}
    each = ", ".join(
        f"{name} {medians[name]:.3g} ({min(values):.3g} to {max(values):.3g}) {unit}"
        for name, values in figures.items()
    )
    first, *_, last = medians.values()
    print(f"{what}: {each}; ratio {last / first:.3f}", flush=True)


def read(bootstrap: str, _java: JavaMembers, rounds: int) -> None:
    """A member of a group reads as fast as a consumer of the same partitions without one."""
    topic = create(bootstrap, 8)
    records = READ_RECORDS if rounds > 2 else READ_RECORDS // 8
    with kafwire.Producer(bootstrap, compression_type="lz4") as producer:
        for number in range(records):
            producer.send(topic, VALUE, partition=number % 8)
    figures: dict[str, list[float]] = {"assigned": [], "member": []}
    partitions = [TopicPartition(topic, number) for number in range(8)]
    for turn in range(rounds + 1):
        for name, options in (
            ("assigned", {"assign": partitions}),
            ("member", {"topics": topic, "group_id": next(_names)}),
        ):
            chosen: dict[str, Any] = options
            with kafwire.Consumer(bootstrap, auto_offset_reset="earliest", **chosen) as consumer:
                got, began = 0, 0.0
                for batch in consumer.batches():
                    if not began:
                        began, first = time.perf_counter(), len(batch)
                    got += batch.to_arrow().num_rows
                    if got == records:
                        break
                if turn:  # the first one of each warms caches
                    figures[name].append((records - first) / (time.perf_counter() - began) / 1e6)
    show("reading 8 partitions of 100 B records, lz4", figures, "M/s")


def join(bootstrap: str, java: JavaMembers, rounds: int) -> None:
    """Measure the time from making a consumer to its first record, in an empty group of the consumer protocol."""
    topic = create(bootstrap, 4)
    with kafwire.Producer(bootstrap) as producer:
        for number in range(4):
            producer.send(topic, VALUE, partition=number)
    figures: dict[str, list[float]] = {"java": [], "kafwire": []}
    for number in range(3 * rounds + 1):
        for name, make in joins(bootstrap, java).items():
            began = time.perf_counter()
            member = make(topic, next(_names), {"group.protocol": "consumer"})
            wait(lambda member=member: bool(member.look()[1]))  # type: ignore[misc]
            if number:  # the first one of each warms it up
                figures[name].append((time.perf_counter() - began) * 1000)
            member.close()
    show("KIP-848: join to first record", figures, "ms")


def crowd(bootstrap: str, java: JavaMembers, rounds: int) -> None:
    """Measure from the first of many members' join until each has a stable share of the partitions."""
    topic = create(bootstrap, PARTITIONS)
    share = PARTITIONS // MEMBERS
    for how in ("consumer", "classic"):
        figures: dict[str, list[float]] = {"java": [], "kafwire": []}
        for _ in range(rounds):
            for name, make in joins(bootstrap, java).items():
                group = next(_names)
                began = time.perf_counter()
                members = [make(topic, group, {"group.protocol": how}) for _ in range(MEMBERS)]

                def is_shared(members: list[GroupClient] = members) -> bool:
                    held = [member.look()[0] for member in members]
                    return all(len(each) == share for each in held) and len(set().union(*held)) == PARTITIONS

                wait(is_shared)
                figures[name].append(time.perf_counter() - began)
                threads = [threading.Thread(target=member.close) for member in members]
                if name == "java":  # one pipe
                    for member in members:
                        member.close()
                else:
                    for thread in threads:
                        thread.start()
                    for thread in threads:
                        thread.join()
        show(f"{MEMBERS} members x {PARTITIONS} partitions, {how} protocol, stable after", figures, "s")


def move(bootstrap: str, _java: JavaMembers, rounds: int) -> None:
    """One partition goes to a new member; the others are read meanwhile: the longest time without a record of one."""
    figures: dict[str, list[float]] = {"calm": [], "moving": []}
    for how in ("cooperative", "consumer"):
        options: dict[str, Any] = {"group_protocol": "consumer"}
        if how == "cooperative":
            options = {"group_protocol": "classic", "partition_assignment_strategy": "cooperative-sticky"}
        for _ in range(rounds):
            topic, group = create(bootstrap, 4), next(_names)
            arrivals: dict[int, list[float]] = {number: [] for number in range(4)}
            with (
                producing(bootstrap, topic),
                kafwire.Consumer(bootstrap, topics=topic, group_id=group, **options) as first,
            ):
                thread = threading.Thread(target=note_arrivals, args=(first, arrivals))
                thread.start()
                wait(lambda arrivals=arrivals: all(arrivals.values()))  # type: ignore[misc]
                time.sleep(2.0)
                moved = time.perf_counter()
                with kafwire.Consumer(bootstrap, topics=topic, group_id=group, **options) as second:
                    wait(lambda second=second: bool(second.assignment))  # type: ignore[misc]
                    time.sleep(1.0)
                    over = time.perf_counter()
                    kept = {where.partition for where in first.assignment}
                    first.stop()
                    thread.join()
            for name, begin, end in (("calm", moved - 1.5, moved), ("moving", moved, over)):
                figures[name].append(1000 * max(longest_gap(arrivals[number], begin, end) for number in kept))
    show("a partition that stays, longest without a record", figures, "ms")


@contextmanager
def producing(bootstrap: str, topic: str) -> Iterator[None]:
    """A record to each of four partitions every 2 ms."""
    ends = threading.Event()

    def send() -> None:
        with kafwire.Producer(bootstrap, linger_ms=0) as producer:
            while not ends.wait(0.002):
                for number in range(4):
                    producer.send(topic, VALUE, partition=number)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def note_arrivals(consumer: kafwire.Consumer, arrivals: dict[int, list[float]]) -> None:
    """When something came of each partition."""
    for batch in consumer.batches():
        assert batch.partition is not None
        arrivals[batch.partition].append(time.perf_counter())


def longest_gap(times: list[float], begin: float, end: float) -> float:
    """The longest time between two arrivals within an interval."""
    inside = [each for each in times if begin <= each <= end]
    return max((after - before for before, after in itertools.pairwise(inside)), default=end - begin)


def idle(bootstrap: str, _java: JavaMembers, rounds: int) -> None:
    """A member that waits for records which do not come."""
    topic = create(bootstrap, 4)
    shares: dict[str, list[float]] = {}
    for how in ("classic", "consumer"):
        with kafwire.Consumer(bootstrap, topics=topic, group_id=next(_names), group_protocol=how) as consumer:
            consumer.poll(2.0)
            for _ in range(rounds):
                began, used = time.perf_counter(), time.process_time()
                consumer.poll(10.0)
                share = (time.process_time() - used) / (time.perf_counter() - began)
                shares.setdefault(how, []).append(100 * share)
    show("an idle member's processor time", shares, "%")


PARTS: dict[str, Callable[[str, JavaMembers, int], None]] = {
    "read": read,
    "join": join,
    "crowd": crowd,
    "move": move,
    "idle": idle,
}

if __name__ == "__main__":
    main()
