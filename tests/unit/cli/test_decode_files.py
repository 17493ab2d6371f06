"""`kafwire decode` of indexes, snapshots of producers and internal topics, and its limit."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafwire._codec import crc32c_of
from kafwire.cli import main
from kafwire.protocol import MetadataRequest, encode_request, encode_versioned
from kafwire.protocol.group_records import OffsetCommitKey, OffsetCommitValue
from kafwire.protocol.producer_snapshot import ProducerSnapshot
from kafwire.records import Record, encode_batch

NAME = "00000000000000000040"


def decode(*arguments: object, data: bytes = b"") -> tuple[int, list[dict[str, Any]], str]:
    result = CliRunner().invoke(main, ["decode", *map(str, arguments)], input=data)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()], result.stderr


@pytest.mark.parametrize(
    ("suffix", "data", "expected"),
    [
        (
            ".index",
            struct.pack(">iiii", 2, 300, 5, 700) + bytes(80),
            [
                {"type": "indexEntry", "position": 0, "offset": 42, "logPosition": 300},
                {"type": "indexEntry", "position": 8, "offset": 45, "logPosition": 700},
            ],
        ),
        (
            ".timeindex",
            struct.pack(">qi", 1_700_000_000_000, 2) + bytes(120),
            [{"type": "timeIndexEntry", "position": 0, "timestamp": 1_700_000_000_000, "offset": 42}],
        ),
        (".index", b"", []),
        (".timeindex.deleted", bytes(240), []),
    ],
)
def test_indexes(tmp_path: Path, suffix: str, data: bytes, expected: list[dict[str, Any]]) -> None:
    file = tmp_path / f"{NAME}{suffix}"
    file.write_bytes(data)
    assert decode(file) == (0, expected, "")


def test_an_index_whose_name_has_no_offset(tmp_path: Path) -> None:
    file = tmp_path / "x.index"
    file.write_bytes(struct.pack(">ii", 2, 300))
    assert decode(file)[1] == [{"type": "indexEntry", "position": 0, "relativeOffset": 2, "logPosition": 300}]


def test_a_damaged_index_is_read_up_to_the_damage(tmp_path: Path) -> None:
    file = tmp_path / f"{NAME}.index"
    file.write_bytes(struct.pack(">iiii", 5, 300, 2, 700))
    code, values, errors = decode(file)
    assert (code, len(values), "at byte 8" in errors) == (1, 1, True)


def test_a_snapshot_of_producers(tmp_path: Path) -> None:
    entry = ProducerSnapshot.ProducerEntry(producer_id=7, last_offset=9, current_txn_first_offset=-1)
    data = encode_versioned(ProducerSnapshot(producer_entries=[entry, entry]), 1)
    file = tmp_path / f"{NAME}.snapshot"
    file.write_bytes(data[:2] + crc32c_of(data[6:]).to_bytes(4, "big") + data[6:])
    code, values, errors = decode(file)
    assert (code, errors) == (0, "")
    assert [value["position"] for value in values] == [10, 52]
    assert (values[0]["type"], values[0]["producerId"], values[0]["currentTxnFirstOffset"]) == ("producer", 7, -1)
    file.write_bytes(data)
    assert "the checksum is 0" in decode(file)[2]


def key(record_type: int = 1) -> bytes:
    return record_type.to_bytes(2, "big") + OffsetCommitKey(group="größe", topic="orders", partition=3).encode(0)


def test_messages_of_coordinators() -> None:
    code, (shown,), errors = decode("--message", "OffsetCommitKey", key().hex())
    assert (code, errors) == (0, "")
    body = {"group": "größe", "topic": "orders", "partition": 3}
    assert shown == {"type": "message", "message": "OffsetCommitKey", "version": 0, "body": body}
    value = encode_versioned(OffsetCommitValue(offset=5), 4)
    assert decode("--message", "offsetcommitvalue", value.hex())[1][0]["body"]["offset"] == 5
    code, _, errors = decode("--message", "OffsetCommitKey", key(2).hex())
    assert (code, "the key has type 2, but OffsetCommitKey is type 1" in errors) == (1, True)


@pytest.mark.parametrize("folder", ["__consumer_offsets-7", "orders-0"])
def test_records_of_an_internal_topic_are_decoded(tmp_path: Path, folder: str) -> None:
    value = encode_versioned(OffsetCommitValue(offset=5), 3)
    file = tmp_path / folder / f"{NAME}.log"
    file.parent.mkdir()
    file.write_bytes(encode_batch([Record(value, key()), Record(None, key())]))
    decoded = decode("--records", file)[1]
    assert (decoded[0]["key"].keys() == {"message", "version", "body"}) == folder.startswith("__")
    chosen = decode("--records", "--topic", "__consumer_offsets", file)[1]
    assert [each["value"] and each["value"]["body"]["offset"] for each in chosen] == [5, None]
    assert decode("--records", "--topic", "__consumer_offsets", "--log", "-", data=file.read_bytes())[1] == chosen
    assert decode("--records", "--bytes", "hex", file)[1][0]["key"] == key().hex()
    assert decode("--topic", "t", "00")[0] == 2


def test_a_limit_ends_the_reading(tmp_path: Path) -> None:
    file = tmp_path / f"{NAME}.log"
    file.write_bytes(encode_batch([b"a", b"b"]) + encode_batch([b"c"]) + b"damage that nothing reads" * 100)
    assert decode("-c", 2, file)[0] == 0
    code, values, errors = decode("--records", "--limit", 3, file)
    assert (code, [value["value"] for value in values], errors) == (0, ["a", "b", "c"], "")
    assert decode("--records", "-c", 4, file)[0] == 1
    frame = encode_request(MetadataRequest(), 1, 7, "me")
    frames = (len(frame).to_bytes(4, "big") + frame) * 3
    assert len(decode("--count", 2, "-", data=frames)[1]) == 2
    index = tmp_path / f"{NAME}.index"
    index.write_bytes(struct.pack(">iiii", 2, 300, 5, 700))
    assert len(decode("-c", 1, index)[1]) == 1
    assert decode("-c", 0, index)[0] == 2
