"""The end of a process, Ctrl-C and fork, with clients alive: nothing hangs, crashes, or is lost in silence."""

import signal
import subprocess
import textwrap
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from tests.support import programs, seeds
from tests.support.broker import scripted_broker as scripted
from tests.support.broker.scripted_broker import ScriptedBroker, Step, batch_of
from tests.support.time_limits import within

BEGIN = """
import asyncio, os, signal, sys, threading, time
import kafwire
bootstrap = sys.argv[1]
"""


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """Topic "t" with four batches, "out" empty."""
    with ScriptedBroker({"t": 1, "out": 1}) as running:
        for number in range(4):
            running.append("t", 0, batch_of([b"%d" % number] * 100))
        yield running


def program(broker: ScriptedBroker, code: str) -> AbstractContextManager[subprocess.Popen[str]]:
    return programs.program(BEGIN, code, broker.bootstrap)


def run(broker: ScriptedBroker, code: str) -> tuple[int, str, str]:
    return programs.run(BEGIN, code, broker.bootstrap)


# -- exit

EXITS = {
    "client": "client = kafwire.Client(bootstrap); client.topic('t')",
    "async client": "client = kafwire.AsyncClient(bootstrap); asyncio.run(client.topic('t'))",
    "producer": "producer = kafwire.Producer(bootstrap); producer.send('out', b'x').result(10)",
    "unflushed": "producer = kafwire.Producer(bootstrap, linger_ms=60_000); producer.send('out', b'x')",
    "dropped": "kafwire.Producer(bootstrap, linger_ms=60_000).send('out', b'x')",
    "scan": "scan = kafwire.scan(bootstrap, 't')",
    "half read": "batches = kafwire.scan(bootstrap, 't', fetch_max_bytes=1).batches(); next(batches)",
    "arrow": "reader = kafwire.scan(bootstrap, 't', fetch_max_bytes=1).to_reader(); reader.read_next_batch()",
    "table": "import pyarrow; table = pyarrow.table(kafwire.scan(bootstrap, 't'))",
    "many": "keep = [kafwire.Producer(bootstrap) for _ in range(5)] + [kafwire.scan(bootstrap, 't') for _ in range(5)]",
    "cycle": "keep = [kafwire.scan(bootstrap, 't'), kafwire.Producer(bootstrap)]; keep.append(keep)",
    "engine only": "from kafwire.runtime.engine import default_engine; default_engine()",
}


@pytest.mark.parametrize("code", EXITS.values(), ids=EXITS)
def test_the_interpreter_ends_with_clients_alive(broker: ScriptedBroker, code: str) -> None:
    with within(15):
        assert run(broker, code) == (0, "", "")
    if "send" in code:
        assert broker.values("out") == [b"x"]


@pytest.mark.parametrize(
    ("code", "status"), [("sys.exit(3)", 3), ("raise SystemExit", 0), ("os._exit(4)", 4)], ids=["3", "0", "4"]
)
def test_the_exit_code_is_the_programs(broker: ScriptedBroker, code: str, status: int) -> None:
    assert run(broker, EXITS["half read"] + "\n" + code) == (status, "", "")


STUCK = {
    "streams": "kafwire.Consumer(bootstrap, topics='t', start='earliest').for_each_partition(list)",
    "batches": "list(kafwire.scan(bootstrap, 't').batches())",
    "arrow": "kafwire.scan(bootstrap, 't').to_reader().read_all()",
    "result": "kafwire.Producer(bootstrap).send('out', b'x').result()",
    "flush": "producer = kafwire.Producer(bootstrap); producer.send('out', b'x'); producer.flush()",
}


@pytest.mark.parametrize("call", STUCK.values(), ids=STUCK)
def test_the_interpreter_ends_while_a_daemon_thread_waits(broker: ScriptedBroker, call: str) -> None:
    """A thread that wakes up in a dying interpreter crashes it or hangs it: all are let go before."""
    broker.always("Fetch", scripted.no_response)
    broker.always("Produce", scripted.no_response)
    code = f"""
    import kafwire.producer.send.sender
    kafwire.producer.send.sender.EXIT_FLUSH_S = 0.3
    def body():
        try:
            {call}
        except (kafwire.KafkaError, OSError):
            pass
    threading.Thread(target=body, daemon=True).start()
    if "to_reader" in {call!r}:
        from kafwire.consumer.delivery._arrow_stream import stream_threads
        while not stream_threads():
            time.sleep(0.01)
        print(flush=True)
    sys.stdin.read()
    """
    with program(broker, code) as process, within(15):
        broker.wait_for_requests("Produce" if "Producer" in call else "Fetch")
        if "to_reader" in call:
            assert process.stdout is not None
            assert process.stdout.readline() == "\n"
        _, err = process.communicate(timeout=15)
        assert process.returncode == 0, err
    if "Producer" not in call:
        assert err == ""
    else:
        assert "ended and 1 record(s) to out-0 were not acknowledged within 0.3 s" in err
        assert len(err.splitlines()) == 1


def test_records_that_cannot_be_sent_at_the_end_are_reported(broker: ScriptedBroker) -> None:
    broker.always("Produce", scripted.no_response)
    code = """
    import kafwire.producer.send.sender
    kafwire.producer.send.sender.EXIT_FLUSH_S = 0.3
    producer = kafwire.Producer(bootstrap)
    for _ in range(3):
        producer.send('out', b'x')
    """
    with within(15, at_least=0.3):
        status, out, err = run(broker, code)
    assert (status, out) == (0, "")
    reported = (
        "kafwire: the program ended and 3 record(s) to out-0 were not acknowledged within 0.3 s: close the producer"
    )
    assert err == f"{reported}\n"


def test_calls_after_the_end_are_refused(broker: ScriptedBroker) -> None:
    code = """
    import atexit
    def late():
        for call in (lambda: client.topic('t'), lambda: kafwire.scan(bootstrap, 't'), producer.flush):
            try:
                call()
            except kafwire.KafkaError as error:
                print(error)
        client.close(), producer.close()
    atexit.register(late)  # runs after what kafwire registers later
    client = kafwire.Client(bootstrap)
    client.topic('t')
    producer = kafwire.Producer(bootstrap)
    """
    with within(15):
        status, out, err = run(broker, code)
    assert (status, err) == (0, "")
    assert out.count("the interpreter is ending") >= 2
    assert len(out.splitlines()) == 3


# -- Ctrl-C

INTERRUPTED: dict[str, tuple[str, Step, str]] = {
    "batches": ("Fetch", scripted.no_response, "list(kafwire.scan(bootstrap, 't').batches())"),
    "arrow": ("Fetch", scripted.no_response, "read_arrow()"),
    "planning": ("ListOffsets", scripted.no_response, "kafwire.scan(bootstrap, 't')"),
    "call": ("Metadata", scripted.no_response, "kafwire.Client(bootstrap).metadata()"),
    "awaiting": ("Metadata", scripted.no_response, "asyncio.run(kafwire.AsyncClient(bootstrap).metadata())"),
    "learning": ("Metadata", scripted.no_response, "producer.send('out', b'x')"),
    "result": ("Produce", scripted.no_response, "producer.send('out', b'x').result()"),
    "flush": ("Produce", scripted.no_response, "producer.send('out', b'x'); producer.flush()"),
    "close": ("Produce", scripted.no_response, "producer.send('out', b'x'); producer.close()"),
    "full": ("Produce", scripted.no_response, "[producer.send('out', bytes(5000)) for _ in range(9)]"),
    "retrying": ("Produce", scripted.error(6), "producer.send('out', b'x').result()"),
}


@pytest.mark.parametrize(("api", "step", "call"), INTERRUPTED.values(), ids=INTERRUPTED)
def test_ctrl_c_ends_a_call_that_waits(broker: ScriptedBroker, api: str, step: Step, call: str) -> None:
    broker.always(api, step)
    code = f"""
    import kafwire.producer.send.sender
    kafwire.producer.send.sender.EXIT_FLUSH_S = 0.1
    producer = kafwire.Producer(bootstrap, buffer_memory=20_000, batch_size=10_000)
    def read_arrow():
        try:
            kafwire.scan(bootstrap, 't').to_reader().read_all()
        except OSError:  # all that an Arrow stream can raise; the interrupt follows
            while True:
                time.sleep(0.01)
    try:
        {call}
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        raise
    """
    with program(broker, code) as process:
        broker.wait_for_requests(api, 3 if api == "Produce" and step is not scripted.no_response else 1)
        with within(8):
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
    assert out == "interrupted\n"
    assert process.returncode == -signal.SIGINT, err
    assert "KeyboardInterrupt" in err
    assert "Exception ignored" not in err
    assert "never retrieved" not in err


ENDLESS = """
import duckdb
from kafwire.consumer.delivery._arrow_stream import stream_threads
consumer = kafwire.Consumer(bootstrap, topics='t', start='earliest')
endless = consumer.arrow_stream()
def when_it_waits(function, *arguments):
    while not stream_threads() or consumer.position(kafwire.TopicPartition('t', 0)) < 400:
        time.sleep(0.01)
    function(*arguments)
"""


def test_ctrl_c_ends_a_query_of_duckdb_over_an_endless_stream(broker: ScriptedBroker) -> None:
    """DuckDB raises an error of its own where its main thread, and not the stream, took the signal."""
    code = """
    threading.Thread(target=when_it_waits, args=(os.kill, os.getpid(), signal.SIGINT)).start()
    try:
        duckdb.sql("select count(*) from endless").fetchall()
    except (KeyboardInterrupt, RuntimeError) as error:
        print(type(error).__name__, error)
    consumer.close()
    """
    with within(15):
        status, out, err = programs.run(BEGIN + ENDLESS, code, broker.bootstrap)
    assert (status, err) == (0, "")
    assert out in {"KeyboardInterrupt \n", "RuntimeError Query interrupted\n"}


def test_the_consumers_end_ends_a_query_of_duckdb(broker: ScriptedBroker) -> None:
    code = """
    threading.Thread(target=when_it_waits, args=(consumer.stop,)).start()
    print(duckdb.sql("select count(*) from endless").fetchall())
    consumer.close()
    """
    with within(15):
        assert programs.run(BEGIN + ENDLESS, code, broker.bootstrap) == (0, "[(400,)]\n", "")


def test_after_ctrl_c_the_client_goes_on(broker: ScriptedBroker) -> None:
    code = """
    producer = kafwire.Producer(bootstrap, linger_ms=0)
    delivery = producer.send('out', b'first')
    try:
        delivery.result()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print(delivery.result(20).offset, producer.send('out', b'second').result(20).offset)
    producer.close()
    """
    gate = threading.Event()
    broker.script("Produce", scripted.after(gate))
    with program(broker, code) as process:
        broker.wait_for_requests("Produce")
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert process.stdout.readline() == "interrupted\n"
        gate.set()
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "0 1\n", "")
    assert broker.values("out") == [b"first", b"second"]


# -- fork

FORK = """
import pyarrow
def refused(call):
    try:
        call()
    except kafwire.KafkaError as error:
        assert "fork" in str(error), error
    else:
        raise AssertionError("not refused")

producer = kafwire.Producer(bootstrap, linger_ms=0)
client = kafwire.Client(bootstrap)
client.topic("t")
awaited = kafwire.AsyncClient(bootstrap)
asyncio.run(awaited.topic("t"))
fresh = kafwire.scan(bootstrap, "t")
read = kafwire.scan(bootstrap, "t", fetch_max_bytes=1, fetch_memory=1)  # one batch ahead
batches = read.batches()
next(batches)
stream = kafwire.scan(bootstrap, "t", fetch_max_bytes=1, fetch_memory=1).to_reader()
stream.read_next_batch()
producer.send("out", b"before").result(20)
sys.stdout.flush()
child = os.fork()
if child == 0:
    {in_child}
else:
    for number in range(50):
        producer.send("out", b"%d" % number)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    producer.send("out", b"after").result(20)
    assert sum(len(batch) for batch in batches) == 300
    assert sum(len(batch) for batch in fresh.batches()) == 400
    assert len(stream.read_all()) == 300
    client.topic("t")
    client.close()
    asyncio.run(awaited.topic("t"))
    asyncio.run(awaited.close())
    producer.close()
"""

REFUSED = """
refused(lambda: producer.send("out", b"x"))
refused(lambda: producer.send("t", b"x"))
refused(lambda: producer.send_batch("out", pyarrow.table({"value": [b"x"]})))
refused(producer.flush)
refused(client.metadata)
refused(lambda: client.topic("t"))
refused(lambda: asyncio.run(awaited.metadata()))
refused(lambda: list(fresh.batches()))
refused(fresh.to_reader)
refused(lambda: list(batches))
try:
    stream.read_all()
except OSError as error:
    assert "fork" in str(error)
else:
    raise AssertionError("not refused")
"""
CLOSED = """
producer.close()
client.close()
asyncio.run(awaited.close())
fresh.close()
read.close()
"""
DROPPED = """
import gc
del producer, client, awaited, fresh, read, batches, stream
gc.collect()
"""
REOPENED = """
with kafwire.Producer(bootstrap) as mine:
    mine.send("out", b"child").result(20)
assert sum(len(batch) for batch in kafwire.scan(bootstrap, "t").batches()) == 400
async def ask():
    async with kafwire.AsyncClient(bootstrap) as mine:
        await mine.topic("t")
asyncio.run(ask())
"""
IN_CHILD = {
    "refused": REFUSED,
    "closed": CLOSED,
    "dropped": DROPPED,
    "reopened": REOPENED,
    "all": REFUSED + CLOSED + REOPENED + DROPPED,
    "nothing": "pass",
}


@pytest.mark.parametrize("end", ["sys.exit(0)", "os._exit(0)"])
@pytest.mark.parametrize("in_child", seeds.sampled(IN_CHILD.values(), IN_CHILD["all"], "pass"), ids=IN_CHILD)
def test_a_fork_harms_neither_parent_nor_child(broker: ScriptedBroker, in_child: str, end: str) -> None:
    code = FORK.replace("{in_child}", textwrap.indent(in_child.strip() + f"\n{end}", "    ").strip())
    with within(60):
        assert run(broker, code) == (0, "", "")
    expected = [b"before", *(b"%d" % number for number in range(50)), b"after"]
    assert [value for value in broker.values("out") if value != b"child"] == expected
    assert broker.values("out").count(b"child") == (in_child.count("child") > 0)


def test_clients_in_processes_made_by_multiprocessing(broker: ScriptedBroker) -> None:
    code = """
    import multiprocessing
    def work(number):
        with kafwire.Producer(bootstrap) as mine:
            mine.send("out", b"%d" % number).result(20)
        return sum(len(batch) for batch in kafwire.scan(bootstrap, "t").batches())
    client = kafwire.Client(bootstrap)
    client.topic("t")
    with multiprocessing.get_context("fork").Pool(3) as pool:
        assert pool.map(work, range(6)) == [400] * 6
    client.topic("t")
    """
    with within(25):
        assert run(broker, code) == (0, "", "")
    assert sorted(value for value in broker.values("out") if value) == [b"%d" % number for number in range(6)]
