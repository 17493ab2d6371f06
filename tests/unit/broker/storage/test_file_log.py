import random
import uuid
from pathlib import Path
from typing import Any

import pytest

from kafwire.broker.log.log import FileSpan, MemoryLog, find_timestamp, read_span
from kafwire.broker.storage.file_log import FileLog, LogOptions
from kafwire.broker.storage.files import FilePool, RealFiles
from kafwire.records import decode_batches
from kafwire.testing.simulation.files import SimulatedFiles
from tests.support.broker.file_logs import batch, contents

SMALL = LogOptions(segment_bytes=2_000, index_interval_bytes=200)
WHOLE = LogOptions(index_interval_bytes=200)


def make(folder: Any, options: Any = SMALL, most_open: Any = 4, **how: Any) -> Any:
    files = SimulatedFiles() if folder == "/log" else RealFiles()
    return FileLog(FilePool(files, most_open), str(folder), lambda: options, **how)


def put(log: Any, *sizes: Any, gap: Any = 0, timestamp: Any = 1_000) -> None:
    for count in sizes:
        data, header = batch(log.end_offset + gap, count, timestamp=timestamp)
        log.append(data, [header])


def as_bytes(records: Any) -> Any:
    return read_span(records) if isinstance(records, FileSpan) else bytes(records)


def assert_same(log: Any, model: Any, rng: Any) -> None:
    assert (log.start_offset, log.end_offset) == (model.start_offset, model.end_offset)
    assert contents(log) == contents(model)
    assert log.size >= model.size
    for _ in range(5):
        offset = rng.randint(model.start_offset, max(model.start_offset, model.end_offset))
        end = rng.randint(offset, model.end_offset + 1)
        assert log.available(offset, end) == model.available(offset, end)
        assert list(log.headers(offset, end)) == list(model.headers(offset, end))
        size = rng.randint(1, 3_000)
        assert as_bytes(log.read(offset, size)) == model.read(offset, size)


@pytest.mark.parametrize("seed", range(30))
def test_it_behaves_as_the_log_in_memory(tmp_path: Any, seed: Any) -> None:
    rng = random.Random(seed)
    folder = tmp_path / "topic-0"
    log, model = make(folder), MemoryLog()
    for _ in range(120):
        choice = rng.random()
        if choice < 0.7:
            gap = rng.choice([0, 0, 0, 3])
            data, headers, offset = b"", [], model.end_offset + gap
            for _ in range(rng.randint(1, 3)):
                more, header = batch(offset, rng.randint(1, 4), rng.randint(0, 300), timestamp=rng.randint(0, 9_999))
                data, offset = data + more, header.next_offset
                headers.append(header)
            log.append(data, headers)
            model.append(data, headers)
        elif choice < 0.78 and model.end_offset > model.start_offset:
            offset = rng.randint(max(model.start_offset, model.end_offset - 20), model.end_offset)
            log.truncate(offset)
            model.truncate(offset)
        elif choice < 0.86:
            offset = rng.randint(model.start_offset, model.end_offset)
            log.delete_before(offset)
            model.delete_before(offset)
        elif choice < 0.92:
            end = rng.choice([header.base_offset for header in model.headers(model.start_offset)] or [model.end_offset])
            kept = [h for h in model.headers(model.start_offset, end) if rng.random() < 0.5]
            data = b"".join(model.read(h.base_offset, h.size) for h in kept)
            log.replace(data, kept, end)
            model.replace(data, kept, end)
        else:
            start, end = log.start_offset, log.end_offset
            is_clean = rng.random() < 0.5
            if is_clean:
                log.close()
            log = make(folder, is_clean=is_clean, start_offset=start)
            assert log.cut_off == 0
            # A gap at the end is known only while the log is open, as with Kafka.
            assert log.end_offset <= end
            model.end_offset = log.end_offset
        assert_same(log, model, rng)
    assert find_timestamp(log, 5_000, log.end_offset) == find_timestamp(model, 5_000, model.end_offset)


@pytest.mark.parametrize("seed", range(5))
def test_index_entries_are_those_of_the_log_in_memory(tmp_path: Any, seed: Any) -> None:
    rng = random.Random(seed)
    options = LogOptions()  # the model has Kafka's default interval
    log, model = make(tmp_path / "t-0", options), MemoryLog()
    for _ in range(100):
        data, header = batch(log.end_offset, rng.randint(1, 5), rng.randint(0, 1_000))
        log.append(data, [header])
        model.append(data, [header])
    ends = [header.next_offset for header in model.headers(0)]
    assert [log.index_offset(end) for end in ends] == [model.index_offset(end) for end in ends]
    assert len({log.index_offset(end) for end in ends}) > 10


def test_segments_are_named_and_rolled_as_kafka_does(tmp_path: Any) -> None:
    log = make(tmp_path / "t-0", LogOptions(segment_bytes=300), topic_id=uuid.UUID(int=7))
    put(log, 3, 3, 3, 3)
    names = sorted(each.name for each in tmp_path.glob("t-0/*"))
    bases = [f"{segment.base_offset:020}" for segment in log.segments]
    assert len(bases) > 1
    assert {f"{base}{suffix}" for base in bases for suffix in (".log", ".index", ".timeindex")} < set(names)
    assert (tmp_path / "t-0/partition.metadata").read_text() == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABw\n"
    assert (tmp_path / "t-0/leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


def test_a_segment_is_rolled_when_its_time_is_up(tmp_path: Any) -> None:
    log = make(tmp_path / "t-0", LogOptions(segment_ms=1_000))
    put(log, 1, timestamp=5_000)
    put(log, 1, timestamp=5_900)
    assert len(log.segments) == 1
    put(log, 1, timestamp=6_001)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_span_keeps_its_contents_after_a_truncation(tmp_path: Any) -> None:
    log = make(tmp_path / "t-0", WHOLE)
    put(log, *[1] * 10)
    before = contents(log)
    span = log.read(0, log.size)
    assert isinstance(span, FileSpan)
    log.truncate(5)
    data, header = batch(5, 1, 700)
    log.append(data, [header])
    assert read_span(span) == b"".join(before)
    assert contents(log) == [*before[:5], data]
    del span
    log.truncate(5)
    assert contents(make(tmp_path / "t-0", WHOLE, is_clean=False)) == before[:5]


def test_a_span_can_be_read_when_the_log_is_deleted_and_files_are_many(tmp_path: Any) -> None:
    log = make(tmp_path / "t-0", most_open=1)
    put(log, *[1] * 100)
    spans = [(log.read(segment.base_offset, segment.size), segment.size) for segment in log.segments]
    log.delete()
    assert not list(tmp_path.iterdir())
    offsets = [b.base_offset for span, size in spans for b in decode_batches(read_span(span))]
    assert offsets == list(range(100))


def test_a_deleted_log_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "topic-0"
    log = make(folder)
    put(log, 3)
    log.delete()
    log.close()
    assert not folder.exists()


def test_unused_descriptors_are_closed(tmp_path: Any) -> None:
    def count() -> Any:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = count()
    pool = FilePool(RealFiles(), 8)
    logs = [FileLog(pool, str(tmp_path / f"t-{i}"), lambda: SMALL) for i in range(50)]
    for log in logs:
        put(log, 1, 1)
    assert count() <= before + 8
    spans = [log.read(0, log.size) for log in logs]
    assert count() >= before + 42
    del spans
    assert count() <= before + 8


def test_a_full_disk_leaves_the_log_as_it_was() -> None:
    files = SimulatedFiles(capacity=3_000)
    log = FileLog(FilePool(files), "/log", lambda: LogOptions(index_interval_bytes=100))
    put(log, *[1] * 10)
    before = contents(log)
    with pytest.raises(OSError, match="No space"):
        put(log, *[1] * 100)
    kept = contents(log)
    assert kept[:10] == before
    log.truncate(5)
    put(log, 1)
    assert contents(log)[:5] == before[:5]


def test_a_log_whose_flush_has_failed_takes_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    files = SimulatedFiles()
    log = FileLog(FilePool(files), "/log", lambda: LogOptions(flush_messages=1))
    put(log, 1)
    monkeypatch.setattr(files, "fsync", fail)
    with pytest.raises(OSError, match="Input"):
        put(log, 1)
    with pytest.raises(OSError, match="could not be flushed before"):
        put(log, 1)


def fail(*_: Any) -> None:
    raise OSError(5, "Input/output error")
