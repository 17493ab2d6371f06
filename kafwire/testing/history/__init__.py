"""Histories of producers and observers, and the checker that judges them: nothing lost, twice, out of order or torn.

    with History("run.history") as history:             # a file that survives a SIGKILL; opened again, it is resumed
        writer = history.producer(1, "kafwire")
        for sequence, value in writer.invoke([7, 8]):   # keys; what is sent says who sent it, and as which one
            meta = producer.send("flights", value, key=b"...").result()
            writer.ok(sequence, meta.topic, meta.partition, meta.offset)
        observe(history, "localhost:9092", ["flights"])
        observe(history, "localhost:9092", ["flights"], client="confluent-kafka")
    report = check("run.history")
    assert report.ok, str(report)

    tokens            what a value says: producer, key, sequence, transaction, and what its record was sent with
    entries, log      what a history file holds, and how it is appended to and read
    record            `History`, `Writer` and `View`: what happened, written down as it happens
    observe           topics and a group's offsets read back with kafwire or confluent-kafka
    index, columns    the file gone through once; a partition's log by windows of offsets
    check, report     the judgement, and what it says
    explain           which operations a finding is about

What is judged, and how, is in docs/reliability.md. Nothing here needs more than kafwire itself; `observe` with
`client="confluent-kafka"` needs that package.
"""

from kafwire.testing.history.check import check
from kafwire.testing.history.log import HistoryError
from kafwire.testing.history.observe import observe, observe_group
from kafwire.testing.history.record import History, View, Writer
from kafwire.testing.history.report import KINDS, Finding, Report
from kafwire.testing.history.tokens import Dress

__all__ = [
    "KINDS",
    "Dress",
    "Finding",
    "History",
    "HistoryError",
    "Report",
    "View",
    "Writer",
    "check",
    "observe",
    "observe_group",
]
