"""The groups of a cluster and the ends of their partitions, for commands that show lags: `Admin` beside `Client`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafwire.cli.connection import client_options, only
from kafwire.errors import KafkaError
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from kafwire import Admin, Client
    from kafwire.admin import GroupDescription

__all__ = ["Groups", "committed_offsets", "open_groups"]

_SHARE = "share"


@contextmanager
def open_groups(brokers: str | None, settings: tuple[str, ...], config_file: Path | None) -> Iterator[Groups]:
    """Connect with these options, which may include consumer options, as in a file for all commands."""
    from kafwire import Admin, Client
    from kafwire.config import ClientConfig, ConsumerConfig

    options = only(client_options(ConsumerConfig, brokers, settings, config_file), ClientConfig)
    with Client(**options) as client, Admin(**options) as admin:
        yield Groups(client, admin)


class Groups:
    """The groups of a cluster. `unavailable`: partitions that `ends` could not look up, with the errors."""

    def __init__(self, client: Client, admin: Admin) -> None:
        self.client, self.admin = client, admin
        self.unavailable: dict[TopicPartition, KafkaError] = {}

    def offsets(
        self, group: GroupDescription
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int | None] | None]:
        """Return the committed offsets of a group; for a share group, its start offsets and the broker's lags.

        Each partition with state of the share group has a lag, which is None if the broker does not know it.
        """
        found = self.admin.list_group_offsets([group.group_id])[group.group_id]
        offsets = {where: its.offset for where, its in found.items() if its is not None}
        if group.type != _SHARE:
            return offsets, None
        return offsets, {where: None if its is None else its.lag for where, its in found.items()}

    def existing(self, topics: Iterable[str]) -> set[TopicPartition]:
        """Return the partitions of the topics that exist."""
        return {
            TopicPartition(topic.name, part.partition_index)
            for topic in self.client.metadata(set(topics)).topics
            if not topic.error_code
            for part in topic.partitions
        }

    def ends(self, partitions: Iterable[TopicPartition], when: Any) -> dict[TopicPartition, int]:
        """Look up offsets by time, for partitions that still exist and whose leaders respond; see `unavailable`."""
        wanted = list(partitions)
        there = self.existing({where.topic for where in wanted})
        for where in wanted:
            self.unavailable.pop(where, None)
        available = [where for where in wanted if where in there]
        return self.client.offsets(available, when, on_error=self.unavailable.__setitem__)


def committed_offsets(admin: Admin, group_id: str, timeout: float | None = None) -> dict[TopicPartition, int]:
    """Return all committed offsets of a group."""
    found = admin.list_group_offsets([group_id], timeout=timeout)[group_id]
    return {where: its.offset for where, its in found.items() if its is not None}
