"""The formatted data folder of a node: made by Kafka's storage tool once for each version and options, then copied."""

import base64
import shutil
import tempfile
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kafwire.testing.cluster.kafka import kept
from kafwire.testing.cluster.launcher import Launcher
from kafwire.testing.cluster.node import ClusterError, KafkaNode


def format_nodes(nodes: Sequence[KafkaNode], launcher: Launcher, options: Sequence[str], timeout: float) -> None:
    """Format all nodes of a new cluster; `options` are the storage tool's, `timeout` is in seconds."""
    first = nodes[0]
    template = kept(launcher.version, "formatted", *options)
    if not template.exists():
        _run_storage_tool(first, launcher, options, timeout)
        with tempfile.TemporaryDirectory(dir=template.parent, prefix="formatting-") as scratch:
            made = shutil.copytree(first.data, Path(scratch) / "data")
            with suppress(OSError):  # another process was first
                made.rename(template)
        shutil.rmtree(first.data)
    cluster_id = _kafka_uuid()
    for node in nodes:
        shutil.copytree(template, node.data)
        properties = node.data / "meta.properties"
        lines = [line.split("=", 1) for line in properties.read_text().splitlines() if "=" in line]
        own = {"cluster.id": cluster_id, "node.id": str(node.id), "directory.id": _kafka_uuid()}
        properties.write_text("".join(f"{key}={value}\n" for key, value in (dict(lines) | own).items()))


def _run_storage_tool(node: KafkaNode, launcher: Launcher, options: Sequence[str], timeout: float) -> None:
    process = launcher.launch(
        "kafka.tools.StorageTool",
        "format",
        *("-t", _kafka_uuid()),
        *options,
        *("-c", str(node.configuration)),
        log_file=node.log_file,
        options=("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
    )
    process.wait(timeout)
    launcher.ended(process.pid)
    if process.returncode:
        raise ClusterError(node.explain("could not be formatted"))


def _kafka_uuid() -> str:
    """Return a random id in Kafka's form: 16 bytes in URL-safe base64, without a leading dash (it is an argument)."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
