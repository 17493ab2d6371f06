"""Gets the producer id and epoch of an idempotent producer without transactions (KIP-98), and new ones (KIP-360)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TypeGuard

from kafwire.cluster.backoff import delay_ms
from kafwire.cluster.cluster import Cluster
from kafwire.config import ProducerConfig
from kafwire.error_codes import ErrorCode
from kafwire.errors import AuthenticationError, BrokerError, KafkaError, ProtocolError, broker_error
from kafwire.producer.buffer._queues import PartitionQueue
from kafwire.producer.outcome.sequencer import Identity
from kafwire.producer.send.direct_send import DirectSends
from kafwire.protocol.api.init_producer_id import InitProducerIdRequest


class ProducerId:
    """The identity of one producer; transactions set `identity` themselves. Runs on the engine."""

    def __init__(self, cluster: Cluster, config: ProducerConfig, direct_send: DirectSends | None) -> None:
        self._cluster = cluster
        self._config = config
        self._direct_send = direct_send
        self._refusals = 0  # failures in a row
        self._not_before_ms = 0.0
        self.identity: Identity | None = None

    async def get(self) -> None:
        """Request a producer id."""
        wait = self._not_before_ms - self._cluster.engine.now_ms()
        if wait > 0:  # records sent after a refusal must not repeat the request at once
            await asyncio.sleep(wait / 1000)
        self._refusals += 1
        base, limit = self._config.retry_backoff_ms, self._config.retry_backoff_max_ms
        backoff = delay_ms(self._refusals, base, limit, self._cluster.engine.random.random())
        self._not_before_ms = self._cluster.engine.now_ms() + backoff
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        try:
            response = await self._cluster.call(request)
        except ProtocolError as error:
            hint = f"there is no producer id: {error.message}; enable_idempotence=False needs none"
            raise ProtocolError(hint, api=type(request).__name__) from None
        if response.error_code:
            raise broker_error(response.error_code, "getting a producer id", api="InitProducerId")
        self._refusals = 0
        self._become(Identity(response.producer_id, response.producer_epoch))

    async def move_on(self, waiting: Mapping[tuple[str, int], PartitionQueue]) -> None:
        """Move to the next epoch, or to a new producer id if a waiting partition needs one."""
        following = self.identity.next_epoch if self.identity is not None else None
        needs_id = any(q.sequencer.wants_epoch(self.identity) and q.sequencer.needs_id for q in waiting.values())
        if following is None or needs_id:
            await self.get()
        else:
            self._become(following)

    def _become(self, identity: Identity) -> None:
        if self._direct_send is not None:
            self._direct_send.revoke_all()
        self.identity = identity


def is_final(error: BaseException) -> TypeGuard[KafkaError]:
    """True if the error is permanent. An UNKNOWN_SERVER_ERROR may pass."""
    if isinstance(error, BrokerError):
        return not error.retriable and error.code != ErrorCode.UNKNOWN_SERVER_ERROR
    return isinstance(error, ProtocolError | AuthenticationError)
