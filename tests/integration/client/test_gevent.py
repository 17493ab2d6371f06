"""Clients in processes that `gevent.monkey` patched: they work, and other greenlets go on."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest

from kafwire.testing import EmbeddedKafka
from tests.support.deadlines import PATIENCE_S

pytest.importorskip("gevent")

PATCHES = {
    "before the import": "from gevent import monkey; monkey.patch_all(); import kafwire",
    "after the import": "import kafwire; from gevent import monkey; monkey.patch_all()",
    "without threads": "from gevent import monkey; monkey.patch_all(thread=False); import kafwire",
    "without threads and select": (
        "from gevent import monkey; monkey.patch_all(thread=False, select=False); import kafwire"
    ),
}
ROWS = 1000
BEGIN = """
import sys, time
import gevent
bootstrap, patch = sys.argv[1:]
ticks = []
def tick():
    while True:
        gevent.sleep(0.01)
        ticks.append(1)
gevent.spawn(tick)
"""


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        running.create_topic("full", partitions=2)
        for partition in range(2):
            running.append("full", [b"%d" % number for number in range(ROWS // 2)], partition=partition)
        for topic in ("empty", "out", "last"):
            running.create_topic(topic)
        yield running


def run(kafka: EmbeddedKafka, patch: str, program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PATCHES[patch] + BEGIN + textwrap.dedent(program), kafka.bootstrap, patch],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


PRODUCES = """
from gevent.event import AsyncResult, Event
with kafwire.Producer(bootstrap, linger_ms=20, buffer_memory=256 << 10) as producer:
    came, called = Event(), AsyncResult()
    producer.send("out", b"x").add_done_callback(lambda delivery: (called.set(delivery.result()), came.set()))
    assert came.wait(20)
    assert called.get(timeout=20).topic == "out"
    jobs = [gevent.spawn(lambda: producer.send("out", b"x").result(20)) for _ in range(20)]
    gevent.joinall(jobs, raise_error=True)
    # More than fits: greenlets wait for room.
    jobs = [gevent.spawn(lambda: [producer.send("out", bytes(1000)) for _ in range(500)]) for _ in range(3)]
    gevent.joinall(jobs, raise_error=True)
    producer.flush(20)
    # A callback does not wait for the thread that would deliver.
    refused = AsyncResult()
    def flush(delivery):
        try:
            producer.flush()
        except kafwire.KafkaError as error:
            refused.set(str(error))
    producer.send("out", b"x").add_done_callback(flush)
    assert "a delivery callback" in refused.get(timeout=20)
with kafwire.Producer(bootstrap, linger_ms=0) as producer:  # a partition that is idle again and again
    seen = len(ticks)
    for _ in range(200):
        producer.send("out", b"x").result(20)
        gevent.sleep(0)
with kafwire.Producer(bootstrap, transactional_id=patch) as producer, producer.transaction():
    producer.send("out", b"x")
kept = kafwire.Producer(bootstrap, linger_ms=60_000)
kept.send("last", patch.encode())  # delivered at the exit
"""

READS = """
consumer = kafwire.Consumer(bootstrap, topics="full", group_id=patch, auto_offset_reset="earliest")
rows = 0
while rows < 1000:
    rows += sum(map(len, consumer.poll(20)))
consumer.commit()
assert [*consumer.committed().values()] == [500, 500]
seen, began = len(ticks), time.monotonic()
assert consumer.poll(1) == []
assert 0.9 < time.monotonic() - began < 20
assert len(ticks) - seen > 20, len(ticks) - seen
consumer.close()

def read():
    with kafwire.Consumer(bootstrap, topics="full", start="earliest") as consumer:
        return next(number for number, record in enumerate(consumer, 1) if number == 1000)
jobs = [gevent.spawn(read) for _ in range(3)]
assert [job.get(timeout=20) for job in jobs] == [1000] * 3

consumer = kafwire.Consumer(bootstrap, topics="empty", start="latest")
assert consumer.poll(0.1) == []
try:
    with gevent.Timeout(0.2):
        consumer.poll(60)
except gevent.Timeout:
    pass
else:
    raise AssertionError("no time-out")
job = gevent.spawn(consumer.poll, 60)
gevent.sleep(0.1)
job.kill(timeout=20)
job = gevent.spawn(consumer.poll, 60)
gevent.sleep(0.1)
consumer.close()
assert job.get(timeout=20) == []

with kafwire.Client(bootstrap) as client:
    assert client.metadata().brokers
assert sum(map(len, kafwire.scan(bootstrap, "full").batches())) == 1000
"""

READS_ON = """
import pyarrow
assert pyarrow.table(kafwire.scan(bootstrap, "full")).num_rows == 1000
consumer = kafwire.Consumer(bootstrap, topics="full", start="earliest")
rows = 0
for batch in pyarrow.RecordBatchReader.from_stream(consumer.arrow_stream()):
    rows += batch.num_rows
    if rows == 1000:
        break
consumer.close()

consumer = kafwire.Consumer(bootstrap, topics="full", start="earliest")
counts = []
def handle(stream):
    for batch in stream:
        gevent.sleep(0)
        counts.append(len(batch))
        if sum(counts) == 1000:
            consumer.stop()
consumer.for_each_partition(handle)
assert sum(counts) == 1000
consumer.close()

producer = kafwire.Producer(bootstrap)
with kafwire.ShareConsumer(bootstrap, group_id="share " + patch, topics=["empty"]) as consumer:
    seen, got = len(ticks), []
    with gevent.Timeout(60):
        while not got:  # a share group begins at the end, once it has one
            producer.send("empty", b"x")
            got = consumer.poll(0.5)
    assert len(ticks) > seen
producer.close()
"""


@pytest.mark.parametrize("patch", PATCHES)
def test_greenlets_produce(kafka: EmbeddedKafka, patch: str) -> None:
    run(kafka, patch, PRODUCES)
    assert patch.encode() in [record.value for record in kafka.records("last")]


@pytest.mark.parametrize("patch", PATCHES)
def test_greenlets_read(kafka: EmbeddedKafka, patch: str) -> None:
    run(kafka, patch, READS)


@pytest.mark.parametrize("patch", ["before the import", "without threads"])
def test_greenlets_read_streams_and_share_groups(kafka: EmbeddedKafka, patch: str) -> None:
    run(kafka, patch, READS_ON)


LOGS = """
import logging, threading
class Sends(logging.Handler):
    def emit(self, record):
        counts.append(record.threadName)
        gevent.sleep(0)  # with the handler's lock held
counts, snapshots = [], []
logging.getLogger().addHandler(Sends())
logging.getLogger().setLevel(logging.DEBUG)
lock = threading.Lock()
def called(delivery):
    with lock:
        counts.append("callback")
with kafwire.Producer(bootstrap, metrics_hook=snapshots.append, metrics_interval_ms=10) as producer:
    for number in range(300):
        producer.send("out", b"x").add_done_callback(called)
        logging.info("%d", number)
        with lock:
            gevent.sleep(0)
    producer.flush(30)
    while not snapshots:
        gevent.sleep(0.001)
assert counts.count("callback") == 300, counts.count("callback")
"""


@pytest.mark.parametrize("patch", ["before the import", "after the import"])
def test_handlers_and_callbacks_share_locks_with_greenlets(kafka: EmbeddedKafka, patch: str) -> None:
    run(kafka, patch, LOGS)


UNTOUCHED = """
assert "gevent" not in sys.modules
with kafwire.Producer(bootstrap) as producer:
    producer.send("out", b"x").result(20)
assert "gevent" not in sys.modules
"""


def test_an_unpatched_process_imports_no_gevent(kafka: EmbeddedKafka) -> None:
    program = "import sys, kafwire; bootstrap = sys.argv[1]" + UNTOUCHED
    subprocess.run([sys.executable, "-c", program, kafka.bootstrap], check=True, timeout=PATIENCE_S)
