"""The programs of docs/guide/programs.md do what they promise, and lose nothing when SIGTERM ends them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import kafwire
from kafwire.testing import EmbeddedKafka
from tests.support.deadlines import until
from tests.support.doc_blocks import ROOT, blocks
from tests.support.doc_servers import running, values

QUICK = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 1000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,
}
# The test of each program of the page: a file of this folder, and the function.
TESTS = {
    "web-services": ("services", "fastapi_stores_counts_and_flushes_at_sigterm"),
    "streams#guarantees": ("programs", "an_exactly_once_worker_is_killed_and_another_terminated"),
    "streams": ("programs", "a_pipeline_writes_bills_and_dead_letters"),
    "parquet-duckdb": ("guide", "an_export_to_parquet_repeats_nothing"),
    "latest-value": ("programs", "a_dict_follows_a_compacted_topic"),
    "unit-tests": ("", "block_runs"),
    "exactly-once": ("guide", "each_order_has_one_bill_though_a_member_is_killed"),
    "porting/confluent-kafka": ("porting", "both_forms_of_a_program_leave_the_same"),
    "porting/aiokafka": ("porting", "both_forms_of_a_program_leave_the_same"),
    "porting/kafka-python": ("porting", "both_forms_of_a_program_leave_the_same"),
    "processes": ("services", "gunicorn_preloads_and_its_workers_flush_at_sigterm"),
    "notebooks": ("notebook", "the_cells_of_the_page_and_the_end_of_their_kernel"),
}


def order(number: int) -> bytes:
    return json.dumps({"books": number}).encode()


@pytest.mark.kafka(configs=QUICK)
def test_a_pipeline_writes_bills_and_dead_letters(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    for topic in ("orders", "bills", "orders.dead"):
        kafka.create_topic(topic)
    kafka.append("orders", [*map(order, range(20)), b"no JSON", *map(order, range(20, 30))])
    with running("streams", "python billing.py", tmp_path, kafka) as program:
        until(lambda: len(kafka.records("orders.dead")) == 1 and len(kafka.records("bills")) == 30)
        with kafka.hold("Produce") as held:  # bills that are not stored yet when the program is to end
            kafka.append("orders", map(order, range(30, 40)))
            until(lambda: held.times)
            program.terminate()
        assert program.ended() == 0, program.said
    assert sorted(values(kafka, "bills")) == sorted(b"%d USD" % (20 * number) for number in range(40))
    (letter,) = kafka.records("orders.dead")
    assert (letter.value, dict(letter.headers)["kafwire.origin.offset"]) == (b"no JSON", b"20")
    assert kafka.committed("billing") == {("orders", 0): 41}


@pytest.mark.kafka(configs=QUICK)
def test_an_exactly_once_worker_is_killed_and_another_terminated(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    for topic in ("orders", "bills"):
        kafka.create_topic(topic)
    bills: list[bytes | None] = [b"bill of %d" % number for number in range(40)]

    def committed() -> list[bytes | None]:
        return [record.value for record in kafka.records("bills", committed=True)]

    kafka.append("orders", [b"%d" % number for number in range(20)])
    with running("streams", "python billing_exactly.py", tmp_path, kafka) as program, kafka.hold("EndTxn"):
        until(lambda: len(kafka.records("bills")) == 20)  # and the transaction is open when it is killed
        program.kill()
        assert committed() == []
    with running("streams", "python billing_exactly.py", tmp_path, kafka) as program:
        until(lambda: committed() == bills[:20])
        kafka.append("orders", [b"%d" % number for number in range(20, 40)])
        until(lambda: len(kafka.records("bills")) > 40)
        program.terminate()
        assert program.ended() == 0, program.said
    assert committed() == bills
    assert kafka.committed("billing-exactly") == {("orders", 0): 40}


def test_a_dict_follows_a_compacted_topic(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    kafka.create_topic("prices", cleanup_policy="compact")
    rows = [(b"lamp", b"20"), (b"lamp", b"25"), (b"chair", b"90"), (b"sofa", b"400"), (b"sofa", None)]
    kafka.append("prices", [{"key": key, "value": value} for key, value in rows])
    with running("latest-value", "python prices.py", tmp_path, kafka) as program:
        until(lambda: "the table:" in program.said)
        with kafwire.Producer(kafka.bootstrap) as producer:
            producer.send("prices", b"30", key=b"lamp")
            producer.send("prices", None, key=b"chair")
        until(lambda: program.said.count("changed:") == 2)
        program.terminate()
        assert program.ended() == 0, program.said
    assert program.said.splitlines() == [
        "the table: {b'lamp': b'25', b'chair': b'90'}",
        "changed: b'lamp' b'30'",
        "changed: b'chair' None",
        "at the end: {b'lamp': b'30'}",
    ]


def test_ten_programs_are_listed_and_each_has_a_test() -> None:
    listed = re.findall(r"^\| .*\]\(.*$", (ROOT / "docs/guide/programs.md").read_text(), re.MULTILINE)
    assert len(listed) == 10
    links = re.findall(r"\(([\w/-]+)\.md(#[\w-]+)?\)", "\n".join(listed))
    assert ["streams#guarantees" if anchor == "#guarantees" else page for page, anchor in links] == list(TESTS)
    with_blocks = {block.document for block in blocks("python")}
    for page, (file, function) in TESTS.items():
        assert Path(page.partition("#")[0]).name in with_blocks
        tests = Path(__file__).with_name(f"test_docs_{file}.py" if file else "test_docs.py").read_text()
        assert re.search(rf"^def test_{function}\(", tests, re.MULTILINE), f"{page}: {function}"
