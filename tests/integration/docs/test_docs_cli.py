"""The command line's examples run as they stand, and print what the documents say.

`bash` runs the commands of a block in a folder of its own, on a broker with the data of the examples. Parts that differ
from run to run are compared loosely: any number for a number, any id for an id, and `...` for anything.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kafwire
from kafwire.protocol import MetadataResponse
from kafwire.records import encode_batch
from tests.support.doc_blocks import ADDRESS, ROOT, Block, blocks

PLAIN = {str(block): block for block in blocks("") if block.document in {"README", "cli"}}
# Blocks that are only parsed, by how they begin, and why.
PARSED = {
    'pip install ".[arrow]"': "tests/integration/docs/test_first_hour.py installs the built package",
    "kafwire broker\n": "it runs until Ctrl-C: tests/unit/cli/test_broker.py",
    "make demo": "it is what runs these tests",
    "$ kafwire consume __consumer_offsets": "records of other tests: tests/unit/cli/test_consume_choice.py",
    "$ kafwire topics create orders": "three brokers, and a question",
    "$ kafwire doctor localhost:9092": "a badly configured broker: tests/integration/cli/test_doctor_on_broker.py",
    "$ kafwire acls add": "a broker with an authorizer: tests/unit/cli/test_security_commands.py",
    "$ kafwire users set": "a password from the terminal: tests/unit/cli/test_security_commands.py",
    "$ kafwire transactions list": "an open transaction: tests/unit/cli/test_commands.py",
    "$ kafwire decode --connection client.bin server.bin | jq": "jq",
    "socat ": "socat, which waits for clients",
    "tshark ": "tshark and xxd",
    "$ kafwire decode --records 00000000000000000000.log": "jq",
    "$ kafwire decode --records __cluster_metadata-0/": "jq",
    "$ kafwire decode cut.log | jq": "jq",
    "$ kafwire decode 00000000000000000000.txnindex": "an aborted transaction: tests/integration/cli/test_cli_dump.py",
}

OTHERS = re.compile(r"(a|b|pictures|__consumer_offsets) +\d")  # topics of other blocks, in a list of all


def commands(block: Block) -> list[tuple[str, list[str]]]:
    """Each command of a block, and the lines that it prints."""
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def pattern(line: str) -> str:
    """The pattern of a line in another run."""
    made = re.escape(line).replace(r"\.\.\.", "...").replace("...", "\0")
    made = re.sub(r"(?<![\w/])(?:\w|\\-){22}$", "\1", made)
    made = re.sub(r"\d+", r"-?\\d+", made.replace(r"sse4\.2", "\2"))
    return re.sub(r"(\\ )+", " +", made).replace("\0", ".*").replace("\1", r"[\w-]{22}").replace("\2", r"\S+")


def parsed(block: Block) -> bool:
    return block.text.startswith(tuple(PARSED))


@pytest.fixture(scope="module")
def prepared(address: str) -> str:
    """The broker, with the topics of the examples."""
    with kafwire.Client(address) as client:
        for topic in ("orders", "a"):
            client.create_topic(topic, partitions=1)
    with kafwire.Producer(address) as producer:
        producer.send("orders", b'{"amount": 12}', key=b"alice", headers=[("trace", b"7f")])
        producer.send("orders", b'{"amount": 7}', key=b"bob")
        for amount in range(15):
            producer.send("orders", b'{"amount": %d}' % amount, key=b"dave")
        producer.send("orders", b'{"amount": 3}', key=b"carol")
        producer.send("a", b"value", key=b"key")
    where = kafwire.TopicPartition("orders", 0)
    with kafwire.Consumer(address, assign=[where], group_id="billing") as consumer:
        consumer.commit({where: 5})
    return address


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with this tree's `kafwire` and the files that the examples name."""
    command = tmp_path / "bin" / "kafwire"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m kafwire "$@"\n')
    command.chmod(0o755)
    (tmp_path / "monday.jsonl").write_text('{"amount": 1}\n' * 6)
    (tmp_path / "tuesday.jsonl").write_text('{"amount": 2}\n')
    (tmp_path / "front.jpg").write_bytes(b"\xff\xd8\xff")
    (tmp_path / "response.bin").write_bytes(b"\0\0\0\7" + b"\0" + MetadataResponse().encode(12))
    batch = encode_batch(
        [
            kafwire.Record(b'{"amount": 12}', b"alice", timestamp_ms=1),
            kafwire.Record(b"\xff\x00", b"bob", timestamp_ms=2),
        ],
        compression="lz4",
    )
    (tmp_path / "00000000000000000000.log").write_bytes(batch)
    return tmp_path


@pytest.mark.parametrize("block", [block for block in PLAIN.values() if not parsed(block)], ids=str)
def test_block_runs(block: Block, prepared: str, folder: Path) -> None:
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KAFWIRE_BROKERS": prepared, "LC_ALL": "C.UTF-8"}
    if "MESSAGE_TOO_LARGE" in block.text:
        with (folder / "monday.jsonl").open("a") as file:
            file.write("x" * (2 << 20) + "\n")
    for command, lines in commands(block):
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command.replace(ADDRESS, prepared)],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
            check=False,
        )
        where = f"{block.document}.md, after line {block.line}: {command}"
        shown = [line for line in done.stdout.splitlines() if "still connecting" not in line and not OTHERS.match(line)]
        if lines:
            wanted = "\n".join(map(pattern, lines))
            assert re.fullmatch(wanted, "\n".join(shown)), f"{where}\n{done.stdout}"
        else:
            assert done.returncode == 0, f"{where}\n{done.stdout}"


@pytest.mark.parametrize("block", PLAIN.values(), ids=str)
def test_block_is_parsed(block: Block) -> None:
    script = "\n".join(command for command, _ in commands(block)) if block.text.startswith("$ ") else block.text
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_programs_that_are_only_parsed_exist() -> None:
    for beginning in PARSED:
        assert sum(block.text.startswith(beginning) for block in PLAIN.values()) == 1, beginning
