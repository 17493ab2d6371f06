from collections.abc import Callable
from typing import final

from kafwire.errors import KafkaError
from kafwire.memory._buffer import Buffer
from kafwire.producer.buffer._queues import PartitionQueue
from kafwire.runtime._interfaces import Clock, Waiter
from kafwire.runtime.interfaces import Callbacks
from kafwire.types import RecordMetadata

@final
class Budget:
    closed: str | None
    callbacks: Callbacks | None
    when_called: Callable[[], object] | None
    reports_overlooked: bool
    def __init__(self, limit: int, clock: Clock, waiter: Waiter) -> None: ...
    @property
    def limit(self) -> int: ...
    @property
    def used(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def callbacks_due(self) -> int: ...
    def close(self, reason: str) -> None: ...
    def listen(self, listener: Callable[[], object]) -> None: ...
    def unlisten(self, listener: Callable[[], object]) -> None: ...
    def wait(self, timeout: float | None) -> bool: ...
    def has_room(self) -> bool: ...
    def report_overlooked(self) -> None: ...

@final
class ProducerBatch:
    producer: tuple[int, int] | None
    sequence: int
    ordinal: int
    attempts: int
    last_error: KafkaError | None
    looked: bool
    @property
    def queue(self) -> PartitionQueue: ...
    @property
    def count(self) -> int: ...
    @property
    def created_ms(self) -> int: ...
    @property
    def filling(self) -> bool: ...
    @property
    def done(self) -> bool: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def log_append_ms(self) -> int: ...
    @property
    def error(self) -> KafkaError | None: ...
    @property
    def size(self) -> int: ...
    @property
    def raw_size(self) -> int: ...
    @property
    def is_part(self) -> bool: ...
    def outcomes(self) -> list[tuple[int, KafkaError | None]]: ...
    def payload(self) -> Buffer: ...
    def succeed(self, base_offset: int, log_append_ms: int) -> None: ...
    def fail(self, error: KafkaError) -> None: ...
    def add_done_callback(self, callback: Callable[[], object]) -> None: ...
    def follow(self, delivery: Delivery) -> None: ...
    def end_following(self) -> None: ...

@final
class UserCallbacks:
    def hand_over(self) -> None: ...
    def __call__(self) -> None: ...

@final
class Delivery:
    """The handle of one sent record; `Producer.send` makes it. It completes in the background, without polling.

    Example:
        >>> delivery = producer.send(topic, b"EWR-IAH")
        >>> delivery.result(timeout=10).partition
        0
    """

    @property
    def batch(self) -> ProducerBatch:
        """The batch that the record is in, for kafwire's own use."""
    def done(self) -> bool:
        """Return whether the outcome is known."""
    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the acknowledgement.

        Args:
            timeout: seconds to wait; None: no limit but `delivery_timeout_ms`.

        Returns:
            The `RecordMetadata`; its `offset` is -1 with acks=0.

        Raises:
            KafkaError: the record's error.
            KafkaTimeoutError: the outcome is not known in time.
        """
    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Wait for the outcome, and return the error that `result` raises.

        Args:
            timeout: seconds to wait; None: no limit but `delivery_timeout_ms`.

        Returns:
            The error; None for a record that was delivered.

        Raises:
            KafkaTimeoutError: the outcome is not known in time.
        """
    def add_done_callback(self, function: Callable[[Delivery], object]) -> None:
        """Call a function once the outcome is known, in kafwire's callback thread.

        Callbacks run one after the other, those of a partition in the order of its records. The record keeps its part
        of `buffer_memory` until its callbacks have returned. `Producer.send` never blocks within one. Their exceptions
        are logged.

        Args:
            function: it is called with this delivery; at once, in this thread, if the outcome is known and no callback
                is due. It must not wait for kafwire.
        """

@final
class BatchDelivery:
    """The handle of the rows of one call; `Producer.send_batch` makes it. It completes in the background.

    Example:
        >>> delivery = producer.send_batch(topic, pa.table({"value": ["JFK-MIA", "JFK-BQN"]}))
        >>> len(delivery), delivery.exception(timeout=10)
        (2, None)
    """

    def __init__(self, parts: list[tuple[ProducerBatch, int, int]]) -> None: ...
    @property
    def parts(self) -> list[tuple[ProducerBatch, int, int]]:
        """The batches that the rows are in, for kafwire's own use."""
    def done(self) -> bool:
        """Return whether the outcome of every row is known."""
    def result(self, timeout: float | None = None) -> list[tuple[str, int, int, int]]:
        """Wait for all acknowledgements.

        Rows of one partition keep their order. Ranges of a partition that touch are joined.

        Args:
            timeout: seconds to wait; None: no limit but `delivery_timeout_ms`.

        Returns:
            A list of (topic, partition, first_offset, count), in the order of sending; first_offset is -1 with acks=0.

        Raises:
            KafkaError: the first failed batch's error.
            KafkaTimeoutError: an outcome is not known in time.
        """
    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Wait for all outcomes, and return the error that `result` raises.

        Args:
            timeout: seconds to wait; None: no limit but `delivery_timeout_ms`.

        Returns:
            The error; None if all rows were delivered.

        Raises:
            KafkaTimeoutError: an outcome is not known in time.
        """
    def add_done_callback(self, function: Callable[[BatchDelivery], object]) -> None:
        """Call a function once the outcome of every row is known, in kafwire's callback thread.

        Its exceptions are logged.

        Args:
            function: it is called with this delivery; at once, in this thread, if all outcomes are known and no
                callback is due. It must not wait for kafwire.
        """
    def __len__(self) -> int: ...
