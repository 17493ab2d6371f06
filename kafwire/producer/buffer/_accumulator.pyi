from collections.abc import Iterable, Mapping
from typing import Any, final

from typing_extensions import Buffer as BytesLike

from kafwire.errors import KafkaError
from kafwire.producer.buffer._batch import Delivery, ProducerBatch
from kafwire.producer.buffer._queues import PartitionQueue, Queues
from kafwire.producer.buffer._rows import RowPlan
from kafwire.records._arrow_rows import Rows

@final
class Accumulator(Queues):
    def append(
        self,
        topic_name: str,
        value: BytesLike | None,
        key: BytesLike | None,
        headers: Iterable[tuple[str, bytes | str | None]] | dict[str, Any] | None,
        timestamp_ms: int | None,
        partition: int | None,
    ) -> Delivery | None: ...
    def append_beyond(
        self,
        topic_name: str,
        value: BytesLike | None,
        key: BytesLike | None,
        headers: Iterable[tuple[str, bytes | str | None]] | dict[str, Any] | None,
        timestamp_ms: int | None,
        partition: int | None,
        *,
        is_deferred: bool = False,
    ) -> Delivery | None: ...
    def defer(
        self,
        topic_name: str,
        value: BytesLike | None,
        key: BytesLike | None,
        headers: Iterable[tuple[str, bytes | str | None]] | dict[str, Any] | None,
        timestamp_ms: int | None,
    ) -> tuple[tuple[str, Any, Any, Any, int], Delivery]: ...
    def split_rows(self, topic: str | None, rows: Rows, first_row: int) -> list[tuple[str, bytes | None]]: ...
    def plan_rows(
        self,
        topic_name: str,
        rows: Rows,
        partition: int | None,
        first_row: int,
        transaction_generation: int | None = None,
        chosen: bytes | None = None,
    ) -> RowPlan | None: ...
    def append_rows(self, plan: RowPlan, parts: list[tuple[ProducerBatch, int, int]]) -> bool: ...
    def cut(
        self, batch: ProducerBatch, starts: list[int], refused: Mapping[int, KafkaError] | None = None
    ) -> list[ProducerBatch]: ...
    def place_again(self, batch: ProducerBatch) -> list[tuple[PartitionQueue, ProducerBatch]]: ...
    def prepare(self, batches: list[ProducerBatch]) -> None: ...

class RecordSender:
    """`send` of the blocking producer. The producer adds the wait for metadata and for room in the buffer.

    A compiled base class, since most of a producer's time is spent in the loop that sends.
    """

    _accumulator: Accumulator
    def send(
        self,
        topic: str,
        value: Any = None,  # bytes-like, or what the serializers take
        *,
        key: Any = None,
        headers: Iterable[tuple[str, bytes | str | None]] | dict[str, Any] | None = None,
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> Delivery:
        """Buffer one record, and return the handle of its delivery.

        The call waits for the metadata of a new topic, and for room in `buffer_memory`: at most `max_block_ms`
        together.

        Args:
            topic: the topic.
            value: bytes-like, None for null, or what the `value_serializer` takes.
            key: bytes-like, None for null, or what the `key_serializer` takes.
            headers: pairs of a str and bytes, str (sent as UTF-8) or None; or a dict.
            timestamp_ms: milliseconds since the epoch; None: now.
            partition: the partition. None leaves it to the `partitioner`: by default Java's murmur2 of the key, and
                records without a key stick to one partition for a batch (KIP-794).

        Returns:
            A `Delivery`.

        Raises:
            ConfigError: an argument is not valid, or the partitioner returned no valid partition.
            BrokerError: the topic does not exist.
            RecordTooLargeError: the record is larger than `max_request_size`.
            SerializationError: a serializer failed.
            KafkaTimeoutError: there was no metadata or no room within `max_block_ms`.

        Example:
            >>> delivery = producer.send(topic, b"EWR-IAH", key=b"UA", headers=[("source", b"radar")])
            >>> delivery.result(timeout=10).offset
            3
        """
