"""The examples of docs/reference/cli.md: output without a cluster is that of the page, and tables have its columns."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import kafwire
from kafwire.admin import ScramUpsertion
from kafwire.cli import main
from kafwire.testing import EmbeddedKafka

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "cli.md").read_text()
# Command and output of each example.
EXAMPLES = re.findall(r"^\$ kafwire (.*)\n((?:(?!\$ |```).*\n)*)", PAGE, re.MULTILINE)
LOCAL = [
    (words, output)
    for words, output in EXAMPLES
    if re.match(r"--help|messages|decode (?!.*(\.log|\.bin|\.txnindex|--pretty))", words)
]
# A prompt stands before the table of `users set`; the others need a state of their own, or print no table.
OTHERS = re.compile(
    r"(transactions (hanging|abort)|topics (create|delete)|users set|spark|doctor|info|consume|produce)\b|"
    r".*(-J|\.log|\.bin|\.txn)"
)
TABLES = {
    words: output.splitlines()[0].split()
    for words, output in EXAMPLES
    if (words, output) not in LOCAL and output and not OTHERS.match(words)
}


@pytest.mark.parametrize(("words", "output"), LOCAL, ids=[words for words, _ in LOCAL])
def test_output_without_a_cluster(words: str, output: str) -> None:
    command, _, head = words.partition(" | head -")
    result = CliRunner().invoke(main, shlex.split(command), prog_name="kafwire")
    shown = result.output.splitlines()[: int(head) if head else None]
    assert " ".join(shown).split() == output.split()  # a terminal is wider or narrower


def test_info_counts_the_protocol() -> None:
    (shown,) = (output for words, output in EXAMPLES if words.startswith("info"))
    counts = json.loads(CliRunner().invoke(main, ["info", "--json"]).stdout)["protocol"]
    assert re.findall(r"(\w+) +(\d+)$", shown.partition("protocol:")[2], re.MULTILINE) == [
        (name, str(count)) for name, count in counts.items()
    ]


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    """A broker with the topic, the group and the open transaction that the page shows."""
    with EmbeddedKafka(acls=(), configs={"super.users": "User:ANONYMOUS"}) as running:
        with kafwire.Client(running.bootstrap) as client:
            client.create_topic("orders", partitions=6, config={"retention.ms": "60000"})
        with kafwire.Producer(running.bootstrap) as producer:
            for _ in range(18):
                producer.send("orders", b"v", partition=0)
        with kafwire.Admin(running.bootstrap) as admin:
            admin.alter_group_offsets("billing", {kafwire.TopicPartition("orders", 0): 5})
        with kafwire.Producer(running.bootstrap, transactional_id="billing", linger_ms=0) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("orders", b"v", partition=0).result(10)
            yield running
            producer.abort_transaction()


def test_tables_have_the_columns_of_the_page(kafka: EmbeddedKafka) -> None:
    with kafwire.Admin(kafka.bootstrap) as admin:
        admin.alter_user_scram_credentials([ScramUpsertion("alice", "SCRAM-SHA-512", "secret")])
    shown = {words: header_of(kafka, words.replace("-b localhost:9092", "")) for words in TABLES}
    assert shown == TABLES
    hanging = [output.splitlines()[0].split() for words, output in EXAMPLES if re.match("transactions (h|a)", words)]
    assert hanging == [header_of(kafka, "transactions abort orders:0 --start-offset 18")] * 2


def header_of(kafka: EmbeddedKafka, words: str) -> list[str]:
    result = CliRunner().invoke(main, shlex.split(words), env={"KAFWIRE_BROKERS": kafka.bootstrap})
    assert result.exit_code == 0, (words, result.output)
    return result.stdout.splitlines()[0].split()
