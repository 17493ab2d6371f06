"""The AWS credentials of this process, as botocore finds them: environment, profile, container, instance, web identity.

botocore refreshes temporary credentials shortly before they expire. That takes requests, so all calls here block.
"""

from __future__ import annotations

import time
from typing import Any

from kafwire.errors import AuthenticationError, ConfigError
from kafwire.secret import Secret
from kafwire.security.oauth_token import OAuthToken
from kafwire.security.sasl.aws_msk_iam import EXPIRES_S, bearer_token
from kafwire.security.sasl.sigv4 import AwsCredentials

INSTALL = "AWS credentials need the package botocore: install kafwire[aws]"


class AmbientCredentials:
    """The credentials of this process, looked up at the first call and refreshed at later ones.

    Args:
        session: a `botocore.session.Session`; None: one with the defaults.

    Raises:
        ConfigError: botocore is not installed.
    """

    def __init__(self, session: Any = None) -> None:
        try:
            import botocore.session
        except ImportError:
            raise ConfigError(INSTALL) from None
        self._new_session = botocore.session.Session
        self._given = session
        self._session = session if session is not None else self._new_session()
        self._found: Any = None
        self._refused = False

    def __call__(self) -> AwsCredentials:
        """Return credentials that have not expired. Raises `AuthenticationError` if there are none."""
        try:
            if self._refused:
                self._refused, self._found = False, self._look_again()
            if self._found is None:
                self._found = self._session.get_credentials()
            frozen = self._found.get_frozen_credentials() if self._found is not None else None
        except Exception as problem:
            raise AuthenticationError(f"botocore found no AWS credentials: {type(problem).__name__}") from problem
        if frozen is None or not frozen.access_key or not frozen.secret_key:
            self._found = None
            raise AuthenticationError(
                "botocore found no AWS credentials: no environment variables, profile, container or instance has any"
            )
        token = Secret(frozen.token) if frozen.token else None
        return AwsCredentials(frozen.access_key, Secret(frozen.secret_key), token)

    def forget(self) -> None:
        """Look the credentials up again at the next call, because a broker refused these."""
        self._refused = True

    def _look_again(self) -> Any:
        """Look up again: sessions cache credentials, so take a new one, or ask the user's session's resolver."""
        if self._given is None:
            self._session = self._new_session()
            return None
        return self._given.get_component("credential_provider").load_credentials()


class AwsTokenProvider:
    """A token provider for clusters that accept IAM through OAUTHBEARER (Amazon MSK).

    Args:
        region: the cluster's region; None: the session's region.
        session: a `botocore.session.Session`; None: one with the defaults.

    Raises:
        ConfigError: botocore is not installed, or no region is configured.
    """

    def __init__(self, region: str | None = None, session: Any = None) -> None:
        self._credentials = AmbientCredentials(session)
        found = region or self._credentials._session.get_config_variable("region")
        if not found:
            raise ConfigError("AWS tokens need a region: set region= or AWS_DEFAULT_REGION")
        self._region: str = found

    def __call__(self) -> OAuthToken:
        """Return a token that is valid for 15 minutes. Raises `AuthenticationError` if there are no credentials."""
        now = time.time()
        return OAuthToken(bearer_token(self._credentials(), region=self._region, now=now), int(now) + EXPIRES_S)

    def forget(self) -> None:
        """Look the credentials up again at the next call, because a broker refused a token signed with them."""
        self._credentials.forget()
