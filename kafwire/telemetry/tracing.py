"""Traces of records by OpenTelemetry's API: spans of the semantic conventions for messaging, context in headers.

Nothing in kafwire's clients knows of it: a program calls `Tracing` where it wants spans, and other programs pay
nothing. If no SDK records spans, the calls go on to the client at once.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kafwire._version import __version__
from kafwire.errors import ConfigError, name_of
from kafwire.telemetry.otel import HINT

if TYPE_CHECKING:
    from opentelemetry import trace as api
    from opentelemetry.context import Context

Header = tuple[str, bytes | str | None]
Headers = Iterable[Header] | Mapping[str, bytes | str | None]
# Links of one span: SDKs drop further ones.
_MOST_LINKS = 128
# The time from a look for an SDK to the next one.
_LOOK_AGAIN_S = 1.0


class _Outcome(Protocol):
    """A delivery."""

    def exception(self) -> Any:
        """Return its error, or None."""

    def result(self) -> Any:
        """Return the record's metadata."""


class Tracing:
    """Makes spans of sending, receiving, processing and committing, and carries their context in headers.

    Span names and attributes are those of OpenTelemetry's semantic conventions for Kafka. The propagator is the global
    one, by default W3C's `traceparent`.

    Args:
        tracer_provider: the provider of tracers; None: the global one, which the SDK sets.

    Raises:
        ConfigError: opentelemetry-api is not installed.

    Example:
        >>> from kafwire.telemetry import Tracing
        >>> tracing = Tracing()
        >>> with tracing.process(kafwire.Record(b"EWR-IAH", topic="flights", partition=0, offset=7)):
        ...     pass
    """

    __module__ = "kafwire.telemetry"

    def __init__(self, *, tracer_provider: api.TracerProvider | None = None) -> None:
        try:
            from opentelemetry import context, propagate, trace
        except ImportError:
            raise ConfigError(HINT) from None
        self._trace = trace
        self._current = context.get_current
        self._inject, self._extract = propagate.inject, propagate.extract
        self._tracer = trace.get_tracer("kafwire", __version__, tracer_provider)
        self._has_provider = tracer_provider is not None
        self._without_sdk_until_s = -math.inf

    def _has_sdk(self) -> bool:
        """Return True if the program has set an SDK. A look reads the environment, so that none comes at once again."""
        now_s = time.monotonic()
        if not self._has_provider and now_s >= self._without_sdk_until_s:
            self._has_provider = not isinstance(self._trace.get_tracer_provider(), self._trace.ProxyTracerProvider)
            self._without_sdk_until_s = -math.inf if self._has_provider else now_s + _LOOK_AGAIN_S
        return self._has_provider

    # --- sending

    def send(
        self, producer: Any, topic: str, value: Any = None, *, headers: Headers | None = None, **record: Any
    ) -> Any:
        """Send a record in a span `send {topic}`, which ends with the delivery. The headers carry its context.

        Args:
            producer: a `Producer`.
            topic: the topic.
            value: as for `Producer.send`.
            headers: as for `Producer.send`.
            record: the other arguments of `Producer.send`.

        Returns:
            The `Delivery`.

        Raises:
            KafkaError: the error of `Producer.send`.

        Example:
            >>> kafwire.telemetry.Tracing().send(producer, topic, b"EWR-IAH").result(timeout=10).offset
            3
        """
        if time.monotonic() < self._without_sdk_until_s and not self._current():  # a send takes less than a microsecond
            return producer.send(topic, value, headers=headers, **record)
        span, headers = self._sending(topic, value, headers, record)
        if span is None:
            return producer.send(topic, value, headers=headers, **record)
        with self._failing(span):
            delivery = producer.send(topic, value, headers=headers, **record)
        delivery.add_done_callback(partial(self._sent, span))
        return delivery

    async def send_async(
        self, producer: Any, topic: str, value: Any = None, *, headers: Headers | None = None, **record: Any
    ) -> Any:
        """Send a record of an asyncio producer in a span `send {topic}`, as `send` does for others.

        Args:
            producer: an `AsyncProducer`.
            topic: the topic.
            value: as for `AsyncProducer.send`.
            headers: as for `AsyncProducer.send`.
            record: the other arguments of `AsyncProducer.send`.

        Returns:
            The `AsyncDelivery`.

        Raises:
            KafkaError: the error of `AsyncProducer.send`.
        """
        span, headers = self._sending(topic, value, headers, record)
        if span is None:
            return await producer.send(topic, value, headers=headers, **record)
        with self._failing(span):
            delivery = await producer.send(topic, value, headers=headers, **record)
        delivery.add_done_callback(partial(self._sent, span))
        return delivery

    def headers(self, headers: Headers | None = None) -> list[Header]:
        """Return headers with the context of the current span, as for rows of `send_batch`.

        Args:
            headers: the record's own headers.

        Returns:
            These, and those of the propagator, such as `traceparent`.

        Example:
            >>> kafwire.telemetry.Tracing().headers({"source": b"radar"})
            [('source', b'radar')]
        """
        return self._carried(headers, None)

    def _carried(self, headers: Headers | None, context: Context | None) -> list[Header]:
        """Return headers with a context; None: the current one."""
        carrier: dict[str, str] = {}
        self._inject(carrier, context)
        carried: list[Header] = [(name, text.encode()) for name, text in carrier.items()]
        if headers is None:
            return carried
        own = headers.items() if isinstance(headers, Mapping) else headers
        return [*(pair for pair in own if pair[0] not in carrier), *carried]

    def _sending(
        self, topic: str, value: Any, headers: Headers | None, record: Mapping[str, Any]
    ) -> tuple[api.Span | None, Headers | None]:
        """Return the span of a record, None if no SDK records it, and the record's headers with the context."""
        if not self._has_sdk():
            return None, self.headers(headers) if self._current() else headers
        attributes = _attributes("send", "send", topic, record.get("partition"))
        key = record.get("key")
        if isinstance(key, str | bytes):
            attributes["messaging.kafka.message.key"] = key if isinstance(key, str) else key.decode(errors="replace")
        if value is None:
            attributes["messaging.kafka.message.tombstone"] = True
        kind = self._trace.SpanKind.PRODUCER
        span = self._tracer.start_span(f"send {topic}", kind=kind, attributes=attributes)
        with self._failing(span):
            headers = self._carried(headers, self._trace.set_span_in_context(span))
        return span if span.is_recording() else None, headers

    def _sent(self, span: api.Span, delivery: _Outcome) -> None:
        error = delivery.exception()
        if error is not None:
            self._failed(span, error)
            return
        metadata = delivery.result()
        span.set_attribute("messaging.destination.partition.id", str(metadata.partition))
        if metadata.offset >= 0:  # known, as it is not with acks=0
            span.set_attribute("messaging.kafka.offset", metadata.offset)
        span.end()

    @contextlib.contextmanager
    def _failing(self, span: api.Span) -> Iterator[None]:
        """End the span if the block raises."""
        try:
            yield
        except BaseException as error:
            self._failed(span, error)
            raise

    def _failed(self, span: api.Span, error: BaseException) -> None:
        span.set_attribute("error.type", name_of(error))
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, str(error)))
        span.end()

    # --- receiving, processing, committing

    @contextlib.contextmanager
    def receive(self, group: str | None = None) -> Iterator[Callable[[Iterable[Any]], None]]:
        """Time a read in a span `poll`. Its records' contexts become links of the span.

        Args:
            group: the consumer's group.

        Returns:
            A context manager; within the block, a function that takes the records that were read.

        Example:
            >>> with kafwire.telemetry.Tracing().receive() as received:
            ...     records = [record for batch in consumer.poll(timeout=10) for record in batch]
            ...     received(records)
        """
        attributes = _attributes("poll", "receive", None, None, group)
        with self._spanned("poll", self._trace.SpanKind.CLIENT, attributes) as span:

            def received(records: Iterable[Any]) -> None:
                if not span.is_recording():
                    return
                count, topics = 0, set()
                for record in records:
                    count += 1
                    topics.add(record.topic)
                    context = self._trace.get_current_span(self.context_of(record)).get_span_context()
                    if context.is_valid and count <= _MOST_LINKS:
                        span.add_link(context)
                span.set_attribute("messaging.batch.message_count", count)
                if len(topics) == 1:
                    (topic,) = topics
                    span.set_attribute("messaging.destination.name", str(topic))
                    span.update_name(f"poll {topic}")

            yield received

    @contextlib.contextmanager
    def process(self, record: Any, group: str | None = None) -> Iterator[api.Span]:
        """Process a record in a span `process {topic}`, the child of the span that sent it.

        Args:
            record: a `Record`.
            group: the consumer's group.

        Returns:
            A context manager; within the block, the span, which is the current one.

        Example:
            >>> record = kafwire.Record(b"EWR-IAH", topic="flights", partition=0, offset=7)
            >>> with kafwire.telemetry.Tracing().process(record, group="billing"):
            ...     len(record.value)
            7
        """
        attributes = _attributes("process", "process", record.topic, record.partition, group)
        if record.offset >= 0:
            attributes["messaging.kafka.offset"] = record.offset
        name, kind = f"process {record.topic}", self._trace.SpanKind.CONSUMER
        with self._spanned(name, kind, attributes, self.context_of(record)) as span:
            yield span

    @contextlib.contextmanager
    def commit(self, group: str | None = None) -> Iterator[api.Span]:
        """Time a commit in a span `commit`.

        Args:
            group: the consumer's group.

        Returns:
            A context manager; within the block, the span.

        Example:
            >>> with kafwire.telemetry.Tracing().commit("billing"):
            ...     consumer.commit()
        """
        attributes = _attributes("commit", "settle", None, None, group)
        with self._spanned("commit", self._trace.SpanKind.CLIENT, attributes) as span:
            yield span

    def context_of(self, record: Any) -> Context:
        """Return the context that a record's headers carry.

        Args:
            record: a `Record`.

        Returns:
            The context for OpenTelemetry's API; without such headers an empty one.

        Example:
            >>> kafwire.telemetry.Tracing().context_of(kafwire.Record(b"EWR-IAH"))
            {}
        """
        from opentelemetry.context import Context

        carrier = {name: value.decode(errors="replace") for name, value in record.headers if value is not None}
        return self._extract(carrier, Context())

    @contextlib.contextmanager
    def _spanned(
        self, name: str, kind: api.SpanKind, attributes: dict[str, Any], context: Context | None = None
    ) -> Iterator[api.Span]:
        with self._tracer.start_as_current_span(
            name, context, kind, attributes=attributes, record_exception=False, set_status_on_exception=True
        ) as span:
            try:
                yield span
            except BaseException as error:
                span.set_attribute("error.type", name_of(error))
                raise


def _attributes(
    name: str, kind: str, topic: str | None, partition: int | None, group: str | None = None
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "messaging.system": "kafka",
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
    }
    if topic is not None:
        found["messaging.destination.name"] = topic
    if partition is not None:
        found["messaging.destination.partition.id"] = str(partition)
    if group is not None:
        found["messaging.consumer.group.name"] = group
    return found
