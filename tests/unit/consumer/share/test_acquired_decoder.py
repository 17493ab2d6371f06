"""`consumer.share.acquired_decoder`: acquired ranges to batches."""

from __future__ import annotations

from typing import Any

from kafwire.config import ShareConsumerConfig
from kafwire.consumer.share.acquired_decoder import AcquiredDecoder
from kafwire.memory._buffer import Buffer
from kafwire.records import encode_batch
from kafwire.records._arrow import Layout


def test_each_partition_has_one_layout_that_keeps_no_columns() -> None:
    """A share consumer may read very many partitions."""
    made: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def layout(*where: Any, **options: Any) -> Layout:
        made.append((where, options))
        return Layout(*where, **options)

    decoder = AcquiredDecoder(ShareConsumerConfig.build({"bootstrap_servers": "a:1", "group_id": "g"}), layout, None)
    data = Buffer(encode_batch([{"value": b"a"}, {"value": b"b"}]))
    for first, expected in ((0, [b"a", b"b"]), (1, [b"b"])):
        batch = decoder.decode("t", 3, data, first, 1)
        assert batch is not None
        assert [record.value for record in batch] == expected
    assert made == [((), {}), (("t", 3), {"transient": True})]
