"""Whole processes: a program of a few lines for each client, timed from its start to its end."""

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.rounds import ContenderError, Measured

TOPIC = "bench-first-record"
VALUE = b"EWR-IAH"
PROCESSES_PER_ROUND = 5
_TIMEOUT_SECONDS = 60

# By client and row, as their manuals write it, with the defaults of each: an idempotent producer of confluent-kafka
# waits half a second for its id. The arguments are the bootstrap servers and the topic.
PROGRAMS: Mapping[str, str] = {
    "floor": "import asyncio",
    "kafwire first-record": """
from kafwire import Consumer
with Consumer(sys.argv[1], topics=sys.argv[2], start="earliest") as consumer:
    for record in consumer:
        value = record.value
        break
""",
    "kafwire first-send": """
from kafwire import Producer
with Producer(sys.argv[1]) as producer:
    producer.send(sys.argv[2], b"EWR-IAH").result(timeout=30)
""",
    "kafwire command": """
from kafwire.cli import main
main(["topics", "-b", sys.argv[1]], standalone_mode=False)
""",
    "kafwire-async first-record": """
import asyncio
from kafwire import AsyncConsumer
async def main():
    async with AsyncConsumer(sys.argv[1], topics=sys.argv[2], start="earliest") as consumer:
        async for record in consumer:
            return record.value
value = asyncio.run(main())
""",
    "kafwire-async first-send": """
import asyncio
from kafwire import AsyncProducer
async def main():
    async with AsyncProducer(sys.argv[1]) as producer:
        await producer.send(sys.argv[2], b"EWR-IAH")
asyncio.run(main())
""",
    "confluent first-record": """
from confluent_kafka import Consumer, TopicPartition
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "benchmark", "enable.auto.commit": False})
consumer.assign([TopicPartition(sys.argv[2], 0, 0)])
while (message := consumer.poll(30)) is None or message.error():
    pass
value = message.value()
consumer.close()
""",
    "confluent first-send": """
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": sys.argv[1]})
producer.produce(sys.argv[2], b"EWR-IAH")
assert producer.flush(30) == 0
""",
    "confluent command": """
from confluent_kafka.admin import AdminClient
for topic in AdminClient({"bootstrap.servers": sys.argv[1]}).list_topics(timeout=30).topics.values():
    print(topic.topic, len(topic.partitions))
""",
    "aiokafka first-record": """
import asyncio
from aiokafka import AIOKafkaConsumer
async def main():
    async with AIOKafkaConsumer(sys.argv[2], bootstrap_servers=sys.argv[1], auto_offset_reset="earliest") as consumer:
        return (await consumer.getone()).value
value = asyncio.run(main())
""",
    "aiokafka first-send": """
import asyncio
from aiokafka import AIOKafkaProducer
async def main():
    async with AIOKafkaProducer(bootstrap_servers=sys.argv[1]) as producer:
        await producer.send_and_wait(sys.argv[2], b"EWR-IAH")
asyncio.run(main())
""",
    "aiokafka command": """
import asyncio
from aiokafka.admin import AIOKafkaAdminClient
async def main():
    admin = AIOKafkaAdminClient(bootstrap_servers=sys.argv[1])
    await admin.start()
    for topic in await admin.describe_topics():
        print(topic["topic"], len(topic["partitions"]))
    await admin.close()
asyncio.run(main())
""",
    "kafka-python first-record": """
from kafka import KafkaConsumer
consumer = KafkaConsumer(sys.argv[2], bootstrap_servers=sys.argv[1], auto_offset_reset="earliest")
value = next(consumer).value
consumer.close()
""",
    "kafka-python first-send": """
from kafka import KafkaProducer
producer = KafkaProducer(bootstrap_servers=sys.argv[1])
producer.send(sys.argv[2], b"EWR-IAH").get(30)
producer.close()
""",
    "kafka-python command": """
from kafka import KafkaAdminClient
admin = KafkaAdminClient(bootstrap_servers=sys.argv[1])
for topic in admin.describe_topics():
    print(topic["name"], len(topic["partitions"]))
admin.close()
""",
}
_CHECK = f"\nassert value == {VALUE!r}, value\n"


def time_processes(
    task: str, bootstrap: str, folder: Path, cache: Path, *, count: int = PROCESSES_PER_ROUND
) -> Measured:
    """Run a program several times: the median in ms, and the processor time of one process.

    The first process compiles its imports and does not count. Raises `ContenderError` when one fails.
    """
    code = "import sys\n" + PROGRAMS[task] + (_CHECK if task.endswith("first-record") else "")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(cache)
    took, cpu = [], []
    for _ in range(count + 1):
        before, start = _children_cpu(), time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", code, bootstrap, TOPIC],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_SECONDS,
        )
        took.append((time.perf_counter() - start) * 1000)
        cpu.append((_children_cpu() - before) * 1e6)
        if done.returncode:
            raise ContenderError((done.stderr.strip() or "no message").splitlines()[-1])
    return Measured(statistics.median(took[1:]), sum(took) / 1000, cpu=statistics.median(cpu[1:]))


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
