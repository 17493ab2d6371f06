"""SCRAM: the examples of its RFCs, and the tricks of a broker that is none."""

import base64
import hashlib
import hmac
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.config.sasl_mechanisms import SCRAM_HASHES
from kafwire.errors import AuthenticationError
from kafwire.secret import Secret
from kafwire.security.sasl.scram import MAX_MESSAGE_BYTES, ScramExchange, ScramKeys
from tests.support.deadlines import ended
from tests.support.sasl_traps import CANARY, check_refused, reported

NONCE = "rOprNGfwEbeRWgbNEkqO"
FULL_NONCE = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
# The example of RFC 7677; for SHA-512 there is none, so that is calculated below as RFC 5802 says.
SERVER_FIRST = f"r={FULL_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
EXAMPLES = {
    "SCRAM-SHA-256": (
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ),
}


def started(mechanism: str = "SCRAM-SHA-256", **more: object) -> ScramExchange:
    """An exchange whose first message is sent."""
    exchange = ScramExchange(mechanism, "user", Secret("pencil"), nonce=NONCE, **more)  # type: ignore[arg-type]
    exchange.first()
    return exchange


def server_final(mechanism: str, client_first: bytes, server_first: bytes, final: bytes, password: bytes) -> bytes:
    """The last message of a broker that knows the password, written down from RFC 5802."""
    name = SCRAM_HASHES[mechanism]
    salt, count = server_first.split(b",")[1][2:], int(server_first.split(b",")[2][2:])
    salted = hashlib.pbkdf2_hmac(name, password, base64.b64decode(salt), count)
    client_key = hmac.new(salted, b"Client Key", name).digest()
    without_proof, _, proof = final.rpartition(b",p=")
    message = b",".join((client_first.removeprefix(b"n,,"), server_first, without_proof))
    signature = hmac.new(hashlib.new(name, client_key).digest(), message, name).digest()
    assert base64.b64decode(proof) == bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_key = hmac.new(salted, b"Server Key", name).digest()
    return b"v=" + base64.b64encode(hmac.new(server_key, message, name).digest())


@pytest.mark.parametrize("mechanism", EXAMPLES)
def test_the_example_of_rfc_7677(mechanism: str) -> None:
    proof, final = EXAMPLES[mechanism]
    exchange = ScramExchange(mechanism, "user", Secret("pencil"), nonce=NONCE)
    assert (exchange.mechanism, exchange.blocks(None)) == (mechanism, False)
    assert exchange.first() == f"n,,n=user,r={NONCE}".encode()
    assert exchange.respond(SERVER_FIRST) == f"c=biws,r={FULL_NONCE},".encode() + proof
    assert exchange.respond(final) is None
    check_refused(exchange, final)


@pytest.mark.parametrize("mechanism", SCRAM_HASHES)
@pytest.mark.parametrize("tokenauth", [False, True])
def test_the_calculation_of_rfc_5802(mechanism: str, tokenauth: bool) -> None:
    exchange = ScramExchange(mechanism, "a=b,c", Secret("\u00ad\ufb01"), nonce=NONCE, tokenauth=tokenauth)
    first = exchange.first()
    assert first == f"n,,n=a=3Db=2Cc,r={NONCE}{',tokenauth=true' if tokenauth else ''}".encode()
    final = exchange.respond(SERVER_FIRST)
    assert final is not None
    assert exchange.respond(server_final(mechanism, first, SERVER_FIRST, final, "\u00ad\ufb01".encode())) is None


def test_unknown_optional_extensions_are_ignored() -> None:
    exchange = started()
    assert exchange.respond(SERVER_FIRST + b",x=anything,yy=more") is not None


def server_first(nonce: str = FULL_NONCE, salt: str = "W22ZaJ0SNY7soEsUEjb6gQ==", count: object = 4096) -> bytes:
    return f"r={nonce},s={salt},i={count}".encode()


@pytest.mark.parametrize(
    ("challenge", "said"),
    [
        pytest.param(server_first(NONCE), "does not extend", id="nonce equal"),
        pytest.param(server_first("another" + FULL_NONCE), "does not extend", id="nonce of another"),
        pytest.param(server_first(NONCE[:-1]), "does not extend", id="nonce cut"),
        pytest.param(server_first(FULL_NONCE + "\u00e9"), "its nonce has invalid characters", id="nonce not printable"),
        pytest.param(server_first(FULL_NONCE + " "), "its nonce has invalid characters", id="nonce with a blank"),
        *(
            pytest.param(server_first(count=count), f"demands {count} iterations", id=f"{count} iterations")
            for count in (1, 4095, 1_000_001, 2**31, 2**31 - 1)
        ),
        *(
            pytest.param(server_first(count=count), "number of iterations is", id=f"{count} iterations"[:30])
            for count in ("-1", "0", "04096", "+4096", "4096.0", "many", "\u0664096", "9" * 5000, "4_096", " 4096")
        ),
        pytest.param(server_first(count=""), "not a list of attributes", id="no iterations"),
        pytest.param(server_first(salt="!!!"), "salt is not base64", id="salt not base64"),
        pytest.param(server_first(salt="W22ZaJ0SNY7soEsUEjb6gQ="), "salt is not base64", id="salt cut"),
        pytest.param(server_first(salt="\u00e9"), "salt is not base64", id="salt not ASCII"),
        pytest.param(server_first(salt=""), "not a list of attributes", id="salt empty"),
        pytest.param(b"m=x," + server_first(), "requires an extension", id="mandatory extension first"),
        pytest.param(server_first() + b",m=x", "requires an extension", id="mandatory extension last"),
        pytest.param(server_first() + b",i=5000", "an attribute twice", id="iterations twice"),
        pytest.param(server_first() + b",r=" + FULL_NONCE.encode(), "an attribute twice", id="nonce twice"),
        pytest.param(b"e=unknown-user", "says 'unknown-user'", id="error"),
        pytest.param(b"e=other\nERROR forged line", "says 'other ERROR forged line'", id="error of two lines"),
        pytest.param(b"v=dHzb", "is not r=...,s=...,i=...", id="final message"),
        pytest.param(b"s=dHzb,r=x,i=4096", "is not r=...,s=...,i=...", id="another order"),
        pytest.param(b"", "not a list of attributes", id="empty"),
        pytest.param(b"\xff" * 100, "not a list of attributes", id="garbage"),
        pytest.param(server_first()[:-8], "not r=...,s=...,i=...|not a list", id="truncated"),
        pytest.param(server_first() + b",", "not a list of attributes", id="comma at the end"),
        pytest.param(b"r=" + b"x" * MAX_MESSAGE_BYTES, "has 65538 bytes", id="too long"),
    ],
)
def test_a_first_message_that_is_refused(challenge: bytes, said: str) -> None:
    refused = check_refused(started(), challenge)
    assert str(refused).startswith("SCRAM-SHA-256 with the broker failed: ")
    with pytest.raises(AuthenticationError, match=said):
        started().respond(challenge)


@pytest.mark.parametrize("count", [4096, 4097, 1_000_000])
def test_iterations_that_are_allowed(count: int) -> None:
    assert started().respond(server_first(count=count)) is not None


FINAL = EXAMPLES["SCRAM-SHA-256"][1]


@pytest.mark.parametrize(
    ("challenge", "said"),
    [
        pytest.param(FINAL.replace(b"6rri", b"7rri"), "signature is wrong", id="wrong signature"),
        pytest.param(b"v=" + base64.b64encode(b""), "not a list of attributes", id="no signature"),
        pytest.param(b"v=AAAA", "signature is wrong", id="short signature"),
        pytest.param(FINAL[:-1], "signature is not base64", id="truncated"),
        pytest.param(FINAL + b",v=AAAA", "an attribute twice", id="two signatures"),
        pytest.param(b"v=AAAA," + FINAL, "an attribute twice", id="two signatures, the second right"),
        pytest.param(b"x=1," + FINAL, "neither v=... nor e=...", id="not first"),
        pytest.param(b"m=x," + FINAL, "requires an extension", id="mandatory extension"),
        pytest.param(b"e=invalid-proof", "says 'invalid-proof'", id="error"),
        pytest.param(b"e=" + b"x" * 1000, "says 'x{300}[.]{3}'", id="long error"),
        pytest.param(SERVER_FIRST, "neither v=... nor e=...", id="the first message again"),
        pytest.param(b"", "not a list of attributes", id="empty"),
    ],
)
def test_a_final_message_that_is_refused(challenge: bytes, said: str) -> None:
    def at_the_end() -> ScramExchange:
        exchange = started()
        exchange.respond(SERVER_FIRST)
        return exchange

    check_refused(at_the_end(), challenge)
    with pytest.raises(AuthenticationError, match=said):
        at_the_end().respond(challenge)


def test_a_message_before_the_first() -> None:
    check_refused(ScramExchange("SCRAM-SHA-256", "user", Secret(CANARY), nonce=NONCE), SERVER_FIRST)


_attributes = st.lists(
    st.tuples(st.sampled_from(["r", "s", "i", "v", "e", "m", "x"]), st.text(max_size=8)).map(
        lambda pair: f"{pair[0]}={pair[1]}"
    )
).map(lambda parts: ",".join(parts).encode(errors="surrogatepass"))
_counts = st.integers(-10, 10_000_000) | st.text(max_size=5)
_damaged = st.builds(
    lambda count, cut, data: server_first(count=count).replace(b"\x00", b"")[:cut] + data,
    _counts.map(lambda count: str(count).encode(errors="replace").decode()),
    st.integers(0, 80),
    st.binary(max_size=4),
)


@given(first=st.binary() | _attributes | _damaged, after=st.booleans())
def test_whatever_the_broker_says_ends_in_one_error_within_limits(first: bytes, after: bool) -> None:
    exchange = ScramExchange("SCRAM-SHA-512", "user", Secret(CANARY), nonce=NONCE, keys=SHARED)
    exchange.first()
    if after:
        exchange.respond(SERVER_FIRST)
    begun = time.thread_time()
    try:
        response = exchange.respond(first)
    except AuthenticationError as refused:
        assert CANARY not in reported(refused)
    else:
        assert not after
        assert response is not None
    assert time.thread_time() - begun < 5.0


SHARED = ScramKeys()


def test_keys_are_derived_once_for_each_password_salt_and_count() -> None:
    keys = ScramKeys()
    for _ in range(3):
        started(keys=keys).respond(SERVER_FIRST)
    assert (keys.derivations, len(keys)) == (1, 1)
    started(keys=keys).respond(server_first(count=4097))
    started(keys=keys).respond(server_first(salt="AAAA"))
    started("SCRAM-SHA-512", keys=keys).respond(SERVER_FIRST)
    other = ScramExchange("SCRAM-SHA-256", "user", Secret("pencils"), nonce=NONCE, keys=keys)
    other.first()
    other.respond(SERVER_FIRST)
    assert (keys.derivations, len(keys)) == (5, 5)


def test_only_deriving_keys_takes_long() -> None:
    keys = ScramKeys()
    one = started(keys=keys)
    assert [one.blocks(challenge) for challenge in (SERVER_FIRST, b"garbage", None)] == [True, False, False]
    one.respond(SERVER_FIRST)
    assert not one.blocks(SERVER_FIRST), "the next one is the final message"
    other = started(keys=keys)
    assert [other.blocks(challenge) for challenge in (SERVER_FIRST, server_first(count=4097))] == [False, True]


def test_kept_keys_prove_the_same() -> None:
    keys = ScramKeys()
    assert {started(keys=keys).respond(SERVER_FIRST) for _ in range(2)} == {started().respond(SERVER_FIRST)}


def test_no_more_keys_are_kept_than_the_limit_and_the_oldest_goes() -> None:
    keys = ScramKeys(limit=2)
    for salt in ("AAAA", "BBBB", "CCCC", "BBBB", "CCCC"):
        started(keys=keys).respond(server_first(salt=salt))
    assert (keys.derivations, len(keys)) == (3, 2)
    started(keys=keys).respond(server_first(salt="AAAA"))
    assert (keys.derivations, len(keys)) == (4, 2)


def test_threads_may_share_keys() -> None:
    keys = ScramKeys(limit=3)
    responses: list[tuple[int, bytes | None]] = []

    def work() -> None:
        responses.extend((count, started(keys=keys).respond(server_first(count=count))) for count in range(4096, 4106))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    ended(*threads)
    assert len(keys) <= 3
    assert set(responses) == {(count, started().respond(server_first(count=count))) for count in range(4096, 4106)}
    assert len(responses) == 40


def test_nothing_shows_the_password_or_its_keys() -> None:
    keys = ScramKeys()
    exchange = ScramExchange("SCRAM-SHA-256", "user", Secret(CANARY), nonce=NONCE, keys=keys)
    exchange.first()
    exchange.respond(SERVER_FIRST)
    derived = keys.derive("SCRAM-SHA-256", CANARY.encode(), base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
    assert keys.derivations == 1
    for shown in (repr(exchange), repr(keys), repr(derived), str(derived), f"{vars(exchange)}"):
        assert CANARY not in shown
        assert repr(derived.client_key)[2:-1] not in shown
    assert repr(keys) == "ScramKeys(1 kept)"


@pytest.mark.parametrize("nonce", ["", "a,b", "a b", "a\n"])
def test_a_nonce_that_is_none(nonce: str) -> None:
    with pytest.raises(ValueError, match="a nonce must have printable characters"):
        ScramExchange("SCRAM-SHA-256", "user", Secret("x"), nonce=nonce)


@pytest.mark.parametrize(
    ("user", "password", "said"),
    [("", "x", "user name is empty"), ("a\0b", "x", "NUL"), ("u", f"{CANARY}\0", "password has a NUL")],
)
def test_credentials_that_the_mechanism_cannot_carry(user: str, password: str, said: str) -> None:
    exchange = ScramExchange("SCRAM-SHA-256", user, Secret(password), nonce=NONCE)
    with pytest.raises(AuthenticationError, match=said) as refused:
        exchange.first()
        exchange.respond(SERVER_FIRST)
    assert CANARY not in reported(refused.value)
