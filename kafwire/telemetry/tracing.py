"""Traces of records by OpenTelemetry's API: spans of the semantic conventions for messaging, context in headers.

Nothing in kafwire's clients knows of it: a program calls `Tracing` where it wants spans, and other programs pay
nothing. If no SDK records spans, the calls go on to the client at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from kafwire._version import __version__
from kafwire.errors import BrokerError, ConfigError
from kafwire.telemetry.otel import HINT

if TYPE_CHECKING:
    from opentelemetry import trace as api
    from opentelemetry.context import Context

Header = tuple[str, bytes | str | None]
Headers = Iterable[Header] | Mapping[str, bytes | str | None]
# Links of one span: SDKs drop further ones.
_MOST_LINKS = 128


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
            from opentelemetry import propagate, trace
        except ImportError:
            raise ConfigError(HINT) from None
        self._trace = trace
        self._propagate = propagate
        self._tracer = trace.get_tracer("kafwire", __version__, tracer_provider)
        self._has_provider = tracer_provider is not None

    @property
    def _is_idle(self) -> bool:
        """True if no SDK records spans, and no context has to be carried on."""
        if not self._has_provider:
            if isinstance(self._trace.get_tracer_provider(), self._trace.ProxyTracerProvider):
                return not self._trace.get_current_span().get_span_context().is_valid
            self._has_provider = True  # a program sets its SDK once
        return False

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
        if self._is_idle:
            return producer.send(topic, value, headers=headers, **record)
        span = self._sending(topic, value, record)
        try:
            delivery = producer.send(topic, value, headers=self._carried(span, headers), **record)
        except BaseException as error:
            self._failed(span, error)
            raise
        if span.is_recording():
            delivery.add_done_callback(lambda done: self._sent(span, done))
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
        if self._is_idle:
            return await producer.send(topic, value, headers=headers, **record)
        span = self._sending(topic, value, record)
        try:
            delivery = await producer.send(topic, value, headers=self._carried(span, headers), **record)
        except BaseException as error:
            self._failed(span, error)
            raise
        if span.is_recording():
            delivery.add_done_callback(lambda done: self._sent(span, done))
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
        carrier: dict[str, str] = {}
        self._propagate.inject(carrier)
        own = [*headers.items()] if isinstance(headers, Mapping) else list(headers or ())
        kept = [pair for pair in own if pair[0] not in carrier]
        return [*kept, *((name, text.encode()) for name, text in carrier.items())]

    def _sending(self, topic: str, value: Any, record: Mapping[str, Any]) -> api.Span:
        attributes = _attributes("send", "send", topic, record.get("partition"))
        key = record.get("key")
        if isinstance(key, str | bytes):
            attributes["messaging.kafka.message.key"] = key if isinstance(key, str) else key.decode(errors="replace")
        if value is None:
            attributes["messaging.kafka.message.tombstone"] = True
        return self._tracer.start_span(f"send {topic}", kind=self._trace.SpanKind.PRODUCER, attributes=attributes)

    def _carried(self, span: api.Span, headers: Headers | None) -> Headers | None:
        if not span.get_span_context().is_valid:
            return headers  # no SDK
        with self._trace.use_span(span):
            return self.headers(headers)

    def _sent(self, span: api.Span, delivery: _Outcome) -> None:
        error = delivery.exception()
        if error is not None:
            self._failed(span, error)
            return
        metadata = delivery.result()
        span.set_attribute("messaging.destination.partition.id", str(metadata.partition))
        span.set_attribute("messaging.kafka.offset", metadata.offset)
        span.end()

    def _failed(self, span: api.Span, error: BaseException) -> None:
        span.set_attribute("error.type", error.name if isinstance(error, BrokerError) else type(error).__name__)
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
        return self._propagate.extract(carrier, Context())

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
                span.set_attribute("error.type", error.name if isinstance(error, BrokerError) else type(error).__name__)
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
