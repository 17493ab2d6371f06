"""`sasl.jaas.config`: its entries, and the refusals, which show no value."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafwire
from kafwire.config.jaas import parse_jaas
from kafwire.errors import ConfigError
from kafwire.secret import Secret
from tests.support.sasl_traps import CANARY, reported

KAFKA = "org.apache.kafka.common.security."
PLAIN = f"{KAFKA}plain.PlainLoginModule"
SCRAM = f"{KAFKA}scram.ScramLoginModule"
OAUTH = f"{KAFKA}oauthbearer.OAuthBearerLoginModule"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
IAM = "software.amazon.msk.auth.iam.IAMLoginModule"


@pytest.mark.parametrize(
    ("text", "mechanisms", "options"),
    [
        (
            f'{PLAIN} required username="alice" password="p";',
            ("PLAIN",),
            {"sasl_username": "alice", "sasl_password": Secret("p")},
        ),
        (
            f"{SCRAM} REQUIRED username=alice password='p' tokenauth=true;",
            ("SCRAM-SHA-256", "SCRAM-SHA-512"),
            {"sasl_username": "alice", "sasl_password": Secret("p"), "sasl_tokenauth": True},
        ),
        (f'{SCRAM} optional tokenauth="False";', ("SCRAM-SHA-256", "SCRAM-SHA-512"), {"sasl_tokenauth": False}),
        (
            f"{OAUTH} required clientId='id' clientSecret='s' scope='a b' extension_a='l' extension_b='c';",
            ("OAUTHBEARER",),
            {
                "sasl_oauthbearer_client_id": "id",
                "sasl_oauthbearer_client_secret": Secret("s"),
                "sasl_oauthbearer_scope": "a b",
                "sasl_oauthbearer_extensions": {"a": "l", "b": "c"},
            },
        ),
        (f"{OAUTH} required ;", ("OAUTHBEARER",), {}),
        (
            f'{KERBEROS} required useKeyTab=true storeKey=true keyTab="/etc/a.keytab" principal="a/b@C";',
            ("GSSAPI",),
            {"sasl_kerberos_keytab": "/etc/a.keytab", "sasl_kerberos_principal": "a/b@C"},
        ),
        (
            f'{KERBEROS} required useTicketCache=true renewTGT=true serviceName="kafka";',
            ("GSSAPI",),
            {"sasl_kerberos_service_name": "kafka"},
        ),
        (f'{KERBEROS} required useKeyTab=false keyTab="/etc/a.keytab";', ("GSSAPI",), {}),
        (f"{IAM} required;", ("AWS_MSK_IAM",), {}),
    ],
)
def test_modules_name_their_mechanisms(text: str, mechanisms: tuple[str, ...], options: dict[str, Any]) -> None:
    found = parse_jaas(text)
    assert (found.module, found.mechanisms, found.options) == (text.split(maxsplit=1)[0], mechanisms, options)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('"a b"', "a b"),
        ("'it\"s'", 'it"s'),
        ('"a\\"b\\\\c"', 'a"b\\c'),
        ('"\\n\\t\\r\\a\\b\\f\\v\\q"', "\n\t\r\a\b\f\vq"),
        ('"\\101\\7\\0478\\477"', "A\x07'8'7"),
        ('"a;b=c//d/*e*/"', "a;b=c//d/*e*/"),
        ('""', ""),
        ("plain-text_1.2$3", "plain-text_1.2$3"),
        ("\u00e9\uff50\U0001f511", "\u00e9\uff50\U0001f511"),
        ('"\u00ad\ufb01\uff50"', "\u00ad\ufb01\uff50"),
        ("/* a comment */ 'x' // another\n", "x"),
        ("/ to the end of the line\n x", "x"),
        ("\t\r\n 'x' \n", "x"),
    ],
)
def test_values(written: str, meant: str) -> None:
    assert parse_jaas(f"{PLAIN} required password={written};").options == {"sasl_password": Secret(meant)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("  // nothing", "is empty"),
        ("= required;", "does not begin with a login module"),
        (f"{PLAIN}", "the login module must be followed by one of required, "),
        (f"{PLAIN} username={CANARY};", "the login module must be followed by one of required"),
        (f"{PLAIN} required username=a password={CANARY}", "does not end with a semicolon"),
        (f"{PLAIN} required password={CANARY}; {PLAIN} required;", "more than one entry"),
        (f"{PLAIN} required password={CANARY} x;", "after the option 'password', name=value is expected"),
        *(
            (
                f"{PLAIN} required password={value};",
                "after the (flag|option 'password'), name=value is expected; values",
            )
            for value in (f"1{CANARY}", f"{CANARY}:x", f"{CANARY}@x", f"-{CANARY}", f".{CANARY}", f"{CANARY}\\", "\x85")
        ),
        (f"{PLAIN} required password;", "after the flag, name=value is expected"),
        (f"{PLAIN} required password==;", "name=value is expected"),
        (f"{PLAIN} required password={CANARY}=x;", "after the option 'password', name=value is expected"),
        (
            f"{PLAIN} required password={CANARY} {CANARY} username=a;",
            "after the option 'password', name=value is expected",
        ),
        (f"{PLAIN} required password=a password={CANARY};", "has the option 'password' twice"),
        (f'{PLAIN} required password="{CANARY};', "a quote that is not closed on its line"),
        (f'{PLAIN} required password="{CANARY}\n";', "a quote that is not closed on its line"),
        (f"{PLAIN} required password='{CANARY}\\", "a quote that is not closed on its line"),
        (f"{PLAIN} required user={CANARY};", "PlainLoginModule has no option 'user' here"),
        (f"{PLAIN} required '{CANARY} x'={CANARY};", "PlainLoginModule has no option that is no name here"),
        (f"{IAM} required awsProfileName={CANARY};", "IAMLoginModule has no option 'awsProfileName' here"),
        (f"{OAUTH} required extension_={CANARY};", "has no option 'extension_' here"),
        (f"{OAUTH} required unsecuredLoginStringClaim_sub={CANARY};", "no option 'unsecuredLoginStringClaim_sub'"),
        (f"{SCRAM} required tokenauth={CANARY};", "tokenauth is true or false"),
        (f"{KERBEROS} required useKeyTab={CANARY};", "useKeyTab is true or false"),
        (f"{KERBEROS} required useKeyTab=true;", "useKeyTab=true needs keyTab"),
        (f"com.example.Module required x={CANARY};", "no login module 'com.example.Module', but PlainLoginModule, "),
    ],
)
def test_refused_texts(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as problem:
        parse_jaas(text)
    assert CANARY not in reported(problem.value)


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (' debug="x";', "PlainLoginModule has no option 'debug'"),
        ("", "does not end with a semicolon"),
        (' password="again";', "has the option 'password' twice"),
    ],
)
def test_no_frame_of_an_error_has_the_text_of_a_secret(end: str, said: str) -> None:
    text = Secret(f'{PLAIN} required username="u" password="{CANARY}"{end}')
    options = {"bootstrap.servers": "localhost:1", "security.protocol": "SASL_SSL", "sasl.jaas.config": text}
    with pytest.raises(ConfigError, match=said) as problem:
        kafwire.Producer.from_config(options)
    trace = problem.value.__traceback__
    assert problem.value.__context__ is None
    while trace is not None:
        assert CANARY not in repr(trace.tb_frame.f_locals) or "tests" in trace.tb_frame.f_code.co_filename
        trace = trace.tb_next


def test_a_secret_is_read() -> None:
    text = f'{PLAIN} required username="u" password="{CANARY}";'
    assert parse_jaas(Secret(text)) == parse_jaas(text)


def test_nothing_shows_a_secret() -> None:
    entry = parse_jaas(f"{OAUTH} required clientSecret={CANARY};")
    assert CANARY not in repr(entry)
    assert CANARY not in repr(parse_jaas(f"{PLAIN} required password={CANARY};"))


@given(st.text() | st.text("ab=;\"'/*\\ \n0127"))
def test_any_text_is_an_entry_or_a_config_error(text: str) -> None:
    for whole in (text, f"{PLAIN} required {text}", f"{PLAIN} required password={text};"):
        with contextlib.suppress(ConfigError):
            parse_jaas(whole)
