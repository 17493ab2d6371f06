"""The fuzzer's parts: generated requests, permitted ones, damaged ones, and the command around it."""

import json
import random
import struct
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner

from kafwire import protocol
from kafwire.cli import main
from kafwire.errors import ProtocolError
from kafwire.protocol import MESSAGES
from kafwire.records import decode_batches
from kafwire.testing.fuzzer import damage, oddities, rules, safety
from kafwire.testing.fuzzer.anatomy import dissect, gaps
from kafwire.testing.fuzzer.campaign import RemoteError, resolve
from kafwire.testing.fuzzer.case import Case, Step
from kafwire.testing.fuzzer.damage import Damage
from kafwire.testing.fuzzer.generate import Generator
from kafwire.testing.fuzzer.scenarios import with_scenario
from kafwire.testing.fuzzer.world import Partition, Topic, World
from tests.support.broker.fuzzed_server import FuzzedServer

APIS = [name.removesuffix("Request") for name in MESSAGES if name.endswith("Request")]


def world(*, destructive: bool = False) -> World:
    topics = {
        name: Topic(name, UUID(int=1000 + number), {0: Partition(1, 0, 9), 1: Partition(1, 5, 5)})
        for number, name in enumerate(("one", "two"))
    }
    ranges = {safety.request_class(api).api_key: (0, 99) for api in APIS}
    return World(ranges=ranges, node_id=1, brokers=[1, 2], topics=topics, cluster_id="c", destructive=destructive)


def frame_of(step: Step) -> bytes:
    frame = protocol.encode_request(step.message, step.version, 1, "kafwire-fuzz")
    return struct.pack(">i", len(frame)) + frame


def test_every_api_is_classified() -> None:
    assert set(APIS) <= set(safety.CLASS_OF)


@pytest.mark.parametrize("api", [api for api in APIS if api not in safety.NEVER])
def test_requests_of_every_version_can_be_encoded_dissected_and_written(api: str) -> None:
    for destructive in (False, True):
        known = world(destructive=destructive)
        for version in known.versions(api):
            for number in range(4):
                rng = random.Random(f"{api}{version}{number}")
                message = Generator(rng, known, api, version).request()
                frame = frame_of(Step(api, version, message))[4:]
                spans = dissect(type(message), version, frame)
                assert not list(gaps(spans))
                changes = damage.choose(rng, frame, spans)
                assert damage.apply(frame, spans, changes) is not None
                odd = oddities.odd(rng, api, version, message, destructive=destructive)
                steps = with_scenario(rng, known, Step(api, version, odd))
                for step in steps:
                    frame_of(step)
                case = Case(1, number, "odd", (*steps, Step(api, version, message, (), changes)))
                written = json.loads(json.dumps(case.to_json()))
                assert Case.from_json(written).to_json() == written


def test_removed_versions_are_for_servers_that_have_them() -> None:
    """Kafka 4 advertises Produce 0 to 2 without serving them; Kafka 3.9 serves them."""
    old, new = World(ranges={0: (0, 11), 1: (0, 17)}), World(ranges={0: (0, 13), 1: (4, 18)})
    assert (old.versions("Produce"), old.versions("Fetch")) == (range(12), range(18))
    assert (new.versions("Produce"), new.versions("Fetch")) == (range(3, 14), range(4, 19))


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 2)])
def test_produced_records_have_the_format_of_the_version(version: int, magic: int) -> None:
    messages: list[Any] = [Generator(random.Random(seed), world(), "Produce", version).request() for seed in range(20)]
    records = [part.records for each in messages for topic in each.topic_data for part in topic.partition_data]
    batches = [batch for data in records for batch in decode_batches(data)]
    assert {batch.magic for batch in batches} == {magic}
    assert {record.value for batch in batches for record in batch} == {b"value"}


def test_nothing_that_changes_a_server_leaves_without_permission() -> None:
    known = world()
    refused = set()
    for api in APIS:
        for version in known.versions(api):
            message = Generator(random.Random(1), world(destructive=True), api, version).request()
            if not safety.permits(frame_of(Step(api, version, message)), destructive=False):
                refused.add(api)
            elif safety.CLASS_OF[api] not in (safety.READ, safety.SESSION):
                pytest.fail(f"{api} {version} may be sent")
    assert {"CreateTopics", "DeleteTopics", "Produce", "AddRaftVoter", "AlterConfigs"} <= refused


def metadata(version: int, **fields: Any) -> bytes:
    request = protocol.MetadataRequest(topics=[protocol.MetadataRequest.MetadataRequestTopic(name="t")], **fields)
    return frame_of(Step("Metadata", version, request))


def test_a_topic_is_not_created_by_the_way() -> None:
    assert not safety.permits(metadata(3), destructive=False)
    assert not safety.permits(metadata(12, allow_auto_topic_creation=True), destructive=False)
    assert safety.permits(metadata(12, allow_auto_topic_creation=False), destructive=False)
    assert safety.permits(metadata(3), destructive=True)


def test_a_request_hidden_behind_a_wrong_size_is_seen() -> None:
    harmless = metadata(12, allow_auto_topic_creation=False)
    hidden = frame_of(Step("DeleteTopics", 1, protocol.DeleteTopicsRequest(topic_names=["t"])))
    # The first frame claims to end where the hidden one begins.
    assert safety.permits(harmless, destructive=False)
    assert not safety.permits(harmless + hidden, destructive=False)


def test_groups_of_others_are_left_alone() -> None:
    request: Any = MESSAGES["HeartbeatRequest"]
    own = frame_of(Step("Heartbeat", 3, request(group_id=f"{safety.PREFIX}x")))
    other = frame_of(Step("Heartbeat", 3, request(group_id="payments")))
    assert safety.permits(own, destructive=False)
    assert not safety.permits(other, destructive=False)


def test_a_fetch_in_a_replicas_name_is_refused() -> None:
    fetch = frame_of(Step("Fetch", 12, protocol.FetchRequest(replica_id=2)))
    assert not safety.permits(fetch, destructive=False)


def test_damage_lands_where_it_is_aimed() -> None:
    message = protocol.MetadataRequest(topics=[protocol.MetadataRequest.MetadataRequestTopic(name="abc")])
    frame = frame_of(Step("Metadata", 1, message))[4:]
    spans = dissect(protocol.MetadataRequest, 1, frame)
    count = Damage(damage.SET, "body.topics", "count", struct.pack(">i", -5))
    text = Damage(damage.SET, "body.topics[0].name", "text", b"\xff\xff\xff")
    stream = damage.apply(frame, spans, (count, text, Damage(damage.APPEND, data=b"z"), Damage(damage.SIZE, amount=7)))
    body = frame[8:].replace(struct.pack(">i", 1), struct.pack(">i", -5)).replace(b"abc", b"\xff" * 3)
    assert stream[4:] == frame[:8] + body + b"z"
    assert struct.unpack_from(">i", stream) == (len(stream) - 4 + 7,)
    with pytest.raises(damage.NotApplicableError):
        damage.apply(frame, spans, (Damage(damage.SET, "body.topics[1].name", "text"),))


def test_every_path_of_the_rules_exists() -> None:
    """A rule whose fields are gone would never be broken again."""
    for rule in rules.RULES:
        assert rule.promise
        for path, suffix in ((rule.asked, "Request"), (rule.response_path, "Response")):
            if path and rule.api != rules.ANY:
                follow(MESSAGES[rule.api + suffix], path)


def follow(cls: Any, path: str) -> None:
    for step in path.split("/"):
        name, _, keys = step.partition(":")
        field = {each.name: each for each in cls.__fields__}[name.removesuffix("[]")]
        assert field.array == name.endswith("[]"), path
        cls = field.struct
        if keys:
            assert set(keys.split(",")) <= {each.name for each in cls.__fields__}, path


def test_rules_see_a_wrong_order_of_offsets() -> None:
    part = protocol.FetchResponse.PartitionData(high_watermark=5, last_stable_offset=7)
    topic = protocol.FetchResponse.FetchableTopicResponse(topic="t", partitions=[part])
    request = protocol.FetchRequest(
        topics=[
            protocol.FetchRequest.FetchTopic(topic="t", partitions=[protocol.FetchRequest.FetchPartition(partition=0)])
        ]
    )
    found = [
        rule.name for rule, _ in rules.broken("Fetch", request, protocol.FetchResponse(responses=[topic]), 11, world())
    ]
    assert found == ["order"]


def test_a_stamped_batch_is_sound() -> None:
    from kafwire.records import decode_batches, encode_batch

    (batch,) = decode_batches(oddities.stamp(encode_batch([b"v"]), 77, 3, 5))
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 3, 5)
    with pytest.raises(ProtocolError):
        decode_batches(encode_batch([b"v"])[:17] + b"\0\0\0\0" + encode_batch([b"v"])[21:])


def test_an_address_that_is_not_loopback_is_refused() -> None:
    with pytest.raises(RemoteError, match="allow-remote"):
        resolve("192.0.2.1:9092", allow_remote=False)
    assert resolve("192.0.2.1:9092", allow_remote=True).port == 9092
    with pytest.raises(ValueError, match="HOST:PORT"):
        resolve("localhost", allow_remote=False)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["192.0.2.1:9092"], 2),
        (["nonsense"], 2),
        (["127.0.0.1:1", "--apis", "Nothing"], 2),
        (["127.0.0.1:1", "--seconds", "1"], 3),
    ],
)
def test_exit_codes_of_wrong_usage_and_of_no_server(arguments: list[str], code: int) -> None:
    assert CliRunner().invoke(main, ["fuzz", *arguments]).exit_code == code


def test_command_prints_the_coverage_and_writes_finds(tmp_path: Path) -> None:
    out = ["--out", str(tmp_path), "--seed", "5", "--requests", "120"]
    with FuzzedServer() as server:
        clean = CliRunner().invoke(main, ["fuzz", server.address, *out])
        assert clean.exit_code == 0, clean.output
        assert "API versions with a response" in clean.output
        one = CliRunner().invoke(main, ["fuzz", server.address, "--seed", "5", "--case", "3", "--json", *out[:2]])
        assert json.loads(one.stdout)["cases"] == 1

    def unsound(exchange: Any) -> None:
        if exchange.api == "Heartbeat":
            exchange.frames[0] += b"\0"

    with FuzzedServer(unsound) as server:
        found = CliRunner().invoke(main, ["fuzz", server.address, *out, "--apis", "Heartbeat"])
        assert found.exit_code == 1, found.output
        (file,) = tmp_path.glob("unreadable_*.json")
        again = CliRunner().invoke(main, ["fuzz", server.address, "--replay", str(file)])
        assert (again.exit_code, again.output.splitlines()[-1]) == (1, "reproduced")
    with FuzzedServer() as server:
        again = CliRunner().invoke(main, ["fuzz", server.address, "--replay", str(file)])
        assert (again.exit_code, again.output.splitlines()[-1]) == (0, "not reproduced")
