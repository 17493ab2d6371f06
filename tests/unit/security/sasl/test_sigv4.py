"""AWS Signature Version 4: AWS's published examples, and botocore's signer on the same requests."""

from __future__ import annotations

import datetime as dt
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.secret import Secret
from kafwire.security.sasl.sigv4 import AwsCredentials, encoded, presigned, signing_key
from tests.support.sasl_traps import CANARY

# Of AWS's documentation and its test suite of Signature Version 4.
SECRET = Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
NOW = dt.datetime(2015, 8, 30, 12, 36, tzinfo=dt.UTC).timestamp()


def test_the_documented_signing_key() -> None:
    assert signing_key(SECRET, "20150830", "us-east-1", "iam").hex() == (
        "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"
    )


def by_botocore(host: str, region: str, query: dict[str, str], token: str | None, expires_s: int) -> dict[str, str]:
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    signer = SigV4QueryAuth(Credentials("AKIDEXAMPLE", SECRET.reveal(), token), "kafka-cluster", region, expires_s)
    request = AWSRequest("GET", f"https://{host}/", params=query)
    signer.add_auth(request)
    return dict(parse_qsl(urlsplit(request.url).query, keep_blank_values=True))


@given(
    host=st.from_regex(r"[a-z0-9-]{1,20}(\.[a-z0-9-]{1,9}){1,4}", fullmatch=True),
    region=st.sampled_from(["us-east-1", "cn-north-1"]),
    query=st.dictionaries(
        st.from_regex(r"[A-Za-z~_./é-]{1,9}", fullmatch=True), st.text(" -~é", max_size=9), max_size=3
    ),
    token=st.none() | st.text("ab+/=", min_size=1, max_size=20),
    expires_s=st.integers(1, 604_800),
)
def test_botocore_signs_the_same(host: str, region: str, query: dict[str, str], token: Any, expires_s: int) -> None:
    theirs = by_botocore(host, region, query, token, expires_s)
    stamp = dt.datetime.strptime(theirs["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.UTC)
    credentials = AwsCredentials("AKIDEXAMPLE", SECRET, Secret(token) if token else None)
    ours = presigned(
        credentials,
        host=host,
        region=region,
        service="kafka-cluster",
        query=query,
        now=stamp.timestamp(),
        expires_s=expires_s,
    )
    assert ours == theirs


def test_the_signature_of_a_presigned_request_in_awss_test_suite() -> None:
    """Its case get-vanilla-query-order-key-case, signed in the query."""
    signed = presigned(
        AwsCredentials("AKIDEXAMPLE", SECRET),
        host="example.amazonaws.com",
        region="us-east-1",
        service="service",
        query={"Param2": "value2", "Param1": "value1"},
        now=NOW,
        expires_s=3600,
    )
    assert signed["X-Amz-Date"] == "20150830T123600Z"
    assert signed["X-Amz-Credential"] == "AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
    assert [*signed][-1] == "X-Amz-Signature"
    assert signed["X-Amz-Signature"] == "86012e2c9ad4d77369f5d81c11f75158aae4f895a085212cc6d3f923d300bed5"


def test_parameters_are_sorted_and_encoded() -> None:
    assert encoded({"b": "a b/+é", "A": "~", "a-c": ""}) == "A=~&a-c=&b=a%20b%2F%2B%C3%A9"


@pytest.mark.parametrize("token", [None, Secret(CANARY)])
def test_credentials_do_not_show(token: Secret | None) -> None:
    credentials = AwsCredentials("AKID", Secret(CANARY), token, 3.0)
    assert CANARY not in repr(credentials)
    assert credentials == AwsCredentials("AKID", Secret(CANARY), token)
