"""Log segments: batches and records of every magic, control records, damage, memory; and the reader underneath."""

import gzip
import json
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from kafwire.cli import main
from kafwire.errors import ProtocolError
from kafwire.protocol import MESSAGES
from kafwire.protocol.batch_json import control_json
from kafwire.protocol.log import LogBatch, LogReader, split_batches
from kafwire.protocol.spec import UUID
from kafwire.records import Record, decode_batches, encode_batch

MADE = json.loads(gzip.decompress((Path(__file__).parents[2] / "data" / "made.json.gz").read_bytes()))["vectors"]
LOGS = [vector for vector in MADE if vector["kind"] in {"record_batches", "message_set", "concatenation"}]
MALFORMED = [vector for vector in MADE if vector["kind"] == "malformed_records"]


def run(*arguments: object) -> tuple[int, list[Any], str]:
    result = CliRunner().invoke(main, ["decode", *map(str, arguments)], prog_name="kafwire")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()], result.stderr


def plain(records: Any) -> list[tuple[Any, ...]]:
    return [(record.offset, record.timestamp_ms, record.key, record.value) for record in records]


@pytest.mark.parametrize("vector", LOGS, ids=[vector["id"] for vector in LOGS])
def test_logs_of_other_clients(vector: dict[str, Any], tmp_path: Path) -> None:
    data = bytes.fromhex(vector["hex"])
    file = tmp_path / "00000000000000000000.log"
    file.write_bytes(data)
    code, batches, errors = run(file)
    expected = decode_batches(data)
    left = len(data) - sum(batch["size"] for batch in batches)
    assert (code, left > 0) == ((1, True) if "partial" in vector["id"] else (0, False))
    assert (f"the last {left} bytes" in errors) == (left > 0)
    assert [batch["count"] for batch in batches] == [len(batch) for batch in expected]
    assert [batch["lastOffset"] for batch in batches] == [batch.last_offset for batch in expected]
    _, records, _ = run("--records", "--bytes", "hex", file)
    assert [
        (
            record["offset"],
            record["timestamp"],
            *(None if record[name] is None else bytes.fromhex(record[name]) for name in ("key", "value")),
        )
        for record in records
    ] == plain(record for batch in expected for record in batch)


@pytest.mark.parametrize("vector", MALFORMED, ids=[vector["id"] for vector in MALFORMED])
def test_damaged_logs(vector: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "x.log"
    good = encode_batch([b"first"])
    file.write_bytes(good + bytes.fromhex(vector["hex"]))
    code, batches, errors = run(file)
    assert batches[0]["count"] == 1  # what came before is there
    outcome = vector["expect"]["outcome"]
    if outcome != "either":
        assert code == (0 if outcome == "ok" else 1)
    if code:
        assert errors.startswith(f"kafwire: {file}: ")
        assert "byte " in errors
        assert int(errors.rpartition("byte ")[2].split()[0]) >= len(good) or outcome == "partial"


def test_a_batch(tmp_path: Path) -> None:
    data = encode_batch(
        [Record(b"v", b"k", timestamp_ms=5)],
        compression="zstd",
        base_offset=40,
        producer_id=9,
        producer_epoch=2,
        base_sequence=7,
        transactional=True,
    )
    file = tmp_path / "x.log"
    file.write_bytes(data)
    code, (batch,), _ = run(file)
    assert code == 0
    assert batch == {
        "type": "batch",
        "position": 0,
        "size": len(data),
        "baseOffset": 40,
        "lastOffset": 40,
        "count": 1,
        "magic": 2,
        "crc": struct.unpack_from(">I", data, 17)[0],
        "attributes": 4 | 16,
        "compression": "zstd",
        "timestampType": "CreateTime",
        "baseTimestamp": 5,
        "maxTimestamp": 5,
        "deleteHorizonMs": None,
        "partitionLeaderEpoch": -1,
        "producerId": 9,
        "producerEpoch": 2,
        "baseSequence": 7,
        "isTransactional": True,
        "isControl": False,
    }


def control(number: int, value: bytes | None, version: int = 0) -> dict[str, Any]:
    return control_json(struct.pack(">hh", version, number), value)


def message(name: str, **fields: Any) -> Any:
    cls: Any = MESSAGES[name]
    return cls.from_dict(fields)


def test_control_records() -> None:
    assert control(0, b"\0\0\0\0\0\5") == {
        "version": 0,
        "type": "ABORT",
        "message": "EndTxnMarker",
        "body": {"coordinatorEpoch": 5},
    }
    assert control(1, b"\0\0\0\0\0\5")["type"] == "COMMIT"
    leader = message(
        "LeaderChangeMessage", version=1, leader_id=3, voters=[{"voter_id": 3, "voter_directory_id": UUID(int=1)}]
    )
    assert control(2, leader.encode(1))["body"]["voters"] == [
        {"voterId": 3, "voterDirectoryId": "AAAAAAAAAAAAAAAAAAAAAQ"}
    ]
    header = message("SnapshotHeaderRecord", last_contained_log_timestamp=77)
    assert control(3, header.encode(0))["body"] == {"version": 0, "lastContainedLogTimestamp": 77}
    assert control(4, message("SnapshotFooterRecord").encode(0))["type"] == "SNAPSHOT_FOOTER"
    assert control(5, message("KRaftVersionRecord", k_raft_version=1).encode(0))["body"]["kRaftVersion"] == 1
    assert control(6, message("VotersRecord").encode(0)) == {
        "version": 0,
        "type": "KRAFT_VOTERS",
        "message": "VotersRecord",
        "body": {"version": 0, "voters": []},
    }


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (None, b"", "the key of a control record has 4 bytes"),
        (b"\0\0\0", b"", "the key of a control record has 4 bytes"),
        (b"\0\0\0\0", None, "begins with 2 bytes of version"),
        (b"\0\0\0\0", b"\0\0\0", "EndTxnMarker version 0"),
        (b"\0\0\0\2", b"\0\7\0\0\0\0", "version 7 does not exist"),
    ],
)
def test_control_records_that_are_none(key: bytes | None, value: bytes | None, error: str) -> None:
    assert error in control_json(key, value)["error"]


def test_an_unknown_type_of_control_record_has_its_number() -> None:
    assert control(99, b"") == {"version": 0, "type": 99}


def test_a_mark_in_a_version_above_ours_is_read_as_our_highest() -> None:
    assert control(1, b"\0\7\0\0\0\5more")["body"] == {"coordinatorEpoch": 5}


def test_control_batches_show_their_records(tmp_path: Path) -> None:
    file = tmp_path / "x.log"
    file.write_bytes(encode_batch([(b"\0\0\0\1", b"\0\0\0\0\0\3")], transactional=True, control=True, producer_id=1))
    _, (batch,), _ = run(file)
    assert batch["isControl"]
    assert batch["records"][0]["control"]["type"] == "COMMIT"
    _, (record,), _ = run("--records", file)
    assert record["control"]["body"] == {"coordinatorEpoch": 3}


def test_the_end_of_a_file_that_is_being_written(tmp_path: Path) -> None:
    file = tmp_path / "x.log"
    one = encode_batch([b"a"])
    for size in (1, 11, 12, 60, len(one) - 1):
        file.write_bytes(one + one[:size])
        code, batches, errors = run(file)
        assert (code, len(batches)) == (1, 1)
        assert errors == (
            f"kafwire: {file}: the last {size} bytes, from byte {len(one)} on, are an incomplete batch: "
            "the file is truncated, or being written\n"
        )
    file.write_bytes(one + bytes(100))
    _, _, errors = run(file)
    assert f"allocated and not written, or lost in a crash, at byte {len(one)}\n" in errors
    file.write_bytes(b"")
    assert run(file) == (0, [], "")


def test_a_file_that_is_no_log(tmp_path: Path) -> None:
    file = tmp_path / "x.log"
    file.write_bytes(b"2026-11-21 12:00:00 INFO starting\n" * 10)
    code, batches, errors = run(file)
    assert (code, batches) == (1, [])
    assert "at byte 0\n" in errors


BATCHES = [encode_batch([b"x" * size] * 3, base_offset=3 * size, compression="lz4") for size in (0, 1, 50, 900)]


@given(st.lists(st.integers(0, 300), max_size=30))
def test_the_reader_takes_bytes_however_they_are_cut(sizes: list[int]) -> None:
    data = b"".join(BATCHES)
    log = LogReader()
    found: list[LogBatch] = []
    at = 0
    for size in [*sizes, len(data)]:
        log.feed(data[at : at + size])
        found += log.batches()
        at += size
    assert [entry.batch.base_offset for entry in found] == [0, 3, 150, 2700]
    assert [(entry.position, entry.size) for entry in found] == [
        (sum(map(len, BATCHES[:i])), len(BATCHES[i])) for i in range(4)
    ]
    assert log.leftover == 0
    split = list(split_batches(data))
    assert [entry.position for entry in split if isinstance(entry, LogBatch)] == [entry.position for entry in found]


@given(st.binary(max_size=200), st.integers(0, 400), st.integers(1, 64))
def test_any_bytes_are_batches_or_a_protocol_error(noise: bytes, at: int, chunk: int) -> None:
    data = bytearray(b"".join(BATCHES[:3]))
    data[at : at + len(noise)] = noise
    log = LogReader()
    for start in range(0, len(data), chunk):
        log.feed(data[start : start + chunk])
        try:
            list(log.batches())
        except ProtocolError as error:
            assert error.offset is not None
            assert log.position <= error.offset <= len(data)
            break
    try:
        list(split_batches(data))
    except ProtocolError as error:
        assert error.offset is not None


def test_a_batch_that_is_too_large_is_refused_before_it_is_read() -> None:
    log = LogReader(max_batch_bytes=1000)
    log.feed(BATCHES[0] + struct.pack(">qi", 0, 1001))
    with pytest.raises(ProtocolError, match="a batch of length 1001, the limit is 1000") as caught:
        list(log.batches())
    assert caught.value.offset == len(BATCHES[0])


def test_a_bomb_is_refused() -> None:
    data = encode_batch([bytes(1 << 20)] * 8, compression="zstd")
    assert len(data) < 1 << 14
    with pytest.raises(ProtocolError, match="decompresses to more than"):
        list(split_batches(data, max_decompressed=1 << 20))


def test_a_record_too_large_for_memory_does_not_hide_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x.log"
    large = encode_batch([bytes(40 << 20)], compression="zstd")
    file.write_bytes(encode_batch([b"a"]) + large + encode_batch([b"b"]))
    monkeypatch.setattr(
        "kafwire.protocol.log.LogReader.__init__.__kwdefaults__",
        {"max_batch_bytes": 1 << 20, "max_decompressed": 45 << 20},
    )
    code, records, errors = run("--records", file)
    assert code == 1
    assert [record.get("value") for record in records] == ["a", None, "b"]
    assert "takes 41943040 bytes" in records[1]["error"]
    assert f"the batch at byte {len(encode_batch([b'a']))}: record 0 takes" in errors


_CHILD = """
import os, sys
import kafwire.cli.decode
from kafwire.cli import main
from kafwire.protocol.dump import requests_by_key

def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))

requests_by_key()
before = peak()
try:
    main(["decode", "--records", *sys.argv[1:]])
except SystemExit as end:
    sys.stderr.write(f"{end.code} {peak() - before}")
"""


@pytest.mark.parametrize("data", [bytes(16 << 20), b'"' * (16 << 20), b"\xff" * (16 << 20)], ids=["nul", "quote", "ff"])
@pytest.mark.parametrize("form", ["auto", "text"])
def test_memory_of_a_bomb_is_that_of_its_bytes_not_of_its_json(data: bytes, form: str, tmp_path: Path) -> None:
    """Twice the value, in the column and in the record: nothing is added by JSON, which is up to 6 times as long."""
    file = tmp_path / "x.log"
    file.write_bytes(encode_batch([data], compression="zstd"))
    ran = subprocess.run(
        [sys.executable, "-c", _CHILD, "--bytes", form, str(file)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    code, peak = map(int, ran.stderr.split())
    assert code == 0
    assert peak << 10 < 2 * len(data) + (12 << 20)


def test_memory_is_that_of_a_batch_not_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "x.log"
    one = encode_batch([b"x" * 100_000] * 10)
    file.write_bytes(one * 40)
    tracemalloc.start()
    code, batches, _ = run(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (code, len(batches)) == (0, 40)
    assert peak < 6 * len(one)
