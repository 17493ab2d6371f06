"""`cluster.authentication`: SASL on a connection, at first and again, in a simulated world."""

from __future__ import annotations

import asyncio
import errno
import gc
import itertools
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from kafwire import protocol
from kafwire.cluster.authentication import MAX_HUNG, Authentication, Prepared
from kafwire.cluster.broker_connection import GREETING_MAX_FRAME, BrokerConnection
from kafwire.config import ClientConfig
from kafwire.errors import AuthenticationError, ErrorCode, KafkaConnectionError
from kafwire.security.client_security import ClientSecurity
from kafwire.security.login import Login
from kafwire.security.oauth_token import OAuthToken
from kafwire.testing.simulation.calls import HANGUP, NEVER, Call
from kafwire.testing.simulation.links import LATENCY_S
from tests.support.login_options import Options
from tests.support.simulated.world import World

LIFETIME_MS = 100_000


def make_connection(
    world: World, *, login: Any = None, cluster_id: str | None = None, **options: Any
) -> BrokerConnection:
    """`login`: instead of what the options say."""
    node = world.nodes[1]
    given: dict[str, Any] = {
        "bootstrap_servers": world.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "alice",
        "sasl_password": "swordfish",
        "connections_max_idle_ms": -1,
        **options,
    }
    config = ClientConfig.build(given)
    security: Any = ClientSecurity(config) if login is None else SimpleNamespace(tls=None, login=login)
    return BrokerConnection(
        world.engine, config, node.host, node.port, "control", 1, security=security, cluster_id=lambda: cluster_id
    )


def metadata() -> protocol.MetadataRequest:
    return protocol.MetadataRequest(topics=[])


def accept(world: World, lifetime_ms: int = 0) -> list[bytes]:
    """Let brokers accept each client; return the messages that they get."""
    said: list[bytes] = []

    def authenticate(call: Call) -> Any:
        said.append(call.message.auth_bytes)
        return protocol.SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)

    world.on("SaslHandshake", lambda _: protocol.SaslHandshakeResponse(mechanisms=["PLAIN"]))
    world.on("SaslAuthenticate", authenticate)
    return said


def refuse(
    world: World, code: int = ErrorCode.SASL_AUTHENTICATION_FAILED, message: str | None = "not this user?"
) -> None:
    accept(world)
    world.on("SaslAuthenticate", lambda _: protocol.SaslAuthenticateResponse(error_code=code, error_message=message))


def order(world: World) -> list[str]:
    return [call.name for call in world.calls]


def test_a_client_logs_in_before_anything_else_is_asked() -> None:
    with World() as world:
        said = accept(world)
        connection = make_connection(world)
        world.run(connection.call(metadata()))
        world.run(connection.call(metadata()))
        assert order(world) == ["ApiVersions", "SaslHandshake", "SaslAuthenticate", "Metadata", "Metadata"]
        assert said == [b"\0alice\0swordfish"]


def test_the_brokers_text_of_a_refusal_is_in_the_error_without_a_retry() -> None:
    with World() as world:
        refuse(world)
        connection = make_connection(world)
        with pytest.raises(AuthenticationError, match=r"broker 1 at .* refused 'alice' by PLAIN: not this user\?"):
            world.run(connection.open())
        assert order(world) == ["ApiVersions", "SaslHandshake", "SaslAuthenticate"]
        assert all(each.closed for each in world.connections)
        assert not connection.is_ready


def test_the_next_attempt_is_the_next_call_s_after_a_pause() -> None:
    with World() as world:
        refuse(world)
        connection = make_connection(world, reconnect_backoff_ms=1000, reconnect_backoff_max_ms=1000)
        began = world.engine.now_ms()
        for _ in range(2):
            with pytest.raises(AuthenticationError):
                world.run(connection.open())
        assert len(world.made("SaslAuthenticate")) == 2
        assert world.engine.now_ms() - began > 500


def test_a_broker_s_text_is_escaped() -> None:
    with World() as world:
        refuse(world, message="no\nERROR \x1b[2J")
        with pytest.raises(AuthenticationError) as refused:
            world.run(make_connection(world).open())
        assert str(refused.value).endswith(r": no\nERROR \x1b[2J")


class Tokens:
    """A provider, and brokers that accept one of its tokens."""

    def __init__(self, world: World) -> None:
        self.now = self.good = "A"
        self.asked = 0
        self.offered: list[str] = []
        world.on("SaslHandshake", lambda _: protocol.SaslHandshakeResponse(mechanisms=["OAUTHBEARER"]))
        world.on("SaslAuthenticate", self._authenticate)

    def __call__(self) -> OAuthToken:
        self.asked += 1
        return OAuthToken(self.now, 4e9)

    def _authenticate(self, call: Call) -> Any:
        self.offered.append(call.message.auth_bytes.split(b"Bearer ")[1].split(b"\x01")[0].decode())
        refused = ErrorCode.SASL_AUTHENTICATION_FAILED if self.offered[-1] != self.good else 0
        return protocol.SaslAuthenticateResponse(error_code=refused, error_message="revoked" if refused else None)


def by_token(world: World, provider: Tokens) -> BrokerConnection:
    options: dict[str, Any] = {
        "sasl_username": None,
        "sasl_password": None,
        "sasl_oauthbearer_token_provider": provider,
    }
    return make_connection(world, sasl_mechanism="OAUTHBEARER", **options)


def test_a_refused_token_is_replaced_at_once() -> None:
    with World() as world:
        tokens = Tokens(world)
        connection = by_token(world, tokens)
        world.run(connection.call(metadata()))
        tokens.now = tokens.good = "B"
        connection._drop("cut")
        world.run(connection.call(metadata()))
        assert (tokens.offered, tokens.asked) == (["A", "A", "B"], 2)


def test_a_provider_without_another_token_is_asked_with_back_off() -> None:
    with World() as world:
        tokens = Tokens(world)
        connection = by_token(world, tokens)
        world.run(connection.call(metadata()))
        tokens.good = "B"
        connection._drop("cut")
        with pytest.raises(AuthenticationError, match="refused its token by OAUTHBEARER: revoked"):
            world.run(connection.open())
        assert tokens.asked == 2
        until_s = world.engine.now_ms() / 1000 + 60
        while world.engine.now_ms() / 1000 < until_s:
            with pytest.raises(AuthenticationError, match="revoked"):
                world.run(connection.open())
            world.pass_time(0.1)
        assert 5 <= tokens.asked <= 13, "after 0.5, 1, 2, 4, 8, 10, 10... s"
        assert len(tokens.offered) == tokens.asked + 1
        tokens.now = "B"
        world.pass_time(10.0)
        world.run(connection.call(metadata()))


def test_connections_that_are_refused_together_count_once() -> None:
    async def open_both(one: BrokerConnection, other: BrokerConnection) -> None:
        await asyncio.gather(one.open(), other.open())

    with World() as world:
        tokens = Tokens(world)
        options: dict[str, Any] = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_provider": tokens}
        shared = Login(Options(**options))
        connection, other = (make_connection(world, login=shared) for _ in range(2))
        world.run(open_both(connection, other))
        tokens.now = tokens.good = "B"
        connection._drop("cut")
        other._drop("cut")
        world.run(open_both(connection, other))
        assert tokens.asked == 2


def test_a_mechanism_that_is_not_offered_is_named_with_those_that_are() -> None:
    with World() as world:
        kind = protocol.SaslHandshakeResponse
        offered = kind(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["GSSAPI", "SCRAM-SHA-512"])
        world.on("SaslHandshake", lambda _: offered)
        with pytest.raises(AuthenticationError, match="sasl_mechanism=PLAIN .* it offers GSSAPI, SCRAM-SHA-512"):
            world.run(make_connection(world).open())


def test_a_listener_without_sasl() -> None:
    with World() as world:
        world.on("SaslHandshake", lambda _: protocol.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
        with pytest.raises(AuthenticationError, match="expects no SASL: set security_protocol"):
            world.run(make_connection(world).open())


def test_a_broker_that_has_no_sasl_at_all() -> None:
    with World() as world:
        world.nodes[1].versions["SaslHandshake"] = (0, 0)
        with pytest.raises(AuthenticationError, match="does not support SaslHandshake version 1"):
            world.run(make_connection(world).open())


def test_an_error_that_may_pass_is_one_of_the_connection() -> None:
    with World() as world:
        refuse(world, ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
        with pytest.raises(KafkaConnectionError, match="COORDINATOR_NOT_AVAILABLE"):
            world.run(make_connection(world).open())


def test_a_connection_that_is_closed_while_the_last_response_is_handled_is_not_ready() -> None:
    """The connection was taken for ready, so no call connected again; its session was to be renewed, too."""

    def accept_and_close(_: Call) -> Any:
        receiver = world.connections[-1].receiver
        world.loop.call_soon(receiver.on_closed, errno.ECONNRESET, "reset by the broker")
        return protocol.SaslAuthenticateResponse(session_lifetime_ms=LIFETIME_MS)

    with World() as world:
        accept(world)
        world.on("SaslAuthenticate", accept_and_close)
        connection = make_connection(world)
        with pytest.raises(KafkaConnectionError, match="reset by the broker"):
            world.run(connection.open())
        assert not connection.is_ready
        world.pass_time(LIFETIME_MS / 1000)
        assert len(world.made("SaslAuthenticate")) == 1
        accept(world)
        world.run(connection.call(metadata()))
        assert connection.is_ready
        assert connection.stats()["connects"] == 1
        assert connection.stats()["authentications"] == 2


@pytest.mark.parametrize("api", ["SaslHandshake", "SaslAuthenticate"])
def test_a_broker_that_hangs_in_the_middle_of_it(api: str) -> None:
    with World() as world:
        accept(world)
        world.on(api, lambda _: NEVER)
        connection = make_connection(world, socket_connection_setup_timeout_ms=3000)
        began = world.engine.now_ms()
        with pytest.raises(KafkaConnectionError, match=r"no response within 3 s \(PLAIN authentication\)"):
            world.run(connection.open())
        assert world.engine.now_ms() - began < 4000


class Kerberos:
    """A login whose first step asks a KDC, which takes `responds_in_s`."""

    mechanism = "GSSAPI"
    identity = "'alice'"
    is_by_delegation_token = False
    asks = "Kerberos"
    epoch = 0

    def refused(self, host: str, epoch: int, now: float, why: str) -> bool:
        del host, epoch, now, why
        return False

    def accepted(self, host: str) -> None:
        del host

    def __init__(self, world: World) -> None:
        self.asked = 0
        self.responds_in_s = 0.0
        self._loop: Any = world.loop

    async def exchange(self, engine: object, host: str) -> Any:
        del engine, host
        return self

    def blocks(self, challenge: bytes | None) -> bool:
        return challenge is None

    def first(self) -> bytes:
        self.asked += 1
        self._loop.blocked_s = self.responds_in_s
        return b"ticket"

    def respond(self, challenge: bytes) -> None:
        del challenge


KDC_HANGS = r"GSSAPI with .*: Kerberos did not respond within socket_connection_setup_timeout_ms \(3000\)"


def test_a_kdc_that_hangs() -> None:
    with World() as world:
        accept(world)
        login = Kerberos(world)
        connection = make_connection(world, login=login, socket_connection_setup_timeout_ms=3000)
        login.responds_in_s = 1000
        for _ in range(MAX_HUNG):
            began = world.engine.now_ms()
            with pytest.raises(AuthenticationError, match=KDC_HANGS):
                world.run(connection.call(metadata()))
            assert 3000 <= world.engine.now_ms() - began < 5000  # the pause before the attempt, too
        with pytest.raises(AuthenticationError, match="Kerberos did not respond 4 times; kafwire stopped asking"):
            world.run(connection.call(metadata()))
        assert login.asked == MAX_HUNG, "each of these has a thread that does not come back"
        assert not world.calls
        login.responds_in_s = 2.9
        world.pass_time(1000.0)
        world.run(connection.call(metadata()))
        assert order(world) == ["ApiVersions", "SaslHandshake", "SaslAuthenticate", "Metadata"]


def test_a_connection_that_is_closed_while_a_kdc_hangs() -> None:
    async def close_meanwhile(connection: BrokerConnection) -> Any:
        opening = asyncio.ensure_future(connection.open())
        await asyncio.sleep(1.0)
        connection.close()
        return (await asyncio.gather(opening, return_exceptions=True))[0]

    with World() as world:
        login = Kerberos(world)
        login.responds_in_s = 1000
        began = world.engine.now_ms()
        outcome = world.run(close_meanwhile(make_connection(world, login=login)))
        assert isinstance(outcome, KafkaConnectionError), outcome
        assert world.engine.now_ms() - began < 2000


def test_a_kdc_that_hangs_when_a_session_is_renewed(caplog: pytest.LogCaptureFixture) -> None:
    """The connection serves until then; the next call says what hangs."""
    with World() as world:
        accept(world, LIFETIME_MS)
        login = Kerberos(world)
        connection = make_connection(world, login=login, socket_connection_setup_timeout_ms=3000)
        world.run(connection.call(metadata()))
        login.responds_in_s = 1000
        with caplog.at_level(logging.WARNING, "kafwire"):
            world.pass_time(84.0)
            world.run(connection.call(metadata()))
            world.pass_time(95.0 + 3.1 - 84.0)
        assert [message for message in caplog.messages if "failed: GSSAPI with" in message]
        assert not connection.is_ready
        with pytest.raises(AuthenticationError, match=KDC_HANGS):
            world.run(connection.call(metadata()))
        login.responds_in_s = 0
        world.run(connection.call(metadata()))
        assert len(world.connections) == 2


def test_a_token_provider_that_hangs() -> None:
    async def hang() -> str:
        await asyncio.sleep(10_000)
        return "token"

    with World() as world:
        accept(world)
        given: dict[str, Any] = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_provider": hang}
        given |= dict.fromkeys(("sasl_username", "sasl_password"))
        connection = make_connection(world, socket_connection_setup_timeout_ms=3000, **given)
        began = world.engine.now_ms()
        with pytest.raises(AuthenticationError, match="the OAuth token provider did not respond within 3 s"):
            world.run(connection.open())
        assert world.engine.now_ms() - began < 3100


def test_no_thread_for_a_step() -> None:
    """The system's limit of threads may be reached."""
    with World() as world:
        accept(world)
        login: Any = Kerberos(world)

        def fail() -> bytes:
            raise RuntimeError("can't start new thread")

        login.first = fail
        with pytest.raises(AuthenticationError, match="Kerberos cannot be called: the process cannot start a thread"):
            world.run(make_connection(world, login=login).open())


@pytest.mark.parametrize("api", ["SaslHandshake", "SaslAuthenticate"])
def test_a_broker_that_hangs_up_in_the_middle_of_it(api: str) -> None:
    with World() as world:
        accept(world)
        world.on(api, lambda _: HANGUP)
        with pytest.raises(KafkaConnectionError, match="cannot connect to broker 1"):
            world.run(make_connection(world).open())


def test_a_response_that_cannot_be_read() -> None:
    with World() as world:
        accept(world)
        world.on("SaslAuthenticate", lambda _: b"\xff" * 9)
        with pytest.raises(KafkaConnectionError, match="cannot be decoded"):
            world.run(make_connection(world).open())


def test_large_frames_are_allowed_after_authentication_only() -> None:
    with World() as world:
        limits: list[int] = []
        accept(world)
        taking = protocol.SaslAuthenticateResponse()

        def note(_: Call) -> Any:
            limits.append(world.connections[0].max_frame)
            return taking

        world.on("SaslAuthenticate", note)
        world.run(make_connection(world, max_frame_bytes=GREETING_MAX_FRAME * 3).call(metadata()))
        assert [*limits, world.connections[0].max_frame] == [GREETING_MAX_FRAME, GREETING_MAX_FRAME * 3]


def test_a_session_is_renewed_before_it_ends_and_requests_wait_for_that() -> None:
    asks: list[asyncio.Future[Any]] = []

    async def ask_all_along(connection: BrokerConnection) -> None:
        await connection.open()
        for _ in range(2):
            await asyncio.sleep(84.9)
            for _ in range(6000):  # less than a request's time apart
                asks.append(asyncio.ensure_future(connection.call(metadata())))
                await asyncio.sleep(LATENCY_S * 2)
        await asyncio.gather(*asks)

    with World() as world:
        accept(world, LIFETIME_MS)
        moments: list[float] = []

        def handshake(_: Call) -> Any:
            moments.append(world.engine.now_ms())
            return protocol.SaslHandshakeResponse()

        world.on("SaslHandshake", handshake)
        connection = make_connection(world)
        world.run(ask_all_along(connection))
        assert len(world.connections) == 1
        calls = order(world)
        begun = [at for at, name in enumerate(calls) if name == "SaslHandshake"]
        assert len(begun) == 1 + 2
        assert all(calls[at : at + 2] == ["SaslHandshake", "SaslAuthenticate"] for at in begun), "nothing goes between"
        assert calls.count("Metadata") == 12_000
        assert all(85_000 <= later - sooner <= 96_000 for sooner, later in itertools.pairwise(moments))


def test_an_idle_connection_is_renewed_too_and_a_closed_one_is_not(caplog: pytest.LogCaptureFixture) -> None:
    with World() as world:
        accept(world, LIFETIME_MS)
        connection = make_connection(world)
        world.run(connection.open())
        world.pass_time(100.0)
        assert len(world.made("SaslAuthenticate")) == 2
        connection.close()
        world.pass_time(200.0)
        assert len(world.made("SaslAuthenticate")) == 2
    gc.collect()
    assert not caplog.messages, "no task failed"


def test_a_later_refusal_is_raised_by_the_next_call(caplog: pytest.LogCaptureFixture) -> None:
    with World() as world:
        accept(world, LIFETIME_MS)
        connection = make_connection(world)
        world.run(connection.call(metadata()))
        refuse(world)
        with caplog.at_level(logging.WARNING, "kafwire"):
            world.pass_time(96.0)
        assert any("failed: broker 1 at" in message for message in caplog.messages)
        assert not connection.is_ready
        with pytest.raises(AuthenticationError, match=r"not this user\?"):
            world.run(connection.call(metadata()))


def test_a_short_session_is_not_renewed_within_a_second() -> None:
    """Kafka takes no second authentication then: it says that none is expected."""
    with World() as world:
        accept(world, 200)
        connection = make_connection(world)
        world.run(connection.open())
        world.pass_time(1.05)
        assert len(world.made("SaslAuthenticate")) == 1
        world.pass_time(0.1)
        assert len(world.made("SaslAuthenticate")) == 2


@pytest.mark.parametrize(("version", "lifetime_ms", "has_expired"), [(2, 0, True), (2, 1, False), (0, 0, False)])
def test_an_expired_delegation_token_is_accepted_by_the_broker_and_not_by_us(
    version: int, lifetime_ms: int, has_expired: bool
) -> None:
    """The connection would be closed at its first request, without a word. Version 0 has no lifetimes."""
    exchange: Any = SimpleNamespace(mechanism="SCRAM-SHA-256", blocks=lambda _: False, respond=lambda _: None)
    login: Any = SimpleNamespace(identity="'id'", mechanism="SCRAM-SHA-256", is_by_delegation_token=True)
    login.accepted = lambda _: None

    async def send(request: Any, _: int) -> Any:
        kind = type(request).__name__
        return (
            protocol.SaslHandshakeResponse()
            if kind == "SaslHandshakeRequest"
            else protocol.SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)
        )

    with World() as world:
        authentication = Authentication(world.engine, login, "broker", 1000)
        versions = {
            protocol.SaslHandshakeRequest.api_key: (0, 1),
            protocol.SaslAuthenticateRequest.api_key: (0, version),
        }

        def run() -> float:
            return world.run(authentication.run(Prepared(exchange, b"first"), send, versions, "broker 1"))

        if has_expired:
            with pytest.raises(
                AuthenticationError, match="broker 1 reports that the delegation token 'id' has expired"
            ):
                run()
        else:
            assert run() == lifetime_ms


@pytest.mark.parametrize("behaviour", [HANGUP, NEVER])
def test_a_broker_that_drops_a_connection_which_authenticates_again(behaviour: Any) -> None:
    """Pending requests fail as by any lost connection; the next call opens another one."""

    async def ask(connection: BrokerConnection) -> Any:
        return await connection.call(metadata())

    async def in_the_middle(connection: BrokerConnection) -> list[Any]:
        await asyncio.sleep(84.9)
        while len(world.made("SaslHandshake")) < 2:  # noqa: ASYNC110 # the world has no event for it
            await asyncio.sleep(LATENCY_S / 10)
        held = [asyncio.ensure_future(ask(connection)) for _ in range(3)]
        return await asyncio.gather(*held, return_exceptions=True)

    with World() as world:
        accept(world, LIFETIME_MS)
        connection = make_connection(world, request_timeout_ms=5000)
        world.run(connection.call(metadata()))
        world.on("SaslAuthenticate", lambda _: behaviour)
        outcomes = world.run(in_the_middle(connection))
        assert [type(outcome) for outcome in outcomes] == [KafkaConnectionError] * 3, outcomes
        assert order(world).count("Metadata") == 1, "nothing was sent to a broker that had not accepted this client"
        accept(world, LIFETIME_MS)
        world.run(connection.call(metadata()))
        assert len(world.connections) == 2


def test_cluster_and_node_are_named_again_after_the_login() -> None:
    """Before it brokers compare neither (KIP-1242)."""
    with World() as world:
        accept(world)
        world.run(make_connection(world, cluster_id="simulated").open())
        assert order(world) == ["ApiVersions", "SaslHandshake", "SaslAuthenticate", "ApiVersions"]
        assert [call.message.node_id for call in world.made("ApiVersions")] == [1, 1]


def test_a_broker_that_is_another_after_the_login_is_refused() -> None:
    with World() as world:
        accept(world)
        greet = world.serve
        refusal = protocol.ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
        world.on("ApiVersions", lambda call: greet(call) if len(world.made("ApiVersions")) == 1 else refusal)
        with pytest.raises(KafkaConnectionError, match="another broker has the address now"):
            world.run(make_connection(world, cluster_id="simulated").open())


def test_an_older_broker_is_greeted_once() -> None:
    with World() as world:
        accept(world)
        world.nodes[1].versions["ApiVersions"] = (0, 4)
        world.run(make_connection(world, cluster_id="simulated").open())
        assert order(world).count("ApiVersions") == 1
