"""Delegation tokens of the embedded broker: their life, and logins by them."""

from __future__ import annotations

import base64
import uuid
from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.request import HANG_UP
from kafwire.broker.security.acls import Acl
from kafwire.broker.security.credentials import Credentials
from kafwire.broker.security.delegation_tokens import DelegationTokens
from kafwire.broker.state import ClusterState
from kafwire.errors import ErrorCode
from kafwire.secret import Secret
from kafwire.security.sasl.scram import ScramExchange
from tests.support.broker.driver import BrokerDriver

LISTENER = "SASL"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
USERS = {"alice": "alice-secret", "bob": "bob-secret", "carol": "carol-secret"}
DAY_MS = 86_400_000
CONFIGS = {"delegation.token.secret.key": "canary"}
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def cluster(*acls: Acl, authorizer: bool = False, **configs: str) -> ClusterState:
    """A cluster with SCRAM users, and a key for tokens."""
    options = CONFIGS | {name.replace("_", "."): value for name, value in configs.items()}
    state = ClusterState(configs=options, authorizer=authorizer)
    state.authorizer.add(acls)
    state.part(Credentials).add_users(LISTENER, MECHANISMS, USERS)
    return state


class Client:
    """A connection that logs in by SCRAM, as a user or with a token."""

    def __init__(
        self, state: ClusterState, user: str = "alice", token: Any = None, mechanism: str = MECHANISMS[0]
    ) -> None:
        self._driver = BrokerDriver(state)
        self.connection = state.connect(1, LISTENER, secured=True)
        self.lifetime_ms = -1
        self.error = self._log_in(user, token, mechanism)

    def _log_in(self, user: str, token: Any, mechanism: str) -> int:
        name, password = (user, USERS.get(user, "")) if token is None else (token.token_id, text_of(token))
        exchange = ScramExchange(
            mechanism, name, Secret(password), nonce="fyko+d2lbbFgONRv9qkxdawL", tokenauth=token is not None
        )
        assert not self.ask(protocol.SaslHandshakeRequest(mechanism=mechanism), 1).error_code
        message: bytes | None = exchange.first()
        while message is not None:
            response = self.ask(protocol.SaslAuthenticateRequest(auth_bytes=message), 2)
            if response is None:  # a refusal comes later
                return ErrorCode.SASL_AUTHENTICATION_FAILED
            self.lifetime_ms = response.session_lifetime_ms
            message = exchange.respond(response.auth_bytes)
        return 0

    def ask(self, message: Any, version: int | None = None) -> Any:
        return self._driver.ask(message, version, connection=self.connection)

    def pass_ms(self, ms: float) -> None:
        self._driver.pass_ms(ms)

    def works(self) -> bool:
        return self.ask(protocol.MetadataRequest(topics=[])) is not HANG_UP

    def create(self, *renewers: str, owner: str = "", lifetime_ms: int = -1, kind: str = "User") -> Any:
        request = protocol.CreateDelegationTokenRequest
        named = [request.CreatableRenewers(principal_type=kind, principal_name=name) for name in renewers]
        return self.ask(
            request(
                owner_principal_type="User", owner_principal_name=owner, renewers=named, max_lifetime_ms=lifetime_ms
            )
        )

    def renew(self, token: Any, period_ms: int = -1) -> Any:
        return self.ask(protocol.RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=period_ms))

    def expire(self, token: Any, period_ms: int = -1) -> Any:
        return self.ask(protocol.ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=period_ms))

    def described(self, *owners: str) -> Any:
        """The response about these owners; without any, about all."""
        request = protocol.DescribeDelegationTokenRequest
        named = [request.DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners]
        return self.ask(request(owners=named or None))

    def ids(self, *owners: str) -> list[str]:
        response = self.described(*owners)
        assert not response.error_code
        return [token.token_id for token in response.tokens]


def text_of(token: Any) -> str:
    return base64.b64encode(token.hmac).decode()


# --- their life


def test_a_token_is_created_and_described() -> None:
    state = cluster()
    client = Client(state)
    token = client.create("bob", lifetime_ms=2 * DAY_MS)
    assert (token.error_code, token.principal_type, token.principal_name) == (0, "User", "alice")
    assert (token.token_requester_principal_type, token.token_requester_principal_name) == ("User", "alice")
    now_ms = state.wall_ms
    assert token.issue_timestamp_ms == now_ms
    assert (token.expiry_timestamp_ms, token.max_timestamp_ms) == (now_ms + DAY_MS, now_ms + 2 * DAY_MS)
    assert (len(token.hmac), len(token.token_id)) == (64, 22)
    (described,) = client.described().tokens
    assert (described.token_id, described.hmac) == (token.token_id, token.hmac)
    assert (described.principal_name, described.token_requester_principal_name) == ("alice", "alice")
    assert (described.issue_timestamp, described.expiry_timestamp) == (now_ms, now_ms + DAY_MS)
    assert described.max_timestamp == now_ms + 2 * DAY_MS
    assert [(each.principal_type, each.principal_name) for each in described.renewers] == [("User", "bob")]
    other = client.create()
    assert other.token_id != token.token_id
    assert other.hmac != token.hmac


@pytest.mark.parametrize(
    ("asked_ms", "expires_ms", "max_ms"),
    [(-1, 1000, 5000), (0, 1000, 5000), (500, 500, 500), (3000, 1000, 3000), (9000, 1000, 5000)],
)
def test_lifetimes_are_limited(asked_ms: int, expires_ms: int, max_ms: int) -> None:
    state = cluster(delegation_token_expiry_time_ms="1000", delegation_token_max_lifetime_ms="5000")
    token = Client(state).create(lifetime_ms=asked_ms)
    now_ms = state.wall_ms
    assert (token.expiry_timestamp_ms - now_ms, token.max_timestamp_ms - now_ms) == (expires_ms, max_ms)


def test_the_latest_time_is_the_end_of_the_longest_lives() -> None:
    most = (1 << 63) - 1
    client = Client(cluster(delegation_token_expiry_time_ms=str(most), delegation_token_max_lifetime_ms=str(most)))
    token = client.create()
    assert (token.expiry_timestamp_ms, token.max_timestamp_ms) == (most, most)
    assert client.renew(token).expiry_timestamp_ms == client.expire(token, most).expiry_timestamp_ms == most


def test_no_id_begins_like_an_option() -> None:
    state = cluster()
    ids = [uuid.UUID(bytes=bytes([first]) * 16) for first in (0xFB, 0x01)]
    state.make_id = lambda: ids.pop(0)  # type: ignore[method-assign]
    assert Client(state).create().token_id == "AQEBAQEBAQEBAQEBAQEBAQ"


def test_a_token_is_renewed_up_to_its_maximum() -> None:
    state = cluster(delegation_token_expiry_time_ms="1000", delegation_token_max_lifetime_ms="2500")
    client = Client(state)
    token = client.create("bob")
    client.pass_ms(400)
    assert Client(state, "bob").renew(token).expiry_timestamp_ms == state.wall_ms + 1000
    assert client.renew(token, 300).expiry_timestamp_ms == state.wall_ms + 300
    assert client.renew(token, 5000).expiry_timestamp_ms == state.wall_ms + 1000
    for _ in range(2):
        client.pass_ms(900)
        assert client.renew(token).expiry_timestamp_ms == min(state.wall_ms + 1000, token.max_timestamp_ms)
    client.pass_ms(301)
    assert client.renew(token).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert client.expire(token, 5).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert not client.expire(token).error_code


def test_a_token_is_ended() -> None:
    state = cluster()
    client = Client(state)
    token = client.create("bob")
    assert Client(state, "bob").expire(token, 5000).expiry_timestamp_ms == state.wall_ms + 5000
    assert client.expire(token, 100 * DAY_MS).expiry_timestamp_ms == token.max_timestamp_ms
    assert client.expire(token, 0).expiry_timestamp_ms == state.wall_ms
    assert client.ids() == [token.token_id], "until the next check"
    assert client.expire(token).expiry_timestamp_ms == state.wall_ms
    assert client.ids() == []
    for response in (client.expire(token), client.renew(token)):
        assert response.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_others_neither_renew_nor_end_a_token() -> None:
    state = cluster()
    token = Client(state).create("bob")
    for response in (Client(state, "carol").renew(token), Client(state, "carol").expire(token)):
        assert response.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


def test_expired_tokens_are_removed_at_the_interval() -> None:
    state = cluster(delegation_token_expiry_check_interval_ms="10000", delegation_token_expiry_time_ms="1000")
    client = Client(state)
    client.create()
    client.pass_ms(9999)
    assert len(client.ids()) == 1
    client.pass_ms(1)
    assert client.ids() == []


def test_only_tokens_of_the_client_are_shown_without_an_acl() -> None:
    acl = Acl("User:carol", "DescribeTokens", "User", "User:alice")
    state = cluster(acl, authorizer=True)
    alices = Client(state).create("bob").token_id
    bobs = Client(state, "bob").create().token_id
    assert Client(state).ids() == [alices]
    assert Client(state, "bob").ids() == [alices, bobs]
    assert Client(state, "bob").ids("alice") == [alices]
    assert Client(state, "carol").ids() == [alices]
    state.authorizer.add([Acl("User:carol", "Describe", "DelegationToken", bobs)])
    assert Client(state, "carol").ids() == [alices, bobs]
    assert Client(state, "carol").ids("bob") == [alices, bobs], "renewers count as owners"
    nobody = protocol.DescribeDelegationTokenRequest(owners=[])
    assert Client(state).ask(nobody).tokens == []


def test_a_token_for_another_user_needs_an_acl() -> None:
    state = cluster(authorizer=True)
    client = Client(state, "bob")
    refused = client.create(owner="alice")
    assert (refused.error_code, refused.principal_name) == (ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, "alice")
    assert (refused.issue_timestamp_ms, refused.hmac, refused.token_id) == (-1, b"", "")
    state.authorizer.add([Acl("User:bob", "CreateTokens", "User", "User:alice")])
    token = client.create(owner="alice")
    assert (token.error_code, token.principal_name, token.token_requester_principal_name) == (0, "alice", "bob")
    assert client.ids() == [token.token_id]
    assert client.renew(token).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, "it is no renewer"


def test_renewers_are_users() -> None:
    assert Client(cluster()).create("bob", kind="Group").error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


def test_without_a_key_there_are_no_tokens() -> None:
    state = cluster(delegation_token_secret_key="")
    client = Client(state)
    token = protocol.CreateDelegationTokenResponse(hmac=b"x")
    for response in (client.create(), client.renew(token), client.expire(token), client.described()):
        assert response.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_clients_without_authentication_get_none() -> None:
    driver = BrokerDriver(cluster())
    requests: list[Any] = [
        protocol.CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name=""),
        protocol.RenewDelegationTokenRequest(hmac=b"x"),
        protocol.ExpireDelegationTokenRequest(hmac=b"x"),
        protocol.DescribeDelegationTokenRequest(owners=None),
    ]
    assert [driver.ask(request).error_code for request in requests] == [NOT_ALLOWED] * 4
    driver.connection().principal = "User:CN=alice"  # by a client certificate
    assert driver.ask(requests[0]).error_code == 0


def test_older_versions_have_no_requester() -> None:
    client = Client(cluster())
    request = protocol.CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
    response = client.ask(request, 2)
    token = type(response).decode(bytes(response.encode(2)), 2)
    assert (token.error_code, token.principal_name, token.token_requester_principal_name) == (0, "alice", "")
    found = client.ask(protocol.DescribeDelegationTokenRequest(owners=None), 2)
    (described,) = type(found).decode(bytes(found.encode(2)), 2).tokens
    assert (described.token_id, described.token_requester_principal_name) == (token.token_id, "")


# --- logins


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_token_logs_in_as_its_owner(mechanism: str) -> None:
    state = cluster()
    token = Client(state).create()
    client = Client(state, token=token, mechanism=mechanism)
    assert (client.error, client.connection.principal, client.lifetime_ms) == (0, "User:alice", DAY_MS)
    assert client.works()
    again = Client(state, token=token, mechanism=mechanism)
    assert not again.error


def test_a_client_with_a_token_gets_none() -> None:
    state = cluster()
    token = Client(state).create()
    client = Client(state, token=token)
    for response in (client.create(), client.renew(token), client.expire(token), client.described()):
        assert response.error_code == NOT_ALLOWED


def test_a_token_is_no_user_and_a_user_no_token() -> None:
    state = cluster()
    token = Client(state).create()
    user = protocol.CreateDelegationTokenResponse(token_id="alice", hmac=b"x")
    assert Client(state, token=user).error
    wrong = protocol.CreateDelegationTokenResponse(token_id=token.token_id, hmac=b"x")
    assert Client(state, token=wrong).error


def test_the_end_of_a_token_ends_its_sessions() -> None:
    state = cluster()
    owner = Client(state)
    token = owner.create(lifetime_ms=5000)
    client = Client(state, token=token)
    assert client.lifetime_ms == 5000
    client.pass_ms(5000)
    assert client.works()
    client.pass_ms(1)
    assert not client.works()
    late = Client(state, token=token)
    assert (late.error, late.lifetime_ms) == (0, 0), "it is not removed yet"
    assert not late.works()
    owner.expire(token)
    assert Client(state, token=token).error == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_the_shorter_of_both_ends_counts() -> None:
    state = cluster(connections_max_reauth_ms="7000")
    owner = Client(state)
    assert Client(state, token=owner.create()).lifetime_ms == 7000
    assert Client(state, token=owner.create(lifetime_ms=3000)).lifetime_ms == 3000


def test_tokens_are_restored() -> None:
    state = cluster()
    token = Client(state).create("bob")
    kept = state.part(DelegationTokens).tokens[token.token_id]
    other = cluster()
    other.part(DelegationTokens).restore(kept)
    assert not Client(other, token=token).error
    assert not Client(other, "bob").renew(token).error_code
