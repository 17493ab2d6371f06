"""SASL's exchanges and the connections that they let in: the client's side is kafwire's own, and messages by hand."""

import base64
import random
from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.frames import read_request, write_response
from kafwire.broker.request import HANG_UP
from kafwire.broker.security.credentials import Credentials, ScramCredential
from kafwire.broker.security.sasl_server import PlainServer, SaslRefusedError, ScramServer
from kafwire.broker.state import ClusterState
from kafwire.config.sasl_mechanisms import SCRAM_HASHES
from kafwire.errors import AuthenticationError, ErrorCode
from kafwire.protocol.framing import encode_request
from kafwire.secret import Secret
from kafwire.security.sasl.plain import PlainExchange
from kafwire.security.sasl.scram import ScramExchange
from tests.support.broker.driver import BrokerDriver

USERS = {"alice": "alice-secret", "bob": "bob-secret", "a=b,c": "=,=", "dora": "p\u00e4ss\u00adword"}
LIFETIME_MS = 5000
GENERIC = "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"


@pytest.fixture
def state() -> Any:
    made = ClusterState()
    credentials = made.part(Credentials)
    credentials.add_users("SASL", ["PLAIN", *SCRAM_HASHES], USERS)
    return made


class Client:
    """A client of the listener, one connection."""

    def __init__(self, state: Any, listener: Any = "SASL") -> None:
        self.driver = BrokerDriver(state)
        self.connection = state.connect(1, listener, secured=True)

    def ask(self, message: Any, version: Any = None) -> Any:
        response = self.driver.ask(message, version, connection=self.connection)
        if response is None:  # the response to a failure comes later
            self.driver.pass_ms(99)
            assert not self.driver.late
            self.driver.pass_ms(1)
            ((request, response),) = self.driver.late.items()
            del self.driver.late[request]
            assert self.connection.closes
        return response

    def choose(self, mechanism: Any, version: Any = 1) -> Any:
        return self.ask(protocol.SaslHandshakeRequest(mechanism=mechanism), version)

    def token(self, data: Any, version: Any = 2) -> Any:
        return self.ask(protocol.SaslAuthenticateRequest(auth_bytes=data), version)

    def log_in(self, mechanism: Any = "PLAIN", user: Any = "alice", password: Any = None, version: Any = 2) -> Any:
        """The last response."""
        assert self.choose(mechanism).error_code == 0
        exchange = exchange_of(mechanism, user, USERS[user] if password is None else password)
        token = exchange.first()
        while True:
            response = self.token(token, version)
            if response.error_code:
                return response
            token = exchange.respond(response.auth_bytes) if mechanism != "PLAIN" else None
            if token is None:
                return response

    def works(self) -> Any:
        response = self.ask(protocol.MetadataRequest(topics=[]))
        return response is not HANG_UP and bool(response.brokers)


def exchange_of(mechanism: Any, user: Any, password: Any) -> Any:
    if mechanism == "PLAIN":
        return PlainExchange(user, Secret(password))
    return ScramExchange(mechanism, user, Secret(password), nonce="fyko+d2lbbFgONRv9qkxdawL")


def scram(mechanism: Any, state: Any) -> Any:
    credentials = state.part(Credentials)
    return ScramServer(mechanism, lambda user: credentials.scram.get((mechanism, user)), random.Random(1))


# --- the exchanges


def test_plain_compares_the_password() -> None:
    server = PlainServer({"alice": Secret("alice-secret")})
    assert server.evaluate(b"\0alice\0alice-secret") == b""
    assert server.user == "alice"
    server = PlainServer({"alice": Secret("alice-secret")})
    assert server.evaluate(b"alice\0alice\0alice-secret") == b""


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"\0alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0alice-secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0alice-secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0eve\0alice-secret", "Authentication failed: Invalid username or password"),
        (b"bob\0alice\0alice-secret", "Authentication failed: Client requested an authorization id that is different"),
    ],
)
def test_plain_names_the_fault(message: Any, text: Any) -> None:
    server = PlainServer({"alice": Secret("alice-secret")})
    with pytest.raises(SaslRefusedError, match=text):
        server.evaluate(message)
    assert server.user is None


@pytest.mark.parametrize("mechanism", SCRAM_HASHES)
@pytest.mark.parametrize("user", ["alice", "a=b,c", "dora"])
def test_scram_and_its_client_convince_each_other(state: Any, mechanism: Any, user: Any) -> None:
    server, client = scram(mechanism, state), exchange_of(mechanism, user, USERS[user])
    final = client.respond(server.evaluate(client.first()))
    assert client.respond(server.evaluate(final)) is None
    assert server.user == user


def test_scram_sends_salt_and_iterations(state: Any) -> None:
    credential = ScramCredential(b"salt", b"stored", b"server", 8192)
    server = ScramServer("SCRAM-SHA-256", {"user": credential}.get, state.random)
    nonce, salt, iterations = server.evaluate(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").split(b",")
    assert nonce.startswith(b"r=rOprNGfwEbeRWgbNEkqO")
    assert len(nonce) > 40
    assert (salt, iterations) == (b"s=" + base64.b64encode(b"salt"), b"i=8192")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,n=alice",
        b"y,,n=alice,r=abc",
        b"n,,n=al=ice,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=d\xc3\xb6ra,r=abc",
        b"n,,n=alice,r=",
        b"n,,n=eve,r=abc",
        b"n,,n=alice,r=abc,tokenauth=true",
    ],
)
def test_scram_does_not_say_why_it_refuses_a_first_message(state: Any, message: Any) -> None:
    with pytest.raises(SaslRefusedError) as caught:
        scram("SCRAM-SHA-256", state).evaluate(message)
    assert str(caught.value) == ""


def test_scram_lets_no_user_be_another(state: Any) -> None:
    with pytest.raises(SaslRefusedError, match="authorization id"):
        scram("SCRAM-SHA-256", state).evaluate(b"n,a=bob,n=alice,r=abc")
    assert scram("SCRAM-SHA-256", state).evaluate(b"n,a=alice,n=alice,r=abc")


def test_scram_ignores_other_extensions(state: Any) -> None:
    server = scram("SCRAM-SHA-256", state)
    assert server.evaluate(b"n,,n=alice,r=abc,x=y").startswith(b"r=abc")


def damaged(final: Any) -> Any:
    """Variants of a client's final message."""
    parts = final.split(b",")
    proof = base64.b64decode(parts[2][2:])
    yield b""
    yield b",".join([parts[0], parts[1] + b"x", parts[2]])  # another nonce
    yield b",".join([parts[0], parts[1][:-1], parts[2]])
    yield b",".join([parts[0], parts[1], b"p=" + base64.b64encode(bytes([proof[0] ^ 1]) + proof[1:])])
    yield b",".join([parts[0], parts[1], b"p=" + base64.b64encode(proof[:-1])])
    yield b",".join([parts[0], parts[1], b"p="])
    yield b",".join([b"c=" + base64.b64encode(b"n,a=bob,"), parts[1], parts[2]])
    yield b",".join(parts[:2])


@pytest.mark.parametrize("which", range(8))
def test_scram_refuses_a_proof_that_is_wrong(state: Any, which: Any) -> None:
    server, client = scram("SCRAM-SHA-256", state), exchange_of("SCRAM-SHA-256", "alice", "alice-secret")
    final = client.respond(server.evaluate(client.first()))
    with pytest.raises(SaslRefusedError) as caught:
        server.evaluate([*damaged(final)][which])
    assert str(caught.value) == ""
    assert server.user is None


def test_scram_signs_for_no_other_client(state: Any) -> None:
    server, client = scram("SCRAM-SHA-512", state), exchange_of("SCRAM-SHA-512", "alice", "alice-secret")
    signature = server.evaluate(client.respond(server.evaluate(client.first())))
    with pytest.raises(AuthenticationError):
        client.respond(signature[:-4] + b"AA==")


# --- connections


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM_HASHES])
def test_a_connection_is_let_in(state: Any, mechanism: Any) -> None:
    client = Client(state)
    response = client.log_in(mechanism)
    assert (response.error_code, response.session_lifetime_ms) == (0, 0)
    assert client.connection.principal == "User:alice"
    assert client.works()


def test_a_client_without_authentication_is_disconnected(state: Any) -> None:
    assert not Client(state).works()
    client = Client(state)
    assert client.ask(protocol.ApiVersionsRequest(client_software_name="a", client_software_version="1")).api_keys
    assert client.ask(protocol.ApiVersionsRequest(), 0) is HANG_UP
    assert Client(state).token(b"\0alice\0alice-secret") is HANG_UP


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM_HASHES])
def test_the_response_to_a_wrong_password_comes_later_and_the_connection_is_closed(state: Any, mechanism: Any) -> None:
    client = Client(state)
    response = client.log_in(mechanism, password="wrong")
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    plain = "Authentication failed: Invalid username or password"
    assert response.error_message == (plain if mechanism == "PLAIN" else GENERIC.format(mechanism))
    assert client.connection.closes
    assert client.connection.principal == "User:ANONYMOUS"


def test_an_unknown_mechanism_is_refused_with_those_that_there_are(state: Any) -> None:
    client = Client(state)
    response = client.choose("GSSAPI")
    assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert sorted(response.mechanisms) == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.mark.parametrize(
    ("message", "place"),
    [
        (protocol.SaslHandshakeRequest(mechanism="PLAIN"), lambda response: response),
        (protocol.FindCoordinatorRequest(coordinator_keys=["g"]), lambda response: response.coordinators[0]),
        (
            protocol.MetadataRequest(topics=[protocol.MetadataRequest.MetadataRequestTopic(name="t")]),
            lambda response: response.topics[0],
        ),
    ],
)
def test_during_an_exchange_nothing_else_is_served(state: Any, message: Any, place: Any) -> None:
    client = Client(state)
    client.choose("PLAIN")
    response = client.ask(message, 1 if isinstance(message, protocol.SaslHandshakeRequest) else 4)
    assert place(response).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.connection.closes


def test_sasl_without_need_is_an_illegal_state(state: Any) -> None:
    driver = BrokerDriver(state)
    assert driver.ask(protocol.SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
    response = driver.ask(protocol.SaslAuthenticateRequest(auth_bytes=b""), 2)
    assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert response.error_message == "SaslAuthenticate request received after successful authentication"
    client = Client(state)
    client.log_in()
    assert client.choose("PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE  # its session does not end
    assert client.works()


def test_tokens_without_requests_around_them(state: Any) -> None:
    """Such tokens follow a SaslHandshake 0."""
    client = Client(state)
    assert client.choose("PLAIN", 0).error_code == 0
    request = read_request(client.connection, b"\0alice\0alice-secret")
    response = client.driver.ask(request.message, request.version, connection=client.connection)
    assert write_response(request, response) == b""
    assert client.works()


def test_a_wrong_token_without_a_request_around_it_ends_the_connection(state: Any) -> None:
    client = Client(state)
    client.choose("PLAIN", 0)
    request = read_request(client.connection, b"\0alice\0wrong")
    assert client.driver.ask(request.message, request.version, connection=client.connection) is HANG_UP


# --- sessions that end


@pytest.fixture
def ending(state: Any) -> Any:
    state.part(Credentials).listener("SASL").max_reauth_ms = LIFETIME_MS
    return state


def test_a_session_ends_and_then_the_connection(ending: Any) -> None:
    client = Client(ending)
    assert client.log_in().session_lifetime_ms == LIFETIME_MS
    client.driver.pass_ms(LIFETIME_MS)
    assert client.works()
    client.driver.pass_ms(1)
    assert not client.works()


def test_the_option_of_the_brokers_is_the_default() -> None:
    state = ClusterState(configs={"connections.max.reauth.ms": "7000"})
    state.part(Credentials).add_users("SASL", ["PLAIN"], USERS)
    assert Client(state).log_in().session_lifetime_ms == 7000


@pytest.mark.parametrize("late_ms", [-1000, 1000])
def test_a_client_authenticates_again(ending: Any, late_ms: Any) -> None:
    """Before its session ends or after, as long as nothing else came between."""
    client = Client(ending)
    client.log_in("SCRAM-SHA-256")
    client.driver.pass_ms(LIFETIME_MS + late_ms)
    assert client.log_in("SCRAM-SHA-256").session_lifetime_ms == LIFETIME_MS
    client.driver.pass_ms(LIFETIME_MS)
    assert client.works()
    client.driver.pass_ms(1)
    assert not client.works()


def test_a_client_keeps_its_principal(ending: Any) -> None:
    client = Client(ending)
    client.log_in()
    client.driver.pass_ms(1000)
    response = client.log_in(user="bob")
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    words = "Cannot change principals during re-authentication from User.alice: User.bob"
    assert response.error_message == words
    assert client.connection.closes


def test_a_client_keeps_its_mechanism(ending: Any) -> None:
    client = Client(ending)
    client.log_in()
    client.driver.pass_ms(1000)
    assert client.choose("SCRAM-SHA-256").error_code == 0
    assert client.token(b"n,,n=alice,r=abc") is HANG_UP


def test_a_wrong_password_ends_a_connection_that_was_in(ending: Any) -> None:
    client = Client(ending)
    client.log_in("SCRAM-SHA-256")
    client.driver.pass_ms(1000)
    response = client.log_in("SCRAM-SHA-256", password="wrong")
    assert response.error_message == GENERIC.format("SCRAM-SHA-256").replace("during auth", "during re-auth")


def test_once_in_a_second(ending: Any) -> None:
    client = Client(ending)
    client.log_in()
    assert client.log_in().error_code == 0
    client.driver.pass_ms(999)
    assert client.choose("PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
    client.driver.pass_ms(1)
    assert client.log_in().error_code == 0


def test_bytes_after_a_request_are_ignored(state: Any) -> None:
    """librdkafka sends such bytes after the request for all topics."""
    frame = encode_request(protocol.MetadataRequest(topics=None), 13, 1, "c") + b"\0\0\0"
    assert read_request(state.connect(1), frame).message.topics is None
