"""Responses that are wrong, broken, late or lost: a scan and a client return the right result, or an error.

A wrong response is never believed; a lost one is requested again; damaged records are an error with their topic,
partition and offset, after the records before them.
"""

import struct
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.errors import BrokerError, ErrorCode, KafkaConnectionError, KafkaError, KafkaTimeoutError, ProtocolError
from tests.support.broker import scripted_broker as scripted
from tests.support.broker.scripted_broker import ScriptedBroker, Step, batch_of
from tests.support.deadlines import ended
from tests.support.time_limits import within

BATCHES = 6
PER_BATCH = 10
TOTAL = BATCHES * PER_BATCH

MAGIC, ATTRIBUTES, CRC, RECORDS = 16, 22, 17, 61  # positions in a batch


def values(start: int = 0, end: int = TOTAL) -> list[bytes]:
    return [b"value %d" % number for number in range(start, end)]


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """Topic "t" with one partition of 6 batches."""
    with ScriptedBroker({"t": 1}, nodes=2) as running:
        for begin in range(0, TOTAL, PER_BATCH):
            running.append("t", 0, batch_of(values(begin, begin + PER_BATCH)))
        yield running


def read(broker: ScriptedBroker, **options: Any) -> list[bytes | None]:
    """All values of "t" by a scan whose every request fetches one batch."""
    chosen: dict[str, Any] = {"fetch_max_bytes": 1, "columns": ["offset", "value"]} | options
    found = []
    with kafwire.scan(broker.bootstrap, "t", **chosen) as scan:
        for batch in scan.batches():
            assert [record.offset for record in batch] == list(range(batch.base_offset, batch.next_offset))
            found += [record.value for record in batch]
    return found


# -- what another try mends


@pytest.mark.parametrize(
    "step",
    [
        scripted.close,
        scripted.lose_response,
        scripted.close_in_mid_frame,
        scripted.wrong_correlation_id,
        scripted.giant_frame(),
        scripted.giant_frame(-5),
        scripted.giant_frame(2),
        scripted.after(0.3),
        scripted.error(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        scripted.error(ErrorCode.LEADER_NOT_AVAILABLE),
        scripted.error(ErrorCode.FENCED_LEADER_EPOCH),
    ],
    ids=[
        *("close", "lose", "cut", "number", "giant", "negative", "tiny"),
        *("late", "not leader", "no leader", "fenced"),
    ],
)
@pytest.mark.parametrize("api", ["ApiVersions", "Metadata", "ListOffsets", "Fetch"])
def test_a_scan_goes_on_after_a_response_that_another_try_mends(broker: ScriptedBroker, api: str, step: Step) -> None:
    broker.script(api, step, scripted.behave, step)
    with within(15):
        assert read(broker) == values()


def test_a_fetch_without_a_response_is_given_up_and_sent_again(broker: ScriptedBroker) -> None:
    broker.script("Fetch", scripted.behave, scripted.no_response)
    with within(15, at_least=0.3):
        assert read(broker, request_timeout_ms=200, fetch_max_wait_ms=100) == values()


def test_the_leader_moves_while_a_scan_reads(broker: ScriptedBroker) -> None:
    def move(exchange: scripted.Exchange) -> None:
        exchange.broker.lead("t", 0, 3 - exchange.request.node)
        scripted.behave(exchange)

    broker.script("Fetch", scripted.behave, move, scripted.behave, scripted.behave, move)
    with within(15):
        assert read(broker) == values()
    assert {request.node for request in broker.seen("Fetch")} == {1, 2}


def test_no_broker_can_be_reached_for_a_while(broker: ScriptedBroker) -> None:
    def come_back() -> None:
        for node in (1, 2):
            broker.start(node)

    back = threading.Timer(0.7, come_back)

    def vanish(exchange: scripted.Exchange) -> None:
        back.start()
        for node in (1, 2):
            broker.stop(node)

    broker.script("Fetch", scripted.behave, vanish)
    with within(15, at_least=0.6):
        assert read(broker) == values()
    ended(back)


def test_a_scan_that_gets_nowhere_ends_in_time(broker: ScriptedBroker) -> None:
    broker.script("Fetch", scripted.behave)
    broker.always("Fetch", scripted.close)
    with (
        within(10),
        pytest.raises(KafkaError, match=r"t-0 could not be read further than offset 10 for 0\.8 s.*broker"),
    ):
        read(broker, default_api_timeout_ms=800)


@pytest.mark.parametrize("empty", [True, False], ids=["nothing", "another partition"])
def test_a_log_that_lost_its_end_is_not_waited_for_for_ever(broker: ScriptedBroker, *, empty: bool) -> None:
    """After an unclean election what the scan was to read up to may be gone."""

    def cut(exchange: scripted.Exchange) -> None:
        exchange.broker.logs["t", 0] = exchange.broker.logs["t", 0][:2]
        scripted.behave(exchange)

    def nothing(exchange: scripted.Exchange) -> None:
        response = exchange.execute()
        response.responses = []
        exchange.send(exchange.frame(response))

    broker.script("Fetch", scripted.behave, cut)
    if empty:
        broker.always("Fetch", nothing)
    message = r"t-0 gave no records from offset 20 on for 0\.8 s.* up to 60"
    with within(10, at_least=0.7), pytest.raises(KafkaError, match=message):
        read(broker, default_api_timeout_ms=800, fetch_max_wait_ms=50)


# -- what no try mends


@pytest.mark.parametrize("columns", [["value"], ["offset"], None], ids=["value", "offset", "all"])
@pytest.mark.parametrize(
    ("step", "what"),
    [
        (scripted.flipped(-1), "CRC|checksum"),
        (scripted.flipped(RECORDS + 3), "CRC|checksum"),
        (scripted.flipped(CRC), "CRC|checksum"),
        (scripted.flipped(ATTRIBUTES), "CRC|checksum"),
        (scripted.flipped(MAGIC), "magic"),
    ],
    ids=["last byte", "record", "crc", "attributes", "magic"],
)
def test_damaged_records_are_named_after_those_before_them(
    broker: ScriptedBroker, step: Step, what: str, columns: list[str] | None
) -> None:
    broker.script("Fetch", scripted.behave, scripted.behave, step)
    found = 0
    with within(10), pytest.raises(ProtocolError, match=f"t-0.*offset 20.*({what})"):
        for batch in kafwire.scan(broker.bootstrap, "t", fetch_max_bytes=1, columns=columns).batches():
            found += len(batch)
    assert found == 2 * PER_BATCH


def test_damaged_records_in_the_middle_of_a_response(broker: ScriptedBroker) -> None:
    size = len(broker.logs["t", 0][0].data)
    broker.script("Fetch", scripted.flipped(3 * size + RECORDS + 5))
    scan = kafwire.scan(broker.bootstrap, "t")
    found = []
    with within(10), pytest.raises(ProtocolError, match="t-0.*30"):
        for batch in scan.batches():
            found += [record.value for record in batch]
    assert found == values(0, 30)


def test_damaged_records_end_an_arrow_stream(broker: ScriptedBroker) -> None:
    broker.script("Fetch", scripted.behave, scripted.flipped(-1))
    reader = kafwire.scan(broker.bootstrap, "t", fetch_max_bytes=1).to_reader()
    assert len(reader.read_next_batch()) == PER_BATCH
    with within(10), pytest.raises(OSError, match="t-0.*10.*damaged"):
        reader.read_next_batch()
    reader.close()


def test_checksums_are_not_looked_at_where_the_user_says_so(broker: ScriptedBroker) -> None:
    broker.always("Fetch", scripted.flipped(CRC))
    assert read(broker, check_crcs=False) == values()


def stamped(batch: bytes, position: int, value: bytes) -> bytes:
    """The batch with bytes replaced and its checksum made right again."""
    import crc32c

    changed = batch[:position] + value + batch[position + len(value) :]
    return changed[:CRC] + struct.pack(">I", crc32c.crc32c(changed[ATTRIBUTES - 1 :])) + changed[CRC + 4 :]


def test_a_codec_that_does_not_exist_is_named(broker: ScriptedBroker) -> None:
    broker.script(
        "Fetch", scripted.behave, scripted.changed_records(lambda data: stamped(data, ATTRIBUTES - 1, b"\0\x07"))
    )
    with within(10), pytest.raises(ProtocolError, match=r"t-0.*10.*(codec|compression).*7"):
        read(broker)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_records_that_do_not_decompress(broker: ScriptedBroker, codec: str) -> None:
    broken = batch_of([b"some text to press together " * 20] * 20, compression=codec)
    broken = stamped(broken, RECORDS + 12, bytes(byte ^ 0x5A for byte in broken[RECORDS + 12 : RECORDS + 40]))
    broker.append("t", 0, broken)
    with within(10), pytest.raises(ProtocolError, match=r"t-0.*60"):
        read(broker)


def test_a_magic_that_does_not_exist_is_named(broker: ScriptedBroker) -> None:
    broker.script("Fetch", scripted.changed_records(lambda data: stamped(data, MAGIC, b"\x03")))
    with within(10), pytest.raises(ProtocolError, match=r"t-0, after offset 0, from broker 1 at 127.*magic"):
        read(broker)


def test_a_batch_that_claims_more_records_than_it_holds(broker: ScriptedBroker) -> None:
    broker.script("Fetch", scripted.changed_records(lambda data: stamped(data, 57, struct.pack(">i", 1 << 30))))
    with within(10), pytest.raises(ProtocolError, match=r"t-0.* 0"):
        read(broker)


def test_the_same_batch_again_and_again_is_not_waited_for(broker: ScriptedBroker) -> None:
    first = broker.logs["t", 0][0].data
    broker.always("Fetch", scripted.changed_records(lambda _: first))
    with within(10), pytest.raises(ProtocolError, match="t-0.*offset 10"):
        read(broker)


def test_half_a_batch_and_no_more_is_not_waited_for(broker: ScriptedBroker) -> None:
    broker.script("Fetch", scripted.behave)
    broker.always("Fetch", scripted.changed_records(lambda data: data[:40]))
    with within(10), pytest.raises(ProtocolError, match="broker 1 at 127.* for t-0 has no whole batch"):
        read(broker)


@pytest.mark.parametrize("api", ["Metadata", "ListOffsets", "Fetch"])
@pytest.mark.parametrize(
    "step",
    [scripted.truncated(1), scripted.truncated(9), scripted.too_long(b"\0"), scripted.garbage(b"\xff" * 30)],
    ids=["1 byte short", "9 bytes short", "too long", "garbage"],
)
def test_a_response_that_cannot_be_read_is_named(broker: ScriptedBroker, api: str, step: Step) -> None:
    if api == "ListOffsets":
        broker.script(api, step)
    else:
        broker.always(api, step)  # after one alone the client repeats the request
    with within(10), pytest.raises(ProtocolError, match=f"{api}Response") as caught:
        read(broker)
    assert "127.0.0.1:" in str(caught.value)
    assert caught.value.version is not None
    assert caught.value.offset is not None


def test_another_broker_gives_the_metadata_that_one_response_lacks(broker: ScriptedBroker) -> None:
    whole = read(broker)
    broker.script("Metadata", scripted.truncated(1))
    with within(10):
        assert read(broker) == whole


def test_one_response_that_cannot_be_read_is_requested_again(broker: ScriptedBroker) -> None:
    whole = read(broker)
    broker.script("Fetch", scripted.behave, scripted.truncated(1), scripted.garbage(b"\xff" * 30))
    before = broker.connections
    with within(10):
        assert read(broker) == whole
    assert broker.connections >= before + 3, "the connections that said it are used no more"


@pytest.mark.parametrize("step", [scripted.truncated(1), scripted.garbage(b"\xff" * 30)], ids=["short", "garbage"])
def test_a_greeting_that_cannot_be_read_is_named(broker: ScriptedBroker, step: Step) -> None:
    broker.always("ApiVersions", step)
    with (
        within(10),
        pytest.raises(KafkaConnectionError, match=f"{broker.bootstrap.split(',')[0]}.*ApiVersionsResponse"),
    ):
        kafwire.scan(broker.bootstrap, "t", default_api_timeout_ms=500)


def test_after_a_response_that_cannot_be_read_the_client_goes_on(broker: ScriptedBroker) -> None:
    with kafwire.Client(broker.bootstrap) as client:
        assert client.metadata().cluster_id == "scripted"
        before = broker.connections
        broker.always("Metadata", scripted.truncated(3))
        with within(5), pytest.raises(ProtocolError, match=r"MetadataResponse version \d+ at offset \d+"):
            client.metadata()
        broker.always("Metadata", scripted.behave)
        with within(5):
            assert client.metadata().cluster_id == "scripted"
        assert broker.connections > before, "the connection that said it is used no more"


def test_offsets_that_do_not_exist_are_named_with_those_that_do(broker: ScriptedBroker) -> None:
    where = kafwire.TopicPartition("t", 0)
    broker.log_starts["t", 0] = 10
    for start in (9, 61):
        with within(5), pytest.raises(BrokerError, match=f"t-0 has the offsets 10 to 60.*not {start}") as caught:
            kafwire.scan(broker.bootstrap, "t", start={where: start})
        assert caught.value.name == "OFFSET_OUT_OF_RANGE"
    with pytest.raises(BrokerError, match="t-0 has the offsets 10 to 60.*not 70"):
        kafwire.scan(broker.bootstrap, "t", start={where: 20}, end={where: 70})
    with pytest.raises(ValueError, match="t-0: the start offset 50 is after the end offset 40"):
        kafwire.scan(broker.bootstrap, "t", start={where: 50}, end={where: 40})


def test_records_deleted_while_they_are_read_are_not_skipped(broker: ScriptedBroker) -> None:
    def delete(exchange: scripted.Exchange) -> None:
        scripted.behave(exchange)
        exchange.broker.log_starts["t", 0] = 30

    broker.script("Fetch", scripted.behave, delete)
    found = []
    with within(10), pytest.raises(BrokerError, match=r"t-0 has no offset 20 any more.*'earliest'") as caught:
        for batch in kafwire.scan(broker.bootstrap, "t", fetch_max_bytes=1).batches():
            found += [record.value for record in batch]
    assert caught.value.name == "OFFSET_OUT_OF_RANGE"
    assert found == values(0, 20)


def test_a_topic_deleted_while_it_is_read_is_named(broker: ScriptedBroker) -> None:
    def delete(exchange: scripted.Exchange) -> None:
        scripted.behave(exchange)
        del exchange.broker.topics["t"]

    broker.script("Fetch", scripted.behave, delete)
    with within(10), pytest.raises(KafkaError, match=r"UNKNOWN_TOPIC.*'t' has been gone.*t-0 .*offset 20"):
        read(broker, default_api_timeout_ms=800)


def test_an_error_that_kafwire_does_not_know_is_still_an_error(broker: ScriptedBroker) -> None:
    """The error may pass: the scan retries, and raises it when `default_api_timeout_ms` is over."""
    whole = read(broker)
    broker.script("Fetch", scripted.behave, scripted.error(31_000))
    with within(10):
        assert read(broker) == whole
    broker.always("Fetch", scripted.error(31_000))
    with within(10), pytest.raises(KafkaTimeoutError, match=r"could not be read further.*\(31000\).*broker 1 at 127"):
        read(broker, default_api_timeout_ms=1_000)


def test_a_broker_that_lacks_an_api_is_named(broker: ScriptedBroker) -> None:
    with kafwire.Client(broker.bootstrap) as client, within(5), pytest.raises(ProtocolError, match="DeleteTopics"):
        client.delete_topic("t")
    broker.max_versions["Fetch"] = 3
    with within(5), pytest.raises(ProtocolError, match=r"FetchRequest.*kafwire has 4 to 18, the broker 3 to 3"):
        read(broker)


def test_an_older_broker_is_spoken_to_in_its_own_versions(broker: ScriptedBroker) -> None:
    for api, version in {"ApiVersions": 2, "Fetch": 11, "ListOffsets": 1, "Metadata": 4}.items():
        broker.max_versions[api] = version
    broker.topic_ids = False
    assert read(broker) == values()
    assert {request.version for request in broker.seen("Fetch")} == {11}
    assert {request.version for request in broker.seen("ApiVersions")} == {5, 2}


def test_the_error_of_a_stream_reaches_pyarrow_as_a_whole(broker: ScriptedBroker) -> None:
    """pyarrow releases the stream while it raises the error that the stream gave it."""
    broker.script("Fetch", *[scripted.behave] * 3, scripted.flipped(-1))
    with within(10), pytest.raises(OSError, match="t-0.*30"):
        pa.table(kafwire.scan(broker.bootstrap, "t", fetch_max_bytes=1))
