"""Apache Kafka 3.9.1 with ZooKeeper, the last version that has it: two brokers, of which one is the controller."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kafwire.broker.ports import free_ports
from kafwire.testing.cluster.kafka import OLDEST_VERSION, java, resolve

END_S = 20


@contextmanager
def zookeeper_kafka(folder: Path) -> Iterator[tuple[str, str]]:
    """The addresses of both brokers, which may still be starting; `folder` gets data and logs."""
    jars = f"{resolve(OLDEST_VERSION)}/*"
    with free_ports(3) as found:
        keeper, *brokers = found
    properties = {
        "zookeeper": {
            "dataDir": str(folder / "zookeeper"),
            "clientPort": str(keeper),
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
        }
    }
    for number, port in enumerate(brokers, 1):
        properties[f"broker-{number}"] = {
            "broker.id": str(number),
            "zookeeper.connect": f"127.0.0.1:{keeper}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": str(folder / f"data-{number}"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
        }
    with ExitStack() as processes:
        for name, options in properties.items():
            path = folder / f"{name}.properties"
            path.write_text("".join(f"{key}={value}\n" for key, value in options.items()))
            is_broker = name != "zookeeper"
            program = "kafka.Kafka" if is_broker else "org.apache.zookeeper.server.quorum.QuorumPeerMain"
            command = [java(), f"-Xmx{256 if is_broker else 128}m", "-cp", jars, program, str(path)]
            log = processes.enter_context((folder / f"{name}.log").open("wb"))
            process = subprocess.Popen(command, stdout=log, stderr=log)
            processes.callback(_end, process)
        first, second = (f"127.0.0.1:{port}" for port in brokers)
        yield first, second


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(END_S)
