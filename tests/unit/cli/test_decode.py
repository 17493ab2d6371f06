"""`kafwire decode`: bytes of other clients decode; every form of input and output; faults are reported."""

import base64
import gzip
import json
import struct
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from kafwire.cli import main
from kafwire.protocol import (
    MESSAGES,
    AlterUserScramCredentialsRequest,
    ApiVersionsRequest,
    CreateDelegationTokenResponse,
    DescribeConfigsResponse,
    DescribeDelegationTokenResponse,
    EnvelopeRequest,
    EnvelopeResponse,
    ExpireDelegationTokenRequest,
    FetchResponse,
    IncrementalAlterConfigsRequest,
    MetadataRequest,
    ProduceRequest,
    RenewDelegationTokenRequest,
    Request,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    encode_request,
)
from kafwire.protocol.kafka_json import from_json, to_json
from kafwire.records import Record, encode_batch
from kafwire.testing.fuzzer.old_message import old_message

MADE = json.loads(gzip.decompress((Path(__file__).parents[2] / "data" / "made.json.gz").read_bytes()))["vectors"]
SUFFIX = {"request": "Request", "response": "Response"}


class Ran(NamedTuple):
    code: int
    values: list[Any]
    errors: str
    text: str


def decode(*arguments: object, data: bytes | None = None) -> Ran:
    result = CliRunner().invoke(main, ["decode", *map(str, arguments)], input=data, prog_name="kafwire")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    text = result.stdout
    values = [] if "--pretty" in arguments else [json.loads(line) for line in text.splitlines()]
    assert "Traceback" not in result.stderr
    return Ran(result.exit_code, values, result.stderr, text)


def command_for(vector: dict[str, Any]) -> list[str]:
    name, version = vector.get("message", ""), str(vector.get("version"))
    match vector["kind"]:
        case "request_frame":
            return ["--request"]
        case "response_frame":
            return ["--response", "--api", name, "--version", version]
        case "request_body" | "response_body":
            return [f"--{vector['kind'].removesuffix('_body')}", "--body", "--api", name, "--version", version]
        case "consumer_subscription":
            return ["--message", "ConsumerProtocolSubscription"]
        case "consumer_assignment":
            return ["--message", "ConsumerProtocolAssignment"]
    raise AssertionError(vector["kind"])


def declared(vector: dict[str, Any]) -> bool:
    name = vector.get("message")
    return name is None or MESSAGES[name].oldest_version <= vector["version"] <= MESSAGES[name].max_version


KINDS = {"request_frame", "response_frame", "request_body", "response_body"}
CONSUMER = {"consumer_subscription", "consumer_assignment"}
FRAMES = [vector for vector in MADE if vector["kind"] in KINDS | CONSUMER and declared(vector)]


@pytest.mark.parametrize("vector", FRAMES, ids=[vector["id"] for vector in FRAMES])
def test_messages_of_other_clients(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    command = command_for(vector)
    as_hex = decode(*command, vector["hex"])
    assert (as_hex.code, as_hex.errors) == (0, "")
    assert decode(*command, "--input", "base64", base64.b64encode(data).decode()).values == as_hex.values
    assert decode(*command, data=data).values == as_hex.values
    (value,) = decode(*command, "--raw-records", "--show-secrets", vector["hex"]).values
    cls: Any
    if vector["kind"] in CONSUMER:
        assert value["version"] == int.from_bytes(data[:2], "big")
        cls = MESSAGES[value["message"]]
        assert from_json(cls, value["body"], value["version"]).encode(value["version"]) == data[2:]
        return
    cls = MESSAGES[vector["message"]]
    body = from_json(cls, value["body"], vector["version"]).encode(vector["version"])
    assert data.endswith(body)
    if "frame" in vector["kind"]:
        assert decode(*command, "--no-size-prefix", data[4:].hex()).values[0]["body"] == as_hex.values[0]["body"]
        assert decode(*command, data[4:].hex()).values == decode(*command, "--no-size-prefix", data[4:].hex()).values
        header = vector["header"]
        assert value["size"] == header["size"]
        assert value["correlationId"] == header["correlation_id"]
        if "client_id" in header:
            assert value["clientId"] == header["client_id"]
            assert (value["apiKey"], value["version"]) == (header["api_key"], header["api_version"])


def test_enough_of_each_kind_is_there() -> None:
    kinds = [vector["kind"] for vector in FRAMES]
    assert {kind: kinds.count(kind) > 3 for kind in KINDS | CONSUMER} == dict.fromkeys(KINDS | CONSUMER, True)


REQUEST = encode_request(MetadataRequest(), 12, 7, "me")
SIZED = len(REQUEST).to_bytes(4, "big") + REQUEST


def test_a_request() -> None:
    assert decode(REQUEST.hex()).values == [
        {
            "type": "request",
            "position": 0,
            "size": len(REQUEST),
            "api": "Metadata",
            "apiKey": 3,
            "version": 12,
            "correlationId": 7,
            "clientId": "me",
            "body": to_json(MetadataRequest(), 12),
        }
    ]


def test_many_requests_are_a_line_each(tmp_path: Path) -> None:
    file = tmp_path / "requests.bin"
    file.write_bytes(SIZED * 3)
    assert [value["position"] for value in decode(file).values] == [0, len(SIZED), 2 * len(SIZED)]
    file.write_bytes(SIZED * 2 + SIZED[:-3])
    cut = decode(file)
    assert [value["type"] for value in cut.values] == ["request", "request", "incomplete"]
    assert cut.values[2] == {
        "type": "incomplete",
        "position": 2 * len(SIZED),
        "size": len(REQUEST) - 3,
        "missing": 3,
        "hex": REQUEST[:-3].hex(),
    }
    assert cut.code == 1
    assert cut.errors == f"kafwire: the frame at byte {2 * len(SIZED)} is truncated: 3 bytes are missing\n"


@pytest.mark.parametrize(
    "text",
    [
        REQUEST.hex(),
        REQUEST.hex().upper(),
        "0x" + REQUEST.hex(),
        REQUEST.hex(" "),
        REQUEST.hex(":", 2),
        REQUEST.hex("\n", 8) + "\n",
        base64.b64encode(REQUEST).decode(),
        base64.urlsafe_b64encode(REQUEST).decode().rstrip("="),
        base64.encodebytes(REQUEST).decode(),
    ],
)
def test_forms_of_text(text: str) -> None:
    expected = decode(REQUEST.hex()).values
    assert decode(data=text.encode()).values == expected
    assert decode("-", data=text.encode()).values == expected
    assert decode(text).values == expected


def test_pretty() -> None:
    ran = decode("--pretty", REQUEST.hex())
    assert ran.text.startswith('{\n  "type": "request",\n')
    assert json.loads(ran.text) == decode("--compact", REQUEST.hex()).values[0]


def batch(*values: bytes | None, **options: Any) -> bytes:
    return encode_batch([(b"k", value, 1000, [("h", b"\xff")]) for value in values], **options)


def fetched(records: bytes) -> str:
    partition = FetchResponse.PartitionData(partition_index=4, records=records)
    response = FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic="t", partitions=[partition])])
    return response.encode(11).hex()


FETCH = ["--response", "--body", "--api", "fetch", "--version", "11"]


def shown(*arguments: str) -> Any:
    ran = decode(*FETCH, *arguments)
    assert ran.code == 0
    return ran.values[0]["body"]["responses"][0]["partitions"][0]["records"]


def test_records_of_frames() -> None:
    one, two = batch(b"a", "é".encode(), None), batch(b"\xff", compression="lz4", base_offset=3)
    response = fetched(one + two + two[:20])
    heads = shown(response)
    assert [head.get("baseOffset") for head in heads] == [0, 3, None]
    assert heads[0]["count"] == 3
    assert heads[1]["compression"] == "lz4"
    assert heads[1]["position"] == len(one)
    assert heads[2] == {"incompleteBytes": 20}
    assert "records" not in heads[0]
    whole = shown("--records", response)
    assert [record["value"] for record in whole[0]["records"]] == ["a", "é", None]
    assert whole[1]["records"] == [
        {
            "offset": 3,
            "timestamp": 1000,
            "key": "k",
            "value": {"base64": "/w=="},
            "headers": [{"key": "h", "value": {"base64": "/w=="}}],
        }
    ]
    assert shown("--raw-records", response) == base64.b64encode(one + two + two[:20]).decode()
    assert shown(fetched(b"")) == []
    # indented or not, with arrays that come bit by bit inside of others
    for arguments in (["--records"], []):
        pretty = decode(*FETCH, *arguments, "--pretty", response).text
        assert json.loads(pretty) == decode(*FETCH, *arguments, response).values[0]
        assert pretty.rstrip() == json.dumps(json.loads(pretty), indent=2, ensure_ascii=False)


@pytest.mark.parametrize(
    ("form", "value", "expected"),
    [
        ("auto", b"text", "text"),
        ("auto", b"\xff", {"base64": "/w=="}),
        ("auto", b"a\tb\r\n", "a\tb\r\n"),
        ("auto", b"\0\0\0\5", {"base64": "AAAABQ=="}),
        ("auto", "\x9b2J".encode(), {"base64": "wpsySg=="}),
        ("text", b"a\xff", "a\ufffd"),
        ("base64", b"text", "dGV4dA=="),
        ("hex", b"text", "74657874"),
        ("hex", None, None),
    ],
)
def test_forms_of_bytes(form: str, value: bytes | None, expected: Any) -> None:
    assert shown("--records", "--bytes", form, fetched(batch(value)))[0]["records"][0]["value"] == expected


def test_long_values_are_made_in_pieces_and_read_as_whole_ones() -> None:
    euro = "€".encode()
    for form, value, expected in (
        ("auto", euro * 99_999, "€" * 99_999),
        ("auto", euro * 99_999 + euro[:1], {"base64": base64.b64encode(euro * 99_999 + euro[:1]).decode()}),
        ("auto", b"a" * 999_999 + b"\0", {"base64": base64.b64encode(b"a" * 999_999 + b"\0").decode()}),
        ("auto", b'"\\\n' * 99_999, '"\\\n' * 99_999),
        ("text", euro[:2] + b"a" * 99_999 + euro[:2], "\ufffd" + "a" * 99_999 + "\ufffd"),
        ("text", b"a\x7f\0" * 99_999, "a\x7f\0" * 99_999),
        ("hex", b"ab\xff" * 99_999, "6162ff" * 99_999),
    ):
        for layout in ("--compact", "--pretty"):
            ran = decode(*FETCH, "--records", "--bytes", form, layout, fetched(batch(value)))
            response = json.loads(ran.text)
            records = response["body"]["responses"][0]["partitions"][0]["records"][0]["records"]
            assert records[0]["value"] == expected, (form, value[:9], layout)


def test_many_headers() -> None:
    record = Record(b"v", headers=[("k", b"%d" % i) for i in range(2000)])
    headers = shown("--records", fetched(encode_batch([record])))[0]["records"][0]["headers"]
    assert headers == [{"key": "k", "value": str(i)} for i in range(2000)]


def test_records_that_are_damaged_do_not_hide_the_rest() -> None:
    good, bad = batch(b"a"), bytearray(batch(b"b"))
    bad[-1] ^= 1
    ran = decode(*FETCH, fetched(good + bytes(bad)))
    assert ran.code == 1
    heads = ran.values[0]["body"]["responses"][0]["partitions"][0]["records"]
    assert heads[0]["count"] == 1
    assert heads[1]["position"] == len(good)
    assert "CRC-32C" in heads[1]["error"]
    assert ran.errors.startswith("kafwire: records: corrupt record batch")
    assert ran.errors.endswith(f"at byte {len(good)}\n")


def test_control_characters_do_not_reach_the_terminal() -> None:
    ran = decode(*FETCH, "--records", "--bytes", "text", fetched(batch("\x1b[31m\x7f\x9b2J".encode())))
    assert "\\u001b[31m\\u007f\\u009b2J" in ran.text
    assert not any(0x7F <= ord(character) < 0xA0 or ord(character) < 10 for character in ran.text)
    value = ran.values[0]["body"]["responses"][0]["partitions"][0]["records"][0]["records"][0]["value"]
    assert value == "\x1b[31m\x7f\x9b2J"


def test_an_api_versions_refusal_in_no_version_is_fine_everywhere(tmp_path: Path) -> None:
    """Some brokers send such a refusal: its code is shown, the rest as hex."""
    body = "00230100120000000200000000"
    response = bytes.fromhex("00000007" + body)
    api = ["--response", "--api", "18", "--version", "3"]
    client, server = tmp_path / "client", tmp_path / "server"
    asked = encode_request(ApiVersionsRequest(), 3, 7, "me")
    client.write_bytes(len(asked).to_bytes(4, "big") + asked)
    server.write_bytes(len(response).to_bytes(4, "big") + response)
    for ran in (decode(*api, response.hex()), decode("--connection", client, server)):
        assert (ran.code, ran.errors) == (0, "")
        shown = ran.values[-1]
        assert (shown["version"], shown["body"], shown["hex"]) == (
            None,
            {"errorCode": 35, "apiKeys": []},
            response.hex(),
        )
    bare = decode(*api, "--body", body)
    assert (bare.code, bare.values[0]["version"], bare.values[0]["body"]["errorCode"]) == (0, None, 35)
    version_0 = decode(*api, "--body", "002300000000")
    assert (version_0.code, version_0.values[0]["version"]) == (0, 0)
    assert decode(*api, "--body", "0001").code == 1


def test_a_message_in_a_version_above_ours_is_read_as_our_highest() -> None:
    ran = decode("--message", "EndTxnMarker", "000700000005ff")
    assert (ran.code, ran.values[0]["version"], ran.values[0]["body"]) == (0, 7, {"coordinatorEpoch": 5})


def test_large_integers_are_exact() -> None:
    produced = to_json(FetchResponse(), 11)
    produced["responses"] = []
    response = FetchResponse(
        responses=[
            FetchResponse.FetchableTopicResponse(
                topic="t", partitions=[FetchResponse.PartitionData(high_watermark=2**63 - 1)]
            )
        ]
    )
    assert '"highWatermark":9223372036854775807' in decode(*FETCH, response.encode(11).hex()).text


def test_bare_messages() -> None:
    subscription: Any = MESSAGES["ConsumerProtocolSubscription"]
    message = subscription(topics=["t"], rack_id="r")
    body = message.encode(3)
    expected = [
        {
            "type": "message",
            "message": "ConsumerProtocolSubscription",
            "version": 3,
            "body": to_json(message, 3),
        }
    ]
    assert decode("--message", "consumerprotocolsubscription", (b"\0\3" + body).hex()).values == expected
    assert decode("--message", "ConsumerProtocolSubscription", "--version", 3, body.hex()).values == expected
    voters: Any = MESSAGES["VotersRecord"]
    (value,) = decode("--message", "VotersRecord", voters(version=0).encode(0).hex()).values
    assert value["body"] == {"version": 0, "voters": []}
    header = decode("--message", "RequestHeader", "--version", 1, "000300010000000700026d65").values[0]
    assert header["body"] == {
        "requestApiKey": 3,
        "requestApiVersion": 1,
        "correlationId": 7,
        "clientId": "me",
    }
    left_over = decode("--message", "ConsumerProtocolSubscription", (b"\0\3" + body + b"x").hex())
    assert left_over.code == 1
    assert "1 bytes are left over" in left_over.values[0]["error"]
    assert left_over.values[0]["hex"] == (body + b"x").hex()


def test_a_request_with_acks_0_and_the_next_one(tmp_path: Path) -> None:
    client, server = tmp_path / "client", tmp_path / "server"
    frame = encode_request(ProduceRequest(acks=0), 9, 8, "me")
    client.write_bytes(len(frame).to_bytes(4, "big") + frame + SIZED + SIZED[:9])
    response: Any = MetadataRequest.response
    reply = b"\0\0\0\7\0" + response().encode(12)
    server.write_bytes(len(reply).to_bytes(4, "big") + reply + b"\0\0")
    ran = decode("--connection", client, server)
    assert [(value["type"], value["position"]) for value in ran.values] == [
        ("request", 0),
        ("request", 4 + len(frame)),
        ("response", 0),
        ("incomplete", 4 + len(frame) + len(SIZED)),
        ("incomplete", 4 + len(reply)),
    ]
    assert ran.values[2]["api"] == "Metadata"
    assert ran.values[3] == {
        "type": "incomplete",
        "side": "client",
        "position": 4 + len(frame) + len(SIZED),
        "size": 5,
        "missing": len(REQUEST) - 5,
    }
    assert (ran.code, ran.errors) == (0, "")
    with client.open("ab") as file:
        file.write(b"\xff" * 80)
    broken = decode("--connection", client, server)
    assert broken.code == 1
    assert [value["type"] for value in broken.values[:3]] == ["request", "request", "response"]


def test_tokens_and_requests_without_a_response(tmp_path: Path) -> None:
    handshake: Any = MESSAGES["SaslHandshakeRequest"]
    question = encode_request(handshake(mechanism="PLAIN"), 0, 1, "me")
    reply = b"\0\0\0\1" + handshake.response().encode(0)
    client, server = tmp_path / "client", tmp_path / "server"
    client.write_bytes(len(question).to_bytes(4, "big") + question + b"\0\0\0\5\0a\0bc" + SIZED)
    server.write_bytes(len(reply).to_bytes(4, "big") + reply + b"\0\0\0\0")
    ran = decode("--connection", client, server, "--show-secrets")
    assert [value["type"] for value in ran.values] == ["request", "response", "token", "token", "request", "unanswered"]
    assert ran.values[2]["data"] == base64.b64encode(b"\0a\0bc").decode()
    assert ran.values[2]["side"] == "client"
    assert ran.values[5]["correlationId"] == 7
    assert ran.code == 0
    hidden = decode("--connection", client, server)
    assert [value.get("data") for value in hidden.values[2:4]] == ["***", "***"]


CANARY = "a-canary"
CONFIGS: Any = IncrementalAlterConfigsRequest
DESCRIBED: Any = DescribeConfigsResponse
SECRETS: list[tuple[Any, int]] = [
    (SaslAuthenticateRequest(auth_bytes=CANARY.encode()), 2),
    (SaslAuthenticateResponse(auth_bytes=CANARY.encode()), 1),
    (
        AlterUserScramCredentialsRequest(
            upsertions=[
                AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
                    name="alice", salt=CANARY.encode(), salted_password=CANARY.encode()
                )
            ]
        ),
        0,
    ),
    (CreateDelegationTokenResponse(hmac=CANARY.encode()), 3),
    (RenewDelegationTokenRequest(hmac=CANARY.encode()), 2),
    (ExpireDelegationTokenRequest(hmac=CANARY.encode()), 2),
    (
        DescribeDelegationTokenResponse(
            tokens=[DescribeDelegationTokenResponse.DescribedDelegationToken(hmac=CANARY.encode())]
        ),
        3,
    ),
    (EnvelopeRequest(request_data=CANARY.encode()), 0),
    (EnvelopeResponse(response_data=CANARY.encode()), 0),
    (
        CONFIGS(
            resources=[
                CONFIGS.AlterConfigsResource(
                    resource_name="1",
                    configs=[
                        CONFIGS.AlterableConfig(name="listener.name.a.ssl.keystore.password", value=CANARY),
                        CONFIGS.AlterableConfig(name="listener.name.a.plain.sasl.jaas.config", value=CANARY),
                        CONFIGS.AlterableConfig(name="log.dirs", value="/shown"),
                    ],
                )
            ]
        ),
        1,
    ),
    (
        DESCRIBED(
            results=[
                DESCRIBED.DescribeConfigsResult(
                    configs=[
                        DESCRIBED.DescribeConfigsResourceResult(name="of.a.plugin", value=CANARY, is_sensitive=True),
                        DESCRIBED.DescribeConfigsResourceResult(
                            name="log.dirs",
                            value="/shown",
                            synonyms=[DESCRIBED.DescribeConfigsSynonym(name="ssl.key.password", value=CANARY)],
                        ),
                    ]
                )
            ]
        ),
        4,
    ),
]


@pytest.mark.parametrize(("message", "version"), SECRETS, ids=[type(message).__name__ for message, _ in SECRETS])
def test_secrets_are_shown_if_asked_for(message: Any, version: int) -> None:
    side = "--request" if isinstance(message, Request) else "--response"
    command = [side, "--body", "--api", str(message.api_key), "--version", str(version)]
    data = message.encode(version)
    ran = decode(*command, data.hex())
    assert (ran.code, ran.errors) == (0, "")
    forms = CANARY, base64.b64encode(CANARY.encode()).decode(), CANARY.encode().hex()
    assert "***" in ran.text
    assert not any(form in ran.text + repr(message) for form in forms)
    assert ("log.dirs" in ran.text) == ("/shown" in ran.text)
    shown = decode(*command, "--show-secrets", data.hex()).values[0]["body"]
    assert from_json(type(message), shown, version) == message
    # Nor where they cannot be decoded, or only in part.
    for damaged in (data + b"\0", data[:-1]):
        ran = decode(*command, damaged.hex())
        assert ran.code == 1
        assert not any(form in ran.text + ran.errors for form in forms)
        assert damaged.hex() in decode(*command, "--show-secrets", damaged.hex()).text


@pytest.mark.parametrize("version", [0, 2, 3])
def test_the_size_of_a_cut_request_is_found_in_removed_versions_too(version: int) -> None:
    frame = encode_request(ProduceRequest(acks=1, timeout_ms=5), version, 7, "me")
    (value,) = decode((len(frame).to_bytes(4, "big") + frame[:-1]).hex()).values
    assert (value["type"], value["missing"]) == ("incomplete", 1)


def test_old_messages_are_shown() -> None:
    """Produce 0 and Fetch 0 to 3 have messages of magic 0 and 1."""
    data = ProduceRequest.PartitionProduceData(records=old_message(b"EWR-IAH", magic=0))
    request = ProduceRequest(topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[data])])
    (value,) = decode("--records", encode_request(request, 0, 7, "me").hex()).values
    ((batch,),) = [part["records"] for topic in value["body"]["topicData"] for part in topic["partitionData"]]
    assert (value["api"], value["version"], batch["magic"]) == ("Produce", 0, 0)
    assert [record["value"] for record in batch["records"]] == ["EWR-IAH"]


def test_a_frame_that_is_cut_shows_no_secrets(tmp_path: Path) -> None:
    frame = encode_request(SaslAuthenticateRequest(auth_bytes=b"a" * 20), 2, 1, "me")
    sized = len(frame).to_bytes(4, "big") + frame
    ran = decode(sized[:-1].hex())
    assert ran.values[0]["hex"] == "***"
    client, server = tmp_path / "client", tmp_path / "server"
    client.write_bytes((len(frame) + 1).to_bytes(4, "big") + frame + b"\0")
    server.write_bytes(b"\0\0\0\6\0\0\0\1\0\7")
    ran = decode("--connection", client, server)
    assert [value["hex"] for value in ran.values] == ["***", "***"]


def test_an_index_of_transactions_is_shown_by_entries(tmp_path: Path) -> None:
    file = tmp_path / "00000000000000000000.txnindex"
    entries = [(1000, 3, 9, 10), (7, 12, 20, 12)] * 2000  # more than is read at once
    file.write_bytes(b"".join(struct.pack(">hqqqq", 0, *entry) for entry in entries))
    ran = decode(file)
    assert (ran.code, ran.errors) == (0, "")
    assert ran.values == [
        {
            "type": "abortedTransaction",
            "position": 34 * number,
            "producerId": producer,
            "firstOffset": first,
            "lastOffset": last,
            "lastStableOffset": stable,
        }
        for number, (producer, first, last, stable) in enumerate(entries)
    ]


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (b"\0\1" + bytes(32), "an entry of version 1, and only version 0 is known, at byte 34"),
        (bytes(20), "the last 20 bytes, from byte 34 on, are an incomplete entry: the file is truncated"),
    ],
)
def test_a_damaged_index_of_transactions(tmp_path: Path, damage: bytes, complaint: str) -> None:
    file = tmp_path / "x.txnindex"
    file.write_bytes(struct.pack(">hqqqq", 0, 1, 2, 3, 4) + damage)
    ran = decode(file)
    assert (ran.code, len(ran.values)) == (1, 1)
    assert complaint in ran.errors


def test_an_unknown_api_is_shown_as_hex() -> None:
    ran = decode("7fff00000000000500016dff")
    assert ran.code == 1
    assert ran.values[0]["hex"] == "7fff00000000000500016dff"
    assert ran.values[0]["error"] == "no API has the key 32767"
    assert (ran.values[0]["apiKey"], ran.values[0]["correlationId"]) == (32767, 5)
    assert ran.errors == "kafwire: the request at byte 0: no API has the key 32767\n"


def test_left_over_bytes_are_an_error_with_their_place() -> None:
    ran = decode("--no-size-prefix", (REQUEST + b"\0\0").hex())
    assert ran.code == 1
    assert "2 bytes are left over" in ran.errors
    assert "MetadataRequest version 12 at offset" in ran.errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--response", "00"], "--response needs --api and --version"),
        (["--response", "--api", "Metadta", "--version", "1", "00"], "no API Metadta; did you mean Metadata?"),
        (["--response", "--api", "999", "--version", "1", "00"], "no API has the key 999"),
        (
            ["--response", "--api", "3", "--version", "99", "00"],
            "MetadataResponse has no version 99, it has 0 to 13",
        ),
        (["--request", "--api", "Metadata", "00"], "a request's header has its API and version"),
        (["--body", "00"], "--request --body needs --api and --version"),
        (["--message", "ConsumerSubscription", "00"], "did you mean ConsumerProtocolSubscription"),
        (["--message", "RequestHeader", "00"], "--message RequestHeader needs --version"),
        (["--message", "EndTxnMarker", "--log", "00"], "--message excludes"),
        (["--message", "EndTxnMarker", "--body", "00"], "--message excludes"),
        (["--connection", "one"], "--connection needs two files"),
        (["--connection", "--api", "3", "a", "b"], "--connection reads raw bytes"),
        (["one", "two"], "give one input"),
        (["--records", "--raw-records", "00"], "either --records or --raw-records"),
        (["no-such-file"], "'no-such-file' is neither an existing file, nor hex, nor base64"),
        (["zz" * 3000], "neither an existing file"),
        (["--wrong"], "no such option"),
        ([""], "an input is empty"),
        (["--log", ""], "an input is empty"),
        (["--log", "--size-prefix", "x"], "--log excludes --size-prefix"),
        (["--connection", "--no-size-prefix", "a", "b"], "--connection excludes --size-prefix"),
        (["--log", "--raw-records", "x"], "--raw-records is for frames and messages"),
        (["--connection", "-", "-"], "cannot read both directions from standard input"),
        (["--response", "--api", "99", "--version", "0", "00"], "no API has the key 99; 'kafwire messages' lists them"),
        (["--response", "--api", "-1", "--version", "0", "00"], "there is no API -1; 'kafwire messages' lists all"),
        (["--response", "--api", "Metdata", "--version", "0", "00"], "there is no API Metdata; did you mean Metadata"),
        (["--response", "--api", "Fetch", "--version", "99", "00"], "FetchResponse has no version 99, it has 0 to "),
        (["--message", "xyzzy", "00"], "there is no message xyzzy; 'kafwire messages' lists all"),
        (["--bytes", "octal", "00"], "'octal' is not one of"),
    ],
)
def test_wrong_usage_is_code_2_and_one_line(arguments: list[str], message: str) -> None:
    ran = decode(*arguments)
    assert ran.code == 2
    assert message in ran.errors
    assert ran.errors.startswith("kafwire decode: ")
    assert ran.errors.endswith("(see 'kafwire decode --help')\n")
    assert ran.errors.count("\n") == 1
    assert ran.text == ""


@pytest.mark.parametrize(
    ("arguments", "data", "message"),
    [
        ([], b"", "the input is empty"),
        (["000"], None, "an odd number of hex digits"),
        (["--input", "hex", "00zz"], None, "the input is not hex"),
        (["--input", "base64", "A"], None, "the input is not base64"),
        (["--size-prefix", "ff" * 8], None, "do not begin with a frame's size"),
        (["--max-frame-bytes", "4"], b"\0" * 13, "more than 12 bytes"),
        (["--message", "EndTxnMarker", "00"], None, "begins with a version of 2 bytes, but there are only 1 bytes"),
        (["--log", "no-such-file"], None, "no-such-file: No such file or directory"),
        (["--log", "x.timeindex"], None, "x.timeindex: No such file or directory"),
    ],
)
def test_input_that_cannot_be_read_is_code_1_and_one_line(
    arguments: list[str], data: bytes | None, message: str
) -> None:
    ran = decode(*arguments, data=data)
    assert ran.code == 1
    assert message in ran.errors
    assert ran.errors.startswith("kafwire: ")
    assert ran.errors.count("\n") == 1
    assert ran.text == ""
