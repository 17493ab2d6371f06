"""`telemetry.tracing`: spans of sending, receiving, processing and committing, with a recording tracer."""

from __future__ import annotations

import itertools
import sys
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, NoOpTracerProvider, Span, SpanContext, SpanKind, TraceFlags

import kafwire
from kafwire.errors import ConfigError, KafkaError
from kafwire.telemetry import Tracing
from kafwire.testing.simulation.cluster import ClusterWorld
from tests.support.simulated.flavours import Flavour

IDS = itertools.count(1)


class Recorded(NonRecordingSpan):
    """A span that keeps its data."""

    def __init__(self, name: str, kind: SpanKind, parent: SpanContext, attributes: Any) -> None:
        trace_id = parent.trace_id if parent.is_valid else next(IDS)
        super().__init__(SpanContext(trace_id, next(IDS), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED)))
        self.name, self.kind, self.parent = name, kind, parent
        self.attributes = dict(attributes or {})
        self.links: list[SpanContext] = []
        self.status: Any = None
        self.ends = 0

    def is_recording(self) -> bool:
        return not self.ends

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value

    def add_link(self, context: SpanContext, attributes: Any = None) -> None:
        self.links.append(context)

    def update_name(self, name: str) -> None:
        self.name = name

    def set_status(self, status: Any, description: str | None = None) -> None:
        self.status = status

    def end(self, end_time: int | None = None) -> None:
        self.ends += 1


class Tracer(trace.NoOpTracer):
    """A tracer that keeps its spans."""

    def __init__(self) -> None:
        self.spans: list[Recorded] = []

    def start_span(self, name: str, context: Any = None, *args: Any, **named: Any) -> Span:
        kind = args[0] if args else named.get("kind", SpanKind.INTERNAL)
        span = Recorded(name, kind, trace.get_current_span(context).get_span_context(), named.get("attributes"))
        self.spans.append(span)
        return span

    @contextmanager
    def start_as_current_span(self, name: str, context: Any = None, *args: Any, **named: Any) -> Any:  # type: ignore[override]
        span = self.start_span(name, context, *args, **named)
        with trace.use_span(span, end_on_exit=True, record_exception=False):
            yield span


class Provider(NoOpTracerProvider):
    """A provider of one tracer."""

    def __init__(self) -> None:
        self.tracer = Tracer()

    def get_tracer(self, *_: Any, **__: Any) -> Any:
        return self.tracer


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def tracing(provider: Provider) -> Tracing:
    return Tracing(tracer_provider=provider)


# A producer whose deliveries never end.
PENDING = SimpleNamespace(send=lambda *_, **__: SimpleNamespace(add_done_callback=lambda _: None))


def send(flavour: Flavour, tracing: Tracing, producer: Any, *args: Any, **record: Any) -> Any:
    call = tracing.send if flavour.blocks else tracing.send_async
    return flavour.get(call(producer, *args, **record))


def test_a_record_carries_the_span_that_sent_it(flavour: Flavour, tracing: Tracing, provider: Provider) -> None:
    flavour.world.create_topic("t")
    producer = flavour.producer()
    delivery = send(flavour, tracing, producer, "t", None, key=b"k", headers={"own": b"1", "traceparent": b"old"})
    metadata = flavour.outcome(delivery)
    flavour.world.pass_time(1)
    (span,) = provider.tracer.spans
    assert (span.name, span.kind, span.ends) == ("send t", SpanKind.PRODUCER, 1)
    assert span.attributes == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "t",
        "messaging.destination.partition.id": str(metadata.partition),
        "messaging.kafka.message.key": "k",
        "messaging.kafka.message.tombstone": True,
        "messaging.kafka.offset": metadata.offset,
    }


def test_the_whole_way_of_a_record(tracing: Tracing, provider: Provider) -> None:
    with ClusterWorld(brokers=1, seed=1) as world:
        world.state.topics.create("t", partitions=1)
        with kafwire.Producer(world.bootstrap, engine=world.engine) as producer:
            tracing.send(producer, "t", b"v").result(30)
        options: Any = {"auto_offset_reset": "earliest", "engine": world.engine}
        with kafwire.Consumer(world.bootstrap, topics="t", group_id="g", **options) as consumer:
            with tracing.receive("g") as received:
                records = [record for batch in consumer.poll(timeout=10) for record in batch]
                received(records)
            with tracing.process(records[0], "g"):
                current = trace.get_current_span()
            with tracing.commit("g"):
                consumer.commit()
    sent, polled, processed, committed = provider.tracer.spans
    assert [span.name for span in provider.tracer.spans] == ["send t", "poll t", "process t", "commit"]
    assert [span.kind.name for span in provider.tracer.spans] == ["PRODUCER", "CLIENT", "CONSUMER", "CLIENT"]
    assert [span.ends for span in provider.tracer.spans] == [1, 1, 1, 1]
    assert [link.span_id for link in polled.links] == [sent.get_span_context().span_id]
    assert polled.attributes["messaging.batch.message_count"] == 1
    assert processed.parent.span_id == sent.get_span_context().span_id
    assert processed.get_span_context().trace_id == sent.get_span_context().trace_id
    assert current is processed
    assert processed.attributes["messaging.kafka.offset"] == 0
    assert committed.attributes == {
        "messaging.system": "kafka",
        "messaging.operation.name": "commit",
        "messaging.operation.type": "settle",
        "messaging.consumer.group.name": "g",
    }


def test_a_span_has_the_error_of_its_record(flavour: Flavour, tracing: Tracing, provider: Provider) -> None:
    flavour.world.create_topic("t")
    producer = flavour.producer(max_request_size=5000)
    with pytest.raises(KafkaError):
        send(flavour, tracing, producer, "t", bytes(100_000))
    (span,) = provider.tracer.spans
    assert (span.attributes["error.type"], span.ends) == ("MESSAGE_TOO_LARGE", 1)
    assert not span.status.is_ok


@pytest.mark.parametrize(("topics", "name"), [("t", "poll t"), ("tu", "poll")])
def test_a_read_of_many_records(tracing: Tracing, provider: Provider, topics: str, name: str) -> None:
    traced = {"traceparent": b"00-0123456789abcdef0123456789abcdef-0123456789abcdef-01", "none": None}
    records = [kafwire.Record(b"v", topic=topic, headers=traced) for topic in topics for _ in range(200)]
    with tracing.receive() as received:
        received(records)
    (span,) = provider.tracer.spans
    assert (span.name, len(span.links)) == (name, 128)
    assert span.attributes["messaging.batch.message_count"] == len(records)
    assert ("messaging.destination.name" in span.attributes) is (len(topics) == 1)


def test_a_record_without_a_context_begins_a_trace(tracing: Tracing, provider: Provider) -> None:
    with tracing.commit(), tracing.process(kafwire.Record(b"v", topic="t")):
        pass
    _, span = provider.tracer.spans
    assert not span.parent.is_valid
    assert "messaging.kafka.offset" not in span.attributes, "this record has none"


def test_an_error_of_processing(tracing: Tracing, provider: Provider) -> None:
    with pytest.raises(ZeroDivisionError), tracing.process(kafwire.Record(b"v", topic="t")):
        1 / 0  # noqa: B018
    (span,) = provider.tracer.spans
    assert (span.attributes["error.type"], span.ends) == ("ZeroDivisionError", 1)


def test_without_an_sdk_records_stay_as_they_are() -> None:
    tracing = Tracing()
    assert tracing.headers([("a", b"1")]) == [("a", b"1")]

    class Client:
        def send(self, *args: Any, **record: Any) -> Any:
            return args, record

    assert tracing.send(Client(), "t", b"v", headers={"a": b"1"}, key=b"k") == (
        ("t", b"v"),
        {"headers": {"a": b"1"}, "key": b"k"},
    )


def test_without_an_sdk_a_context_is_carried_on() -> None:
    tracing = Tracing()
    carried = b"00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
    sent: list[Any] = []

    class Client:
        def send(self, *args: Any, **record: Any) -> None:
            sent.append(record["headers"])

    tracing.send(Client(), "u", b"v")  # no SDK is looked for after this one
    with tracing.process(kafwire.Record(b"v", headers={"traceparent": carried}, topic="t")):
        tracing.send(Client(), "u", b"v")
        tracing.send(Client(), "u", b"v", headers={"own": b"1"})
    assert sent == [None, [("traceparent", carried)], [("own", b"1"), ("traceparent", carried)]]


def test_the_sampler_decides_below_a_dropped_span_too(tracing: Tracing, provider: Provider) -> None:
    dropped = SpanContext(7, 9, is_remote=False, trace_flags=TraceFlags(TraceFlags.DEFAULT))
    with trace.use_span(NonRecordingSpan(dropped)):
        tracing.send(PENDING, "t", b"v")
    assert [span.parent for span in provider.tracer.spans] == [dropped]


def test_a_span_that_is_dropped_is_not_followed() -> None:
    class Dropping(trace.NoOpTracer):
        def start_span(self, *_: Any, **__: Any) -> Span:
            return NonRecordingSpan(SpanContext(7, 9, is_remote=False))

    provider = Provider()
    provider.tracer = Dropping()  # type: ignore[assignment]
    sent: list[Any] = []
    client = SimpleNamespace(send=lambda *_, **record: sent.append(record["headers"]))
    assert Tracing(tracer_provider=provider).send(client, "t", b"v", headers=iter([("own", b"1")])) is None
    assert sent == [[("own", b"1"), ("traceparent", b"00-%032x-%016x-00" % (7, 9))]]


def test_a_span_ends_if_the_headers_are_wrong(tracing: Tracing, provider: Provider) -> None:
    with pytest.raises(TypeError):
        tracing.send(SimpleNamespace(), "t", b"v", headers=5)  # type: ignore[arg-type]
    (span,) = provider.tracer.spans
    assert (span.attributes["error.type"], span.ends) == ("TypeError", 1)


def test_with_acks_0_there_is_no_offset(flavour: Flavour, tracing: Tracing, provider: Provider) -> None:
    flavour.world.create_topic("t")
    producer = flavour.producer(acks=0, enable_idempotence=False)
    flavour.outcome(send(flavour, tracing, producer, "t", b"v"))
    flavour.world.pass_time(1)
    (span,) = provider.tracer.spans
    assert span.ends == 1
    assert "messaging.kafka.offset" not in span.attributes


def test_an_sdk_that_is_set_later(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    looks = 0

    def look() -> Any:
        nonlocal looks
        looks += 1
        return found

    monkeypatch.setattr("time.monotonic", lambda: now_s)
    monkeypatch.setattr(trace, "get_tracer_provider", look)
    found: Any = trace.ProxyTracerProvider()
    tracer = Tracer()
    monkeypatch.setattr(trace, "get_tracer", lambda *_: tracer)
    tracing = Tracing()
    looks = 0
    for _ in range(3):
        tracing.send(PENDING, "t", b"v")
    assert (looks, tracer.spans) == (1, []), "a look costs more than a record"
    found, now_s = Provider(), now_s + 1
    tracing.send(PENDING, "t", b"v")
    assert [span.name for span in tracer.spans] == ["send t"]


def test_headers_of_the_current_span(tracing: Tracing) -> None:
    with tracing.commit() as span:
        (own, (name, value)) = tracing.headers([("own", b"1"), ("traceparent", b"old")])
    assert (own, name) == (("own", b"1"), "traceparent")
    assert isinstance(value, bytes)
    assert f"{span.get_span_context().span_id:016x}" in value.decode()


def test_without_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigError, match=r"pip install kafwire\[otel\]"):
        Tracing()
