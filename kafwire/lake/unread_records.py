"""The records of a topic that a copy does not have yet: from its offsets to the ends of now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kafwire.cluster.metadata import TopicInfo
from kafwire.errors import KafkaError
from kafwire.lake.copy_progress import Progress
from kafwire.lake.resume import Copied, resume_at
from kafwire.records._records import Batch
from kafwire.sync.client import Client
from kafwire.types import Offset, TopicPartition


class UnreadRecords:
    """One reading of all partitions. `offsets`: the next offset of each, behind the batches that were read."""

    def __init__(
        self,
        client: Client,
        info: TopicInfo,
        known: Mapping[int, int],
        where: str,
        *,
        skip_lost: bool,
        options: Mapping[str, Any],
    ) -> None:
        """Look up the ends of the topic.

        Args:
            client: the client of the topic's cluster.
            info: the topic.
            known: the next offset of each partition, from the copy; a missing one begins at the beginning.
            where: the place of these offsets, for errors.
            skip_lost: continue behind records that were deleted.
            options: those of a scan, with `isolation_level`.

        Raises:
            KafkaError: see `resume_at`.
        """
        self._client = client
        self._info = info
        self._options = options
        places = [TopicPartition(info.name, number) for number in sorted(info.partitions)]
        lows = client.offsets(places, "earliest")
        ends = client.offsets(places, "latest", isolation_level=options["isolation_level"])
        self.offsets: dict[int, int] = {}
        for place in places:
            after = known.get(place.partition)
            copied = None if after is None else Copied(after, where)
            name = f"{place.topic}-{place.partition}"
            self.offsets[place.partition] = resume_at(name, copied, lows[place], ends[place], skip_lost=skip_lost)
        self._ends = {each: ends[each] for each in places if self.offsets[each.partition] < ends[each]}

    def batches(self) -> Iterator[Batch]:
        """Yield the batches. After the last one `offsets` are the ends, which may have no records before them.

        Raises:
            KafkaError: the topic was recreated, or cannot be read.
        """
        if not self._ends:
            return
        start = {each: Offset(self.offsets[each.partition]) for each in self._ends}
        end = {each: Offset(offset) for each, offset in self._ends.items()}
        with self._client.scan(self._info.name, start=start, end=end, **self._options) as scan:
            if scan._topic_ids[self._info.name] != self._info.topic_id:
                raise KafkaError(f"topic {self._info.name!r} was deleted and recreated during the copy: run it again")
            for batch in scan.batches():
                place = TopicPartition(self._info.name, batch.partition or 0)
                self.offsets[place.partition] = min(batch.next_offset, self._ends[place])
                yield batch
        self.offsets |= {each.partition: offset for each, offset in self._ends.items()}

    @property
    def progress(self) -> Progress:
        """The progress of a copy that has all batches that were read."""
        return Progress.new(self._info.name, self._info.topic_id, self.offsets)
