from collections.abc import Callable
from typing import Any, final

from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.errors import KafkaError
from kafwire.memory._buffer import Buffer
from kafwire.producer.buffer._batch import ProducerBatch
from kafwire.runtime._interfaces import Clock, Notifier, PendingRequest, RequestTable, ResponseFilter

@final
class ResponseWaiters(ResponseFilter):
    def __init__(self, notifier: Notifier) -> None: ...

@final
class PendingSend(PendingRequest): ...

@final
class DirectSend:
    def __init__(
        self,
        waiters: ResponseWaiters,
        requests: RequestTable,
        connection: BrokerConnection,
        clock: Clock,
        on_response: Callable[[DirectSend, ProducerBatch, Buffer | None, KafkaError | None], object],
        prefix: bytes,
        suffix: bytes,
        *,
        flexible: bool,
        plain: bytes,
        numbers_at: int,
        place: tuple[tuple[int, int] | None, int, int],
    ) -> None: ...
    @property
    def connection(self) -> BrokerConnection: ...
    @property
    def batch(self) -> ProducerBatch | None: ...
    @property
    def sent(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def sent_ms(self) -> float: ...
    @property
    def token(self) -> int: ...
    def complete(self, batch: ProducerBatch, frame: Buffer) -> bool: ...
    def revoke(self) -> tuple[int, int, ProducerBatch | None]: ...
    def take_counts(self) -> dict[str, Any]: ...
