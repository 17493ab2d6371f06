"""A program that is killed: consume, transform, produce, as docs/guide/producing.md has it.

    python -m tests.support.stream.transform_program SERVERS NAME INPUT OUTPUT PARTITIONS EACH

Ends when all partitions of INPUT are processed up to where they ended at the start; EACH records to a transaction.
"""

from __future__ import annotations

import sys

import kafwire
from kafwire import TopicPartition
from kafwire.errors import TransactionAbortableError


def transform(servers: str, name: str, source: str, target: str, partitions: int, each: int) -> None:
    read = [TopicPartition(source, partition) for partition in range(partitions)]
    options = {"group_id": name, "isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with kafwire.Producer(servers, transactional_id=name, retry_backoff_ms=20) as producer:
        producer.init_transactions()
        with kafwire.Consumer(servers, assign=read, enable_auto_commit=False, **options) as consumer:  # type: ignore[arg-type]
            left = {where: end for where, end in consumer.end_offsets().items() if consumer.position(where) < end}
            while left:
                for batch in consumer.poll(1.0):
                    where = TopicPartition(batch.topic or "", batch.partition or 0)
                    records = list(batch)
                    for first in range(0, len(records), each):
                        chunk = records[first : first + each]
                        try:
                            with producer.transaction():
                                for record in chunk:
                                    number = int(record.value or b"")
                                    producer.send(target, b"%d" % -number, partition=number % 2)
                                    producer.send(target, b"%d" % -number, partition=2)
                                producer.send_offsets({where: chunk[-1].offset + 1}, consumer.group_metadata())
                        except TransactionAbortableError:
                            consumer.seek(where, chunk[0].offset)
                            break
                        print("committed", flush=True)
                    if consumer.position(where) >= left.get(where, 0):
                        left.pop(where, None)


if __name__ == "__main__":
    servers, name, source, target, partitions, each = sys.argv[1:]
    transform(servers, name, source, target, int(partitions), int(each))
