"""`admin.users`: describe, set and delete SCRAM credentials, in both faces."""

from __future__ import annotations

import pickle
import random
import traceback
from typing import Any

import pytest

from kafwire import Secret, protocol
from kafwire.admin import ScramCredential, ScramDeletion, ScramUpsertion
from kafwire.broker.security.credentials import MAX_ITERATIONS, MIN_ITERATIONS, Credentials
from kafwire.broker.security.sasl_server import ScramServer
from kafwire.errors import AdminError, AuthorizationError, BrokerError, ConfigError, ErrorCode, KafkaError
from kafwire.security import scram_passwords
from kafwire.security.sasl.scram import ScramExchange
from kafwire.testing.simulation.calls import HANGUP, Call
from tests.support.simulated.flavours import Flavour

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
CANARY = "swordf\u00efsh"


def credentials(flavour: Flavour) -> Credentials:
    found: Credentials = flavour.world.state.part(Credentials)
    return found


def logs_in(flavour: Flavour, user: str, mechanism: str, password: str) -> bool:
    """True if the cluster authenticates the user by this password."""
    known = credentials(flavour).scram
    server = ScramServer(mechanism, lambda name: known.get((mechanism, name)), random.Random(1))
    client = ScramExchange(mechanism, user, Secret(password), nonce="fyko+d2lbbFgONRv9qkxdawL")
    final = client.respond(server.evaluate(client.first()))
    assert final is not None
    return client.respond(server.evaluate(final)) is None


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize("password", [CANARY, Secret(CANARY)])
def test_a_password_logs_in(flavour: Flavour, mechanism: str, password: Any) -> None:
    admin = flavour.admin()
    flavour.get(admin.alter_user_scram_credentials([ScramUpsertion("alice", mechanism, password, iterations=5000)]))
    assert logs_in(flavour, "alice", mechanism, CANARY)
    found = flavour.get(admin.describe_user_scram_credentials(["alice"]))
    assert found == {"alice": [ScramCredential(mechanism, 5000)]}


def test_salts_differ_unless_one_is_given(flavour: Flavour) -> None:
    admin = flavour.admin()
    flavour.get(
        admin.alter_user_scram_credentials(
            [ScramUpsertion(user, SHA_256, CANARY) for user in ("alice", "bob")]
            + [ScramUpsertion("carol", SHA_256, CANARY, salt=b"salt")]
        )
    )
    salts = [credentials(flavour).scram[SHA_256, user].salt for user in ("alice", "bob", "carol")]
    assert len({*salts}) == 3
    assert salts[2] == b"salt"
    assert min(map(len, salts[:2])) >= 16


def test_all_users_are_described(flavour: Flavour) -> None:
    admin = flavour.admin()
    assert flavour.get(admin.describe_user_scram_credentials()) == {}
    for user, mechanism in (("alice", SHA_256), ("alice", SHA_512), ("bob", SHA_512)):
        flavour.get(admin.alter_user_scram_credentials([ScramUpsertion(user, mechanism, CANARY)]))
    both = [ScramCredential(SHA_256, 4096), ScramCredential(SHA_512, 4096)]
    assert flavour.get(admin.describe_user_scram_credentials()) == {"alice": both, "bob": both[1:]}
    assert flavour.get(admin.describe_user_scram_credentials([])) == {}, "no user is not all users"
    errors: dict[str, KafkaError] = {}
    found = flavour.get(admin.describe_user_scram_credentials(["carol", "bob"], on_error=errors.__setitem__))
    assert (found, list(errors)) == ({"bob": both[1:]}, ["carol"])


def test_a_credential_is_deleted(flavour: Flavour) -> None:
    admin = flavour.admin()
    flavour.get(admin.alter_user_scram_credentials([ScramUpsertion("alice", SHA_256, CANARY)]))
    changes = [ScramDeletion("alice", SHA_256), ScramDeletion("bob", SHA_256), ScramUpsertion("carol", SHA_512, "x")]
    with pytest.raises(AdminError, match=r"1 of 3 failed: bob: RESOURCE_NOT_FOUND.*credential of 'bob'") as caught:
        flavour.get(admin.alter_user_scram_credentials(changes))
    assert list(caught.value.results) == ["alice", "carol"]
    assert credentials(flavour).scram_users() == ["carol"]
    errors: dict[str, KafkaError] = {}
    flavour.get(admin.alter_user_scram_credentials(changes[1:2], on_error=errors.__setitem__))
    assert list(errors) == ["bob"]
    with pytest.raises(BrokerError, match="RESOURCE_NOT_FOUND"):
        flavour.get(admin.describe_user_scram_credentials(["alice"]))


def test_a_moved_controller_is_retried_with_the_same_salt(flavour: Flavour) -> None:
    moved = [True]
    response = protocol.AlterUserScramCredentialsResponse

    def respond(call: Call) -> Any:
        if not moved:
            return None
        moved.clear()
        part = response.AlterUserScramCredentialsResult
        return response(results=[part(user="alice", error_code=ErrorCode.NOT_CONTROLLER, error_message=None)])

    flavour.world.on("AlterUserScramCredentials", respond)
    flavour.get(flavour.admin().alter_user_scram_credentials([ScramUpsertion("alice", SHA_256, CANARY)]))
    first, second = (call.message.upsertions[0] for call in flavour.world.made("AlterUserScramCredentials"))
    assert bytes(first.salt) == bytes(second.salt)
    assert logs_in(flavour, "alice", SHA_256, CANARY)


def test_a_lost_connection_is_retried(flavour: Flavour) -> None:
    lost = [True]
    flavour.world.on("DescribeUserScramCredentials", lambda _: (lost and lost.pop() and HANGUP) or None)
    assert flavour.get(flavour.admin().describe_user_scram_credentials()) == {}


def test_a_process_that_cannot_start_a_thread(flavour: Flavour, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_thread(*_: Any) -> Any:
        failed = flavour.world.loop.create_future()
        failed.set_exception(RuntimeError("can't start new thread"))
        return failed

    monkeypatch.setattr(flavour.engine, "in_thread", in_thread)
    with pytest.raises(KafkaError, match="the process cannot start a thread"):
        flavour.get(flavour.admin().alter_user_scram_credentials([ScramUpsertion("alice", SHA_256, CANARY)]))


@pytest.mark.parametrize("users", [None, ["alice"]])
def test_an_error_of_the_whole_response_names_the_permission(flavour: Flavour, users: Any) -> None:
    response = protocol.DescribeUserScramCredentialsResponse
    denied = response(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message="no")
    flavour.world.on("DescribeUserScramCredentials", lambda _: denied)
    with pytest.raises(AuthorizationError, match="permits Describe on the Cluster"):
        flavour.get(flavour.admin().describe_user_scram_credentials(users))


def test_an_error_of_one_of_all_users_is_reported(flavour: Flavour) -> None:
    response = protocol.DescribeUserScramCredentialsResponse
    part = response.DescribeUserScramCredentialsResult
    info = response.CredentialInfo(mechanism=9, iterations=4096)
    results = [
        part(user="alice", error_message=None, credential_infos=[info]),
        part(user="bob", error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message="oh"),
    ]
    flavour.world.on("DescribeUserScramCredentials", lambda _: response(error_message=None, results=results))
    with pytest.raises(AdminError, match="1 of 2 failed: bob") as caught:
        flavour.get(flavour.admin().describe_user_scram_credentials())
    assert caught.value.results == {"alice": [ScramCredential("UNKNOWN", 4096)]}


# --- secrets


def test_a_password_is_not_shown() -> None:
    made = ScramUpsertion("alice", SHA_256, CANARY, salt=b"canary")
    assert CANARY not in f"{made} {made!r} {[made]}"
    assert "canary" not in repr(made)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(made)


@pytest.mark.parametrize("others", [(CANARY, SHA_256), (SHA_256, "x", CANARY), ([CANARY], "x")])
def test_no_error_shows_a_password_in_a_wrong_place(others: Any) -> None:
    with pytest.raises(ConfigError, match="user 'alice'") as caught:
        ScramUpsertion("alice", *others)
    assert CANARY not in "".join(traceback.format_exception_only(caught.value))


@pytest.mark.parametrize("bad", [CANARY.encode(), [CANARY], f"\0{CANARY}", f"{CANARY}\ud800"])
def test_the_error_of_a_wrong_password_does_not_show_it(bad: Any) -> None:
    with pytest.raises(ConfigError, match="password") as caught:
        ScramUpsertion("alice", SHA_256, bad)
    assert CANARY not in "".join(traceback.format_exception_only(caught.value))
    assert caught.value.__context__ is None


def test_no_request_has_the_password(flavour: Flavour) -> None:
    flavour.get(flavour.admin().alter_user_scram_credentials([ScramUpsertion("alice", SHA_256, "canary")]))
    (call,) = flavour.world.made("AlterUserScramCredentials")
    (part,) = call.message.upsertions
    assert bytes(part.salted_password) not in (b"canary", b"")
    assert "canary" not in repr(call.message)


def test_salted_passwords_are_those_of_the_rfc() -> None:
    """An example of RFC 7914 for PBKDF2 with SHA-256, which is `Hi` of RFC 5802."""
    salted = scram_passwords.salted_password(SHA_256, Secret("Password"), b"NaCl", 80000)
    assert salted.hex() == "4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56"


def test_limits_are_the_brokers() -> None:
    assert (scram_passwords.LEAST_ITERATIONS, scram_passwords.MOST_ITERATIONS) == (MIN_ITERATIONS, MAX_ITERATIONS)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ScramUpsertion("", SHA_256, "x"), "user: ''"),
        (lambda: ScramUpsertion("alice", "PLAIN", "x"), "the mechanism must be one of SCRAM-SHA-256"),
        (lambda: ScramUpsertion("alice", SHA_256, ""), "the password is empty"),
        (lambda: ScramUpsertion("alice", SHA_256, "x", iterations=4095), "4096 to 16384"),
        (lambda: ScramUpsertion("alice", SHA_256, "x", iterations=16385), "4096 to 16384"),
        (lambda: ScramUpsertion("alice", SHA_256, "x", iterations=True), "4096 to 16384"),
        (lambda: ScramUpsertion("alice", SHA_256, "x", salt=b""), "salt must be bytes"),
        (lambda: ScramUpsertion("alice", SHA_256, "x", salt="x"), "salt must be bytes"),  # type: ignore[arg-type]
        (lambda: ScramDeletion("alice", "SCRAM"), "the mechanism must be one of"),
        (lambda: ScramDeletion(3, SHA_256), "user: 3"),  # type: ignore[arg-type]
    ],
)
def test_wrong_values(make: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make()


WRONG: list[tuple[str, tuple[Any, ...], str]] = [
    ("alter_user_scram_credentials", (ScramDeletion("alice", SHA_256),), "write a list"),
    ("alter_user_scram_credentials", (["alice"],), "neither ScramUpsertion nor ScramDeletion"),
    (
        "alter_user_scram_credentials",
        ([ScramDeletion("alice", SHA_256), ScramUpsertion("alice", SHA_512, "x")],),
        "'alice': Kafka takes one alteration",
    ),
    ("describe_user_scram_credentials", ("alice",), "write a list of names"),
    ("describe_user_scram_credentials", ([3],), "users: 3"),
]


@pytest.mark.parametrize(("method", "args", "text"), WRONG)
def test_wrong_arguments(flavour: Flavour, method: str, args: tuple[Any, ...], text: str) -> None:
    admin = flavour.admin()
    with pytest.raises(ConfigError, match=text):
        flavour.get(getattr(admin, method)(*args))
    assert not flavour.world.calls
