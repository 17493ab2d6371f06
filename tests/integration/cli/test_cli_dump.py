"""`kafwire decode` on what real clients and a real broker say and store: nothing that does not decode."""

import json
import re
import shutil
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import kafwire
from kafwire.cli import main
from kafwire.protocol import MESSAGES
from kafwire.protocol.kafka_json import from_json
from kafwire.testing.cluster import KafkaCluster
from kafwire.testing.cluster.kafka import class_path, java
from tests.support.deadlines import ended

CLIENT, SERVER = "client", "server"
TOPICS = ["recorded-one", "recorded-two"]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
RECORDS = 200  # of each codec


class Recorder:
    """Listens on a port, passes connections on to a broker, and writes both directions of each to files.

    Responses name the address that the broker advertises: it has to be the recorder's.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets: list[socket.socket] = []
        self.threads: list[threading.Thread] = []
        self.count = 0
        self.closed = False

    def start(self, broker_port: Callable[[], int]) -> None:
        """Accept connections, for a broker whose port may be known later."""
        self._start(self._accept, broker_port)

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments)
        self.threads.append(thread)
        thread.start()

    def _accept(self, broker_port: Callable[[], int]) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", broker_port()))
            except OSError:
                client.close()  # the broker is not up yet, or not any more
                continue
            self.sockets += [client, server]
            self._start(self._copy, client, server, self.file(self.count, CLIENT))
            self._start(self._copy, server, client, self.file(self.count, SERVER))
            self.count += 1

    def file(self, number: int, side: str) -> Path:
        return self.folder / f"{number}-{side}.bin"

    def _copy(self, source: socket.socket, target: socket.socket, file: Path) -> None:
        with file.open("wb") as record:
            with suppress(OSError):  # one side is gone
                while data := source.recv(1 << 16):
                    record.write(data)
                    target.sendall(data)
            shut_down(source)
            shut_down(target)

    def stop(self) -> int:
        """End all connections; the files are complete then. Returns how many connections there were."""
        if not self.closed:
            self.closed = True
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
            ended(self.threads[0])
            for one in self.sockets:
                shut_down(one)
            ended(*self.threads[1:])
            for one in self.sockets:
                one.close()
        return self.count


def shut_down(one: socket.socket) -> None:
    """End both directions, which wakes the thread that reads."""
    with suppress(OSError):  # the other end was faster
        one.shutdown(socket.SHUT_RDWR)


def decode(*arguments: object) -> tuple[int, list[Any], str]:
    result = CliRunner().invoke(main, ["decode", *map(str, arguments)], prog_name="kafwire")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()], result.stderr


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Recorder, KafkaCluster]]:
    """A broker that advertises the recorder, after clients have worked with it and gone."""
    recorder = Recorder(tmp_path_factory.mktemp("recorded"))
    cluster = KafkaCluster(
        properties={
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{recorder.port}",
            "metadata.log.max.record.bytes.between.snapshots": 500,
        }
    )
    try:
        recorder.start(lambda: cluster.node(1).port)
        with cluster:
            work(f"127.0.0.1:{recorder.port}")
            yield recorder, cluster
    finally:
        recorder.stop()


def work(bootstrap: str) -> None:
    """Run the usual calls of clients with librdkafka and kafwire."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, 3) for name in TOPICS]).values():
        future.result(30)
    admin.list_consumer_groups().result(30)
    for number, codec in enumerate(CODECS):
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "linger.ms": 50,
                "enable.idempotence": number > 1,
            }
        )
        for i in range(RECORDS):
            producer.produce(TOPICS[0], value=f"{codec} {i} ü".encode(), key=b"\xff" * (i % 3), partition=number % 3)
        assert producer.flush(30) == 0
    careless = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "acks": 0})
    for i in range(10):
        careless.produce(TOPICS[1], value=str(i).encode(), partition=0)
        assert careless.flush(30) == 0
    transactional = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"})
    transactional.init_transactions(30)
    for finish in (transactional.commit_transaction, transactional.abort_transaction):
        transactional.begin_transaction()
        transactional.produce(TOPICS[1], value=b"in a transaction", partition=1)
        assert transactional.flush(30) == 0  # aborting drops what has not been sent
        finish(30)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe([TOPICS[0]])
    read = 0
    while read < RECORDS * len(CODECS):
        read += len(consumer.consume(1000, 1))
    consumer.commit(asynchronous=False)
    consumer.close()
    with kafwire.scan(bootstrap, TOPICS[0]) as scan:
        assert sum(map(len, scan.batches())) == RECORDS * len(CODECS)


def test_every_byte_of_every_connection_decodes(recorded: tuple[Recorder, KafkaCluster]) -> None:
    recorder, _ = recorded
    apis: Counter[str] = Counter()
    fetched = 0
    for number in range(recorder.stop()):
        files = recorder.file(number, CLIENT), recorder.file(number, SERVER)
        code, values, errors = decode("--connection", "--raw-records", *files)
        assert (code, errors) == (0, ""), (number, errors)
        read = {"request": 0, "response": 0}
        owed = None
        for value in values:
            kind = value["type"]
            if kind in read:
                assert value["position"] == read[kind]
                read[kind] += 4 + value["size"]
                cls: Any = MESSAGES[value["api"] + kind.capitalize()]
                # what was decoded is what was sent, to the byte
                body = from_json(cls, value["body"], value["version"]).encode(value["version"])
                side = files[kind == "response"].read_bytes()
                assert side[: read[kind]].endswith(body)
            if kind == "request":
                assert owed is None
                apis[value["api"]] += 1
                if not (value["api"] == "Produce" and value["body"]["acks"] == 0):
                    owed = value["correlationId"]
            elif kind in {"response", "unanswered"}:
                assert value["correlationId"] == owed
                owed = None
                apis[f"{kind}s"] += 1
        assert owed is None
        cut = {value["side"]: 4 + value["size"] for value in values if value["type"] == "incomplete"}
        assert read["request"] + cut.get(CLIENT, 0) == files[0].stat().st_size
        assert read["response"] + cut.get(SERVER, 0) == files[1].stat().st_size
        for value in decode("--connection", "--records", *files)[1]:
            if value["type"] == "response" and value["api"] == "Fetch":
                fetched += sum(
                    len(batch.get("records", ()))
                    for topic in value["body"]["responses"]
                    for partition in topic["partitions"]
                    for batch in partition["records"] or ()
                )
    assert apis["responses"] > 50
    assert apis["unanswereds"] <= recorder.count  # a fetch that waited when its client left
    expected = """ApiVersions Metadata CreateTopics ListGroups Produce InitProducerId FindCoordinator EndTxn
        AddPartitionsToTxn JoinGroup SyncGroup OffsetFetch OffsetCommit ListOffsets Fetch LeaveGroup"""
    assert set(expected.split()) <= set(apis)
    assert fetched >= 2 * RECORDS * len(CODECS)


LINE = re.compile(
    r"baseOffset: (?P<baseOffset>\d+) lastOffset: (?P<lastOffset>\d+) count: (?P<count>\d+) "
    r"baseSequence: (?P<baseSequence>-?\d+) .*?producerId: (?P<producerId>-?\d+) "
    r"producerEpoch: (?P<producerEpoch>-?\d+) partitionLeaderEpoch: (?P<partitionLeaderEpoch>-?\d+) "
    r"isTransactional: (?P<isTransactional>\w+) isControl: (?P<isControl>\w+) deleteHorizonMs: \S+ "
    r"position: (?P<position>\d+) (?P<timestampType>\w+): (?P<maxTimestamp>-?\d+) size: (?P<size>\d+) "
    r"magic: (?P<magic>\d+) compresscodec: (?P<compression>\w+) crc: (?P<crc>\d+) isvalid: true"
)


def java_dump(files: list[Path]) -> dict[str, list[dict[str, Any]]]:
    """The lines of Kafka's own tool about the batches of each file."""
    command = [
        java(),
        "-cp",
        class_path(),
        "org.apache.kafka.tools.DumpLogSegments",
        "--files",
        ",".join(map(str, files)),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    found: dict[str, list[dict[str, Any]]] = {}
    for line in ran.stdout.splitlines():
        if line.startswith("Dumping "):
            batches = found.setdefault(line.removeprefix("Dumping "), [])
        elif match := LINE.match(line):
            batches.append(
                {name: int(text) if text.lstrip("-").isdigit() else text for name, text in match.groupdict().items()}
            )
        else:
            assert line.startswith(("Log starting offset", "Snapshot end offset", "KRaft bootstrap snapshot")), line
    return found


ENTRY = re.compile(
    r"version: 0 producerId: (?P<producerId>\d+) firstOffset: (?P<firstOffset>\d+) lastOffset: (?P<lastOffset>\d+) "
    r"lastStableOffset: (?P<lastStableOffset>\d+)"
)


def test_indexes_of_transactions_agree_with_kafkas_own_tool(
    recorded: tuple[Recorder, KafkaCluster], tmp_path: Path
) -> None:
    _, cluster = recorded
    seen = 0
    for number, source in enumerate(sorted(cluster.node(1).data.rglob("*.txnindex"))):
        if not source.stat().st_size:
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        file = folder / source.name
        shutil.copy(source, file)
        command = [java(), "-cp", class_path(), "org.apache.kafka.tools.DumpLogSegments", "--files", str(file)]
        ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        expected = [
            {name: int(text) for name, text in found.groupdict().items()} for found in ENTRY.finditer(ran.stdout)
        ]
        code, entries, errors = decode(file)
        assert (code, errors) == (0, "")
        assert [{name: entry[name] for name in expected[0]} for entry in entries] == expected
        seen += len(entries)
    assert seen


def test_the_files_of_a_broker_agree_with_kafkas_own_tool(
    recorded: tuple[Recorder, KafkaCluster], tmp_path: Path
) -> None:
    _, cluster = recorded
    files = []
    for source in sorted(cluster.node(1).data.rglob("*")):
        if source.suffix in {".log", ".checkpoint"} and source.stat().st_size:
            # a copy: the broker goes on writing
            target = tmp_path / source.parent.name / source.name
            target.parent.mkdir(exist_ok=True)
            shutil.copy(source, target)
            files.append(target)
    theirs = java_dump(files)
    controls: Counter[str] = Counter()
    assert {Path(name) for name in theirs} == set(files)
    for file in files:
        code, batches, errors = decode(file)
        assert (code, errors) == (0, ""), file
        expected = theirs[str(file)]
        ours = [{name: batch[name] for name in expected[0]} for batch in batches]
        for batch in ours:
            batch |= {name: str(batch[name]).lower() for name in ("isTransactional", "isControl")}
        assert ours == expected, file
        code, records, errors = decode("--records", file)
        assert (code, errors) == (0, ""), file
        assert len(records) == sum(batch["count"] for batch in batches)
        offsets = [record["offset"] for record in records]
        assert offsets == sorted(set(offsets))
        for record in records:
            if "control" in record:
                assert "body" in record["control"], record
                controls[record["control"]["type"]] += 1
    names = {file.parent.name for file in files}
    assert {"__cluster_metadata-0", "__consumer_offsets-0", "__transaction_state-0", f"{TOPICS[0]}-0"} <= names
    assert any(file.suffix == ".checkpoint" and "__cluster_metadata" in str(file) for file in files)
    assert {"ABORT", "COMMIT", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER"} <= set(controls)
