"""A topic that is written to, and members of a group that read it, of any kind of client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import kafwire
from tests.support.deadlines import until
from tests.support.group.clients import AioMember, ConfluentMember, GroupClient, JavaMembers, KafwireMember, Seen

PARTITIONS = 6
GROUP = "readers"
PATIENCE_S = 40.0


_KINDS: dict[str, Callable[..., GroupClient]] = {
    "confluent": ConfluentMember,
    "aiokafka": AioMember,
    "kafwire": KafwireMember,
}


class GroupStage:
    """A topic that is written to, and the members that read it. `close` it in the end."""

    def __init__(self, bootstrap: str, java: JavaMembers | None, topic: str = "t", group: str = GROUP) -> None:
        self.members: list[GroupClient] = []
        self._bootstrap, self._topic, self._group = bootstrap, topic, group
        self._java = java
        self._written: Counter[Seen] = Counter()
        self._producer = kafwire.Producer(bootstrap, linger_ms=0)

    def join(self, kind: str, **config: Any) -> GroupClient:
        """A member that reads from now on. Options have underscores for dots."""
        options = {name.replace("_", "."): value for name, value in config.items()}
        if kind == "kafwire":  # the others speak it by default
            options.setdefault("group.protocol", "classic")
        where = self._bootstrap, self._topic, self._group, options
        member: GroupClient
        if kind == "java":
            if options.get("partition.assignment.strategy") == "cooperative-sticky":
                name = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
                options["partition.assignment.strategy"] = name
            assert self._java is not None
            member = self._java.member(*where)
        else:
            member = _KINDS[kind](*where)
        self.members.append(member)
        return member

    def write(self, count: int = 10) -> None:
        """Write `count` records to each partition."""
        for partition in range(PARTITIONS):
            for _ in range(count):
                made = self._producer.send(self._topic, b"v", partition=partition).result(10)
                self._written[made.partition, made.offset] += 1

    def read(self) -> Counter[Seen]:
        """The records that were read, and how often."""
        return Counter(seen for member in self.members for seen in member.look()[1])

    def describe(self) -> str:
        """The text for a failure: the members' partitions."""
        looks = [(sorted(a), len(records), error) for a, records, error in (m.look() for m in self.members)]
        return f"members: {looks}"

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait until something is so."""
        try:
            until(condition, what, PATIENCE_S)
        except AssertionError as failed:
            failed.add_note(self.describe())
            raise

    def all_is_read(self) -> None:
        """Every record was read exactly once, by whichever member."""
        self.wait("all is read", lambda: len(self.read()) >= len(self._written))
        assert self.read() == self._written

    def shared(self, *members: GroupClient) -> None:
        """The members have all partitions between them, each about as many."""
        least = PARTITIONS // len(members)

        def is_shared() -> bool:
            assigned = [member.look()[0] for member in members]
            everything = sorted(partition for each in assigned for partition in each)
            return everything == [*range(PARTITIONS)] and min(map(len, assigned)) >= least

        self.wait(f"{len(members)} share the partitions", is_shared)

    def close(self) -> None:
        """Close all members."""
        for member in self.members:
            member.close()
        self._producer.close()
