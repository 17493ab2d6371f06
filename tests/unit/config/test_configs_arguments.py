"""Wrong names and values are errors at once, before any broker is asked, and the errors name the right ones."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

import kafwire
from kafwire.config import ClientConfig, ProducerConfig, ScanConfig, from_dotted
from kafwire.errors import ConfigError

NOBODY = "127.0.0.1:1"


def wrong(message: str, make: Callable[[], object]) -> None:
    """`make()` must raise a `ConfigError` with all parts of `message` (separated by dots) in it, in that order."""
    parts = ".*".join(part.strip() for part in message.split("..."))
    with pytest.raises(ConfigError, match=parts):
        make()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"linger": 5}, "unknown option 'linger' ... did you mean 'linger_ms'"),
        ({"batchsize": 5}, "unknown option 'batchsize' ... did you mean 'batch_size'"),
        ({"quux": 5}, "unknown option 'quux' ... known: acks, ... retry_backoff_ms"),
        ({"linger_ms": -1}, "linger_ms=-1 ... allowed: 0 to"),
        ({"linger_ms": "soon"}, "linger_ms='soon' ... whole number"),
        ({"linger_ms": None}, "linger_ms=None ... whole number"),
        ({"linger_ms": -0.5}, "linger_ms=-0.5 ... allowed: 0 to"),
        ({"batch_size": 1.5}, "batch_size=1.5 ... whole number"),
        ({"linger_ms": True}, "linger_ms=True ... whole number"),
        ({"linger_ms": float("inf")}, "linger_ms=inf ... whole number"),
        ({"linger_ms": float("nan")}, "linger_ms=nan ... whole number"),
        ({"linger_ms": [5]}, "linger_ms=.5. ... whole number"),
        ({"batch_size": 0}, "batch_size=0 ... allowed: 1 to"),
        ({"compression_type": "br"}, "compression_type='br' ... allowed: none, gzip, snappy, lz4, zstd"),
        ({"compression_type": []}, "compression_type=.. ... allowed"),
        ({"acks": 2}, 'acks=2 ... allowed: "all", 1, 0'),
        ({"acks": "ALL"}, "acks='ALL' ... allowed"),
        ({"acks": []}, "option acks"),
        ({"enable_idempotence": "yes"}, "enable_idempotence='yes' ... allowed: True, False"),
        ({"enable_idempotence": True, "acks": 1}, 'enable_idempotence=True needs acks="all"'),
        (
            {"enable_idempotence": True, "max_in_flight_requests_per_connection": 6},
            "max_in_flight_requests_per_connection <= 5",
        ),
        (
            {"delivery_timeout_ms": 5, "request_timeout_ms": 30_000},
            "delivery_timeout_ms=5 is below linger_ms \\+ request_timeout_ms",
        ),
        ({"security_protocol": "TLS"}, "security_protocol='TLS' ... allowed: PLAINTEXT, SSL"),
        ({"client_id": 5}, "client_id=5 ... text"),
    ],
)
def test_a_wrong_option_is_named_with_the_allowed_values(options: dict[str, Any], message: str) -> None:
    wrong(message, lambda: ProducerConfig.build({"bootstrap_servers": NOBODY, **options}))


@pytest.mark.parametrize(
    ("servers", "message"),
    [
        (None, "bootstrap_servers=None ... host:port"),
        (5, "bootstrap_servers=5 ... host:port"),
        (b"host:9092", "bootstrap_servers=b'host:9092' ... host:port"),
        ("", "at least one host:port"),
        ("host:", "'host:' is not host:port"),
        (":9092", "':9092' is not host:port"),
        ("host:0", "'host:0' is not host:port"),
        ("host:65536", "'host:65536' is not host:port"),
        ("host:http", "'host:http' is not host:port"),
        ([], "at least one host:port"),
        (["a:1", "b:"], "'b:' is not host:port"),
    ],
)
def test_wrong_bootstrap_servers_are_named(servers: Any, message: str) -> None:
    wrong(message, lambda: kafwire.Client(servers))


@pytest.mark.parametrize("kind", ["Producer", "Consumer", "Client"])
def test_a_dict_of_options_is_refused_with_the_class_s_own_calls(kind: str) -> None:
    message = rf'kafwire.{kind}\("localhost:9092", client_id=.* kafwire.{kind}.from_config\({{"bootstrap.servers"'
    wrong(message, lambda: getattr(kafwire, kind)({"bootstrap.servers": NOBODY}))


def test_scan_names_no_from_config() -> None:
    options: Any = {"bootstrap.servers": NOBODY}
    with pytest.raises(ConfigError, match=r'kafwire.scan\("localhost:9092", client_id="billing"\)$'):
        kafwire.scan(options, "t")


@pytest.mark.parametrize("kind", [kafwire.Consumer, kafwire.AsyncConsumer])
def test_a_topic_with_a_caret_is_refused_as_a_pattern(kind: Any) -> None:
    wrong("'.orders-.*' is a pattern: write pattern='orders-.*'", lambda: kind(NOBODY, topics=["^orders-.*$"]))


@pytest.mark.parametrize("kind", [kafwire.ShareConsumer, kafwire.AsyncShareConsumer], ids=lambda kind: kind.__name__)
def test_a_share_consumer_has_no_line_for_a_pattern(kind: Any) -> None:
    wrong(
        "topics: '.orders-.*' is a pattern: a share group subscribes to topics by their names",
        lambda: kind(NOBODY, topics="^orders-.*", group_id="billing"),
    )


def test_one_partition_instead_of_a_list_is_refused_with_the_brackets() -> None:
    where: Any = kafwire.TopicPartition("orders", 0)
    wrong(
        r"a list of TopicPartition.* is needed, .*: write .partition.", lambda: kafwire.Consumer(NOBODY, assign=where)
    )


def test_good_options_are_taken_as_text_and_in_kafkas_spelling() -> None:
    options = {"bootstrap.servers": "a:1, [::1]:2", "linger.ms": "7", "acks": "1", "enable.idempotence": "false"}
    config = ProducerConfig.build(from_dotted(options))
    assert config.bootstrap_servers == (("a", 1), ("::1", 2))
    assert (config.linger_ms, config.acks, config.idempotent) == (7, 1, False)


def test_dotted_options_without_servers_or_misspelt() -> None:
    for client in (kafwire.Producer, kafwire.Client):
        wrong("bootstrap.servers is missing", lambda: client.from_config({"client.id": "x"}))  # noqa: B023
        wrong(
            "unknown option 'client.idd' ... did you mean 'client.id'",
            lambda: client.from_config({"bootstrap.servers": NOBODY, "client.idd": "x"}),  # noqa: B023
        )


def test_options_of_one_client_are_not_those_of_another() -> None:
    wrong("unknown option 'linger_ms'", lambda: ScanConfig.build({"bootstrap_servers": NOBODY, "linger_ms": 5}))
    wrong("unknown option 'linger_ms'", lambda: ClientConfig.build({"bootstrap_servers": NOBODY, "linger_ms": 5}))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"colums": ["value"]}, "unknown option 'colums' ... did you mean 'columns'"),
        ({"isolation_level": "committed"}, "isolation_level='committed' ... allowed: read_uncommitted, read_committed"),
        ({"columns": ["valu"]}, "unknown column 'valu' ... topic, partition, offset, timestamp, timestamp_type, key"),
        ({"columns": "value"}, "columns ... list ... 'value'"),
        ({"columns": [1]}, "unknown column 1"),
        ({"columns": ["value", "value"]}, "column is named twice"),
        ({"partitions": 5}, "partitions ... not 5"),
        ({"partitions": ["0"]}, "partitions ... not .'0'."),
        ({"partitions": "0"}, "partitions ... not '0'"),
        ({"start": "first"}, "'first' is not 'earliest', 'latest'"),
        ({"end": "last"}, "'last' is not 'earliest', 'latest'"),
        ({"start": None}, "None is not 'earliest', 'latest'"),
        ({"start": 1}, r"start=1: ... write kafwire.Offset\(1\), kafwire.Tail\(1\) ... a datetime with a time zone"),
        ({"end": 1_700_000_000_000}, r"end=1700000000000: ... kafwire.Offset\(1700000000000\)"),
        ({"start": -5}, r"start=-5: ... write kafwire.Tail\(5\) for the last 5 of each partition"),
        ({"start": 1.5}, "start=1.5: a number alone ... kafwire.Offset ... kafwire.Tail ... datetime"),
        ({"start": True}, "start=True: a number alone ... kafwire.Offset ... kafwire.Tail ... datetime"),
        ({"start": dt.date(2020, 1, 1)}, "date.* is not 'earliest', 'latest'"),
        ({"start": dt.datetime(2020, 1, 1)}, "has no time zone"),  # noqa: DTZ001
        ({"end": dt.datetime(2020, 1, 1)}, "has no time zone"),  # noqa: DTZ001
        ({"start": {0: 5}}, "offset is given for 0: a TopicPartition"),
        ({"start": {"t-0": 5}}, "offset is given for 't-0': a TopicPartition"),
        ({"start": {("t", "0"): 5}}, "a TopicPartition"),
        ({"start": {("u", 0): 5}}, "'u', which is not among the topics ... 't'"),
        ({"start": {("t", 0): -5}}, r"start.t-0.=-5: it must be an offset of 0 or more, or kafwire.Tail\(5\)"),
        ({"start": {("t", 0): 1.5}}, "start.t-0.=1.5: a number"),
        ({"start": {("t", 0): "soon"}}, "'soon' is not 'earliest', 'latest'"),
        ({"start": {("t", 0): 0}, "end": {("t", 1): 5}}, "different partitions ... t-0, t-1"),
        ({"start": {("t", 0): 0}, "partitions": [0]}, "exclude each other"),
    ],
)
def test_a_wrong_argument_of_scan_is_named_with_the_allowed_values(arguments: dict[str, Any], message: str) -> None:
    # No server listens there: a call to a broker would be a connection error, and a late one.
    wrong(message, lambda: kafwire.scan(NOBODY, "t", **arguments))


@pytest.mark.parametrize("topics", ["", [], None, 5, [""], ["t", None]])
def test_wrong_topics_of_scan(topics: Any) -> None:
    wrong("topics: a name or a list of names is needed, not", lambda: kafwire.scan(NOBODY, topics))


def test_only_requests_can_be_sent() -> None:
    with kafwire.Client(NOBODY) as client:
        wrong("'nope' is not a request message", lambda: client.call("nope"))
        wrong("MetadataResponse.* is not a request message", lambda: client.call(kafwire.protocol.MetadataResponse()))
        wrong("'soon' is not 'earliest', 'latest'", lambda: client.offsets([], "soon"))


def test_client_offsets_wrong_isolation_level() -> None:
    with kafwire.Client(NOBODY) as client:
        wrong(
            "isolation_level='dirty' ... allowed: read_uncommitted, read_committed",
            lambda: client.offsets([], isolation_level="dirty"),
        )
