"""The calls of `Producer` and `AsyncProducer`: arguments checked, then one piece of work on the engine.

`send` and `send_batch` have no call here, as a layer would cost each record: a record is checked by its encoding, and
only its failure looks for the wrong argument (`wrong_argument`). Their faces differ in how they wait for room.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from kafwire.cluster.cluster import Cluster
from kafwire.config import ProducerConfig, from_config
from kafwire.config.checks import HIGHEST
from kafwire.errors import ConfigError, UnknownPartition
from kafwire.integers import integer, natural
from kafwire.producer.buffer._accumulator import Accumulator
from kafwire.producer.core import ProducerCore
from kafwire.records._arrow_rows import RowsReader
from kafwire.runtime.engine import default_engine
from kafwire.runtime.interfaces import Engine, Work
from kafwire.serializer_calls import Serializers
from kafwire.timeouts import timeout_of
from kafwire.types import ConsumerGroupMetadata, TopicPartition, TransactionHandle

if TYPE_CHECKING:
    from kafwire.producer.transactions.manager import Transactions

Header = tuple[str, bytes | str | None]
keywords_of = partial(from_config, ProducerConfig)


class ProducerCalls:
    """The calls of `Producer` and `AsyncProducer`, which document them."""

    _core: ProducerCore

    def __init__(self, core: ProducerCore) -> None:
        self._core = core

    def flush(self, timeout: float | None) -> Work[None]:
        """Wait until every outcome is known."""
        return partial(self._core.flush, timeout_of(timeout))

    def transactions(self) -> Transactions:
        """Return the transactions of the producer; `ConfigError` without a `transactional_id`."""
        if self._core.transactions is None:
            raise ConfigError("transactions need a transactional_id: give the producer one")
        return self._core.transactions

    def init_transactions(self, timeout: float | None) -> Work[None]:
        """Take over the `transactional_id`."""
        return partial(self.transactions().initialize, timeout_of(timeout))

    def begin_transaction(self, timeout: float | None) -> Work[None]:
        """Begin a transaction."""
        return partial(self.transactions().begin, timeout_of(timeout))

    def commit_transaction(self, timeout: float | None) -> Work[None]:
        """Flush, and commit."""
        return partial(self.transactions().commit, timeout_of(timeout))

    def abort_transaction(self, timeout: float | None) -> Work[None]:
        """Drop unsent records, and abort."""
        return partial(self.transactions().abort, timeout_of(timeout))

    def detach(self, timeout: float | None) -> Work[TransactionHandle]:
        """Flush, and detach the open transaction."""
        return partial(self.transactions().detach, timeout_of(timeout))

    def send_offsets(
        self, offsets: Mapping[TopicPartition, int], group: ConsumerGroupMetadata | str, timeout: float | None
    ) -> Work[None]:
        """Commit a group's offsets with the transaction."""
        return partial(self.transactions().send_offsets, offsets, group, timeout_of(timeout))

    def close(self, timeout: float | None) -> Work[dict[str, int]]:
        """Flush, and close; return the numbers of undelivered records by partition."""
        return partial(self._core.close, timeout_of(timeout))


class RowsToSend:
    """The rows of one `send_batch`, encoded into batches while there is room."""

    missing: UnknownPartition | None = None
    """The added partition whose metadata is needed before it can go on."""
    _rows: Any = None
    _plan: Any = None
    _name = ""  # of the plan's topic
    _row = 0

    def __init__(
        self, accumulator: Accumulator, topic: str | None, pieces: Iterable[Any], partition: int | None
    ) -> None:
        self._accumulator = accumulator
        self._topic = topic
        self._chunks = (rows for piece in pieces for rows in RowsReader(piece))
        self.partition = partition
        self._targets: list[tuple[str, bytes | None]] = []  # topics (and choices) of these rows, the next one last
        self._generation = accumulator.transaction_generation
        self.unknown: list[str] = []
        """The topics whose metadata is needed before it can go on."""
        self.parts: list[tuple[Any, int, int]] = []

    def go_on(self) -> bool:
        """Encode until all rows are in batches (return True), a topic is unknown, or the budget is used up."""
        accumulator = self._accumulator
        while True:
            if self.unknown:
                self.unknown = [name for name in self.unknown if name not in accumulator.topics]
                if self.unknown:
                    return False
            if self._plan is not None:
                if not accumulator.append_rows(self._plan, self.parts):
                    self.unknown = [name for name in [self._name] if name not in accumulator.topics]
                    return False
                self._plan = None
            if self._targets:
                self._name, chosen = self._targets[-1]
                self.missing = None
                try:
                    self._plan = accumulator.plan_rows(
                        self._name, self._rows, self.partition, self._row, self._generation, chosen
                    )
                except UnknownPartition as error:
                    self.missing = error
                    return False
                if self._plan is None:  # the topic was forgotten, as other rows took long
                    self.unknown = [self._name]
                    return False
                self._targets.pop()
                continue
            self._row += 0 if self._rows is None else len(self._rows)
            self._rows = next(self._chunks, None)
            if self._rows is None:
                return True
            self._targets = accumulator.split_rows(self._topic, self._rows, self._row)[::-1]
            self.unknown = [name for name, _ in self._targets if name not in accumulator.topics]


def producer_parts(
    options: Mapping[str, Any], engine: Engine | None, *, blocking: bool, shared: Cluster | None = None
) -> tuple[ProducerCore, Serializers | None]:
    """Return the core and the serializers of a new producer; `ConfigError` for bad arguments of its constructor.

    The connections of a `shared` cluster stay open when the producer is closed.
    """
    config = ProducerConfig.build(options)
    serializers = Serializers.of(config, blocking=blocking)
    if shared is not None:
        return ProducerCore(shared, config, is_shared=True), serializers
    return ProducerCore(Cluster(default_engine() if engine is None else engine, config), config), serializers


@cache
def serializing(kind: type, plain: type, with_serializers: type) -> type:
    """Return a subclass of `kind` with serializers, with the same name. Methods of `kind` take precedence."""
    bases = (with_serializers,) if kind is plain else (kind, with_serializers)
    same = {"__doc__": kind.__doc__, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, bases, same)


def carry(error: BaseException, delivery: object) -> None:
    """Attach the deliveries buffered so far to an exception that ends a `send_batch` (`KafkaError.delivery`)."""
    with contextlib.suppress(AttributeError, TypeError):
        error.delivery = delivery  # type: ignore[attr-defined]


def check_topic(topic: Any) -> None:
    """Raise `ConfigError` for a value that cannot be a topic's name."""
    if not isinstance(topic, str) or not topic:
        raise ConfigError(f"the topic must be a non-empty str, not {topic!r}")


def check_partition(partition: Any) -> int | None:
    """Return the number of a partition, or None; raise `ConfigError` for any other value.

    A negative number passes: the error of the accumulator names the topic's partitions.
    """
    number = integer(partition)
    if partition is not None and (number is None or not -HIGHEST <= number <= HIGHEST):
        needed = "a whole number or None" if number is None else "from 0 to 2**31 - 1"
        raise ConfigError(f"partition={partition!r}: it must be {needed}")
    return number


def wrong_argument(topic: Any, headers: Any, timestamp_ms: Any, partition: Any, error: Exception) -> ConfigError:
    """Return the error for the wrong argument of `send`. Only called after a failure: a valid record costs no check."""
    if not isinstance(topic, str):
        return ConfigError(f"the topic must be a non-empty str, not {topic!r}")
    if timestamp_ms is not None and natural(timestamp_ms) is None:
        hint = ": seconds are int(seconds * 1000) milliseconds" if isinstance(timestamp_ms, float) else ""
        return ConfigError(
            f"timestamp_ms={timestamp_ms!r}: it must be whole milliseconds since the epoch, 0 or more, or None{hint}"
        )
    try:
        check_partition(partition)
    except ConfigError as wrong:
        return wrong
    if headers is not None and not isinstance(headers, Iterable):
        return ConfigError(f"headers={headers!r}: it must be a list of (key, value) pairs")
    return ConfigError(f"the record cannot be encoded: {error}")
