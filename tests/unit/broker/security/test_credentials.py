"""Users: the stored form of their passwords, and the APIs that change it."""

import hashlib
from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.security.credentials import Credentials, credential_from_salted
from kafwire.broker.state import ClusterState
from kafwire.config.sasl_mechanisms import SCRAM_HASHES
from kafwire.errors import ErrorCode
from tests.support.broker.driver import ask

SALT = b"0123456789abcdef"
Alter = protocol.AlterUserScramCredentialsRequest
Describe = protocol.DescribeUserScramCredentialsRequest


@pytest.fixture
def state() -> Any:
    return ClusterState()


def upsert(name: Any = "alice", mechanism: Any = 1, iterations: Any = 4096, password: Any = b"secret") -> Any:
    salted = hashlib.pbkdf2_hmac("sha256" if mechanism == 1 else "sha512", password, SALT, 4096)
    return Alter.ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=SALT, salted_password=salted
    )


def delete(name: Any = "alice", mechanism: Any = 1) -> Any:
    return Alter.ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(state: Any, *changes: Any) -> Any:
    """Errors and texts by user."""
    request = Alter(
        deletions=[each for each in changes if isinstance(each, Alter.ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, Alter.ScramCredentialUpsertion)],
    )
    return {each.user: (each.error_code, each.error_message) for each in ask(state, request).results}


def describe(state: Any, *names: Any) -> Any:
    """The error, or the mechanisms with their iterations, by user."""
    request = Describe(users=[Describe.UserName(name=name) for name in names] if names else None)
    return {
        each.user: each.error_code or [(info.mechanism, info.iterations) for info in each.credential_infos]
        for each in ask(state, request).results
    }


def test_no_password_is_kept_of_scram(state: Any) -> None:
    credentials = state.part(Credentials)
    credentials.add_scram("alice", "alice-secret")
    assert {mechanism for mechanism, _ in credentials.scram} == set(SCRAM_HASHES)
    for credential in credentials.scram.values():
        assert len(credential.salt) == 20
        assert "secret" not in repr(credential)
        assert b"alice-secret" not in credential.stored_key + credential.server_key


def test_the_keys_are_those_of_the_rfc() -> None:
    """RFC 7677's example: the server's key signs, the stored one checks."""
    import base64

    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    made = credential_from_salted("SCRAM-SHA-256", salt, salted, 4096)
    assert base64.b64encode(made.stored_key) == b"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
    assert base64.b64encode(made.server_key) == b"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="


def test_the_same_seed_makes_the_same_salt() -> None:
    made = []
    for _ in range(2):
        credentials = ClusterState(seed=7).part(Credentials)
        credentials.add_scram("alice", "alice-secret")
        made.append(dict(credentials.scram))
    assert made[0] == made[1]


def test_users_are_of_one_listener_with_plain_and_of_all_with_scram(state: Any) -> None:
    credentials = state.part(Credentials)
    credentials.add_users("INSIDE", ["PLAIN"], {"alice": "a"})
    credentials.add_users("OUTSIDE", ["PLAIN", "SCRAM-SHA-256"], {"bob": "b"})
    assert set(credentials.listener("INSIDE").passwords) == {"alice"}
    assert set(credentials.listener("OUTSIDE").passwords) == {"bob"}
    assert set(credentials.scram) == {("SCRAM-SHA-256", "bob")}


def test_users_are_added_described_and_deleted(state: Any) -> None:
    assert alter(state, upsert(), upsert("bob", 2, 16384)) == {"alice": (0, None), "bob": (0, None)}
    assert alter(state, upsert(mechanism=2)) == {"alice": (0, None)}
    assert describe(state) == {"alice": [(1, 4096), (2, 4096)], "bob": [(2, 16384)]}
    assert alter(state, delete()) == {"alice": (0, None)}
    assert describe(state, "alice") == {"alice": [(2, 4096)]}


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        (upsert(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (upsert(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (upsert(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (upsert(iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (
            delete(),
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        ),
    ],
)
def test_wrong_changes_are_reported_and_the_rest_is_done(state: Any, change: Any, code: Any, text: Any) -> None:
    assert alter(state, change, upsert("bob")) == {change.name: (code, text), "bob": (0, None)}
    assert set(describe(state)) == {"bob"}


def test_each_user_once(state: Any) -> None:
    state.part(Credentials).add_scram("alice", "old", ["SCRAM-SHA-256"])
    before = dict(state.part(Credentials).scram)
    for twice in ([delete(), upsert()], [upsert(), upsert(mechanism=2)], [delete(), delete(), upsert()]):
        code, text = alter(state, *twice)["alice"]
        assert code == ErrorCode.DUPLICATE_RESOURCE
        assert text == "A user credential cannot be altered twice in the same request"
        assert state.part(Credentials).scram == before


def test_users_that_are_not_there_or_named_twice(state: Any) -> None:
    alter(state, upsert())
    assert describe(state, "alice", "eve", "eve2", "eve2") == {
        "alice": [(1, 4096)],
        "eve": ErrorCode.RESOURCE_NOT_FOUND,
        "eve2": ErrorCode.DUPLICATE_RESOURCE,
    }
