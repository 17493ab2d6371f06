"""AWS_MSK_IAM: IAM authentication of Amazon MSK, as in aws-msk-iam-auth for Java.

The client presigns `kafka-cluster:Connect` for the broker's host and sends the parameters of the request as JSON. The
same signature, for the region's endpoint and as a URL in base64, is a token for OAUTHBEARER (`bearer_token`).
"""

from __future__ import annotations

import base64
import json
import re

from kafwire.config.sasl_mechanisms import AWS_MSK_IAM
from kafwire.errors import AuthenticationError
from kafwire.security.sasl.sigv4 import AwsCredentials, encoded, presigned
from kafwire.security.sasl.text import show

MECHANISM = AWS_MSK_IAM.name
SERVICE = "kafka-cluster"
ACTION = "kafka-cluster:Connect"
VERSION = "2020_10_22"
EXPIRES_S = 900

_OTHER_DOMAINS = {"cn-": "amazonaws.com.cn", "eusc-": "amazonaws.eu"}
_HOST = re.compile(r".+\.kafka(?:-serverless)?\.([a-z]{2,}(?:-[a-z]+)+-[0-9]+)\.amazonaws\.(?:com|com\.cn|eu)\.?")


def region_of(host: str) -> str | None:
    """Return the region in the host name of an MSK broker; None without one.

    Example:
        >>> region_of("b-1.demo.abcde.c2.kafka.eu-west-1.amazonaws.com")
        'eu-west-1'
    """
    match = _HOST.fullmatch(host.lower())
    return match[1] if match else None


class AwsMskIamExchange:
    """One authentication with AWS credentials.

    Args:
        credentials: the client's credentials.
        host: the broker's name, to which the client connected.
        region: the cluster's region; None: the region in the host's name.
        now: seconds since 1970.
        user_agent: the name of the client in the request.
    """

    mechanism = MECHANISM

    def __init__(
        self, credentials: AwsCredentials, *, host: str, region: str | None, now: float, user_agent: str = "kafwire"
    ) -> None:
        found = region or region_of(host)
        if not found:
            raise AuthenticationError(
                f"the host name {host!r} does not contain the cluster's AWS region: set sasl_aws_region"
            )
        self._credentials = credentials
        self._host = host
        self._region = found
        self._now = now
        self._user_agent = user_agent
        self._next = "first"
        self.expires_at = credentials.expires_at

    def blocks(self, challenge: bytes | None) -> bool:
        """Return False: nothing here takes long."""
        del challenge
        return False

    def first(self) -> bytes:
        """Return the signed request as JSON."""
        signed = presigned(
            self._credentials,
            host=self._host,
            region=self._region,
            service=SERVICE,
            query={"Action": ACTION},
            now=self._now,
            expires_s=EXPIRES_S,
        )
        self._next = "response"
        message = {"version": VERSION, "host": self._host, "user-agent": self._user_agent}
        message.update({name.lower(): value for name, value in signed.items()})
        return json.dumps(message, separators=(",", ":")).encode()

    def respond(self, challenge: bytes) -> None:
        """Check the broker's response, JSON with the id of the request. It ends the exchange."""
        expected, self._next = self._next, "nothing"
        if expected != "response":
            raise AuthenticationError("the broker sent an unexpected AWS_MSK_IAM message")
        try:
            response = json.loads(challenge)
        except (ValueError, RecursionError):
            response = None
        if not isinstance(response, dict) or not response.get("request-id"):
            raise AuthenticationError(
                f"the broker did not accept the AWS credentials: its response: {show(challenge)!r}"
            )


def bearer_token(credentials: AwsCredentials, *, region: str, now: float, user_agent: str = "kafwire") -> str:
    """Return a token for OAUTHBEARER, as aws-msk-iam-sasl-signer makes it; valid for `EXPIRES_S` seconds.

    Args:
        credentials: the client's credentials.
        region: the cluster's region.
        now: seconds since 1970.
        user_agent: the name of the client in the request.

    Returns:
        The presigned URL in base64.
    """
    domain = next((domain for prefix, domain in _OTHER_DOMAINS.items() if region.startswith(prefix)), "amazonaws.com")
    host = f"kafka.{region}.{domain}"
    signed = presigned(
        credentials,
        host=host,
        region=region,
        service=SERVICE,
        query={"Action": ACTION},
        now=now,
        expires_s=EXPIRES_S,
    )
    url = f"https://{host}/?{encoded(signed)}&{encoded({'User-Agent': user_agent})}"
    return base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
