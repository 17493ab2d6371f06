import random
from typing import Any

import pytest

from kafwire.broker.storage.file_log import FileLog, LogOptions
from kafwire.broker.storage.files import FilePool, RealFiles
from kafwire.testing.simulation.files import CrashError, SimulatedFiles
from tests.support.broker.file_logs import batch, contents

OPTIONS = LogOptions(segment_bytes=1_500, index_interval_bytes=150)


def open_log(files: Any, folder: Any, options: Any = OPTIONS, **how: Any) -> Any:
    return FileLog(FilePool(files, 8), str(folder), lambda: options, **how)


def write(folder: Any, batches: Any) -> Any:
    log = open_log(RealFiles(), folder, LogOptions(index_interval_bytes=150))
    for data, header in batches:
        log.append(data, [header])
    log.close()
    return folder / f"{0:020}.log"


def test_every_cut_of_a_tail_leaves_the_batches_before_it(tmp_path: Any) -> None:
    batches = [batch(offset, 1, 10) for offset in range(5)]
    path = write(tmp_path / "t-0", batches)
    whole = path.read_bytes()
    ends = [sum(len(data) for data, _ in batches[: i + 1]) for i in range(5)]
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        log = open_log(RealFiles(), path.parent, is_clean=False)
        kept = sum(end <= cut for end in ends)
        assert contents(log) == [data for data, _ in batches[:kept]]
        assert log.end_offset == kept
        assert path.stat().st_size == log.size == sum(len(data) for data, _ in batches[:kept])


def test_a_flipped_bit_anywhere_leaves_the_batches_before_it(tmp_path: Any) -> None:
    batches = [batch(offset, 1, 10) for offset in range(3)]
    path = write(tmp_path / "t-0", batches)
    whole = path.read_bytes()
    size = len(batches[0][0])
    for at in range(len(whole)):
        flipped = bytearray(whole)
        flipped[at] ^= 0x10
        path.write_bytes(flipped)
        found = contents(open_log(RealFiles(), path.parent, is_clean=False))
        position = at % size
        if 0 <= position < 8 or 12 <= position < 16:  # an offset and a leader epoch are not under the checksum
            continue
        assert found == [data for data, _ in batches[: at // size]], at


@pytest.mark.parametrize("damage", ["missing", "short", "garbage"])
def test_indexes_are_rebuilt(tmp_path: Any, damage: Any) -> None:
    batches = [batch(offset, 1, 100) for offset in range(60)]
    log = open_log(RealFiles(), tmp_path / "t-0")
    for data, header in batches:
        log.append(data, [header])
    log.close()
    for path in [*tmp_path.glob("t-0/*.index"), *tmp_path.glob("t-0/*.timeindex")]:
        before = path.read_bytes()
        if damage == "missing":
            path.unlink()
        elif damage == "short":
            path.write_bytes(before[:-3])
        else:
            path.write_bytes(before + b"\xff" * (8 if path.suffix == ".index" else 12))
    log = open_log(RealFiles(), tmp_path / "t-0")
    assert contents(log) == [data for data, _ in batches]
    assert all(log.available(offset, 60)[1] == sum(len(d) for d, _ in batches[offset:]) for offset in range(60))


def test_a_clean_log_opens_without_reading_records(tmp_path: Any) -> None:
    log = open_log(RealFiles(), tmp_path / "t-0", LogOptions())
    for offset in range(200):
        data, header = batch(offset, 1, 10_000)
        log.append(data, [header])
    log.close()
    read = []

    class Counting(RealFiles):
        def pread(self, descriptor: Any, size: Any, position: Any) -> Any:
            read.append(size)
            return super().pread(descriptor, size, position)

    assert open_log(Counting(), tmp_path / "t-0", LogOptions()).end_offset == 200
    assert sum(read) < 100_000


def run_until_crash(files: Any, folder: Any, rng: Any, options: Any = OPTIONS) -> Any:
    """Write until the machine is gone. Returns the flushed and acknowledged records, and all that were ever written."""
    written: dict[Any, Any] = {}
    flushed: dict[Any, Any] = {}
    try:
        log = open_log(files, folder, options)
        for _ in range(60):
            choice = rng.random()
            if choice < 0.85:
                data, header = batch(log.end_offset, rng.randint(1, 3), rng.randint(0, 200))
                written.setdefault(log.end_offset, []).append(data)
                log.append(data, [header])
                if rng.random() < 0.5:
                    log.flush()
                    flushed = {h.base_offset: as_written for h, as_written in pairs(log)}
            elif choice < 0.9:
                kept = [h for h in log.headers(log.start_offset, log.end_offset // 2) if rng.random() < 0.7]
                flushed = {o: d for o, d in flushed.items() if o >= log.end_offset // 2}
                log.replace(b"".join(bytes(log.read(h.base_offset, h.size)) for h in kept), kept, log.end_offset // 2)
            elif choice < 0.95:
                offset = rng.randint(log.start_offset, log.end_offset)
                flushed = {o: d for o, d in flushed.items() if o >= offset}
                log.delete_before(offset)
            else:
                offset = rng.randint(max(log.start_offset, log.end_offset - 4), log.end_offset)
                held = {h.base_offset for h in log.headers(log.start_offset) if h.next_offset <= offset}
                flushed = {o: d for o, d in flushed.items() if o in held}
                log.truncate(offset)
    except (CrashError, OSError):
        pass  # the broker ends with an error of the disk, too
    return flushed, written


def pairs(log: Any) -> Any:
    return zip(list(log.headers(log.start_offset)), contents(log), strict=True)


@pytest.mark.parametrize("seed", range(150))
def test_after_a_crash_all_that_was_flushed_is_there_and_nothing_that_was_never_written(seed: Any) -> None:
    rng = random.Random(seed)
    files = SimulatedFiles(seed, failure_rate=rng.choice([0, 0, 0.01]))
    files.mkdir("/data")
    files.crash_at = rng.randint(10, 400)
    flushed, written = run_until_crash(files, "/data/t-0", rng)
    files.failure_rate = 0
    files.crash()
    log = open_log(files, "/data/t-0", is_clean=False)
    found = {header.base_offset: data for header, data in pairs(log)}
    assert {offset: found.get(offset) for offset in flushed} == flushed
    assert all(data in written[offset] for offset, data in found.items())
    ends = [header.next_offset for header, _ in pairs(log)]
    assert ends == sorted(ends)
    data, header = batch(log.end_offset)
    log.append(data, [header])
    assert contents(log)[-1] == data


@pytest.mark.parametrize("seed", range(40))
def test_a_disk_that_lies_about_flushes_loses_records_but_none_of_the_last_segment_is_wrong(seed: Any) -> None:
    rng = random.Random(seed)
    files = SimulatedFiles(seed, lost_flush_rate=0.5)
    files.mkdir("/data")
    files.crash_at = rng.randint(10, 400)
    one_segment = LogOptions(index_interval_bytes=150)
    _, written = run_until_crash(files, "/data/t-0", rng, one_segment)
    files.crash()
    files.lost_flush_rate = 0
    log = open_log(files, "/data/t-0", one_segment, is_clean=False)
    for header, data in pairs(log):
        assert data in written[header.base_offset]
