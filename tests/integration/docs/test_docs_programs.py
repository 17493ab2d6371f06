"""The programs of docs/guide/programs.md do what they promise, and lose nothing when SIGTERM ends them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kafwire
from kafwire.testing import EmbeddedKafka
from tests.support.deadlines import until
from tests.support.doc_servers import running, values

QUICK = {"group.initial.rebalance.delay.ms": 0}


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
def test_an_exactly_once_worker_that_is_killed_and_one_that_is_terminated(kafka: EmbeddedKafka, tmp_path: Path) -> None:
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
