"""Record batches and records as JSON values: header fields under camelCase names, control records decoded.

Keys, values and header values are bytes, which JSON cannot represent. `BytesForm` chooses their form:

- "auto": a string if they are UTF-8 without control characters (except tab and line ends), else {"base64": "..."};
- "text": always a string; invalid UTF-8 is replaced;
- "base64", "hex": always a string in that form.

Null is null. A long value becomes a `lazy_json` value, which is made while it is written. Pure: no I/O.
"""

import base64
from collections.abc import Iterator
from typing import Any, Literal

from kafwire.errors import ProtocolError
from kafwire.protocol import MESSAGES, Data, Message, decode_versioned
from kafwire.protocol.kafka_json import to_json
from kafwire.protocol.lazy_json import LONG_BYTES, BytesForm, Elements, Text, plain_text
from kafwire.protocol.log import LogBatch
from kafwire.records import Record

__all__ = ["batch_json", "bytes_json", "control_json", "record_json", "records_json"]

_MANY_HEADERS = 1 << 10
_DELETE_HORIZON = 64
_TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
# type: (name, message of the value)
_CONTROL_TYPES = {
    0: ("ABORT", "EndTxnMarker"),
    1: ("COMMIT", "EndTxnMarker"),
    2: ("LEADER_CHANGE", "LeaderChangeMessage"),
    3: ("SNAPSHOT_HEADER", "SnapshotHeaderRecord"),
    4: ("SNAPSHOT_FOOTER", "SnapshotFooterRecord"),
    5: ("KRAFT_VERSION", "KRaftVersionRecord"),
    6: ("KRAFT_VOTERS", "VotersRecord"),
}


def bytes_json(data: bytes | None, form: BytesForm = "auto") -> str | Text | dict[str, str | Text] | None:
    """Return bytes in the given form."""
    if data is None:
        return None
    if form == "auto":
        text = plain_text(data)
        return {"base64": _string(data, "base64")} if text is None else text
    return _string(data, form)


def _string(data: bytes, form: Literal["text", "base64", "hex"]) -> str | Text:
    if len(data) > LONG_BYTES:
        return Text(data, form)
    match form:
        case "text":
            return data.decode(errors="replace")
        case "base64":
            return base64.b64encode(data).decode()
        case "hex":
            return data.hex()


def batch_json(entry: LogBatch) -> dict[str, Any]:
    """Return a batch's header. Fields that only magic 2 has are left out for magic 0 and 1."""
    batch = entry.batch
    head: dict[str, Any] = {
        "position": entry.position,
        "size": entry.size,
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "count": len(batch),
        "magic": batch.magic,
        "crc": batch.crc,
        "attributes": batch.attributes,
        "compression": batch.compression,
        "timestampType": _TIMESTAMP_TYPES[batch.timestamp_type],
    }
    if batch.magic < 2:
        return head
    # the base timestamp of a compacted batch is the time from which its tombstones may be removed (KIP-534)
    horizon = batch.attributes & _DELETE_HORIZON
    return head | {
        "baseTimestamp": None if horizon else batch.base_timestamp_ms,
        "maxTimestamp": batch.max_timestamp_ms,
        "deleteHorizonMs": batch.base_timestamp_ms if horizon else None,
        "partitionLeaderEpoch": batch.partition_leader_epoch,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "baseSequence": batch.base_sequence,
        "isTransactional": batch.is_transactional,
        "isControl": batch.is_control,
    }


def records_json(entry: LogBatch, form: BytesForm = "auto") -> Iterator[dict[str, Any]]:
    """Iterate over a batch's records."""
    control = entry.batch.is_control
    for record in entry.batch:
        yield record_json(record, form, control=control)


def record_json(record: Record, form: BytesForm = "auto", *, control: bool = False) -> dict[str, Any]:
    """Return a record; one of a control batch has its decoded key and value under `control`, see `control_json`."""
    return {
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": bytes_json(record.key, form),
        "value": bytes_json(record.value, form),
        "headers": _headers(record, form),
        **({"control": control_json(record.key, record.value)} if control else {}),
    }


def _headers(record: Record, form: BytesForm) -> list[dict[str, Any]] | Elements:
    headers = record.headers
    shown = (
        {
            "key": bytes_json(key.encode(errors="surrogateescape"), "text" if form == "text" else "auto"),
            "value": bytes_json(value, form),
        }
        for key, value in headers
    )
    return Elements(shown) if len(headers) > _MANY_HEADERS else list(shown)


def control_json(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    """Decode a control record: version and type of its key, and the message in its value.

    An unknown type has neither name nor message. A malformed record has an `error`.
    """
    if key is None or len(key) < 4:
        return {"error": "the key of a control record has 4 bytes: version and type"}
    version, number = int.from_bytes(key[:2], "big", signed=True), int.from_bytes(key[2:4], "big", signed=True)
    if number not in _CONTROL_TYPES:
        return {"version": version, "type": number}
    name, message = _CONTROL_TYPES[number]
    control: dict[str, Any] = {"version": version, "type": name, "message": message}
    if value is None or len(value) < 2:
        return control | {"error": "the value of a control record begins with 2 bytes of version"}
    found = MESSAGES[message]
    decoded: Message
    try:
        # In an EndTxnMarker the version is not part of the message; in the others it is the first field.
        if message == "EndTxnMarker":
            assert issubclass(found, Data)
            at, decoded = decode_versioned(found, value)
        else:
            at = int.from_bytes(value[:2], "big", signed=True)
            decoded = found.decode(value, at)
        return control | {"body": to_json(decoded, min(at, found.max_version))}
    except ProtocolError as error:
        return control | {"error": str(error)}
