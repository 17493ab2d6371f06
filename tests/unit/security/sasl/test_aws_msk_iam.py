"""AWS_MSK_IAM, message by message, and the token that carries the same proof by OAUTHBEARER."""

import base64
import json
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.errors import AuthenticationError
from kafwire.secret import Secret
from kafwire.security.sasl.aws_msk_iam import AwsMskIamExchange, bearer_token, region_of
from kafwire.security.sasl.oauthbearer import OAuthBearerExchange
from kafwire.security.sasl.sigv4 import AwsCredentials, presigned
from tests.support.sasl_traps import CANARY, check_refused

HOST = "b-1.demo.abcde.c2.kafka.eu-west-1.amazonaws.com"
NOW = 1_440_938_160.0
PERMANENT = AwsCredentials("AKIDEXAMPLE", Secret(CANARY))
TEMPORARY = AwsCredentials("ASIAEXAMPLE", Secret(CANARY), Secret("session+token/="), 1_440_941_760.0)


def made(credentials: AwsCredentials = PERMANENT, region: str | None = None) -> AwsMskIamExchange:
    return AwsMskIamExchange(credentials, host=HOST, region=region, now=NOW, user_agent="kafwire/1")


def test_the_message_has_the_fields_of_the_library_for_java() -> None:
    exchange = made()
    assert (exchange.mechanism, exchange.blocks(None), exchange.expires_at) == ("AWS_MSK_IAM", False, None)
    sent = json.loads(exchange.first())
    signature = sent.pop("x-amz-signature")
    assert sent == {
        "version": "2020_10_22",
        "host": HOST,
        "user-agent": "kafwire/1",
        "action": "kafka-cluster:Connect",
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "x-amz-credential": "AKIDEXAMPLE/20150830/eu-west-1/kafka-cluster/aws4_request",
        "x-amz-date": "20150830T123600Z",
        "x-amz-signedheaders": "host",
        "x-amz-expires": "900",
    }
    query = {"Action": "kafka-cluster:Connect"}
    names = {"host": HOST, "region": "eu-west-1", "service": "kafka-cluster"}
    assert signature == presigned(PERMANENT, **names, query=query, now=NOW, expires_s=900)["X-Amz-Signature"]
    exchange.respond(b'{"version":"2020_10_22","request-id":"6f1e"}')
    check_refused(exchange, b"")


def test_temporary_credentials_bring_their_token() -> None:
    exchange = made(TEMPORARY)
    assert json.loads(exchange.first())["x-amz-security-token"] == "session+token/="
    assert exchange.expires_at == 1_440_941_760.0


@pytest.mark.parametrize(
    ("host", "region"),
    [
        (HOST, "eu-west-1"),
        (HOST.upper() + ".", "eu-west-1"),
        ("boot-abc123.c1.kafka-serverless.us-east-1.amazonaws.com", "us-east-1"),
        ("b-3-public.demo.x1y2.c7.kafka.ap-southeast-2.amazonaws.com", "ap-southeast-2"),
        ("b-1.demo.abcde.c3.kafka.cn-northwest-1.amazonaws.com.cn", "cn-northwest-1"),
        ("b-1.demo.abcde.c3.kafka.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("b-1.demo.abcde.c3.kafka.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1"),
        ("broker.example.com", None),
        ("10.0.0.1", None),
        ("kafka.eu-west-1.amazonaws.com.example.org", None),
        ("b-1.kafka.eu-west-1.amazonaws.org", None),
        ("", None),
    ],
)
def test_the_region_in_a_host_name(host: str, region: str | None) -> None:
    assert region_of(host) == region


def test_a_region_that_is_given_goes_first() -> None:
    assert "/us-east-2/" in json.loads(made(region="us-east-2").first())["x-amz-credential"]


def test_a_host_without_a_region() -> None:
    with pytest.raises(AuthenticationError, match="'broker.example.com' does not contain .* set sasl_aws_region"):
        AwsMskIamExchange(PERMANENT, host="broker.example.com", region=None, now=NOW)


@given(
    st.binary() | st.sampled_from([b"", b"{}", b"[]", b'{"version":"2020_10_22"}', b'{"request-id":""}', b"[" * 9999])
)
def test_any_other_reply_is_refused(response: bytes) -> None:
    exchange = made()
    exchange.first()
    check_refused(exchange, response)


def test_a_reply_before_the_first_message() -> None:
    check_refused(made(), b'{"request-id":"6f1e"}')


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("eu-west-1", "kafka.eu-west-1.amazonaws.com"),
        ("cn-north-1", "kafka.cn-north-1.amazonaws.com.cn"),
        ("eusc-de-east-1", "kafka.eusc-de-east-1.amazonaws.eu"),
    ],
)
def test_the_token_is_a_presigned_url(region: str, host: str) -> None:
    token = bearer_token(TEMPORARY, region=region, now=NOW, user_agent="kafwire/1")
    OAuthBearerExchange(Secret(token)).first()
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    assert (url.scheme, url.netloc, url.path) == ("https", host, "/")
    pairs = parse_qsl(url.query, strict_parsing=True)
    assert pairs[-1] == ("User-Agent", "kafwire/1")
    query = {"Action": "kafka-cluster:Connect"}
    assert dict(pairs[:-1]) == presigned(
        TEMPORARY, host=host, region=region, service="kafka-cluster", query=query, now=NOW, expires_s=900
    )


def test_nothing_shows_the_key() -> None:
    exchange = made()
    assert CANARY not in exchange.first().decode()
    assert CANARY not in repr(vars(exchange))
