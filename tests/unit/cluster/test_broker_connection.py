"""`cluster.broker_connection`: one connection, from its greeting to its end, in a simulated world."""

from __future__ import annotations

import asyncio
import errno
import itertools
from collections.abc import Callable
from typing import Any

import pytest

import kafwire
from kafwire import protocol
from kafwire.cluster.broker_connection import GREETING_MAX_FRAME, BrokerConnection
from kafwire.cluster.cluster import Cluster
from kafwire.config import ClientConfig
from kafwire.errors import ErrorCode, KafkaConnectionError, KafkaError, KafkaTimeoutError, ProtocolError
from kafwire.memory._buffer import Buffer
from kafwire.testing.simulation.calls import HANGUP, NEVER, Call
from kafwire.testing.simulation.links import LATENCY_S
from tests.support.simulated.world import World


def make_connection(world: World, *, host: str | None = None, **options: Any) -> BrokerConnection:
    node = world.nodes[1]
    config = ClientConfig.build({"bootstrap_servers": world.bootstrap, **options})
    return BrokerConnection(world.engine, config, host or node.host, node.port, "control", 1)


def metadata() -> protocol.MetadataRequest:
    return protocol.MetadataRequest(topics=[])


def greetings(world: World) -> list[int]:
    return [call.version for call in world.made("ApiVersions")]


def refusal(*offered: int) -> protocol.ApiVersionsResponse:
    kind = protocol.ApiVersionsResponse
    keys = [kind.ApiVersion(api_key=18, min_version=0, max_version=version) for version in offered]
    return kind(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys)


def test_the_greeting_comes_first_and_the_highest_shared_version_is_spoken() -> None:
    with World() as world:
        world.nodes[1].versions["Metadata"] = (0, 9)
        connection = make_connection(world)
        world.run(connection.call(metadata()))
        assert [(call.name, call.version) for call in world.calls] == [("ApiVersions", 5), ("Metadata", 9)]
        world.run(connection.call(metadata()))
        assert len(world.connections) == 1


def test_concurrent_calls_open_one_connection() -> None:
    async def both(connection: BrokerConnection) -> None:
        await asyncio.gather(connection.call(metadata()), connection.call(metadata()), connection.open())

    with World() as world:
        world.run(both(make_connection(world)))
        assert greetings(world) == [5]


def test_a_connection_that_is_closed_with_the_last_response_of_its_greeting_is_not_ready() -> None:
    """The I/O thread reports both in one turn: the end before the task that waits for the response goes on."""

    def respond_and_close(_: Call) -> None:
        if len(world.connections) == 1:
            receiver = world.connections[0].receiver
            world.loop.call_soon(receiver.on_closed, errno.ECONNRESET, "reset by the broker")

    with World() as world:
        world.on("ApiVersions", respond_and_close)
        connection = make_connection(world)
        with pytest.raises(KafkaConnectionError, match="reset by the broker"):
            world.run(connection.open())
        assert not connection.is_ready
        world.run(connection.call(metadata()))
        assert connection.is_ready


def test_an_api_that_the_broker_lacks_is_named() -> None:
    with World() as world:
        world.nodes[1].versions["Metadata"] = (99, 100)
        with pytest.raises(ProtocolError, match="MetadataRequest: kafwire has 4 to 13, the broker 99 to 100"):
            world.run(make_connection(world).call(metadata()))


def test_an_unstable_version_is_spoken_only_when_it_is_asked_for() -> None:
    request = protocol.InitProducerIdRequest(transactional_id=None)
    assert request.max_version == request.max_stable_version + 1
    with World() as world:
        world.nodes[1].versions["InitProducerId"] = (0, request.max_version)
        connection = make_connection(world)
        world.run(connection.call(request))
        world.run(connection.call(request, version=request.max_version))
        spoken = [call.version for call in world.made("InitProducerId")]
        assert spoken == [request.max_stable_version, request.max_version]


@pytest.mark.parametrize(("offered", "tried"), [([2], [5, 2]), ([], [5, 0]), ([7], [5, 4])])
def test_a_refused_greeting_is_repeated_in_the_version_offered(offered: list[int], tried: list[int]) -> None:
    with World() as world:
        world.on("ApiVersions", lambda call: refusal(*offered) if call.version == 5 else None)
        world.run(make_connection(world).open())
        assert greetings(world) == tried
        assert len(world.connections) == 1


def test_a_refusal_that_cannot_be_read_falls_back_to_version_0() -> None:
    garbage = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big") + b"\xff" * 7
    with World() as world:
        world.on("ApiVersions", lambda call: garbage if call.version else None)
        world.run(make_connection(world).open())
        assert greetings(world) == [5, 0]


@pytest.mark.parametrize(("has", "tried", "later"), [(0, [5, 0], [0]), (3, [5, 0, 3], [3])])
def test_a_server_that_closes_on_a_newer_greeting_is_asked_in_version_0(
    has: int, tried: list[int], later: list[int]
) -> None:
    """Azure Event Hubs does so; every connection to that address begins with what it has from then on."""
    with World() as world:
        world.nodes[1].versions["ApiVersions"] = (0, has)
        world.on("ApiVersions", lambda call: HANGUP if call.version > has else None)
        cluster = Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap}))
        world.run(cluster.refresh())
        assert greetings(world) == tried
        assert len(world.connections) == 2
        world.run(cluster.connection(1, "produce").open())
        assert greetings(world) == tried + later
        assert len(world.connections) == 3
        world.off("ApiVersions")
        world.nodes[1].versions.clear()  # another release runs there now
        world.run(cluster.connection(1, "fetch").open())
        world.run(cluster.connection(1, "more").open())
        assert greetings(world) == [*tried, *later, *later, 5]


def test_a_server_that_closed_for_another_reason_is_greeted_as_ever_the_next_time() -> None:
    with World() as world:
        world.on("ApiVersions", lambda _: HANGUP if len(world.made("ApiVersions")) == 1 else None)
        connection = make_connection(world)
        world.run(connection.open())
        world.break_connections(1)
        world.pass_time(1)
        world.run(connection.open())
        assert greetings(world) == [5, 0, 5]


def test_a_broker_that_refuses_every_greeting_is_named() -> None:
    with World() as world:
        world.on("ApiVersions", lambda _: refusal())
        with pytest.raises(KafkaConnectionError, match="UNSUPPORTED_VERSION"):
            world.run(make_connection(world).open())
        assert greetings(world) == [5, 0]


def test_a_server_that_is_no_broker_is_named() -> None:
    with World() as world:
        world.on("ApiVersions", lambda _: b"SSH-2.0-server")
        with pytest.raises(KafkaConnectionError, match=r"broker 1 at 10\.0\.0\.1:9092.*ApiVersionsResponse"):
            world.run(make_connection(world).open())


def test_the_frame_limit_is_small_until_the_broker_has_proved_itself() -> None:
    limits = []

    def note(_: Call) -> None:
        limits.append(world.connections[0].max_frame)

    with World() as world:
        world.on("ApiVersions", note)
        world.on("Metadata", note)
        world.run(make_connection(world, max_frame_bytes=GREETING_MAX_FRAME * 3).call(metadata()))
        assert limits == [GREETING_MAX_FRAME, GREETING_MAX_FRAME * 3]


def test_a_throttled_connection_waits_before_it_sends_again() -> None:
    with World() as world:
        connection = make_connection(world)
        world.on("Metadata", lambda _: protocol.MetadataResponse(throttle_time_ms=2_000))
        world.run(connection.call(metadata()))
        world.run(connection.call(metadata()))
        first, second = world.made("Metadata")
        assert second.at_ms - first.at_ms >= 2_000


def test_a_throttle_in_the_greeting_is_waited_for() -> None:
    with World() as world:
        connection = make_connection(world)
        greeting = world.serve

        def throttled(call: Call) -> Any:
            response = greeting(call)
            response.throttle_time_ms = 700
            return response

        world.on("ApiVersions", throttled)
        world.run(connection.call(metadata()))
        (greeted,), (asked,) = world.made("ApiVersions"), world.made("Metadata")
        assert asked.at_ms - greeted.at_ms >= 700
        assert connection.stats()["throttle_ms"] == 700


def test_a_throttle_in_the_response_to_an_abandoned_call_is_waited_for() -> None:
    """A call is abandoned if the request went to two brokers, and the other was quicker."""

    async def late(call: Call) -> Any:
        await asyncio.sleep(1.0)
        return protocol.MetadataResponse(throttle_time_ms=5_000)

    async def give_up_and_ask_again(connection: BrokerConnection) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connection.call(metadata()), 0.3)
        await asyncio.sleep(1.0)
        world.off("Metadata")
        await connection.call(metadata())

    with World() as world:
        connection = make_connection(world)
        world.on("Metadata", late)
        world.run(give_up_and_ask_again(connection))
        first, second = world.made("Metadata")
        assert second.at_ms - first.at_ms >= 6_000


def test_after_a_throttle_on_another_connection_the_greeting_still_comes_first() -> None:
    """The connection breaks while a call waits for a throttle to end, and another is being opened just then."""

    async def throttled(connection: BrokerConnection) -> None:
        await connection.open()
        connection.note_throttle(1_000)
        call = asyncio.ensure_future(connection.call(metadata()))
        await asyncio.sleep(1.0 - LATENCY_S / 2)
        world.break_connections(1)
        await asyncio.sleep(0)
        await asyncio.gather(connection.open(), call)

    with World() as world:
        world.run(throttled(make_connection(world)))
        assert [(call.connection, call.name) for call in world.calls] == [
            (0, "ApiVersions"),
            (1, "ApiVersions"),
            (1, "Metadata"),
        ]


def test_a_request_without_a_response_in_time_takes_all_that_follow_with_it() -> None:
    async def three(connection: BrokerConnection) -> Any:
        await connection.open()
        # The second and third have time left, but responses come in order: nothing comes any more.
        calls = [connection._exchange(metadata(), 13, timeout) for timeout in (500, 10_000, 20_000)]
        return await asyncio.gather(*calls, return_exceptions=True)

    with World() as world:
        connection = make_connection(world)
        world.on("Metadata", lambda _: NEVER)
        started = world.engine.now_ms()
        first, second, third = world.run(three(connection))
        assert 500 <= world.engine.now_ms() - started < 600
        assert isinstance(first, KafkaTimeoutError)
        assert "no response from broker 1 at 10.0.0.1:9092" in str(first)
        assert isinstance(second, KafkaConnectionError)
        assert isinstance(third, KafkaConnectionError)
        assert not connection.is_ready
        assert connection.in_flight == 0
        assert world.connections[0].closed
        world.off("Metadata")
        world.run(connection.call(metadata()))
        assert len(world.connections) == 2


def test_a_cancelled_call_keeps_its_slot_so_that_responses_go_to_their_own_requests() -> None:
    async def cancel_first(connection: BrokerConnection) -> tuple[int, Any]:
        await connection.open()
        first = asyncio.ensure_future(connection.call(metadata()))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(connection.call(metadata()))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        in_flight = connection.in_flight
        response = await second
        assert first.cancelled()
        return in_flight, response

    with World() as world:
        numbers = itertools.count(1)
        world.on("Metadata", lambda _: protocol.MetadataResponse(controller_id=next(numbers)))
        connection = make_connection(world)
        in_flight, response = world.run(cancel_first(connection))
        assert in_flight == 2
        assert response.controller_id == 2
        assert connection.is_ready
        assert len(world.connections) == 1


def test_a_lost_connection_fails_pending_requests_and_the_next_call_opens_another() -> None:
    with World() as world:
        connection = make_connection(world)
        world.on("Metadata", lambda _: HANGUP if len(world.connections) == 1 else None)
        with pytest.raises(KafkaConnectionError, match="reset by the broker"):
            world.run(connection.call(metadata()))
        assert not connection.is_ready
        assert connection.transport is None
        world.run(connection.call(metadata()))
        assert len(world.connections) == 2


def test_the_next_connection_speaks_the_versions_of_its_own_greeting() -> None:
    with World() as world:
        connection = make_connection(world)
        world.nodes[1].versions["Metadata"] = (0, 9)
        world.run(connection.call(metadata()))
        connection.fail("the broker is upgraded")
        world.nodes[1].versions["Metadata"] = (0, 12)
        world.run(connection.call(metadata()))
        assert [call.version for call in world.made("Metadata")] == [9, 12]


def test_a_response_that_cannot_be_read_ends_the_connection() -> None:
    async def two(connection: BrokerConnection) -> Any:
        await connection.open()
        return await asyncio.gather(connection.call(metadata()), connection.call(metadata()), return_exceptions=True)

    with World() as world:
        connection = make_connection(world)
        world.on("Metadata", lambda _: b"\0" + b"\xff" * 9)
        first, second = world.run(two(connection))
        assert isinstance(first, ProtocolError)
        assert first.api == "MetadataResponse"
        assert isinstance(second, KafkaConnectionError)
        assert world.connections[0].closed


def test_reconnecting_waits_longer_after_each_failure_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[float] = []

    async def insist(connection: BrokerConnection) -> None:
        for _ in range(9):
            attempts.append(-1.0)
            with pytest.raises(KafkaConnectionError, match="connection refused"):
                await connection.open()

    with World() as world:
        world.nodes[1].down = True
        times = []
        connect = world.connect

        def noted(*arguments: Any) -> Any:
            times.append(world.engine.now_ms())
            return connect(*arguments)

        monkeypatch.setattr(world, "connect", noted)
        connection = make_connection(world, reconnect_backoff_ms=50, reconnect_backoff_max_ms=1_000)
        world.run(insist(connection))
        waits = [late - early - LATENCY_S * 1000 for early, late in itertools.pairwise(times)]
        assert len(waits) == len(attempts) - 1
        for wait, nominal in zip(waits, [50, 100, 200, 400, 800, 1_000, 1_000, 1_000], strict=True):
            assert 0.8 * nominal - 1e-6 <= wait <= 1.2 * nominal + 1e-6
        world.nodes[1].down = False
        world.run(connection.open())
        world.kill(1)
        world.pass_time(0.01)
        del times[:]
        for _ in range(2):
            with pytest.raises(KafkaConnectionError):
                world.run(connection.open())
        assert times[1] - times[0] < 70, "a success must end the backoff"


def test_an_open_in_the_turn_in_which_another_failed_makes_another_attempt() -> None:
    async def open_again(connection: BrokerConnection) -> None:
        first = asyncio.ensure_future(connection.open())
        await asyncio.sleep(0)  # it begins
        await asyncio.sleep(0)  # it fails
        assert not first.done()
        assert connection.failures == 0, "nothing has followed from that yet"
        for _ in range(2):
            with pytest.raises(KafkaConnectionError, match="not known"):
                await connection.open()
        with pytest.raises(KafkaConnectionError, match="not known"):
            await first

    with World() as world:
        connection = make_connection(world, host="nowhere")
        world.run(open_again(connection))
        assert connection.failures == 3


def test_a_server_that_never_responds_is_given_up_in_time() -> None:
    with World() as world:
        world.nodes[1].silent = True
        connection = make_connection(world, socket_connection_setup_timeout_ms=3_000)
        started = world.engine.now_ms()
        with pytest.raises(KafkaConnectionError, match=r"10\.0\.0\.1: no response within 3 s"):
            world.run(connection.open())
        assert world.engine.now_ms() - started == pytest.approx(3_000)
        assert world.connections[0].closed


def test_a_greeting_without_a_response_is_given_up_in_time() -> None:
    with World() as world:
        world.on("ApiVersions", lambda _: NEVER)
        connection = make_connection(world, socket_connection_setup_timeout_ms=3_000)
        with pytest.raises(KafkaConnectionError, match="no response within 3 s"):
            world.run(connection.open())
        assert connection.in_flight == 0
        assert world.connections[0].closed


@pytest.fixture
def addresses() -> list[str]:
    """The addresses of `kafka.example`."""
    return []


def tried(world: World, connection: BrokerConnection) -> list[str]:
    """The addresses that opening `connection` goes through."""
    before = len(world.connections)
    world.run(connection.open())
    return [connection.node.host for connection in world.connections[before:]]


def test_every_address_of_a_host_is_tried(addresses: list[str]) -> None:
    addresses += ["10.9.9.9", "10.8.8.8", "10.0.0.1"]
    with World() as world:
        world.engine.resolver.names["kafka.example"] = addresses
        assert tried(world, make_connection(world, host="kafka.example")) == addresses


def test_addresses_that_failed_are_the_last_to_be_tried_again(addresses: list[str]) -> None:
    """Each of them may cost the whole time to set up a connection."""
    addresses += ["10.9.9.9", "10.8.8.8", "10.0.0.1"]
    with World() as world:
        world.engine.resolver.names["kafka.example"] = addresses
        connection = make_connection(world, host="kafka.example")
        world.run(connection.open())
        world.break_connections(1)
        world.pass_time(0.01)
        assert tried(world, connection) == ["10.0.0.1"]
        connection.fail("given up")
        addresses.reverse()
        assert tried(world, connection) == ["10.9.9.9", "10.8.8.8", "10.0.0.1"], (
            "all have failed: the earliest comes first"
        )


@pytest.mark.parametrize("owed", [True, False])
def test_the_next_address_is_tried_after_one_that_broke_off_with_a_response_owed(
    addresses: list[str], *, owed: bool
) -> None:
    """One that closes an idle connection, as brokers do after connections.max.idle.ms, is not to blame."""

    async def lose(world: World, connection: BrokerConnection) -> None:
        await connection.open()
        pending = asyncio.ensure_future(connection.call(metadata())) if owed else None
        await asyncio.sleep(LATENCY_S / 2)
        world.break_connections(1)
        if pending is not None:
            with pytest.raises(KafkaConnectionError, match="reset"):
                await pending
        await asyncio.sleep(0.01)
        assert not connection.is_ready

    addresses += ["10.0.0.1", "10.0.0.2"]
    with World(brokers=2) as world:
        world.engine.resolver.names["kafka.example"] = addresses
        connection = make_connection(world, host="kafka.example")
        world.run(lose(world, connection))
        started = world.engine.now_ms()
        assert tried(world, connection) == ["10.0.0.2" if owed else "10.0.0.1"]
        assert world.engine.now_ms() - started == pytest.approx(2 * LATENCY_S * 1000), "at once, without backoff"


def test_the_next_address_is_tried_after_one_that_hangs(addresses: list[str]) -> None:
    addresses += ["10.0.0.1", "10.0.0.2"]
    with World(brokers=2) as world:
        world.engine.resolver.names["kafka.example"] = addresses
        world.on("Metadata", lambda call: NEVER if call.node == 1 else None)
        connection = make_connection(world, host="kafka.example", request_timeout_ms=1_000)
        with pytest.raises(KafkaTimeoutError):
            world.run(connection.call(metadata()))
        assert tried(world, connection) == ["10.0.0.2"]


def test_a_name_that_resolves_to_new_addresses_is_followed(addresses: list[str]) -> None:
    addresses += ["10.0.0.1"]
    with World(brokers=2) as world:
        world.engine.resolver.names["kafka.example"] = addresses
        connection = make_connection(world, host="kafka.example")
        world.run(connection.open())
        world.kill(1)
        addresses[:] = ["10.0.0.2"]
        world.pass_time(0.01)
        assert tried(world, connection) == ["10.0.0.2"]


def test_an_unknown_host_is_named() -> None:
    with World() as world, pytest.raises(KafkaConnectionError, match=r"cannot resolve 'kafka\.example'"):
        world.run(make_connection(world, host="kafka.example").open())


@pytest.mark.parametrize("host", ["foo..bar", "x" * 64 + ".example"])
def test_a_host_name_that_cannot_be_one_is_named(host: str) -> None:
    """A broker may advertise such a name."""
    with World() as world, pytest.raises(KafkaConnectionError, match=f"cannot resolve '{host}'"):
        world.run(make_connection(world, host=host).open())


def test_a_name_server_that_hangs_is_given_up_in_time() -> None:
    with World() as world:
        connection = make_connection(world, host="kafka.example", socket_connection_setup_timeout_ms=3_000)
        world.engine.resolver.hangs = True
        started = world.engine.now_ms()
        with pytest.raises(KafkaConnectionError, match=r"'kafka\.example' within .* \(3000\)"):
            world.run(connection.open())
        assert world.engine.now_ms() - started == pytest.approx(3_000)


def test_closing_fails_pending_and_later_calls() -> None:
    async def close_meanwhile(connection: BrokerConnection) -> Any:
        await connection.open()
        calls = [asyncio.ensure_future(connection.call(metadata())) for _ in range(2)]
        await asyncio.sleep(LATENCY_S / 2)
        connection.close()
        return await asyncio.gather(*calls, connection.call(metadata()), return_exceptions=True)

    with World() as world:
        for outcome in world.run(close_meanwhile(make_connection(world))):
            assert isinstance(outcome, KafkaConnectionError)


@pytest.mark.parametrize("silent", [True, False])
def test_closing_while_it_opens_is_an_error_of_the_connection_not_a_cancellation(*, silent: bool) -> None:
    async def close_meanwhile(connection: BrokerConnection) -> None:
        opening = asyncio.ensure_future(connection.open())
        await asyncio.sleep(LATENCY_S * 1.5)
        connection.close()
        await opening

    with World() as world:
        world.nodes[1].silent = silent
        with pytest.raises(KafkaConnectionError, match="client was closed during the connect to broker 1"):
            world.run(close_meanwhile(make_connection(world)))


def test_late_reports_of_an_old_connection_are_ignored() -> None:
    async def scenario(world: World, connection: BrokerConnection) -> None:
        await connection.open()
        old = world.connections[0].receiver
        connection.fail("given up")
        await connection.open()
        pending = asyncio.ensure_future(connection.call(metadata()))
        await asyncio.sleep(0)
        old.on_response(connection._correlation, Buffer(b"\0" * 8))
        old.on_sent(connection._correlation)
        old.on_closed(104, "late")
        old.on_connected()
        assert (await pending).cluster_id == "simulated"
        assert connection.is_ready

    with World() as world:
        world.run(scenario(world, make_connection(world)))


def test_a_request_without_a_response_is_done_once_it_is_sent() -> None:
    outcomes: list[tuple[object, KafkaError | None]] = []

    async def scenario(connection: BrokerConnection) -> None:
        await connection.open()
        request = protocol.ProduceRequest(acks=0, timeout_ms=1)
        correlation_id = connection.next_correlation_id()
        frame = protocol.encode_request(request, 9, correlation_id, "test")
        connection.send(
            correlation_id, [frame], lambda frame, error: outcomes.append((frame, error)), expect_response=False
        )
        assert not outcomes, "the callback never comes from within send"
        await asyncio.sleep(0.1)

    with World() as world:
        connection = make_connection(world)
        world.run(scenario(connection))
        assert outcomes == [(None, None)]
        assert connection.in_flight == 0


def test_sending_without_a_connection_is_an_error() -> None:
    with World() as world, pytest.raises(KafkaConnectionError, match="is closed"):
        make_connection(world).send(1, [b""], lambda _frame, _error: None)


def test_counters_of_requests_on_the_wire() -> None:
    with World() as world:
        connection = make_connection(world)
        assert connection.stats()["requests"] == 0
        assert connection.stats()["connected"] is False
        world.run(connection.open())
        before = connection.stats()
        assert before["connects"] == before["requests"] == before["responses"] == 1
        assert before["authentications"] == 0  # without SASL
        response = protocol.MetadataResponse(cluster_id="c", throttle_time_ms=70)
        world.on("Metadata", lambda _: response)
        world.run(connection.call(metadata()))
        world.pass_time(0.07)
        after = connection.stats()
        request = protocol.encode_request(metadata(), 13, 2, "kafwire")
        assert after["bytes_out"] - before["bytes_out"] == 4 + len(request)
        assert after["bytes_in"] - before["bytes_in"] == 4 + 5 + len(response.encode(13))
        assert after["requests"] - before["requests"] == after["responses"] - before["responses"] == 1
        assert after["throttle_ms"] == 70
        assert (after["node"], after["role"], after["host"], after["connected"]) == (1, "control", "10.0.0.1", True)
        connection.fail("given up")
        world.run(connection.call(metadata()))
        assert connection.stats()["connects"] == 2
        assert connection.stats()["requests"] == 4


def test_requests_that_bypass_the_engine_are_counted_too() -> None:
    with World() as world:
        connection = make_connection(world)
        numbers = {"batches": 3, "bytes_out": 50, "responses": 2, "bytes_in": 20, "latency_ms_sum": 9.0}
        for latency_ms_max, most in ((4.0, 4.0), (3.0, 4.0), (5.0, 5.0)):
            connection.went_by({**numbers, "latency_ms_max": latency_ms_max})
            assert connection.stats()["latency_ms_max"] == most
        stats = connection.stats()
        assert [stats[name] for name in ("requests", "bytes_out", "responses", "bytes_in")] == [9, 150, 6, 60]
        assert stats["latency_ms_sum"] == 27.0


def test_latencies_run_from_the_request_to_its_response() -> None:
    waits = itertools.cycle([0.2, 0.05])

    async def slow(_: Call) -> None:
        await asyncio.sleep(next(waits))

    async def both(connection: BrokerConnection) -> None:
        await connection.open()
        before = connection.latency_ms_sum
        for _ in range(2):
            await connection.call(metadata())
        assert connection.latency_ms_sum - before == pytest.approx(250 + 2 * LATENCY_S * 1000)

    with World() as world:
        world.on("Metadata", slow)
        connection = make_connection(world)
        world.run(both(connection))
        assert connection.latency_ms_max == pytest.approx(200 + LATENCY_S * 1000)


def test_a_lost_request_is_counted_and_its_response_is_not() -> None:
    with World() as world:
        world.on("Metadata", lambda _: HANGUP)
        connection = make_connection(world)
        with pytest.raises(KafkaConnectionError):
            world.run(connection.call(metadata()))
        stats = connection.stats()
        assert (stats["requests"], stats["responses"], stats["in_flight"]) == (2, 1, 0)


def test_a_broker_gets_the_name_of_the_client_software() -> None:
    with World() as world:
        world.run(make_connection(world).open())
        greeting = world.made("ApiVersions")[0].message
        assert greeting.client_software_name == "kafwire"
        assert greeting.client_software_version == kafwire.__version__


def test_an_ipv6_address_stands_in_brackets() -> None:
    with World() as world:
        world.nodes[1].host = "fd00::1"
        world.run(make_connection(world).open())
        assert make_connection(world).where == "broker 1 at [fd00::1]:9092"


class Outcomes:
    """The outcomes of three requests on one connection, in order."""

    def __init__(self, world: World, connection: BrokerConnection) -> None:
        self.heard: list[tuple[int, str]] = []
        world.run(connection.open())
        self.connection = connection
        self.numbers = [self.send(connection) for _ in range(3)]

    def send(self, connection: BrokerConnection) -> int:
        number = connection.next_correlation_id()
        request = protocol.encode_request(metadata(), 13, number, "test")

        def on_response(frame: Buffer | None, error: KafkaError | None) -> None:
            self.heard.append((number, "response" if frame is not None else type(error).__name__))

        connection.send(number, [request], on_response)
        return number


ENDS: dict[str, Callable[[BrokerConnection, int], None]] = {
    "close": lambda connection, _: connection.close("test"),
    "fail": lambda connection, _: connection.fail("test"),
    "time_out": lambda connection, number: connection.time_out(number),
}


@pytest.mark.parametrize("how", ENDS)
def test_the_end_of_a_connection_calls_no_callback_from_within(how: str) -> None:
    """The caller may be in the middle of what a callback changes: it is called by the engine's next turn, in order."""

    async def end() -> None:
        ENDS[how](outcomes.connection, outcomes.numbers[2])
        assert outcomes.connection.in_flight == 0
        assert outcomes.heard == []
        await asyncio.sleep(0)
        assert [number for number, _ in outcomes.heard] == outcomes.numbers

    with World() as world:
        world.on("Metadata", lambda _: NEVER)
        outcomes = Outcomes(world, make_connection(world))
        world.run(end())
        kinds = [kind for _, kind in outcomes.heard]
        late = "KafkaTimeoutError" if how == "time_out" else "KafkaConnectionError"
        assert kinds == ["KafkaConnectionError", "KafkaConnectionError", late]
        world.pass_time(100)
        assert len(outcomes.heard) == 3


def test_responses_that_came_before_the_end_are_reported_before_lost_requests() -> None:
    with World() as world:
        world.on("Metadata", lambda _: HANGUP if len(world.made("Metadata")) == 2 else None)
        outcomes = Outcomes(world, make_connection(world))
        world.pass_time(1)
        lost = "KafkaConnectionError"
        assert outcomes.heard == list(zip(outcomes.numbers, ["response", lost, lost], strict=True))


def test_a_callback_that_raises_leaves_no_other_request_open(caplog: pytest.LogCaptureFixture) -> None:
    with World() as world:
        world.on("Metadata", lambda _: NEVER)
        connection = make_connection(world)
        world.run(connection.open())

        def raises(*_: object) -> None:
            raise LookupError("a defect")

        connection.send(1000, [protocol.encode_request(metadata(), 13, 1000, "test")], raises)
        outcomes = Outcomes(world, connection)
        connection.fail("test")
        world.pass_time(0.01)
        assert [number for number, _ in outcomes.heard] == outcomes.numbers
        (record,) = caplog.records
        assert "the failure of a request to broker 1 at 10.0.0.1:9092 could not be handled" in record.message
        assert record.exc_info is not None
        assert record.exc_info[0] is LookupError


def test_a_request_that_could_not_be_sent_gets_no_outcome_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: object, **__: object) -> None:
        raise MemoryError

    with World() as world:
        world.on("Metadata", lambda _: NEVER)
        connection = make_connection(world)
        world.run(connection.open())
        heard: list[object] = []

        async def send() -> None:
            connection.send(1, [b""], lambda *outcome: heard.append(outcome), timeout_ms=10)

        with monkeypatch.context() as patch:
            patch.setattr(world.connections[0], "submit", no_memory)
            with pytest.raises(MemoryError):
                world.run(send())
        assert connection.in_flight == 0
        world.pass_time(1)
        assert connection.is_ready
        connection.fail("test")
        world.pass_time(1)
        assert heard == []
