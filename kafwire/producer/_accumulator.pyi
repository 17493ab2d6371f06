from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, final

from typing_extensions import Buffer as BytesLike

from kafwire.errors import KafkaError
from kafwire.producer._batch import Budget, Delivery, ProducerBatch
from kafwire.producer._direct_send import DirectSend
from kafwire.producer._partitioner import PartitionWeights
from kafwire.producer.partitioner import Rule
from kafwire.producer.sequencer import Sequencer
from kafwire.records._arrow_rows import Rows
from kafwire.runtime._interfaces import Clock, Notifier, Waiter

CODEC_IDS: Final[dict[str, int]]

@final
class PartitionQueue:
    sequencer: Sequencer[ProducerBatch]
    direct_send: DirectSend | None
    def __init__(self, topic: str, partition: int, owner: Topic = ...) -> None: ...
    @property
    def owner(self) -> Topic: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def sealed(self) -> deque[ProducerBatch]: ...
    @property
    def fresh(self) -> deque[ProducerBatch]: ...
    def advance(self) -> deque[ProducerBatch]: ...
    @property
    def is_empty(self) -> bool: ...
    @property
    def name(self) -> str: ...

@final
class Topic:
    @property
    def name(self) -> str: ...
    @property
    def queues(self) -> list[PartitionQueue]: ...
    @property
    def weights(self) -> PartitionWeights: ...
    @property
    def retired(self) -> bool: ...
    @property
    def passes(self) -> int: ...
    @property
    def sticky(self) -> int: ...

@final
class RowPlan:
    @property
    def finished(self) -> bool: ...

@final
class Accumulator:
    @property
    def late(self) -> list[ProducerBatch]: ...
    after_pass: Callable[[], object] | None
    def __init__(
        self,
        notifier: Notifier,
        *,
        clock: Clock,
        waiter: Waiter,
        batch_size: int,
        max_request_size: int,
        linger_ms: int,
        buffer_memory: int,
        compression: str,
        level: int | None,
        rule: Rule,
        rng_state: int,
        transactional: bool = False,
    ) -> None: ...
    send_gate: Callable[[], Exception] | None
    transaction_generation: int
    @property
    def passes(self) -> int: ...
    @property
    def topics(self) -> dict[str, Topic]: ...
    @property
    def budget(self) -> Budget: ...
    def set_topic(self, name: str, partitions: int, weights: PartitionWeights) -> None: ...
    def replace_topic(self, name: str, partitions: int, weights: PartitionWeights) -> Topic: ...
    def set_weights(self, name: str, weights: PartitionWeights) -> None: ...
    def append(
        self,
        topic_name: str,
        value: BytesLike | None,
        key: BytesLike | None,
        headers: Iterable[tuple[str, bytes | None]] | None,
        timestamp_ms: int | None,
        partition: int | None,
    ) -> Delivery | None: ...
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
    def collect(self, *, everything: bool = False) -> tuple[list[PartitionQueue], int | None]: ...
    def end(self, reason: str) -> None: ...
    def cut(
        self, batch: ProducerBatch, starts: list[int], refused: Mapping[int, KafkaError] | None = None
    ) -> list[ProducerBatch]: ...
    def empty(self, queue: PartitionQueue) -> list[ProducerBatch]: ...
    def place_again(self, batch: ProducerBatch) -> list[tuple[PartitionQueue, ProducerBatch]]: ...
    def prepare(self, batches: list[ProducerBatch]) -> None: ...

class RecordSender:
    _accumulator: Accumulator
    def send(
        self,
        topic: str,
        value: Any = None,  # bytes-like, or what the serializers take
        *,
        key: Any = None,
        headers: Iterable[tuple[str, bytes | None]] | None = None,
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> Delivery: ...
