"""Each command as a process: with a reader that has gone, on a secured cluster, with names that are not ASCII.

A new command fails here until it has a line in `CASES`, or a reason in `LEFT_OUT`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

import kafwire
from kafwire import TopicPartition
from kafwire.admin import AclBinding, QuotaEntity, ScramUpsertion
from kafwire.cli import main
from kafwire.protocol import MetadataRequest, encode_request
from kafwire.records import Record, encode_batch
from kafwire.testing import EmbeddedKafka, Security
from tests.support.complaints import complaints

COMMAND = [sys.executable, "-m", "kafwire"]
PASSWORD = "canary-7c1d"
GROUP = "größe"
KEY, VALUE = "schlüssel", "wärme 日本"
FRAME = encode_request(MetadataRequest(), 1, 7, "größer").hex()
SUPERUSERS = {"super.users": "User:ANONYMOUS;User:alice"}
LOG = "00000000000000000000.log"


class Case(NamedTuple):
    """A command: its words, its input, a part of its output; `connects` if it needs a cluster."""

    words: str
    shows: str
    given: str = ""
    connects: bool = True


CASES = [
    Case("acls list", GROUP),
    Case(f"acls add --resource Group:{GROUP} --principal User:bob --operation Read", GROUP),
    Case(f"acls remove --principal User:{GROUP} --execute", GROUP),
    Case("consume orders -e -K : --key KEY", f"{KEY}:{VALUE}"),
    Case("consume orders -e -J", f'"payload":"{VALUE}"'),
    Case("consume orders -e -G reader", VALUE),
    Case("copy orders --to größe", "/orders/0/00000000000000000000-00000000000000000001.parquet: 1 records"),
    Case("decode FRAME", "größer", connects=False),
    Case(f"decode --records {LOG}", VALUE, connects=False),
    Case("doctor SERVER", "a record"),
    Case("groups list", GROUP),
    Case("groups list -J", f'"group":"{GROUP}"'),
    Case("groups describe GROUP", GROUP),
    Case("groups members GROUP", "MEMBER"),
    Case("groups lag GROUP", GROUP),
    Case("cluster describe", "controller"),
    Case("cluster features", "metadata.version"),
    Case("cluster quorum -J", '"role":"leader"'),
    Case("cluster log-dirs", "online"),
    Case("groups lag GROUP -J", f'"group":"{GROUP}"'),
    Case("groups reset-offsets GROUP --to-latest --dry-run", GROUP),
    Case("groups delete GROUP --yes", f"deleted {GROUP}"),
    Case("info", "versions", connects=False),
    Case("letters list dead", "0 letter(s)"),
    Case("letters send dead", "sent no letters"),
    Case("messages OffsetCommitKey", "group: string", connects=False),
    Case("offsets orders --at earliest", "orders"),
    Case("offsets orders -J", '"topic":"orders"'),
    Case("produce -t orders -K :", "", given=f"{KEY}:{VALUE}\n"),
    Case("quotas list", GROUP),
    Case("quotas set --user GROUP producer_byte_rate=5000000", GROUP),
    Case("quotas remove --user GROUP --execute", GROUP),
    Case("reassign list", "ADDING"),
    Case("reassign move orders --to 1", "BEFORE"),
    Case("reassign cancel", "BEFORE"),
    Case("spark lag --group GROUP", "orders"),
    Case("topics", "orders"),
    Case("topics list", "orders"),
    Case("topics describe orders --offsets", "orders"),
    Case("topics list -J", '"topic":"orders"'),
    Case("topics create new", "created new"),
    Case("topics delete orders --yes", "deleted orders"),
    Case("users list", GROUP),
    Case("users set GROUP --password-file -", GROUP, given="secret\n"),
    Case("users remove GROUP --execute", GROUP),
    Case("transactions list", GROUP),
    Case("transactions describe GROUP", GROUP),
    Case("transactions hanging", "TOPIC"),
    Case("transactions abort open:0 --start-offset 0 --execute", "open"),
]
LEFT_OUT = {
    "broker": "it runs until a signal: tests/unit/cli/test_broker.py",
    "fuzz": "it harms the server: tests/unit/testing/fuzzer",
    "spark doctor": "it starts a Spark session: tests/unit/cli/test_spark_doctor.py",
    "spark recover": "it needs a checkpoint: tests/spark",
    "spark run": "it starts a Spark session: tests/unit/cli/test_spark_run.py",
}


def leaves(command: click.Command, words: str = "") -> Iterator[str]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from leaves(found, f"{words} {name}".strip())
    else:
        yield words


def test_every_command_is_tried() -> None:
    tried = [case.words for case in CASES]
    known = set(leaves(main))
    for name in known:
        assert any(words.startswith(name) for words in tried) != (name in LEFT_OUT), name
    assert set(LEFT_OUT) <= known
    assert {word for word in ("create", "delete", "describe", "list") if f"topics {word}" in " ".join(tried)} == {
        "create",
        "delete",
        "describe",
        "list",
    }


class Cluster(NamedTuple):
    """A cluster, and the options of its clients."""

    options: dict[str, str]


def filled(kafka: EmbeddedKafka, given: dict[str, str]) -> Cluster:
    for topic in ("orders", "dead", "open"):
        kafka.create_topic(topic, partitions=1)
    options: dict[str, Any] = {name.replace(".", "_"): value for name, value in given.items()}
    with kafwire.Producer(**options) as producer:
        producer.send("orders", VALUE.encode(), key=KEY.encode())
    with kafwire.Producer(**options, transactional_id=GROUP) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("open", b"v")
        producer.detach()
    with kafwire.Consumer(**options, assign=[TopicPartition("orders", 0)], group_id=GROUP) as consumer:
        consumer.commit({TopicPartition("orders", 0): 0})
    with kafwire.Admin(**options) as admin:
        admin.create_acls([AclBinding("Group", GROUP, f"User:{GROUP}", "Read")])
        admin.alter_client_quotas({QuotaEntity(user=GROUP): {"producer_byte_rate": 5_000_000}})
        admin.alter_user_scram_credentials([ScramUpsertion(GROUP, "SCRAM-SHA-256", "secret")])
    return Cluster(given)


@pytest.fixture
def plain() -> Iterator[Cluster]:
    with EmbeddedKafka(acls=(), configs=SUPERUSERS) as kafka:
        yield filled(kafka, {"bootstrap.servers": kafka.bootstrap})


@pytest.fixture
def secured() -> Iterator[Cluster]:
    security = Security("SASL_SSL", ["PLAIN"], users={"alice": PASSWORD})
    with EmbeddedKafka(security=security, plain=False, acls=(), configs=SUPERUSERS) as kafka:
        yield filled(kafka, kafka.client_options("alice", "PLAIN"))


def words_of(case: Case, cluster: Cluster, folder: Path, **changed: str) -> list[str]:
    (folder / LOG).write_bytes(encode_batch([Record(VALUE.encode(), KEY.encode())]))
    words = [{"GROUP": GROUP, "KEY": KEY, "FRAME": FRAME}.get(word, word) for word in case.words.split()]
    if not case.connects:
        return words
    options = {**cluster.options, **changed}
    server = options.pop("bootstrap.servers")
    file = folder / "größe.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in options.items()), encoding="utf-8")
    words = [server if word == "SERVER" else word for word in words]
    return [*words, "-F", str(file), *([] if "doctor" in words else ["-b", server])]


def run(
    words: Sequence[str],
    folder: Path,
    given: str,
    stdout: int = subprocess.PIPE,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *words],
        cwd=folder,
        input=given.encode(),
        stdout=stdout,
        stderr=subprocess.PIPE,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(Path(kafwire.__file__).parents[1]), **(environment or {})},
    )


@pytest.mark.parametrize("case", CASES, ids=[case.words for case in CASES])
def test_a_closed_reader_ends_the_command(case: Case, plain: Cluster, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ran = run(words_of(case, plain, tmp_path), tmp_path, case.given, stdout=writing)
    finally:
        os.close(writing)
    assert (ran.returncode, complaints(ran.stderr.decode())) == (141 if case.shows else 0, "")


@pytest.mark.parametrize("case", CASES, ids=[case.words for case in CASES])
def test_names_that_are_not_ascii_whatever_the_locale(case: Case, plain: Cluster, tmp_path: Path) -> None:
    bare = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ran = run(words_of(case, plain, tmp_path), tmp_path, case.given, environment=bare)
    assert (ran.returncode, complaints(ran.stderr.decode())) == (0, "")
    assert case.shows in ran.stdout.decode()


@pytest.mark.parametrize("case", [case for case in CASES if case.connects], ids=lambda case: case.words)
def test_a_secured_cluster(case: Case, secured: Cluster, tmp_path: Path) -> None:
    ran = run(words_of(case, secured, tmp_path), tmp_path, case.given)
    assert (ran.returncode, complaints(ran.stderr.decode())) == (0, "")
    assert case.shows in ran.stdout.decode()
    wrong = run(words_of(case, secured, tmp_path, **{"sasl.password": "wrong-9f2e"}), tmp_path, case.given)
    assert wrong.returncode == 1
    said = complaints(wrong.stderr.decode())
    assert "wrong-9f2e" not in said + wrong.stdout.decode()
    if "doctor" not in case.words:
        assert said.count("\n") <= 1
        assert "SASL_AUTHENTICATION_FAILED" in said or "refused" in said, said
