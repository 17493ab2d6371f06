"""Histories of producers and observers, and a checker: no record lost, duplicated, out of order, no transaction torn.

    with History("run.history") as history:             # a file that survives a SIGKILL; opened again, it is resumed
        writer = history.producer(1, "kafwire")
        for sequence, value in writer.invoke([7, 8]):   # keys; a value names its producer and sequence
            meta = producer.send("flights", value, key=b"...").result()
            writer.ok(sequence, meta.topic, meta.partition, meta.offset)
        observe(history, "localhost:9092", ["flights"])
        observe(history, "localhost:9092", ["flights"], client="confluent-kafka")
    report = check("run.history")
    assert report.ok, str(report)

    tokens            the content of values: producer, key, sequence, transaction, checksum of the other fields
    entries, log      the entries of a history file, and the append-only file
    record            `History`, `Writer` and `View`: events, written as they happen
    observe           topics and a group's offsets read back with kafwire or confluent-kafka
    index, columns    the state after one pass over the file; a partition's log by windows of offsets
    check, report     the judgement and its report
    explain           the operations behind a finding

docs/operate/reliability.md describes the judgement. All of this needs only kafwire itself; `observe` with
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
