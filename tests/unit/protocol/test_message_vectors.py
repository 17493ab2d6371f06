"""Bytes that other clients and brokers made decode to what they meant, and encode to the same bytes again."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kafwire import protocol
from kafwire.errors import ProtocolError
from kafwire.protocol import MESSAGES
from tests.support.reference_messages import holds, kafka_json

VECTORS = json.loads(gzip.decompress((Path(__file__).parents[2] / "data" / "made.json.gz").read_bytes()))["vectors"]


def ours(vector: dict[str, Any]) -> bool:
    """True if the vector is of a message and version that is declared here."""
    name = vector.get("message", "")
    return name in MESSAGES and MESSAGES[name].oldest_version <= vector["version"] <= MESSAGES[name].max_version


# Fields that had another name before Kafka 4.4: some vectors are older.
RENAMED = {("TxnOffsetCommitRequest", "generationId"): "generationIdOrMemberEpoch"}


def of_kind(*kinds: str) -> list[Any]:
    return [pytest.param(vector, id=vector["id"]) for vector in VECTORS if vector["kind"] in kinds and ours(vector)]


def body_of(vector: dict[str, Any]) -> tuple[bytes, bytes]:
    """Split a vector's bytes into what comes before the body and the body."""
    data = bytes.fromhex(vector["hex"])
    cls = MESSAGES[vector["message"]]
    if not vector["kind"].endswith("frame"):
        return b"", data
    header = vector["header"]
    flexible = vector["version"] >= cls.flexible_from
    assert int.from_bytes(data[:4], "big") == header["size"] == len(data) - 4
    if "api_key" in header:
        client_id = header["client_id"].encode()
        head = data[:14] + client_id + (b"\0" if flexible else b"")
    else:
        head = data[: 9 if flexible and cls is not protocol.ApiVersionsResponse else 8]
    assert data.startswith(head)
    return head, data[len(head) :]


@pytest.mark.parametrize("vector", of_kind("request_body", "response_body", "request_frame", "response_frame", "data"))
def test_bytes_and_back(vector: dict[str, Any]) -> None:
    cls, version = MESSAGES[vector["message"]], vector["version"]
    head, body = body_of(vector)
    message = cls.decode(body, version)
    expected = {RENAMED.get((vector["message"], name), name): value for name, value in vector["expect"].items()}
    holds(expected, kafka_json(message), vector["message"])
    assert cls.from_dict(message.to_dict()) == message
    assert message.encode(version) == body
    if vector["kind"] == "request_frame":
        header = vector["header"]
        assert isinstance(message, protocol.Request)
        assert (
            protocol.encode_request(message, version, header["correlation_id"], header["client_id"]) == head[4:] + body
        )
    elif vector["kind"] == "response_frame":
        request: Any = MESSAGES[vector["message"].replace("Response", "Request")]
        response = protocol.decode_response(request, head[4:] + body, version)
        assert response == (vector["header"]["correlation_id"], message)


@pytest.mark.parametrize("vector", of_kind("malformed_message"))
def test_malformed(vector: dict[str, Any]) -> None:
    cls, data = MESSAGES[vector["message"]], bytes.fromhex(vector["hex"])
    outcome = vector["expect"]["outcome"]
    if outcome == "ok":
        message = cls.decode(data, vector["version"])
        assert message.unknown_tagged_fields
        assert message.encode(vector["version"]) == data
    else:  # where peers differ, kafwire rejects
        assert outcome in {"error", "either"}
        with pytest.raises(ProtocolError) as caught:
            cls.decode(data, vector["version"])
        assert caught.value.api == vector["message"]
        assert caught.value.version == vector["version"]
        assert caught.value.offset is not None
        assert 0 <= caught.value.offset <= len(data)


def test_refused_api_versions_in_no_version_at_all() -> None:
    (vector,) = (vector for vector in VECTORS if vector["kind"] == "response_frame_quirk")
    correlation_id, message = protocol.decode_response(
        protocol.ApiVersionsRequest, bytes.fromhex(vector["hex"])[4:], vector["requested_version"]
    )
    assert correlation_id == vector["header"]["correlation_id"]
    assert message == protocol.ApiVersionsResponse(error_code=35)
