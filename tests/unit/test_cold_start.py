"""Cold start: which modules a process loads that reads or sends one record, and in which thread."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kafwire.testing import EmbeddedKafka

_ROOT = Path(__file__).parents[2]
_PROGRAM = """
import sys, threading
loaded = []
def note(event, arguments):
    if event == "exec" and "kafwire" in (name := arguments[0].co_filename):
        loaded.append((threading.current_thread().name, name))
sys.addaudithook(note)
before = set(sys.modules)
{body}
late = sorted({{name for thread, name in loaded if thread != "MainThread"}})
print(*sorted(set(sys.modules) - before))
print(*late)
"""
_READ = """
from kafwire import Consumer
with Consumer(sys.argv[1], topics="flights", start="earliest") as consumer:
    assert next(iter(consumer)).value == b"EWR-IAH"
"""
_SEND = """
from kafwire import Producer
with Producer(sys.argv[1]) as producer:
    producer.send("flights", b"EWR-IAH").result(timeout=30)
"""
_ASYNC_READ = """
import asyncio
from kafwire import AsyncConsumer
async def main():
    async with AsyncConsumer(sys.argv[1], topics="flights", start="earliest") as consumer:
        async for record in consumer:
            assert record.value == b"EWR-IAH"
            break
asyncio.run(main())
"""
_ASYNC_SEND = """
import asyncio
from kafwire import AsyncProducer
async def main():
    async with AsyncProducer(sys.argv[1]) as producer:
        await producer.send("flights", b"EWR-IAH")
asyncio.run(main())
"""
# Beginnings of names. Each belongs to clients that ask for it.
_FOREIGN = (
    *("kafwire.consumer.group.group_membership", "kafwire.consumer.group.assignors", "kafwire.consumer.group.classic"),
    *("kafwire.consumer.group.membership", "kafwire.consumer.group.subscription"),
    *("kafwire.consumer.share", "kafwire.consumer.group.topic_pattern", "kafwire.consumer.group.revocation"),
    *("kafwire.security.login", "kafwire.security.sasl", "kafwire.security.tls", "kafwire.security._tls"),
    *("kafwire.security.oauth", "kafwire.security.aws", "kafwire.security.key_material", "kafwire.config.jaas"),
    *("kafwire.config.names", "kafwire.config.option_docs", "kafwire.config.option_names", "kafwire.similar_names"),
    *("kafwire.config.typed_options", "kafwire.config.compression_levels"),
    *("kafwire.producer.transaction", "kafwire.calls.tokens", "kafwire.calls.client"),
    *("kafwire.scanner", "kafwire.stream", "kafwire.outbox", "kafwire.registry", "kafwire.avro", "kafwire.database"),
    *("kafwire.cli", "kafwire.broker", "kafwire.testing", "kafwire.spark"),
    *("pyarrow", "pyspark", "numpy", "click", "cryptography", "pickle"),
)
# The body of a program, what it does not load, and how many modules of kafwire it loads at most.
_TASKS = {
    "read": (
        _READ,
        (*_FOREIGN, "kafwire.config.producer", "kafwire.producer", "kafwire.records._encode", "kafwire.aio"),
        155,
    ),
    "send": (_SEND, (*_FOREIGN, "kafwire.config.consumer", "kafwire.consumer", "kafwire.aio"), 135),
    "async read": (
        _ASYNC_READ,
        (*_FOREIGN, "kafwire.config.producer", "kafwire.producer", "kafwire.records._encode", "kafwire.sync"),
        157,
    ),
    "async send": (_ASYNC_SEND, (*_FOREIGN, "kafwire.config.consumer", "kafwire.consumer", "kafwire.sync"), 137),
}


@pytest.fixture(scope="module")
def bootstrap() -> object:
    with EmbeddedKafka() as kafka:
        _run(_SEND, kafka.bootstrap)
        yield kafka.bootstrap


def _run(body: str, bootstrap: str) -> tuple[list[str], list[str]]:
    """The modules that a process loads, and the files of those that another thread than the user's loaded."""
    process = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(body=body), bootstrap],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    modules, late = process.stdout.splitlines()
    return modules.split(), late.split()


@pytest.mark.parametrize("task", _TASKS)
def test_a_process_loads_only_modules_that_its_one_record_needs(task: str, bootstrap: str) -> None:
    body, foreign, most = _TASKS[task]
    modules, late = _run(body, bootstrap)
    assert [name for name in modules if name.startswith(foreign)] == []
    own = [name for name in modules if name.split(".")[0] == "kafwire"]
    assert len(own) <= most, own
    # An import holds up all clients of the process where the engine makes it.
    assert late == []


def test_each_module_that_a_task_must_not_load_exists() -> None:
    names = {name for _, foreign, _ in _TASKS.values() for name in foreign if name.startswith("kafwire.")}
    assert [name for name in sorted(names) if not list(_ROOT.glob(f"{name.replace('.', '/')}*"))] == []
