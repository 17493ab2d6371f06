"""Permitted requests of the fuzzer: nothing that harms leaves without permission, in whatever bytes it hides."""

import struct
from typing import Any

import pytest

from kafwire import protocol
from kafwire.errors import KafkaConnectionError
from kafwire.protocol import MESSAGES
from kafwire.testing.fuzzer import Campaign, Options, campaign, case, safety
from kafwire.testing.fuzzer.campaign import RemoteError, resolve
from kafwire.testing.fuzzer.case import Case, Step
from kafwire.testing.fuzzer.damage import APPEND, SET, SIZE, Damage
from kafwire.testing.fuzzer.execute import ForbiddenError, execute
from kafwire.testing.fuzzer.world import LIST_OFFSETS
from tests.support.broker.fuzzed_server import Exchange, FuzzedServer

Metadata, Fetch, Delete = protocol.MetadataRequest, protocol.FetchRequest, protocol.DeleteTopicsRequest
TOPIC = Metadata.MetadataRequestTopic(name="abc")
GROUP_APIS: tuple[str, ...] = ("Heartbeat", "LeaveGroup", "SyncGroup", "JoinGroup", "OffsetCommit")
GROUP_APIS += ("ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "ShareFetch", "ShareAcknowledge")


def frame(message: Any, version: int) -> bytes:
    """A request's bytes with their size before them."""
    data = protocol.encode_request(message, version, 1, "kafwire-fuzz")
    return struct.pack(">i", len(data)) + data


def keyed(key: int, version: int = 0) -> bytes:
    """A request of any API, without a body."""
    data = struct.pack(">hhih", key, version, 1, -1)
    return struct.pack(">i", len(data)) + data


def may(stream: bytes, *, destructive: bool = False) -> bool:
    return safety.permits(stream, destructive=destructive)


def request(api: str, **fields: Any) -> Any:
    return safety.request_class(api)(**fields)


# -- APIs


@pytest.mark.parametrize("name", safety.CLASS_OF)
def test_only_reads_and_the_fuzzers_own_sessions_leave_by_default(name: str) -> None:
    kind = safety.CLASS_OF[name]
    assert safety.allowed(name, destructive=False) == (kind in (safety.READ, safety.SESSION))
    assert safety.allowed(name, destructive=True) == (name not in safety.NEVER)
    if kind in (safety.WRITE, safety.DESTRUCTIVE):
        key = safety.request_class(name).api_key
        for version in (-1, 0, 1, 99):
            assert not may(keyed(key, version))
            assert may(keyed(key, version), destructive=True) == (name not in safety.NEVER)


def test_requests_that_end_a_scratch_cluster_are_never_sent() -> None:
    for key in (4, 5, 6, 7):
        assert not may(keyed(key))
        assert not may(keyed(key), destructive=True)
    assert not any(safety.allowed(name, destructive=True) for name in safety.NEVER)
    assert {"ControlledShutdown", "StopReplica", "LeaderAndIsr", "UpdateMetadata"} == safety.NEVER


def test_apis_newer_than_kafwire_count_as_harmful_and_impossible_ones_do_not() -> None:
    for key in (93, 999):
        assert not may(keyed(key))
        assert may(keyed(key), destructive=True)
    for key in (-1, 1000, 0x7FFF, -0x8000):
        assert may(keyed(key))
    assert not safety.allowed("SomethingNew", destructive=False)


def test_keys_of_every_declared_message_are_known() -> None:
    assert max(cls.api_key for cls in MESSAGES.values() if issubclass(cls, protocol.Request)) == 94
    assert safety.request_name(18) == "ApiVersions"
    assert safety.request_name(7) == "ControlledShutdown"


# -- the contents of frames


@pytest.mark.parametrize("api", GROUP_APIS)
def test_groups_of_others_are_left_alone(api: str) -> None:
    version = safety.request_class(api).max_stable_version
    assert may(frame(request(api, group_id="kafwire-fuzz-x"), version))
    for other in ("payments", "kafwire-fuz", "", "x-kafwire-fuzz-"):
        assert not may(frame(request(api, group_id=other), version))
        assert may(frame(request(api, group_id=other), version), destructive=True)


def test_transactional_ids_of_others_are_left_alone() -> None:
    assert may(frame(request("InitProducerId", transactional_id="kafwire-fuzz-t"), 4))
    assert may(frame(request("InitProducerId", transactional_id=None), 4))
    assert not may(frame(request("InitProducerId", transactional_id="payments"), 4))


@pytest.mark.parametrize("version", range(13))
def test_no_topic_is_created_by_asking_for_it(version: int) -> None:
    asked = Metadata(topics=[TOPIC])
    assert not may(frame(asked, version))
    assert may(frame(asked, version), destructive=True)
    quiet = Metadata(topics=[TOPIC], allow_auto_topic_creation=version < 4)
    assert may(frame(quiet, version)) == (version >= 4)
    assert may(frame(Metadata(topics=[] if version == 0 else None), version))


def test_no_fetch_is_sent_in_a_replicas_name() -> None:
    assert may(frame(Fetch(), 12))
    assert not may(frame(Fetch(replica_id=0), 12))
    assert not may(frame(Fetch(replica_id=2), 4))
    assert may(frame(Fetch(), 17))
    assert not may(frame(Fetch(replica_state=Fetch.ReplicaState(replica_id=0)), 17))
    for api in ("ListOffsets", "OffsetForLeaderEpoch"):
        assert not may(frame(request(api, replica_id=1), 4))
        assert may(frame(request(api, replica_id=-1), 4))


# -- damage


def test_every_frame_of_a_stream_counts() -> None:
    good, bad = frame(Metadata(topics=None), 4), frame(Delete(topic_names=["t"]), 1)
    assert may(good + good)
    assert not may(good + bad)
    assert not may(good + keyed(-1) + struct.pack(">i", 2) + b"ab" + bad)
    assert may(good + bad[:-1]), "a frame that is not whole is never read"
    assert may(good + struct.pack(">i", -5) + bad), "nothing is read after a size below 0"
    assert may(b"\0\0\0\3abc")


def test_frames_and_the_rest_of_them() -> None:
    assert list(safety.frames_of(b"\0\0\0\1a\0\0\0\2bc\0\0")) == [b"a", b"bc"]
    assert safety.unfinished(b"\0\0\0\1a\0\0") == (2, -1)
    assert safety.unfinished(b"\0\0\0\1a\0\0\0\5b") == (5, 5)
    assert safety.unfinished(b"\0\0\0\1a") == (0, -1)
    assert list(safety.frames_of(b"\0\0\0\0\0\0\0\1a")) == [b"", b"a"]
    assert list(safety.frames_of(b"\xff\xff\xff\xffabcd")) == []


def test_a_request_that_became_another_is_judged_as_that() -> None:
    heartbeat = frame(request("Heartbeat", group_id="kafwire-fuzz-x"), 3)
    delete_groups = heartbeat[:4] + struct.pack(">h", 42) + heartbeat[6:]
    assert may(heartbeat)
    assert not may(delete_groups)
    older = frame(Metadata(topics=[TOPIC], allow_auto_topic_creation=False), 4)
    older = older[:6] + struct.pack(">h", 3) + older[8:]
    assert not may(older), "version 3 cannot say that no topic is to be created"


@pytest.mark.parametrize(
    "damaged",
    [
        lambda data: data.replace(b"abc", b"\xff\xfe\xfd"),
        lambda data: data.replace(b"kafwire-fuzz", b"\xff" * 12),
        lambda data: data[:6] + struct.pack(">h", 20) + data[8:],
    ],
    ids=["name", "client id", "version to come"],
)
def test_bytes_that_a_tolerant_server_may_read_are_refused(damaged: Any) -> None:
    """Java puts replacement characters where text is not UTF-8, and goes on: a topic could be made."""
    data = damaged(frame(Metadata(topics=[TOPIC]), 4))
    assert safety.read_request(data[4:]) is None
    assert not may(data)
    assert may(data, destructive=True)


def test_bytes_that_no_server_can_read_may_be_sent() -> None:
    whole = frame(Metadata(topics=[TOPIC]), 4)
    for data in (whole[:-1], whole[:-3], whole.replace(b"\0\3abc", b"\x7f\xffabc"), whole[:14]):
        cut = struct.pack(">i", len(data) - 4) + data[4:]
        assert safety.read_request(cut[4:]) is None
        assert may(cut), cut
    for version in (-1, 99, 0x7FFF):
        assert may(whole[:6] + struct.pack(">h", version) + whole[8:])
    assert not may(whole[:6] + struct.pack(">h", 63) + whole[8:])


def test_reads_without_conditions_may_be_damaged_in_any_way() -> None:
    data = frame(request("DescribeGroups", groups=["abc"]), 4)
    assert may(data.replace(b"abc", b"\xff\xff\xff"))
    assert may(data[:6] + struct.pack(">h", 60) + data[8:])


def test_a_server_gets_nothing_of_a_harmful_case() -> None:
    """Aimed at a server that fails the test if it is asked to delete: in turns, at once, and in pieces of a damage."""
    delete = Step("DeleteTopics", 1, Delete(topic_names=["t"]))
    hidden = frame(delete.message, 1)
    good = request("DescribeGroups", groups=["kafwire-fuzz-x"])
    appended = Step("DescribeGroups", 1, good, (), (Damage(APPEND, data=hidden), Damage(SIZE, amount=-len(hidden))))
    turned = Step("DescribeGroups", 1, good, (), (Damage(SET, "header.request_api_key", "number", b"\0\x14"),))
    swallowing = Step("DescribeGroups", 1, good, (), (Damage(SIZE, amount=8),))
    seen: list[bytes] = []
    with FuzzedServer(on_bytes=lambda server, data: seen.append(data)) as server:
        target = resolve(server.address, allow_remote=False)
        for steps, delivery in (
            ((delete,), case.TURNS),
            ((appended,), case.TURNS),
            ((turned,), case.TURNS),
            ((Step("DescribeGroups", 1, good), delete), case.PIPELINED),
            ((appended,), case.SPLIT),
        ):
            with pytest.raises(ForbiddenError, match="without --destructive"):
                execute(target, Case(1, 0, case.DAMAGED, steps, delivery, (3,)), destructive=False)
        execute(target, Case(1, 0, case.DAMAGED, (swallowing,)), destructive=False)
    assert all(data[:2] != struct.pack(">h", 20) for data in seen)


def test_requests_sent_at_once_are_judged_as_they_follow_each_other() -> None:
    """The first is not whole, so the second's first bytes are its end; then comes what was hidden in the second."""
    good = request("DescribeGroups", groups=["kafwire-fuzz-x"])
    hidden = frame(Delete(topic_names=["t"]), 1)
    carrier = protocol.SaslAuthenticateRequest(auth_bytes=hidden)
    whole = frame(carrier, 0)
    first = Step("DescribeGroups", 1, good, (), (Damage(SIZE, amount=whole.index(hidden)),))
    steps = (first, Step("SaslAuthenticate", 0, carrier))
    assert may(whole)
    with FuzzedServer() as server:
        target = resolve(server.address, allow_remote=False)
        with pytest.raises(ForbiddenError, match="as they follow each other"):
            execute(target, Case(1, 0, case.DAMAGED, steps, case.JOINED), destructive=False)


def test_cases_without_permission_only_read_or_are_the_fuzzers_own() -> None:
    """The whole way, generator, oddities and scenarios, for a server that advertises nearly everything."""

    def advertise(exchange: Exchange) -> None:
        if exchange.api == "ApiVersions":
            exchange.response.api_keys = [
                protocol.ApiVersionsResponse.ApiVersion(api_key=key, min_version=0, max_version=50)
                for key in range(93)
                if key != LIST_OFFSETS  # the survey would ask for them, and this server cannot say
            ]
            exchange.encode()

    with FuzzedServer(advertise) as server:
        all_reads = Campaign(resolve(server.address, allow_remote=False), Options(seed=11))
    assert {"Metadata", "Fetch", "JoinGroup"} <= {api for api, _ in all_reads.pairs}
    for number in range(1000):
        made = all_reads.case(number)
        for step in made.steps:
            assert safety.CLASS_OF[step.api] in (safety.READ, safety.SESSION)
            if made.kind in (case.VALID, case.CONNECTION) and not step.binds:
                assert may(frame(step.message, step.version)), (number, step.api, step.version)


# -- addresses


@pytest.mark.parametrize("host", ["192.0.2.1", "10.0.0.1", "0.0.0.0", "::ffff:192.0.2.1", "2001:db8::1", "169.254.0.1"])
def test_addresses_of_others_are_remote(host: str) -> None:
    assert safety.remote_addresses([(2, (host, 9092))]) == [host]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "::1%lo"])
def test_loopback_is_not_remote(host: str) -> None:
    assert safety.remote_addresses([(2, (host, 9092))]) == []


def test_one_remote_address_among_others_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed: list[tuple[int, tuple[Any, ...]]] = [(2, ("127.0.0.1", 1)), (2, ("192.0.2.7", 1))]
    assert safety.remote_addresses(mixed) == ["192.0.2.7"]
    for resolved in (mixed, mixed[1:]):
        monkeypatch.setattr(campaign, "addresses", lambda host, port, found=resolved: found)
        with pytest.raises(RemoteError, match=r"192\.0\.2\.7"):
            resolve("both.example:1", allow_remote=False)


def test_a_name_without_address_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*arguments: object, **options: object) -> list[Any]:
        raise OSError("Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", unknown)
    with pytest.raises(KafkaConnectionError, match="check the name"):
        safety.addresses("nowhere.invalid", 9092)
